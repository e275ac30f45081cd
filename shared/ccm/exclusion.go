package ccm

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/say"
)

// Exclusions are nodes by the reason for which the controller excludes them.
type Exclusions struct {
	Of      map[Exclusion][]string // names
	Reasons []say.Text             // one clause for each excluded node
	svc     *corev1.Service
	label   map[string]string // the excluding label, by the node's name
}

// ExclusionsOf returns the Exclusions of these nodes.
func ExclusionsOf(nodes []corev1.Node, svc *corev1.Service) Exclusions {
	x := Exclusions{Of: map[Exclusion][]string{}, svc: svc, label: map[string]string{}}
	for i := range nodes {
		n := &nodes[i]
		why, text := ExclusionOf(n, svc)
		x.Of[why] = append(x.Of[why], n.Name)
		if why == Serves {
			continue
		}
		x.Reasons = append(x.Reasons, say.F("%s %s", n.Name, text))
		x.label[n.Name] = ExcludingLabel(n)
	}
	return x
}

// WithCordoned names the nodes that would serve the Service if cordoned nodes did.
func WithCordoned(nodes []corev1.Node, svc *corev1.Service) []string {
	svc = svc.DeepCopy()
	delete(svc.Annotations, Prefix+RemoveUnscheduled)
	delete(svc.Annotations, LegacyPrefix+RemoveUnscheduled)
	return ExclusionsOf(nodes, svc).Of[Serves]
}

// Pass reports whether a node may come back without anybody's action.
func (x Exclusions) Pass() bool { return len(x.Of[NotReady])+len(x.Of[Going]) > 0 }

// Advice says what a person can do about each kind of exclusion.
func (x Exclusions) Advice() say.Text {
	var text say.Text
	if list := x.Of[NotReady]; len(list) > 0 {
		text = text.And("Not ready: %s. Find out why: kubectl describe node %s.", say.List(list, 5), list[0])
	}
	if list := x.Of[Going]; len(list) > 0 {
		text = text.And("Wait until the autoscaler has deleted %s and the Pods run elsewhere, or stop the autoscaler.", say.List(list, 5))
	}
	if list := x.Of[Cordoned]; len(list) > 0 {
		text = text.And("Let nodes accept Pods again: kubectl uncordon %s. Or keep cordoned nodes as backends: %s.",
			list[0], RemoveCommand(x.svc, RemoveUnscheduled))
	}
	if list := x.Of[Excluded]; len(list) > 0 {
		text = text.And("To let %s serve load balancers, remove the label: kubectl label node %s %s-.", say.List(list, 5), list[0], x.label[list[0]])
	}
	if len(x.Of[Unlabel]) > 0 {
		text = text.Then(LabelAdvice(x.svc))
	}
	if list := x.Of[Master]; len(list) > 0 {
		text = text.And("Masters such as %s never serve load balancers: run the Pods on workers, or add workers.", say.List(list, 5))
	}
	if list := x.Of[Hybrid]; len(list) > 0 {
		text = text.And("Hybrid nodes such as %s are outside of the VPC and never serve load balancers: run the Pods on ECS nodes, or add some.", say.List(list, 5))
	}
	if list := x.Of[Virtual]; len(list) > 0 {
		text = text.And("On virtual nodes such as %s, only Pods serve: run some Pods of the Service there, or add nodes that are servers.", say.List(list, 5))
	}
	return text
}

// LabelAdvice says how nodes can serve a Service that asks for labels.
func LabelAdvice(svc *corev1.Service) say.Text {
	return say.F("Label the nodes that should serve the Service. Or ask for labels that nodes have: %s. Or ask for no labels: %s.",
		SetCommand(svc, backendLabel, "KEY=VALUE"), RemoveCommand(svc, backendLabel))
}

// LabelsOf compares up to 5 labels of the annotation backend-label with those of the nodes.
func LabelsOf(nodes []corev1.Node, svc *corev1.Service) say.Text {
	wanted, _ := Annotation(svc, backendLabel)
	var text say.Text
	for i, pair := range strings.Split(wanted, ",") {
		if i == 5 {
			break
		}
		key, value, ok := strings.Cut(pair, "=")
		if !ok {
			return say.F("The annotation is %s, but its form must be KEY=VALUE,KEY=VALUE.", Quote(wanted))
		}
		var others []string
		with := 0
		for _, n := range nodes {
			have, there := n.Labels[key]
			switch {
			case there && have == value:
				with++
			case there && !slices.Contains(others, Quote(have)):
				others = append(others, Quote(have))
			}
		}
		text = text.And("The label %s is on %s.", Quote(pair), say.Count(with, "node"))
		if len(others) > 0 {
			text = text.And("Other nodes have the values %s.", say.List(others, 5))
		}
	}
	return text
}
