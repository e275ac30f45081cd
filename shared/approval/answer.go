package approval

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/say"
)

// Grants are the permissions to read answers, to wait for them, and to write their status.
var Grants = []grant.Grant{
	grant.ListApprovals, grant.WatchApprovals, grant.PatchApprovalsStatus, grant.GetAdmissionPolicies, grant.GetAdmissionBindings,
}

// A Given is an answer, proven by its object: an approval of one attempt at the plan with this digest, or a rejection of the plan. An
// answer without an object comes from the person who runs the engine by hand.
type Given struct {
	event.Approved
	Groups  []string
	Case    string
	Digest  string // of the plan
	Attempt int
	Rejects bool
}

// A Void is an Approval that does not count.
type Void struct {
	Digest string   // of the plan that it names
	Why    say.Text // as in Discounted
}

// Read returns people's answers to plans for a Service, the oldest first, with only the first answer of each person to a question; and the
// Approvals that do not count: edited ones, those from before the admission policy was in force, and those for another cluster or Service.
// It asks the API server for the stored state, without a cache. A cluster without Approvals has no answers. earlier is what the caller
// knows.
func Read(ctx context.Context, c *kube.Cluster, cluster string, svc event.Service, now time.Time, earlier ...Given,
) (given []Given, void []Void, err error) {
	all, err := c.Approvals(ctx, svc.Namespace)
	if err != nil && !errors.Is(err, kube.ErrNotFound) {
		return nil, nil, err
	}
	all = slices.DeleteFunc(all, func(a kube.Approval) bool {
		return a.Spec.Service != svc.Name || !now.Before(a.CreationTimestamp.Add(lasts(a.Spec)))
	})
	given = earlier
	var since time.Time
	var why error
	if len(all) > 0 {
		if since, why = Since(ctx, c); why != nil && !Unguarded(why) {
			return nil, nil, why
		}
	}
	for _, a := range all {
		if err := cmp.Or(why, valid(a, cluster, since)); err != nil {
			void = append(void, Void{a.Spec.Plan, Discounted(a.Name, say.F("%s.", say.Of(err)))})
			continue
		}
		g := Given{
			event.Approved{
				By: a.Spec.User, Identity: a.Spec.User, Object: string(a.UID), Comment: event.Redact(a.Spec.Comment), At: a.CreationTimestamp.Time,
			},
			a.Spec.Groups, a.Spec.Case, a.Spec.Plan, a.Spec.Attempt, a.Spec.Verdict == kube.Reject,
		}
		if a.Spec.Chat != nil {
			g.Chat = a.Spec.Chat.String()
		}
		given = append(given, g)
	}
	return firsts(given), void, nil
}

func valid(a kube.Approval, cluster string, since time.Time) error {
	created := a.CreationTimestamp.Time
	switch {
	case created.Before(since):
		return say.Errorf("nothing proves who created it: it was created at %s, and the admission policy %s proves that from %s on",
			stamp(created), Policy, stamp(since))
	case a.Generation != 1:
		return say.Errorf("it was changed after it was created")
	case a.DeletionTimestamp != nil:
		return say.Errorf("it is being deleted")
	case a.Spec.Verdict != kube.Approve && a.Spec.Verdict != kube.Reject || a.Spec.User == "" || a.Spec.Plan == "" || a.Spec.Case == "":
		return say.Errorf("it lacks a user, a case, a plan or a verdict")
	case a.Spec.Cluster != "" && a.Spec.Cluster != cluster:
		return say.Errorf("it is about the cluster %s, and this is %s", a.Spec.Cluster, cluster)
	}
	return nil
}

// firsts returns the first answer of each person to a question, the oldest first. An approval replaces the same person's earlier rejection.
// Times are whole seconds: of two answers in one second, the rejection counts as the older.
func firsts(all []Given) []Given {
	slices.SortStableFunc(all, func(a, b Given) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(verdict(a), verdict(b)))
	})
	var first []Given
	for _, g := range all {
		i := slices.IndexFunc(first, func(f Given) bool {
			return f.By == g.By && f.Digest == g.Digest && (f.Rejects || f.Case == g.Case && f.Attempt == g.Attempt)
		})
		switch {
		case i < 0:
			first = append(first, g)
		case first[i].Rejects && !g.Rejects && g.At.After(first[i].At):
			first = append(slices.Delete(first, i, i+1), g)
		}
	}
	return first
}

func verdict(g Given) int {
	if g.Rejects {
		return 0
	}
	return 1
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
