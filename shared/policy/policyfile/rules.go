package policyfile

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/lbremedy/lbremedy/shared/remedy"
)

// rules notes mistakes. Two rules about the same with different answers contradict each other.
func (r reader) rules(f File) {
	list := f.Rules
	for i, rule := range list {
		at := fmt.Sprintf("rules[%d]", i)
		r.patterns(at+".clusters", rule.Clusters)
		r.patterns(at+".namespaces", rule.Namespaces)
		for _, id := range rule.Classes {
			r.class(at+".classes", id)
		}
		switch {
		case rule.Mode == "" && rule.Risk == nil && !r.Broken(at+".mode") && !r.Broken(at+".risk"):
			r.Fail(at, "it changes nothing: it has neither mode nor risk")
		case rule.Mode == remedy.Observe && rule.Risk != nil:
			r.Fail(at, "it observes, so that its risk says nothing: leave it out, or fix")
		}
		for j, o := range list[:i] {
			same := o
			same.Mode, same.Risk = rule.Mode, rule.Risk
			if reflect.DeepEqual(same, rule) {
				r.Fail(at, "it is about the same as rules[%d]: make them one", j)
			}
		}
		if len(rule.Labels) > 0 {
			r.ofLabels(f, i)
		}
	}
}

// ofLabels notes a rule about Services' labels that allows more than would apply without it: anyone who may label a Service could have
// plans applied that the operator did not allow.
func (r reader) ofLabels(f File, i int) {
	rule, at := f.Rules[i], fmt.Sprintf("rules[%d]", i)
	instead := "labels of a Service only make the policy stricter, because its owner sets them: to allow more, label the namespace, and write " + inNamespace(rule)
	if rule.Mode == remedy.Fix {
		r.Fail(at+".mode", "%s", instead)
	}
	if rule.Risk == nil {
		return
	}
	if least := leastRisk(f, i); *rule.Risk > least {
		r.Fail(at+".risk", "it is %s, and without the rule it can be %s; %s", *rule.Risk, least, instead)
	}
}

// leastRisk returns the lowest risk that can apply to a rule's classes without rules about Services' labels. It ignores whether an
// earlier rule covers the same places.
func leastRisk(f File, i int) remedy.Risk {
	rule := f.Rules[i]
	base := func(c remedy.Class) remedy.Risk {
		if c.Risk != nil {
			return *c.Risk
		}
		return f.Risk
	}
	var risks []remedy.Risk
	for _, id := range rule.Classes {
		risks = append(risks, base(f.Classes[id]))
	}
	if len(rule.Classes) == 0 {
		risks = append(risks, f.Risk)
		for _, c := range f.Classes {
			risks = append(risks, base(c))
		}
	}
	for _, o := range f.Rules[:i] {
		both := len(o.Classes) == 0 || len(rule.Classes) == 0 || slices.ContainsFunc(o.Classes, func(id string) bool { return slices.Contains(rule.Classes, id) })
		if o.Risk != nil && both && len(o.Labels) == 0 {
			risks = append(risks, *o.Risk)
		}
	}
	return slices.Min(risks)
}

func inNamespace(rule remedy.Rule) string {
	labels := maps.Clone(rule.Labels)
	maps.Copy(labels, rule.NamespaceLabels)
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		parts = append(parts, fmt.Sprintf("%s: %q", k, labels[k]))
	}
	return "namespaceLabels: {" + strings.Join(parts, ", ") + "} in place of labels"
}

func (r reader) approvals(list []remedy.ApprovalRule) {
	for i, rule := range list {
		at := fmt.Sprintf("approvals[%d]", i)
		if rule.Needs < 0 {
			r.Fail(at+".needs", "%d is negative", rule.Needs)
		}
		users := 0
		for _, from := range rule.From {
			user, isUser := strings.CutPrefix(from, remedy.FromUser)
			group, isGroup := strings.CutPrefix(from, remedy.FromGroup)
			switch {
			case isUser && user != "":
				users++
			case !isGroup || group == "":
				r.Fail(at+".from", "%q is neither user:NAME nor group:NAME", from)
			}
		}
		if users > 0 && users == len(rule.From) && users < rule.Needs {
			r.Fail(at+".needs", "%d people have to approve, and from names %d", rule.Needs, users)
		}
		for j, o := range list[:i] {
			if reflect.DeepEqual(o.Risk, rule.Risk) {
				r.Fail(at, "it is about the same risk as approvals[%d]: make them one", j)
			}
		}
	}
}

var weekdays = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}

func (r reader) freezes(list []Freeze) []remedy.Freeze {
	var out []remedy.Freeze
	for i, f := range list {
		at := fmt.Sprintf("freezes[%d]", i)
		if f.Name == "" {
			r.Fail(at, "it has no name")
		}
		freeze := remedy.Freeze{Name: f.Name}
		if strings.Contains(f.From, "T") || strings.Contains(f.Until, "T") {
			r.once(at, f, &freeze)
		} else {
			r.weekly(at, f, &freeze)
		}
		out = append(out, freeze)
	}
	return out
}

func (r reader) once(at string, f Freeze, out *remedy.Freeze) {
	if len(f.Days) > 0 || f.Zone != "" {
		r.Fail(at, "from and until are dates: days and zone are for times of day")
	}
	good := true
	for _, t := range []struct {
		field, text string
		into        *time.Time
	}{{"from", f.From, &out.Start}, {"until", f.Until, &out.End}} {
		when, err := time.Parse(time.RFC3339, t.text)
		if err != nil {
			r.Fail(at+"."+t.field, "%q is not a time such as 2006-01-02T15:04:05+08:00", t.text)
			good = false
		}
		*t.into = when.UTC()
	}
	if good && !out.Start.Before(out.End) {
		r.Fail(at+".until", "it ends at %s, which is not after its beginning", f.Until)
	}
}

func (r reader) weekly(at string, f Freeze, out *remedy.Freeze) {
	good := true
	for _, t := range []struct {
		field, text string
		into        *time.Duration
	}{{"from", f.From, &out.From}, {"until", f.Until, &out.Until}} {
		when, err := time.Parse("15:04", t.text)
		if t.text == "24:00" && t.field == "until" {
			*t.into = 24 * time.Hour
			continue
		}
		if err != nil {
			r.Fail(at+"."+t.field, "%q is neither a time of day such as 18:30 nor a time such as 2006-01-02T15:04:05+08:00", t.text)
			good = false
		}
		*t.into = time.Duration(when.Hour())*time.Hour + time.Duration(when.Minute())*time.Minute
	}
	if good && out.From == out.Until {
		r.Fail(at, "it begins and ends at %s: a whole day is from 00:00 until 24:00", f.From)
	}
	days := f.Days
	if len(days) == 0 {
		days = weekdays
	}
	for _, d := range days {
		n := slices.Index(weekdays, d)
		switch {
		case n < 0:
			r.Fail(at+".days", "%q is not a day; there are %s", d, strings.Join(weekdays, ", "))
		case slices.Contains(out.Days, time.Weekday(n)):
			r.Fail(at+".days", "%s is there twice", d)
		}
		out.Days = append(out.Days, time.Weekday(n))
	}
	zone, err := time.LoadLocation(f.Zone)
	if err != nil {
		r.Fail(at+".zone", "%q is not known: want a name such as Asia/Shanghai", f.Zone)
	}
	out.Zone.Location = zone
}

// budgets notes mistakes. A budget can't be switched off; a large one shows intent.
func (r reader) budgets(b remedy.Budgets) {
	for _, n := range []struct {
		field string
		value int
	}{{"attempts", b.Attempts}, {"class", b.Class}, {"least", b.Least}} {
		at := "budgets." + n.field
		switch {
		case n.value < 0:
			r.Fail(at, "%d is negative", n.value)
		case n.value == 0 && r.Has(at): // the policy would take it for the default
			r.Fail(at, "0 is not a budget: want at least 1; to write nothing, say mode: observe")
		}
	}
}
