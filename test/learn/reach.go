package main

import (
	"go/ast"
	"go/token"
	"go/types"
	"regexp"
	"slices"
	"strings"
)

// standIns are packages with replacements of the cloud: calls through an interface do not count as calls of these.
var standIns = []string{"pkg/provider/dryrun", "pkg/provider/vmock"}

// A unit is a function or package variable with its uses: units of the module, and functions from outside.
type unit struct {
	node ast.Node
	uses []types.Object
}

type graph struct {
	*tree
	units    map[types.Object]*unit
	concrete []*types.Named                 // possible types of interface values
	meant    map[*types.Func][]types.Object // functions for an interface method
}

func graphOf(t *tree) *graph {
	g := &graph{tree: t, units: map[types.Object]*unit{}, meant: map[*types.Func][]types.Object{}}
	for path, files := range t.own {
		scope := t.imported[path].Scope()
		for _, name := range scope.Names() {
			o, isType := scope.Lookup(name).(*types.TypeName)
			if isType && !types.IsInterface(o.Type()) && !slices.Contains(standIns, strings.TrimPrefix(path, t.module+"/")) {
				if n, ok := o.Type().(*types.Named); ok {
					g.concrete = append(g.concrete, n)
				}
			}
		}
		for _, f := range files {
			for _, d := range f.Decls {
				g.declare(d)
			}
		}
	}
	for _, u := range g.units {
		w := walker{graph: g, unit: u}
		w.walk(u.node, nil)
	}
	return g
}

func (g *graph) declare(d ast.Decl) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if o := g.info.Defs[d.Name]; o != nil {
			g.units[o] = &unit{node: d}
		}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			if v, ok := s.(*ast.ValueSpec); ok && d.Tok == token.VAR {
				for _, name := range v.Names {
					if o := g.info.Defs[name]; o != nil {
						g.units[o] = &unit{node: v}
					}
				}
			}
		}
	}
}

type walker struct {
	*graph
	*unit
}

func (w *walker) walk(n ast.Node, results *types.Tuple) {
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if n.Body != nil {
				w.walk(n.Body, w.info.Defs[n.Name].Type().(*types.Signature).Results())
			}
			return false
		case *ast.FuncLit:
			if s, ok := w.info.TypeOf(n).(*types.Signature); ok {
				w.walk(n.Body, s.Results())
			}
			return false
		case *ast.Ident:
			w.use(w.info.Uses[n])
		case *ast.ReturnStmt:
			for i, r := range n.Results {
				if results != nil && len(n.Results) == results.Len() {
					w.becomes(results.At(i).Type(), r)
				}
			}
		case *ast.AssignStmt:
			for i, r := range n.Rhs {
				if len(n.Lhs) == len(n.Rhs) {
					w.becomes(w.info.TypeOf(n.Lhs[i]), r)
				}
			}
		case *ast.CallExpr:
			w.passes(n)
		case *ast.KeyValueExpr:
			if key, ok := n.Key.(*ast.Ident); ok && w.info.Uses[key] != nil {
				w.becomes(w.info.Uses[key].Type(), n.Value)
			}
		}
		return true
	})
}

func (w *walker) passes(call *ast.CallExpr) {
	s, ok := w.info.TypeOf(call.Fun).(*types.Signature)
	for i, arg := range call.Args {
		switch {
		case !ok: // a conversion
			w.becomes(w.info.TypeOf(call.Fun), arg)
		case s.Variadic() && i >= s.Params().Len()-1:
			if list, ok := s.Params().At(s.Params().Len() - 1).Type().(*types.Slice); ok {
				w.becomes(list.Elem(), arg)
			}
		case i < s.Params().Len():
			w.becomes(s.Params().At(i).Type(), arg)
		}
	}
}

// use records an object; for an interface method, its possible functions.
func (w *walker) use(o types.Object) {
	if f, ok := o.(*types.Func); ok {
		if found := w.behind(f.Origin()); found != nil {
			w.uses = append(w.uses, found...)
			return
		}
		o = f.Origin()
	}
	if o != nil && o.Pkg() != nil {
		w.uses = append(w.uses, o)
	}
}

// behind returns the possible functions of an interface method of the module, or nil for other functions.
func (g *graph) behind(f *types.Func) []types.Object {
	if found, ok := g.meant[f]; ok {
		return found
	}
	recv := f.Signature().Recv()
	if recv == nil || !types.IsInterface(recv.Type()) || !g.inside(f.Pkg()) {
		g.meant[f] = nil
		return nil
	}
	found := []types.Object{}
	for _, n := range g.concrete {
		if types.Implements(types.NewPointer(n), recv.Type().Underlying().(*types.Interface)) {
			found = append(found, method(n, f))
		}
	}
	g.meant[f] = found
	return found
}

func method(n *types.Named, f *types.Func) types.Object {
	o, _, _ := types.LookupFieldOrMethod(types.NewPointer(n), true, f.Pkg(), f.Name())
	return o
}

func named(t types.Type) *types.Named {
	if t == nil {
		return nil
	}
	if p, ok := types.Unalias(t).(*types.Pointer); ok {
		t = p.Elem()
	}
	n, _ := types.Unalias(t).(*types.Named)
	return n
}

// becomes records a conversion: if the target is an interface from outside the module, such as a Reconciler, outside code calls its methods.
func (w *walker) becomes(target types.Type, value ast.Expr) {
	if target == nil {
		return
	}
	outer, ok := types.Unalias(target).(*types.Named)
	if !ok || !types.IsInterface(target) || outer.Obj().Pkg() == nil || w.inside(outer.Obj().Pkg()) {
		return
	}
	n := named(w.info.TypeOf(value))
	if n == nil || types.IsInterface(n) || !w.inside(n.Obj().Pkg()) {
		return
	}
	for m := range outer.Underlying().(*types.Interface).Methods() {
		if o := method(n, m); o != nil {
			w.uses = append(w.uses, o)
		}
	}
}

var (
	olderSDK = regexp.MustCompile(`/alibaba-cloud-sdk-go/services/([a-z]+)$`)
	newerSDK = regexp.MustCompile(`/alibabacloud-go/([a-z]+)[a-z-]*-[0-9]{8}/`)
)

// actionOf returns the RAM action of a cloud client's method, such as slb:CreateLoadBalancer, from its request parameter's name; or "".
func actionOf(f *types.Func) string {
	s := f.Signature()
	if s.Recv() == nil || s.Params().Len() == 0 || f.Pkg() == nil {
		return ""
	}
	product := olderSDK.FindStringSubmatch(f.Pkg().Path())
	if product == nil {
		product = newerSDK.FindStringSubmatch(f.Pkg().Path() + "/")
	}
	request := named(s.Params().At(0).Type())
	if product == nil || request == nil {
		return ""
	}
	name, ok := strings.CutSuffix(request.Obj().Name(), "Request")
	if !ok {
		return ""
	}
	return product[1] + ":" + name
}

func (g *graph) from(start types.Object) map[types.Object]*unit {
	seen := map[types.Object]*unit{}
	todo := []types.Object{start}
	for len(todo) > 0 {
		o := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if u := g.units[o]; u != nil && seen[o] == nil {
			seen[o] = u
			todo = append(todo, u.uses...)
		}
	}
	return seen
}
