// Package approval is how a person's answer to a plan gets from the cluster into the journal.
//
// An answer is an Approval, an object in the namespace of the Service. RBAC says who may
// create one there; an admission policy holds what it says of its author to the user that the
// API server authenticated, and nobody can change it afterwards.
package approval

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/kube"
)

// To returns the answer of a user to the plan that a record asks about, to be created in the
// namespace of its Service with that user's own credentials. Its name is the same each time:
// one person answers one question once.
func To(rec event.Record, verdict kube.Verdict, by kube.User, comment string, lasts time.Duration) kube.Approval {
	spec := kube.ApprovalSpec{
		Cluster: rec.Cluster, Case: rec.Case, Plan: rec.Digest, Attempt: rec.NextAttempt(), Verdict: verdict,
		User: by.Name, Groups: by.Groups, Comment: comment, ExpirationSeconds: int64(lasts / time.Second),
	}
	return kube.Approval{ObjectMeta: metav1.ObjectMeta{Namespace: rec.Service.Namespace, Name: nameOf(spec)}, Spec: spec}
}

// A NotTaken is why the cluster takes no answer to a case: it has no Approvals, does not have
// the Service, or can't be asked.
type NotTaken struct{ Why string }

// Error says why.
func (n NotTaken) Error() string { return n.Why }

// An Answered is the first answer of somebody who now gives another one.
type Answered struct {
	By      string
	Verdict kube.Verdict
}

// Error says who has answered, and how.
func (a Answered) Error() string {
	return fmt.Sprintf("%s has answered this plan before, with %s, and the first answer stays", a.By, a.Verdict)
}

// Create answers the plan that a record asks about, in the name of the user whose credentials
// the cluster is reached with. It returns the Approval as it is kept; where that user has given
// the same answer before, that one. It returns a NotTaken where the cluster takes none,
// kube.ErrDenied where the user may not answer, and an Answered where the user has given another
// answer before.
func Create(ctx context.Context, c *kube.Cluster, rec event.Record, verdict kube.Verdict, comment string, lasts time.Duration) (*kube.Approval, error) {
	me, err := c.Me(ctx)
	if err != nil {
		return nil, NotTaken{err.Error()}
	}
	svc, err := c.Service(ctx, rec.Service.Namespace, rec.Service.Name)
	if err == nil && string(svc.UID) != rec.Service.UID || errors.Is(err, kube.ErrNotFound) && !strings.HasPrefix(rec.Class, event.DoctorPrefix) {
		return nil, NotTaken{fmt.Sprintf("the Service of the case is not in this cluster, but in %s", rec.Cluster)}
	}
	want := To(rec, verdict, me, comment, lasts)
	made, err := c.CreateApproval(ctx, want)
	switch {
	case errors.Is(err, kube.ErrNotFound):
		return nil, NotTaken{"the cluster has no " + Kind}
	case errors.Is(err, kube.ErrUnavailable):
		return nil, NotTaken{err.Error()}
	case errors.Is(err, kube.ErrDenied):
		return nil, fmt.Errorf("%s may not answer in the namespace %s: %w. The ClusterRole %s allows it; somebody has to bind it",
			me.Name, rec.Service.Namespace, err, Approver)
	case errors.Is(err, kube.ErrConflict):
		have, err := c.Approval(ctx, want.Namespace, want.Name)
		if err != nil {
			return nil, err
		}
		if have.Spec.Verdict != verdict {
			return nil, Answered{me.Name, have.Spec.Verdict}
		}
		return have, nil
	}
	return made, err
}

func nameOf(s kube.ApprovalSpec) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%d\n%s", s.Case, s.Plan, s.Attempt, s.User))
	return strings.ToLower(s.Case) + "-" + hex.EncodeToString(sum[:6])
}
