package ccm_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
)

// A label that keeps a node out of load balancers does not spare it a route.
func TestNeedsRoute(t *testing.T) {
	t.Parallel()
	label := func(name, value string) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Labels = map[string]string{name: value} }
	}
	for _, tt := range []struct {
		name string
		edit func(*corev1.Node)
		want bool
	}{
		{"a node", func(*corev1.Node) {}, true},
		{"out of load balancers", label(corev1.LabelNodeExcludeBalancers, ""), true},
		{"out of load balancers, the old label", label("alpha.service-controller.kubernetes.io/exclude-balancer", ""), true},
		{"virtual", label("type", "virtual-kubelet"), true},
		{"out of the controller", label("service.alibabacloud.com/exclude-node", ""), false},
		{"out of the controller, the old label", label("service.beta.kubernetes.io/exclude-node", ""), false},
		{"hybrid", func(n *corev1.Node) { n.Spec.ProviderID = "ack-hybrid://cn-hangzhou.i-1" }, false},
		{"without an instance", func(n *corev1.Node) { n.Spec.ProviderID = "" }, false},
		{"without addresses for Pods", func(n *corev1.Node) { n.Spec.PodCIDR = "" }, false},
		{"being deleted", func(n *corev1.Node) { n.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }, false},
		{"silent", func(n *corev1.Node) {
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}
		}, false},
	} {
		n := &corev1.Node{Spec: corev1.NodeSpec{ProviderID: "cn-hangzhou.i-1", PodCIDR: "172.20.1.0/24"}}
		tt.edit(n)
		if got := ccm.NeedsRoute(n); got != tt.want {
			t.Errorf("%s: got %t", tt.name, got)
		}
	}
}
