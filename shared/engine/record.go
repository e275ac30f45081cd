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
	"github.com/lbremedy/lbremedy/shared/regex"
)

// settle stores how the run ended.
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
	if !x.recorded && !x.ev.Again && x.rec.Error == "" { // errors have a pace of their own
		used, wait := x.object.uses()
		if wait > 0 {
			x.log.Warn("the failure ends in one way after the other, and how this run has ended is not recorded", "outcome", r, "again", wait)
			return x.later(wait)
		}
		x.object.mine().Used = used
	}
	if err := x.append(ctx, event.Settled); err != nil {
		return x.lost(err)
	}
	if err := x.object.flush(ctx); err != nil {
		return x.rec, err
	}
	return x.rec, nil
}

// append stores the record as it stands. It fails with stream.ErrConflict if another engine has written the document since this
// run read it.
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
		x.settled = true
		x.object.free(x)
	}
	if phase != event.Intent && ctx.Err() != nil {
		// The run's time is up; what it has done is told all the same.
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
	}
	x.object.mine().Doubt = x.doubt && x.rec.Next < len(x.rec.Steps)
	if err := x.object.append(ctx, x.rec); err != nil {
		x.settled = false
		return err
	}
	x.recorded, x.reads.kept = true, true
	if phase == event.Intent {
		return x.object.flush(ctx)
	}
	x.object.released = phase == event.Settled
	return nil
}

// repeats reports whether the run has ended as the last record says already, and has
// written nothing: then that record stands for it, too.
func (x *run) repeats(r event.Result) bool {
	// Where a person has closed the incident, it is told again.
	if x.object == nil || x.object.mine().Seen == 0 {
		return false
	}
	if x.prev.Phase != event.Settled || x.recorded || r.Worked() || r == event.Unsettled || r == event.Undone {
		return false
	}
	now := x.rec
	now.Result = r
	return sameEnd(x.prev, now)
}

// Of runs that write nothing, so many in a row may end in another way than the one before, and then one in this time.
const (
	idleBurst = 8
	idleEach  = time.Hour
	idleWait  = 10 * time.Minute // at most, until a run that may not is made again
)

// uses returns how long a run has to wait that is about to leave a record and has written nothing; zero: it may, and the
// case's Used is to be this then. Whoever may create Events can make a failure end in one way and in another in turn, by
// Events of success, and each such end is a record: without a limit one namespace would fill CASES, which all clusters share.
func (o *object) uses() (used time.Time, wait time.Duration) {
	now := o.env.now()
	if used = o.mine().Used; used.Before(now) || used.Sub(now) > idleBurst*idleEach { // by a clock that was ahead
		used = now
	}
	if left := used.Sub(now) - (idleBurst-1)*idleEach; left > 0 {
		return time.Time{}, min(left, idleWait)
	}
	return used.Add(idleEach), 0
}

// digits are what may change in a sentence that says the same again.
var digits = regex.New(`[0-9]+`)

// sameEnd reports whether two records of a Service and class say the same, but for
// numbers: how long something lasts, how much is left.
func sameEnd(a, b event.Record) bool {
	return endOf(a) == endOf(b)
}

// endOf digests what a record says of how its run ended.
func endOf(r event.Record) string {
	h := sha256.New()
	steps := 0
	for _, s := range r.Steps {
		steps += len(s.Text)
	}
	fmt.Fprintln(h, r.Result, r.Reason, r.Held, r.Digest, r.Cause, r.Risk, r.Mode, r.Muted, r.Impact, r.Attempt, r.Next, steps, r.Undoing,
		r.Written.UnixNano(), r.Since.UnixNano(), r.Approved != nil)
	for _, said := range []string{r.Finding, r.Ask, r.Note, r.Rule, r.Error} {
		fmt.Fprintln(h, digits().ReplaceAllString(said, "#"))
	}
	return hex.EncodeToString(h.Sum(nil))
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
