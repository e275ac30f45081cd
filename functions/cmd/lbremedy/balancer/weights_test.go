package balancer_test

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/balancer"
	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/test/operator"
	"github.com/lbremedy/lbremedy/test/sim"
)

// What a node gets of the traffic is shown with what the release gives it.
func TestWeights(t *testing.T) {
	t.Parallel()
	sc := operator.NewTestbed(t)
	port, ready := int32(80), true
	_, err := sc.Kube.Client().DiscoveryV1().EndpointSlices(sc.Namespace).Create(t.Context(), &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: "web-1", Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: new(""), Port: &port}},
		Endpoints: []discoveryv1.Endpoint{
			{Addresses: []string{"10.0.0.1"}, NodeName: &sc.Namespace, Conditions: discoveryv1.EndpointConditions{Ready: &ready}},
			{Addresses: []string{"10.0.0.2"}, NodeName: &sc.Namespace, Conditions: discoveryv1.EndpointConditions{Ready: &ready}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	patch := `{"metadata":{"annotations":{"` + operator.Annotation + `vswitch-id":"vsw-b"}},"spec":{"externalTrafficPolicy":"Local"}}`
	if _, err := sc.Kube.Client().CoreV1().Services(sc.Namespace).Patch(t.Context(), "web", types.MergePatchType, []byte(patch),
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := operator.WatchService(t, sc, "web", func(svc *corev1.Service) bool {
		return len(svc.Status.LoadBalancer.Ingress) > 0 && svc.Labels[ccm.BalancerLabel] != ""
	}); err != nil {
		t.Fatal(err)
	}
	var list []balancer.Weight
	web := sc.Namespace + "/web"
	got := sc.Run(t.Context(), "lb", "weights", web, "-o", "json")
	if err := json.Unmarshal([]byte(got.Out), &list); err != nil || got.Code != 0 {
		t.Fatalf("code %d, %v: %s", got.Code, err, got.Err)
	}
	if len(list) != 1 || list[0].Node != sc.Namespace || list[0].Server != "i-cli" || list[0].Pods != 2 || list[0].Weight == nil ||
		*list[0].Weight != list[0].Wants || list[0].Share != 100 || list[0].PerPod != 50 {
		t.Errorf("got %s", got.Out)
	}
	sc.Wants(t, 0, "50 %", "CCM v", "lb", "weights", web)

	id := ""
	sc.Cloud.Edit(func(s *sim.State) {
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
	got = sc.Run(t.Context(), "lb", "weights", web)
	if got.Code != 0 || !strings.Contains(got.Out, "none") {
		t.Errorf("without its backend: code %d, %s %s", got.Code, got.Out, got.Err)
	}
}
