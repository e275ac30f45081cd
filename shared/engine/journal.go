package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/event"
)

// settle journals how the run ended.
func (x *run) settle(ctx context.Context, r event.Result) (event.Record, error) {
	if x.into != nil {
		x.lap(x.into)
	}
	x.rec.Result = r
	if i := x.rec.Next; x.doubt && i < len(x.rec.Steps) {
		x.rec.Steps[i].Unknown = true
	}
	if r != event.Waiting && x.rec.Decided != "" {
		x.rec.Rule, x.rec.Said.Rule = x.rec.Decided, x.rec.Said.Decided // it waits for nothing any more
	}
	if x.repeats(r) {
		x.repeated = true
		if x.rec.Error == "" {
			x.rec.Errors = 0
		}
		x.rec.Case, x.rec.First, x.rec.Phase, x.rec.At, x.rec.Repeats = x.prev.Case, x.prev.First, event.Settled, x.env.now(), true
		return x.rec, nil
	}
	var used time.Time
	if !x.journalled && !x.ev.Again && x.rec.Error == "" { // errors have a pace of their own
		var wait time.Duration
		if used, wait = x.lease.idle(); wait > 0 {
			x.log.Warn("the failure ends in one way after the other, and what this run has found is not in the journal", "outcome", r, "again", wait)
			return x.later(wait)
		}
	}
	if err := x.append(ctx, event.Settled); err != nil {
		return x.lost(err)
	}
	x.lease.uses(used)
	x.settled = true
	return x.rec, nil
}

// append journals the record as it stands. It fails with stream.ErrConflict if
// another run on the Service has appended since this one read the journal.
func (x *run) append(ctx context.Context, phase event.Phase) error {
	x.rec.Phase, x.rec.At = phase, x.env.now()
	if x.reads.kept {
		x.rec.Reads = nil
	}
	switch {
	case !idle(x.rec) && !lasting(x.rec) && phase == event.Settled:
		x.rec.Since = time.Time{}
	case idle(x.rec) && x.rec.Since.IsZero() && x.rec.Error == "":
		x.rec.Since = x.rec.At
	}
	if phase == event.Settled {
		x.rec.Crashes = 0
		if x.rec.Error == "" {
			x.rec.Errors = 0
		}
	}
	e, err := event.NewRecord(x.rec)
	if err != nil {
		return fmt.Errorf("write the journal: %w", err)
	}
	header, data, err := event.EncodeNATS(e)
	if err != nil {
		return fmt.Errorf("write the journal: %w", err)
	}
	if phase != event.Intent && ctx.Err() != nil {
		// The run's time is up; what it has done is told all the same.
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
	}
	if err := x.journal.Append(ctx, e.ID(), header, data); err != nil {
		return fmt.Errorf("write the journal: %w", err)
	}
	x.journalled, x.reads.kept = true, true
	x.lease.stored(x.journal.Last())
	return nil
}

// lap stores how long the present phase took, and begins the next one.
func (x *run) lap(into *time.Duration) {
	now := x.env.now()
	*into += now.Sub(x.clock)
	x.clock, x.into = now, nil
}

// left digests what a full sync depends on, as we left it: annotations and spec.
func left(svc *corev1.Service) string {
	data, err := json.Marshal(struct {
		Keys   []string
		Values map[string]string
		Spec   corev1.ServiceSpec
	}{slices.Sorted(maps.Keys(svc.Annotations)), svc.Annotations, svc.Spec})
	if err != nil {
		panic(fmt.Sprintf("remedy: a Service does not encode: %v", err))
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:16])
}
