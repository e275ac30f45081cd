package approval_test

import (
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/test/cluster"
	"github.com/lbremedy/lbremedy/test/identity"
	"github.com/lbremedy/lbremedy/test/kubernetes"
	"github.com/lbremedy/lbremedy/test/operator"
)

// Two people of one group answer with their kubeconfigs, and the plan is applied once. Answers without the right, or of another group,
// change nothing.
func TestProven(t *testing.T) {
	c := cluster.Alone(t)
	ctx := t.Context()
	proven := identity.Approvals(t, c)
	sc := operator.NewTestbedOn(t, c)
	u := sc.Up(t)
	asked := sc.Asks(t, u, "{needs: 2, from: [group:network]}")
	sc.Wants(t, 0, "all plans: approvals of 2 people from group:network", "", "policy", "show")
	if !strings.Contains(asked.Ask.String(), "The policy wants the approvals of 2 people from group:network.") {
		t.Errorf("it asks %q", asked.Ask)
	}
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
	untouched()
	says(bob, 0, "The answer is the Approval "+sc.Namespace+"/", "approve", asked.Case)
	fixed := u.Until(t, func(r event.Record) bool { return r.Result.Worked() })
	if both := operator.Approvers(fixed); len(both) != 2 || both[0].By != "ann" || both[0].Object == "" || both[0].Comment != "CHG-1" || both[1].By != "bob" {
		t.Errorf("approved by %+v", both)
	}
	says(sc.Call, 0, "by ann: CHG-1", "show", fixed.Case)
	says(bob, command.CodeWrong, "has no plan that waits for an approval", "approve", asked.Case)
	u.End(t)
}

// In a cluster without Approvals, "up" and "approve" say what to do: a person applies that plan, and no other, with their own rights. One
// person is one of two that the policy wants.
func TestNoApprovals(t *testing.T) {
	sc := operator.NewTestbedOn(t, cluster.Alone(t))
	u := sc.Up(t)
	asked := sc.Asks(t, u, "{from: [group:network]}")
	const none = "the cluster has no approvals.lbremedy.io"
	if got := u.Errs.String(); strings.Count(got, none) != 1 || !strings.Contains(got, "lbremedy run NAMESPACE/SERVICE --apply --approve DIGEST") {
		t.Errorf("up says %s", got)
	}
	web := sc.Namespace + "/web"
	sc.Wants(t, command.CodeWrong, "", "lbremedy run "+web+" --apply --approve "+asked.Digest, "approve", asked.Case)
	sc.Wants(t, command.CodeWrong, "", none, "reject", asked.Case)
	sc.Wants(t, command.CodeWrong, "", "--approve is for --apply", "run", web, "--approve", asked.Digest)
	sc.Wants(t, command.CodeWrong, "", "is too short", "run", web, "--apply", "--approve", "0")
	sc.Wants(t, command.CodeWrong, "", "look at it again without --apply", "run", web, "--apply", "--approve", strings.Repeat("0", 32))
	pod, err := identity.Of("up")
	if err != nil {
		t.Fatal(err)
	}
	by := func(user, group string) operator.Call { return sc.As(t, user, pod.Rules, group) }
	call := func(by operator.Call, code int, want string) {
		t.Helper()
		got := by.Run(t.Context(), "run", web, "--apply", "--approve", asked.Digest[:12])
		if got.Code != code || !strings.Contains(strings.Join(strings.Fields(got.Out+got.Err), " "), want) {
			t.Errorf("%+v; want %d, %q", got, code, want)
		}
	}
	call(by(identity.User("up"), "network"), command.CodeWrong, "is a ServiceAccount of lbremedy: use your own kubeconfig")
	call(by("web", "web"), cli.CodeOpen, "web approved this plan at")
	if got := sc.Annotations(t)[operator.Annotation+"vswitch-id"]; got != "vsw-a" {
		t.Fatalf("the Service is in %s", got)
	}
	call(by("ann", "network"), 0, "ann approved this plan at")
	if got := sc.Annotations(t)[operator.Annotation+"vswitch-id"]; got != "vsw-b" {
		t.Errorf("the Service is in %s", got)
	}
	u.End(t)
}

// A person without access to NATS lets lbremedy in its Pod print the Approval, and creates it. The Pod itself may not answer.
func TestPrinted(t *testing.T) {
	c := cluster.Alone(t)
	ctx := t.Context()
	proven := identity.Approvals(t, c)
	sc := operator.NewTestbedOn(t, c)
	u := sc.Up(t)
	asked := sc.Asks(t, u, "{from: [group:network]}")
	proven()

	may := []rbacv1.PolicyRule{{APIGroups: []string{"lbremedy.io"}, Resources: []string{"approvals"}, Verbs: []string{"create", "get", "list", "watch"}}}
	pod := sc.As(t, identity.User("up"), may) // somebody bound the role to it
	wrong := func(want string, args ...string) {
		t.Helper()
		got := pod.Run(ctx, args...)
		if got.Code != command.CodeWrong || got.Out != "" || !strings.Contains(strings.Join(strings.Fields(got.Err), " "), want) {
			t.Errorf("%v: %+v; want %q", args, got, want)
		}
	}
	wrong("lbremedy does not answer its own questions, and "+identity.User("up")+" is one of its ServiceAccounts", "approve", asked.Case)
	wrong("--print: name who creates the Approval with --user", "approve", asked.Case, "--print")
	wrong("--user and --group are for --print", "approve", asked.Case, "--user", "ann")

	printed := func(args ...string) (a kube.Approval, text []byte) {
		t.Helper()
		got := pod.Run(ctx, append(args, "--print")...)
		if err := yaml.UnmarshalStrict([]byte(got.Out), &a); err != nil || got.Code != 0 || got.Err != "" {
			t.Fatalf("%v: %v: %+v", args, err, got)
		}
		return a, []byte(got.Out)
	}
	create := func(user string, text []byte) error {
		t.Helper()
		config := sc.Kube.As(t, user, may)
		config.Impersonate.Groups = []string{"network", "system:authenticated"}
		client, err := kubernetes.New(config)
		if err != nil {
			t.Fatal(err)
		}
		data, err := yaml.YAMLToJSON(text)
		if err != nil {
			t.Fatal(err)
		}
		return client.CoreV1().RESTClient().Post().AbsPath("/apis/lbremedy.io/v1beta1/namespaces/"+sc.Namespace+"/approvals").
			Param("fieldValidation", "Strict").SetHeader("Content-Type", "application/json").Body(data).Do(ctx).Error()
	}
	if no, _ := printed("reject", sc.Namespace+"/web", "--user", "ann"); no.Spec.Verdict != kube.Reject || no.Spec.Plan != asked.Digest {
		t.Errorf("to reject it prints %+v", no)
	}
	yes, text := printed("approve", sc.Namespace+"/web", "--user", "ann", "--group", "network", "--comment", "CHG-1")
	if yes.Kind != "Approval" || strings.Contains(string(text), "creationTimestamp") || strings.Contains(string(text), "status") {
		t.Errorf("it prints %s", text)
	}
	if err := create("bob", text); err == nil || !strings.Contains(err.Error(), "spec.user must be the user who creates the Approval") {
		t.Errorf("bob created what ann is to create: %v", err)
	}
	if got := sc.Annotations(t)[operator.Annotation+"vswitch-id"]; got != "vsw-a" {
		t.Fatalf("the Service is in %s", got)
	}
	if err := create("ann", text); err != nil {
		t.Fatal(err)
	}
	fixed := u.Until(t, func(r event.Record) bool { return r.Result.Worked() })
	if a := fixed.Approved; a == nil || a.By != "ann" || a.Object == "" || a.Comment != "CHG-1" {
		t.Errorf("approved by %+v", fixed.Approved)
	}
	u.End(t)
}
