package main

import (
	"cmp"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// The kinds of facts in display order, with an example.
const (
	controllers = "controller" // clb
	annotations = "annotation" // clb scheduler
	immutables  = "immutable"  // clb ip-version
	defaults    = "default"    // spec=slb.s1.small
	events      = "event"      // Service Warning SyncLoadBalancerFailed
	texts       = "text"       // format of a sync's error, or of an Event on a Service
	actions     = "action"     // nlb nlb:CreateLoadBalancer
	wrappers    = "wrapper"    // format of an error that wraps, and is decided by, another one of the module; not compared
)

var kinds = []string{controllers, annotations, immutables, defaults, events, texts, actions}

// Facts are the names of each kind, with their places in the source.
type Facts map[string]map[string][]string

func (f Facts) add(kind, name string, where ...string) {
	if f[kind] == nil {
		f[kind] = map[string][]string{}
	}
	list := append(f[kind][name], where...)
	slices.Sort(list)
	f[kind][name] = slices.Compact(list)
}

var reconcilers = map[string]string{
	"pkg/controller/service/clbv1": "clb",
	"pkg/controller/service/nlbv2": "nlb",
	"pkg/controller/node":          "node",
	"pkg/controller/route":         "route",
}

type reader struct {
	*graph
	facts  Facts
	values map[types.Object][]ast.Expr // assigned values of variables, fields and parameters
}

func read(t *tree) Facts {
	r := &reader{graph: graphOf(t), facts: Facts{}, values: map[types.Object][]ast.Expr{}}
	for _, u := range r.units {
		r.assigned(u.node)
		r.defaults(u.node)
	}
	for path := range t.own {
		add, ok := t.imported[path].Scope().Lookup("Add").(*types.Func)
		if !ok || !strings.Contains(path, "/controller/") {
			continue
		}
		below := strings.TrimPrefix(path, t.module+"/")
		name := cmp.Or(reconcilers[below], below)
		r.facts.add(controllers, name, r.at(add.Pos()))
		for _, u := range r.from(add) {
			r.reached(u, name, reconcilers[below] != "")
		}
	}
	return r.facts
}

func (r *reader) reached(u *unit, name string, compared bool) {
	for _, o := range u.uses {
		if f, ok := o.(*types.Func); ok && compared && actionOf(f) != "" {
			r.facts.add(actions, name+" "+actionOf(f), r.at(u.node.Pos()))
		}
	}
	if _, ok := u.node.(*ast.FuncDecl); !ok {
		return
	}
	side := name == "clb" || name == "nlb"
	ast.PreorderStack(u.node, nil, func(n ast.Node, stack []ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			f := r.callee(n)
			if f == nil {
				break
			}
			if f.Name() == asksDefault {
				return false
			}
			r.recorded(f, n, side, compared)
			if compared {
				r.text(name, f, n, stack)
			}
		case *ast.CompositeLit:
			r.written(n)
		}
		if e, ok := n.(ast.Expr); ok && side {
			if short := r.annotation(e, stack[len(stack)-1]); short != "" {
				r.facts.add(annotations, name+" "+short, r.at(e.Pos()))
			}
		}
		return true
	})
}

const (
	annotationPrefix = "service.beta.kubernetes.io/"
	shortPrefix      = "loadbalancer-"
	wholePrefix      = annotationPrefix + "alibaba-cloud-" + shortPrefix
	asksDefault      = "GetDefaultValue" // returns an annotation's default, without a Service
)

// annotation returns the annotation in an expression by the tables' name, or "". A whole key has to be an index of annotations,
// because labels have the same prefix.
func (r *reader) annotation(e ast.Expr, in ast.Node) string {
	text, _ := r.constant(e)
	if short, ok := strings.CutPrefix(text, shortPrefix); ok {
		return short
	}
	index, ok := in.(*ast.IndexExpr)
	if !ok || !strings.HasPrefix(text, annotationPrefix) {
		return ""
	}
	if of, ok := index.X.(*ast.SelectorExpr); !ok || of.Sel.Name != "Annotations" {
		return ""
	}
	return strings.TrimPrefix(text, wholePrefix)
}

func (r *reader) asked(e ast.Expr) (list []string) {
	ast.Inspect(e, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && r.callee(call) != nil && r.callee(call).Name() == asksDefault {
			return false
		}
		if e, ok := n.(ast.Expr); ok {
			if text, _ := r.constant(e); strings.HasPrefix(text, shortPrefix) {
				list = append(list, strings.TrimPrefix(text, shortPrefix))
			}
		}
		return true
	})
	return list
}

func (r *reader) assigned(n ast.Node) {
	note := func(target, value ast.Expr) {
		if o := r.object(target); o != nil {
			r.values[o] = append(r.values[o], value)
		}
	}
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for i, target := range n.Lhs {
				note(target, n.Rhs[min(i, len(n.Rhs)-1)]) // each of a call's results has the call
			}
		case *ast.KeyValueExpr:
			note(n.Key, n.Value)
		case *ast.CallExpr:
			f := r.callee(n)
			if f == nil || r.units[f] == nil {
				break
			}
			for i, arg := range n.Args[:min(len(n.Args), f.Signature().Params().Len())] {
				p := f.Signature().Params().At(i)
				r.values[p] = append(r.values[p], arg)
			}
		}
		return true
	})
}

func (r *reader) object(e ast.Expr) types.Object {
	switch e := e.(type) {
	case *ast.Ident:
		if o := r.info.Defs[e]; o != nil {
			return o
		}
		return r.info.Uses[e]
	case *ast.SelectorExpr:
		return r.info.Uses[e.Sel]
	}
	return nil
}

func (r *reader) defaults(n ast.Node) {
	v, ok := n.(*ast.ValueSpec)
	if !ok {
		return
	}
	for _, value := range v.Values {
		list, ok := value.(*ast.CompositeLit)
		if !ok {
			continue
		}
		for _, e := range list.Elts {
			pair, ok := e.(*ast.KeyValueExpr)
			if !ok {
				continue
			}
			if is, ok := r.constant(pair.Value); ok {
				for _, short := range r.asked(pair.Key) {
					r.facts.add(defaults, short+"="+is, r.at(pair.Pos()))
				}
			}
		}
	}
}

func (r *reader) callee(call *ast.CallExpr) *types.Func {
	f, _ := r.object(call.Fun).(*types.Func)
	return f
}

func (r *reader) constant(e ast.Expr) (string, bool) {
	v := r.info.Types[e].Value
	if v == nil || v.Kind() != constant.String {
		return "", false
	}
	return constant.StringVal(v), true
}

func (r *reader) at(pos token.Pos) string {
	p := r.fset.Position(pos)
	return filepath.ToSlash(strings.TrimPrefix(p.Filename, r.dir+string(filepath.Separator))) + ":" + strconv.Itoa(p.Line)
}
