// Package pages reads the commands on the pages of the tree, for tests to run them. Commands are in fenced blocks of language sh, or
// console if the block also shows output; then they begin with "$ ". A first line in a block that begins with "# Needs" says what the
// commands need and no test has, such as an account. The tests in runners run all others.
package pages

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A Command is one command on a page.
type Command struct {
	Page  string // relative to the root of the repository
	Line  int
	Text  string
	Needs string // what no test has; empty: a test runs it
}

// String returns the place and the text of the command.
func (c Command) String() string { return fmt.Sprintf("%s:%d: %s", c.Page, c.Line, c.Text) }

type runner struct{ begins, folder string }

// runners are all runners. Tests do what make and go test do, or run under these, so test/rules only checks that their targets exist.
var runners = []runner{
	{"make ", "test/rules"},
	{"go test ", "test/rules"},
	{"bin/sandbox run -- go test ", "test/rules"},
	{"bin/lbremedy ", "test/e2e/safety"},
	{"lbremedy ", "test/e2e/safety"},
	{"infra/ram/roles.sh ", "infra/ram"},
	{"go run ./infra/keys ", "infra/keys"},
	{"openssl ", "infra/keys"},
}

// Runner returns the folder of the test that runs the command, or "".
func (c Command) Runner() string {
	for _, r := range runners {
		if strings.HasPrefix(c.Text, r.begins) {
			return r.folder
		}
	}
	return ""
}

// Runners returns the folders of the tests that run commands, sorted.
func Runners() []string {
	var folders []string
	for _, r := range runners {
		folders = append(folders, r.folder)
	}
	slices.Sort(folders)
	return slices.Compact(folders)
}

// Of returns the commands for the test in a folder, at least one. root is the root of the repository relative to it.
func Of(t testing.TB, root, folder string) []Command {
	t.Helper()
	var all []Command
	each(t, root, func(name, text string) {
		commands, _ := Read(name, text)
		all = append(all, slices.DeleteFunc(commands, func(c Command) bool { return c.Needs != "" || c.Runner() != folder })...)
	})
	if len(all) == 0 {
		t.Fatalf("no page shows a command for %s", folder)
	}
	return all
}

// Mentions returns the commands of a program that sentences on the pages mention as code, rather than show as commands to type.
func Mentions(t testing.TB, root, program string) []Command {
	t.Helper()
	code := regexp.MustCompile("`(" + program + " [^`]+)`")
	var all []Command
	each(t, root, func(name, text string) {
		for i, line := range strings.Split(text, "\n") {
			for _, m := range code.FindAllStringSubmatch(line, -1) {
				all = append(all, Command{Page: name, Line: i + 1, Text: m[1]})
			}
		}
	})
	return all
}

func each(t testing.TB, root string, do func(name, text string)) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && name != "." && (name == "bin" || strings.HasPrefix(e.Name(), ".")):
			return fs.SkipDir
		case path.Ext(name) != ".md":
			return nil
		}
		text, err := fs.ReadFile(os.DirFS(root), name)
		do(name, string(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Read returns the commands of a page, and errors in its blocks.
func Read(page, text string) (all []Command, wrong []string) {
	language, needs, in, open := "", "", false, 0
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if fence, ok := strings.CutPrefix(line, "```"); ok {
			if in = !in; !in {
				continue
			}
			language, needs, open = fence, "", i
			if language == "" {
				wrong = append(wrong, fmt.Sprintf("%s:%d: a block of no language: say ```sh of commands, "+
					"```console of commands and what they print, ```text of what is neither", page, i+1))
			}
			continue
		}
		if !in || language != "sh" && language != "console" {
			continue
		}
		if i == open+1 && strings.HasPrefix(line, "# Needs ") {
			needs = line
			continue
		}
		if language == "console" {
			typed, ok := strings.CutPrefix(line, "$ ")
			if !ok {
				continue
			}
			line = typed
		}
		// For a multi-line command or a loop, the first line is enough to mark it.
		if line != "" && line[0] != '#' {
			all = append(all, Command{Page: page, Line: i + 1, Text: line, Needs: needs})
		}
	}
	return all, wrong
}
