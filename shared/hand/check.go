package hand

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

// Bounds of an answer.
const (
	mostSteps   = 16
	mostClaims  = 8
	mostChanges = 256
	mostCalls   = 64
	mostText    = 2 << 10 // bytes of an argument of a sentence, of a problem, and of a text that is not a sentence
	leastWait   = 5 * time.Second
	mostWait    = time.Hour
)

// claimKey is how the places look that a plan may claim: a free address of a vSwitch, and the eviction of a Pod.
var claimKey = regexp.MustCompile(`^(vswitch|evict)\.[A-Za-z0-9._-]{1,300}$`)

// checkLook reads the answer to a look, and returns why nothing of it may be used.
func (r *Remote) checkLook(q LookRequest, data json.RawMessage, a *LookAnswer) error {
	if err := strict(data, a); err != nil {
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
	for _, text := range []string{a.Differs, a.Bars} {
		if err := plainText(text); err != nil {
			return err
		}
	}
	if err := r.sentences(a.Flow.Why, false); err != nil {
		return err
	}
	if a.Plan == nil {
		return nil
	}
	return r.checkPlan(a.Plan)
}

func (r *Remote) checkPlan(p *Plan) error {
	if p.Risk < remedy.Low || p.Risk > remedy.High {
		return wrong("the plan has a risk that does not exist")
	}
	if len(p.Steps) > mostSteps || len(p.Claims) > mostClaims || len(p.Changes) > mostChanges || len(p.Cause) > 256 {
		return wrong("the plan has more than %d steps, %d claims or %d changes, or a long cause", mostSteps, mostClaims, mostChanges)
	}
	for _, s := range p.Steps {
		made, err := r.Class.Step(r.Decode, s.Kind, s.Step)
		if err != nil {
			return fmt.Errorf("a step of the plan is refused: %w: %w", err, ErrInvalid)
		}
		if err := plainText(made.Says().String()); err != nil {
			return err
		}
	}
	for _, c := range p.Claims {
		if !claimKey.MatchString(c.Key) || c.Of < 0 || c.Of > 1<<20 {
			return wrong("the plan claims %.100q", c.Key)
		}
	}
	if err := plainText(p.Cause); err != nil {
		return err
	}
	for _, text := range []say.Text{p.Finding, p.Ask, p.Note} {
		if err := r.sentences(text, false); err != nil {
			return err
		}
	}
	for _, c := range p.Changes {
		if err := r.sentences(c.Said, false); err != nil {
			return err
		}
		if err := plainText(c.What + c.How); err != nil {
			return err
		}
	}
	if p.Wait < 0 || p.Patience < 0 {
		return wrong("the plan has a negative wait")
	}
	if p.Wait > 0 {
		p.Wait = min(max(p.Wait, leastWait), mostWait)
	}
	return nil
}

// checkApply reads the answer to an order, and returns why nothing of it may be used.
func (r *Remote) checkApply(o Order, data json.RawMessage, a *ApplyAnswer) error {
	if err := strict(data, a); err != nil {
		return fmt.Errorf("the answer of the function is not that to an order: %w", ErrInvalid)
	}
	if !slices.Contains([]State{"", Todo, Done, Found, Moved}, a.State) || len(a.Calls) > mostCalls {
		return wrong("it has a state that does not exist, or more than %d calls", mostCalls)
	}
	if err := plainText(a.Differs); err != nil {
		return err
	}
	if s := a.Service; s != nil && (s.UID != o.Service.UID || s.Name != o.Service.Name || s.Namespace != o.Service.Namespace) {
		return wrong("it holds another Service than that of the order")
	}
	step, err := r.Class.Step(r.Decode, o.Step.Kind, o.Step.Step)
	if err != nil {
		return fmt.Errorf("decode the step of the order: %w: %w", err, ErrInvalid)
	}
	if back, ok := step.Undo(); ok && o.Undo {
		step = back
	}
	var may []string
	for _, g := range step.Grants() {
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

// wrong returns an ErrInvalid about the answer of a function.
func wrong(format string, args ...any) error {
	return fmt.Errorf("the answer of the function is refused: "+format+": %w", append(args, ErrInvalid)...)
}

// sentences returns why a text may not reach a person. Each of its formats is one of the program's, or of the class's declaration, so that a
// function chooses among sentences and fills in what it has found. Free text, such as a name, stands only inside a sentence.
func (r *Remote) sentences(t say.Text, nested bool) error {
	for _, m := range t {
		if !(nested && m.Format == "%s") && !r.Known(m.Format) && !slices.Contains(r.Class.Formats, m.Format) {
			return wrong("it has a sentence that its class does not have: %.100q", m.Format)
		}
		commands := command(m.Format)
		for _, a := range m.Args {
			if text, ok := a.(string); ok {
				commands = commands || command(text)
			}
		}
		for _, a := range m.Args {
			switch a := a.(type) {
			case say.Text:
				if err := r.sentences(a, true); err != nil {
					return err
				}
			case string:
				if err := plainText(a); err != nil {
					return err
				}
				if commands && !harmless(a) {
					return wrong("a command has an argument that a shell would run: %.100q", a)
				}
			}
		}
	}
	return nil
}

// plainText returns why a text may not reach a person.
func plainText(text string) error {
	switch {
	case len(text) > mostText:
		return wrong("a text has more than %d bytes", mostText)
	case !utf8.ValidString(text) || strings.ContainsFunc(text, hidden):
		return wrong("a text has characters that hide what it says")
	}
	return nil
}

// hidden reports whether a rune does not show, or changes how others show: control and format characters, such as those that turn the
// direction of writing.
func hidden(r rune) bool { return r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)) }

// oneLine returns what may be logged of a text that is not a sentence.
func oneLine(text string) string {
	text = strings.Map(func(r rune) rune {
		if r == '\n' || hidden(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
	return event.Cut(event.Redact(text[:min(len(text), mostText)]))
}

// command reports whether a text holds a command that a person may paste.
func command(text string) bool {
	for _, name := range []string{"kubectl ", "lbremedy ", "aliyun ", "nats ", "helm "} {
		if strings.Contains(text, name) {
			return true
		}
	}
	return false
}

// search is the one pipe that sentences have: what a command prints is searched for a word.
var search = regexp.MustCompile(` \| grep [A-Za-z0-9./_-]+$`)

// harmless reports whether all commands of a text are inert. Several stand with && between them.
func harmless(text string) bool {
	for i, part := range strings.Split(text, " && ") {
		if !inert(search.ReplaceAllString(part, "")) || i > 0 && !command(part) {
			return false
		}
	}
	return true
}

// inert reports whether a shell that is given the text runs nothing but what it begins with, and opens no file: outside of single quotes there
// is none of the characters by which a POSIX shell would. In double quotes those count that stay special there.
func inert(text string) bool {
	const plain, single, double = 0, '\'', '"'
	in := rune(plain)
	for _, r := range text {
		switch {
		case in == single:
			if r == single {
				in = plain
			}
		case strings.ContainsRune("$`\\\n", r):
			return false
		case in == double:
			if r == double {
				in = plain
			}
		case r == single || r == double:
			in = r
		case strings.ContainsRune(";&|<>(){}*?[]!#~", r):
			return false
		}
	}
	return in == plain
}
