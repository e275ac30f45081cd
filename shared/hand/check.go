package hand

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

const (
	mostSteps   = 16
	mostClaims  = 8
	mostChanges = 256
	mostCalls   = 64
	mostText    = 2 << 10 // bytes of an argument of a sentence, of a problem, and of a text that is not a sentence
	mostPlan    = 300 << 10
	leastWait   = 5 * time.Second
	mostWait    = time.Hour

	mostPatience = 72 * time.Hour
)

// claimKey matches what a plan may claim: a free address of a vSwitch, and the eviction of a Pod.
var claimKey = regexp.MustCompile(`^(vswitch|evict)\.[A-Za-z0-9._-]{1,300}$`)

func (r *Remote) checkLook(q LookRequest, data json.RawMessage, a *LookAnswer) error {
	if err := event.DecodeStrict(data, a); err != nil {
		return fmt.Errorf("the answer of the function is not that to a look: %w", ErrInvalid)
	}
	if a.Verdict < remedy.Unknown || a.Verdict > remedy.No || !slices.Contains([]State{"", Todo, Found, Moved}, a.State) {
		return wrong("it has a verdict or a state that does not exist")
	}
	if a.Plan != nil && q.For != Diagnose && q.For != Compare || a.Backup != nil && q.For != Backup {
		return wrong("it holds what was not asked for")
	}
	if q.For == Backup && a.Backup != nil {
		b := a.Backup
		if b.Case != q.Case || b.Class != q.Class || b.Cluster != q.Failure.Cluster || b.Service != q.Failure.Service || b.Attempt != q.Attempt {
			return wrong("the backup is that of another case")
		}
	}
	a.Reads = a.Reads[:min(len(a.Reads), event.MostReads)]
	for i := range a.Reads {
		read := &a.Reads[i]
		read.Action, read.Answer, read.Error = oneLine(read.Action), oneLine(read.Answer), oneLine(read.Error)
	}
	if err := r.texts([]string{a.Differs, a.Bars}, a.Flow.Why); err != nil || a.Plan == nil {
		return err
	}
	return r.checkPlan(a.Plan)
}

func (r *Remote) texts(arguments []string, sentences ...say.Text) error {
	for _, text := range arguments {
		if err := argument(text); err != nil {
			return err
		}
	}
	for _, text := range sentences {
		if err := r.sentences(text, false); err != nil {
			return err
		}
	}
	return nil
}

func (r *Remote) checkPlan(p *Plan) error {
	if p.Risk < remedy.Low || p.Risk > remedy.High {
		return wrong("the plan has a risk that does not exist")
	}
	if len(p.Steps) > mostSteps || len(p.Claims) > mostClaims || len(p.Changes) > mostChanges || len(p.Cause) > 256 {
		return wrong("the plan has more than %d steps, %d claims or %d changes, or a long cause", mostSteps, mostClaims, mostChanges)
	}
	steps, err := made(r.Class, r.Decode, p.Steps, false)
	if err == nil {
		p.Steps, err = Steps(steps) // in stored form, which may be longer than the received one
	}
	if err != nil {
		return fmt.Errorf("a step of the plan is refused: %w: %w", err, ErrInvalid)
	}
	size := 0
	for _, s := range p.Steps {
		if size += len(s.Step); size > mostPlan {
			return wrong("the steps of the plan have more than %d bytes", mostPlan)
		}
	}
	for _, c := range p.Claims {
		if !claimKey.MatchString(c.Key) || c.Of < 1 || c.Of > 1<<20 {
			return wrong("the plan claims %.100q", c.Key)
		}
	}
	if err := r.texts([]string{p.Cause}, p.Finding, p.Ask, p.Note); err != nil {
		return err
	}
	for _, c := range p.Changes {
		if err := r.texts([]string{c.What, c.Balancer}, c.How); err != nil {
			return err
		}
	}
	if p.Wait < 0 || p.Patience < 0 {
		return wrong("the plan has a negative wait")
	}
	if p.Wait > 0 {
		p.Wait = min(max(p.Wait, leastWait), mostWait)
	}
	p.Patience = min(p.Patience, mostPatience)
	return nil
}

func (r *Remote) checkApply(o Order, data json.RawMessage, a *ApplyAnswer) error {
	if err := event.DecodeStrict(data, a); err != nil {
		return fmt.Errorf("the answer of the function is not that to an order: %w", ErrInvalid)
	}
	if !slices.Contains([]State{"", Todo, Done, Found, Moved}, a.State) || len(a.Calls) > mostCalls {
		return wrong("it has a state that does not exist, or more than %d calls", mostCalls)
	}
	if err := argument(a.Differs); err != nil {
		return err
	}
	if s := a.Service; s != nil && (s.UID != o.Service.UID || s.Name != o.Service.Name || s.Namespace != o.Service.Namespace) {
		return wrong("it holds another Service than that of the order")
	}
	steps, err := made(r.Class, r.Decode, []Step{o.Step}, o.Undo)
	if err != nil {
		return fmt.Errorf("decode the step of the order: %w: %w", err, ErrInvalid)
	}
	var may []string
	for _, g := range steps[0].Grants() {
		may = append(may, g.String())
	}
	for i := range a.Calls {
		c := &a.Calls[i]
		if !slices.Contains(may, c.Action) {
			return fmt.Errorf("the function says that it called %.60q, which the step %s does not declare: %w", c.Action, o.Step.Kind, remedy.ErrUndeclared)
		}
		c.Resource, c.Request, c.Version, c.Error = oneLine(c.Resource), oneLine(c.Request), oneLine(c.Version), oneLine(c.Error)
	}
	return nil
}

func wrong(format string, args ...any) error {
	return fmt.Errorf("the answer of the function is refused: "+format+": %w", append(args, ErrInvalid)...)
}

func oneLine(text string) string {
	text = strings.Map(func(r rune) rune {
		if r == '\n' || hidden(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
	return event.Cut(event.Redact(text[:min(len(text), mostText)]))
}
