package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/lbremedy/lbremedy/shared/hand"
	"github.com/lbremedy/lbremedy/shared/remedy"
)

// preserve keeps a snapshot in CASES before steps of medium or high risk are
// applied, as they were declared. An error means that they must not be.
func (x *run) preserve(ctx context.Context, risk remedy.Risk, steps []remedy.Step, undo bool) error {
	s, err := x.standing(ctx, risk, steps, undo)
	if err != nil || s == nil {
		return err
	}
	s.At = x.env.now()
	data, err := s.Pack()
	if err != nil {
		return fmt.Errorf("take a snapshot before the write: %w", err)
	}
	header := map[string][]string{"Content-Type": {"application/json"}, "Content-Encoding": {"gzip"}}
	if err := x.env.Stream.Snapshot(ctx, s.Cluster, s.Service.UID, s.Class, header, data); err != nil {
		return fmt.Errorf("keep the snapshot before the write: %w", err)
	}
	return nil
}

// standing returns the snapshot that preserve would keep; nil for none.
func (x *run) standing(ctx context.Context, risk remedy.Risk, steps []remedy.Step, undo bool) (*hand.Snapshot, error) {
	if risk == remedy.Low || x.c.Event.Service.Kind != "" {
		return nil, nil // of a cluster there is no load balancer to write to
	}
	a, err := x.ask(ctx, hand.Backup, undo, steps...)
	if err == nil && a.Backup == nil {
		err = errors.New("the hand sent none")
	}
	if err != nil {
		return nil, fmt.Errorf("take a snapshot before the write: %w", err)
	}
	return a.Backup, nil
}
