package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/engine"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/shared/stream/embedded"
)

// document returns the document of the rig's Service.
func (r *rig) document() event.Document {
	r.Helper()
	data, err := r.env.Stream.Get(r.Context(), event.StateKey(r.env.Cluster, string(r.svc.UID)))
	r.must(err)
	d, err := event.ReadDocument(data)
	r.must(err)
	return d
}

// running returns the case of the rig's Service and class.
func (r *rig) running() *event.Case {
	r.Helper()
	d := r.document()
	return d.Case(class)
}

// recurs answers the failure as it comes back.
func (r *rig) recurs(want event.Result) event.Record {
	r.Helper()
	r.advance(ccm.Retry)
	r.event = r.failure(class, r.now())
	return r.ends(want)
}

// A recurrence that changes nothing is counted, and one that does is journalled.
func TestRecurrence(t *testing.T) {
	t.Parallel()
	r := build(t)
	asks := func(finding string) {
		r.class.Diagnose = remedy.Always(remedy.Plan{Finding: say.Literal(finding), Ask: say.F("a")})
	}
	asks("12 addresses are left.")
	first := r.ends(event.Asked)
	for n := 2; n <= 5; n++ {
		asks(fmt.Sprintf("%d addresses are left.", n))
		rec := r.recurs(event.Asked)
		if rec.Case != first.Case || !rec.First.Equal(first.First) || !rec.Repeats || first.Repeats {
			t.Errorf("recurrence %d is of case %s", n, rec.Case)
		}
		if k := r.running(); k.Seen != n || r.document().Holder != "" || !k.Last.After(k.First) || k.Event != r.event.ID {
			t.Errorf("after %d runs it says %+v", n, k)
		}
	}
	// The same event again has its answer, and counts for nothing.
	r.ends(event.Asked)
	if k := r.running(); len(r.journal()) != 1 || k.Seen != 5 {
		t.Errorf("%d records stand in the journal, and %d runs are counted", len(r.journal()), k.Seen)
	}
	for n, change := range []func(){
		func() { asks("The vSwitch is gone.") },
		func() {
			r.class.Diagnose = remedy.Always(remedy.Plan{Finding: say.F("f"), Cause: "vsw-1", Ask: say.F("a")})
		},
		func() {
			r.class.Diagnose = remedy.Always(remedy.Plan{Finding: say.F("f"), Cause: "vsw-2", Ask: say.F("a")})
		},
	} {
		change()
		r.recurs(event.Asked)
		if k := r.running(); len(r.journal()) != 2+n || k.Seen != 1 {
			t.Errorf("after change %d %d records stand in the journal, and %d runs are counted", n, len(r.journal()), k.Seen)
		}
	}
	// Where the count is gone, what stands is told again: a person has closed its incident.
	r.must(engine.Recount(t.Context(), r.env.Stream, r.env.Cluster, string(r.svc.UID), class))
	r.recurs(event.Asked)
	if k := r.running(); len(r.journal()) != 5 || k.Seen != 1 {
		t.Errorf("without the count %d records stand in the journal, and %d runs are counted", len(r.journal()), k.Seen)
	}
	r.wrote(0)
}

// A recurrence that was held up is answered after a later one, of which it is still known that it was answered.
func TestRecurrenceHeldUp(t *testing.T) {
	t.Parallel()
	r := build(t)
	r.class.Diagnose = remedy.Always(remedy.Plan{Finding: say.F("f"), Ask: say.F("a")})
	r.ends(event.Asked)
	r.advance(ccm.Retry)
	held := r.failure(class, r.now())
	r.advance(ccm.Retry)
	later := r.failure(class, r.now())
	for _, r.event = range []engine.Event{later, held} {
		r.ends(event.Asked)
	}
	if k := r.running(); k.Event != later.ID || k.Seen != 3 {
		t.Errorf("it says %+v, want %s", k, later.ID)
	}
	// A cluster that was restored from a copy counts from there again.
	r.advance(2 * time.Hour)
	r.event = held
	r.event.ID = "restored"
	r.ends(event.Asked)
	if k := r.running(); k.Event != "restored" {
		t.Errorf("it says %+v", k)
	}
}

// That a recurrence was answered, which leaves no record, is known before its event is acknowledged.
func TestRecurrenceCounted(t *testing.T) {
	t.Parallel()
	r := build(t)
	r.class.Diagnose = func(ctx context.Context, _ *remedy.Case) (remedy.Plan, error) {
		return remedy.Plan{Finding: say.F("f"), Ask: say.F("a")}, r.hit(ctx, "diagnose")
	}
	r.ends(event.Asked)
	r.once("diagnose", func(ctx context.Context) error { // another engine has taken the object, and given it back
		d := r.document()
		d.Holder = ""
		data, err := json.Marshal(d)
		return errors.Join(err, r.env.Stream.Put(ctx, event.StateKey(r.env.Cluster, string(r.svc.UID)), data))
	})
	r.advance(ccm.Retry)
	r.event = r.failure(class, r.now())
	if rec := r.fails("note that the run ended as the one before"); rec.Result != event.Waiting || rec.Wait < time.Second {
		t.Errorf("it ends as %q and waits %s", rec.Result, rec.Wait)
	}
	if k := r.running(); k.Event == r.event.ID {
		t.Errorf("it says %+v", k)
	}
	r.ends(event.Asked)
	if k := r.running(); k.Event != r.event.ID || len(r.journal()) != 1 {
		t.Errorf("it says %+v, and %d records stand in the journal", k, len(r.journal()))
	}
}

// A run that kills its process is counted, however often one beside it changed nothing.
func TestRecurrenceCrash(t *testing.T) {
	t.Parallel()
	r := build(t)
	r.class.Diagnose = func(ctx context.Context, _ *remedy.Case) (remedy.Plan, error) {
		return remedy.Plan{Finding: say.F("f"), Ask: say.F("a")}, r.hit(ctx, "diagnose")
	}
	r.ends(event.Asked)
	r.recurs(event.Asked)
	r.on("diagnose", kill)
	for n := range 3 {
		r.advance(ccm.Retry)
		r.event = r.failure(class, r.now())
		r.dies()
		r.restart()
		if k := r.running(); k.Crashes != n || r.document().Holder == "" {
			t.Errorf("after %d crashes it says %+v", n+1, k)
		}
		if rec := r.ends(event.Waiting); rec.Wait <= 0 || rec.Wait > 10*time.Second {
			t.Errorf("a run right behind waits %s", rec.Wait)
		}
	}
	if rec := r.recurs(event.Failed); !strings.HasPrefix(rec.Finding, "3 runs") || rec.Ask == "" {
		t.Errorf("finds %q, asks %q", rec.Finding, rec.Ask)
	}
	if k := r.running(); k.Crashes != 0 || r.document().Holder != "" {
		t.Errorf("after the question it says %+v", k)
	}
}

// A slow run is not dead, whatever the clocks say, and the recurrences beside it come back later and count for nothing.
func TestSlow(t *testing.T) {
	t.Parallel()
	r := build(t)
	beside := engine.Start(t.Context(), r.connect(), r.env.Cluster, slog.New(slog.DiscardHandler))
	t.Cleanup(beside.Stop)
	mine := r.env
	r.once("diagnose", func(context.Context) error {
		for n := range 4 { // half a minute
			env := *mine
			if r.env = &env; n%2 == 1 {
				env.Engine = beside
			}
			r.advance(9 * time.Second)
			r.event = r.failure(class, r.now())
			if rec := r.ends(event.Waiting); rec.Wait <= 0 || rec.Wait > 5*time.Second || rec.Crashes != 0 {
				t.Errorf("a run beside a slow one waits %s, and counts %d crashes", rec.Wait, rec.Crashes)
			}
		}
		r.env = mine
		return nil
	})
	// What it read is too old for a write by now: it reads again.
	r.ends(event.Waiting)
	if got := r.count("diagnose"); got != 2 {
		t.Errorf("it was diagnosed %d times", got)
	}
	r.wrote(1)
	if k := r.running(); k.Crashes != 0 || r.document().Holder != "" {
		t.Errorf("after it it says %+v", k)
	}
	for _, rec := range r.journal() {
		if rec.Crashes != 0 {
			t.Errorf("%d crashes are counted in phase %s", rec.Crashes, rec.Phase)
		}
	}
}

// A thousand Services that stay broken for 30 days, their controller at its longest
// back-off, take less than 200 MB.
func TestStaysBroken(t *testing.T) {
	t.Parallel()
	const (
		services = 1000
		limit    = 200 << 20
	)
	for _, tt := range []struct {
		name string
		days time.Duration
		set  func(*rig)
		end  event.Result
	}{
		{"asks", 30, func(r *rig) {
			n := 0
			r.class.Diagnose = func(context.Context, *remedy.Case) (remedy.Plan, error) {
				n++
				return remedy.Plan{
					Finding: say.F("The vSwitch vsw-bp1 is full, and so are all %d others of the VPC; %d addresses are free in all.", 3, n%7),
					Cause:   "vsw-bp1", Ask: say.F("Free addresses, or add a vSwitch to the VPC of the cluster."),
				}, nil
			}
		}, event.Asked},
		{"would write", 2, func(r *rig) {
			r.policy.Risk = remedy.Low
			r.steps = []remedy.Step{act{Name: "1", How: remedy.High, Annotate: set(key, "new", "old")}}
		}, event.Asked},
		{"fails each time", 2, func(r *rig) { // until the breaker of the class asks a person
			r.steps = []remedy.Step{act{Name: "1"}}
			r.class.StillFails = func(context.Context, *remedy.Case) (remedy.Verdict, error) { return remedy.Yes, nil }
		}, event.Asked},
		{"can't be read", 2, func(r *rig) {
			r.on("diagnose", func(context.Context) error { return errors.New("list vSwitches: Forbidden.RAM, request 5D2A-1") })
		}, event.Failed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := build(t)
			own, err := embedded.Start(embedded.Options{Dir: t.TempDir(), Port: -1})
			r.must(err)
			t.Cleanup(own.Close)
			s, err := stream.Connect(t.Context(), stream.Config{URL: own.URL()})
			r.must(err)
			t.Cleanup(s.Close)
			_, err = s.Setup(t.Context(), nil, stream.Settings{})
			r.must(err)
			r.env.Stream = s
			tt.set(r)
			var rec event.Record
			runs := 0
			for start := r.now(); r.now().Sub(start) < tt.days*24*time.Hour; runs++ {
				r.event = r.failure(class, r.now())
				for try := 0; ; try++ { // as the stream delivers it again
					var killed bool
					if rec, _, killed = r.try(r.event); killed || try == 200 {
						t.Fatalf("it comes to no end: %q", rec.Result)
					}
					if rec.Result.Settled() {
						break
					}
					r.advance(rec.Wait)
				}
				r.advance(ccm.Retry)
			}
			if rec.Result != tt.end {
				t.Errorf("it ended as %q: %s", rec.Result, rec.Error)
			}
			fills, err := s.Fills(t.Context())
			r.must(err)
			var bytes uint64
			for _, f := range fills {
				t.Logf("%d runs: %s holds %d messages of %d bytes", runs, f.Stream, f.Messages, f.Bytes)
				bytes += f.Bytes
			}
			t.Logf("%d such Services take %.1f MB", services, float64(bytes)*services/(1<<20))
			if bytes*services > limit {
				t.Errorf("%d such Services take %d bytes, more than %d", services, bytes*services, limit)
			}
		})
	}
}
