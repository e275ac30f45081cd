package ticket

import (
	"bytes"
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"time"

	"github.com/lbremedy/lbremedy/shared/chat"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/policy"
	"github.com/lbremedy/lbremedy/shared/regex"
	"github.com/lbremedy/lbremedy/shared/say"
)

// A template defines "title", one line, and "text", over Facts; an operator's file either or both.
var (
	//go:embed templates/ticket.tmpl
	ticketTemplate string
	//go:embed templates/message.tmpl
	messageTemplate string
	//go:embed templates/event.tmpl
	eventTemplate string
)

type texts struct {
	own      *template.Template // the operator's over the built-in one
	built    *template.Template
	language *say.Language
}

func builtin(kind string) string {
	switch kind {
	case policy.Event:
		return eventTemplate
	case policy.DingTalk, policy.DingTalkApp, policy.FeishuApp, policy.WeCom, policy.Slack:
		return messageTemplate
	}
	return ticketTemplate
}

const templateText = 1 << 20

// loadTexts tries the operator's template, which is below one of dirs, on an open ticket, a reopened one and a closed one.
func loadTexts(s policy.Sink, dirs []string, language *say.Language) (*texts, error) {
	built, err := template.New(s.Kind).Funcs(functions(language)).Option("missingkey=error").Parse(builtin(s.Kind))
	if err != nil {
		return nil, fmt.Errorf("read the template of kind %s: %w", s.Kind, err)
	}
	t := &texts{own: built, built: built, language: language}
	if s.Template == "" {
		return t, nil
	}
	data, err := s.ReadTemplate(dirs)
	if err != nil {
		return nil, fmt.Errorf("template %s: %w", s.Template, err)
	}
	own, err := built.Clone()
	if err == nil {
		own, err = own.Parse(data)
	}
	if err == nil {
		err = loops(own)
	}
	if err != nil {
		return nil, fmt.Errorf("template %s: %w", s.Template, err)
	}
	t.own = own
	for _, f := range samples() {
		for _, name := range []string{"title", "text"} {
			text, err := execute(own, name, f)
			if err != nil {
				return nil, fmt.Errorf("template %s: %w", s.Template, err)
			}
			if strings.TrimSpace(text) == "" {
				return nil, fmt.Errorf("template %s: %q makes an empty text of a ticket that is %s", s.Template, name, f.Status)
			}
		}
	}
	return t, nil
}

// CheckTexts returns what is wrong with the sinks' templates, one sentence each, as New would. It notifies nobody.
func CheckTexts(sinks []policy.Sink, dirs []string) error {
	var errs []error
	for _, s := range sinks {
		if _, err := loadTexts(s, dirs, nil); err != nil {
			errs = append(errs, fmt.Errorf("tell.%s: %w", s.Name, err))
		}
	}
	return errors.Join(errs...)
}

var callsTemplate = regex.New(`\{\{template ("[^"]+")`)

// loops returns an error if a template calls itself, even through others. Go would stop it only after 100,000 calls and minutes.
func loops(t *template.Template) error {
	calls := map[string][]string{}
	for _, one := range t.Templates() {
		if one.Tree != nil {
			for _, call := range callsTemplate().FindAllStringSubmatch(one.Tree.Root.String(), -1) {
				name, _ := strconv.Unquote(call[1])
				calls[one.Name()] = append(calls[one.Name()], name)
			}
		}
	}
	var follow func(name string, path []string) error
	follow = func(name string, path []string) (err error) {
		if slices.Contains(path, name) {
			return fmt.Errorf("%q calls itself", name)
		}
		for _, next := range calls[name] {
			err = errors.Join(err, follow(next, append(path, name)))
		}
		return err
	}
	return errors.Join(follow("title", nil), follow("text", nil))
}

// write returns title and text; beside an error, the built-in ones.
func (t *texts) write(f Facts, k kind) (title, text string, err error) {
	title, text, err = fill(t.own, f)
	if err != nil && t.own != t.built {
		var broken error
		if title, text, broken = fill(t.built, f); broken != nil {
			err = errors.Join(err, broken)
		}
	}
	return event.Line(title, k.title), event.Clip(event.Redact(strings.TrimSpace(text)), k.text), err
}

func fill(t *template.Template, f Facts) (title, text string, err error) {
	if title, err = execute(t, "title", f); err != nil {
		return f.Title, f.Lead.Finding.String(), err
	}
	if text, err = execute(t, "text", f); err != nil {
		return title, f.Lead.Finding.String(), err
	}
	return title, text, nil
}

// execute ends an endless template by its size limit.
func execute(t *template.Template, name string, f Facts) (string, error) {
	b := bounded{remaining: templateText}
	if err := t.ExecuteTemplate(&b, name, f); err != nil {
		return "", err
	}
	return b.String(), nil
}

type bounded struct {
	bytes.Buffer
	remaining int
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.remaining -= len(p); b.remaining < 0 {
		return 0, fmt.Errorf("the text is larger than %d KiB", templateText>>10)
	}
	return b.Buffer.Write(p)
}

func functions(l *say.Language) template.FuncMap {
	return template.FuncMap{
		"join":   join,
		"time":   func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 MST") },
		"impact": func(i event.Impact) string { return i.Text().In(l) },
		"count":  func(n int, one string) string { return count(n, one).In(l) },
		"result": func(r event.Result) string { return results[r].In(l) },
		"stands": func(m Member) string { return cmp.Or(questions[m.Status()].In(l), results[m.Result].In(l)) },
		"inc":    func(n int) int { return n + 1 },
		"plain":  func(s any) string { return chat.Plain(fmt.Sprint(s)) },
		"say":    l.Phrase,
		"risk":   l.Format,
	}
}

func join(sep string, list any) (string, error) {
	switch list := list.(type) {
	case []string:
		return strings.Join(list, sep), nil
	case []say.Text:
		var words []string
		for _, t := range list {
			words = append(words, t.String())
		}
		return strings.Join(words, sep), nil
	}
	return "", errors.New("join takes a list of texts")
}

func count(n int, one string) say.Text {
	all := map[string]say.Text{
		"Service": say.Count(n, "Service"), "load balancer": say.Count(n, "load balancer"), "network": say.Count(n, "network"),
		"node": say.Count(n, "node"), "cluster": say.Count(n, "cluster"), "account": say.Count(n, "account"), "thing": say.Count(n, "thing"),
	}
	if t, ok := all[one]; ok {
		return t
	}
	if n == 1 { // used by an operator's template
		return say.Literal("1 " + one)
	}
	return say.Literal(fmt.Sprintf("%d %ss", n, one))
}

var results = map[event.Result]say.Text{
	event.Asked:      say.F("it needs a person"),
	event.Failed:     say.F("lbremedy could not find the cause, or could not write the fix"),
	event.Unsettled:  say.F("written, but the failure came back or nothing proves success"),
	event.Planned:    say.F("only planned, since the policy observes"),
	event.Fixed:      say.F("fixed by lbremedy, and proven to work"),
	event.Synced:     say.F("synced after a write by lbremedy; that traffic can flow is not proven"),
	event.Gone:       say.F("recovered, without a fix by lbremedy"),
	event.Superseded: say.F("it fails in another way now"),
	event.Undone:     say.F("the fix was undone"),
	event.OutOfScope: say.F("it is not a failed sync of this cloud"),
	Moved:            say.F("it fails for another cause now"),
	ByHand:           say.F("closed by hand"),
	Rejected:         say.F("its plan was rejected"),
	Muted:            say.F("muted by a label"),
}

var questions = map[event.Status]say.Text{
	event.NeedsApproval: say.F("needs approval of its plan"),
	event.NeedsAction:   say.F("needs action by a person"),
}

func samples() []Facts {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	m := Member{
		Case: "3f9a12bc-20260102T030405", Cluster: "c1", Service: event.Service{Namespace: "shop", Name: "web", UID: "3f9a12bc-0000-4000-8000-000000000001"},
		Result: event.Asked, Stood: event.Asked, Since: at, At: at, Impact: event.NeverUp, Message: "Error syncing load balancer", Failed: at,
		Finding: say.Literal("The vSwitch is full."), Cause: "vsw-1", Risk: "low", Steps: []say.Text{say.Literal("annotate it")},
		Digest: "0123456789abcdef0123456789abcdef",
		Ask:    say.Literal("Add a vSwitch."),
		Note:   say.Literal("A note."), Rule: say.Literal("A rule."), Error: "an error",
	}
	f := Facts{
		Key: "lbr-0123456789abcdef", Incident: "cluster-c1.vswitch-ip-exhausted.0123456789abcdef", Status: Open, Class: "vswitch-ip-exhausted",
		Title: "A vSwitch is full",
		Kind:  "Service", Cause: "vsw-1", Clusters: []string{"c1"}, Since: at, Impact: event.NeverUp, Lead: m, Services: []Member{m}, Failing: 1,
		LogQuery: "kubectl logs",
	}
	again, over := f, f
	again.Reopened, again.More = true, 3
	m.Over, m.Result = true, event.Fixed
	over.Status, over.Failing, over.Over, over.Lead, over.Services, over.Outcomes = Closed, 0, 1, m, []Member{m}, map[event.Result]int{event.Fixed: 1}
	return []Facts{f, again, over}
}
