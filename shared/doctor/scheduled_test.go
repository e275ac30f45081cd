package doctor

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lbremedy/lbremedy/shared/control"
	"github.com/lbremedy/lbremedy/shared/engine"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/machine"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/shared/stream/embedded"
	"github.com/lbremedy/lbremedy/test/nats"
)

func scheduled(t *testing.T) *ScheduledRun {
	t.Helper()
	s := nats.Streams(t)
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	return &ScheduledRun{Env: &engine.Env{Cluster: "c1", Who: "worker", Stream: s, Now: func() time.Time { now = now.Add(time.Minute); return now }}}
}

func (p *ScheduledRun) records(t *testing.T) []string {
	t.Helper()
	var lines []string
	err := p.Env.Stream.EachLast(t.Context(), stream.Cases, "lbremedy.case.c1.>", func(m stream.Message) error {
		r, err := event.DecodeRecord(m.Subject, m.Header, m.Data)
		lines = append(lines, r.Class+" "+r.Service.String()+" "+string(r.Result)+": "+r.Finding.String()+" / "+r.Ask.String())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(lines)
	return lines
}

// New findings are asked, gone ones closed, unknown ones kept, and repeated ones change nothing.
func TestScheduledRun(t *testing.T) {
	t.Parallel()
	p := scheduled(t)
	web := About{Kind: Service, Namespace: "shop", Name: "web", UID: "0b5a9a53-6c3e-4a4c-9d5e-111111111111"}
	again := web
	again.UID = "0b5a9a53-6c3e-4a4c-9d5e-222222222222"
	lb := Finding{Check: "room", Severity: Critical, About: OfBalancer("lb-1"), Text: say.F("It is full."), Do: say.F("Make room.")}
	on := func(about About, key string, s Severity) Finding {
		return Finding{Check: "cordoned", Severity: s, About: about, Key: key, Text: say.F("It is %s.", key), Do: say.F("End %s.", key)}
	}
	of := func(unknown []Unknown, findings ...Finding) Result {
		return Result{Cluster: "c1", Checks: []string{"cordoned", "room"}, Findings: findings, Unknown: unknown}
	}
	const room, removed = "doctor-room load balancer lb-1 asked: It is full. / Make room.", "a check that was removed a day ago"
	now := time.Now()
	p.Env.Now = func() time.Time { now = now.Add(time.Second); return now }
	for i, step := range []struct {
		what                  string
		r                     Result
		opened, closed, stand int
		want                  []string
	}{
		{"what is good to know is no case", of(nil, on(web, "a", Info)), 0, 0, 0, nil},
		{"new", of(nil, lb, on(web, "a", Warning)), 2, 0, 2, []string{room, "doctor-cordoned shop/web asked: It is a. / End a."}},
		{"the same", of(nil, lb, on(web, "a", Warning)), 0, 0, 2, []string{room, "doctor-cordoned shop/web asked: It is a. / End a."}},
		{"another beside it", of(nil, lb, on(web, "a", Warning), on(web, "b", Warning)), 1, 0, 2,
			[]string{room, "doctor-cordoned shop/web asked: It is a. It is b. / End a. End b."}},
		{"unknown", of([]Unknown{{Check: "cordoned"}, {Check: "room"}}), 0, 0, 2,
			[]string{room, "doctor-cordoned shop/web asked: It is a. It is b. / End a. End b."}},
		{"changed a moment ago", Result{Cluster: "c1", Checks: []string{"cordoned", "room"}, Findings: []Finding{lb},
			Settling: []Unknown{{Check: "cordoned", About: web}}}, 0, 0, 2,
			[]string{room, "doctor-cordoned shop/web asked: It is a. It is b. / End a. End b."}},
		{"one gone, and the other unknown", of([]Unknown{{Check: "cordoned", About: web, Keys: []string{"b"}}}, lb), 1, 0, 2,
			[]string{room, "doctor-cordoned shop/web asked: It is b. / End b."}},
		{"both again", of(nil, lb, on(web, "a", Warning), on(web, "b", Warning)), 1, 0, 2,
			[]string{room, "doctor-cordoned shop/web asked: It is a. It is b. / End a. End b."}},
		{"one of them gone", of(nil, lb, on(web, "b", Warning)), 1, 0, 2, []string{room, "doctor-cordoned shop/web asked: It is b. / End b."}},
		{"made again", of(nil, lb, on(again, "b", Warning)), 1, 1, 2, []string{room, "doctor-cordoned shop/web gone:  / ",
			"doctor-cordoned shop/web asked: It is b. / End b."}},
		{"all gone", of(nil), 0, 2, 0, []string{"doctor-cordoned shop/web gone:  / ", "doctor-cordoned shop/web gone:  / ",
			"doctor-room load balancer lb-1 gone:  / "}},
		{"and back", of(nil, lb), 1, 0, 1, []string{"doctor-cordoned shop/web gone:  / ", "doctor-cordoned shop/web gone:  / ", room}},
		{"an older release without the check beside it", Result{Cluster: "c1", Checks: []string{"cordoned"}}, 0, 0, 1, []string{
			"doctor-cordoned shop/web gone:  / ", "doctor-cordoned shop/web gone:  / ", room}},
		{removed, Result{Cluster: "c1", Checks: []string{"cordoned"}}, 0, 1, 0, []string{"doctor-cordoned shop/web gone:  / ",
			"doctor-cordoned shop/web gone:  / ", "doctor-room load balancer lb-1 gone:  / "}},
	} {
		if step.what == removed {
			now = now.Add(25 * time.Hour)
		}
		got, err := p.tell(t.Context(), &Snapshot{Cluster: "c1"}, step.r)
		if err != nil {
			t.Fatalf("%d, %s: %v", i, step.what, err)
		}
		if got.Opened != step.opened || got.Closed != step.closed || got.StillOpen != step.stand {
			t.Errorf("%s: %d opened, %d closed, %d stand; want %d, %d, %d", step.what, got.Opened, got.Closed, got.StillOpen, step.opened, step.closed, step.stand)
		}
		slices.Sort(step.want)
		if d := cmp.Diff(step.want, p.records(t)); d != "" {
			t.Errorf("%s: %s", step.what, d)
		}
	}
	m, err := p.Env.Stream.Last(t.Context(), stream.Cases, "lbremedy.case.c1.*.doctor-room")
	if err != nil {
		t.Fatal(err)
	}
	if r, err := event.DecodeRecord(m.Subject, m.Header, m.Data); err != nil || r.Message != dropped {
		t.Errorf("the record says %q, %v", r.Message, err)
	}
}

// A case that a fix works on is left to it, and recorded when the fix has ended.
func TestScheduledRunLeavesRunsAlone(t *testing.T) {
	t.Parallel()
	p := scheduled(t)
	web := About{Kind: Service, Namespace: "shop", Name: "web", UID: "0b5a9a53-6c3e-4a4c-9d5e-111111111111"}
	record := func(phase event.Phase, result event.Result) {
		t.Helper()
		p.append(t, web.UID, "doctor-cordoned", func(r *event.Record) { r.Phase, r.Result = phase, result })
	}
	s := &Snapshot{Cluster: "c1"}
	stands := Result{Cluster: "c1", Checks: []string{"cordoned"}, Findings: []Finding{{Check: "cordoned", Severity: Warning, About: web, Text: say.F("So."),
		Do: say.F("No.")}}}
	gone := Result{Cluster: "c1", Checks: []string{"cordoned"}}
	tell := func(r Result, opened, closed int) {
		t.Helper()
		if got, err := p.tell(t.Context(), s, r); err != nil || got.Opened != opened || got.Closed != closed {
			t.Errorf("%d opened, %d closed, %v; want %d and %d", got.Opened, got.Closed, err, opened, closed)
		}
	}
	record(event.Intent, "")
	tell(stands, 0, 0)
	record(event.Settled, event.Failed)
	tell(stands, 0, 0)
	if d := cmp.Diff([]string{"doctor-cordoned shop/web failed:  / "}, p.records(t)); d != "" {
		t.Errorf("what a run has told is told in other words: %s", d)
	}
	tell(gone, 0, 1)
	record(event.Settled, event.Fixed)
	tell(gone, 0, 0)
	if d := cmp.Diff([]string{"doctor-cordoned shop/web fixed:  / "}, p.records(t)); d != "" {
		t.Errorf("what a fix has closed is closed again: %s", d)
	}
}

func TestScheduledRunIsKnown(t *testing.T) {
	t.Parallel()
	p := scheduled(t)
	told1(Result{Cluster: "c1", Checks: []string{"cordoned"}, Findings: []Finding{{Check: "cordoned", Severity: Warning, Text: say.F("So."), Do: say.F("No."),
		About: About{Kind: Service, Namespace: "shop", Name: "web", UID: uid1}}}})(t, p)
	data, err := p.Env.Stream.Get(t.Context(), event.StateKey("c1", uid1))
	if err != nil {
		t.Fatal(err)
	}
	d, err := event.ReadDocument(data)
	if err != nil {
		t.Fatal(err)
	}
	if c := d.Cases["doctor-cordoned"]; c == nil || c.Record == nil || c.Record.Result != event.Asked || c.Record.Case == "" || d.State.Holder != "" {
		t.Errorf("the document says %s", data)
	}
}

func TestScheduledRunRefuses(t *testing.T) {
	t.Parallel()
	p := scheduled(t)
	unlock, held, err := control.Lock(t.Context(), p.Env.Stream, "doctor.c1", "another", time.Minute)
	if err != nil || !held {
		t.Fatal(held, err)
	}
	defer unlock()
	if _, err := p.Run(t.Context()); !errors.Is(err, ErrElsewhere) {
		t.Errorf("got %v", err)
	}
}

// append stores a record as a fix would, written just now unless the record ends the case.
func (p *ScheduledRun) append(t *testing.T, uid, class string, change func(*event.Record)) {
	t.Helper()
	r := event.Record{
		Origin: event.Origin{Case: uid[:8] + "-20260102T150405", Cluster: "c1", Class: class, Service: event.Service{Namespace: "shop", Name: "web", UID: uid}},
		Run:    event.Run{Phase: event.Settled, Result: event.Asked, At: p.Env.Time()},
	}
	change(&r)
	_, header, data, err := event.EncodeRecord(r)
	if err != nil {
		t.Fatal(err)
	}
	p.write(t, uid, class, header, data)
	key, d := event.StateKey("c1", uid), event.Document{V: event.DocumentVersion}
	if stored, err := p.Env.Stream.Get(t.Context(), key); err == nil {
		if d, err = event.ReadDocument(stored); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Append(r); err != nil {
		t.Fatal(err)
	}
	if d.Outbox, d.State = nil, (machine.Doc{}); r.Phase != event.Settled {
		d.State = machine.Doc{
			Order: &machine.Order{ID: "o", Class: class, Attempt: 1, Expires: p.Env.Time().Add(time.Minute)},
			Cases: []machine.Case{{
				Class: class, State: machine.Waiting, Wait: machine.Wait{Until: p.Env.Time().Add(time.Minute), Why: machine.ForAnswer},
				Attempt: 1, Plan: &machine.Plan{Steps: 1},
			}},
		}
	}
	stored, err := json.Marshal(d)
	if err == nil {
		err = p.Env.Stream.Put(t.Context(), key, stored)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (p *ScheduledRun) write(t *testing.T, uid, class string, header map[string][]string, data []byte) {
	t.Helper()
	if _, err := p.Env.Stream.AppendRecord(t.Context(), "c1", uid, class, rand.Text(), header, data, 0); err != nil {
		t.Fatal(err)
	}
}

func (p *ScheduledRun) count(t *testing.T) int {
	t.Helper()
	n := 0
	if err := p.Env.Stream.Each(t.Context(), stream.Cases, event.CaseSubjects, time.Time{}, func(stream.Message) error { n++; return nil }); err != nil {
		t.Fatal(err)
	}
	return n
}

const uid1, uid2 = "0b5a9a53-6c3e-4a4c-9d5e-111111111111", "0b5a9a53-6c3e-4a4c-9d5e-222222222222"

func TestScheduledRunBoundaries(t *testing.T) {
	t.Parallel()
	web := About{Kind: Service, Namespace: "shop", Name: "web", UID: uid1}
	stands := Result{Cluster: "c1", Checks: []string{"cordoned"}, Findings: []Finding{{Check: "cordoned", Severity: Warning, About: web, Key: "a",
		Text: say.F("So."), Do: say.F("Do.")}}}
	gone := Result{Cluster: "c1", Checks: []string{"cordoned"}}
	blind := gone
	blind.Unknown = []Unknown{{Check: "cordoned", About: About{Kind: Service, Namespace: "shop", Name: "web", UID: uid2}, Why: say.F("no answer")}}
	many := func(n int, last string) Result {
		r := gone
		for i := range n {
			r.Findings = append(r.Findings, Finding{Check: "cordoned", Severity: Warning, About: web, Key: fmt.Sprintf("%05d", i), Text: say.F("So."), Do: say.F("Do.")})
		}
		r.Findings[n-1].Key = last
		return r
	}
	again := &Snapshot{Cluster: "c1", Given: []Part{Services},
		Services: []corev1.Service{{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: uid2}}}}
	real := time.Now()
	day := 24 * time.Hour
	for name, tt := range map[string]struct {
		before         func(*testing.T, *ScheduledRun) // records before the run
		at             time.Duration                   // this clock relative to that of NATS
		s              *Snapshot
		r              Result
		opened, closed int
		records        int // in the journal afterwards
	}{
		"younger than half of what the journal keeps": {told1(stands), 14 * day, nil, stands, 0, 0, 1},
		"older":                            {told1(stands), 16 * day, nil, stands, 0, 0, 2},
		"older, and it can't be told":      {told1(stands), 16 * day, nil, blind, 0, 0, 2},
		"older, and gone":                  {told1(stands), 16 * day, nil, gone, 0, 1, 2},
		"the clock has gone back":          {told1(stands), -40 * day, nil, stands, 0, 0, 1},
		"it has gone back, and it is gone": {told1(stands), -40 * day, nil, gone, 0, 1, 2},
		"the Service was made again, and of the new one nothing can be told": {told1(stands), 0, again, blind, 0, 1, 2},
		"nobody knows whether it was made again":                             {told1(stands), 0, nil, blind, 0, 0, 1},
		"a record that is none": {func(t *testing.T, p *ScheduledRun) {
			p.write(t, uid1, "doctor-cordoned", nil,
				[]byte("{"))
		}, 0, nil, stands, 1, 0, 2},
		"a record that is none, and nothing is found": {func(t *testing.T, p *ScheduledRun) { p.write(t, uid1, "doctor-cordoned", nil, []byte("{")) }, 0, nil,
			gone, 0, 0, 1},
		"of a fix, which keeps nothing of what is found": {func(t *testing.T, p *ScheduledRun) { p.append(t, uid1, "doctor-cordoned", func(*event.Record) {}) }, 0,
			nil, stands, 0, 0, 2},
		"of such a fix, and gone": {func(t *testing.T, p *ScheduledRun) { p.append(t, uid1, "doctor-cordoned", func(*event.Record) {}) }, 0, nil,
			gone, 0, 1, 2},
		"of such a fix, and it can't be told": {func(t *testing.T, p *ScheduledRun) { p.append(t, uid1, "doctor-cordoned", func(*event.Record) {}) }, 0, nil,
			blind, 0, 0, 1},
		"a class writes to the Service": {func(t *testing.T, p *ScheduledRun) {
			p.append(t, uid1, "arrearage", func(r *event.Record) { r.Phase, r.Result = event.Intent, "" })
		}, time.Minute, nil, stands, 0, 0, 1},
		"one that was to write and was killed": {func(t *testing.T, p *ScheduledRun) {
			p.append(t, uid1, "arrearage", func(r *event.Record) { r.Phase, r.Result = event.Intent, "" })
		}, time.Hour, nil, stands, 1, 0, 2},
		"one that waits": {func(t *testing.T, p *ScheduledRun) {
			p.append(t, uid1, "arrearage", func(r *event.Record) { r.Result, r.Wait = event.Waiting, time.Hour })
		}, time.Minute, nil, stands, 1, 0, 2},
		"a fix that was killed": {func(t *testing.T, p *ScheduledRun) {
			p.append(t, uid1, "doctor-cordoned", func(r *event.Record) { r.Phase, r.Result = event.Step, "" })
		}, time.Hour, nil, stands, 1, 0, 2},
		"a fix that did not work": {func(t *testing.T, p *ScheduledRun) {
			p.append(t, uid1, "doctor-cordoned", func(r *event.Record) { r.Result = event.Unsettled })
		}, time.Hour, nil, stands, 1, 0, 2},
		"very many findings":                {told1(many(1200, "z")), 0, nil, many(1200, "z"), 0, 0, 1},
		"very many, and another at the end": {told1(many(1200, "z")), 0, nil, many(1200, "y"), 1, 0, 2},
		"as many as are noted":              {told1(many(keysOnly, "z")), 0, nil, many(keysOnly, "y"), 1, 0, 2},
		"one more than are noted":           {told1(many(keysOnly, "z")), 0, nil, many(keysOnly+1, "z"), 1, 0, 2},
		"some of very many can't be told":   {told1(many(1200, "z")), 0, nil, blind, 0, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := scheduled(t)
			p.Env.Now = func() time.Time { return real }
			tt.before(t, p)
			p.Env.Now = func() time.Time { return real.Add(tt.at) }
			if tt.s == nil {
				tt.s = &Snapshot{Cluster: "c1"}
			}
			for range 2 { // nothing is recorded twice
				got, err := p.tell(t.Context(), tt.s, tt.r)
				if err != nil || got.Opened != tt.opened || got.Closed != tt.closed {
					t.Errorf("%d opened, %d closed, %v; want %d and %d", got.Opened, got.Closed, err, tt.opened, tt.closed)
				}
				if n := p.count(t); n != tt.records {
					t.Errorf("the journal holds %d records, want %d: %q", n, tt.records, p.records(t))
				}
				if tt.opened, tt.closed = 0, 0; tt.at > 15*day { // the record was stored just now, and is that old by this clock
					return
				}
			}
		})
	}
}

func told1(r Result) func(*testing.T, *ScheduledRun) {
	return func(t *testing.T, p *ScheduledRun) {
		t.Helper()
		if _, err := p.tell(t.Context(), &Snapshot{Cluster: "c1"}, r); err != nil {
			t.Fatal(err)
		}
	}
}

func TestScheduledRunRenews(t *testing.T) {
	t.Parallel()
	p := scheduled(t)
	web := About{Kind: Service, Namespace: "shop", Name: "web", UID: uid1}
	stands := Result{Cluster: "c1", Checks: []string{"cordoned"}, Findings: []Finding{{Check: "cordoned", Severity: Warning, About: web, Key: "a",
		Text: say.F("So."), Do: say.F("Do.")}}}
	p.append(t, uid1, "doctor-cordoned", func(r *event.Record) {
		r.First, r.Digest, r.Steps, r.Finding, r.Ask = p.Env.Time(), strings.Repeat("d", 32),
			[]event.StepRecord{{Kind: "resync", Text: say.Literal("touch it"), Step: []byte("{}")}}, say.Literal("So it is."), say.Literal("Agree.")
	})
	read := func() event.Record {
		m, err := p.Env.Stream.Last(t.Context(), stream.Cases, event.CaseSubject("c1", uid1, "doctor-cordoned"))
		if err != nil {
			t.Fatal(err)
		}
		r, err := event.DecodeRecord(m.Subject, m.Header, m.Data)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	before := read()
	for _, later := range []time.Duration{0, 20 * 24 * time.Hour} {
		p.Env.Now = func() time.Time { return time.Now().Add(later) }
		if _, err := p.tell(t.Context(), &Snapshot{Cluster: "c1"}, stands); err != nil {
			t.Fatal(err)
		}
		after := read()
		if !after.At.After(before.At) {
			t.Error("it was not written again")
		}
		before.At, before.Who, before.Found = after.At, after.Who, []event.Found{{Key: "a", Severity: "warning", Text: say.F("So."), Do: say.F("Do.")}}
		if d := cmp.Diff(before, after); d != "" {
			t.Error(d)
		}
	}
}

// However many processes run the doctor at once, and wherever one stops, each case is recorded once.
func TestScheduledRunOnce(t *testing.T) {
	t.Parallel()
	p := scheduled(t)
	r := Result{Cluster: "c1", Checks: []string{"room"}}
	const n = 40
	for i := range n {
		r.Findings = append(r.Findings, Finding{Check: "room", Severity: Warning, About: OfBalancer(fmt.Sprint("lb-", i)), Text: say.F("So."), Do: say.F("Do.")})
	}
	// One stops in the middle: its clock is read once for each case.
	ctx, cancel := context.WithCancel(t.Context())
	calls := 0
	p.Env.Now = func() time.Time {
		if calls++; calls == n/2 {
			cancel()
		}
		return time.Now()
	}
	if _, err := p.tell(ctx, &Snapshot{Cluster: "c1"}, r); !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
	if got := p.count(t); got == 0 || got >= n {
		t.Errorf("it told %d of %d", got, n)
	}
	p.Env.Now = time.Now
	var opened atomic.Int64
	var wait sync.WaitGroup
	before := p.count(t)
	for range 3 {
		wait.Go(func() {
			got, err := p.tell(t.Context(), &Snapshot{Cluster: "c1"}, r)
			if err != nil {
				t.Error(err)
			}
			opened.Add(int64(got.Opened))
		})
	}
	wait.Wait()
	if got := p.count(t); got != n || int(opened.Load()) != n-before {
		t.Errorf("%d records of %d cases, %d of %d opened", got, n, opened.Load(), n-before)
	}
}

func TestScheduledRunWithoutStream(t *testing.T) {
	t.Parallel()
	server := nats.Start(t, embedded.Options{})
	s := nats.Connect(t, stream.Config{URL: server.URL()})
	if _, err := s.Setup(t.Context(), nil, stream.Settings{}); err != nil {
		t.Fatal(err)
	}
	p := &ScheduledRun{Env: &engine.Env{Cluster: "c1", Who: "worker", Stream: s}}
	server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	r := Result{Cluster: "c1", Checks: []string{"room"}, Findings: []Finding{{Check: "room", Severity: Warning, About: OfBalancer("lb-1"), Text: say.F("So."),
		Do: say.F("Do.")}}}
	if got, err := p.tell(ctx, &Snapshot{Cluster: "c1"}, r); err == nil || got.Opened+got.Closed+got.StillOpen != 0 {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestScheduledRunNamesCases(t *testing.T) {
	t.Parallel()
	p := scheduled(t)
	now := p.Env.Time()
	p.Env.Now = func() time.Time { return now }
	web := About{Kind: Service, Namespace: "shop", Name: "web", UID: "0b5a9a53-6c3e-4a4c-9d5e-111111111111"}
	r := Result{Cluster: "c1", Checks: []string{"reuse", "silent"}, Findings: []Finding{
		{Check: "reuse", Severity: Warning, About: web, Text: say.F("So."), Do: say.F("No.")}, {Check: "silent", Severity: Critical, About: web,
			Text: say.F("So."), Do: say.F("No.")},
	}}
	if got, err := p.tell(t.Context(), &Snapshot{Cluster: "c1"}, r); err != nil || got.Opened != 2 {
		t.Fatalf("%d opened, %v", got.Opened, err)
	}
	ids := map[string]bool{}
	err := p.Env.Stream.EachLast(t.Context(), stream.Cases, "lbremedy.case.c1.>", func(m stream.Message) error {
		rec, err := event.DecodeRecord(m.Subject, m.Header, m.Data)
		ids[rec.Case] = true
		return err
	})
	if err != nil || len(ids) != 2 {
		t.Errorf("the cases are %v, %v", ids, err)
	}
}
