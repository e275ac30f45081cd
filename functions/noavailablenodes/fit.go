package noavailablenodes

import (
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

// fits reports whether the scheduler could put the Pod on the node, judging only by the Pod's node
// selector and node affinity and by the node's taints.
func fits(pod *corev1.Pod, n *corev1.Node) bool {
	if n.Spec.Unschedulable {
		return false
	}
	for k, v := range pod.Spec.NodeSelector {
		if have, ok := n.Labels[k]; !ok || have != v {
			return false
		}
	}
	for _, t := range n.Spec.Taints {
		// These two follow the condition Ready: if it is true, they disappear soon.
		late := (t.Key == corev1.TaintNodeNotReady || t.Key == corev1.TaintNodeUnreachable) && ready(n)
		if t.Effect == corev1.TaintEffectPreferNoSchedule || late {
			continue
		}
		if !slices.ContainsFunc(pod.Spec.Tolerations, func(tol corev1.Toleration) bool { return tolerates(tol, t) }) {
			return false
		}
	}
	a := pod.Spec.Affinity
	if a == nil || a.NodeAffinity == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return true
	}
	return slices.ContainsFunc(a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms, func(t corev1.NodeSelectorTerm) bool {
		return matches(t, n)
	})
}

func ready(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

func tolerates(tol corev1.Toleration, t corev1.Taint) bool {
	if tol.Effect != "" && tol.Effect != t.Effect || tol.Key != "" && tol.Key != t.Key {
		return false
	}
	switch tol.Operator {
	case corev1.TolerationOpExists:
		return true
	case corev1.TolerationOpEqual, "":
		return tol.Key != "" && tol.Value == t.Value
	}
	return false
}

// matches reports whether a node has everything that a term asks for. An empty term matches no node.
func matches(t corev1.NodeSelectorTerm, n *corev1.Node) bool {
	if len(t.MatchExpressions)+len(t.MatchFields) == 0 {
		return false
	}
	for _, r := range t.MatchExpressions {
		value, ok := n.Labels[r.Key]
		if !meets(r, value, ok) {
			return false
		}
	}
	for _, r := range t.MatchFields {
		if r.Key != "metadata.name" || !meets(r, n.Name, true) {
			return false
		}
	}
	return true
}

func meets(r corev1.NodeSelectorRequirement, value string, there bool) bool {
	switch r.Operator {
	case corev1.NodeSelectorOpIn:
		return there && slices.Contains(r.Values, value)
	case corev1.NodeSelectorOpNotIn:
		return !there || !slices.Contains(r.Values, value)
	case corev1.NodeSelectorOpExists:
		return there
	case corev1.NodeSelectorOpDoesNotExist:
		return !there
	case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
		if !there || len(r.Values) != 1 {
			return false
		}
		have, err := strconv.ParseInt(value, 10, 64)
		limit, bad := strconv.ParseInt(r.Values[0], 10, 64)
		if err != nil || bad != nil {
			return false
		}
		return r.Operator == corev1.NodeSelectorOpGt && have > limit || r.Operator == corev1.NodeSelectorOpLt && have < limit
	}
	return false
}
