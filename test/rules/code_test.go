package rules

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"strconv"
	"strings"
)

func packageComments(tr *tree) []string {
	var out []string
	for _, dir := range sorted(tr.packages) {
		var said []*ast.CommentGroup
		var name string
		for _, f := range tr.packages[dir] {
			// The package that it tests documents an external test package.
			if n := f.ast.Name.Name; name == "" || !strings.HasSuffix(n, "_test") {
				name = n
			}
			if f.ast.Doc != nil && !strings.HasSuffix(f.ast.Name.Name, "_test") {
				said = append(said, f.ast.Doc)
			}
		}
		want := "Package " + name + " "
		if name == "main" {
			base := path.Base(dir)
			want = strings.ToUpper(base[:1]) + base[1:] + " "
		}
		switch {
		case len(said) == 0:
			out = append(out, fmt.Sprintf("%s: the package has no comment: say in one of its files what it is for: // %s…", dir, want))
		case len(said) > 1:
			out = append(out, tr.at(said[1].Pos(), "a second comment of package %s: move what it says to the first, at %s", dir, tr.fset.Position(said[0].Pos())))
		case !strings.HasPrefix(said[0].Text(), want):
			out = append(out, tr.at(said[0].Pos(), "the package comment begins with %q: begin it with %q", firstWords(said[0].Text()), want))
		case !endsWell(said[0].Text()):
			out = append(out, tr.at(said[0].Pos(), "the first paragraph of the package comment has no full stop at its end"))
		}
	}
	return out
}

func docs(tr *tree) []string {
	var out []string
	check := func(name *ast.Ident, doc *ast.CommentGroup) {
		switch {
		case doc.Text() == "":
			out = append(out, tr.at(name.Pos(), "%s has no comment: write a sentence that starts with its name: contract, units, errors", name.Name))
		case !named(doc.Text(), name.Name):
			out = append(out, tr.at(name.Pos(), "the comment of %s begins with %q: begin it with the name", name.Name, firstWords(doc.Text())))
		case !endsWell(doc.Text()):
			out = append(out, tr.at(name.Pos(), "the comment of %s has no full stop at the end of its first paragraph", name.Name))
		}
	}
	for _, dir := range sorted(tr.packages) {
		for _, f := range tr.packages[dir] {
			if strings.HasSuffix(f.name, "_test.go") {
				continue
			}
			for _, d := range f.ast.Decls {
				switch d := d.(type) {
				case *ast.FuncDecl:
					if d.Name.IsExported() && (d.Recv == nil || ast.IsExported(receiver(d))) {
						check(d.Name, d.Doc)
					}
				case *ast.GenDecl:
					checkDecl(d, check, &out, tr)
				}
			}
		}
	}
	return out
}

// checkDecl checks a declaration of types, constants or variables. The sentence of a group covers all of it.
func checkDecl(d *ast.GenDecl, check func(*ast.Ident, *ast.CommentGroup), out *[]string, tr *tree) {
	grouped := d.Lparen.IsValid()
	for _, s := range d.Specs {
		switch s := s.(type) {
		case *ast.TypeSpec:
			doc := s.Doc
			if doc == nil && !grouped {
				doc = d.Doc
			}
			if s.Name.IsExported() {
				check(s.Name, doc)
			}
		case *ast.ValueSpec:
			for i, name := range s.Names {
				switch {
				case !name.IsExported():
				case s.Doc != nil && i == 0:
					check(name, s.Doc)
				case !grouped && i == 0:
					check(name, d.Doc)
				case s.Doc == nil && s.Comment == nil && d.Doc == nil:
					*out = append(*out, tr.at(name.Pos(), "%s has no comment: write one for it, or a sentence for its group", name.Name))
				case s.Doc == nil && d.Doc != nil && !endsWell(d.Doc.Text()):
					*out = append(*out, tr.at(d.Pos(), "the comment of the group of %s has no full stop", name.Name))
				}
			}
		}
	}
}

func receiver(d *ast.FuncDecl) string {
	t := d.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}

func named(doc, name string) bool {
	for _, article := range []string{"", "A ", "An ", "The "} {
		rest, ok := strings.CutPrefix(doc, article+name)
		if ok && rest != "" && !isWord(rest[0]) {
			return true
		}
	}
	return false
}

func isWord(b byte) bool {
	return b == '_' || b >= '0' && b <= '9' || b >= 'A' && b <= 'Z' || b >= 'a' && b <= 'z'
}

func endsWell(doc string) bool {
	first, rest, _ := strings.Cut(strings.TrimSpace(doc), "\n\n")
	// A list or code may follow its lead without an empty line.
	for i, line := range strings.Split(first, "\n") {
		if i > 0 && (strings.HasPrefix(line, "\t") || strings.HasPrefix(line, "  ")) {
			first = strings.Join(strings.Split(first, "\n")[:i], "\n")
			rest = line
			break
		}
	}
	first = strings.TrimRight(first, ")\"”*` \n")
	return strings.HasSuffix(first, ".") || strings.HasSuffix(first, "?") || strings.HasSuffix(first, ":") && rest != ""
}

func firstWords(s string) string {
	words := strings.Fields(s)
	return strings.Join(words[:min(4, len(words))], " ")
}

func inits(tr *tree) []string {
	var out []string
	for _, f := range tr.files {
		if f.ast == nil {
			continue
		}
		for _, d := range f.ast.Decls {
			if d, ok := d.(*ast.FuncDecl); ok && d.Recv == nil && d.Name.Name == "init" {
				out = append(out, tr.at(d.Pos(), "a function init: importing a package changes nothing; write the value out, or make it where it is used"))
			}
		}
	}
	return out
}

// outlive are the packages that need a context longer than any call: the connection to NATS is renewed forever.
var outlive = []string{"shared/stream"}

// contexts checks that contexts come first, begin in main, and are not stored, unless the type gives the reason in a comment.
func contexts(tr *tree) []string {
	var out []string
	for _, f := range tr.code() {
		pkg := f.local("context")
		if pkg == "" {
			continue
		}
		is := func(e ast.Expr, name string) bool {
			sel, ok := e.(*ast.SelectorExpr)
			if !ok || sel.Sel.Name != name {
				return false
			}
			x, ok := sel.X.(*ast.Ident)
			return ok && x.Name == pkg
		}
		excused := map[*ast.StructType]bool{}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				// Main is the main function of generated programs.
				return n.Name.Name != "Main"
			case *ast.GenDecl:
				for _, s := range n.Specs {
					s, ok := s.(*ast.TypeSpec)
					if !ok {
						continue
					}
					if t, ok := s.Type.(*ast.StructType); ok {
						excused[t] = strings.Contains(n.Doc.Text()+s.Doc.Text(), "context")
					}
				}
			case *ast.FuncType:
				for i, p := range n.Params.List {
					if i > 0 && is(p.Type, "Context") {
						out = append(out, tr.at(p.Pos(), "the context comes first among the parameters"))
					}
				}
			case *ast.StructType:
				for _, field := range n.Fields.List {
					if is(field.Type, "Context") && !excused[n] && field.Doc.Text()+field.Comment.Text() == "" {
						out = append(out, tr.at(field.Pos(), "a context is handed on and not stored: if it has to be, say why in a comment"))
					}
				}
			case *ast.CallExpr:
				if is(n.Fun, "Background") && f.ast.Name.Name != "main" && !matches(f.dir(), outlive...) {
					out = append(out, tr.at(n.Pos(), "context.Background belongs to main and to tests: take a context; context.WithoutCancel outlives its end"))
				}
			}
			return true
		})
	}
	return out
}

var sentence = regexp.MustCompile(`(?:[.!]|\\n)$`)

// errorTexts checks that errors say what was being done, and can be wrapped.
func errorTexts(tr *tree) []string {
	var out []string
	for _, f := range tr.code() {
		texts := map[string]string{f.local("fmt"): "Errorf", f.local("errors"): "New"}
		delete(texts, "")
		ast.Inspect(f.ast, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) == 0 {
				return true
			}
			sel, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			pkg, ok := sel.X.(*ast.Ident)
			if !ok || texts[pkg.Name] != sel.Sel.Name {
				return true
			}
			lit, ok := call.Args[0].(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				return true
			}
			text, err := strconv.Unquote(lit.Value)
			if err != nil {
				return true
			}
			switch {
			case strings.Contains(strings.ToLower(text), "failed to "):
				out = append(out, tr.at(lit.Pos(), "error %q: say what was being done; that it failed is plain", text))
			case sentence.MatchString(text):
				out = append(out, tr.at(lit.Pos(), "error %q: leave out what ends it; others wrap it", text))
			}
			return true
		})
	}
	return out
}
