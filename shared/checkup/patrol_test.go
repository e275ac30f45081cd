package checkup

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lbremedy/lbremedy/events"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/test/nats"
)

// patrol returns a patrol with a stream of its own, whose clock stands still.
func patrol(t *testing.T) *Patrol {
	t.Helper()
	s := nats.Streams(t)
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	return &Patrol{Env: &remedy.Env{Cluster: "c1", Who: "worker", Stream: s, Now: func() time.Time { now = now.Add(time.Minute); return now }}}
}

// records returns the last records of the cluster's cases, one line each.
func (p *Patrol) records(t *testing.T) []string {
	t.Helper()
	var lines []string
	err := p.Env.Stream.EachLast(t.Context(), stream.Cases, "lbremedy.case.c1.>", func(m stream.Message) error {
		e, err := events.DecodeNATS(m.Header, m.Data)
		if err != nil {
			return err
		}
		r, err := events.ReadRecord(e)
		lines = append(lines, r.Class+" "+r.Service.String()+" "+string(r.Result)+": "+r.Finding+" / "+r.Ask)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(lines)
	return lines
}

// What is new is asked, what is gone is closed, what can't be told stands, and what is
// told twice changes nothing.
func TestPatrol(t *testing.T) {
	t.Parallel()
	p := patrol(t)
	web := About{Kind: Service, Namespace: "shop", Name: "web", UID: "0b5a9a53-6c3e-4a4c-9d5e-111111111111"}
	again := web
	again.UID = "0b5a9a53-6c3e-4a4c-9d5e-222222222222"
	lb := Finding{Check: "room", Severity: Critical, About: OfBalancer("lb-1"), Text: "It is full.", Do: "Make room."}
	on := func(about About, key string, s Severity) Finding {
		return Finding{Check: "cordoned", Severity: s, About: about, Key: key, Text: "It is " + key + ".", Do: "End " + key + "."}
	}
	of := func(unknown []Unknown, findings ...Finding) Result {
		return Result{Cluster: "c1", Checks: []string{"cordoned", "room"}, Findings: findings, Unknown: unknown}
	}
	const room = "survey-room kube-system/lb-1 asked: It is full. / Make room."
	for i, step := range []struct {
		what                  string
		r                     Result
		opened, closed, stand int
		want                  []string
	}{
		{"what is good to know is no case", of(nil, on(web, "a", Info)), 0, 0, 0, nil},
		{"new", of(nil, lb, on(web, "a", Warning)), 2, 0, 2, []string{room, "survey-cordoned shop/web asked: It is a. / End a."}},
		{"the same", of(nil, lb, on(web, "a", Warning)), 0, 0, 2, []string{room, "survey-cordoned shop/web asked: It is a. / End a."}},
		{"another beside it", of(nil, lb, on(web, "a", Warning), on(web, "b", Warning)), 1, 0, 2, []string{room, "survey-cordoned shop/web asked: It is a. It is b. / End a. End b."}},
		{"unknown", of([]Unknown{{Check: "cordoned"}, {Check: "room"}}), 0, 0, 2, []string{room, "survey-cordoned shop/web asked: It is a. It is b. / End a. End b."}},
		{"one of them gone", of(nil, lb, on(web, "b", Warning)), 1, 0, 2, []string{room, "survey-cordoned shop/web asked: It is b. / End b."}},
		{"made again", of(nil, lb, on(again, "b", Warning)), 1, 1, 2, []string{room, "survey-cordoned shop/web gone:  / ", "survey-cordoned shop/web asked: It is b. / End b."}},
		{"all gone", of(nil), 0, 2, 0, []string{"survey-cordoned shop/web gone:  / ", "survey-cordoned shop/web gone:  / ", "survey-room kube-system/lb-1 gone:  / "}},
		{"and back", of(nil, lb), 1, 0, 1, []string{"survey-cordoned shop/web gone:  / ", "survey-cordoned shop/web gone:  / ", room}},
	} {
		got, err := p.tell(t.Context(), &Snapshot{Cluster: "c1"}, step.r)
		if err != nil {
			t.Fatalf("%d, %s: %v", i, step.what, err)
		}
		if got.Opened != step.opened || got.Closed != step.closed || got.Stands != step.stand {
			t.Errorf("%s: %d opened, %d closed, %d stand; want %d, %d, %d", step.what, got.Opened, got.Closed, got.Stands, step.opened, step.closed, step.stand)
		}
		slices.Sort(step.want)
		if d := cmp.Diff(step.want, p.records(t)); d != "" {
			t.Errorf("%s: %s", step.what, d)
		}
	}
}

// A case that a run works on is left to it, and told when the run has ended.
func TestPatrolLeavesRunsAlone(t *testing.T) {
	t.Parallel()
	p := patrol(t)
	web := About{Kind: Service, Namespace: "shop", Name: "web", UID: "0b5a9a53-6c3e-4a4c-9d5e-111111111111"}
	record := func(phase events.Phase, result events.Result) {
		t.Helper()
		j := p.Env.Stream.Journal("c1", web.UID, "survey-cordoned")
		if _, err := j.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		e, err := events.NewRecord(events.Record{Case: "0b5a9a53-x", Cluster: "c1", Class: "survey-cordoned", Phase: phase, Result: result, At: p.now(),
			Service: events.Service{Namespace: "shop", Name: "web", UID: web.UID}})
		if err != nil {
			t.Fatal(err)
		}
		header, data, err := events.EncodeNATS(e)
		if err == nil {
			err = j.Append(t.Context(), e.ID(), header, data)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	s := &Snapshot{Cluster: "c1"}
	stands := Result{Cluster: "c1", Checks: []string{"cordoned"}, Findings: []Finding{{Check: "cordoned", Severity: Warning, About: web, Text: "So.", Do: "No."}}}
	gone := Result{Cluster: "c1", Checks: []string{"cordoned"}}
	tell := func(r Result, opened, closed int) {
		t.Helper()
		if got, err := p.tell(t.Context(), s, r); err != nil || got.Opened != opened || got.Closed != closed {
			t.Errorf("%d opened, %d closed, %v; want %d and %d", got.Opened, got.Closed, err, opened, closed)
		}
	}
	record(events.Started, "")
	tell(stands, 0, 0)
	record(events.Settled, events.Failed)
	tell(stands, 1, 0)
	record(events.Settled, events.Fixed)
	tell(gone, 0, 1)
	if d := cmp.Diff([]string{"survey-cordoned shop/web fixed:  / "}, p.records(t)); d != "" {
		t.Errorf("what a fix has closed is closed again: %s", d)
	}
}

// Of two that survey a cluster at once, one does; what was kept and can't be read is an
// error and no empty result.
func TestPatrolRefuses(t *testing.T) {
	t.Parallel()
	p := patrol(t)
	unlock, held, err := p.Env.Stream.Lock(t.Context(), "survey.c1", "another", time.Minute)
	if err != nil || !held {
		t.Fatal(held, err)
	}
	if _, err := p.Run(t.Context()); !errors.Is(err, ErrElsewhere) {
		t.Errorf("got %v", err)
	}
	unlock()
	if err := p.Env.Stream.Put(t.Context(), p.key(), []byte("{")); err != nil {
		t.Fatal(err)
	}
	if _, err := p.tell(t.Context(), &Snapshot{}, Result{Checks: []string{"room"}}); err == nil {
		t.Error("a result that can't be read was taken for none")
	}
}
