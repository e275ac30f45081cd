// Package approval handles a person's answer to a plan: an Approval, an object in the namespace of the Service. Begin with [Answer] and
// [Read].
//
// RBAC decides who may create one. An admission policy ties its author to the user that the API server authenticated, and forbids changes.
// The engine keeps no copy of an approval: it reads the objects before it decides and before it writes. It remembers a rejection. A
// Redeliverer only makes it look again.
//
// Only the notifier may create one for another user, who answered in a chat: the object names the chat and the click, and the notifier has
// checked that the user may create one there. The permission to impersonate users would allow the notifier much more.
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

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/retry"
	"github.com/lbremedy/lbremedy/shared/say"
)

// Life is how long an approval is valid by default.
const Life = 24 * time.Hour

// RejectionLife is how long a rejected plan is not asked about again: as long as CASES keeps the case.
const RejectionLife = 30 * 24 * time.Hour

// RelayGrants are the permissions that May and an answer from a chat need in the cluster.
var RelayGrants = []grant.Grant{grant.CreateApprovals, grant.RelayApprovals, grant.ListApprovals, grant.ReviewAccess}

// ErrNotAsked means that an answer comes too late, or is to another plan.
var ErrNotAsked = errors.New("no plan waits for an answer")

type late struct{ error }

func (l late) Unwrap() []error { return []error{l.error, ErrNotAsked} }

// Asks returns ErrNotAsked if the plan of a record does not wait for an answer.
func Asks(rec event.Record) error {
	switch {
	case rec.Rejected != nil:
		return late{say.Errorf("case %s has no plan that waits for an approval: %s rejected it at %s", rec.Case, rec.Rejected.By,
			rec.Rejected.At.Format(time.RFC3339))}
	case rec.Result == event.Planned:
		return late{say.Errorf("case %s is only observed: %s An approval does not change the mode", rec.Case, rec.Rule)}
	case rec.Phase == event.Intent || rec.Phase == event.Step:
		return late{say.Errorf("case %s has no plan that waits for an approval: it is being worked on. %s", rec.Case, rec.Rule)}
	case rec.Result != event.Asked || len(rec.Steps) == 0 || rec.Digest == "":
		return late{say.Errorf("case %s has no plan that waits for an approval: it is %s. %s", rec.Case, rec.Status(), rec.Rule)}
	}
	return nil
}

// Takes returns ErrNotAsked if the record's plan does not wait for this user's answer. Only the author of a rejection can revoke it, by an approval.
func Takes(rec event.Record, verdict kube.Verdict, user string) error {
	no := rec.Rejected
	if no == nil || verdict == kube.Reject {
		return Asks(rec)
	}
	if rec.Status() != event.Rejected || rec.Digest == "" || no.By != user {
		return late{say.Errorf("case %s has no plan that waits for an approval: %s rejected it at %s, and alone can take that back", rec.Case, no.By,
			no.At.Format(time.RFC3339))}
	}
	return nil
}

// A Reply is a person's answer.
type Reply struct {
	Verdict kube.Verdict
	Comment string
	Lasts   time.Duration // zero: Life, or RejectionLife for a rejection
	From    *Chatter      // the author in a chat; nil: the user of the cluster's credentials
}

// A Chatter is a person in a chat, and their user in the cluster.
type Chatter struct {
	User kube.User
	Chat kube.Chat
}

// To returns a user's answer to the plan of a record, to be created with the user's own credentials. Its name is fixed: one answer a question.
func To(rec event.Record, by kube.User, r Reply) kube.Approval {
	lasts := r.Lasts
	switch {
	case r.Verdict == kube.Reject:
		lasts = RejectionLife
	case lasts == 0:
		lasts = Life
	}
	spec := kube.ApprovalSpec{
		Cluster: rec.Cluster, Service: rec.Service.Name, Case: rec.Case, Plan: rec.Digest, Attempt: rec.NextAttempt(), Verdict: r.Verdict,
		User: by.Name, Groups: by.Groups, Comment: r.Comment, ExpirationSeconds: int64(lasts / time.Second),
	}
	return kube.Approval{ObjectMeta: metav1.ObjectMeta{Namespace: rec.Service.Namespace, Name: nameOf(spec, "")}, Spec: spec}
}

// A NotTaken says why the cluster takes no answer to a case: it has no Approvals, does not have the Service, or can't be asked.
type NotTaken struct{ Why error }

// Error returns why.
func (n NotTaken) Error() string { return n.Why.Error() }

// Unwrap returns why.
func (n NotTaken) Unwrap() error { return n.Why }

// An Answered is the error of a second, different answer of a person, and contains the first one.
type Answered struct {
	By      string
	Verdict kube.Verdict
}

// Error says who has answered, and how.
func (a Answered) Error() string { return a.Unwrap().Error() }

// Unwrap returns the sentence about it.
func (a Answered) Unwrap() error {
	return say.Errorf("the user %s has answered this plan before, with %s, and the first answer stays", a.By, a.Verdict)
}

// Answer answers the plan that a record asks about and returns the stored Approval, which may be an earlier one with the same answer.
// Errors: NotTaken if the cluster takes no answers, kube.ErrDenied if the user may not answer, ErrNotAsked if the record does not ask, and
// Answered if the user has answered differently before. For a person in a chat, the caller calls May first.
func Answer(ctx context.Context, c *kube.Cluster, rec event.Record, r Reply) (*kube.Approval, error) {
	var me kube.User
	var err error
	if r.From != nil {
		me = r.From.User
	} else if me, err = c.Me(ctx); err != nil {
		return nil, NotTaken{err}
	} else if err := here(ctx, c, rec); err != nil {
		return nil, NotTaken{err}
	}
	if err := Takes(rec, r.Verdict, me.Name); err != nil {
		return nil, err
	}
	want := To(rec, me, r)
	if r.From != nil {
		want.Spec.Chat = &r.From.Chat
	}
	made, err := create(ctx, c, rec, want)
	switch {
	case r.From != nil || !errors.Is(err, kube.ErrDenied):
		return made, err
	case Own(me.Name):
		return nil, say.Errorf("lbremedy does not answer its own questions, and %s is one of its ServiceAccounts: %w. "+
			"Answer in the console, or create what --print prints with your own kubeconfig", me.Name, err)
	}
	return nil, say.Errorf("the user %s may not answer in the namespace %s: %w. The ClusterRole %s allows it; somebody has to bind it",
		me.Name, rec.Service.Namespace, err, Approver)
}

// Relay creates the Approval of a person in a chat who may answer, and returns a sentence about it. c is nil without access to the cluster.
func Relay(ctx context.Context, c *kube.Cluster, rec event.Record, verdict kube.Verdict, from Chatter) (say.Text, error) {
	if c == nil {
		return nil, say.Errorf("no access to the cluster")
	}
	may, err := May(ctx, c, from.User, rec.Service.Namespace)
	if err != nil {
		return nil, err
	}
	if !may {
		return nil, say.Errorf("%s may not answer in the namespace %s: the ClusterRole %s allows it; somebody has to bind it",
			from.User.Name, rec.Service.Namespace, Approver)
	}
	if _, err := Answer(ctx, c, rec, Reply{Verdict: verdict, From: &from}); err != nil {
		return nil, err
	}
	said := say.F("%s has approved the plan %.12s for %s.", from.User.Name, rec.Digest, rec.Service)
	if verdict == kube.Reject {
		said = say.F("%s has rejected the plan %.12s for %s.", from.User.Name, rec.Digest, rec.Service)
	}
	return said.And("The case is diagnosed again."), nil
}

func here(ctx context.Context, c *kube.Cluster, rec event.Record) error {
	svc, err := c.Service(ctx, rec.Service.Namespace, rec.Service.Name)
	if err == nil && string(svc.UID) != rec.Service.UID || errors.Is(err, kube.ErrNotFound) && !strings.HasPrefix(rec.Class, event.DoctorPrefix) {
		return say.Errorf("the Service of the case is not in this cluster, but in %s", rec.Cluster)
	}
	return nil
}

// May reports whether a user may answer plans in a namespace. It needs grant.ReviewAccess.
func May(ctx context.Context, c *kube.Cluster, by kube.User, namespace string) (bool, error) {
	return c.Allowed(ctx, kube.Review{
		User: by.Name, Groups: append(slices.Clone(by.Groups), "system:authenticated"), // as every user that the API server authenticates
		Namespace: namespace, Group: "lbremedy.io", Resource: "approvals", Verb: "create",
	})
}

// create creates an Approval, or returns the person's earlier one if it is still valid and says the same.
func create(ctx context.Context, c *kube.Cluster, rec event.Record, want kube.Approval) (*kube.Approval, error) {
	for tries := 0; ; tries++ {
		made, err := c.CreateApproval(ctx, want)
		switch {
		case errors.Is(err, kube.ErrNotFound):
			return nil, NotTaken{say.Errorf("the cluster has no %s", Kind)}
		case errors.Is(err, kube.ErrUnavailable):
			return nil, NotTaken{err}
		case !errors.Is(err, kube.ErrConflict) || tries == 5: // a conflict: the same person answers in two places
			return made, err
		}
		now, err := c.Clock(ctx)
		if err != nil {
			return nil, err
		}
		all, err := c.Approvals(ctx, want.Namespace)
		if err != nil {
			return nil, err
		}
		last := newest(all, want.Spec)
		switch {
		case last == nil: // it was just deleted
		case !StillValid(*last, rec, now):
			want.Name = nameOf(want.Spec, last.UID)
		case last.Spec.Verdict == want.Spec.Verdict:
			return last, nil
		case last.Spec.Verdict == kube.Approve:
			return nil, Answered{want.Spec.User, last.Spec.Verdict}
		default:
			want.Name = nameOf(want.Spec, last.UID)
			// Times are whole seconds, and an answer in the second of a rejection does not revoke it.
			for !now.After(last.CreationTimestamp.Time) {
				if !retry.Sleep(ctx, 100*time.Millisecond) {
					return nil, context.Cause(ctx)
				}
				if now, err = c.Clock(ctx); err != nil {
					return nil, err
				}
			}
		}
	}
}

// newest returns the newest Approval of the same person to the same question, or nil.
func newest(all []kube.Approval, want kube.ApprovalSpec) (last *kube.Approval) {
	for i, a := range all {
		s := a.Spec
		if s.User == want.User && s.Case == want.Case && s.Plan == want.Plan && s.Attempt == want.Attempt &&
			(last == nil || a.CreationTimestamp.After(last.CreationTimestamp.Time)) {
			last = &all[i]
		}
	}
	return last
}

// StillValid reports whether an answer to the plan that a record asks about is still valid, and the engine has not discounted it.
func StillValid(a kube.Approval, rec event.Record, now time.Time) bool {
	return now.Before(a.CreationTimestamp.Add(lasts(a.Spec))) && !strings.Contains(rec.Note.String(), Discounted(a.Name, nil).String())
}

// Discounted returns the engine's note on an Approval that does not count.
func Discounted(name string, why say.Text) say.Text {
	return say.F("The Approval %s does not count:", name).Then(why)
}

func lasts(s kube.ApprovalSpec) time.Duration {
	if s.Verdict == kube.Reject {
		return RejectionLife
	}
	return time.Duration(s.ExpirationSeconds) * time.Second
}

// nameOf returns the name of an answer, which depends on the person's last answer to the same question; an empty last means the first.
func nameOf(s kube.ApprovalSpec, last types.UID) string {
	text := fmt.Appendf(nil, "%s\n%s\n%d\n%s", s.Case, s.Plan, s.Attempt, s.User)
	if last != "" {
		text = fmt.Appendf(text, "\n%s", last)
	}
	sum := sha256.Sum256(text)
	return strings.ToLower(s.Case) + "-" + hex.EncodeToString(sum[:6])
}
