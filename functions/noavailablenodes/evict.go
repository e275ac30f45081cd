package noavailablenodes

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/step"
)

// evict turns a plan that asks into one that moves a Pod off its master, if nothing
// else keeps the Service down and the Pod is sure to end up on a node that serves: its
// owner recreates it, and no excluded node would take it.
func (s *state) evict(ready []ccm.Endpoint, plan remedy.Plan) remedy.Plan {
	var hurdles []string
	for _, e := range ready {
		i := slices.IndexFunc(s.pods, func(p corev1.Pod) bool { return p.Name == e.Pod && p.Spec.NodeName == e.Node })
		if i < 0 {
			continue
		}
		pod := &s.pods[i]
		if why, _ := ccm.ExclusionOf(s.node(e.Node), s.c.Service); why != ccm.Master {
			continue
		}
		to, hurdle := s.way(pod)
		if hurdle != "" {
			hurdles = append(hurdles, pod.Name+" "+hurdle)
			continue
		}
		if on := s.onTheirWay(pod); len(on) > 0 {
			return s.wait(fmt.Sprintf("%s %s has Pods that are on their way, and one is moved at a time: %s.", owner(pod).Kind, owner(pod).Name, ccm.Clauses(on, 5)),
				"Look where these Pods run, and why they are not ready.")
		}
		key := "evict." + s.c.Cluster + "." + pod.Namespace + "." + owner(pod).Name
		if s.c.Full(key) {
			return s.wait(fmt.Sprintf("A Pod of %s was evicted less than 10 minutes ago: one after the other.", owner(pod).Name), "Look where the new Pod runs, and whether it is ready.")
		}
		plan.Ask = nil
		plan.Finding = plan.Finding.And("%s %s makes the Pod %s anew, and %s takes it then: no master does.", owner(pod).Kind, owner(pod).Name, pod.Name, remedy.List(to, 3))
		plan.Note = say.F("The Pod ends, and what it does with it. Disruption budgets are heeded. Whether its volumes can follow is not looked at.")
		plan.Steps = []remedy.Step{step.Evict{Namespace: pod.Namespace, Pod: pod.Name, UID: pod.UID, Node: e.Node}}
		plan.Claims = []remedy.Claim{{Key: key, Of: 1}}
		return plan
	}
	if len(hurdles) > 0 {
		plan.Finding = plan.Finding.And("To evict the Pods would not help: %s.", ccm.Clauses(hurdles, 5))
	}
	return plan
}

// onTheirWay names the Pods of the same owner that are not ready or about to end: a
// Pod that was just evicted, or its replacement.
func (s *state) onTheirWay(pod *corev1.Pod) []string {
	var out []string
	for i := range s.pods {
		p := &s.pods[i]
		if owner(p) != owner(pod) || p.DeletionTimestamp == nil && met(p, corev1.PodReady) {
			continue
		}
		text, _ := why(p)
		out = append(out, p.Name+" "+text)
	}
	return out
}

func (s *state) node(name string) *corev1.Node {
	i := slices.IndexFunc(s.nodes, func(n corev1.Node) bool { return n.Name == name })
	if i < 0 {
		return &corev1.Node{}
	}
	return &s.nodes[i]
}

// way returns the nodes that serve and would take the Pod; or what prevents the move,
// as text that follows the Pod's name.
func (s *state) way(pod *corev1.Pod) (to []string, hurdle string) {
	by := owner(pod)
	switch {
	case pod.DeletionTimestamp != nil:
		return nil, "is about to end already"
	case by.Kind != "ReplicaSet" && by.Kind != "StatefulSet":
		return nil, fmt.Sprintf("has no ReplicaSet or StatefulSet that would make it anew%s", reason(by.Kind, by.Name))
	case judgeless(pod):
		return nil, "has rules about other Pods, whose outcome can't be foretold"
	}
	for i := range s.nodes {
		n := &s.nodes[i]
		if !fits(pod, n) {
			continue
		}
		why, text := ccm.ExclusionOf(n, s.c.Service)
		if why != ccm.Serves && why != ccm.Virtual {
			return nil, fmt.Sprintf("could come to %s, which %s", n.Name, text)
		}
		to = append(to, n.Name)
	}
	if len(to) == 0 {
		return nil, "fits no node that serves, by its node selector, its affinity and the taints of the nodes"
	}
	return to, ""
}

// owner returns the controller that recreates the Pod.
func owner(pod *corev1.Pod) struct{ Kind, Name string } {
	for _, o := range pod.OwnerReferences {
		if o.Controller != nil && *o.Controller {
			return struct{ Kind, Name string }{o.Kind, o.Name}
		}
	}
	return struct{ Kind, Name string }{}
}

// judgeless reports whether other Pods decide where the Pod may run.
func judgeless(pod *corev1.Pod) bool {
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
