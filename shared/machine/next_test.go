package machine

import (
	"slices"
	"strconv"
	"testing"
	"time"
)

// The outbox stays bounded while the journal takes no record, however many classes ask.
func TestOutbox(t *testing.T) {
	var d Doc
	now := t0
	for class := range 10 {
		for range maxCrashes + 1 { // the last one takes over what the others left
			in := Input{Now: now, Engine: "a", Nonce: "1", Class: strconv.Itoa(class), Report: Delivered{Event: "1"}}
			d, _ = Next(d, in)
			now = now.Add(time.Minute)
		}
		if len(d.Outbox) > maxOutbox {
			t.Fatalf("%d records in the outbox after %d classes", len(d.Outbox), class+1)
		}
	}
	if len(d.Outbox) != maxOutbox {
		t.Errorf("%d records in the outbox, want %d: the test does not fill it", len(d.Outbox), maxOutbox)
	}
}

// The oldest attempts are forgotten. An undo covers all others of its case, the newest first.
func TestDone(t *testing.T) {
	var d Doc
	var effects []Effect
	now := t0
	report := func(rep Report) {
		_, person := rep.(UndoAsked)
		in := Input{Now: now, Engine: "a", Nonce: now.String(), Class: "one", Person: person, Report: rep}
		d, effects = Next(d, in)
		for slices.Contains(effects, Effect(Flush{})) {
			in.Report = Flushed{OK: true}
			d, effects = Next(d, in)
		}
		now = now.Add(time.Minute)
	}
	guards := Guarded{Readable: true, Journaled: true, Permits: true, Place: true, Attempts: 10}
	order := func(result Result) {
		report(guards)
		report(Applied{d.Order.ID, result})
	}
	report(Delivered{Event: "1"})
	for range maxDone + 1 {
		report(Looked{Answer: Planned, Plan: Plan{Steps: 1, Proof: time.Hour}})
		report(guards)
		report(Taken{OK: true})
		order(Done)
		report(Looked{Answer: Changed})
		report(Delivered{Event: "1"})
	}
	if c := d.Cases[0]; len(c.Done) != maxDone || c.Own != maxDone || c.Done[0].Number != 2 {
		t.Fatalf("after %d attempts these can be undone, %d of the case: %+v", maxDone+1, c.Own, c.Done)
	}
	report(Looked{Answer: Person, Outcome: "needs-action"})
	report(UndoAsked{Request: 1})
	report(Looked{Answer: Clear})
	for attempt := maxDone + 1; attempt > 1; attempt-- {
		if o := d.Order; o == nil || o.Attempt != attempt || !o.Undo {
			t.Fatalf("the order is %+v, want the undo of attempt %d", o, attempt)
		}
		order(Done)
	}
	if c := d.Cases[0]; c.State != Idle || c.Outcome != Undone || len(c.Done) != 0 || c.Own != 0 || !slices.Contains(effects, Effect(Ack{})) {
		t.Errorf("after the undo the case is %+v, and the effects are %v", c, effects)
	}
}
