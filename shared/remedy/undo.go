package remedy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lbremedy/lbremedy/events"
)

// ErrNoUndo says that a record holds a step that can't be taken back.
var ErrNoUndo = errors.New("there is no way back")

// Undo takes back the steps of a record, the last one first, and journals it. It
// stops before the first step whose target is not as the plan left it: then
// somebody has moved on, and the error says where. A touch has nothing to take
// back and is passed over.
func Undo(ctx context.Context, env *Env, r *Remedy, rec events.Record) (out events.Record, err error) {
	defer func() { err = safe(err) }()
	ctx, cancel := context.WithTimeout(ctx, env.bound())
	defer cancel()
	ev := Event{ID: rec.Event, Failure: events.Failure{
		Cluster: rec.Cluster, Class: rec.Class, Service: rec.Service, Message: rec.Message, Last: rec.EventTime,
	}}
	x, err := newRun(env, r, ev)
	if err != nil {
		return events.Record{}, err
	}
	x.journal = env.Stream.Journal(env.Cluster, rec.Service.UID, r.Class)
	prev, err := x.load(ctx)
	if err != nil {
		return events.Record{}, err
	}
	if x.other, err = x.others(ctx); err != nil {
		return events.Record{}, err
	}
	if left := max(x.writing(prev), x.writing(x.other)); left > 0 {
		return events.Record{}, fmt.Errorf("case %s: a run may be writing to the Service now; try again in %s", rec.Case, left.Round(time.Second))
	}
	x.begin(prev)
	x.c.ID = rec.Case
	x.rec.Case, x.rec.Finding = rec.Case, "Undo of "+rec.Case+": "+rec.Finding
	for i, s := range slices.Backward(rec.Steps[:min(rec.Next, len(rec.Steps))]) {
		if s.Undo == nil {
			if s.Kind == "touch" {
				continue
			}
			return events.Record{}, fmt.Errorf("step %d, %s: %w", i+1, s.Text, ErrNoUndo)
		}
		back, err := env.Decode(s.Undo.Kind, s.Undo.Step)
		if err != nil {
			return events.Record{}, err
		}
		x.steps = append(x.steps, back)
	}
	if len(x.steps) == 0 {
		return events.Record{}, fmt.Errorf("case %s: no step was applied", rec.Case)
	}
	if x.rec.Steps, err = records(x.steps); err != nil {
		return events.Record{}, err
	}
	if _, err := x.readService(ctx); err != nil {
		return events.Record{}, err
	}
	if x.c.Service == nil || string(x.c.Service.UID) != rec.Service.UID {
		return events.Record{}, fmt.Errorf("case %s: the Service was deleted since", rec.Case)
	}
	unlock, held, err := x.lockTargets(ctx)
	defer unlock()
	if err != nil {
		return events.Record{}, err
	}
	if !held {
		return events.Record{}, fmt.Errorf("case %s: another case is writing to the same target; try again in a minute", rec.Case)
	}
	x.rec.Attempts = append(x.rec.Attempts, env.now())
	x.rec.Attempt = x.c.Attempt
	if err := x.append(ctx, events.Intent); err != nil {
		return events.Record{}, err
	}
	for i, s := range x.steps {
		state, err := s.Check(ctx, x.c)
		if err != nil {
			return x.fail(ctx, fmt.Errorf("check undo %d: %w", i+1, err))
		}
		if state == Conflict {
			return x.fail(ctx, fmt.Errorf("undo %d, %s: %w", i+1, s, ErrMoved))
		}
		if state == Todo {
			if err := s.Apply(ctx, x.c, x.w); err != nil {
				return x.fail(ctx, fmt.Errorf("undo %d, %s: %w", i+1, s, err))
			}
		}
		x.rec.Next, x.rec.Written = i+1, env.now()
	}
	return x.settle(ctx, events.Undone)
}
