package rules

import (
	"go/ast"
	"go/token"
	"regexp"
	"strconv"
)

// patterns checks that regex.New gets a regular expression, which is compiled only when used. A name among the parts represents one.
func patterns(tr *tree) []string {
	var out []string
	for _, f := range tr.code() {
		ast.Inspect(f.ast, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) != 1 {
				return true
			}
			if s, ok := call.Fun.(*ast.SelectorExpr); !ok || s.Sel.Name != "New" {
				return true
			} else if in, ok := s.X.(*ast.Ident); !ok || in.Name != "regex" {
				return true
			}
			if _, err := regexp.Compile(spelled(call.Args[0])); err != nil {
				out = append(out, tr.at(call.Pos(), "%v", err))
			}
			return true
		})
	}
	return out
}

func spelled(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BinaryExpr:
		return spelled(e.X) + spelled(e.Y)
	case *ast.BasicLit:
		if text, err := strconv.Unquote(e.Value); e.Kind == token.STRING && err == nil {
			return text
		}
	}
	return "(x)"
}
