package advice_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/step"
	"github.com/lbremedy/lbremedy/test/advice"
)

// TestUnread checks that only annotations set on this Service count, for its kind of load balancer.
func TestUnread(t *testing.T) {
	clb := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Annotations: map[string]string{ccm.Prefix + "spec": "a"}}}
	nlb, other := clb.DeepCopy(), clb.DeepCopy()
	nlb.Spec.LoadBalancerClass = new(ccm.NLBClass)
	other.Name = "other"
	for _, tt := range []struct {
		name string
		svc  *corev1.Service
		step remedy.Step
		text string
		want []string
	}{
		{name: "of a CLB", svc: clb, step: step.With(clb, "delete-protection", "on"), text: "Run " + ccm.SetCommand(clb, "spec", "b") + "."},
		{name: "of a CLB on an NLB", svc: nlb, step: step.With(nlb, "delete-protection", "on"), text: "Run " + ccm.SetCommand(nlb, "spec", "b") + ".",
			want: []string{ccm.Prefix + "delete-protection", ccm.Prefix + "spec"}},
		{name: "of an NLB on a CLB", svc: clb, text: ccm.SetCommand(clb, "zone-maps", "VALUE"), want: []string{ccm.Prefix + "zone-maps"}},
		{name: "in quotes", svc: nlb, text: ccm.SetCommand(nlb, "domain-extensions", "a b"), want: []string{ccm.Prefix + "domain-extensions"}},
		{name: "on another Service", svc: nlb, text: ccm.SetCommand(other, "spec", "b")},
		{name: "removed", svc: nlb, step: step.Without(nlb, "spec"), text: ccm.RemoveCommand(nlb, "spec")},
		{name: "nobody's", svc: nlb, step: step.Annotate{Set: map[string]string{"example.com/a": "1"}},
			text: "kubectl -n shop annotate service web a/b=1 --overwrite"},
		{name: "no step of the Service", svc: nlb, step: step.Protect{LB: "nlb-1"}},
	} {
		var steps []remedy.Step
		if tt.step != nil {
			steps = append(steps, tt.step)
		}
		if got, err := advice.Unread(tt.svc, steps, tt.text); err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %v, %v; want %v", tt.name, got, err, tt.want)
		}
	}
}
