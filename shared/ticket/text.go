package ticket

import (
	"bytes"
	"cmp"
	"embed"
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
//
//go:embed templates/*.tmpl
var templates embed.FS

type texts struct {
	own      *template.Template // the operator's over the built-in one
	built    *template.Template
	language *say.Language
}

func builtin(kind string) string {
	switch kind {
	case policy.Event:
		return "templates/event.tmpl"
	case policy.DingTalk, policy.DingTalkApp, policy.FeishuApp, policy.WeCom, policy.Slack:
		return "templates/message.tmpl"
	}
	return "templates/ticket.tmpl"
}

const templateText = 1 << 20

func loadTexts(s policy.Sink, dirs []string, language *say.Language) (*texts, error) {
	built, err := template.New(s.Kind).Funcs(functions(language)).Option("missingkey=error").ParseFS(templates, builtin(s.Kind))
	if err != nil {
		return nil, fmt.Errorf("read the template of kind %s: %w", s.Kind, err)
	}
	t := &texts{own: built, built: built, language: language}
	if s.Template != "" {
		if t.own, err = loadOwn(s, dirs, built); err != nil {
			return nil, fmt.Errorf("template %s: %w", s.Template, err)
		}
	}
	return t, nil
}

// loadOwn tries the operator's template, which is below one of dirs, on an open ticket, a reopened one and a closed one.
func loadOwn(s policy.Sink, dirs []string, built *template.Template) (*template.Template, error) {
	data, err := s.ReadTemplate(dirs)
	if err != nil {
		return nil, err
	}
	own, err := template.Must(built.Clone()).Parse(data)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"title", "text"} {
		if err := loops(own, name); err != nil {
			return nil, err
		}
		for _, f := range samples() {
			text, err := execute(own, name, f)
			if err != nil {
				return nil, err
			}
			if strings.TrimSpace(text) == "" {
				return nil, fmt.Errorf("%q makes an empty text of a ticket that is %s", name, f.Status)
			}
		}
	}
	return own, nil
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
func loops(t *template.Template, name string, callers ...string) error {
	if slices.Contains(callers, name) {
		return fmt.Errorf("%q calls itself", name)
	}
	called := t.Lookup(name)
	if called == nil || called.Tree == nil {
		return nil
	}
	for _, call := range callsTemplate().FindAllStringSubmatch(called.Tree.Root.String(), -1) {
		next, _ := strconv.Unquote(call[1])
		if err := loops(t, next, append(callers, name)...); err != nil {
			return err
		}
	}
	return nil
}

// write returns title and text; beside an error, the built-in ones.
func (t *texts) write(f Facts, k kind) (title, text string, err error) {
	if title, text, err = fill(t.own, f); err != nil {
		var broken error
		title, text, broken = fill(t.built, f)
		err = errors.Join(err, broken)
	}
	return event.Line(title, k.title), event.Clip(event.Redact(strings.TrimSpace(text)), k.text), err
}

func fill(t *template.Template, f Facts) (title, text string, err error) {
	if title, err = execute(t, "title", f); err == nil {
		text, err = execute(t, "text", f)
	}
	return title, text, err
}

// execute ends an endless template by its size limit.
func execute(t *template.Template, name string, f Facts) (string, error) {
	var b bounded
	err := t.ExecuteTemplate(&b, name, f)
	return b.String(), err
}

type bounded struct{ bytes.Buffer }

func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > templateText {
		return 0, fmt.Errorf("the text is larger than %d KiB", templateText>>10)
	}
	return b.Buffer.Write(p)
}

func functions(l *say.Language) template.FuncMap {
	return template.FuncMap{
		"time":   func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 MST") },
		"impact": func(i event.Impact) string { return i.Text().In(l) },
		"count":  func(n int, one string) string { return count(n, one).In(l) },
		"result": func(r event.Result) string { return results[r].In(l) },
		"stands": func(m Member) string { return cmp.Or(results[event.Result(m.Status())].In(l), results[m.Result].In(l)) },
		"inc":    func(n int) int { return n + 1 },
		"plain":  func(s any) string { return chat.Plain(fmt.Sprint(s)) },
		"say":    l.Phrase,
		"risk":   l.Format,
	}
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

// results has the words for a result, and for the two statuses of a question.
var results = map[event.Result]say.Text{
	event.Asked:                       say.F("it needs a person"),
	event.Result(event.NeedsApproval): say.F("needs approval of its plan"),
	event.Result(event.NeedsAction):   say.F("needs action by a person"),
	event.Failed:                      say.F("lbremedy could not find the cause, or could not write the fix"),
	event.Unsettled:                   say.F("written, but the failure came back or nothing proves success"),
	event.Planned:                     say.F("only planned, since the policy observes"),
	event.Fixed:                       say.F("fixed by lbremedy, and proven to work"),
	event.Synced:                      say.F("synced after a write by lbremedy; that traffic can flow is not proven"),
	event.Gone:                        say.F("recovered, without a fix by lbremedy"),
	event.Superseded:                  say.F("it fails in another way now"),
	event.Undone:                      say.F("the fix was undone"),
	event.OutOfScope:                  say.F("it is not a failed sync of this cloud"),
	Moved:                             say.F("it fails for another cause now"),
	ByHand:                            say.F("closed by hand"),
	Rejected:                          say.F("its plan was rejected"),
	Muted:                             say.F("muted by a label"),
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
	about := func(v view, was, is Status) Facts {
		i := incident{"cluster-c1", "vswitch-ip-exhausted", "0123456789abcdef"}
		return v.facts("lbr-0123456789abcdef", i, "A vSwitch is full", Head{Status: was}, is)
	}
	open := view{open: []Member{m}}
	again := about(open, Closed, Open)
	again.More = 3
	m.Over, m.Result = true, event.Fixed
	return []Facts{about(open, None, Open), again, about(view{over: []Member{m}}, Open, Closed)}
}
