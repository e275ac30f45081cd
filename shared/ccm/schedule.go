package ccm

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	scheduling "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"github.com/lbremedy/lbremedy/shared/say"
)

// A PodOwner is the controller that recreates a Pod.
type PodOwner struct{ Kind, Name string }

// PodOwnerOf returns the controller of the Pod, or an empty one.
func PodOwnerOf(pod *corev1.Pod) PodOwner {
	for _, o := range pod.OwnerReferences {
		if o.Controller != nil && *o.Controller {
			return PodOwner{o.Kind, o.Name}
		}
	}
	return PodOwner{}
}

// Moving says, one clause each, which Pods of the controller are terminating or not ready: a Pod that was just evicted, or its successor.
func (by PodOwner) Moving(pods []corev1.Pod) []say.Text {
	var out []say.Text
	for i := range pods {
		p := &pods[i]
		if PodOwnerOf(p) == by && (p.DeletionTimestamp != nil || !met(p, corev1.PodReady)) {
			reason, _ := unready(p)
			out = append(out, reason)
		}
	}
	return out
}

// Destinations returns the serving nodes that would take the Pod if it is evicted, or, as a clause, why it may not get to one: its
// controller must recreate it, and it must not fit a node that is excluded from load balancers.
func (s *Candidates) Destinations(pod *corev1.Pod) (nodes []string, hurdle say.Text) {
	by := PodOwnerOf(pod)
	switch {
	case pod.DeletionTimestamp != nil:
		return nil, say.F("%s is already terminating", pod.Name)
	case by.Kind != "ReplicaSet" && by.Kind != "StatefulSet":
		return nil, say.F("%s has no ReplicaSet or StatefulSet that would recreate it%s", pod.Name, brackets(by.Kind, by.Name))
	case dependent(pod):
		return nil, say.F("%s has rules about other Pods, whose outcome cannot be predicted", pod.Name)
	}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if !Fits(pod, n) {
			continue
		}
		why, text := ExclusionOf(n, s.Service)
		if why != Serves && why != Virtual {
			return nil, say.F("%s could be scheduled on %s, which %s", pod.Name, n.Name, text)
		}
		nodes = append(nodes, n.Name)
	}
	if len(nodes) == 0 {
		return nil, say.F("%s fits no node that serves, according to its node selector, its affinity and the taints of the nodes", pod.Name)
	}
	return nodes, nil
}

// Fits reports whether the scheduler could put the Pod on the node, by node selector, node affinity and taints only.
func Fits(pod *corev1.Pod, n *corev1.Node) bool {
	if n.Spec.Unschedulable {
		return false
	}
	// An error means that no term of the affinity matches.
	if ok, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(n); err != nil || !ok {
		return false
	}
	blocks := func(t *corev1.Taint) bool {
		// These two follow the condition Ready: if it is true, they disappear soon.
		late := (t.Key == corev1.TaintNodeNotReady || t.Key == corev1.TaintNodeUnreachable) && NodeReady(n)
		return t.Effect != corev1.TaintEffectPreferNoSchedule && !late
	}
	_, blocked := scheduling.FindMatchingUntoleratedTaint(klog.Logger{}, n.Spec.Taints, pod.Spec.Tolerations, blocks, false)
	return !blocked
}

// NodeReady reports whether a Node's kubelet reports that it is ready.
func NodeReady(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

func dependent(pod *corev1.Pod) bool {
	if a := pod.Spec.Affinity; a != nil {
		if a.PodAffinity != nil && len(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0 ||
			a.PodAntiAffinity != nil && len(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0 {
			return true
		}
	}
	return slices.ContainsFunc(pod.Spec.TopologySpreadConstraints, func(t corev1.TopologySpreadConstraint) bool {
		return t.WhenUnsatisfiable == corev1.DoNotSchedule
	})
}
