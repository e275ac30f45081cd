package policy

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/pmezard/go-difflib/difflib"

	"github.com/lbremedy/lbremedy/shared/remedy"
)

// Diff returns the difference between the texts of two policies, in the form of diff -u; empty if they are equal.
func Diff(was, is string) (string, error) {
	lines := func(text string) []string { return strings.SplitAfter(strings.TrimSuffix(text, "\n"), "\n") }
	a, b := lines(was), lines(is)
	a[len(a)-1] += "\n"
	b[len(b)-1] += "\n"
	diff, err := difflib.GetUnifiedDiffString(difflib.UnifiedDiff{A: a, B: b, Context: 2})
	if err != nil {
		return "", fmt.Errorf("compare two policies: %w", err)
	}
	return diff, nil
}

// Loosens returns the fields by which a policy lets lbremedy write more, at some place or time. optIn reports whether a class must be named.
func Loosens(was, is remedy.Policy, optIn func(class string) bool) []string {
	var fields []string
	add := func(field string, looser bool) {
		if looser && !slices.Contains(fields, field) {
			fields = append(fields, field)
		}
	}
	add("mode", is.Mode == remedy.Fix && was.Mode != remedy.Fix)
	add("risk", is.Risk > was.Risk)
	bare := func(p remedy.Policy, class string) remedy.Permission {
		p.Rules = nil
		return p.At(class, remedy.Place{})
	}
	both := maps.Clone(is.Classes)
	if both == nil {
		both = map[string]remedy.Class{}
	}
	maps.Copy(both, was.Classes)
	for _, id := range slices.Sorted(maps.Keys(both)) {
		then, now, at := bare(was, id), bare(is, id), "classes."+id
		add(at, now.Named && !then.Named && optIn(id))
		add(at+".mode", was.Classes[id].Mode != is.Classes[id].Mode && now.Mode == remedy.Fix && then.Mode != remedy.Fix)
		add(at+".risk", !reflect.DeepEqual(was.Classes[id].Risk, is.Classes[id].Risk) && now.Risk > then.Risk)
		add(at+".oneWay", now.OneWay && !then.OneWay)
	}
	add("rules", rulesLoosen(was, is, optIn))
	for _, risk := range []remedy.Risk{remedy.Low, remedy.Medium, remedy.High} {
		add("approvals", is.Consent(risk).Loosens(was.Consent(risk)))
	}
	add("freezes", slices.ContainsFunc(was.Freezes, func(f remedy.Freeze) bool {
		return !slices.ContainsFunc(is.Freezes, f.Same)
	}))
	then, now := was.Budgets.Full(), is.Budgets.Full()
	add("budgets.attempts", now.Attempts > then.Attempts)
	add("budgets.class", now.Class > then.Class)
	add("budgets.share", now.Share > then.Share)
	add("budgets.least", now.Least > then.Least)
	add("unsettled", is.TakeBack && !was.TakeBack)
	add("vswitches.allow", slices.ContainsFunc(is.VSwitches.Allow, func(id string) bool { return !was.VSwitches.Allowed(id) }))
	add("vswitches.reserve", is.VSwitches.Kept() < was.VSwitches.Kept())
	add("vswitches.replaceMissing", is.VSwitches.ReplaceMissing && !was.VSwitches.ReplaceMissing)
	add("ramDelay", is.Delay() < was.Delay())
	add("payBySpec", is.PayBySpec && !was.PayBySpec)
	return fields
}

// rulesLoosen reports whether rules could allow more than others. Rules may be added and may become stricter; anything else, such as
// another order, may loosen.
func rulesLoosen(was, is remedy.Policy, optIn func(string) bool) bool {
	floor := was.Risk // the lowest risk up to which plans may be applied at some place
	for _, c := range was.Classes {
		if c.Risk != nil {
			floor = min(floor, *c.Risk)
		}
	}
	for _, r := range was.Rules {
		if r.Risk != nil {
			floor = min(floor, *r.Risk)
		}
	}
	rest := was.Rules
	for _, r := range is.Rules {
		if len(rest) == 0 || rest[0].String() != r.String() {
			stricter := r.Mode != remedy.Fix && (r.Risk == nil || *r.Risk <= floor)
			if len(r.Labels) == 0 && (!stricter || slices.ContainsFunc(r.Classes, optIn)) {
				return true
			}
			continue
		}
		o := rest[0]
		rest = rest[1:]
		if r.Mode != o.Mode && r.Mode != remedy.Observe && o.Mode != remedy.Fix {
			return true
		}
		switch {
		case reflect.DeepEqual(r.Risk, o.Risk):
		case r.Risk == nil && *o.Risk < remedy.High, r.Risk != nil && o.Risk != nil && *r.Risk > *o.Risk,
			r.Risk != nil && o.Risk == nil && *r.Risk > floor && len(r.Labels) == 0:
			return true
		}
	}
	return len(rest) > 0
}
