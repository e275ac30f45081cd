package ccm_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
)

func TestFits(t *testing.T) {
	t.Parallel()
	master := corev1.Taint{Key: "node-role.kubernetes.io/master", Value: "x", Effect: corev1.TaintEffectNoSchedule}
	tainted := func(taints ...corev1.Taint) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Spec.Taints = taints }
	}
	tolerant := func(tol corev1.Toleration) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.Tolerations = []corev1.Toleration{{Key: "other"}, tol} }
	}
	affine := func(terms ...corev1.NodeSelectorTerm) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			required := &corev1.NodeSelector{NodeSelectorTerms: terms}
			p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: required}}
		}
	}
	term := func(key string, op corev1.NodeSelectorOperator, values ...string) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: op, Values: values}}}
	}
	field := func(key string) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{"node-1"}}}}
	}
	for _, tt := range []struct {
		name string
		pod  func(*corev1.Pod)
		node func(*corev1.Node)
		want bool
	}{
		{"anywhere", nil, nil, true},
		{"cordoned", nil, func(n *corev1.Node) { n.Spec.Unschedulable = true }, false},
		{"a selector", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "ssd"} }, nil, true},
		{"another value", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "hdd"} }, nil, false},
		{"no such label", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"gpu": ""} }, nil, false},
		{"a taint", nil, tainted(master), false},
		{"a taint that prefers", nil, tainted(corev1.Taint{Key: "a", Effect: corev1.TaintEffectPreferNoSchedule}), true},
		{"a taint that evicts", nil, tainted(corev1.Taint{Key: "a", Effect: corev1.TaintEffectNoExecute}), false},
		{"a taint that disappears soon", nil, tainted(corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}), true},
		{"a taint that stays", nil, func(n *corev1.Node) {
			n.Status.Conditions = nil
			n.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}}
		}, false},
		{"tolerated", tolerant(corev1.Toleration{Key: master.Key, Operator: corev1.TolerationOpExists}), tainted(master), true},
		{"tolerated by value", tolerant(corev1.Toleration{Key: master.Key, Value: "x"}), tainted(master), true},
		{"tolerated with another value", tolerant(corev1.Toleration{Key: master.Key, Value: "y", Operator: corev1.TolerationOpEqual}), tainted(master), false},
		{"tolerated with another effect", tolerant(corev1.Toleration{
			Key: master.Key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute,
		}), tainted(master), false},
		{"all is tolerated", tolerant(corev1.Toleration{Operator: corev1.TolerationOpExists}), tainted(master), true},
		// The API server refuses such a toleration; the scheduler takes an empty key for any key.
		{"no key and a value", tolerant(corev1.Toleration{Value: "x"}), tainted(master), true},
		{"a newer operator", tolerant(corev1.Toleration{Key: master.Key, Operator: "Gt", Value: "1"}), tainted(master), false},
		{"in", affine(term("disk", corev1.NodeSelectorOpIn, "hdd", "ssd")), nil, true},
		{"not in", affine(term("disk", corev1.NodeSelectorOpNotIn, "ssd")), nil, false},
		{"not in, and not there", affine(term("gpu", corev1.NodeSelectorOpNotIn, "a")), nil, true},
		{"exists", affine(term("gpu", corev1.NodeSelectorOpExists)), nil, false},
		{"does not exist", affine(term("gpu", corev1.NodeSelectorOpDoesNotExist)), nil, true},
		{"more than", affine(term("cores", corev1.NodeSelectorOpGt, "7")), nil, true},
		{"less than", affine(term("cores", corev1.NodeSelectorOpLt, "8")), nil, false},
		{"more than no number", affine(term("disk", corev1.NodeSelectorOpGt, "7")), nil, false},
		{"more than nothing", affine(term("cores", corev1.NodeSelectorOpGt)), nil, false},
		{"an unknown operator", affine(term("cores", "About", "8")), nil, false},
		{"one of two terms", affine(term("gpu", corev1.NodeSelectorOpExists), term("disk", corev1.NodeSelectorOpExists)), nil, true},
		{"an empty term", affine(corev1.NodeSelectorTerm{}), nil, false},
		{"by name", affine(field("metadata.name")), nil, true},
		{"by another field", affine(field("metadata.uid")), nil, false},
		{"affinity to nothing", func(p *corev1.Pod) { p.Spec.Affinity = &corev1.Affinity{} }, nil, true},
	} {
		pod := &corev1.Pod{}
		node := &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "node-1", Labels: map[string]string{"disk": "ssd", "cores": "8"}},
			Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
		}
		if tt.pod != nil {
			tt.pod(pod)
		}
		if tt.node != nil {
			tt.node(node)
		}
		if got := ccm.Fits(pod, node); got != tt.want {
			t.Errorf("%s: got %t", tt.name, got)
		}
	}
}
