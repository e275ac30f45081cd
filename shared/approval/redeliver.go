package approval

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/retry"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/stream"
)

// A Redeliverer makes the stream deliver a failure again when somebody has answered its plan. The next run reads the answer itself.
// The Redeliverer also writes the status of Approvals.
type Redeliverer struct {
	Cluster string // ID
	Kube    *kube.Cluster
	Stream  *stream.Stream
	Now     func() time.Time
	Log     *slog.Logger
	Said    func(say.Text) // called with the state of Approvals when it changes

	seen sync.Map // by UID: each *kube.Approval that is still to be looked up in the journal
}

// The pauses before it looks again at a cluster that has no Approvals or can't be asked.
const (
	firstWait = 100 * time.Millisecond
	lastWait  = 30 * time.Second
)

// statusEvery is the pause between two rounds of writing statuses.
const statusEvery = 500 * time.Millisecond

// told is how long after its end an Approval is looked at, to say on it that it has expired.
const told = time.Hour

// Run watches Approvals until ctx ends. It retries failed deliveries.
func (w *Redeliverer) Run(ctx context.Context) error {
	status := &statusWriter{Redeliverer: w, due: map[string]bool{}}
	var beside sync.WaitGroup
	beside.Go(func() { status.follow(ctx) })
	beside.Go(func() { status.run(ctx) })
	beside.Go(func() { w.work(ctx, status) })
	defer beside.Wait()
	said, backoff := "", retry.Backoff(firstWait, lastWait)
	for ctx.Err() == nil {
		if now := w.status(ctx); now.String() != said && ctx.Err() == nil {
			said = now.String()
			w.Said(now)
		}
		status.forget()
		err := w.Kube.EachApproval(ctx, func(a kube.Approval) {
			backoff = retry.Backoff(firstWait, lastWait)
			if w.over(a) <= told && (a.Spec.Cluster == "" || a.Spec.Cluster == w.Cluster) {
				w.seen.Store(a.UID, &a)
			}
		})
		switch {
		case err == nil:
			backoff = retry.Backoff(firstWait, lastWait)
		case ctx.Err() == nil && !errors.Is(err, kube.ErrNotFound):
			w.Log.Warn("new Approvals are not seen; trying again", "error", event.Redact(err.Error()))
		}
		retry.Sleep(ctx, backoff.Step())
	}
	return nil
}

// work looks up the Approvals that were seen until ctx ends. The time for that must not count against the limits of a list.
func (w *Redeliverer) work(ctx context.Context, status *statusWriter) {
	backoff := retry.Backoff(firstWait, lastWait)
	for pause := firstWait; retry.Sleep(ctx, pause); pause = backoff.Step() {
		err := w.round(ctx, status)
		switch {
		case err == nil:
			backoff = retry.Backoff(firstWait, lastWait)
		case ctx.Err() == nil:
			w.Log.Warn("a failure with a new Approval was not delivered again; trying again", "error", event.Redact(err.Error()))
		}
	}
}

// round looks up all Approvals that were seen, in any order: one reading of the journal serves all, however many a person makes.
func (w *Redeliverer) round(ctx context.Context, status *statusWriter) error {
	due := map[string][]*kube.Approval{} // by the beginning of the ID of their case, with which the UID begins
	w.seen.Range(func(_, value any) bool {
		a := value.(*kube.Approval)
		prefix, _, _ := strings.Cut(a.Spec.Case, "-")
		due[prefix] = append(due[prefix], a)
		return true
	})
	if len(due) == 0 {
		return nil
	}
	found, err := w.find(ctx, due)
	if err != nil {
		return err
	}
	var failed []error // one must not hold back the others
	for _, some := range due {
		for _, a := range some {
			if err := w.redeliver(ctx, *a, found[a.UID], status); err != nil {
				failed = append(failed, err)
				continue
			}
			w.seen.CompareAndDelete(a.UID, a)
		}
	}
	return errors.Join(failed...)
}

// over returns how long ago an Approval expired.
func (w *Redeliverer) over(a kube.Approval) time.Duration {
	return w.Now().Sub(a.CreationTimestamp.Add(lasts(a.Spec)))
}

func (w *Redeliverer) status(ctx context.Context) say.Text {
	_, err := w.Kube.Approvals(ctx, "default")
	if errors.Is(err, kube.ErrNotFound) {
		return say.F("Approvals: the cluster has no %s. To apply a plan that needs approval: %s.", Kind, ByHand)
	}
	if err == nil {
		_, err = Since(ctx, w.Kube)
	}
	switch {
	case err == nil:
		return say.F("Approvals: those in the cluster count.")
	case Unguarded(err):
		return say.F("Approvals: none counts: %s.", say.Of(err))
	}
	return say.F("Approvals: they can't be read, so nothing is written: %s", event.Redact(err.Error()))
}

// redeliver makes the stream deliver the failure of an Approval again if the newest record of its case waits for it; nil: it has no record.
func (w *Redeliverer) redeliver(ctx context.Context, a kube.Approval, rec *event.Record, status *statusWriter) error {
	status.sees(a, rec)
	if w.over(a) >= 0 || rec == nil || rec.Digest != a.Spec.Plan || rec.NextAttempt() != a.Spec.Attempt ||
		Takes(*rec, a.Spec.Verdict, a.Spec.User) != nil || strings.HasPrefix(rec.Class, event.DoctorPrefix) { // no event brings a finding again
		return nil
	}
	w.Log.Info("Approval seen", "namespace", a.Namespace, "case", a.Spec.Case)
	if err := deliver(ctx, w.Stream, *rec, "approval."+string(a.UID)); !errors.Is(err, stream.ErrNotFound) {
		return err
	}
	return nil // the failure is no longer stored and has not returned
}

// find returns the last records of the cases that Approvals name, by the UID of the Approval: of the class that made the plan if two have a
// case of that name.
func (w *Redeliverer) find(ctx context.Context, due map[string][]*kube.Approval) (map[types.UID]*event.Record, error) {
	subjects, err := w.Stream.Subjects(ctx, stream.Cases, event.CaseFilter(w.Cluster, "*"))
	if err != nil {
		return nil, err
	}
	found := map[types.UID]*event.Record{}
	for _, subject := range subjects {
		parts := strings.Split(subject, ".")
		if len(parts) < 5 || len(parts[3]) < 8 || due[parts[3][:8]] == nil {
			continue
		}
		m, err := w.Stream.Last(ctx, stream.Cases, subject)
		if errors.Is(err, stream.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		rec, err := event.DecodeRecord(m.Subject, m.Header, m.Data)
		if err != nil {
			continue // it must not hold back the others
		}
		for _, a := range due[parts[3][:8]] {
			if rec.Case == a.Spec.Case && rec.Service.Kind == "" && rec.Service.Namespace == a.Namespace && (found[a.UID] == nil || rec.Digest == a.Spec.Plan) {
				found[a.UID] = &rec
			}
		}
	}
	return found, nil
}

// deliver makes the stream deliver a case's failure again. The error is stream.ErrNotFound if it is not stored.
func deliver(ctx context.Context, s *stream.Stream, r event.Record, id string) error {
	subject := event.FailedSubject(r.Cluster, r.Class, r.Service.UID)
	kept, err := s.Last(ctx, stream.Failed, subject)
	if err != nil {
		return err
	}
	// A newer occurrence in the meantime is delivered anyway.
	_, _, err = s.PublishNewer(ctx, subject, id, kept.Header, kept.Data, func(m stream.Message) bool { return m.Sequence == kept.Sequence })
	return err
}
