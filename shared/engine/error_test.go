package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lbremedy/lbremedy/shared/engine"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/step"
	"github.com/lbremedy/lbremedy/test/sim"
)

func TestErrors(t *testing.T) {
	t.Parallel()
	r := build(t)
	r.on("diagnose", boom)
	last := time.Duration(0)
	var total time.Duration
	for n := 1; ; n++ {
		rec := r.fails("diagnose: boom")
		if rec.Result == event.Failed {
			if len(rec.Ask) == 0 || total < time.Hour-time.Minute {
				t.Errorf("after %s it asks %q", total, rec.Ask)
			}
			break
		}
		if rec.Wait < last || rec.Wait > time.Minute || rec.Errors != n || !strings.Contains(rec.Error, "boom") {
			t.Fatalf("error %d: after %s it waits %s: %s", rec.Errors, last, rec.Wait, rec.Error)
		}
		last = rec.Wait
		if total += rec.Wait; total > 2*time.Hour {
			t.Fatal("it never asks")
		}
		r.advance(rec.Wait)
	}
	if last != time.Minute {
		t.Errorf("the last pause was %s", last)
	}
	r.wrote(0)
	r.ends(event.Failed) // the document answers
}

func TestOneErrorIsNoFailure(t *testing.T) {
	t.Parallel()
	r := build(t)
	r.class.Diagnose = remedy.Always(remedy.Plan{Finding: say.F("f"), Wait: time.Hour})
	r.ends(event.Waiting)
	r.advance(2 * time.Hour)
	r.once("still fails", boom)
	rec := r.fails("boom")
	if rec.Result != event.Waiting {
		t.Errorf("ended as %q", rec.Result)
	}
	rec = r.ends(event.Asked) // the plan has waited too long by now
	if rec.Errors != 0 || rec.Error != "" {
		t.Errorf("after a good run %d errors are counted: %s", rec.Errors, rec.Error)
	}
}

func TestPanic(t *testing.T) {
	t.Parallel()
	r := build(t)
	crash := func(context.Context) error { panic("oh no") }
	for _, point := range []string{"still fails", "diagnose", "before 1", "still fails after"} {
		r.once(point, crash)
		rec := r.fails("class fake panicked: oh no")
		if rec.Result != event.Waiting || rec.Wait <= 0 {
			t.Errorf("%s: ended as %q", point, rec.Result)
		}
		r.advance(rec.Wait)
		if point == "before 1" {
			r.on("after 1", r.syncs)
			r.env.Watch = long
		}
	}
	r.ends(event.Fixed)
	r.wrote(1)

	r = build(t)
	r.once("before 1", kill)
	r.dies()
	r.advance(2 * time.Minute)
	r.once("check 1", crash)
	r.fails("class fake panicked: oh no")

	r = build(t)
	r.on("diagnose", crash)
	if _, err := engine.Look(t.Context(), r.env, r.class, r.event); err == nil || !strings.Contains(err.Error(), "panicked") {
		t.Errorf("a look got %v", err)
	}
}

func TestMoved(t *testing.T) {
	t.Parallel()
	r := build(t)
	r.once("before 1", func(context.Context) error {
		r.patch("", `{"metadata":{"annotations":{"a/b":"c"}}}`)
		return nil
	})
	rec := r.ends(event.Waiting)
	if len(rec.Note) == 0 || len(rec.Steps) != 0 || len(rec.Attempts) != 0 || rec.Wait <= 0 {
		t.Errorf("noted %q, %d steps, %d attempts, waits %s", rec.Note, len(rec.Steps), len(rec.Attempts), rec.Wait)
	}
	r.wrote(0)
	r.env.Watch = long
	r.on("after 1", r.syncs)
	r.ends(event.Fixed)
	r.wrote(1)

	r = build(t)
	r.on("before 1", func(context.Context) error { return fmt.Errorf("read: %w", remedy.ErrMoved) })
	last := time.Duration(0)
	for n := 1; ; n++ {
		rec = r.run()
		if rec.Result != event.Waiting {
			break
		}
		if rec.Wait < last || n > 100 {
			t.Fatalf("try %d waits %s after %s", n, rec.Wait, last)
		}
		last = rec.Wait
		r.advance(rec.Wait)
	}
	if rec.Result != event.Failed || len(rec.Ask) == 0 || last != time.Minute {
		t.Errorf("ended as %q, asks %q; the last pause was %s", rec.Result, rec.Ask, last)
	}

	r = build(t)
	r.steps = append(r.steps, act{Name: "2", Annotate: set("a/b", "2", "1")})
	rec = r.ends(event.Waiting)
	if len(rec.Attempts) != 1 || !strings.Contains(rec.Note.String(), "a/b=2") {
		t.Errorf("%d attempts, note %q", len(rec.Attempts), rec.Note)
	}
	r.wrote(1)
}

func TestMovedInTheCloud(t *testing.T) {
	t.Parallel()
	r := build(t)
	r.class.Diagnose = func(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
		tags, err := c.Cloud.SLB.Tags(ctx, r.lb)
		if err != nil || len(tags) > 0 {
			return remedy.Plan{Finding: say.F("It is tagged."), Ask: say.F("a")}, err
		}
		r.once("policy", func(context.Context) error { // read before the step
			r.cloud.Edit(func(s *sim.State) { s.LoadBalancers[r.lb].Tags = map[string]string{"k": "theirs"} })
			return nil
		})
		return remedy.Plan{Finding: say.F("f"), Steps: []remedy.Step{step.TagLB{LB: r.lb, Key: "k", Value: "v"}}}, nil
	}
	if rec := r.ends(event.Waiting); len(rec.Note) == 0 || len(rec.Attempts) != 0 {
		t.Errorf("%d attempts, note %q", len(rec.Attempts), rec.Note)
	}
	if got := r.tags()["k"]; got != "theirs" {
		t.Errorf("the tag is %q now", got)
	}
	r.ends(event.Asked)
}

func TestStepFails(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"before 1", "after 1", "patched"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			r := build(t)
			r.once(point, boom)
			rec := r.fails("boom")
			if rec.Result != event.Waiting || rec.Next != 0 || len(rec.Steps) != 1 {
				t.Errorf("ended as %q with %d of %d steps", rec.Result, rec.Next, len(rec.Steps))
			}
			if point != "before 1" { // otherwise no write of it may exist
				if early := r.ends(event.Waiting); early.Wait > rec.Wait {
					t.Errorf("waits %s, then %s", rec.Wait, early.Wait)
				}
				r.sync("h2", "192.168.0.9")
			}
			r.advance(rec.Wait)
			r.on("after 1", r.syncs)
			r.env.Watch = long
			rec = r.ends(event.Fixed)
			r.wrote(1)
			if len(rec.Attempts) != 1 {
				t.Errorf("%d attempts", len(rec.Attempts))
			}
		})
	}
	r := build(t)
	r.once("before 1", kill)
	r.dies()
	r.advance(2 * time.Minute)
	r.on("check 1", boom)
	r.fails("check step 1: boom")
	r.wrote(0)
}

func TestReadsFail(t *testing.T) {
	t.Parallel()
	deny := func(context.Context) error { return errors.New("connection refused") }
	r := build(t)
	r.on("GET", deny) // Service, namespace and Approvals are read side by side
	r.fails("read Service")
	r.on("GET", nil)
	r.sync("h0", "192.168.0.9")
	r.event = r.failure(class, r.now().Add(time.Minute))
	var n atomic.Int32
	r.on("GET", func(ctx context.Context) error {
		if n.Add(1) == 4 { // after the Service, its namespace and the Approvals: its Events
			return deny(ctx)
		}
		return nil
	})
	r.fails("list the Service's events")
	r.on("GET", nil)
	r.wrote(0)

	r = build(t)
	r.once("before 1", boom)
	r.fails("boom")
	r.advance(time.Minute)
	r.on("GET", deny) // Service and namespace are read side by side
	r.fails("read Service")
	r.on("GET", nil)
	r.wrote(0)

	r = build(t)
	r.env.Watch = long
	r.on("after 1", r.syncs)
	r.cloud.Fault(sim.Fault{Product: "slb", Action: "DescribeLoadBalancerAttribute", Status: 403, Code: "NoPermission", Count: 1})
	r.fails("prove that it worked: describe load balancer ")
	r.once("still fails after", boom)
	r.fails("prove that it worked: ask whether it still fails: boom")
	r.ends(event.Fixed)
	r.wrote(1)

	// While no sign shows: the class is asked because another failure came.
	r = build(t)
	r.ends(event.Waiting)
	r.publish(r.failure("other", r.now().Add(5*time.Second)))
	r.on("still fails after", boom)
	r.fails("boom")

	r = build(t)
	r.ends(event.Waiting)
	r.env.Bound, r.env.Watch = 300*time.Millisecond, long
	rec := r.fails("watch Service")
	if rec.Result != event.Waiting || !rec.Done() {
		t.Errorf("ended as %q", rec.Result)
	}
}

func TestStaleReads(t *testing.T) {
	t.Parallel()
	r := build(t)
	r.once("diagnose", func(context.Context) error { r.advance(6 * time.Second); return nil })
	r.ends(event.Waiting)
	if got := r.count("diagnose"); got != 2 {
		t.Errorf("diagnosed %d times", got)
	}
	r = build(t)
	r.on("diagnose", func(context.Context) error { r.advance(6 * time.Second); return nil })
	r.fails("took more than 5 s")
	r.wrote(0)
}

// Runs that all take too long do not repeat their reads at once, which would take longer still.
func TestReadsAgain(t *testing.T) {
	t.Parallel()
	const runs, places = 12, 8
	var mu sync.Mutex
	var inside, most int
	open := make(chan struct{})
	var rigs []*rig
	for range runs {
		r := build(t)
		r.once("diagnose", func(context.Context) error {
			r.advance(6 * time.Second)
			r.on("diagnose", func(ctx context.Context) error {
				mu.Lock()
				if inside++; inside == places && most < places {
					time.AfterFunc(100*time.Millisecond, func() { close(open) }) // time for more of them, if they were not limited
				}
				most = max(most, inside)
				mu.Unlock()
				defer func() { mu.Lock(); inside--; mu.Unlock() }()
				select {
				case <-open:
					return nil
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			})
			return nil
		})
		rigs = append(rigs, r)
	}
	var wait sync.WaitGroup
	for _, r := range rigs {
		wait.Go(func() {
			if rec, err, _ := r.try(r.event); err != nil || rec.Result != event.Waiting {
				t.Errorf("ended as %q: %v", rec.Result, err)
			}
		})
	}
	wait.Wait()
	if most != places {
		t.Errorf("%d runs read again at once", most)
	}
}

func TestSecrets(t *testing.T) {
	t.Parallel()
	const secret = "https://slb.aliyuncs.com/?AccessKeyId=LTAI4FakeFakeFake1234&Signature=c2VjcmV0c2VjcmV0c2Vj%3D&SecurityToken=CAISfaketoken0123456789"
	r := build(t)
	r.event.Failure.Message = "Get " + secret
	var shown string
	r.class.Diagnose = func(_ context.Context, c *remedy.Case) (remedy.Plan, error) {
		shown = c.Event.Message
		return remedy.Plan{}, fmt.Errorf("get %s: %w", secret, errBoom)
	}
	_, err, _ := r.try(r.event)
	if !errors.Is(err, errBoom) {
		t.Errorf("the error lost its kind: %v", err)
	}
	texts := []string{shown, err.Error()}
	_, err = engine.Look(t.Context(), r.env, r.class, r.event)
	texts = append(texts, err.Error())
	r.class.Diagnose = func(context.Context, *remedy.Case) (remedy.Plan, error) { panic(secret) }
	_, err, _ = r.try(r.event)
	texts = append(texts, err.Error())
	r.class.Diagnose = func(context.Context, *remedy.Case) (remedy.Plan, error) {
		return remedy.Plan{Finding: say.Literal(secret), Ask: say.Literal(secret), Note: say.Literal(secret), Cause: secret}, nil
	}
	rec := r.run()
	texts = append(texts, fmt.Sprintf("%+v", rec), fmt.Sprintf("%+v", r.journal()))
	for _, text := range texts {
		for _, s := range []string{"c2VjcmV0", "CAISfaketoken", "LTAI4FakeFakeFake1234"} {
			if strings.Contains(text, s) {
				t.Errorf("%q stands in %q", s, text)
			}
		}
	}
}

func TestBadPlans(t *testing.T) {
	t.Parallel()
	for want, plan := range map[string]remedy.Plan{
		"empty plan":                           {},
		"has no finding":                       {Ask: say.F("a")},
		"does nothing":                         {Finding: say.F("f")},
		"both writes and":                      {Finding: say.F("f"), Steps: []remedy.Step{act{}}, Wait: 1},
		"negative wait":                        {Finding: say.F("f"), Wait: -1},
		"does not declare":                     {Finding: say.F("f"), Steps: []remedy.Step{stranger{}}},
		"a step writes example.com/undeclared": {Finding: say.F("f"), Steps: []remedy.Step{step.Annotate{Set: map[string]string{"example.com/undeclared": "1"}}}},
		"encode step act":                      {Finding: say.F("f"), Steps: []remedy.Step{garbled{}}},
	} {
		r := build(t)
		r.class.Diagnose = remedy.Always(plan)
		r.fails(want)
		r.wrote(0)
	}
}

type stranger struct{ act }

func (stranger) Kind() string { return "stranger" }

type garbled struct{ act }

func (garbled) MarshalJSON() ([]byte, error) { return nil, errBoom }

func TestForeign(t *testing.T) {
	t.Parallel()
	r := build(t)
	r.event.Failure.Cluster = "c-other"
	_, err, _ := r.try(r.event)
	_, lookErr := engine.Look(t.Context(), r.env, r.class, r.event)
	for _, err := range []error{err, lookErr} {
		if !errors.Is(err, engine.ErrForeign) {
			t.Errorf("got %v", err)
		}
	}
	if len(r.journal()) != 0 {
		t.Error("it wrote to the journal")
	}
}

func TestDocumentUnreadable(t *testing.T) {
	t.Parallel()
	for name, data := range map[string]string{
		"nothing": "", "garbage": "{", "no version": "{}", "a later version": `{"v":2}`, "an unknown field": `{"v":1,"more":1}`,
		"something behind it":     `{"v":1}{}`,
		"a case of another class": `{"v":1,"cases":{"fake":{"record":{"class":"other"}}}}`, "a case that is empty": `{"v":1,"cases":{"fake":null}}`,
		"an outbox without its record": `{"v":1,"outbox":[{"id":"1","class":"fake"}]}`,
		"a plan with less than nothing": `{"v":1,"cases":{"fake":{}},"state":{"nonce":"","cases":[{"class":"fake","state":"waiting",` +
			`"plan":{"steps":-1,"next":-1,"proof":0}}]}}`,
		"more made than planned": `{"v":1,"cases":{"fake":{}},"state":{"nonce":"","cases":[{"class":"fake","state":"waiting",` +
			`"plan":{"steps":1,"next":2,"proof":0}}]}}`,
		"an attempt with less than nothing": `{"v":1,"cases":{"fake":{}},"state":{"nonce":"","cases":[{"class":"fake","state":"waiting",` +
			`"done":[{"number":1,"steps":-1,"maybe":true,"begun":"2026-01-01T00:00:00Z"}]}]}}`,
		"an order without a plan": `{"v":1,"cases":{"fake":{}},"state":{"nonce":"","order":{"id":"1","class":"fake","attempt":1,"step":0},` +
			`"cases":[{"class":"fake","state":"waiting"}]}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := build(t)
			r.must(r.env.Stream.Put(t.Context(), event.StateKey(r.env.Cluster, string(r.svc.UID)), []byte(data)))
			if rec := r.fails("read the document"); rec.Result != event.Waiting || rec.Wait < 10*time.Second {
				t.Errorf("ended as %q, comes back after %s", rec.Result, rec.Wait)
			}
			r.wrote(0)
		})
	}
}

// TestPanics: a panic outside of a class fails this run alone.
func TestPanics(t *testing.T) {
	t.Parallel()
	r := build(t)
	var broken atomic.Bool
	now := r.env.Now
	r.env.Now = func() time.Time {
		if broken.Load() {
			panic("the clock is broken")
		}
		return now()
	}
	r.once("diagnose", func(context.Context) error { broken.Store(true); return nil })
	rec := r.fails("the run panicked: the clock is broken")
	if rec.Result != event.Waiting || rec.Wait < 10*time.Second {
		t.Errorf("ended as %q, comes back after %s", rec.Result, rec.Wait)
	}
	r.fails("the run panicked: the clock is broken") // before it has read anything
	broken.Store(false)
	r.advance(time.Minute)
	r.run()
	r.wrote(1)
}

func TestDocumentOfNothing(t *testing.T) {
	t.Parallel()
	r := build(t)
	r.event.Failure.Service.UID = "a.b"
	r.fails("read what is known of the object")
}

func TestUnknownStep(t *testing.T) {
	t.Parallel()
	r := build(t)
	r.once("before 1", kill)
	r.dies()
	r.kinds["act"] = func([]byte) (remedy.Step, error) {
		delete(r.kinds, "act")
		return nil, errBoom
	}
	r.advance(2 * time.Minute)
	r.advance(r.ends(event.Waiting).Wait)
	r.ends(event.Waiting)
	r.wrote(1)
}
