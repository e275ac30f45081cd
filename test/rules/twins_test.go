package rules

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/lbremedy/lbremedy/shared/say"
)

// catalogues is the folder that has a folder for each language other than English.
const catalogues = "shared/say/"

// twinsOfHelp has the twins of help texts. Help is concatenated at run time, so a test of the root command compares it with this file.
const twinsOfHelp = "help.json"

// ofClasses matches the catalogues of classes: adding a class changes only its own folder.
const ofClasses = "functions/*/say.zh.json"

// countless formats need no twin: they read the same in every language.
var countless = []string{"%s", "%d", "%v", "%q"}

// twins checks that each format that people read has a twin with the same verbs in every other language, and each twin a format.
// Formats are literal arguments of the functions that make texts; strings concatenated at run time have no twin.
func twins(tr *tree) []string {
	formats, out := sentencesOf(tr)
	seen := map[string]string{} // by language and format, the file
	languages := map[string]bool{}
	for _, f := range tr.files {
		dir := f.dir()
		language := path.Base(dir)
		if matches(f.name, ofClasses) {
			language = "chinese"
		} else if !strings.HasPrefix(dir+"/", catalogues) || dir+"/" == catalogues || path.Ext(f.name) != ".json" {
			continue
		}
		languages[language] = true
		var list map[string]string
		if err := json.Unmarshal(f.text, &list); err != nil {
			out = append(out, fmt.Sprintf("%s: it is no object of texts: %v", f.name, err))
			continue
		}
		for _, english := range sorted(list) {
			twin := list[english]
			other, twice := seen[language+" "+english]
			seen[language+" "+english] = f.name
			switch {
			case twice:
				out = append(out, fmt.Sprintf("%s: %q has another twin in %s: leave one", f.name, english, other))
			case formats[english] == "" && path.Base(f.name) != twinsOfHelp:
				out = append(out, fmt.Sprintf("%s: nothing says %q any more: remove it", f.name, english))
			case strings.TrimSpace(twin) == "":
				out = append(out, fmt.Sprintf("%s: the twin of %q is empty", f.name, english))
			case !slices.Equal(verbs(english), verbs(twin)):
				out = append(out, fmt.Sprintf("%s: %q has the verbs %v, its twin %q has %v: give it the same, as %%[2]s where the order differs",
					f.name, english, verbs(english), twin, verbs(twin)))
			case !slices.Equal(commandsIn(english), commandsIn(twin)):
				out = append(out, fmt.Sprintf("%s: %q has the commands %q, its twin %q has %q", f.name, english, commandsIn(english), twin, commandsIn(twin)))
			}
		}
	}
	for _, language := range sorted(languages) {
		for _, english := range sorted(formats) {
			if _, ok := seen[language+" "+english]; !ok && !slices.Contains(countless, english) {
				out = append(out, fmt.Sprintf("%s: %q has no twin in %s%s or %s", formats[english], english, catalogues, language, ofClasses))
			}
		}
	}
	return out
}

var command = regexp.MustCompile(`lbremedy( [a-z]+)+ --[a-z-]+|--[a-z][a-z-]+`)

// commandsIn returns the commands of lbremedy with their first flag, and the other flags, sorted.
func commandsIn(text string) []string {
	return slices.Sorted(slices.Values(command.FindAllString(text, -1)))
}

var verb = regexp.MustCompile(`%(?:\[(\d+)\])?([-+# 0]*\d*(?:\.\d+)?)([a-zA-Z%])`)

func verbs(format string) []string {
	n, out := 0, []string{}
	for _, m := range verb.FindAllStringSubmatch(format, -1) {
		if m[3] == "%" {
			continue
		}
		n++
		if m[1] != "" {
			n, _ = strconv.Atoi(m[1]) // digits
		}
		out = append(out, fmt.Sprintf("%%[%d]%s%s", n, m[2], m[3]))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// sayers are the methods, and package functions with their package, that take a format that people read, with its argument number.
var sayers = map[string]int{
	"command.Wrong": 0, "command.Exactly": 2, "say.F": 0, "say.Errorf": 0, "say.Or": 1, "say.Count": 1, ".And": 0,
	".Phrase": 0, ".Note": 0, ".Say": 0, ".Field": 0, ".Quoted": 0, ".line": 0, ".list": 0,
}

// wordsOfTemplates defines the functions of templates; the templates themselves contain the words that they count.
const wordsOfTemplates = "functions/cmd/lbremedy/console/server.go"

// mistakes passes formats on; they are literals at its callers.
const mistakes = "shared/command/command.go"

var counted = regexp.MustCompile(`\bcount [^"{}]*"([^"]+)"`)

var told = regexp.MustCompile(`\bsay ("(?:[^"\\]|\\.)*")`)

// sentencesOf returns the formats that people read, each with one place that uses it, and complaints about formats that are not literals.
func sentencesOf(tr *tree) (map[string]string, []string) {
	var out []string
	formats := map[string]string{}
	add := func(where, sayer, format string) {
		all := []string{format}
		if sayer == "say.Count" {
			all = []string{"1 " + format, "%d " + format + "s"}
			if strings.HasSuffix(format, "s") {
				all[1] = "%d " + format + "es"
			}
		}
		for _, one := range all {
			if one != "" && formats[one] == "" {
				formats[one] = where
			}
		}
	}
	for _, f := range tr.files {
		if ext := path.Ext(f.name); (ext == ".html" || ext == ".tmpl") && !f.test() && !strings.Contains(f.name, "testdata") {
			for _, m := range counted.FindAllStringSubmatch(string(f.text), -1) {
				add(f.name, "say.Count", m[1])
			}
			if ext == ".html" {
				say.Markup(string(f.text), func(words string) string {
					add(f.name, "", words)
					return words
				})
			}
			for _, m := range told.FindAllStringSubmatch(string(f.text), -1) {
				if text, err := strconv.Unquote(m[1]); err == nil {
					add(f.name, "", text)
				}
			}
		}
	}
	for _, f := range tr.files { // the title of a class or a check is the first line of its page
		if m := heading.FindSubmatch(f.text); m != nil && path.Base(f.name) != "README.md" && !strings.HasSuffix(f.name, chinesePage) &&
			(matches(f.name, "functions/*/doc.md") || matches(f.dir(), "functions/doctor") && path.Ext(f.name) == ".md") {
			add(f.name, "", string(m[1]))
		}
	}
	for _, f := range tr.code() {
		local := f.local(module + "/shared/say")
		commands := f.local(module + "/shared/command")
		inside := f.dir() == strings.TrimSuffix(catalogues, "/")
		words := func(e ast.Expr) {
			ast.Inspect(e, func(n ast.Node) bool {
				if lit, ok := n.(*ast.BasicLit); ok {
					if text, ok := literal(lit); ok {
						add(tr.place(lit), "", text)
					}
				}
				return true
			})
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if set, ok := n.(*ast.AssignStmt); ok && isOne(set.Lhs[0], "columns") { // columns of a table
				words(set.Rhs[0])
			}
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			sayer, at := "", -1
			switch fun := call.Fun.(type) {
			case *ast.Ident:
				switch {
				case fun.Name == "word" && f.dir() == path.Dir(wordsOfTemplates):
					sayer, at = "word", 0
				case f.dir() == "shared/command" && (fun.Name == "Wrong" || fun.Name == "Exactly"):
					sayer = "command." + fun.Name
					at = sayers[sayer]
				case inside && fun.Name == "F":
					sayer, at = "say.F", 0
				case inside && fun.Name == "join":
					for _, part := range call.Args[2:] {
						if text, ok := literal(part); ok {
							add(tr.place(part), sayer, text)
						}
					}
				}
			case *ast.SelectorExpr:
				sayer = "." + fun.Sel.Name
				if sayer == ".Table" && isOne(fun.X, "p") { // of a Program
					for _, a := range call.Args {
						words(a)
					}
				}
				if local != "" && isOne(fun.X, local) {
					sayer = "say" + sayer
				}
				if commands != "" && isOne(fun.X, commands) {
					sayer = "command" + sayer
				}
				if number, ok := sayers[sayer]; ok {
					at = number
				}
			}
			if at < 0 || at >= len(call.Args) {
				return true
			}
			if text, ok := literal(call.Args[at]); ok {
				add(tr.place(call), sayer, text)
			} else if !inside && strings.HasPrefix(sayer, "say.") && f.name != wordsOfTemplates && f.name != mistakes {
				out = append(out, tr.at(call.Pos(), "the format of %s is no literal, so that nothing holds that it has a twin: write it there", sayer))
			}
			return true
		})
	}
	return formats, out
}

func (tr *tree) place(n ast.Node) string {
	pos := tr.fset.Position(n.Pos())
	return fmt.Sprintf("%s:%d", pos.Filename, pos.Line)
}

func literal(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind != token.STRING {
			return "", false
		}
		s, err := strconv.Unquote(e.Value)
		return s, err == nil
	case *ast.ParenExpr:
		return literal(e.X)
	case *ast.BinaryExpr:
		a, first := literal(e.X)
		b, second := literal(e.Y)
		return a + b, first && second && e.Op == token.ADD
	}
	return "", false
}

func TestTwins(t *testing.T) {
	const source = `package busy
import "` + module + `/shared/say"
func f(n int, what string) say.Text {
	return say.F("It has %s of %d.", what, n).And("One " + "more.").
		And("Fix it: lbremedy doctor --fix all.").Then(say.Count(n, "class")).Then(say.Or(what, "none"))
}`
	whole := map[string]string{
		"It has %s of %d.": "%[2]d 个中有 %[1]s。", "One more.": "还有一个。",
		"Fix it: lbremedy doctor --fix all.": "请修复：lbremedy doctor --fix all。", "1 class": "1 个类别", "%d classes": "%d 个类别", "none": "无",
	}
	for _, c := range []struct {
		name, source string
		change       map[string]string
		want         []string
	}{
		{name: "whole", source: source},
		{name: "a format without a twin", source: source, change: map[string]string{"One more.": "-"}, want: []string{`"One more." has no twin`}},
		{name: "a count without a twin", source: source, change: map[string]string{"%d classes": "-"}, want: []string{`"%d classes" has no twin`}},
		{name: "a twin without a format", source: source, change: map[string]string{"Gone.": "无。"}, want: []string{`nothing says "Gone." any more`}},
		{name: "an empty twin", source: source, change: map[string]string{"none": " "}, want: []string{`the twin of "none" is empty`}},
		{name: "other verbs", source: source, change: map[string]string{"It has %s of %d.": "%d 个中有 %s。"}, want: []string{"has the verbs"}},
		{name: "a verb too few", source: source, change: map[string]string{"It has %s of %d.": "有 %s。"}, want: []string{"has the verbs"}},
		{name: "another command", source: source, change: map[string]string{"Fix it: lbremedy doctor --fix all.": "请修复：lbremedy repair --fix all。"},
			want: []string{"has the commands"}},
		{name: "no literal", source: strings.Replace(source, `"It has`, `what + "It has`, 1), want: []string{"is no literal", `nothing says "It has`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			list := maps.Clone(whole)
			for english, twin := range c.change {
				if list[english] = twin; twin == "-" {
					delete(list, english)
				}
			}
			data, err := json.Marshal(list)
			if err != nil {
				t.Fatal(err)
			}
			tr, err := read(fstest.MapFS{
				"functions/busy/busy.go":          {Data: []byte(c.source)},
				"shared/say/chinese/classes.json": {Data: data},
			})
			if err != nil {
				t.Fatal(err)
			}
			got := twins(tr)
			if len(got) != len(c.want) {
				t.Fatalf("got %q, want %q", got, c.want)
			}
			for i, part := range c.want {
				if !strings.Contains(got[i], part) {
					t.Errorf("got %q, want %q in it", got[i], part)
				}
			}
		})
	}
}
