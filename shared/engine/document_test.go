package engine_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/document"
	"github.com/lbremedy/lbremedy/shared/engine"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/hand"
	"github.com/lbremedy/lbremedy/shared/machine"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/shared/stream/embedded"
	"github.com/lbremedy/lbremedy/test/shell"
)

func (r *rig) document() event.Document {
	r.Helper()
	data, err := r.env.Stream.Get(r.Context(), event.StateKey(r.env.Cluster, string(r.svc.UID)))
	r.must(err)
	d, err := event.ReadDocument(data)
	r.must(err)
	return d
}

func (r *rig) running() *event.Case {
	r.Helper()
	d := r.document()
	return d.Case(class)
}

func (r *rig) decided() machine.Case {
	r.Helper()
	if d := r.document(); d.State.Case(class) != nil {
		return *d.State.Case(class)
	}
	return machine.Case{}
}

func (r *rig) recurs(want event.Result) event.Record {
	r.Helper()
	r.advance(ccm.Retry)
	r.event = r.failure(class, r.now())
	return r.ends(want)
}

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
		if k := r.running(); k.Repeats != n || r.document().State.Holder != "" || !k.Last.After(k.First) || k.Event != r.event.ID {
			t.Errorf("after %d runs it says %+v", n, k)
		}
	}
	r.ends(event.Asked)
	if k := r.running(); len(r.journal()) != 1 || k.Repeats != 5 {
		t.Errorf("%d records stand in the journal, and %d runs are counted", len(r.journal()), k.Repeats)
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
		if k := r.running(); len(r.journal()) != 2+n || k.Repeats != 1 {
			t.Errorf("after change %d %d records stand in the journal, and %d runs are counted", n, len(r.journal()), k.Repeats)
		}
	}
	// If the count is deleted, the outcome is recorded again: a person has closed its incident.
	r.must(r.env.Documents().Recount(t.Context(), string(r.svc.UID), class))
	r.recurs(event.Asked)
	if k := r.running(); len(r.journal()) != 5 || k.Repeats != 1 {
		t.Errorf("without the count %d records stand in the journal, and %d runs are counted", len(r.journal()), k.Repeats)
	}
	r.wrote(0)
}

// A process that only counts anew leaves the rest of a pending order as it was, however wrong its clock is.
func TestRecountKeepsOrder(t *testing.T) {
	t.Parallel()
	r := build(t)
	r.once("before 1", kill)
	r.dies()
	d := r.document()
	was := d.Rest
	d.Case(class).Repeats = 1
	data, err := d.Encode()
	r.must(err)
	r.must(r.env.Stream.Put(t.Context(), event.StateKey(r.env.Cluster, string(r.svc.UID)), data))
	ahead := document.Store{Stream: r.env.Stream, Cluster: r.env.Cluster, Now: func() time.Time { return time.Now().Add(20 * time.Second) }}
	r.must(ahead.Recount(t.Context(), string(r.svc.UID), class))
	if now := r.document(); now.Case(class).Repeats != 0 || now.Rest < was || was < 20*time.Second {
		t.Errorf("%d runs are counted, and the order's rest was %s and is %s", now.Case(class).Repeats, was, now.Rest)
	}
}

// A process that only counts anew leaves all times as they were, even if its clock is behind.
func TestRecountKeepsTimes(t *testing.T) {
	t.Parallel()
	r := build(t)
	r.ends(event.Waiting)
	was := r.document().State.Cases
	behind := document.Store{Stream: r.env.Stream, Cluster: r.env.Cluster, Now: func() time.Time { return time.Now().Add(-25 * time.Hour) }}
	r.must(behind.Recount(t.Context(), string(r.svc.UID), class))
	d := r.document()
	if diff := cmp.Diff(was, d.State.Cases); diff != "" || d.Case(class).Repeats != 0 || len(was[0].Attempts) != 1 {
		t.Errorf("%d runs are counted of %+v; the document differs (-was +is):\n%s", d.Case(class).Repeats, was, diff)
	}
}

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
	if k := r.running(); k.Event != later.ID || k.Repeats != 3 {
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

// A recurrence without a record is counted in the document before its event is acknowledged.
func TestRecurrenceCounted(t *testing.T) {
	t.Parallel()
	r := build(t)
	r.class.Diagnose = func(ctx context.Context, _ *remedy.Case) (remedy.Plan, error) {
		return remedy.Plan{Finding: say.F("f"), Ask: say.F("a")}, r.hit(ctx, "diagnose")
	}
	r.ends(event.Asked)
	r.once("diagnose", func(ctx context.Context) error { return r.writes(ctx, "") }) // another engine has taken the object and released it
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
		if k := r.running(); r.decided().Crashes != n || r.document().State.Holder == "" {
			t.Errorf("after %d crashes it says %+v", n+1, k)
		}
		if rec := r.ends(event.Waiting); rec.Wait <= 0 || rec.Wait > 10*time.Second {
			t.Errorf("a run right behind waits %s", rec.Wait)
		}
	}
	if rec := r.recurs(event.Failed); !strings.HasPrefix(rec.Finding.String(), "3 consecutive runs") || len(rec.Ask) == 0 {
		t.Errorf("finds %q, asks %q", rec.Finding, rec.Ask)
	}
	if k := r.running(); r.document().State.Holder != "" {
		t.Errorf("after the question it says %+v", k)
	}
}

// A slow run is not dead, whatever the clocks say. Recurrences beside it come back later and are not counted.
func TestSlow(t *testing.T) {
	t.Parallel()
	r := build(t)
	beside := document.Start(t.Context(), r.connect(), r.env.Cluster, slog.New(slog.DiscardHandler))
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
	r.ends(event.Waiting)
	if got := r.count("diagnose"); got != 2 {
		t.Errorf("it was diagnosed %d times", got)
	}
	r.wrote(1)
	if k := r.running(); r.decided().Crashes != 0 || r.document().State.Holder != "" {
		t.Errorf("after it it says %+v", k)
	}
	for _, rec := range r.journal() {
		if rec.Crashes != 0 {
			t.Errorf("%d crashes are counted in phase %s", rec.Crashes, rec.Phase)
		}
	}
}

// A thousand Services that stay broken for 30 days, at the controller's longest back-off, take less than 200 MB.
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

// A step that may have been made when its engine was killed stays in the document; no other class writes to the object before a look.
func TestDoubtBesideAnotherClass(t *testing.T) {
	t.Parallel()
	r := build(t)
	other := *r.class
	other.Class = "other"
	other.StillFails = func(_ context.Context, c *remedy.Case) (remedy.Verdict, error) {
		return remedy.Is(c.Service.Annotations["a/b"] != "x"), nil
	}
	other.Diagnose = func(context.Context, *remedy.Case) (remedy.Plan, error) {
		return remedy.Plan{Finding: say.F("f"), Steps: r.bind([]remedy.Step{act{Name: "2", Annotate: set("a/b", "x", "")}})}, nil
	}
	r.once("after 1", kill)
	r.dies()
	r.restart()
	r.advance(2 * time.Minute)
	rec, err := engine.Run(t.Context(), r.env, &other, r.failure("other", r.now()))
	if err != nil || rec.Result != event.Waiting {
		t.Errorf("beside it another class ends as %q: %v", rec.Result, err)
	}
	r.wrote(1)
	for name, look := range map[string]func(){"before the next run": func() {}, "after it": func() { r.run() }} {
		look()
		applied, _, err := r.env.Documents().Applied(t.Context(), r.journal()[0])
		r.must(err)
		if len(applied) != 1 || len(applied[0].Made()) != 1 || applied[0].Steps[0].Found {
			t.Errorf("%s what can be undone is %+v", name, applied)
		}
	}
	r.wrote(1)
}

func TestChangedByACommand(t *testing.T) {
	t.Parallel()
	r := build(t)
	r.class.Diagnose = func(ctx context.Context, _ *remedy.Case) (remedy.Plan, error) {
		return remedy.Plan{Finding: say.F("f"), Ask: say.F("a")}, r.hit(ctx, "diagnose")
	}
	r.ends(event.Asked)
	for range 4 {
		r.once("diagnose", func(ctx context.Context) error {
			return r.env.Documents().Recount(ctx, string(r.svc.UID), class)
		})
		r.advance(ccm.Retry)
		r.event = r.failure(class, r.now())
		records := len(r.journal())
		r.ends(event.Asked)
		if d := r.document(); d.State.Holder != "" || d.State.Case(class).Crashes != 0 {
			t.Errorf("the object is held by %q, and %d crashes are counted", d.State.Holder, d.State.Case(class).Crashes)
		}
		r.recurs(event.Asked)
		if n := len(r.journal()); n != records+1 {
			t.Errorf("the next run leaves %d records", n-records)
		}
	}
}

func TestHangs(t *testing.T) {
	t.Parallel()
	r := build(t)
	stuck, ended := make(chan struct{}), make(chan struct{})
	r.once("diagnose", func(context.Context) error { <-stuck; return nil })
	hangs := *r.env
	hangs.Bound = 200 * time.Millisecond
	go func() {
		defer close(ended)
		_, _ = engine.Run(r.Context(), &hangs, r.class, r.event)
	}()
	shell.Until(t, "the run hangs", func() bool { return r.count("diagnose") == 1 })
	shell.Until(t, "another run has the object", func() bool { r.run(); return r.count("diagnose") == 2 })
	if first := r.journal()[0]; first.Crashes != 1 {
		t.Errorf("%d crashes are counted", first.Crashes)
	}
	r.wrote(1)
	close(stuck)
	<-ended
	r.wrote(1)
	if d := r.document(); d.State.Holder != "" || d.State.Case(class).Crashes != 0 {
		t.Errorf("the object is held by %q, and %d crashes are counted", d.State.Holder, d.State.Case(class).Crashes)
	}
}

// An engine whose heartbeat is too old has lost its objects and writes nothing if it resumes.
func TestStopped(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"still fails", "diagnose"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			r := build(t)
			r.once(point, func(ctx context.Context) error {
				keys, err := r.env.Stream.Entries(ctx, "engine."+r.env.Cluster+".*")
				r.must(err)
				beside := *r.env
				beside.Stream = r.connect()
				beside.Engine = document.Start(ctx, beside.Stream, beside.Cluster, nil)
				t.Cleanup(beside.Engine.Stop)
				shell.Until(t, "the other engine has the object", func() bool {
					for _, key := range keys {
						r.must(r.env.Stream.Delete(ctx, key.Key))
					}
					_, err := engine.Run(ctx, &beside, r.class, r.event)
					r.must(err)
					return r.patches.Load() == 1
				})
				return nil
			})
			if rec, err, _ := r.try(r.event); err != nil || rec.Result != event.Waiting || rec.Wait <= 0 {
				t.Errorf("it ends as %q, and comes back after %s: %v", rec.Result, rec.Wait, err)
			}
			r.wrote(1)
			if d := r.document(); d.State.Holder != "" {
				t.Errorf("the object is held by %q", d.State.Holder)
			}
		})
	}
}

// If an engine is killed around an order, the object is left alone until a minute after the order's expiry. Then the step is made, once.
func TestKilledAroundOrder(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"before 1", "after 1"} {
		for _, away := range []time.Duration{30 * time.Second, 300 * time.Second} {
			t.Run(fmt.Sprint(point, " for ", away), func(t *testing.T) {
				t.Parallel()
				r := build(t)
				r.once(point, kill)
				r.dies()
				made := r.patches.Load()
				sent := r.document().State.Order
				if sent == nil || sent.ID == "" || sent.Class != class || sent.Attempt != 1 || sent.Step != 0 || !sent.Expires.After(r.now()) {
					t.Fatalf("the document has the order %+v", sent)
				}
				r.restart()
				r.advance(away)
				if away < time.Minute {
					if rec := r.ends(event.Waiting); rec.Wait <= 0 || r.patches.Load() != made {
						t.Errorf("it comes back after %s, and %d patches are written", rec.Wait, r.patches.Load())
					}
					if d := r.document(); d.State.Order == nil || d.State.Order.ID != sent.ID {
						t.Errorf("the document has the order %+v", d.State.Order)
					}
					r.advance(90 * time.Second)
				}
				r.run()
				r.wrote(1)
				if applied, _ := r.applied(); len(applied) != 1 || applied[0].Steps[0].Found {
					t.Errorf("what can be undone is %+v", applied)
				}
			})
		}
	}
}

func TestExpired(t *testing.T) {
	t.Parallel()
	r := build(t)
	r.env.Hand = func(of *remedy.Remedy) hand.Hand { return brief{r.clients.Hand(of)} }
	r.on("before 1", func(ctx context.Context) error { <-ctx.Done(); return nil })
	r.fails("deadline exceeded")
	r.wrote(0)
}

type brief struct{ hand.Hand }

func (b brief) Apply(ctx context.Context, o hand.Order) (hand.ApplyAnswer, error) {
	o.Expires = o.Now.Add(50 * time.Millisecond)
	return b.Hand.Apply(ctx, o)
}

// With a full CASES nothing is written. When it has room again, all records are there, in order, each once.
func TestFullAudit(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		asks  bool
		wrote int64
	}{"a plan": {false, 1}, "a question": {true, 0}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := build(t)
			r.apart()
			size := func(bytes int64) {
				t.Helper()
				_, err := r.env.Stream.Setup(t.Context(), nil, stream.Settings{CasesBytes: bytes})
				r.must(err)
			}
			size(64 << 10)
			for bytes := 8 << 10; bytes > 0; bytes /= 2 {
				for i := 0; ; i++ {
					uid := fmt.Sprintf("filler-%d-%d", bytes, i)
					_, err := r.env.Stream.AppendRecord(t.Context(), r.env.Cluster, uid, class, fmt.Sprint(bytes, i), nil, make([]byte, bytes), 0)
					if errors.Is(err, stream.ErrFull) {
						break
					}
					r.must(err)
				}
			}
			if tt.asks {
				r.class.Diagnose = remedy.Always(remedy.Plan{Finding: say.F("f"), Ask: say.F("a")})
			}
			for range 8 {
				r.fails("the stream is full")
				r.wrote(0)
				if n := len(r.document().Outbox); n == 0 || n > 4 {
					t.Fatalf("%d records wait to be appended", n)
				}
				r.advance(time.Minute)
			}
			var want []string
			d := r.document()
			for _, e := range d.Outbox {
				want = append(want, string(d.Pending(e).Phase)+" "+e.ID)
			}
			size(1 << 20)
			r.run()
			r.run()
			r.wrote(tt.wrote)
			var got []string
			seen := map[string]bool{}
			r.must(r.env.Stream.Each(t.Context(), stream.Cases, event.CaseSubject(r.env.Cluster, string(r.svc.UID), "*"), time.Time{}, func(m stream.Message) error {
				rec, err := event.DecodeRecord(m.Subject, m.Header, m.Data)
				if seen[m.ID()] {
					t.Errorf("the record %s is there twice", m.ID())
				}
				seen[m.ID()] = true
				got = append(got, string(rec.Phase)+" "+m.ID())
				return err
			}))
			if len(got) < len(want) || !slices.Equal(got[:len(want)], want) {
				t.Errorf("CASES holds %q, and these had to be appended: %q", got, want)
			}
			if d := r.document(); d.State.Holder != "" {
				t.Errorf("the object is held by %q", d.State.Holder)
			}
		})
	}
}

// A document keeps only what an undo needs of attempts, and a plan that does not fit is a question.
func TestBounds(t *testing.T) {
	t.Parallel()
	large := func(kib int, end string) string { return strings.Repeat("0123456789abcdef", kib<<6) + end }
	r := build(t)
	r.class.StillFails = func(context.Context, *remedy.Case) (remedy.Verdict, error) { return remedy.Yes, nil }
	bytes := func() int {
		data, err := r.env.Stream.Get(t.Context(), event.StateKey(r.env.Cluster, string(r.svc.UID)))
		r.must(err)
		return len(data)
	}
	was := "old"
	for n := range 3 {
		now := large(20, fmt.Sprint(n))
		r.steps = []remedy.Step{act{Name: "1", Annotate: set(key, now, was)}}
		for range 40 {
			if rec := r.run(); r.live().Annotations[key] == now && rec.Result != event.Waiting {
				break
			}
			r.advance(time.Minute)
		}
		if was = now; r.live().Annotations[key] != now {
			t.Fatalf("attempt %d was not made", n+1)
		}
		if got := bytes(); got > 768<<10 {
			t.Errorf("after %d attempts the document has %d bytes", n+1, got)
		}
	}
	applied, _ := r.applied()
	if len(applied) != 3 {
		t.Fatalf("%d attempts can be undone", len(applied))
	}
	r.steps = []remedy.Step{act{Name: "1", Annotate: set(key, large(300, ""), was)}}
	r.advance(time.Hour)
	r.event = r.failure(class, r.now())
	rec := r.run()
	if rec.Result != event.Asked || len(rec.Steps) != 0 || !strings.Contains(rec.Rule.String(), "too large") || len(rec.Ask) == 0 {
		t.Errorf("it ends as %q: %.200s, asks %q, with %d steps", rec.Result, rec.Rule, rec.Ask, len(rec.Steps))
	}
	if got := bytes(); got > 768<<10 || r.document().State.Holder != "" {
		t.Errorf("the document has %d bytes, and is held by %q", got, r.document().State.Holder)
	}
	r.advance(3 * time.Minute)
	_, err := engine.Undo(t.Context(), r.env, r.class, applied)
	if r.must(err); r.live().Annotations[key] != "old" {
		t.Errorf("after the undo the annotation is %.20q", r.live().Annotations[key])
	}
}

// A fix in one run makes few writes to NATS, each synced before the run goes on.
func TestWritesOfAFix(t *testing.T) {
	t.Parallel()
	r := build(t)
	r.apart()
	r.steps = []remedy.Step{act{Name: "1", Annotate: set(key, "new", "old")}}
	r.on("after 1", r.syncs)
	sequence := func() uint64 { // each write to the bucket increments it
		t.Helper()
		r.must(r.env.Stream.Put(t.Context(), "marker", nil))
		e, err := r.env.Stream.Entry(t.Context(), "marker")
		r.must(err)
		return e.Revision
	}
	beat := func(ctx context.Context) (n int) {
		keys, err := r.env.Stream.Entries(ctx, "engine.>")
		r.must(err)
		return len(keys)
	}
	before := sequence()
	if rec := r.run(); !rec.Result.Worked() {
		t.Fatalf("it ended as %s: %s", rec.Result, rec.Error)
	}
	// The document is written four times: held; planned, with its first order; step made; ended. Places in the budgets come on top.
	wrote := int(sequence()-before) - 1 - beat(t.Context())
	records := len(r.journal())
	t.Logf("%d writes to the bucket, without the heartbeat of a new engine, and %d to CASES", wrote, records)
	if wrote != 5 || records != 3 {
		t.Errorf("%d writes to the bucket, want 5; %d to CASES, want 3", wrote, records)
	}
}
