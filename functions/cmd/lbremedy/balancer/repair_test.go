package balancer_test

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/balancer"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/stream/embedded"
	"github.com/lbremedy/lbremedy/test/nats"
	"github.com/lbremedy/lbremedy/test/operator"
	"github.com/lbremedy/lbremedy/test/sim"
)

// The inventory, and the way back for a load balancer that lost its tag or is gone.
func TestBalancers(t *testing.T) {
	t.Parallel()
	sc := operator.NewTestbed(t)
	client := sc.Kube.Client().CoreV1().Services(sc.Namespace)
	web := sc.Namespace + "/web"
	if _, err := client.Patch(t.Context(), "web", types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+operator.Annotation+`vswitch-id":"vsw-b"}}}`),
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	until := func(is func(*corev1.Service) bool) {
		t.Helper()
		if err := operator.WatchService(t, sc, "web", is); err != nil {
			t.Fatal(err)
		}
	}
	until(func(svc *corev1.Service) bool {
		return len(svc.Status.LoadBalancer.Ingress) > 0 && svc.Labels[ccm.BalancerLabel] != ""
	})

	var list []balancer.Balancing
	got := sc.Run(t.Context(), "lb", "ls", "--namespace", sc.Namespace, "-o", "json")
	if err := json.Unmarshal([]byte(got.Out), &list); err != nil || got.Code != 0 {
		t.Fatalf("code %d, %v: %s", got.Code, err, got.Err)
	}
	if len(list) != 1 || list[0].Made != "own" || list[0].AddressType != "intranet" || list[0].Address == "" || list[0].Backends == nil ||
		*list[0].Limit != 200 || len(list[0].Listeners) != 1 {
		t.Fatalf("got %s", got.Out)
	}
	id := list[0].ID
	if got := sc.Run(t.Context(), "lb", "show", web); got.Code != 0 || !strings.Contains(got.Out, id) || !strings.Contains(got.Out, ccm.NameTag) {
		t.Errorf("show: code %d, %s %s", got.Code, got.Out, got.Err)
	}
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"lb", "show", "web"}, "is not a Service"},
		{[]string{"lb", "show", sc.Namespace + "/inner"}, "is not of type LoadBalancer"},
		{[]string{"lb", "weights", web}, "only with the policy Local"},
		{[]string{"lb", "tag", web}, "no load balancer of its own lacks the tag"},
		{[]string{"lb", "recreate", web}, "no load balancer of its own is known to be gone"},
		{[]string{"ram", "gap"}, "managed cluster"},
		{[]string{"ram", "gap", "--target", "2.12"}, "is not a release of the controller"},
	} {
		if got := sc.Run(t.Context(), tt.args...); got.Code != command.CodeWrong || !strings.Contains(got.Err, tt.want) {
			t.Errorf("%v: code %d, said %s", tt.args, got.Code, got.Err)
		}
	}

	server := nats.Start(t, embedded.Options{Token: "sesame"})
	sc.Env["LBREMEDY_NATS"], sc.Env["LBREMEDY_NATS_TOKEN"] = server.URL(), "sesame"
	if got := sc.Run(t.Context(), "setup"); got.Code != 0 {
		t.Fatal(got.Err)
	}
	policy := operator.Write(t, "policy.yaml", "mode: fix\n") // what is of high risk it leaves to a person

	sc.Cloud.Edit(func(s *sim.State) {
		lb := s.LoadBalancers[id]
		delete(lb.Tags, ccm.NameTag)
		lb.Name = "renamed"
	})
	if got := sc.Run(t.Context(), "lb", "tag", web, "--policy", policy); got.Code != cli.CodeOpen || !strings.Contains(got.Out, "tag "+id) ||
		strings.Contains(got.Out, "lbremedy approve") || strings.Contains(got.Out, "\nCase ") { // there is no case before --apply
		t.Errorf("tag: code %d, %s %s", got.Code, got.Out, got.Err)
	}
	sc.In = "no\n"
	if got := sc.Run(t.Context(), "lb", "tag", web, "--policy", policy, "--apply"); got.Code != command.CodeWrong ||
		!strings.Contains(got.Err, "nothing was done") {
		t.Errorf("tag without a word: code %d, %s %s", got.Code, got.Out, got.Err)
	}
	sc.In = web + "\n"
	if got := sc.Run(t.Context(), "lb", "tag", web, "--policy", policy, "--apply"); got.Code != 0 || !strings.Contains(got.Out, "fixed") {
		t.Errorf("tag: code %d, %s %s", got.Code, got.Out, got.Err)
	}

	sc.Cloud.Edit(func(s *sim.State) { delete(s.LoadBalancers, id); s.ForgetTokens = true })
	if got := sc.Run(t.Context(), "lb", "recreate", web, "--policy", policy); got.Code != cli.CodeOpen || !strings.Contains(got.Out, "clear the status") {
		t.Errorf("recreate: code %d, %s %s", got.Code, got.Out, got.Err)
	}
	if got := sc.Run(t.Context(), "lb", "recreate", web, "--policy", policy, "--apply", "--wait", "30s"); got.Code != 0 || !strings.Contains(got.Out, "fixed") {
		t.Errorf("recreate: code %d, %s %s", got.Code, got.Out, got.Err)
	}
	svc, err := client.Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil || svc.Labels[ccm.BalancerLabel] == id || len(svc.Status.LoadBalancer.Ingress) == 0 {
		t.Errorf("the Service has %v at %v, %v", svc.Labels, svc.Status.LoadBalancer.Ingress, err)
	}
}
