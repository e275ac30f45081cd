package noavailablenodes

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/say"
)

// excluded are nodes by the reason for which the controller excludes them.
type excluded struct {
	of      map[ccm.Exclusion][]string // names
	reasons []say.Text                 // one clause for each excluded node
	label   map[string]string          // that excludes a node, by the node's name
}

func (s *state) excluded(nodes []corev1.Node) excluded {
	x := excluded{of: map[ccm.Exclusion][]string{}, label: map[string]string{}}
	for i := range nodes {
		n := &nodes[i]
		why, text := ccm.ExclusionOf(n, s.c.Service)
		x.of[why] = append(x.of[why], n.Name)
		if why == ccm.Serves {
			continue
		}
		x.reasons = append(x.reasons, say.F("%s %s", n.Name, text))
		x.label[n.Name] = ccm.ExcludingLabel(n)
	}
	return x
}

// passes reports whether a node may come back without a person.
func (x excluded) passes() bool { return len(x.of[ccm.NotReady])+len(x.of[ccm.Going]) > 0 }

// remedies says what a person can do about each kind of exclusion.
func (x excluded) remedies(svc *corev1.Service) say.Text {
	var text say.Text
	if list := x.of[ccm.NotReady]; len(list) > 0 {
		text = text.And("Not ready: %s. Find out why: kubectl describe node %s.", say.List(list, 5), list[0])
	}
	if list := x.of[ccm.Going]; len(list) > 0 {
		text = text.And("Wait until the autoscaler has deleted %s and the Pods run elsewhere, or stop the autoscaler.", say.List(list, 5))
	}
	if list := x.of[ccm.Cordoned]; len(list) > 0 {
		text = text.And("Let nodes accept Pods again: kubectl uncordon %s. Or keep cordoned nodes as backends: %s.",
			list[0], ccm.RemoveCommand(svc, "remove-unscheduled-backend"))
	}
	if list := x.of[ccm.Excluded]; len(list) > 0 {
		text = text.And("To let %s serve load balancers, remove the label: kubectl label node %s %s-.", say.List(list, 5), list[0], x.label[list[0]])
	}
	if len(x.of[ccm.Unlabel]) > 0 {
		text = text.Then(relabel(svc))
	}
	if list := x.of[ccm.Master]; len(list) > 0 {
		text = text.And("Masters such as %s never serve load balancers: run the Pods on workers, or add workers.", say.List(list, 5))
	}
	if list := x.of[ccm.Virtual]; len(list) > 0 {
		text = text.And("On virtual nodes such as %s, only Pods serve: run some Pods of the Service there, or add nodes that are servers.", say.List(list, 5))
	}
	return text
}

// relabel says how nodes can serve a Service that asks for labels.
func relabel(svc *corev1.Service) say.Text {
	return say.F("Label the nodes that should serve the Service. Or ask for labels that nodes have: %s. Or ask for no labels: %s.",
		ccm.SetCommand(svc, "backend-label", "KEY=VALUE"), ccm.RemoveCommand(svc, "backend-label"))
}

// labels compares up to 5 labels of the annotation backend-label with those of the nodes.
func (s *state) labels() say.Text {
	wanted, _ := ccm.Annotation(s.c.Service, "backend-label")
	var text say.Text
	for i, pair := range strings.Split(wanted, ",") {
		if i == 5 {
			break
		}
		key, value, ok := strings.Cut(pair, "=")
		if !ok {
			return say.F("The annotation is %s, but its form must be KEY=VALUE,KEY=VALUE.", ccm.Quote(wanted))
		}
		var others []string
		with := 0
		for _, n := range s.nodes {
			have, there := n.Labels[key]
			switch {
			case there && have == value:
				with++
			case there && !slices.Contains(others, ccm.Quote(have)):
				others = append(others, ccm.Quote(have))
			}
		}
		text = text.And("The label %s is on %s.", ccm.Quote(pair), say.Count(with, "node"))
		if len(others) > 0 {
			text = text.And("Other nodes have the values %s.", say.List(others, 5))
		}
	}
	return text
}
