// Package approval is how a person's answer to a plan gets from the cluster into the journal.
//
// An answer is an Approval, an object in the namespace of the Service. RBAC says who may
// create one there; an admission policy holds what it says of its author to the user that the
// API server authenticated, and nobody can change it afterwards.
//
// The notifier alone may create one in the name of another user, who has answered in a chat: it
// says which chat and which click, and the notifier has asked the API server whether that user
// may create one there.
package approval

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lbremedy/lbremedy/shared/engine"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/say"
)

// RelayGrants are what May and Relay need of the cluster beside Grants.
var RelayGrants = []grant.Grant{grant.CreateApprovals, grant.RelayApprovals, grant.ReviewAccess}

// To returns the answer of a user to the plan that a record asks about, to be created in the
// namespace of its Service with that user's own credentials. Its name is the same each time:
// one person answers one question once, and again where that answer does not count any more.
func To(rec event.Record, verdict kube.Verdict, by kube.User, comment string, lasts time.Duration) kube.Approval {
	spec := kube.ApprovalSpec{
		Cluster: rec.Cluster, Case: rec.Case, Plan: rec.Digest, Attempt: rec.NextAttempt(), Verdict: verdict,
		User: by.Name, Groups: by.Groups, Comment: comment, ExpirationSeconds: int64(lasts / time.Second),
	}
	return kube.Approval{ObjectMeta: metav1.ObjectMeta{Namespace: rec.Service.Namespace, Name: nameOf(spec, "")}, Spec: spec}
}

// A NotTaken is why the cluster takes no answer to a case: it has no Approvals, does not have
// the Service, or can't be asked.
type NotTaken struct{ Why error }

// Error says why.
func (n NotTaken) Error() string { return n.Why.Error() }

// Unwrap returns why.
func (n NotTaken) Unwrap() error { return n.Why }

// An Answered is the first answer of somebody who now gives another one.
type Answered struct {
	By      string
	Verdict kube.Verdict
}

// Error says who has answered, and how.
func (a Answered) Error() string { return a.Unwrap().Error() }

// Unwrap returns the sentence on it.
func (a Answered) Unwrap() error {
	return say.Errorf("the user %s has answered this plan before, with %s, and the first answer stays", a.By, a.Verdict)
}

// Create answers the plan that a record asks about, in the name of the user whose credentials
// the cluster is reached with. It returns the Approval as it is kept; where that user has given
// the same answer before, that one. It returns a NotTaken where the cluster takes none,
// kube.ErrDenied where the user may not answer, engine.ErrNotAsked where the record asks for no
// such answer, and an Answered where the user has given another answer before.
func Create(ctx context.Context, c *kube.Cluster, rec event.Record, verdict kube.Verdict, comment string, lasts time.Duration) (*kube.Approval, error) {
	me, err := c.Me(ctx)
	if err != nil {
		return nil, NotTaken{err}
	}
	svc, err := c.Service(ctx, rec.Service.Namespace, rec.Service.Name)
	if err == nil && string(svc.UID) != rec.Service.UID || errors.Is(err, kube.ErrNotFound) && !strings.HasPrefix(rec.Class, event.DoctorPrefix) {
		return nil, NotTaken{say.Errorf("the Service of the case is not in this cluster, but in %s", rec.Cluster)}
	}
	to := engine.Approval{By: me.Name, Object: "new", Rejects: verdict == kube.Reject}
	if err := to.Takes(rec); err != nil {
		return nil, err
	}
	made, err := create(ctx, c, To(rec, verdict, me, comment, lasts))
	switch {
	case errors.Is(err, kube.ErrDenied) && own().MatchString(me.Name):
		return nil, say.Errorf("lbremedy does not answer its own questions, and %s is one of its ServiceAccounts: %w. "+
			"Answer in the console, or create what --print prints with your own kubeconfig", me.Name, err)
	case errors.Is(err, kube.ErrDenied):
		return nil, say.Errorf("the user %s may not answer in the namespace %s: %w. The ClusterRole %s allows it; somebody has to bind it",
			me.Name, rec.Service.Namespace, err, Approver)
	}
	return made, err
}

// May reports whether a user may answer plans in a namespace. It needs grant.ReviewAccess.
func May(ctx context.Context, c *kube.Cluster, by kube.User, namespace string) (bool, error) {
	return c.Allowed(ctx, kube.Review{
		User: by.Name, Groups: append(slices.Clone(by.Groups), "system:authenticated"), // as whoever the API server knows
		Namespace: namespace, Group: "lbremedy.io", Resource: "approvals", Verb: "create",
	})
}

// Relay answers the plan that a record asks about in the name of a user who has said so in a
// chat, with the credentials of the notifier. Who calls it has asked May before. It returns what
// Create returns.
func Relay(ctx context.Context, c *kube.Cluster, rec event.Record, verdict kube.Verdict, by kube.User, from kube.Chat, lasts time.Duration,
) (*kube.Approval, error) {
	want := To(rec, verdict, by, "", lasts)
	want.Spec.Chat = &from
	return create(ctx, c, want)
}

// create creates an Approval, or returns the last one that the person gave to the same
// question, if that still stands and says the same.
func create(ctx context.Context, c *kube.Cluster, want kube.Approval) (*kube.Approval, error) {
	made, err := c.CreateApproval(ctx, want)
	for tries := 0; errors.Is(err, kube.ErrConflict) && tries < 5; tries++ { // the same person answers in two places
		now, err := c.Clock(ctx)
		if err != nil {
			return nil, err
		}
		last, err := lastLike(ctx, c, want)
		if err != nil {
			return nil, err
		}
		if last != nil && stands(*last, now) && (last.Spec.Verdict == want.Spec.Verdict || last.Spec.Verdict == kube.Approve) {
			if last.Spec.Verdict != want.Spec.Verdict {
				return nil, Answered{want.Spec.User, last.Spec.Verdict}
			}
			return last, nil
		}
		if last != nil {
			want.Name = nameOf(want.Spec, last.UID)
		}
		if made, err = c.CreateApproval(ctx, want); !errors.Is(err, kube.ErrConflict) {
			return made, err
		}
	}
	switch {
	case errors.Is(err, kube.ErrNotFound):
		return nil, NotTaken{say.Errorf("the cluster has no %s", Kind)}
	case errors.Is(err, kube.ErrUnavailable):
		return nil, NotTaken{err}
	}
	return made, err
}

// lastLike returns the newest Approval of the same person to the same question; nil if there is
// none.
func lastLike(ctx context.Context, c *kube.Cluster, want kube.Approval) (*kube.Approval, error) {
	all, err := c.Approvals(ctx, want.Namespace)
	if err != nil {
		return nil, err
	}
	var last *kube.Approval
	for i, a := range all {
		s := a.Spec
		if s.User == want.Spec.User && s.Case == want.Spec.Case && s.Plan == want.Spec.Plan && s.Attempt == want.Spec.Attempt &&
			(last == nil || a.CreationTimestamp.After(last.CreationTimestamp.Time)) {
			last = &all[i]
		}
	}
	return last, nil
}

// stands reports whether an Approval counts, or may come to.
func stands(a kube.Approval, now time.Time) bool {
	return a.Status.State != kube.Refused && now.Before(a.CreationTimestamp.Add(lasts(a.Spec)))
}

// lasts returns for how long an answer counts.
func lasts(s kube.ApprovalSpec) time.Duration {
	if s.Verdict == kube.Reject {
		return engine.RejectionLife
	}
	return s.Lasts()
}

// nameOf returns the name of an answer, which is the same each time, behind the last one that the
// person gave to the same question; empty: there was none.
func nameOf(s kube.ApprovalSpec, last types.UID) string {
	text := fmt.Appendf(nil, "%s\n%s\n%d\n%s", s.Case, s.Plan, s.Attempt, s.User)
	if last != "" {
		text = fmt.Appendf(text, "\n%s", last)
	}
	sum := sha256.Sum256(text)
	return strings.ToLower(s.Case) + "-" + hex.EncodeToString(sum[:6])
}
