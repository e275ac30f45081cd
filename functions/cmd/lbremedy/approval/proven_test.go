package approval_test

import (
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/test/cluster"
	"github.com/lbremedy/lbremedy/test/identity"
	"github.com/lbremedy/lbremedy/test/operator"
)

// Two people of one group answer with their own kubeconfigs, and the plan is applied once;
// who has no right to answer, or is of another group, brings about nothing.
func TestProven(t *testing.T) {
	c := cluster.Alone(t)
	ctx := t.Context()
	proven := identity.Approvals(t, c)
	sc := operator.NewTestbedOn(t, c)
	u := sc.Up(t)
	asked := sc.Asks(t, u, "{needs: 2, from: [group:network]}")
	sc.Wants(t, 0, "all plans: approvals of 2 people from group:network", "", "policy", "show")
	if !strings.Contains(asked.Ask, "The policy wants the approvals of 2 people from group:network.") {
		t.Errorf("it asks %q", asked.Ask)
	}
	// The record says how it was found out.
	if !slices.ContainsFunc(asked.Reads, func(r event.Read) bool {
		return r.Action == "vpc:DescribeVSwitches" && strings.Contains(r.Answer, "AvailableIpAddressCount")
	}) {
		t.Errorf("the reads are %+v", asked.Reads)
	}
	proven()

	may := []rbacv1.PolicyRule{{APIGroups: []string{"lbremedy.io"}, Resources: []string{"approvals"}, Verbs: []string{"create", "get", "list", "watch"}}}
	says := func(by operator.Call, code int, want string, args ...string) {
		t.Helper()
		if got := by.Run(ctx, args...); got.Code != code || !strings.Contains(strings.Join(strings.Fields(got.Out+got.Err), " "), want) {
			t.Errorf("%v: %+v; want %d and %q", args, got, code, want)
		}
	}
	untouched := func() {
		t.Helper()
		if got := sc.Annotations(t)[operator.Annotation+"vswitch-id"]; got != "vsw-a" {
			t.Fatalf("the Service is in %s", got)
		}
	}
	ann, bob := sc.As(t, "ann", may, "network"), sc.As(t, "bob", may, "network")
	says(sc.As(t, "eddy", nil, "network"), command.CodeWrong, "eddy may not answer in the namespace", "approve", asked.Case)
	says(sc.As(t, "web", may, "web"), 0, "web approved the plan "+asked.Digest, "approve", asked.Case)
	says(ann, 0, "ann approved the plan "+asked.Digest, "approve", asked.Case, "--comment", "CHG-1")
	says(ann, 0, "ann approved the plan "+asked.Digest, "approve", asked.Case)
	says(ann, command.CodeWrong, "ann has answered this plan before, with Approve", "reject", asked.Case)
	says(sc.Call, 0, "Kubernetes does not prove it", "approve", asked.Case, "--without-kubernetes")
	untouched()
	says(bob, 0, "Kubernetes proves it: Approval "+sc.Namespace+"/", "approve", asked.Case)
	fixed := u.Until(t, func(r event.Record) bool { return r.Result.Worked() })
	if fixed.Approved == nil || fixed.Approved.By != "ann" || fixed.Approved.Object == "" || fixed.Approved.Comment != "CHG-1" ||
		!slices.ContainsFunc(fixed.Seconded, func(a event.Approved) bool { return a.By == "bob" }) {
		t.Errorf("approved by %+v and %+v", fixed.Approved, fixed.Seconded)
	}
	says(sc.Call, 0, "approved by ann (proven by Kubernetes): CHG-1, and by bob (proven by Kubernetes)", "show", fixed.Case)
	says(bob, command.CodeWrong, "has no plan that waits for an approval", "approve", asked.Case)
	u.End(t)
}
