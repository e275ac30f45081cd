package ticket

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/policy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/stream"
)

func same(t testing.TB, got []string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestLife(t *testing.T) {
	w := newWorld(t)
	h := newHook(t)
	q := w.queue(w.follower(nil, h.sink("ops")), 0)
	q.put(w.write(w.record(1, "vswitch-ip-exhausted", event.Asked)))
	same(t, h.told(), "opened vsw-1: 1 fail, 0 over")
	q.put(w.write(w.record(2, "vswitch-ip-exhausted", event.Asked)))
	same(t, h.told())
	q.pass(9 * time.Second)
	same(t, h.told())
	q.pass(time.Second)
	same(t, h.told(), "updated vsw-1: 2 fail, 0 over")
	q.pass(time.Minute)
	q.put(w.write(w.record(1, "vswitch-ip-exhausted", event.Fixed)))
	same(t, h.told(), "updated vsw-1: 1 fail, 1 over")
	q.put(w.write(w.record(2, "vswitch-ip-exhausted", event.Gone)))
	q.pass(10 * time.Second)
	posts := h.take()
	if len(posts) != 1 {
		t.Fatalf("got %d posts", len(posts))
	}
	kind, n := posts[0].notice(t)
	if kind != "closed" || !strings.Contains(n.Text, "1 Service: fixed by lbremedy") || !strings.Contains(n.Text, "1 Service: recovered, without a fix") {
		t.Errorf("got %s\n%s", kind, n.Text)
	}
	q.pass(time.Hour)
	q.put(w.write(w.record(2, "vswitch-ip-exhausted", event.Asked)))
	same(t, h.told(), "opened vsw-1: 1 fail, 0 over, again")
	q.pass(time.Hour)
	q.put(w.write(w.record(2, "vswitch-ip-exhausted", event.Undone)))
	same(t, h.told(), "closed vsw-1: 0 fail, 1 over")
	q.empty()
}

func TestResults(t *testing.T) {
	for _, tt := range []struct {
		result event.Result
		want   []string
	}{
		{event.Asked, []string{"opened vsw-1: 1 fail, 0 over"}},
		{event.Failed, []string{"opened vsw-1: 1 fail, 0 over"}},
		{event.Unsettled, []string{"opened vsw-1: 1 fail, 0 over"}},
		{event.Fixed, []string{"opened vsw-1: 0 fail, 1 over"}},
		{event.Planned, nil}, {event.Waiting, nil}, {event.Gone, nil}, {event.Superseded, nil}, {event.Undone, nil}, {event.OutOfScope, nil},
	} {
		t.Run(string(tt.result), func(t *testing.T) {
			w := newWorld(t)
			h := newHook(t)
			q := w.queue(w.follower(nil, h.sink("ops")), 0)
			q.put(w.write(w.record(1, "vswitch-ip-exhausted", tt.result)))
			q.pass(time.Hour)
			same(t, h.told(), tt.want...)
			q.empty()
		})
	}
}

// A plan that nobody applies stays open as long as its failure, and the end is sent.
func TestPlanned(t *testing.T) {
	w := newWorld(t)
	h := newHook(t)
	sink := h.sink("ops")
	sink.Results = []string{string(event.Planned)}
	q := w.queue(w.follower(nil, sink), 0)
	r := w.record(1, "vswitch-ip-exhausted", event.Planned)
	key := incidentOf("", r).member(uid(1))
	q.put(w.write(r))
	same(t, h.told(), "opened vsw-1: 1 fail, 0 over")
	if kept := w.lasts(key); kept != "" {
		t.Errorf("who still fails is forgotten after %s", kept)
	}
	q.pass(8 * 24 * time.Hour)
	q.put(w.write(w.record(1, "vswitch-ip-exhausted", event.Gone)))
	same(t, h.told(), "closed vsw-1: 0 fail, 1 over")
	if kept := w.lasts(key); kept != "168h0m0s" {
		t.Errorf("what is over is kept for %q", kept)
	}
	q.empty()
}

// If a failure continues but its sink no longer wants it, the ticket ends with a sentence that says so. The outcome is still sent.
func TestNoLongerAsked(t *testing.T) {
	plan := func(r *event.Record) {
		r.Risk, r.Steps = "medium", []event.StepRecord{{Kind: "annotate", Text: say.Literal("annotate the Service"), Risk: "medium"}}
	}
	for name, tt := range map[string]struct {
		results, risks []string
		then           []event.Result
		want           string
	}{
		"observed": {nil, nil, []event.Result{event.Planned}, "closed 1: Still failing: only planned, since the policy observes"},
		"observed, and gone": {nil, nil, []event.Result{event.Planned, event.Gone},
			"closed 1: Still failing: only planned, since the policy observes; closed 1: Over: recovered"},
		"approved elsewhere": {[]string{"needs-approval"}, nil, []event.Result{event.Gone}, "closed 1: Over: recovered"},
		"of a risk":          {nil, []string{"medium"}, []event.Result{event.Superseded}, "closed 1: Over: it fails in another way now"},
		"failed since":       {[]string{"needs-approval"}, nil, []event.Result{event.Failed}, "closed 1: Still failing: lbremedy could not find the cause"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			h := newHook(t)
			s := h.sink("ops")
			s.Results, s.Risks = tt.results, tt.risks
			q := w.queue(w.follower(nil, s), 0)
			q.put(w.write(w.record(1, "vswitch-ip-exhausted", event.Asked, plan)))
			q.put(w.write(w.record(2, "vswitch-ip-exhausted", event.Planned, plan))) // was never asked about
			q.pass(time.Minute)
			h.take()
			for _, result := range tt.then {
				q.put(w.write(w.record(1, "vswitch-ip-exhausted", result)))
				q.pass(time.Minute)
			}
			var got []string
			for _, p := range h.take() {
				kind, n := p.notice(t)
				for _, outcome := range results {
					if strings.Contains(n.Text, "1 Service: "+outcome.String()+".") {
						begin, _, _ := strings.Cut(n.Title, ": ")
						got = append(got, fmt.Sprintf("%s %d: %s: %s", kind, n.Over, begin, outcome))
					}
				}
				if n.Lead.Service.Name != "web-1" || strings.Contains(n.Text, "It is over") == strings.Contains(n.Text, "the failure goes on") {
					t.Errorf("%s\n%s", n.Title, n.Text)
				}
			}
			if all := strings.Join(got, "; "); !strings.HasPrefix(all, tt.want) || len(got) != len(tt.then) {
				t.Errorf("got %q, want %q", all, tt.want)
			}
			q.empty()
			none := q.o.render(incident{"cluster-c1", "busy", "x"}, "", Head{Status: Open}, view{}, Closed)
			if none.Title != "Busy" || !strings.HasPrefix(none.Text, "This ticket is closed.") {
				t.Errorf("of nothing: %q, %q", none.Title, none.Text)
			}
		})
	}
}

// A plan of another Service that is only shown, from while an update waited, does not turn the end into "Still failing".
func TestNeverAsked(t *testing.T) {
	w := newWorld(t)
	h := newHook(t)
	q := w.queue(w.follower(nil, h.sink("ops")), 0)
	asks := func(ask string) {
		q.put(w.write(w.record(1, "vswitch-ip-exhausted", event.Asked, func(r *event.Record) { r.Ask = say.Literal(ask) })))
	}
	asks("Free an address.")
	q.pass(time.Minute)
	h.take()
	asks("Free another address.")
	q.put(w.write(w.record(2, "vswitch-ip-exhausted", event.Planned)))
	q.put(w.write(w.record(1, "vswitch-ip-exhausted", event.Gone)))
	q.pass(time.Minute)
	told := h.take()
	if len(told) == 0 {
		t.Fatal("the end is not told")
	}
	if kind, n := told[len(told)-1].notice(t); kind != "closed" || n.Over != 1 || n.Lead.Service.Name != "web-1" || !strings.Contains(n.Text, "It is over") {
		t.Errorf("%s, %d over: %s\n%s", kind, n.Over, n.Title, n.Text)
	}
}

// A ticket about a plan that became risky says how its failure ended, though the sink never wanted the first plan.
func TestPlanThatBecameRisky(t *testing.T) {
	w := newWorld(t)
	h := newHook(t)
	sink := h.sink("ops")
	sink.Results, sink.Risks = []string{"planned"}, []string{"high"}
	q := w.queue(w.follower(nil, sink), 0)
	for _, risk := range []string{"low", "high"} {
		q.put(w.write(w.record(1, "vswitch-ip-exhausted", event.Planned, func(r *event.Record) { r.Risk = risk })))
		q.pass(time.Minute)
	}
	if told := h.take(); len(told) != 1 {
		t.Fatalf("%d messages about the risky plan", len(told))
	}
	q.put(w.write(w.record(1, "vswitch-ip-exhausted", event.Gone)))
	q.pass(time.Minute)
	told := h.take()
	if len(told) == 0 {
		t.Fatal("the end is not told")
	}
	if kind, n := told[len(told)-1].notice(t); kind != "closed" || n.Over != 1 || !strings.Contains(n.Text, "It is over") {
		t.Errorf("%s, %d over: %s\n%s", kind, n.Over, n.Title, n.Text)
	}
}

// A sink may want only questions that a person can approve, or only those that need more.
func TestQuestions(t *testing.T) {
	for _, tt := range []struct {
		results []string
		want    string
	}{
		{[]string{"needs-approval"}, "approve"}, {[]string{"needs-action"}, "act"},
		{[]string{"failed"}, ""}, {nil, "act approve"},
	} {
		s := policy.Sink{Kind: policy.Webhook, Results: tt.results}
		act := Member{Result: event.Asked}
		var got []string
		if wants(s, act, act.Result, act.Status(), "") {
			got = append(got, "act")
		}
		if wants(s, Member{}, event.Asked, event.NeedsApproval, "") {
			got = append(got, "approve")
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%q wants %q, not %q", tt.results, got, tt.want)
		}
	}
}

func TestNamespaces(t *testing.T) {
	for _, tt := range []struct {
		patterns  []string
		namespace string
		want      bool
	}{
		{nil, "shop", true}, {[]string{"shop"}, "shop", true}, {[]string{"shop"}, "shop-2", false}, {[]string{"a", "prod-*"}, "prod-shop", true},
		{[]string{"prod-*"}, "shop", false}, {[]string{"shop-?"}, "shop-2", true},
	} {
		m := Member{Service: event.Service{Namespace: tt.namespace, Name: "web"}, Result: event.Asked}
		if got := reaches(policy.Sink{Kind: policy.Webhook, Namespaces: tt.patterns}, "busy", m); got != tt.want {
			t.Errorf("%q and %s: got %t", tt.patterns, tt.namespace, got)
		}
	}
}

func TestMuted(t *testing.T) {
	w := newWorld(t)
	h := newHook(t)
	q := w.queue(w.follower(nil, h.sink("ops")), 0)
	muted := func(r *event.Record) { r.Muted = true }
	q.put(w.write(w.record(1, "vswitch-ip-exhausted", event.Asked, muted)))
	q.pass(time.Minute)
	same(t, h.told())
	q.put(w.write(w.record(1, "vswitch-ip-exhausted", event.Asked)))
	same(t, h.told(), "opened vsw-1: 1 fail, 0 over")
	q.pass(time.Minute)
	q.put(w.write(w.record(1, "vswitch-ip-exhausted", event.Asked, muted)))
	same(t, h.told(), "closed vsw-1: 0 fail, 1 over")
	q.empty()
}

func TestIncidents(t *testing.T) {
	w := newWorld(t)
	h := newHook(t)
	q := w.queue(w.follower(nil, h.sink("ops")), 0)
	none := func(r *event.Record) { r.Cause = "" }
	c2 := func(r *event.Record) { r.Cluster = "c2" }
	for _, r := range []event.Record{
		w.record(1, "vswitch-ip-exhausted", event.Asked, cause("vsw-1")), w.record(2, "vswitch-ip-exhausted", event.Asked, cause("vsw-2")),
		w.record(3, "arrearage", event.Asked, cause("bill")), w.record(4, "arrearage", event.Asked, cause("bill"), c2),
		w.record(5, "throttling", event.Asked, cause("slb")), w.record(6, "throttling", event.Asked, cause("slb"), c2),
		w.record(7, "busy", event.Asked, none), w.record(8, "busy", event.Asked, none),
	} {
		q.put(w.write(r))
	}
	q.pass(time.Minute)
	got := h.told()
	slices.Sort(got)
	same(t, got, "opened : 1 fail, 0 over", "opened : 1 fail, 0 over", "opened bill: 1 fail, 0 over", "opened bill: 1 fail, 0 over",
		"opened slb: 1 fail, 0 over", "opened slb: 1 fail, 0 over",
		"opened vsw-1: 1 fail, 0 over", "opened vsw-2: 1 fail, 0 over")
	q.put(w.write(w.record(1, "vswitch-ip-exhausted", event.Asked, cause("vsw-2"))))
	q.pass(time.Minute)
	got = h.told()
	slices.Sort(got)
	same(t, got, "closed vsw-1: 0 fail, 1 over", "updated vsw-2: 2 fail, 0 over")
	// A run that stopped before it found a cause changes no incident.
	q.put(w.write(w.record(1, "vswitch-ip-exhausted", event.Failed, func(r *event.Record) { r.Cause, r.Finding, r.Error = "", nil, "no answer" })))
	q.pass(time.Minute)
	same(t, h.told(), "updated vsw-2: 2 fail, 0 over")
	q.empty()
}

// Each sink gets only its own cluster's failures, including those of an account, and what a person closes there, although two
// clusters' policies on one NATS name a sink alike.
func TestClustersAreToldApart(t *testing.T) {
	w := newWorld(t)
	heard := func(h *hook, n int) []string {
		t.Helper()
		late := time.After(2 * time.Minute)
		for range n {
			select {
			case <-h.came:
			case <-late:
				t.Fatalf("told of %q alone", h.told())
			}
		}
		all := h.told()
		slices.Sort(all)
		return all
	}
	in := func(cluster string) func(*event.Record) {
		return func(r *event.Record) { r.Cluster, r.Service.Name = cluster, "web-of-"+cluster }
	}
	hooks := map[string]*hook{}
	ctx, cancel := context.WithCancel(w.ctx)
	var wait sync.WaitGroup
	defer wait.Wait()
	defer cancel()
	for i, cluster := range []string{"c1", "c2"} {
		h := newHook(t)
		hooks[cluster] = h
		f := w.follower(func(c *Config) { c.Cluster = cluster }, h.sink("ops"))
		f.gap = 0
		wait.Go(func() { f.Run(ctx) })
		w.write(w.record(10*i+1, "arrearage", event.Asked, cause("bill"), in(cluster)))
		w.write(w.record(10*i+2, "vswitch-ip-exhausted", event.Asked, cause("vsw-"+cluster), in(cluster)))
	}
	for cluster, h := range hooks {
		same(t, heard(h, 2), "opened bill: 1 fail, 0 over", "opened vsw-"+cluster+": 1 fail, 0 over")
	}
	list, err := List(w.ctx, w.s)
	if err != nil || len(list) != 4 {
		t.Fatalf("%d incidents, %v", len(list), err)
	}
	for _, i := range list {
		if i.Members[0].Cluster == "c2" && i.Class == "arrearage" {
			if _, err := Close(w.ctx, w.s, i.ID, "ann", w.now()); err != nil {
				t.Fatal(err)
			}
		}
	}
	same(t, heard(hooks["c2"], 1), "closed bill: 0 fail, 1 over")
	same(t, hooks["c1"].told())
}

func TestThousand(t *testing.T) {
	w := newWorld(t)
	h := newHook(t)
	q := w.queue(w.follower(nil, h.sink("ops")), 0)
	var ms []stream.Message
	for n := range 1000 {
		ms = append(ms, w.write(w.record(n, "vswitch-ip-exhausted", event.Asked)))
	}
	began := time.Now()
	q.put(ms...)
	q.pass(time.Minute)
	posts := h.take()
	if len(posts) != 2 {
		t.Fatalf("got %d posts", len(posts))
	}
	kind, n := posts[1].notice(t)
	if kind != "updated" || n.Failing != 1000 || n.More != 980 || len(n.Services) != 20 || !strings.Contains(n.Text, "1000 Services") ||
		!strings.Contains(n.Text, "- and 980 more;") {
		t.Errorf("got %s: %d fail, %d listed\n%s", kind, n.Failing, len(n.Services), n.Text)
	}
	q.empty()
	t.Logf("1,000 records and all their deliveries took %s", time.Since(began).Round(time.Millisecond))
	list, err := List(w.ctx, w.s)
	if err != nil || len(list) != 1 || list[0].Failing != 1000 || len(list[0].Tickets) != 1 {
		t.Errorf("got %d incidents, %v", len(list), err)
	}
	ms = nil
	for n := range 1000 {
		ms = append(ms, w.write(w.record(n, "vswitch-ip-exhausted", event.Gone)))
	}
	q.put(ms...)
	q.pass(time.Minute)
	got := h.told()
	if last := got[len(got)-1]; last != "closed vsw-1: 0 fail, 1000 over" || len(got) > 3 {
		t.Errorf("got %q", got)
	}
	q.empty()
}

// Duplicates and older records change nothing, in any order, whichever follower sees them first.
func TestDuplicatesAndReordering(t *testing.T) {
	for seed := range uint64(8) {
		w := newWorld(t)
		a, b := newHook(t), newHook(t)
		f := w.follower(nil, a.sink("one"), b.sink("two"))
		var ms []stream.Message
		for _, r := range []event.Result{event.Asked, event.Gone, event.Asked, event.Fixed, event.Unsettled} {
			for n := range 3 {
				ms = append(ms, w.write(w.record(n, "vswitch-ip-exhausted", r)))
			}
		}
		order := rand.New(rand.NewPCG(seed, 1))
		qs := []*queue{w.queue(f, 0), w.queue(f, 1)}
		for _, q := range qs {
			mine := append(slices.Clone(ms), ms...)
			order.Shuffle(len(mine), func(i, j int) { mine[i], mine[j] = mine[j], mine[i] })
			q.put(mine...)
		}
		for range 10 {
			for _, q := range qs {
				q.pass(10 * time.Second)
			}
		}
		for i, h := range []*hook{a, b} {
			got := h.told()
			opened := 0
			for _, text := range got {
				if strings.HasPrefix(text, "opened") && !strings.HasSuffix(text, "again") {
					opened++
				}
			}
			if last := got[len(got)-1]; opened != 1 || !strings.Contains(last, "3 fail, 0 over") {
				t.Errorf("seed %d, sink %d: got %q", seed, i, got)
			}
			qs[i].empty()
		}
	}
}

// A sink that is down delays only itself: it is tried rarely, loses nothing, and gets the present state when it answers, and incidents
// that began and ended meanwhile.
func TestDownForAnHour(t *testing.T) {
	w := newWorld(t)
	down, up := newHook(t), newHook(t)
	f := w.follower(nil, down.sink("down"), up.sink("up"))
	lags, runs := w.queue(f, 0), w.queue(f, 1)
	down.answers(func(int, post) (int, http.Header, string) { return 503, nil, "out of order" })
	both := func(r event.Record) {
		m := w.write(r)
		lags.put(m)
		runs.put(m)
	}
	for n := range 50 {
		both(w.record(n, "vswitch-ip-exhausted", event.Asked, cause(fmt.Sprint("vsw-", n%2))))
	}
	both(w.record(90, "arrearage", event.Asked, cause("bill")))
	lags.pass(30 * time.Minute)
	both(w.record(90, "arrearage", event.Gone, cause("bill")))
	both(w.record(91, "throttling", event.Fixed, cause("slb")))
	lags.pass(30 * time.Minute)
	runs.run()
	if tries := len(down.take()); tries < 10 || tries > 100 {
		t.Errorf("a sink that is down was tried %d times in an hour", tries)
	}
	if got := up.told(); len(got) < 5 {
		t.Errorf("the other sink was told %q", got)
	}
	if got := stats(f).Retries; got == 0 {
		t.Error("no retry was counted")
	}
	down.answers(nil)
	lags.pass(10 * time.Minute)
	got := down.told()
	slices.Sort(got)
	same(t, got, "opened bill: 0 fail, 1 over", "opened slb: 0 fail, 1 over", "opened vsw-0: 25 fail, 0 over", "opened vsw-1: 25 fail, 0 over")
	lags.empty()
}

func TestRetryAfter(t *testing.T) {
	w := newWorld(t)
	h := newHook(t)
	q := w.queue(w.follower(nil, h.sink("ops")), 0)
	h.answers(func(n int, _ post) (int, http.Header, string) {
		switch n {
		case 1:
			return 429, http.Header{"Retry-After": {"600"}}, ""
		case 2:
			return 503, http.Header{"Retry-After": {w.now().Add(20 * time.Minute).UTC().Format(http.TimeFormat)}}, ""
		}
		return 204, nil, ""
	})
	q.put(w.write(w.record(1, "vswitch-ip-exhausted", event.Asked)))
	var at []time.Duration
	began := w.now()
	for range 3 * 3600 / 10 {
		h.mu.Lock()
		n := len(h.posts)
		h.mu.Unlock()
		if n > len(at) {
			at = append(at, w.now().Sub(began))
		}
		q.pass(10 * time.Second)
	}
	if diff := cmp.Diff([]time.Duration{0, 10 * time.Minute, 30 * time.Minute}, at); diff != "" {
		t.Errorf("tries after (-want +got)\n%s", diff)
	}
	q.empty()
}

// A refusal is logged, counted, shown, and retried each hour until accepted: an unchanged failure, or one that is over, leaves no further record.
func TestRefused(t *testing.T) {
	w := newWorld(t)
	h := newHook(t)
	f := w.follower(nil, h.sink("ops"))
	q := w.queue(f, 0)
	refuses := func(int, post) (int, http.Header, string) { return 401, nil, "Authorization: Bearer abcdefgh12345678" }
	tried := func(want int) {
		t.Helper()
		if n := len(h.take()); n != want {
			t.Errorf("it was tried %d times, want %d", n, want)
		}
	}
	h.answers(refuses)
	q.put(w.write(w.record(1, "vswitch-ip-exhausted", event.Asked)))
	q.pass(59 * time.Minute)
	tried(1)
	if stats(f).Refused != 1 || !strings.Contains(w.log.String(), "a sink refuses what it is sent") || strings.Contains(w.log.String(), "abcdefgh12345678") {
		t.Errorf("counted %d, logged %s", stats(f).Refused, w.log.String())
	}
	list, err := List(w.ctx, w.s)
	if err != nil || len(list) != 1 || !list[0].Tickets[0].Refused || !strings.Contains(list[0].Tickets[0].Error, "401") {
		t.Errorf("got %+v, %v", list, err)
	}
	q.pass(3 * time.Hour)
	tried(3)
	// Another incident is sent meanwhile, even if the Service has moved to it.
	h.answers(func(_ int, p post) (int, http.Header, string) {
		if strings.Contains(p.body, "vsw-9") {
			return 200, nil, "ok"
		}
		return refuses(0, p)
	})
	q.put(w.write(w.record(1, "vswitch-ip-exhausted", event.Asked, cause("vsw-9"))))
	q.pass(30 * time.Second)
	same(t, h.told(), "opened vsw-9: 1 fail, 0 over")
	q.put(w.write(w.record(1, "vswitch-ip-exhausted", event.Asked)))
	h.answers(nil)
	q.pass(time.Hour)
	got := h.told()
	slices.Sort(got)
	same(t, got, "closed vsw-9: 0 fail, 1 over", "opened vsw-1: 1 fail, 0 over")
	q.empty()
	if list, _ := List(w.ctx, w.s); list[0].Tickets[0].Refused || list[0].Tickets[0].Error != "" {
		t.Errorf("got %+v", list[0].Tickets[0])
	}
	// The end within an hour of a refused update is sent too.
	h.answers(refuses)
	q.put(w.write(w.record(2, "vswitch-ip-exhausted", event.Asked)))
	q.pass(10 * time.Minute)
	q.put(w.write(w.record(1, "vswitch-ip-exhausted", event.Gone)), w.write(w.record(2, "vswitch-ip-exhausted", event.Gone)))
	q.pass(2 * time.Hour)
	tried(3)
	if len(q.waiting) != 2 {
		t.Errorf("%d records wait, want those of the two Services", len(q.waiting))
	}
	h.answers(nil)
	q.pass(time.Hour)
	same(t, h.told(), "closed vsw-1: 0 fail, 2 over")
	q.empty()
}

// After a crash the same is sent again under the same name, and no second ticket is made.
func TestKilledBetweenTellingAndNote(t *testing.T) {
	w := newWorld(t)
	h := newHook(t)
	h.answers(func(n int, _ post) (int, http.Header, string) {
		if n == 1 {
			w.nats.Close() // nothing can be noted any more
		}
		return 200, nil, ""
	})
	sink := h.sink("ops")
	q := w.queue(w.follower(nil, sink), 0)
	m := w.write(w.record(1, "vswitch-ip-exhausted", event.Asked))
	if reply := q.o.handle(w.ctx, m); reply.Retry <= 0 {
		t.Errorf("a notification that could not be noted was acknowledged: %+v", reply)
	}
	w.start()
	q = w.queue(w.follower(nil, sink), 0)
	q.put(m)
	if n := len(h.posts); n != 1 {
		t.Errorf("%d posts while the lease of the one that was killed runs", n)
	}
	q.pass(2 * time.Minute)
	posts := h.take()
	if len(posts) != 2 || posts[0].header.Get("Webhook-Id") != posts[1].header.Get("Webhook-Id") {
		t.Errorf("got %d posts, %v", len(posts), posts)
	}
	q.empty()
}

func TestUnreadable(t *testing.T) {
	w := newWorld(t)
	h := newHook(t)
	f := w.follower(nil, h.sink("ops"))
	q := w.queue(f, 0)
	bad := stream.Message{Subject: "lbremedy.case.c1.x.busy", Data: []byte("{"), Sequence: 1}
	q.put(bad, w.write(w.record(1, "vswitch-ip-exhausted", event.Asked)))
	same(t, h.told(), "opened vsw-1: 1 fail, 0 over")
	const skipped = "can't be read, and nobody is notified of it"
	if strings.Contains(w.log.String(), skipped) || len(q.waiting) != 1 {
		t.Errorf("it was passed over at once")
	}
	q.pass(10 * time.Minute)
	q.empty()
	if strings.Count(w.log.String(), skipped) != 1 {
		t.Errorf("logged %s", w.log.String())
	}
}

// A class can write anything under its own subjects: nobody is notified of it as of another class, Service or cluster, and none of their tickets ends.
func TestForgedRecords(t *testing.T) {
	w := newWorld(t)
	h := newHook(t)
	f := w.follower(nil, h.sink("ops"))
	q := w.queue(f, 0)
	q.put(w.write(w.record(1, "vswitch-ip-exhausted", event.Asked)))
	same(t, h.told(), "opened vsw-1: 1 fail, 0 over")
	for _, r := range []event.Record{
		w.record(1, "vswitch-ip-exhausted", event.Fixed),
		w.record(2, "vswitch-ip-exhausted", event.Asked, cause("vsw-2")),
		w.record(3, "busy", event.Asked, cause("vsw-3")),
		w.record(4, "busy", event.Asked, func(r *event.Record) { r.Cluster, r.Cause = "c2", "vsw-4" }),
	} {
		q.put(w.writeAs(event.CaseSubject("c1", uid(4), "busy"), r))
	}
	q.pass(time.Hour)
	q.empty()
	same(t, h.told())
	if n := strings.Count(w.log.String(), "can't be read, and nobody is notified of it"); n != 4 {
		t.Errorf("%d records count as unreadable", n)
	}
	if list, err := List(w.ctx, w.s); err != nil || len(list) != 1 || list[0].Failing != 1 {
		t.Errorf("got %+v, %v", list, err)
	}
}

func TestBrokenKeys(t *testing.T) {
	w := newWorld(t)
	h := newHook(t)
	q := w.queue(w.follower(nil, h.sink("ops")), 0)
	r := w.record(1, "vswitch-ip-exhausted", event.Asked)
	i := incidentOf("", r)
	for _, key := range []string{i.member(uid(1)), i.member(uid(2)), headKey("ops", i, "")} {
		if err := w.s.Put(w.ctx, key, []byte("{")); err != nil {
			t.Fatal(err)
		}
	}
	if list, err := List(w.ctx, w.s); err == nil || list == nil {
		t.Errorf("got %d incidents, %v", len(list), err)
	}
	q.put(w.write(r))
	same(t, h.told(), "opened vsw-1: 1 fail, 0 over")
	q.put(w.write(w.record(2, "vswitch-ip-exhausted", event.Asked)))
	q.pass(time.Minute)
	same(t, h.told(), "updated vsw-1: 2 fail, 0 over")
	q.empty()
	if list, err := List(w.ctx, w.s); err != nil || len(list) != 1 {
		t.Errorf("got %d incidents, %v", len(list), err)
	}
}

func TestWants(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*policy.Sink)
		want   int
	}{
		{"all", func(*policy.Sink) {}, 1},
		{"class", func(s *policy.Sink) { s.Classes = []string{"vswitch-ip-exhausted"} }, 1},
		{"other class", func(s *policy.Sink) { s.Classes = []string{"busy"} }, 0},
		{"namespace", func(s *policy.Sink) { s.Namespaces = []string{"shop"} }, 1},
		{"other namespace", func(s *policy.Sink) { s.Namespaces = []string{"bank"} }, 0},
		{"risk", func(s *policy.Sink) { s.Risks = []string{"low"} }, 1},
		{"other risk", func(s *policy.Sink) { s.Risks = []string{"high"} }, 0},
		{"result", func(s *policy.Sink) { s.Results = []string{"needs-action"} }, 1},
		{"other result", func(s *policy.Sink) { s.Results = []string{"failed"} }, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			h := newHook(t)
			s := h.sink("ops")
			tt.change(&s)
			q := w.queue(w.follower(nil, s), 0)
			q.put(w.write(w.record(1, "vswitch-ip-exhausted", event.Asked)))
			q.pass(time.Minute)
			q.put(w.write(w.record(1, "vswitch-ip-exhausted", event.Gone)))
			q.pass(time.Minute)
			if got := h.told(); len(got) != 2*tt.want {
				t.Errorf("got %q", got)
			}
			q.empty()
		})
	}
}

func TestNewSink(t *testing.T) {
	w := newWorld(t)
	h := newHook(t)
	f := w.follower(nil, h.sink("ops"))
	q := w.queue(f, 0)
	f.outlets[0].since = w.now().Add(time.Hour)
	q.put(w.write(w.record(1, "vswitch-ip-exhausted", event.Asked)), w.write(w.record(2, "throttling", event.Fixed, cause("slb"))))
	same(t, h.told(), "opened vsw-1: 1 fail, 0 over")
	q.empty()
}

func TestTwoWorkers(t *testing.T) {
	w := newWorld(t)
	h := newHook(t)
	sink := h.sink("ops")
	ctx, stop := context.WithCancel(w.ctx)
	var all sync.WaitGroup
	for range 3 {
		f := w.follower(func(c *Config) { c.Stream = w.connect(); c.Now = nil }, sink)
		f.gap = 200 * time.Millisecond
		all.Go(func() { f.Run(ctx) })
	}
	const services, causes = 60, 4
	for n := range services {
		w.write(w.record(n, "vswitch-ip-exhausted", event.Asked, cause(fmt.Sprint("vsw-", n%causes)), func(r *event.Record) { r.At = time.Now() }))
	}
	opened, whole := map[string]int{}, map[string]bool{}
	for len(whole) < causes {
		select {
		case p := <-h.came:
			kind, n := p.notice(t)
			if kind == "opened" {
				opened[n.Cause]++
			}
			if n.Failing == services/causes {
				whole[n.Cause] = true
			}
		case <-ctx.Done():
			t.Fatalf("told of %v only", whole)
		}
	}
	stop()
	all.Wait()
	if diff := cmp.Diff(map[string]int{"vsw-0": 1, "vsw-1": 1, "vsw-2": 1, "vsw-3": 1}, opened); diff != "" {
		t.Errorf("opened (-want +got)\n%s", diff)
	}
}

// The followers notify the sinks, and a failure that comes back reopens the incident.
func TestCloseByHand(t *testing.T) {
	w := newWorld(t)
	h := newHook(t)
	f := w.follower(nil, h.sink("ops"))
	q := w.queue(f, 0)
	q.put(w.write(w.record(1, "vswitch-ip-exhausted", event.Asked)), w.write(w.record(2, "vswitch-ip-exhausted", event.Asked)))
	q.pass(time.Minute)
	h.take()
	list, err := List(w.ctx, w.s)
	if err != nil || len(list) != 1 {
		t.Fatalf("got %d incidents, %v", len(list), err)
	}
	m := list[0].Members[0]
	counted := event.StateKey(m.Cluster, m.Service.UID)
	if err := w.s.Put(w.ctx, counted, []byte(`{"v":1,"cases":{"vswitch-ip-exhausted":{"seen":3}}}`)); err != nil {
		t.Fatal(err)
	}
	if n, err := Close(w.ctx, w.s, list[0].ID, "ann", w.now()); err != nil || n != 2 {
		t.Fatalf("closed %d, %v", n, err)
	}
	// The next run must record what it would only have counted.
	if data, err := w.s.Get(w.ctx, counted); err != nil || strings.Contains(string(data), "seen") {
		t.Errorf("the count of what was closed: %s, %v", data, err)
	}
	if err := q.o.close(w.ctx); err != nil {
		t.Fatal(err)
	}
	posts := h.take()
	if len(posts) != 1 {
		t.Fatalf("got %d posts", len(posts))
	}
	if kind, n := posts[0].notice(t); kind != "closed" || !strings.Contains(n.Text, "closed by hand (ann)") {
		t.Errorf("got %s\n%s", kind, n.Text)
	}
	if err := q.o.close(w.ctx); err != nil || len(h.take()) != 0 {
		t.Errorf("it was told twice, %v", err)
	}
	q.pass(time.Minute)
	q.put(w.write(w.record(1, "vswitch-ip-exhausted", event.Asked)))
	same(t, h.told(), "opened vsw-1: 1 fail, 0 over, again")
	// The first mark would expire before a sink that is down is back.
	first, err := w.s.Entry(w.ctx, closeRoot+list[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := Close(w.ctx, w.s, list[0].ID, "bob", w.now()); err != nil || n != 1 {
		t.Fatalf("closed %d, %v", n, err)
	}
	again, err := w.s.Entry(w.ctx, first.Key)
	if err != nil || again.Revision == first.Revision || string(again.Value) != "bob" || w.lasts(first.Key) != "24h0m0s" {
		t.Errorf("the mark is still %q, %v", again.Value, err)
	}
	for _, id := range []string{"x", "cluster-c1.busy.0000", "*.*.*"} {
		if _, err := Close(w.ctx, w.s, id, "ann", w.now()); err == nil {
			t.Errorf("%q was closed", id)
		}
	}
}
