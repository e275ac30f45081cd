package approval

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lbremedy/lbremedy/shared/engine"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/retry"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/stream"
)

// Grants are what a Bringer needs of the cluster.
var Grants = []grant.Grant{
	grant.GetApprovals, grant.ListApprovals, grant.WatchApprovals, grant.PatchApprovalsStatus, grant.DeleteApprovals,
	grant.GetAdmissionPolicies, grant.GetAdmissionBindings,
}

// A Bringer brings the Approvals of one cluster to NATS.
type Bringer struct {
	Cluster string // ID
	Kube    *kube.Cluster
	Writer  *kube.Writer
	Stream  *stream.Stream
	Now     func() time.Time // nil: time.Now
	Log     *slog.Logger
	Said    func(string) // is told how Approvals stand, when that changes
}

// How long a Bringer waits before it looks again at a cluster that has no Approvals, or can't
// be asked.
const (
	firstWait = 100 * time.Millisecond
	lastWait  = 30 * time.Second
)

// Run brings each Approval until ctx ends. What can't be brought now is tried again.
func (b *Bringer) Run(ctx context.Context) error {
	said, backoff := "", retry.Backoff(firstWait, lastWait)
	for ctx.Err() == nil {
		now := b.stands(ctx)
		if now != said && ctx.Err() == nil {
			said = now
			b.Said(now)
		}
		err := b.Kube.EachApproval(ctx, func(a kube.Approval) error {
			backoff = retry.Backoff(firstWait, lastWait)
			return b.take(ctx, a)
		})
		switch {
		case err == nil:
			backoff = retry.Backoff(firstWait, lastWait)
		case ctx.Err() == nil && !errors.Is(err, kube.ErrNotFound):
			b.Log.Warn("an Approval could not be brought; trying again", "error", event.Redact(err.Error()))
		}
		retry.Sleep(ctx, backoff.Step())
	}
	return nil
}

// stands says how Approvals of the cluster are taken.
func (b *Bringer) stands(ctx context.Context) string {
	_, err := b.Kube.Approvals(ctx, "default")
	if errors.Is(err, kube.ErrNotFound) {
		return "Approvals: over NATS alone, since the cluster has no " + Kind + "."
	}
	if err == nil {
		_, err = Since(ctx, b.Kube)
	}
	switch {
	case err == nil:
		return "Approvals: those of the cluster are taken over."
	case Unguarded(err):
		return "Approvals: those of the cluster are refused, since " + err.Error() + "."
	}
	return "Approvals: those of the cluster can't be read: " + event.Redact(err.Error())
}

// take brings one Approval, and says on it what became of it.
func (b *Bringer) take(ctx context.Context, a kube.Approval) error {
	if a.Status.State != "" {
		return b.clear(ctx, a)
	}
	fresh, err := b.Kube.Approval(ctx, a.Namespace, a.Name)
	if errors.Is(err, kube.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	state := kube.Recorded
	text, err := b.bring(ctx, *fresh)
	var no refusal
	switch {
	case errors.As(err, &no):
		state, text = kube.Refused, say.Of(no)
	case err != nil:
		return fmt.Errorf("bring Approval %s/%s: %w", fresh.Namespace, fresh.Name, err)
	}
	b.Log.Info("Approval looked at", "namespace", fresh.Namespace, "case", fresh.Spec.Case, "outcome", string(state))
	err = b.Writer.SetApprovalStatus(ctx, *fresh, kube.ApprovalStatus{State: state, Message: text.String(), Said: text, Time: metav1.NewTime(b.now())})
	if errors.Is(err, kube.ErrNotFound) || errors.Is(err, kube.ErrConflict) || errors.Is(err, kube.ErrDenied) {
		return nil // it is gone or seen again, or lbremedy may not write in its namespace
	}
	return err
}

// clear deletes an Approval that is too old to count for anything: no answer lasts longer, and the
// journal, which tells who answered, does not keep the case longer either. Each list of them comes
// by here.
func (b *Bringer) clear(ctx context.Context, a kube.Approval) error {
	if b.now().Sub(a.CreationTimestamp.Time) < engine.RejectionLife {
		return nil
	}
	err := b.Writer.DeleteApproval(ctx, a)
	if errors.Is(err, kube.ErrNotFound) || errors.Is(err, kube.ErrConflict) || errors.Is(err, kube.ErrDenied) {
		return nil // it is gone or seen again, or lbremedy may not write in its namespace
	}
	return err
}

// A refusal is why an Approval does not count.
type refusal struct{ error }

func (r refusal) Unwrap() error { return r.error }

// bring puts down what an Approval says, as it was just read.
func (b *Bringer) bring(ctx context.Context, a kube.Approval) (say.Text, error) {
	since, err := Since(ctx, b.Kube)
	if Unguarded(err) {
		return nil, refusal{err}
	}
	if err != nil {
		return nil, err
	}
	if err := b.valid(a, since); err != nil {
		return nil, err
	}
	rec, err := b.find(ctx, a)
	if err != nil {
		return nil, err
	}
	answer := engine.Approval{
		By: a.Spec.User, Identity: a.Spec.User, Groups: a.Spec.Groups, Object: string(a.UID), Rejects: a.Spec.Verdict == kube.Reject,
		Comment: a.Spec.Comment, At: a.CreationTimestamp.Time, Until: a.CreationTimestamp.Add(lasts(a.Spec)),
	}
	if err := answer.Takes(rec); err != nil {
		return nil, refusal{err}
	}
	if rec.Digest != a.Spec.Plan {
		return nil, refusal{say.Errorf("the plan of case %s is %s by now, and this answers %s", rec.Case, rec.Digest, a.Spec.Plan)}
	}
	if rec.NextAttempt() != a.Spec.Attempt {
		return nil, refusal{say.Errorf("case %s asks about attempt %d by now, and this answers attempt %d", rec.Case, rec.NextAttempt(), a.Spec.Attempt)}
	}
	if a.Spec.Chat != nil {
		answer.Chat = a.Spec.Chat.String()
	}
	switch err := engine.Bring(ctx, b.Stream, rec, answer, b.now()); {
	case errors.Is(err, engine.ErrNotAsked):
		return nil, refusal{err}
	case errors.Is(err, engine.ErrAnswered):
		return nil, refusal{say.Errorf("%s has answered this plan before, and the first answer stays", a.Spec.User)}
	case err != nil:
		return nil, err
	}
	if strings.HasPrefix(rec.Class, event.DoctorPrefix) { // no event brings it again
		return say.F("It counts."), nil
	}
	switch err := Deliver(ctx, b.Stream, rec, "approval."+string(a.UID)); {
	case errors.Is(err, stream.ErrNotFound):
		return say.F("It counts.").And("The failure is no longer stored and has not returned: there is nothing to apply the plan to."), nil
	case err != nil:
		return nil, err
	}
	return say.F("It counts.").And("The case is diagnosed again."), nil
}

// valid returns why an Approval counts for no case at all.
func (b *Bringer) valid(a kube.Approval, since time.Time) error {
	created := a.CreationTimestamp.Time
	switch {
	case created.Before(since):
		return refusal{say.Errorf("nothing proves who created it: it was created at %s, and the admission policy %s proves that from %s on",
			stamp(created), Policy, stamp(since))}
	case a.Generation != 1:
		return refusal{say.Errorf("it was changed after it was created")}
	case a.DeletionTimestamp != nil:
		return refusal{say.Errorf("it is being deleted")}
	case a.Spec.Verdict != kube.Approve && a.Spec.Verdict != kube.Reject || a.Spec.User == "" || a.Spec.Plan == "":
		return refusal{say.Errorf("it lacks a user, a plan or a verdict")}
	case a.Spec.Cluster != "" && a.Spec.Cluster != b.Cluster:
		return refusal{say.Errorf("it is about the cluster %s, and this is %s", a.Spec.Cluster, b.Cluster)}
	}
	if until := created.Add(a.Spec.Lasts()); !b.now().Before(until) {
		return refusal{say.Errorf("it expired at %s", stamp(until))}
	}
	return nil
}

// find returns the last record of the case that an Approval names.
func (b *Bringer) find(ctx context.Context, a kube.Approval) (event.Record, error) {
	prefix, _, _ := strings.Cut(a.Spec.Case, "-")
	subjects, err := b.Stream.Subjects(ctx, stream.Cases, event.CaseFilter(b.Cluster, "*"))
	if err != nil {
		return event.Record{}, err
	}
	var found *event.Record
	var unread error
	for _, subject := range subjects {
		parts := strings.Split(subject, ".")
		if len(parts) < 5 || len(prefix) != 8 || !strings.HasPrefix(parts[3], prefix) {
			continue
		}
		m, err := b.Stream.Last(ctx, stream.Cases, subject)
		if errors.Is(err, stream.ErrNotFound) {
			continue
		}
		if err != nil {
			return event.Record{}, err
		}
		rec, err := event.DecodeRecord(m.Subject, m.Header, m.Data)
		if err != nil {
			unread = err // it must not keep what stands beside it, or the other Approvals
			continue
		}
		// Two classes may have a case that began in the same second.
		if rec.Case == a.Spec.Case && (found == nil || rec.Digest == a.Spec.Plan) {
			found = &rec
		}
	}
	switch {
	case found == nil && unread != nil:
		return event.Record{}, refusal{say.Errorf("read the journal: %w", unread)}
	case found == nil:
		return event.Record{}, refusal{say.Errorf("there is no case %s of the cluster %s", a.Spec.Case, b.Cluster)}
	case found.Service.Namespace != a.Namespace:
		return event.Record{}, refusal{say.Errorf("case %s is not about a Service of the namespace %s", a.Spec.Case, a.Namespace)}
	case found.Service.Kind != "":
		return event.Record{}, refusal{say.Errorf("case %s is not about a Service", a.Spec.Case)}
	}
	return *found, nil
}

// Deliver has the failure of a case delivered again, as it was kept; stream.ErrNotFound if it
// is not.
func Deliver(ctx context.Context, s *stream.Stream, r event.Record, id string) error {
	subject := event.FailedSubject(r.Cluster, r.Class, r.Service.UID)
	kept, err := s.Last(ctx, stream.Failed, subject)
	if err != nil {
		return err
	}
	// A newer occurrence that comes meanwhile is delivered by itself.
	_, _, err = s.PublishNewer(ctx, subject, id, kept.Header, kept.Data, func(m stream.Message) bool { return m.Sequence == kept.Sequence })
	return err
}

func (b *Bringer) now() time.Time {
	if b.Now != nil {
		return b.Now()
	}
	return time.Now()
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
