package noavailablenodes

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/step"
)

// settled is how long a Service must lack backends to have failed: every rollout reports it briefly.
const settled = 2 * time.Minute

// ask plans a question for a failure that has lasted longer than a rollout.
func (s *state) ask(finding, ask say.Text) remedy.Plan {
	return remedy.Plan{Finding: s.opening.Then(finding), Ask: ask, Wait: s.c.Settling(settled)}
}

func (s *state) wait(finding, ask say.Text) remedy.Plan {
	return remedy.Plan{Finding: s.opening.Then(finding), Ask: ask, Wait: s.c.PollInterval()}
}

func (s *state) plan(ready []ccm.Endpoint) remedy.Plan {
	switch {
	case s.Mode == ccm.ClusterMode:
		return s.allNodes(ready)
	case len(ready) == 0:
		finding, ask, lasts := s.WhyNoEndpoint(s.empty, s.pods)
		if nodes := s.Unreached(s.pods); lasts && len(nodes) > 0 {
			return s.unreached(finding, nodes)
		}
		if !lasts {
			return s.wait(finding, ask)
		}
		return s.ask(finding, ask)
	case s.Mode == ccm.PodMode:
		return s.byInterface(ready)
	}
	return s.byNode(ready)
}

// How long, and at which interval, a Service waits for a cause about which a node's case asks: one cause is one ticket.
const (
	elsewhere = 24 * time.Hour
	between   = 10 * time.Minute
)

func (s *state) unreached(finding say.Text, nodes []string) remedy.Plan {
	plan := s.wait(finding.And("The controller has not created a route to these nodes, so no Pods are scheduled on them: %s.", say.List(nodes, 5)).
		And("The open cases of these nodes and of the cluster say why."),
		say.F("Find out why these nodes have no route: %s. The controller's log says it, too: %s.", "lbremedy ls --open", s.c.LogQuery()))
	plan.Wait, plan.Patience = between, elsewhere
	return plan
}

func (s *state) allNodes(ready []ccm.Endpoint) remedy.Plan {
	should := say.F("All nodes should be backends.")
	if len(s.Nodes) == 0 {
		return s.ask(should.And("But the cluster has no nodes."), say.F("Add nodes to the cluster."))
	}
	x := ccm.ExclusionsOf(s.Nodes, s.Service)
	serve := x.Of[ccm.Serves]
	for _, e := range ready { // Pods on virtual nodes serve without their node
		if slices.Contains(x.Of[ccm.Virtual], e.Node) {
			serve = append(serve, fmt.Sprintf("%s (%s)", e.Name(), e.Node))
		}
	}
	if len(serve) == 0 && len(x.Of[ccm.Unlabel]) == len(s.Nodes) {
		plan := s.ask(should.And("But they need all labels of the annotation backend-label, and no node has all of them.").
			Then(ccm.LabelsOf(s.Nodes, s.Service)), x.Advice())
		plan.Wait = 0 // waiting changes no annotation
		return plan
	}
	plan := s.excluded(should, serve, x, nil, nil)
	if len(ready) == 0 {
		return plan // these nodes have nothing that would answer
	}
	return s.cordoned(s.Nodes, x, plan)
}

func (s *state) byNode(ready []ccm.Endpoint) remedy.Plan {
	on, lost := s.NodesOf(ready)
	should := say.F("With externalTrafficPolicy Local, the nodes of the ready Pods should be backends.")
	if len(on) == 0 {
		return s.ask(should.And("But the nodes of these Pods do not exist: %s.", say.List(lost, 5)),
			say.F("Restore the nodes, or recreate the Pods on other nodes. Endpoints that a person wrote need the nodeName of an existing node."))
	}
	x := ccm.ExclusionsOf(on, s.Service)
	var labels, elsewhere say.Text
	if len(x.Of[ccm.Unlabel]) == len(on) {
		labels = ccm.LabelsOf(s.Nodes, s.Service)
	}
	if all := ccm.ExclusionsOf(s.Nodes, s.Service).Of[ccm.Serves]; len(all) > 0 {
		elsewhere = say.F("Or let all nodes serve: %s.", ccm.TrafficPolicyCommand(s.Service, corev1.ServiceExternalTrafficPolicyCluster)).
			And("They forward traffic to the Pods wherever these run, but hide the clients' addresses from them. The backends are then: %s.", say.List(all, 5))
	}
	plan := s.excluded(should, slices.Concat(x.Of[ccm.Serves], x.Of[ccm.Virtual]), x, labels, elsewhere)
	switch plan = s.cordoned(on, x, plan); {
	case plan.Wait > 0, len(plan.Steps) > 0, len(x.Of[ccm.Master]) == 0:
		return plan
	}
	return s.evict(ready, plan)
}

// cordoned keeps cordoned nodes as backends, if only the annotation that excludes them prevents one of them from serving.
func (s *state) cordoned(nodes []corev1.Node, x ccm.Exclusions, plan remedy.Plan) remedy.Plan {
	serve := ccm.WithCordoned(nodes, s.Service)
	if plan.Wait > 0 || len(x.Of[ccm.Cordoned]) == 0 || len(serve) == 0 {
		return plan
	}
	plan.Ask = nil
	plan.Finding = plan.Finding.And("If cordoned nodes stay backends, these serve: %s.", say.List(serve, 5))
	plan.Note = say.F("From then on, every cordoned node stays a backend of the Service until it goes.").
		And("To exclude cordoned nodes again, once others serve, run: %s.", ccm.SetCommand(s.Service, ccm.RemoveUnscheduled, "on"))
	plan.Risk = remedy.Medium
	plan.Steps = []remedy.Step{step.Without(s.Service, ccm.RemoveUnscheduled)}
	return plan
}

// excluded plans for nodes that should be backends: some serve, or the controller excludes all. elsewhere is an alternative if that does not pass.
func (s *state) excluded(should say.Text, serve []string, x ccm.Exclusions, labels, elsewhere say.Text) remedy.Plan {
	if len(serve) > 0 {
		return s.wait(should.And("Nothing excludes the following, but the controller has not added them yet: %s.", say.List(serve, 5)),
			say.F("Check the controller's log for why it does not add these nodes to the load balancer: %s.", s.c.LogQuery()))
	}
	finding := should.And("But the controller excludes each of them: %s.", say.Clauses(x.Reasons, 5)).Then(labels)
	if x.Pass() {
		return s.wait(finding, x.Advice())
	}
	return s.ask(finding, x.Advice().Then(elsewhere))
}

// evict moves a Pod off its master, if only the master keeps the Service down and the Pod will certainly be scheduled to a serving node.
func (s *state) evict(ready []ccm.Endpoint, plan remedy.Plan) remedy.Plan {
	var hurdles []say.Text
	for _, e := range ready {
		i := slices.IndexFunc(s.pods, func(p corev1.Pod) bool { return p.Name == e.Pod && p.Spec.NodeName == e.Node })
		n := s.Node(e.Node)
		if i < 0 || n == nil {
			continue
		}
		if why, _ := ccm.ExclusionOf(n, s.Service); why != ccm.Master {
			continue
		}
		pod, by := &s.pods[i], ccm.PodOwnerOf(&s.pods[i])
		to, hurdle := s.Destinations(pod)
		if len(hurdle) > 0 {
			hurdles = append(hurdles, hurdle)
			continue
		}
		if moving := by.Moving(s.pods); len(moving) > 0 {
			return s.wait(say.F("%s %s has Pods that are starting or terminating, and only one Pod is moved at a time: %s.", by.Kind, by.Name, say.Clauses(moving, 5)),
				say.F("Check where these Pods run and why they are not ready."))
		}
		key := "evict." + s.c.Cluster + "." + pod.Namespace + "." + by.Name
		if s.c.Full(key) {
			return s.wait(say.F("A Pod of %s was evicted less than 10 minutes ago, and only one Pod is moved at a time.", by.Name),
				say.F("Check where the new Pod runs and whether it is ready."))
		}
		plan.Ask = nil
		plan.Finding = plan.Finding.And("%s %s recreates the Pod %s if it is evicted. No master takes it then.", by.Kind, by.Name, pod.Name).
			And("These nodes fit its node selector, affinity and tolerations: %s. Whether they have room for it is not checked.", say.List(to, 3))
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

func (s *state) byInterface(ready []ccm.Endpoint) remedy.Plan {
	should := say.F("The ready Pods should be backends.")
	var outside []string
	inside := slices.DeleteFunc(slices.Clone(ready), func(e ccm.Endpoint) bool {
		serves := ccm.PodServes(s.Node(e.Node), s.Service)
		if !serves {
			outside = append(outside, fmt.Sprintf("%s (%s)", e.Name(), e.Node))
		}
		return !serves
	})
	if len(outside) > 0 {
		should = should.And("But Pods on hybrid nodes are outside of the VPC and cannot be backends: %s.", say.List(outside, 5))
	}
	if len(inside) == 0 {
		return s.ask(should, say.F("Run Pods of the Service on ECS nodes."))
	}
	have, lack := ccm.DescribeInterfaces(inside, s.interfaces)
	if len(have) > 0 {
		return s.wait(should.And("These have a network interface in use, but the controller has not added them yet: %s.", say.List(have, 5)),
			say.F("Check the controller's log for why it does not add these Pods to the load balancer: %s.", s.c.LogQuery()))
	}
	finding := should.And("But none of them has a network interface in use: %s.", say.Clauses(lack, 5))
	if len(outside) > 0 {
		finding = should.And("The others have no network interface in use: %s.", say.Clauses(lack, 5))
	}
	return s.wait(finding,
		say.F("Find out why the Pods have no network interface of the VPC. With Terway, check the log of its Pod on their node.").
			And("With Flannel, Pods never have one, and the annotation %s must be ecs.", ccm.BackendType))
}
