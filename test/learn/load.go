package main

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A tree is the source of a Go module with the types of its packages. Imported packages have only declarations, without bodies.
type tree struct {
	dir, module string
	goroot      string
	fset        *token.FileSet
	build       build.Context
	info        *types.Info               // of the module's packages
	own         map[string][]*ast.File    // files of the module's packages, by path
	imported    map[string]*types.Package // all packages, by path
}

// load reads a module's folder, without tests. Imports are in vendor or the standard library; others become empty packages.
func load(dir string) (*tree, error) {
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return nil, err
	}
	name := regexp.MustCompile(`(?m)^module\s+(\S+)`).FindSubmatch(mod)
	if name == nil {
		return nil, fmt.Errorf("%s names no module", filepath.Join(dir, "go.mod"))
	}
	// With -trimpath, the program does not know the folder itself.
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("ask for the folder of the standard library: %w", err)
	}
	t := &tree{
		dir: dir, module: string(name[1]), goroot: strings.TrimSpace(string(root)), fset: token.NewFileSet(), build: build.Default,
		own: map[string][]*ast.File{}, imported: map[string]*types.Package{"unsafe": types.Unsafe},
		info: &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{}},
	}
	t.build.CgoEnabled = false
	return t, filepath.WalkDir(dir, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		if file != dir && slices.Contains([]string{"vendor", "test", "testdata"}, entry.Name()) || strings.HasPrefix(entry.Name(), ".") && file != dir {
			return filepath.SkipDir
		}
		below, err := filepath.Rel(dir, file)
		if err != nil {
			return err
		}
		_, err = t.Import(strings.TrimSuffix(t.module+"/"+filepath.ToSlash(below), "/."))
		return err
	})
}

func (t *tree) inside(p *types.Package) bool {
	return p != nil && (p.Path() == t.module || strings.HasPrefix(p.Path(), t.module+"/"))
}

func (t *tree) folder(path string) string {
	if below, ok := strings.CutPrefix(path+"/", t.module+"/"); ok {
		return filepath.Join(t.dir, below)
	}
	for _, dir := range []string{filepath.Join(t.dir, "vendor"), filepath.Join(t.goroot, "src"), filepath.Join(t.goroot, "src", "vendor")} {
		if _, err := os.Stat(filepath.Join(dir, path)); err == nil {
			return filepath.Join(dir, path)
		}
	}
	return ""
}

// Import implements types.Importer. It is tolerant: code that does not compile has no type.
func (t *tree) Import(path string) (*types.Package, error) {
	if p := t.imported[path]; p != nil {
		return p, nil
	}
	empty := types.NewPackage(path, path[strings.LastIndexByte(path, '/')+1:])
	empty.MarkComplete()
	t.imported[path] = empty
	dir := t.folder(path)
	if dir == "" {
		return empty, nil
	}
	found, _ := t.build.ImportDir(dir, 0) // errors are about one file, or an empty folder
	var files []*ast.File
	for _, name := range found.GoFiles {
		f, err := parser.ParseFile(t.fset, filepath.Join(dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	if len(files) == 0 {
		return empty, nil
	}
	config := types.Config{Importer: t, IgnoreFuncBodies: true, Error: func(error) {}, FakeImportC: true}
	var info *types.Info
	if t.inside(empty) {
		config.IgnoreFuncBodies, info = false, t.info
		t.own[path] = files
	}
	t.imported[path], _ = config.Check(path, t.fset, files, info) // Error ignores code that does not compile
	return t.imported[path], nil
}
