package noavailablenodes

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/step"
)

// evict turns a plan that asks into one that moves a Pod off its master, if only the master keeps the
// Service down and the Pod surely gets to a node that serves: its owner recreates it, and no excluded
// node would take it.
func (s *state) evict(ready []ccm.Endpoint, plan remedy.Plan) remedy.Plan {
	var hurdles []say.Text
	for _, e := range ready {
		i := slices.IndexFunc(s.pods, func(p corev1.Pod) bool { return p.Name == e.Pod && p.Spec.NodeName == e.Node })
		n := s.node(e.Node)
		if i < 0 || n == nil {
			continue
		}
		if why, _ := ccm.ExclusionOf(n, s.c.Service); why != ccm.Master {
			continue
		}
		pod, by := &s.pods[i], owner(&s.pods[i])
		to, hurdle := s.way(pod)
		if len(hurdle) > 0 {
			hurdles = append(hurdles, hurdle)
			continue
		}
		if moving := s.moving(by); len(moving) > 0 {
			return s.wait(say.F("%s %s has Pods that are starting or terminating, and only one Pod is moved at a time: %s.", by.Kind, by.Name, say.Clauses(moving, 5)),
				say.F("Check where these Pods run and why they are not ready."))
		}
		key := "evict." + s.c.Cluster + "." + pod.Namespace + "." + by.Name
		if s.c.Full(key) {
			return s.wait(say.F("A Pod of %s was evicted less than 10 minutes ago, and only one Pod is moved at a time.", by.Name),
				say.F("Check where the new Pod runs and whether it is ready."))
		}
		plan.Ask = nil
		plan.Finding = plan.Finding.And("%s %s recreates the Pod %s if it is evicted. No master takes it then, but these nodes do: %s.",
			by.Kind, by.Name, pod.Name, say.List(to, 3))
		plan.Note = say.F("The Pod stops, and so does what it is doing. Disruption budgets are respected.").
			And("It is not checked whether the volumes of the Pod can move with it.")
		plan.Steps = []remedy.Step{step.Evict{Namespace: pod.Namespace, Pod: pod.Name, UID: pod.UID, Node: e.Node}}
		plan.Claims = []remedy.Claim{{Key: key, Of: 1}}
		return plan
	}
	if len(hurdles) > 0 {
		plan.Finding = plan.Finding.And("Evicting the Pods would not help: %s.", say.Clauses(hurdles, 5))
	}
	return plan
}

// moving says which Pods of the owner are not ready or terminating: one that was evicted a moment
// ago, or its successor.
func (s *state) moving(by controller) []say.Text {
	var out []say.Text
	for i := range s.pods {
		p := &s.pods[i]
		if owner(p) == by && (p.DeletionTimestamp != nil || !met(p, corev1.PodReady)) {
			reason, _ := why(p)
			out = append(out, reason)
		}
	}
	return out
}

// way returns the nodes that serve and would take the Pod, or, as a clause, why it cannot be moved.
func (s *state) way(pod *corev1.Pod) (to []string, hurdle say.Text) {
	by := owner(pod)
	switch {
	case pod.DeletionTimestamp != nil:
		return nil, say.F("%s is already terminating", pod.Name)
	case by.Kind != "ReplicaSet" && by.Kind != "StatefulSet":
		return nil, say.F("%s has no ReplicaSet or StatefulSet that would recreate it%s", pod.Name, brackets(by.Kind, by.Name))
	case dependent(pod):
		return nil, say.F("%s has rules about other Pods, whose outcome cannot be predicted", pod.Name)
	}
	for i := range s.nodes {
		n := &s.nodes[i]
		if !fits(pod, n) {
			continue
		}
		why, text := ccm.ExclusionOf(n, s.c.Service)
		if why != ccm.Serves && why != ccm.Virtual {
			return nil, say.F("%s could be scheduled on %s, which %s", pod.Name, n.Name, text)
		}
		to = append(to, n.Name)
	}
	if len(to) == 0 {
		return nil, say.F("%s fits no node that serves, according to its node selector, its affinity and the taints of the nodes", pod.Name)
	}
	return to, nil
}

// A controller is what recreates a Pod.
type controller struct{ Kind, Name string }

// owner returns the controller of the Pod; empty if it has none.
func owner(pod *corev1.Pod) controller {
	for _, o := range pod.OwnerReferences {
		if o.Controller != nil && *o.Controller {
			return controller{o.Kind, o.Name}
		}
	}
	return controller{}
}

// dependent reports whether the nodes for the Pod depend on where other Pods run.
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
