package approval

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/retry"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/stream"
)

// Types of the conditions of an Approval, for people. They repeat the journal, and no decision reads them.
const (
	Accepted = "Accepted" // whether it counts
	Applied  = "Applied"  // whether the plan that it approves was written
)

// conditions returns the conditions of an Approval that follow from the newest record of its case; other conditions stay as they are. why
// is the reason that the Approval does not count for any plan.
func conditions(a kube.Approval, rec event.Record, why error, now time.Time) []metav1.Condition {
	is := func(kind string, status metav1.ConditionStatus, reason string, text say.Text) []metav1.Condition {
		return []metav1.Condition{{Type: kind, Status: status, Reason: reason, Message: event.Redact(text.String()), LastTransitionTime: metav1.NewTime(now)}}
	}
	no := func(reason string, text say.Text) []metav1.Condition {
		return is(Accepted, metav1.ConditionFalse, reason, text)
	}
	mine := func(by event.Approved) bool { return by.Object == string(a.UID) }
	user, at := a.Spec.User, a.CreationTimestamp.Time
	counted := meta.IsStatusConditionTrue(a.Status.Conditions, Accepted)
	asks := Takes(rec, a.Spec.Verdict, user)
	switch {
	case rec.Rejected != nil && mine(*rec.Rejected):
		return is(Accepted, metav1.ConditionTrue, "Counted", rejected(user, at))
	case rec.Approved != nil && slices.ContainsFunc(append(slices.Clip(rec.Seconded), *rec.Approved), mine):
		yes := is(Accepted, metav1.ConditionTrue, "Counted", approved(user, at))
		switch made := say.F("%d of %d steps of the plan were made.", rec.Next, len(rec.Steps)); {
		case rec.Undoing || rec.Result == event.Undone:
		case rec.Done():
			yes = append(yes, is(Applied, metav1.ConditionTrue, "Applied", made)...)
		case rec.Phase == event.Settled && rec.Result.Final():
			yes = append(yes, is(Applied, metav1.ConditionFalse, "NotApplied", made)...)
		}
		return yes
	case a.Spec.Attempt < rec.Attempt: // a later plan has begun, and its record says nothing about the earlier one
		return nil
	case why != nil:
		return no("Unproven", say.F("It does not count: %s.", say.Of(why)))
	case !now.Before(a.CreationTimestamp.Add(lasts(a.Spec))) && (!counted || asks == nil):
		return no("Expired", say.F("It expired at %s.", stamp(a.CreationTimestamp.Add(lasts(a.Spec)))))
	case rec.Rejected != nil && rec.Digest == a.Spec.Plan && asks != nil:
		return no("Rejected", rejected(rec.Rejected.By, rec.Rejected.At))
	case asks != nil && (counted || rec.Result == event.Waiting): // what was said still holds, or is not yet decided
		return nil
	case asks != nil:
		return no("NotAsked", say.F("It does not count: %s.", say.Of(asks)))
	case rec.Digest != a.Spec.Plan || rec.NextAttempt() != a.Spec.Attempt:
		return no("PlanChanged", say.F("The case asks about plan %s, attempt %d.", rec.Digest, rec.NextAttempt()))
	}
	if note := noted(rec.Note, barred(user, at, "")); note != nil {
		return no("NotAllowed", note)
	}
	if noted(rec.Note, approved(user, at)) != nil {
		return is(Accepted, metav1.ConditionUnknown, "MoreNeeded", say.F("The plan needs more approvals."))
	}
	return nil
}

// noted returns the message of a note that has the format of like, and its first two arguments: a user and a time.
func noted(note, like say.Text) say.Text {
	i := slices.IndexFunc(note, func(m say.Message) bool {
		return m.Format == like[0].Format && len(m.Args) >= 2 && reflect.DeepEqual(m.Args[:2], like[0].Args[:2])
	})
	if i < 0 {
		return nil
	}
	return note[i : i+1]
}

// A statusWriter keeps the conditions of Approvals up to date. The Redeliverer never waits for it. All Approvals are seen again when the watch is
// opened again, and conditions that could not be written are written then.
type statusWriter struct {
	*Redeliverer
	mu    sync.Mutex
	known map[types.UID]seen
	due   map[string]bool // subjects of CASES whose newest record may say something new
}

// A seen is an Approval, and the subject of its case in CASES; empty: not known.
type seen struct {
	kube.Approval
	subject string
}

// forget begins a new list of Approvals.
func (w *statusWriter) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.known = map[types.UID]seen{}
}

// sees notes an Approval, and that the newest record of its case says something about it; nil: it has no record.
func (w *statusWriter) sees(a kube.Approval, rec *event.Record) {
	w.mu.Lock()
	defer w.mu.Unlock()
	subject := ""
	if rec != nil {
		subject = event.CaseSubject(rec.Cluster, rec.Service.UID, rec.Class)
		w.due[subject] = true
	}
	w.known[a.UID] = seen{a, subject}
}

// follow notes new records of cases with Approvals until ctx ends.
func (w *statusWriter) follow(ctx context.Context) {
	for backoff := retry.Backoff(firstWait, lastWait); ctx.Err() == nil; retry.Sleep(ctx, backoff.Step()) {
		err := w.Stream.FollowSince(ctx, stream.Cases, event.CaseFilter(w.Cluster, "*"), time.Time{}, func(m stream.Message) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			parts := strings.Split(m.Subject, ".")
			about := func(a seen) bool { // the ID of a case begins as the UID in its subject does
				prefix, _, _ := strings.Cut(a.Spec.Case, "-")
				return prefix != "" && len(parts) > 3 && strings.HasPrefix(parts[3], prefix)
			}
			if slices.ContainsFunc(slices.Collect(maps.Values(w.known)), about) {
				w.due[m.Subject] = true
			}
			return nil
		})
		if err != nil {
			w.Log.Warn("new records are not seen, so Approvals may have an old status; trying again", "error", event.Redact(err.Error()))
		}
	}
}

// run writes conditions until ctx ends. An error leaves a status as it is.
func (w *statusWriter) run(ctx context.Context) {
	said := ""
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		w.mu.Lock()
		due := w.due
		w.due = map[string]bool{}
		w.mu.Unlock()
		var errs []error
		for subject := range due {
			errs = append(errs, w.write(ctx, subject))
		}
		if err := errors.Join(errs...); err != nil && ctx.Err() == nil && err.Error() != said {
			said = err.Error()
			w.Log.Warn("the status of an Approval was not written", "error", event.Redact(said))
		}
	}, statusEvery)
}

// write writes the conditions of the Approvals of a case that its newest record changes.
func (w *statusWriter) write(ctx context.Context, subject string) error {
	m, err := w.Stream.Last(ctx, stream.Cases, subject)
	if err != nil {
		return err
	}
	rec, err := event.DecodeRecord(m.Subject, m.Header, m.Data)
	if err != nil {
		return err
	}
	since, unproven := Since(ctx, w.Kube)
	if unproven != nil && !Unguarded(unproven) {
		return unproven
	}
	w.mu.Lock()
	known := slices.Collect(maps.Values(w.known))
	w.mu.Unlock()
	var errs []error
	for _, a := range known {
		if a.Spec.Case != rec.Case || a.Namespace != rec.Service.Namespace || rec.Service.Kind != "" || a.subject != "" && a.subject != subject {
			continue
		}
		all, changed := slices.Clone(a.Status.Conditions), false
		for _, c := range conditions(a.Approval, rec, cmp.Or(unproven, valid(a.Approval, w.Cluster, since)), w.Now()) {
			changed = meta.SetStatusCondition(&all, c) || changed
		}
		if !changed {
			continue
		}
		// After a conflict the watch shows the newer one.
		if err := w.Kube.PatchApprovalStatus(ctx, a.Approval, all); !errors.Is(err, kube.ErrConflict) && !errors.Is(err, kube.ErrNotFound) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
