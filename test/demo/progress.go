package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/test/testbed"
)

type progress struct {
	screen  *screen
	testbed *testbed.Testbed

	mu       sync.Mutex
	services []*service
	first    map[string]string // step -> the first Service with it
	err      error
}

type service struct {
	testbed.Fixture
	finding string
	done    []string
	plan    event.Record // last record with steps of the Service's class
	result  event.Result // for the Service's class
	at      time.Time    // of the result
	said    map[string]bool
}

func newProgress(s *screen, tb *testbed.Testbed, fixtures []testbed.Fixture) *progress {
	p := &progress{screen: s, testbed: tb, first: map[string]string{}}
	for _, f := range fixtures {
		p.services = append(p.services, &service{Fixture: f, said: map[string]bool{}})
	}
	return p
}

func (p *progress) of(svc event.Service) *service {
	i := slices.IndexFunc(p.services, func(t *service) bool {
		about := p.testbed.About(t.Fixture)
		return svc.Kind == about.Kind && svc.Namespace == about.Namespace && svc.Name == about.Name
	})
	if i < 0 {
		return nil
	}
	return p.services[i]
}

func (p *progress) failure(m stream.Message) error {
	e, err := event.DecodeNATS(m.Header, m.Data)
	if err != nil {
		return err
	}
	f, err := event.ReadFailed(e)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if t := p.of(f.Service); t != nil {
		p.say(t, failed, fmt.Sprintf("[%s] %s", f.Class, strings.TrimPrefix(f.Message, "Error syncing load balancer ")))
	}
	return nil
}

func (p *progress) record(m stream.Message) error {
	r, err := event.DecodeRecord(m.Subject, m.Header, m.Data)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.of(r.Service)
	if t == nil {
		return nil
	}
	if len(r.Finding) > 0 && r.Result != event.Gone && r.Result != event.Superseded {
		t.finding = r.Finding.String()
		p.say(t, finding, r.Finding.String())
	}
	if r.Class == t.Class && len(r.Steps) > 0 {
		t.plan = r
	}
	switch r.Phase {
	case event.Step:
		p.step(t, r.Steps[r.Next-1])
	case event.Settled:
		p.settled(t, r)
	}
	p.testbed.Wake()
	return nil
}

func (p *progress) step(t *service, s event.StepRecord) {
	text := brief(s.Text.String())
	if s.Target != "" {
		if by, ok := p.first[s.Text.String()]; ok && by != t.Service {
			text = fmt.Sprintf("finds the policy extended for %s", by)
		} else {
			p.first[s.Text.String()] = t.Service
		}
	}
	if !slices.Contains(t.done, text) {
		t.done = append(t.done, text)
	}
	p.say(t, step, text)
}

func (p *progress) settled(t *service, r event.Record) {
	switch {
	case r.Error != "":
		p.say(t, trouble, r.Error)
	case r.Result == event.Asked:
		p.say(t, asks, r.Ask.String())
	case r.Result == event.Waiting:
		p.say(t, waits, strings.TrimPrefix(r.Rule.String(), "Waiting before the next step: ")+r.Note.String())
	case r.Result.Worked() && r.Class == t.Class && t.result != r.Result:
		at, _ := p.testbed.Failed(t.Service)
		p.say(t, string(r.Result), fmt.Sprintf("after %.1f s%s", r.At.Sub(at).Seconds(), spaced(r.Note.String())))
	case !r.Result.Worked():
		p.say(t, string(r.Status()), r.Finding.String()+spaced(r.Note.String()))
	}
	// Failures that may pass would take a quarter of an hour. Some become questions after two minutes, before others have ended.
	if t.result == event.Waiting && r.Result == event.Asked {
		return
	}
	ends := r.Result.Settled() || r.Result == event.Waiting && t.Ends == event.Waiting
	if r.Class == t.Class && ends && r.Result != t.result && r.Result != event.Superseded {
		t.result, t.at = r.Result, r.At
		if r.Result == event.Asked {
			t.done = []string{"asks a person: " + brief(r.Ask.String())}
		}
		if r.Result == event.Waiting {
			t.done = []string{"looks again later"}
		}
	}
}

func (p *progress) say(t *service, kind, text string) {
	if key := kind + text; text != "" && !t.said[key] {
		t.said[key] = true
		p.screen.line(t.Service, kind, text)
	}
}

func (p *progress) broke(err error) {
	p.mu.Lock()
	p.err = err
	p.mu.Unlock()
	p.screen.trouble("%v", err)
	p.testbed.Wake()
}

func (p *progress) ended() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err != nil || !slices.ContainsFunc(p.services, func(t *service) bool {
		switch t.result {
		case "":
			return true
		case event.Fixed, event.Synced, event.Gone:
			return !p.testbed.Healed(t.Service)
		}
		return false
	})
}

// relieved reports whether the permission that was added for another Service let the controller's own retry succeed before lbremedy looked again.
func (p *progress) relieved(t *service) bool {
	return t.Class == "ram-permission" && t.Ends == event.Fixed && t.result == event.Gone && slices.ContainsFunc(p.services, func(other *service) bool {
		return other.Class == t.Class && other.result == event.Fixed
	})
}

func (p *progress) wrong(t *service) string {
	tb := p.testbed
	healed := tb.Healed(t.Service)
	switch {
	case t.result == "":
		return fmt.Sprintf("%s has no outcome.", t.Service)
	case t.result != t.Ends && !p.relieved(t):
		return fmt.Sprintf("%s ended as %s and should have ended as %s.", t.Service, t.result, t.Ends)
	case t.Heals && !healed:
		return fmt.Sprintf("%s is said to be %s, and the controller has not synced it.", t.Service, t.result)
	case t.result == event.Fixed && !tb.Listens(t.Service):
		return fmt.Sprintf("%s is said to be fixed, and not each of its ports has a running listener.", t.Service)
	case !t.Heals && healed:
		return fmt.Sprintf("%s works, although nobody has answered for it.", t.Service)
	}
	return ""
}

// brief removes constant parts of a step's text, and the controller's names from UIDs.
func brief(step string) string {
	step = strings.ReplaceAll(step, "service.beta.kubernetes.io/alibaba-cloud-loadbalancer-", "")
	return defaultName.ReplaceAllString(step, "…")
}

var defaultName = regexp.MustCompile(`\ba[0-9a-f]{31}\b`)

// gist returns the first and the last sentence of a text: the finding and its consequence.
func gist(text string) string {
	all := sentences.FindAllString(strings.TrimSpace(text)+" ", -1)
	if len(all) < 3 {
		return text
	}
	return strings.TrimSpace(all[0]) + " … " + strings.TrimSpace(all[len(all)-1])
}

var sentences = regexp.MustCompile(`.*?[.:?!]"? +`)

func spaced(s string) string {
	if s == "" {
		return ""
	}
	return ". " + strings.TrimSuffix(s, ".")
}
