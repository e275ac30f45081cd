package doctor

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/step"
)

// cordoned looks for cordoned nodes that still get traffic.
var cordoned = &doctor.Check{
	ID:    "cordoned",
	Doc:   page("cordoned"),
	Needs: []doctor.Part{doctor.Services, doctor.Nodes, doctor.Detail},
	Uses:  []doctor.Part{doctor.CLBs, doctor.NLBs, doctor.Groups, doctor.Backends},
	Find:  findCordoned,
	Fix: &doctor.Fix{
		Steps:       []remedy.Step{step.Annotate{}, step.Resync{}},
		Annotations: []string{ccm.RemoveUnscheduled},
		Plan: func(_ *doctor.Snapshot, svc *corev1.Service, found []doctor.Finding) remedy.Plan {
			switch found[0].Key {
			case "some":
				return remedy.Plan{
					Finding: found[0].Text,
					Risk:    remedy.High, // connections through these nodes end
					Note:    say.F("From then on the controller removes every cordoned node from the load balancer."),
					Steps:   []remedy.Step{step.With(svc, ccm.RemoveUnscheduled, "on")},
				}
			case "left":
				return remedy.Plan{Finding: found[0].Text, Steps: []remedy.Step{step.Resync{}}}
			}
			return remedy.Plan{Finding: found[0].Text, Ask: found[0].Do}
		},
	},
}

// isOff is a cordoned node and when its taint was set. A zero time is unknown.
type isOff struct {
	node  *corev1.Node
	since time.Time
}

func findCordoned(s *doctor.Snapshot, r *doctor.Report) {
	var all []isOff
	for i := range s.Nodes {
		node := &s.Nodes[i]
		if !node.Spec.Unschedulable {
			continue
		}
		is := isOff{node: node}
		for _, t := range node.Spec.Taints {
			if t.Key == corev1.TaintNodeUnschedulable && t.TimeAdded != nil {
				is.since = t.TimeAdded.Time
			}
		}
		all = append(all, is)
	}
	if len(all) == 0 {
		return
	}
	for _, svc := range s.OfType() {
		if svc.Annotations[ccm.BackendType] == "eni" {
			continue // its backends are Pods
		}
		b, err := s.Balancer(svc)
		if err == nil && b == nil {
			continue
		}
		var backends []string
		if err == nil {
			backends, err = backendsOf(s, svc, b)
		}
		if err != nil {
			r.Unknown(doctor.OfService(svc), err)
			continue
		}
		var off []isOff
		var nodes []string
		for _, is := range all {
			key := grouping{svc: svc, b: b}.node(is.node)
			if _, found := slices.BinarySearch(backends, key); found && key != "" {
				off, nodes = append(off, is), append(nodes, is.node.Name)
			}
		}
		if len(nodes) == 0 {
			continue
		}
		slices.Sort(nodes)
		if on, _ := ccm.Annotation(svc, ccm.RemoveUnscheduled); on == "on" {
			reportLeftovers(s, r, svc, len(backends), off)
			continue
		}
		rest := len(backends) - len(nodes)
		f := doctor.Finding{Severity: doctor.Warning, About: doctor.OfService(svc), Key: "some",
			Evidence: map[string]string{"cordoned": strings.Join(nodes, ", "), "other backends": fmt.Sprint(rest)},
			Text: say.F("The load balancer still sends traffic of the Service to cordoned nodes (%d of %s): %s.",
				len(nodes), say.Count(len(backends), "backend"), say.List(nodes, shown)).
				And("Connections through such a node end when the node is removed."),
			Do: say.F("Let the controller remove cordoned nodes: %s.", ccm.SetCommand(svc, ccm.RemoveUnscheduled, "on")).
				And("Before that, turn on connection draining so that connections can finish: %s.", ccm.SetCommand(svc, "connection-drain", "on"))}
		if rest == 0 {
			f.Key = "all"
			f.Do = say.F("Add other nodes, or uncordon one: kubectl uncordon %s. With %s the Service would have no backend left.",
				nodes[0], ccm.RemoveUnscheduled)
		}
		r.Add(f)
	}
}

func reportLeftovers(s *doctor.Snapshot, r *doctor.Report, svc *corev1.Service, backends int, off []isOff) {
	var nodes []string
	for _, is := range off {
		switch {
		case is.since.IsZero():
			r.Unknown(about(svc), say.Errorf("whether the controller should already have removed the node %s: its taint does not say when it was cordoned",
				is.node.Name))
		case s.Time.Sub(is.since) > overdue:
			nodes = append(nodes, is.node.Name)
		}
	}
	if len(nodes) == 0 {
		return
	}
	slices.Sort(nodes)
	r.Add(doctor.Finding{Severity: doctor.Critical, About: about(svc), Key: "left",
		Evidence: map[string]string{"cordoned": strings.Join(nodes, ", ")},
		Text: say.F(`The Service has %s: "on". The load balancer still uses nodes that were cordoned more than ten minutes ago (%d of %s): %s.`,
			ccm.RemoveUnscheduled, len(nodes), say.Count(backends, "backend"), say.List(nodes, shown)),
		Do: say.F("Check the controller's log for why it does not remove them: %s. If the log says nothing, trigger a resync: %s.",
			remedy.LogQuery(name(svc)), ccm.ResyncCommand(svc))})
}

// backendsOf returns the sorted keys of the backends behind those ports of the Service that nodes serve, without duplicates.
func backendsOf(s *doctor.Snapshot, svc *corev1.Service, b *doctor.LoadBalancer) ([]string, error) {
	if err := s.Err(doctor.Backends); err != nil {
		return nil, err
	}
	var keys []string
	for _, p := range svc.Spec.Ports {
		mode, g, err := s.Group(svc, b, p)
		switch {
		case err != nil:
			return nil, err
		case g == nil || mode == ccm.PodMode:
		case g.Failed != nil:
			return nil, say.Errorf("the backends of the group %s could not be read: %w", g.ID, g.Failed)
		default:
			for _, e := range g.Backends {
				keys = append(keys, grouping{mode: mode}.key(e))
			}
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys), nil
}
