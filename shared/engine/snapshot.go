package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/lbremedy/lbremedy/shared/hand"
	"github.com/lbremedy/lbremedy/shared/remedy"
)

// preserve keeps a snapshot in CASES before steps of medium or high risk; a look does not keep it. After an error do not apply the steps.
func (x *run) preserve(ctx context.Context, risk remedy.Risk, steps []remedy.Step, undo bool) error {
	if risk == remedy.Low || x.c.Event.Service.Kind != "" {
		return nil // a cluster-wide case writes to no load balancer
	}
	a, err := x.ask(ctx, hand.Backup, undo, steps...)
	s := a.Backup
	if err == nil && s == nil {
		err = errors.New("the hand sent none")
	}
	var data []byte
	if err == nil {
		s.At = x.env.Time()
		data, err = s.Pack()
	}
	if err != nil {
		return fmt.Errorf("take a snapshot before the write: %w", err)
	}
	if x.dry {
		return nil
	}
	header := map[string][]string{"Content-Type": {"application/json"}, "Content-Encoding": {"gzip"}}
	if err := x.env.Stream.Snapshot(ctx, s.Cluster, s.Service.UID, s.Class, header, data); err != nil {
		return fmt.Errorf("keep the snapshot before the write: %w", err)
	}
	return nil
}
