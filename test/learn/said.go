package main

import (
	"go/ast"
	"go/types"
	"regexp"
	"slices"
	"strings"
)

const unknown = "?"

func (r *reader) recorded(f *types.Func, call *ast.CallExpr, side, compared bool) {
	recv := f.Signature().Recv()
	if recv == nil || !strings.HasSuffix(types.TypeString(recv.Type(), nil), ".EventRecorder") {
		return
	}
	at := 1
	switch f.Name() {
	case "Event", "Eventf":
	case "AnnotatedEventf":
		at = 2
	default:
		return
	}
	for _, kind := range r.objects(call.Args[0], nil) {
		sorts := r.words(call.Args[at], nil)
		for _, sort := range sorts {
			for _, reason := range r.words(call.Args[at+1], nil) {
				r.facts.add(events, kind+" "+sort+" "+reason, r.at(call.Pos()))
			}
		}
		if kind == "Service" && side || compared && (kind == "Node" || kind == "Event") && slices.Contains(sorts, "Warning") {
			r.format(texts, call.Args[at+2], call)
		}
	}
}

// written reads an Event that is written without a recorder. It uses its name if that is constant.
func (r *reader) written(list *ast.CompositeLit) {
	about := part(list, "InvolvedObject")
	if about == nil || !strings.HasSuffix(types.TypeString(r.info.TypeOf(list), nil), "k8s.io/api/core/v1.Event") {
		return
	}
	reason, ok := r.constant(part(part(list, "ObjectMeta"), "Name"))
	if !ok {
		reason = strings.Join(r.words(part(list, "Reason"), nil), ",")
	}
	kind := strings.Join(r.words(part(about, "Kind"), nil), ",")
	r.facts.add(events, kind+" "+strings.Join(r.words(part(list, "Type"), nil), ",")+" "+reason, r.at(list.Pos()))
}

func part(e ast.Expr, field string) ast.Expr {
	list, ok := e.(*ast.CompositeLit)
	if !ok {
		return nil
	}
	for _, e := range list.Elts {
		if pair, ok := e.(*ast.KeyValueExpr); ok && types.ExprString(pair.Key) == field {
			return pair.Value
		}
	}
	return nil
}

func (r *reader) words(e ast.Expr, seen []types.Object) []string {
	if text, ok := r.constant(e); ok {
		return []string{text}
	}
	return r.each(e, seen, r.words)
}

func (r *reader) objects(e ast.Expr, seen []types.Object) []string {
	if n := named(r.info.TypeOf(e)); n != nil && !types.IsInterface(n) && n.Obj().Name() != "ObjectReference" {
		return []string{n.Obj().Name()}
	}
	if address, ok := e.(*ast.UnaryExpr); ok {
		e = address.X
	}
	if kind, ok := r.constant(part(e, "Kind")); ok {
		return []string{kind}
	}
	return r.each(e, seen, r.objects)
}

func (r *reader) each(e ast.Expr, seen []types.Object, of func(ast.Expr, []types.Object) []string) (all []string) {
	o := r.object(e)
	if o != nil && slices.Contains(seen, o) {
		return nil
	}
	for _, value := range r.values[o] {
		if o != nil {
			all = append(all, of(value, append(seen, o))...)
		}
	}
	slices.Sort(all)
	if all = slices.Compact(all); len(all) == 0 {
		return []string{unknown}
	}
	return all
}

var once = regexp.MustCompile(`can not change|cannot be changed`)

// text reads an error with a format, and the attribute that it calls immutable: the one in the enclosing condition.
func (r *reader) text(side string, f *types.Func, call *ast.CallExpr, stack []ast.Node) {
	switch f.FullName() {
	case "fmt.Errorf", "errors.New", "github.com/pkg/errors.New", "github.com/pkg/errors.Errorf":
	default:
		return
	}
	if slices.ContainsFunc(call.Args[1:], func(e ast.Expr) bool { return r.wraps(e, call) }) {
		r.format(wrappers, call.Args[0], call)
		return
	}
	format := r.format(texts, call.Args[0], call)
	if !once.MatchString(format) {
		return
	}
	for _, outer := range slices.Backward(stack) {
		s, ok := outer.(*ast.IfStmt)
		if !ok {
			continue
		}
		ast.Inspect(s.Cond, func(n ast.Node) bool {
			if field, ok := n.(*ast.SelectorExpr); ok {
				for _, value := range r.values[r.info.Uses[field.Sel]] {
					for _, short := range r.asked(value) {
						r.facts.add(immutables, side+" "+short, r.at(call.Pos()))
					}
				}
			}
			return true
		})
		return
	}
}

// wraps reports whether an argument of a format is an error made by the module's code, which has a text of its own and determines
// the failure. The last assignment before counts.
func (r *reader) wraps(e ast.Expr, at *ast.CallExpr) bool {
	if call, ok := e.(*ast.CallExpr); ok && r.callee(call) != nil && r.callee(call).FullName() == "(error).Error" {
		e = call.Fun.(*ast.SelectorExpr).X
	}
	if t := r.info.TypeOf(e); t == nil || !types.Implements(t, types.Universe.Lookup("error").Type().Underlying().(*types.Interface)) {
		return false
	}
	last := e
	if r.object(e) != nil {
		last = nil
	}
	for _, value := range r.values[r.object(e)] {
		if value.Pos() < at.Pos() && (last == nil || value.Pos() > last.Pos()) {
			last = value
		}
	}
	call, ok := last.(*ast.CallExpr)
	return !ok || r.callee(call) == nil || r.inside(r.callee(call).Pkg())
}

func (r *reader) format(kind string, e ast.Expr, at *ast.CallExpr) string {
	if call, ok := e.(*ast.CallExpr); ok && r.callee(call) != nil && r.callee(call).FullName() == "fmt.Sprintf" {
		e = call.Args[0]
	}
	text, ok := r.constant(e)
	text = strings.TrimSpace(text)
	if ok {
		r.facts.add(kind, text, r.at(at.Pos()))
	}
	return text
}
