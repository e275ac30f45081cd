package journal

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/step"
)

// ByPerson begins the message of a case that a person began, without a failure.
const ByPerson = "A person asks for "

// Report prints a record in the order that a person needs: impact, cause, what to do, what was done by which rule, how it ended, and how
// to undo it. With -o wide, timings and the trace come last.
func Report(p *cli.Program, r event.Record) {
	fmt.Fprintf(p.Out, "%s  %s\n", p.Paint(cli.Bold, command.Clean(r.Service.String())), Outcome(p, r))
	printFields(p, fields(p, r, nil))
}

// A Field is one part of a report, with its name.
type Field struct {
	Name, Text string
	Quote      string // follows the text: values and words of others, in which a command is only text
	Wide       bool   // only printed with -o wide
}

func fields(p *cli.Program, r event.Record, seen *Repeats) []Field {
	english := r
	r = r.In(p.Language())
	dry := r.Phase == ""
	var all []Field
	add := func(name, text string) { all = append(all, Field{Name: name, Text: text}) }
	quote := func(name, text, quote string) { all = append(all, Field{Name: name, Text: text, Quote: quote}) }
	if dry || r.Status().Open() {
		add(p.Phrase("Impact"), p.Tell(r.Impact.Text()))
	}
	add(p.Phrase("Finding"), r.Finding.String())
	add(p.Phrase("To do"), r.Ask.String())
	if todo := next(p.Language(), r, seen); !dry && !strings.Contains(r.Ask.String(), todo) { // the question may name the command
		add(p.Phrase("Next"), todo)
	}
	if r.Undoing {
		quote(p.Phrase("Undone"), "", plan(p, r, dry))
	} else {
		quote(p.Phrase("Plan"), "", plan(p, r, dry))
	}
	add(p.Phrase("Sync"), changes(p, r))
	add(p.Phrase("Rule"), cmp.Or(r.Decided.String(), r.Rule.String()))
	if len(english.Decided) > 0 && english.Rule.String() != english.Decided.String() {
		waiting, _, _ := strings.Cut(p.Language().Format("Waiting before the next step: %s."), "%s")
		add(p.Phrase("Waits"), strings.TrimPrefix(r.Rule.String(), waiting))
	}
	add(p.Phrase("Note"), r.Note.String())
	quote(p.Phrase("Error"), "", r.Error)
	add(p.Phrase("Ticket"), r.Ticket)
	if dry {
		add(p.Phrase("Outcome"), p.Phrase("Nothing was written."))
	} else {
		add(p.Phrase("Outcome"), ended(p, r))
		all = append(all, Field{Name: p.Phrase("Undo"), Text: wayBack(p, r), Wide: true})
	}
	at := r.FirstFailure()
	when, last := p.Phrase("%s, %s ago", cli.Clock(at), p.Ago(at)), ""
	if r.EventTime.Sub(at) >= time.Second {
		last = p.Phrase("; last at %s", cli.Clock(r.EventTime))
	}
	if check, found := strings.CutPrefix(r.Class, doctor.ClassPrefix); found {
		add(p.Phrase("Found"), p.Phrase("%s, by the doctor's check %s%s", when, check, last))
	} else if strings.HasPrefix(r.Message, ByPerson) {
		quote(p.Phrase("Begun"), when+last, r.Message)
	} else {
		quote(p.Phrase("Failed"), when+last, r.Message)
	}
	if r.Case == "" { // a look has no case yet
		add(p.Phrase("Class"), p.Phrase("%s in cluster %s", r.Class, r.Cluster))
	} else {
		add(p.Phrase("Case"), p.Phrase("%s of class %s in cluster %s", r.Case, r.Class, r.Cluster))
	}
	if !p.Wide() {
		return all
	}
	add(p.Phrase("Timings"), timings(p, r.Timings))
	if !dry {
		add(p.Phrase("Course"), course(p, r))
		add(p.Phrase("Trace"), traceOf(p, r))
	}
	return all
}

func ended(p *cli.Program, r event.Record) string {
	attempts := ""
	switch n := len(r.Attempts); n {
	case 0:
	case 1:
		attempts = p.Phrase(", the first attempt to write in 24 h")
	default:
		attempts = p.Phrase(", %d attempts to write in 24 h", n)
	}
	return p.Phrase("%s at %s by %s%s", p.Tell(r.Status().Word()), cli.Clock(r.At), byWhom(p, r), attempts)
}

func byWhom(p *cli.Program, r event.Record) string {
	text := cmp.Or(r.Who, p.Phrase("unknown"))
	if r.Person != nil && r.Person.String() != "" {
		text += p.Phrase(", called by %s", r.Person)
	}
	if a := r.Approved; a != nil {
		text += p.Phrase(", approved by %s", a.Text())
	}
	for _, a := range r.Seconded {
		text += p.Phrase(", and by %s", a.Text())
	}
	if a := r.Rejected; a != nil {
		text += p.Phrase(", rejected by %s", a.Text())
	}
	return text
}

// wayBack says how to undo what was written, or that it can't be undone; empty if nothing was written.
func wayBack(p *cli.Program, r event.Record) string {
	if r.Result == event.Undone {
		return ""
	}
	text := ""
	for i, s := range r.Made() {
		switch {
		case s.Undo != nil:
			text = "lbremedy undo " + r.Case // shows what it would do
		case !s.ResyncOnly && !s.Unknown:
			return p.Phrase("Step %d cannot be undone.", i+1)
		}
	}
	return text
}

var risks = map[string]say.Text{"low": say.F("low risk"), "medium": say.F("medium risk"), "high": say.F("high risk")}

func plan(p *cli.Program, r event.Record, dry bool) string {
	if len(r.Steps) == 0 {
		return ""
	}
	head := p.Phrase("%d of %d steps done", min(r.Next, len(r.Steps)), len(r.Steps))
	if dry || r.Result == event.Planned || r.Result == event.Asked {
		head = p.Phrase("nothing done yet")
	}
	if r.Risk != "" { // an undo has no risk of its own
		head = p.Phrase("%s, %s", risks[r.Risk], head)
	}
	text := ""
	for i, s := range Steps(p, r) {
		text += fmt.Sprintf("\n%d. %s", i+1, s.Text)
		if s.Note != "" {
			text += "\n   " + s.Note
		}
		for _, d := range s.Changes {
			text += "\n   " + p.Phrase("before: %s", d.of(d.Before))
			if d.After != "" {
				text += "\n   " + p.Phrase("after: %s", d.of(d.After))
			}
		}
		if s.Undo != "" {
			text += "\n   " + p.Phrase("undo: %s", s.Undo)
		}
	}
	return head + text
}

// A PlanStep is a step of a plan in printed form.
type PlanStep struct {
	Text    string
	Note    string // says that nothing was written, or that it is unknown what was
	Changes []Difference
	Undo    string // empty for a step of an undo
}

// Steps returns the steps of a record in printed form.
func Steps(p *cli.Program, r event.Record) []PlanStep {
	var list []PlanStep
	for _, s := range r.Steps {
		one := PlanStep{Text: Brief(s.Text.String()), Changes: differences(s)}
		switch {
		case s.Found && r.Undoing:
			one.Note = p.Phrase("was already undone, or has gone: nothing was written")
		case s.Found && !s.ResyncOnly:
			one.Note = p.Phrase("was there already: nothing was written")
		case s.Unknown && !s.Found:
			one.Note = p.Phrase("may have been applied: its run died, or got no answer")
		}
		switch {
		case r.Undoing:
		case s.Undo != nil:
			one.Undo = Brief(s.Undo.Text.String())
		case s.ResyncOnly:
			one.Undo = p.Phrase("nothing to undo")
		default:
			one.Undo = p.Phrase("not possible")
		}
		list = append(list, one)
	}
	return list
}

// changes says what the controller's sync changes besides the steps; empty if nothing, or if that sync is over.
func changes(p *cli.Program, r event.Record) string {
	if len(r.Changes) == 0 || r.Phase == event.Settled && r.Result.Worked() {
		return ""
	}
	text := p.Phrase("The controller's next full sync also changes:")
	for _, c := range r.Changes {
		text += "\n- " + cmp.Or(c.Balancer, p.Phrase("no load balancer yet")) + p.Phrase(": %s", c.How)
		if c.Down {
			text += p.Phrase(" (TAKES TRAFFIC DOWN)")
		}
	}
	return text
}

// Brief shortens the controller's annotations to the names in its documentation. The journal has the full names.
func Brief(text string) string { return strings.ReplaceAll(text, ccm.Prefix, "") }

// A Difference is a value before and after a step.
type Difference struct {
	Key    string // of an annotation; empty: the step writes one value
	Before string
	After  string // empty: unknown
}

func (d Difference) of(value string) string {
	if d.Key == "" {
		return value
	}
	return d.Key + " " + value
}

// differences returns nothing for a step that this release can't read.
func differences(of event.StepRecord) []Difference {
	one := func(key, before, after string) []Difference {
		return []Difference{{key, cmp.Or(before, "nothing"), cmp.Or(after, "nothing")}}
	}
	decoded, err := step.Decode(of.Kind, of.Step)
	if err != nil {
		return nil
	}
	switch s := decoded.(type) {
	case step.Annotate:
		return annotations(s.Was, s.Set, s.Remove)
	case step.Convert:
		return annotations(s.Was, s.Set, s.Remove)
	case step.RemoveAnnotation:
		return annotations(s.Was, nil, s.Names)
	case step.CreateListener:
		return one(ccm.ClassicListener(s.Listener).String(), "absent", cmp.Or(s.Listener.VServerGroup, "default"))
	case step.DeleteListener:
		return one(ccm.ClassicListener(s.Listener).String(), cmp.Or(s.Listener.VServerGroup, "default"), "absent")
	case step.MoveListener:
		return one("", s.Was, s.Group)
	case step.TagLB:
		return one(s.Key, "absent", s.Value)
	case step.UntagLB:
		return one(s.Key, s.Value, "absent")
	case step.PolicyVersion:
		return one("Allow", "absent", strings.Join(s.Adds, ", "))
	case step.ApplyQuota:
		return one("", say.Figure(s.Was), say.Figure(s.To))
	case step.Protect:
		return one("DeleteProtection", "off", "on")
	case step.Unprotect:
		return one("DeleteProtection", "on", "off")
	case step.Evict:
		return one("Pod "+s.Namespace+"/"+s.Pod, s.Node, "absent")
	case step.ClearStatus:
		if len(s.Was) > 0 {
			return one("", cmp.Or(s.Was[0].IP, s.Was[0].Hostname), "nothing")
		}
	case step.TargetPorts:
		var list []Difference
		for _, p := range s.Ports {
			list = append(list, one(fmt.Sprintf("targetPort %d", p.Port), p.Was.String(), p.To.String())...)
		}
		return list
	}
	return nil
}

// annotations returns the differences of annotations set and removed. was lacks a key that did not exist.
func annotations(was, set map[string]string, removed []string) []Difference {
	var list []Difference
	add := func(key, after string) {
		before, ok := was[key]
		if !ok {
			before = "absent"
		}
		list = append(list, Difference{strings.TrimPrefix(key, ccm.Prefix), before, after})
	}
	for _, key := range slices.Sorted(maps.Keys(set)) {
		add(key, set[key])
	}
	for _, key := range removed {
		add(key, "absent")
	}
	return list
}

func course(p *cli.Program, r event.Record) string {
	var parts []string
	first := r.FirstFailure()
	for _, at := range []struct {
		what string
		time time.Time
	}{{p.Phrase("picked up"), r.First}, {p.Phrase("applied"), r.Written}, {p.Tell(r.Status().Word()), r.At}} {
		if !at.time.IsZero() && !first.IsZero() {
			parts = append(parts, p.Phrase("%s after %s", at.what, cli.Short(max(0, at.time.Sub(first)))))
		}
	}
	return strings.Join(parts, ", ")
}

func traceOf(p *cli.Program, r event.Record) string {
	text := event.TraceID(r.Trace)
	if opened := event.TraceID(r.Opened); opened != "" {
		text += p.Phrase("; the case began in %s", opened)
	}
	return text
}

func timings(p *cli.Program, t event.Timings) string {
	var parts []string
	var sum time.Duration
	for _, phase := range []struct {
		name string
		took time.Duration
	}{{"waited", t.Queue}, {"resume", t.Resume}, {"diagnose", t.Diagnose}, {"decide", t.Decide}, {"apply", t.Apply}, {"verify", t.Verify}} {
		if phase.took > 0 {
			parts = append(parts, phase.name+" "+cli.Short(phase.took))
			sum += phase.took
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return p.Phrase("%s; %s in all", strings.Join(parts, ", "), cli.Short(sum))
}
