// Package folders knows what follows from the name of a class folder: its
// package, its generated files, and how a new one begins.
//
// It imports nothing of ours and reads no class, so that no state of the classes
// can keep it from working. Functions that make files return them by path, with
// slashes, relative to the root of the repository; Write puts them there.
package folders

import (
	"errors"
	"fmt"
	"go/token"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// functions is the folder that holds the class folders.
const functions = "functions"

// notClasses are folders of functions that hold no class.
var notClasses = []string{"cmd", "doctor", "survey"}

// notPackages are names that the generated files use for something else.
var notPackages = []string{"main", "init", "remedy", "serve"}

// maxClass is how long a class ID may be. It is a token of subjects, the name of
// a consumer and part of a function's name, which has 64 characters.
const maxClass = 48

var classPattern = regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]+)*$`)

// Name returns the name of the folder and package of a class: its ID without hyphens.
func Name(class string) string { return strings.ReplaceAll(class, "-", "") }

// ValidClass returns why an ID can't name an error class, or nil.
func ValidClass(id string) error {
	name := Name(id)
	switch {
	case id == "":
		return errors.New("a class needs an ID: make new CLASS=some-class")
	case !classPattern.MatchString(id):
		return fmt.Errorf("class ID %q: use lower-case words and digits with single hyphens between them, such as some-class", id)
	case len(id) > maxClass:
		return fmt.Errorf("class ID %q has %d characters: use at most %d", id, len(id), maxClass)
	case id == "ignored" || slices.Contains(notClasses, name):
		return fmt.Errorf("class ID %q means something else here: choose another", id)
	case token.IsKeyword(name) || slices.Contains(notPackages, name):
		return fmt.Errorf("class ID %q: a package can't be named %s here: choose another", id, name)
	}
	return nil
}

// List returns the names of the class folders of a tree, sorted. A class folder
// holds a Go file of its own name; the folder functions may be missing or empty.
func List(root fs.FS) ([]string, error) {
	entries, err := fs.ReadDir(root, functions)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", functions, err)
	}
	var names []string
	for _, e := range entries {
		name := e.Name()
		if !e.IsDir() || slices.Contains(notClasses, name) {
			continue
		}
		if _, err := fs.Stat(root, path.Join(functions, name, name+".go")); errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return nil, fmt.Errorf("look at class folder %s: %w", name, err)
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return names, nil
}

// Write writes those of the files that differ from what the tree has, and prints their names.
func Write(dir string, files map[string][]byte, out io.Writer) error {
	for _, name := range Differ(os.DirFS(dir), files) {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("make the folder of %s: %w", name, err)
		}
		if err := os.WriteFile(path, files[name], 0o644); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
		fmt.Fprintln(out, "wrote", name)
	}
	return nil
}

// Differ returns the names of the files that a tree lacks or has with another text, sorted.
func Differ(root fs.FS, files map[string][]byte) []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if old, err := fs.ReadFile(root, name); err != nil || string(old) != string(files[name]) {
			names = append(names, name)
		}
	}
	return names
}

// Remove removes files and the folders that are empty without them, and prints the files' names.
func Remove(dir string, names []string, out io.Writer) error {
	for _, name := range names {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove %s: %w", name, err)
		}
		fmt.Fprintln(out, "removed", name)
		// A folder that still holds something stays: os.Remove refuses it.
		for up := filepath.Dir(file); up != filepath.Join(dir, functions) && os.Remove(up) == nil; {
			up = filepath.Dir(up)
		}
	}
	return nil
}
