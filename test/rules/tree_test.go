// Package rules checks rules of the whole tree: imports, the reach of class code, the home of each library, comments, and forbidden words.
// A rule is a function from the tree to sentences; each sentence names a place, the violation and the correction. Rules read only source
// text, so they also work in a tree that does not build. Every rule has examples that break it (TestRules).
//
// The tables hold decisions that the design leaves open: packages of types (k8s.io/api, k8s.io/apimachinery, CloudEvents) are vocabulary,
// which several packages may import; other libraries have one home. Class code may use net/netip, which computes with addresses and does no
// I/O.
package rules

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/lbremedy/lbremedy"

type tree struct {
	fset     *token.FileSet
	files    []*file            // sorted by name
	packages map[string][]*file // Go files by folder
}

type file struct {
	name string // slash-separated, relative to the root
	text []byte
	mode fs.FileMode
	ast  *ast.File // nil if it is not Go
}

func read(root fs.FS) (*tree, error) {
	tr := &tree{fset: token.NewFileSet(), packages: map[string][]*file{}}
	err := fs.WalkDir(root, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() {
			if name == "bin" || name != "." && name != ".ci" && name != ".github" && strings.HasPrefix(e.Name(), ".") {
				return fs.SkipDir
			}
			return nil
		}
		if name == ".git" { // in a linked work tree, .git is a file
			return nil
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() {
			return nil
		}
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		f := &file{name: name, text: text, mode: info.Mode()}
		if path.Ext(name) == ".go" && !strings.Contains("/"+name, "/testdata/") {
			if f.ast, err = parser.ParseFile(tr.fset, name, text, parser.ParseComments|parser.SkipObjectResolution); err != nil {
				return err
			}
			tr.packages[f.dir()] = append(tr.packages[f.dir()], f)
		}
		tr.files = append(tr.files, f)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the tree: %w", err)
	}
	return tr, nil
}

// dir returns the file's folder, which is its package's path below the module; "." is the root.
func (f *file) dir() string { return path.Dir(f.name) }

func (f *file) test() bool {
	return strings.HasSuffix(f.name, "_test.go") || strings.HasPrefix(f.name, "test/")
}

func (tr *tree) code() []*file {
	return slices.DeleteFunc(slices.Clone(tr.files), func(f *file) bool { return f.ast == nil || f.test() })
}

func (f *file) binary() bool { return bytes.IndexByte(f.text, 0) >= 0 }

func (tr *tree) at(p token.Pos, format string, args ...any) string {
	pos := tr.fset.Position(p)
	return fmt.Sprintf("%s:%d: %s", pos.Filename, pos.Line, fmt.Sprintf(format, args...))
}

func (f *file) imports() map[string]*ast.ImportSpec {
	specs := map[string]*ast.ImportSpec{}
	for _, s := range f.ast.Imports {
		if p, err := strconv.Unquote(s.Path.Value); err == nil {
			specs[p] = s
		}
	}
	return specs
}

func (f *file) local(importPath string) string {
	s, ok := f.imports()[importPath]
	switch {
	case !ok:
		return ""
	case s.Name != nil:
		return s.Name.Name
	}
	return path.Base(importPath)
}

// matches reports whether a slash-separated path matches one of the patterns. In a pattern, * matches one element; a trailing
// /... matches the path before it and everything below.
func matches(p string, patterns ...string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		head, open := strings.CutSuffix(pattern, "...")
		if open && head == "" {
			return true
		}
		want := strings.Split(strings.TrimSuffix(head, "/"), "/")
		got := strings.Split(p, "/")
		if len(got) < len(want) || len(got) > len(want) && !open {
			return false
		}
		for i, w := range want {
			if ok, _ := path.Match(w, got[i]); !ok {
				return false
			}
		}
		return true
	})
}

func TestRepository(t *testing.T) {
	tr, err := read(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			for _, complaint := range r.check(tr) {
				t.Error(complaint)
			}
		})
	}
}

type rule struct {
	name  string
	check func(*tree) []string
}

var rules = []rule{
	{"imports", imports},
	{"reach", reach},
	{"libraries", libraries},
	{"test libraries", testLibraries},
	{"class code", classCode},
	{"class folders", classFolders},
	{"class sizes", classSizes},
	{"grants", grants},
	{"shape", shape},
	{"package comments", packageComments},
	{"docs", docs},
	{"init", inits},
	{"context", contexts},
	{"errors", errorTexts},
	{"log keys", logs},
	{"patterns", patterns},
	{"lists", lists},
	{"sentences", sentences},
	{"plain words", plain},
	{"twins", twins},
	{"pages of twins", translated},
	{"words", words},
	{"tags", tags},
	{"lines", lines},
	{"glossary", glossary},
	{"scripts", scripts},
	{"links", links},
	{"modules", modules},
	{"Makefile", makefile},
	{"commands", commands},
	{"shown commands", shown},
	{"copied commands", copied},
	{"readers", readers},
	{"workflows", workflows},
}
