package main

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/stream/embedded"
	"github.com/lbremedy/lbremedy/test/nats"
	"github.com/lbremedy/lbremedy/test/sim"
)

// The inventory, and the way back for a load balancer that lost its tag or is gone.
func TestBalancers(t *testing.T) {
	t.Parallel()
	sc := newScene(t)
	client := sc.kube.Client().CoreV1().Services(sc.namespace)
	web := sc.namespace + "/web"
	if _, err := client.Patch(t.Context(), "web", types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+annotation+`vswitch-id":"vsw-b"}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	until := func(is func(*corev1.Service) bool) {
		t.Helper()
		if err := watchService(t, sc, "web", is); err != nil {
			t.Fatal(err)
		}
	}
	until(func(svc *corev1.Service) bool {
		return len(svc.Status.LoadBalancer.Ingress) > 0 && svc.Labels[ccm.BalancerLabel] != ""
	})

	var list []balancing
	got := sc.run(t.Context(), "lb", "ls", "--namespace", sc.namespace, "-o", "json")
	if err := json.Unmarshal([]byte(got.out), &list); err != nil || got.code != 0 {
		t.Fatalf("code %d, %v: %s", got.code, err, got.err)
	}
	if len(list) != 1 || list[0].Made != "own" || list[0].AddressType != "intranet" || list[0].Address == "" || list[0].Backends == nil || *list[0].Limit != 200 || len(list[0].Listeners) != 1 {
		t.Fatalf("got %s", got.out)
	}
	id := list[0].ID
	if got := sc.run(t.Context(), "lb", "show", web); got.code != 0 || !strings.Contains(got.out, id) || !strings.Contains(got.out, ccm.NameTag) {
		t.Errorf("show: code %d, %s %s", got.code, got.out, got.err)
	}
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"lb", "show", "web"}, "is no Service"},
		{[]string{"lb", "show", sc.namespace + "/inner"}, "is not of type LoadBalancer"},
		{[]string{"lb", "weights", web}, "only with the policy Local"},
		{[]string{"lb", "tag", web}, "there is no load balancer of its own without its tag"},
		{[]string{"lb", "recreate", web}, "no load balancer of its own is shown to be gone"},
		{[]string{"ram", "gap"}, "managed cluster"},
		{[]string{"ram", "gap", "--target", "2.12"}, "is no release of the controller"},
	} {
		if got := sc.run(t.Context(), tt.args...); got.code != command.CodeWrong || !strings.Contains(got.err, tt.want) {
			t.Errorf("%v: code %d, said %s", tt.args, got.code, got.err)
		}
	}

	server := nats.Start(t, embedded.Options{Token: "sesame"})
	sc.env["LBREMEDY_NATS"], sc.env["LBREMEDY_NATS_TOKEN"] = server.URL(), "sesame"
	if got := sc.run(t.Context(), "setup"); got.code != 0 {
		t.Fatal(got.err)
	}
	policy := write(t, "policy.yaml", "mode: fix\n") // what is of high risk it leaves to a person

	sc.cloud.Edit(func(s *sim.State) {
		lb := s.LoadBalancers[id]
		delete(lb.Tags, ccm.NameTag)
		lb.Name = "renamed"
	})
	if got := sc.run(t.Context(), "lb", "tag", web, "--policy", policy); got.code != codeOpen || !strings.Contains(got.out, "tag "+id) {
		t.Errorf("tag: code %d, %s %s", got.code, got.out, got.err)
	}
	sc.in = "no\n"
	if got := sc.run(t.Context(), "lb", "tag", web, "--policy", policy, "--apply"); got.code != command.CodeWrong || !strings.Contains(got.err, "nothing was done") {
		t.Errorf("tag without a word: code %d, %s %s", got.code, got.out, got.err)
	}
	sc.in = web + "\n"
	if got := sc.run(t.Context(), "lb", "tag", web, "--policy", policy, "--apply"); got.code != 0 || !strings.Contains(got.out, "fixed") {
		t.Errorf("tag: code %d, %s %s", got.code, got.out, got.err)
	}

	sc.cloud.Edit(func(s *sim.State) { delete(s.LoadBalancers, id); s.ForgetTokens = true })
	if got := sc.run(t.Context(), "lb", "recreate", web, "--policy", policy); got.code != codeOpen || !strings.Contains(got.out, "clear the status") {
		t.Errorf("recreate: code %d, %s %s", got.code, got.out, got.err)
	}
	if got := sc.run(t.Context(), "lb", "recreate", web, "--policy", policy, "--apply", "--wait", "30s"); got.code != 0 || !strings.Contains(got.out, "fixed") {
		t.Errorf("recreate: code %d, %s %s", got.code, got.out, got.err)
	}
	svc, err := client.Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil || svc.Labels[ccm.BalancerLabel] == id || len(svc.Status.LoadBalancer.Ingress) == 0 {
		t.Errorf("the Service has %v at %v, %v", svc.Labels, svc.Status.LoadBalancer.Ingress, err)
	}
}

// What a node gets of the traffic is shown with what the release gives it.
func TestWeights(t *testing.T) {
	t.Parallel()
	sc := newScene(t)
	port, ready := int32(80), true
	_, err := sc.kube.Client().DiscoveryV1().EndpointSlices(sc.namespace).Create(t.Context(), &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: "web-1", Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: new(""), Port: &port}},
		Endpoints: []discoveryv1.Endpoint{
			{Addresses: []string{"10.0.0.1"}, NodeName: &sc.namespace, Conditions: discoveryv1.EndpointConditions{Ready: &ready}},
			{Addresses: []string{"10.0.0.2"}, NodeName: &sc.namespace, Conditions: discoveryv1.EndpointConditions{Ready: &ready}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	patch := `{"metadata":{"annotations":{"` + annotation + `vswitch-id":"vsw-b"}},"spec":{"externalTrafficPolicy":"Local"}}`
	if _, err := sc.kube.Client().CoreV1().Services(sc.namespace).Patch(t.Context(), "web", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := watchService(t, sc, "web", func(svc *corev1.Service) bool {
		return len(svc.Status.LoadBalancer.Ingress) > 0 && svc.Labels[ccm.BalancerLabel] != ""
	}); err != nil {
		t.Fatal(err)
	}
	var list []weight
	web := sc.namespace + "/web"
	got := sc.run(t.Context(), "lb", "weights", web, "-o", "json")
	if err := json.Unmarshal([]byte(got.out), &list); err != nil || got.code != 0 {
		t.Fatalf("code %d, %v: %s", got.code, err, got.err)
	}
	if len(list) != 1 || list[0].Node != sc.namespace || list[0].Server != "i-cli" || list[0].Pods != 2 || list[0].Weight == nil || *list[0].Weight != list[0].Wants || list[0].Share != 100 || list[0].PerPod != 50 {
		t.Errorf("got %s", got.out)
	}
	sc.wants(t, 0, "50 %", "CCM v", "lb", "weights", web)

	id := ""
	sc.cloud.Edit(func(s *sim.State) {
		for _, lb := range s.LoadBalancers {
			id = lb.ID
			for i := range lb.VGroups {
				lb.VGroups[i].Backends = nil
			}
		}
	})
	if id == "" {
		t.Fatal("there is no load balancer")
	}
	got = sc.run(t.Context(), "lb", "weights", web)
	if got.code != 0 || !strings.Contains(got.out, "none") {
		t.Errorf("without its backend: code %d, %s %s", got.code, got.out, got.err)
	}
}
