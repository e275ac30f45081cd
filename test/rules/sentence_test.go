package rules

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
)

// sayings are the fields of records, plans and holds that people read.
var sayings = []string{"Rule", "Decided", "Finding", "Ask", "Note", "rule"}

// deciders are the packages that decide which writes are made and who is asked.
var deciders = []string{"shared/remedy", "shared/engine", "shared/ccm", "shared/policy", "shared/policy/policyfile", "shared/ticket"}

// sentences checks that decisions do not depend on sentences, which are for people, beyond comparing one with the empty string.
func sentences(tr *tree) []string {
	var out []string
	for _, f := range tr.code() {
		if !slices.Contains(deciders, f.dir()) {
			continue
		}
		complain := func(pos token.Pos) {
			out = append(out, tr.at(pos, "a decision reads a sentence: compare a code, such as Record.Reason, and let the sentence be for people"))
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BinaryExpr:
				if (n.Op == token.EQL || n.Op == token.NEQ) && (saying(n.X) && !none(n.Y) || saying(n.Y) && !none(n.X)) {
					complain(n.Pos())
				}
			case *ast.SwitchStmt:
				if n.Tag != nil && saying(n.Tag) {
					complain(n.Tag.Pos())
				}
			case *ast.CallExpr:
				fun, ok := n.Fun.(*ast.SelectorExpr)
				if !ok || !isOne(fun.X, "strings", "regexp", "bytes") && !strings.HasPrefix(fun.Sel.Name, "Match") {
					return true
				}
				if slices.ContainsFunc(n.Args, saying) {
					complain(n.Pos())
				}
			}
			return true
		})
	}
	return out
}

func saying(e ast.Expr) bool {
	s, ok := e.(*ast.SelectorExpr)
	return ok && slices.Contains(sayings, s.Sel.Name)
}

func none(e ast.Expr) bool {
	lit, ok := e.(*ast.BasicLit)
	return ok && (lit.Value == `""` || lit.Value == "``")
}

func isOne(e ast.Expr, names ...string) bool {
	id, ok := e.(*ast.Ident)
	return ok && slices.Contains(names, id.Name)
}
