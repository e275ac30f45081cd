package main

import (
	"cmp"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Kinds of facts, in the order in which they are shown.
const (
	controllers = "controller" // a package that adds a reconciler
	annotations = "annotation" // "clb scheduler"
	immutables  = "immutable"  // "clb ip-version"
	defaults    = "default"    // "spec=slb.s1.small"
	events      = "event"      // "Service Warning SyncLoadBalancerFailed"
	texts       = "text"       // a format of an error or of an Event on a Service
	actions     = "action"     // "nlb nlb:CreateLoadBalancer"
)

var kinds = []string{controllers, annotations, immutables, defaults, events, texts, actions}

// Facts are the names of each kind, and where each is in the source.
type Facts map[string]map[string][]string

func (f Facts) add(kind, name string, where ...string) {
	if f[kind] == nil {
		f[kind] = map[string][]string{}
	}
	for _, w := range append(where, f[kind][name]...) {
		if !slices.Contains(f[kind][name], w) {
			f[kind][name] = append(f[kind][name], w)
		}
	}
	if f[kind][name] == nil {
		f[kind][name] = []string{}
	}
}

// The reconcilers that are compared with the tables, by the folder of their package.
var reconcilers = map[string]string{
	"pkg/controller/service/clbv1": "clb",
	"pkg/controller/service/nlbv2": "nlb",
	"pkg/controller/node":          "node",
	"pkg/controller/route":         "route",
}

// A reader reads facts from a graph.
type reader struct {
	*graph
	facts  Facts
	fields map[types.Object][]string   // annotations that a field of a model gets its value from
	values map[types.Object][]ast.Expr // what is assigned to a variable or field
	infos  map[ast.Expr]*types.Info    // of the values
	unit   *unit
}

// read returns what the source tree says.
func read(t *tree) Facts {
	g := graphOf(t)
	r := &reader{graph: g, facts: Facts{}, fields: map[types.Object][]string{}, values: map[types.Object][]ast.Expr{}, infos: map[ast.Expr]*types.Info{}}
	for _, u := range g.units {
		r.unit = u
		r.assigned()
		r.defaults()
	}
	for _, p := range t.packs() {
		add, ok := p.types.Scope().Lookup("Add").(*types.Func)
		if !ok || !strings.Contains(p.path, "/controller/") {
			continue
		}
		below := strings.TrimPrefix(p.path, t.module+"/")
		name := cmp.Or(reconcilers[below], below)
		r.facts.add(controllers, name, r.at(add.Pos()))
		for _, u := range g.from(add) {
			r.unit = u
			r.reconciler(name)
		}
	}
	return r.facts
}

// reconciler reads the facts of a unit that one reaches.
func (r *reader) reconciler(name string) {
	known := slices.Contains([]string{"clb", "nlb", "node", "route"}, name)
	for _, a := range r.unit.apis {
		if known {
			r.facts.add(actions, name+" "+a.action, r.at(a.at))
		}
	}
	var within []*ast.IfStmt
	ast.PreorderStack(r.unit.node, nil, func(n ast.Node, stack []ast.Node) bool {
		within = within[:0]
		for _, outer := range stack {
			if s, ok := outer.(*ast.IfStmt); ok {
				within = append(within, s)
			}
		}
		switch n := n.(type) {
		case *ast.CallExpr:
			if f := r.callee(n); f != nil {
				if f.Name() == "GetDefaultValue" {
					return false // it asks what an annotation is without the Service's
				}
				r.event(f, n)
				if name == "clb" || name == "nlb" {
					r.text(name, f, n, within)
				}
			}
		case *ast.CompositeLit:
			r.written(n)
		}
		if e, ok := n.(ast.Expr); ok && (name == "clb" || name == "nlb") {
			if short := r.annotation(e, stack); short != "" {
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
)

// annotation returns the annotation that the expression names, as the tables call it; empty if it names none. A whole key counts as
// an index of annotations: labels have the same prefix.
func (r *reader) annotation(e ast.Expr, stack []ast.Node) string {
	text, ok := r.constant(e)
	if !ok {
		return ""
	}
	if short, ok := strings.CutPrefix(text, shortPrefix); ok {
		return short
	}
	index, ok := stack[len(stack)-1].(*ast.IndexExpr)
	if !ok || !strings.HasPrefix(text, annotationPrefix) {
		return ""
	}
	if of, ok := index.X.(*ast.SelectorExpr); !ok || of.Sel.Name != "Annotations" {
		return ""
	}
	return strings.TrimPrefix(text, wholePrefix)
}

// assigned notes what the unit gives to variables and fields.
func (r *reader) assigned() {
	note := func(target ast.Expr, value ast.Expr) {
		var o types.Object
		switch target := target.(type) {
		case *ast.Ident:
			o = cmp.Or(r.unit.pack.info.Defs[target], r.unit.pack.info.Uses[target])
		case *ast.SelectorExpr:
			o = r.unit.pack.info.Uses[target.Sel]
		}
		if o == nil {
			return
		}
		r.values[o] = append(r.values[o], value)
		r.infos[value] = r.unit.pack.info
		ast.Inspect(value, func(n ast.Node) bool {
			if e, ok := n.(ast.Expr); ok {
				if text, ok := r.constant(e); ok && strings.HasPrefix(text, shortPrefix) {
					r.fields[o] = append(r.fields[o], strings.TrimPrefix(text, shortPrefix))
				}
			}
			call, ok := n.(*ast.CallExpr)
			return !ok || r.callee(call) == nil || r.callee(call).Name() != "GetDefaultValue"
		})
	}
	ast.Inspect(r.unit.node, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for i, value := range n.Rhs {
				if len(n.Lhs) == len(n.Rhs) || i == 0 {
					note(n.Lhs[i], value)
				}
			}
		case *ast.KeyValueExpr:
			if key, ok := n.Key.(*ast.Ident); ok {
				note(key, n.Value)
			}
		}
		return true
	})
}

// defaults reads a variable of the package that maps annotations to values.
func (r *reader) defaults() {
	v, ok := r.unit.node.(*ast.ValueSpec)
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
			is, ok := r.constant(pair.Value)
			ast.Inspect(pair.Key, func(n ast.Node) bool {
				if e, isExpr := n.(ast.Expr); isExpr && ok {
					if text, _ := r.constant(e); strings.HasPrefix(text, shortPrefix) {
						r.facts.add(defaults, strings.TrimPrefix(text, shortPrefix)+"="+is, r.at(pair.Pos()))
					}
				}
				return true
			})
		}
	}
}

// event reads a call of a recorder.
func (r *reader) event(f *types.Func, call *ast.CallExpr) {
	about := slices.Index([]string{"Event", "Eventf", "AnnotatedEventf"}, f.Name()) // AnnotatedEventf has annotations second
	recv := f.Type().(*types.Signature).Recv()
	if about < 0 || recv == nil || !strings.HasSuffix(types.TypeString(recv.Type(), nil), ".EventRecorder") {
		return
	}
	rest := call.Args[1:]
	if f.Name() == "AnnotatedEventf" {
		rest = call.Args[2:]
	}
	sort, reason := r.word(rest[0]), r.word(rest[1])
	for _, kind := range r.objects(call.Args[0], r.unit.pack.info, nil) {
		r.facts.add(events, kind+" "+sort+" "+reason, r.at(call.Pos()))
		if kind == "Service" && len(rest) > 2 {
			r.format(rest[2], call.Pos(), false)
		}
	}
}

// written reads an Event that is written without a recorder.
func (r *reader) written(list *ast.CompositeLit) {
	if t := r.unit.pack.info.TypeOf(list); t == nil || !strings.HasSuffix(types.TypeString(t, nil), "k8s.io/api/core/v1.Event") {
		return
	}
	value := func(of ast.Expr, name string) ast.Expr {
		inner, ok := of.(*ast.CompositeLit)
		if !ok {
			return nil
		}
		for _, e := range inner.Elts {
			if pair, ok := e.(*ast.KeyValueExpr); ok {
				if key, ok := pair.Key.(*ast.Ident); ok && key.Name == name {
					return pair.Value
				}
			}
		}
		return nil
	}
	about := value(list, "InvolvedObject")
	if about == nil {
		return // it is what an Event is about
	}
	reason := r.word(value(list, "Reason"))
	if reason == "?" {
		reason = r.word(value(value(list, "ObjectMeta"), "Name"))
	}
	r.facts.add(events, r.word(value(about, "Kind"))+" "+r.word(value(list, "Type"))+" "+reason, r.at(list.Pos()))
}

// objects returns the kinds of what an Event is about: those of the type, or those of a reference by all that is assigned to it.
func (r *reader) objects(e ast.Expr, info *types.Info, seen []types.Object) []string {
	t := info.TypeOf(e)
	if p, ok := t.(*types.Pointer); ok {
		t = p.Elem()
	}
	n, ok := t.(*types.Named)
	switch {
	case !ok || types.IsInterface(n):
		return []string{"?"}
	case n.Obj().Name() != "ObjectReference":
		return []string{n.Obj().Name()}
	}
	var o types.Object
	switch e := e.(type) {
	case *ast.UnaryExpr:
		return r.objects(e.X, info, seen)
	case *ast.CompositeLit:
		for _, part := range e.Elts {
			if pair, ok := part.(*ast.KeyValueExpr); ok && types.ExprString(pair.Key) == "Kind" {
				if text := info.Types[pair.Value].Value; text != nil {
					return []string{constant.StringVal(text)}
				}
			}
		}
		return []string{"?"}
	case *ast.Ident:
		o = cmp.Or(info.Uses[e], info.Defs[e])
	case *ast.SelectorExpr:
		o = info.Uses[e.Sel]
	}
	var all []string
	for _, value := range r.values[o] {
		if !slices.Contains(seen, o) {
			all = append(all, r.objects(value, r.infos[value], append(seen, o))...)
		}
	}
	slices.Sort(all)
	if all = slices.Compact(all); len(all) == 0 && len(seen) == 0 {
		return []string{"?"}
	}
	return all
}

// once is how errors call an attribute that cannot be changed.
var once = regexp.MustCompile(`can not change|cannot be changed`)

// text reads an error that is made from a format, and the attribute that it says cannot be changed.
func (r *reader) text(side string, f *types.Func, call *ast.CallExpr, within []*ast.IfStmt) {
	if name := f.FullName(); name != "fmt.Errorf" && name != "errors.New" && name != "github.com/pkg/errors.New" && name != "github.com/pkg/errors.Errorf" {
		return
	}
	wraps := slices.ContainsFunc(call.Args[1:], func(e ast.Expr) bool {
		if types.Implements(r.unit.pack.info.TypeOf(e), types.Universe.Lookup("error").Type().Underlying().(*types.Interface)) {
			return true
		}
		inner, ok := e.(*ast.CallExpr)
		return ok && r.callee(inner) != nil && r.callee(inner).FullName() == "(error).Error"
	})
	format := r.format(call.Args[0], call.Pos(), wraps)
	if !once.MatchString(format) || len(within) == 0 {
		return
	}
	ast.Inspect(within[len(within)-1].Cond, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			for _, short := range r.fields[r.unit.pack.info.Uses[s.Sel]] {
				r.facts.add(immutables, side+" "+short, r.at(call.Pos()))
			}
		}
		return true
	})
}

// format notes a text, unless another error decides what it means, and returns it.
func (r *reader) format(e ast.Expr, at token.Pos, wraps bool) string {
	if call, ok := e.(*ast.CallExpr); ok && r.callee(call) != nil && r.callee(call).FullName() == "fmt.Sprintf" {
		e = call.Args[0]
	}
	text, ok := r.constant(e)
	if ok {
		name := texts
		if wraps {
			name = "wrapper"
		}
		r.facts.add(name, text, r.at(at))
	}
	return text
}

// callee returns the function that is called; nil if that is a value.
func (r *reader) callee(call *ast.CallExpr) *types.Func {
	var name *ast.Ident
	switch f := call.Fun.(type) {
	case *ast.Ident:
		name = f
	case *ast.SelectorExpr:
		name = f.Sel
	default:
		return nil
	}
	f, _ := r.unit.pack.info.Uses[name].(*types.Func)
	return f
}

// constant returns the text that an expression always has.
func (r *reader) constant(e ast.Expr) (string, bool) {
	v := r.unit.pack.info.Types[e].Value
	if v == nil || v.Kind() != constant.String {
		return "", false
	}
	return constant.StringVal(v), true
}

// word returns the constant text of an expression, or "?".
func (r *reader) word(e ast.Expr) string {
	if e == nil {
		return "?"
	}
	text, ok := r.constant(e)
	if !ok {
		return "?"
	}
	return text
}

// at returns file and line below the tree's folder.
func (r *reader) at(pos token.Pos) string {
	p := r.fset.Position(pos)
	file, err := filepath.Rel(r.dir, p.Filename)
	if err != nil {
		file = p.Filename
	}
	return filepath.ToSlash(file) + ":" + strconv.Itoa(p.Line)
}
