// Package approval is how a person's answer to a plan gets from the cluster into the journal.
//
// An answer is an Approval, an object in the namespace of the Service. RBAC says who may
// create one there; an admission policy holds what it says of its author to the user that the
// API server authenticated, and nobody can change it afterwards.
package approval

import (
	"crypto/sha256"
	"encoding/hex"
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

func nameOf(s kube.ApprovalSpec) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%d\n%s", s.Case, s.Plan, s.Attempt, s.User))
	return strings.ToLower(s.Case) + "-" + hex.EncodeToString(sum[:6])
}
