package scenario

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/lbremedy/lbremedy/shared/hand"
)

// A wire is a hand that is asked and answers in JSON alone, as one in a process of its own would be: all scenarios show
// that a class needs nothing else of the engine, and the engine nothing else of a class.
type wire struct{ hand.Hand }

// Look sends the request and the answer through JSON.
func (w wire) Look(ctx context.Context, q hand.LookRequest) (hand.LookAnswer, error) {
	return call(ctx, w.Hand.Look, q)
}

// Apply sends the order and the answer through JSON.
func (w wire) Apply(ctx context.Context, o hand.Order) (hand.ApplyAnswer, error) {
	return call(ctx, w.Hand.Apply, o)
}

func call[Q, A any](ctx context.Context, do func(context.Context, Q) (A, error), q Q) (A, error) {
	var none A
	sent, err := through(q)
	if err != nil {
		return none, err
	}
	a, failed := do(ctx, sent)
	got, err := through(a)
	if err != nil {
		return none, err
	}
	if failed == nil {
		return got, nil
	}
	problem, ok := errors.AsType[*hand.Error](failed)
	if !ok {
		return none, fmt.Errorf("the hand has an error of type %T: %w", failed, failed)
	}
	read, err := through(*problem)
	if err != nil {
		return none, err
	}
	return got, &read
}

// through returns a value as JSON brings it back. What it brings back must be the same again.
func through[T any](v T) (back T, err error) {
	sent, err := json.Marshal(v)
	if err != nil {
		return back, fmt.Errorf("send %T: %w", v, err)
	}
	if err := json.Unmarshal(sent, &back); err != nil {
		return back, fmt.Errorf("receive %T: %w", v, err)
	}
	if again, err := json.Marshal(back); err != nil || !bytes.Equal(sent, again) {
		return back, fmt.Errorf("JSON does not bring %T back as it was: %v\n%s\n%s", v, err, sent, again)
	}
	return back, nil
}
