package rules

import (
	"go/ast"
	"slices"
	"strings"
)

// onWire are the functions of shared/kube that may read an answer of the API server. They limit how much they read.
var onWire = []string{"call", "read", "watch"}

// lists checks that lists are read by one function, and Events as evidence by one reader. The exporter may publish all Events,
// because a published Event is only a hint.
func lists(tr *tree) []string {
	var out []string
	for _, f := range tr.code() {
		in := strings.HasPrefix(f.name, "shared/kube/")
		if strings.HasPrefix(f.name, "test/") {
			continue
		}
		for _, d := range f.ast.Decls {
			fn, ok := d.(*ast.FuncDecl)
			ast.Inspect(d, func(n ast.Node) bool {
				s, is := n.(*ast.SelectorExpr)
				if !is {
					return true
				}
				of, _ := s.X.(*ast.Ident)
				switch {
				case of != nil && of.Name == "grant": // the permission, not the method
				case s.Sel.Name == "ListEvents" && !in && !strings.HasPrefix(f.name, "events/exporter/"):
					out = append(out, tr.at(s.Pos(), "an Event is evidence if the controller wrote it: read it by kube.Cluster.Evidence"))
				case in && s.Sel.Name == "stream" && (!ok || !slices.Contains(onWire, fn.Name.Name)):
					out = append(out, tr.at(s.Pos(), "only %s may read from the API server: they have bounds", list(onWire)))
				}
				return true
			})
		}
	}
	return out
}
