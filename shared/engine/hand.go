package engine

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/hand"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

func (x *run) about() hand.About {
	return hand.About{
		Class: x.r.Class, Case: x.c.ID, Attempt: x.c.Attempt, Failure: x.c.Event, Service: x.c.Service, Now: x.c.Now, Settings: x.c.Policy.Settings,
		Doctor: x.c.Policy.Doctor,
	}
}

func (x *run) ask(ctx context.Context, why hand.Purpose, undo bool, steps ...remedy.Step) (hand.LookAnswer, error) {
	data, err := hand.Steps(steps)
	if err != nil {
		return hand.LookAnswer{}, err
	}
	return x.asks(ctx, hand.LookRequest{For: why, Steps: data, Undo: undo})
}

// asks has the hand look, and records its reads like the engine's own.
func (x *run) asks(ctx context.Context, q hand.LookRequest) (hand.LookAnswer, error) {
	q.About, q.Idle, q.Held = x.about(), x.env.waited(x.rec), slices.Sorted(maps.Keys(x.c.Taken))
	a, err := x.hand.Look(ctx, q)
	for _, r := range a.Reads {
		event.TellAgain(ctx, r)
	}
	return a, err
}

// order has the hand make a step and notes how it wrote. Afterwards the case holds the Service as the step left it.
func (x *run) order(ctx context.Context, s remedy.Step, how hand.Order) (hand.ApplyAnswer, error) {
	data, err := hand.Steps([]remedy.Step{s})
	if err != nil {
		return hand.ApplyAnswer{}, err
	}
	how.About, how.Step = x.about(), data[0]
	how.Now = x.env.Time()
	if o := x.object.State.Order; o != nil && !how.Dry {
		how.ID, how.Expires = o.ID, o.Expires
	}
	a, err := x.hand.Apply(ctx, how)
	if a.Service != nil {
		x.c.Service = a.Service
	}
	if i := x.rec.Next; i < len(x.rec.Steps) && !how.Dry {
		x.rec.Steps[i].Calls = append(x.rec.Steps[i].Calls, a.Calls...)
	}
	if errors.Is(err, remedy.ErrUndeclared) { // of a call that was made: the hand has other rights than its class, or lies
		why := say.F("A function of the class made a call that its step does not declare.")
		if failed := x.recordFailedFix(ctx, 1, why); failed != nil {
			err = errors.Join(err, failed)
		}
	}
	return a, err
}
