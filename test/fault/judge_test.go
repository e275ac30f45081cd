package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/say"
)

func at(seconds float64) time.Time {
	return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(seconds * float64(time.Second)))
}

// sound returns the evidence of a history without errors: two steps on one Service, one on another, and a question about a third.
func sound() evidence {
	tag := event.StepRecord{Kind: "tag", Text: say.Literal("tag lb-1"), Step: json.RawMessage(`{"id":"lb-1"}`)}
	touch := event.StepRecord{Kind: "resync", Text: say.Literal("trigger a resync"), Step: json.RawMessage(`{}`)}
	annotate := event.StepRecord{Kind: "annotate", Text: say.Literal("annotate a=b"), Step: json.RawMessage(`{"set":{"a":"b"}}`)}
	record := func(seconds float64, uid, class, who string, phase event.Phase, result event.Result, next int, steps ...event.StepRecord) recorded {
		var r recorded
		r.Stored, r.Case, r.Class, r.Service.UID, r.Who, r.Phase, r.Result = at(seconds), "case-"+uid, class, uid, who, phase, result
		r.Attempt, r.Next, r.Steps = 1, next, steps
		return r
	}
	asked := record(3, "u3", "words", "worker-2", event.Settled, event.Asked, 0)
	asked.Ask = say.Literal("Correct it.")
	return evidence{
		Services: []witness{
			{"s1", "u1", "lost", event.Fixed, true}, {"s2", "u2", "full", event.Fixed, true}, {"s3", "u3", "words", event.Asked, false},
		},
		Failures: []failure{{UID: "u1", At: at(0)}, {UID: "u2", At: at(0)}, {UID: "u3", At: at(0)}, {UID: "u1", At: at(4.5), Over: true}},
		Records: []recorded{
			record(1, "u1", "lost", "worker-1", event.Intent, "", 0, tag, touch),
			record(1.5, "u2", "full", "worker-2", event.Intent, "", 0, annotate),
			record(2.5, "u1", "lost", "worker-1", event.Step, "", 1, tag, touch),
			record(2.6, "u2", "full", "worker-2", event.Step, "", 1, annotate),
			asked,
			record(4, "u1", "lost", "worker-1", event.Step, "", 2, tag, touch),
			record(5, "u1", "lost", "worker-1", event.Settled, event.Fixed, 2, tag, touch),
			record(5, "u2", "full", "worker-2", event.Settled, event.Fixed, 1, annotate),
		},
		Writes: []write{
			{At: at(2), Who: "worker-1", Where: "cloud", What: "slb:TagResources", Targets: []string{"lb-1"}, Done: true},
			{At: at(2.1), Who: "worker-2", UID: "u2", Where: "cluster", What: "patch services", Mark: "case-u2.1", Keys: []string{"a"}, Done: true},
			{At: at(3), Who: "worker-1", UID: "u1", Where: "cluster", What: "patch services", Mark: "case-u1.1", Done: true},
		},
		Pauses: []span{{at(6), at(9)}},
		Budget: 1,
	}
}

func TestJudge(t *testing.T) {
	if v := judge(sound()); len(v.Wrong) > 0 || v.Settled != 3 || v.Writes != 3 || len(v.Open) > 0 {
		t.Fatalf("of a sound history: %+v", v)
	}
	again := func(e *evidence, i int, seconds float64, who string) {
		w := e.Writes[i]
		w.At, w.Who = at(seconds), who
		e.Writes = append(e.Writes, w)
	}
	cut := func(e *evidence, uid string, phases ...event.Phase) {
		e.Records = slices.DeleteFunc(e.Records, func(r recorded) bool { return r.Service.UID == uid && slices.Contains(phases, r.Phase) })
	}
	for _, c := range []struct {
		name  string
		plant func(*evidence)
		says  string
	}{
		{"a failure that nobody knows of", func(e *evidence) { cut(e, "u3", event.Settled) }, "s3: lost: its failure was reported and the journal holds nothing"},
		{"a case in the middle", func(e *evidence) { cut(e, "u2", event.Settled) }, "s2: lost: its case ends in the middle"},
		{"open without a reason", func(e *evidence) { e.Services[2].Ends = event.Fixed; e.Records[4].Ask = nil }, "s3: it stands open as asked and nothing says why"},
		{"fixed and broken", func(e *evidence) { e.Services[0].Healed = false }, "s1: the journal says fixed, and the Service does not work"},
		{"over and broken", func(e *evidence) { e.Services[2].Ends = event.Fixed; e.Records[4].Result = event.Gone },
			"s3: the journal says that the failure is over"},
		{"no failure at all", func(e *evidence) { e.Failures = e.Failures[1:] }, "s1: the history is none"},
		{"a write without an entry", func(e *evidence) { cut(e, "u2", event.Intent, event.Step, event.Settled) }, "the journal held nothing about the Service"},
		{"an entry after the write", func(e *evidence) { e.Records[1].Stored = at(2.2) }, "the journal held nothing about the Service"},
		{"a cloud write without an entry", func(e *evidence) { cut(e, "u1", event.Intent) }, "slb:TagResources at 00:00:02.000 by worker-1"},
		{"a write after the end", func(e *evidence) { again(e, 1, 5.5, "worker-2") }, "the journal announced no write: it held settled fixed"},
		{"a write of another", func(e *evidence) { e.Writes[1].Who = "worker-1" }, "the object was held by worker-2"},
		{"a cloud write of another", func(e *evidence) { e.Writes[0].Who = "worker-2" }, "the object was held by worker-1"},
		{"another step", func(e *evidence) { e.Writes[1].Keys = []string{"other"} }, "the journal announced another step: annotate a=b"},
		{"another load balancer", func(e *evidence) { e.Writes[0].Targets = []string{"lb-2"} }, "the journal announced another step: tag lb-1"},
		{"another attempt", func(e *evidence) { e.Writes[1].Mark = "case-u2.2" }, "it bears the mark case-u2.2"},
		{"twice in the cluster", func(e *evidence) { again(e, 1, 2.2, "worker-2") }, "u2 case-u2.1 step 1 was made 2 times"},
		{"twice in the cloud", func(e *evidence) { again(e, 0, 2.2, "worker-1") }, "u1 case-u1.1 step 1 was made 2 times"},
		{"under a pause", func(e *evidence) { e.Pauses = []span{{at(1.9), at(3.1)}, {at(0.5), at(2.9)}} }, "it was paused since 00:00:01.900"},
		{"over the budget", func(e *evidence) { e.Records[1].Class, e.Records[3].Class = "lost", "lost" }, "2 Services of lost were written to, and the budget is 1"},
		{"twice in the cloud while the cluster was restored", func(e *evidence) { e.Lost = []span{{at(0), at(9)}}; again(e, 0, 2.2, "worker-1") },
			"u1 case-u1.1 step 1 was made 2 times"},
		{"twice after the cluster was restored", func(e *evidence) {
			e.Lost = []span{{at(0), at(1)}}
			again(e, 1, 2.2, "worker-2")
		}, "u2 case-u2.1 step 1 was made 2 times"},
		{"without the right", func(e *evidence) { e.Writes[1].Refused, e.Writes[1].Done = true, false }, "worker-2 asked for what is not among its rights"},
		{"a ledger that does not balance", func(e *evidence) { e.Ledger = []string{"one is missing"} }, "the ledger does not balance: one is missing"},
		{"an undo that left something", func(e *evidence) { e.Undone = []string{"s1: a tag is left"} }, "undo: s1: a tag is left"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := sound()
			c.plant(&e)
			if v := judge(e); !slices.ContainsFunc(v.Wrong, func(s string) bool { return strings.Contains(s, c.says) }) {
				t.Errorf("it says %q, want %q", v.Wrong, c.says)
			}
		})
	}
}

func TestJudgeOfARestoredCluster(t *testing.T) {
	e := sound()
	again := e.Writes[1]
	again.At = at(2.4)
	e.Writes, e.Lost = append(e.Writes, again), []span{{at(2), at(2.3)}}
	if v := judge(e); len(v.Wrong) > 0 {
		t.Errorf("it says %q", v.Wrong)
	}
}

func TestJudgeOfARestartedServer(t *testing.T) {
	e := sound()
	early := e.Writes[1]
	early.At, early.Done, early.Refused = at(1.8), false, true
	e.Writes = append(e.Writes, early)
	if v := judge(e); len(v.Wrong) > 0 {
		t.Errorf("it says %q", v.Wrong)
	}
}

func TestSeed(t *testing.T) {
	if one, two := newHistory(7, kinds, perHistory).String(), newHistory(7, kinds, perHistory).String(); one != two {
		t.Errorf("%s\n%s", one, two)
	}
	for i := range uint64(200) {
		if h := newHistory(i, kinds, perHistory); h.blows[0].kind.name == h.blows[1].kind.name {
			t.Errorf("seed %d: the same fault twice", i)
		}
	}
}
