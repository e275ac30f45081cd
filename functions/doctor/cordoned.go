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
		Annotations: []string{removeUnscheduled},
		Plan: func(_ *doctor.Snapshot, svc *corev1.Service, found []doctor.Finding) remedy.Plan {
			switch found[0].Key {
			case "some":
				return remedy.Plan{
					Finding: found[0].Text,
					Risk:    remedy.High, // connections through these nodes end
					Note:    say.F("From then on the controller removes every cordoned node from the load balancer."),
					Steps:   []remedy.Step{step.With(svc, removeUnscheduled, "on")},
				}
			case "left":
				return remedy.Plan{Finding: found[0].Text, Steps: []remedy.Step{step.Resync{}}}
			}
			return remedy.Plan{Finding: found[0].Text, Ask: found[0].Do}
		},
	},
}

const removeUnscheduled = "remove-unscheduled-backend"

// isOff is a cordoned node and when its taint was set. A zero time is unknown.
type isOff struct {
	node  string
	since time.Time
}

func findCordoned(s *doctor.Snapshot, r *doctor.Report) {
	off := map[string]isOff{} // cordoned nodes, by the ID of their instance
	for i := range s.Nodes {
		node := &s.Nodes[i]
		if !node.Spec.Unschedulable || node.Spec.ProviderID == "" {
			continue
		}
		is := isOff{node: node.Name}
		for _, t := range node.Spec.Taints {
			if t.Key == corev1.TaintNodeUnschedulable && t.TimeAdded != nil {
				is.since = t.TimeAdded.Time
			}
		}
		off[server(node)] = is
	}
	if len(off) == 0 {
		return
	}
	for _, svc := range s.OfType() {
		if s.Mode(svc) == ccm.PodMode {
			continue
		}
		backends, err := backendsOf(s, svc)
		if err != nil {
			r.Unknown(doctor.OfService(svc), err)
			continue
		}
		var nodes []string
		for _, id := range backends {
			if is, ok := off[id]; ok {
				nodes = append(nodes, is.node)
			}
		}
		if len(nodes) == 0 {
			continue
		}
		slices.Sort(nodes)
		if on, _ := ccm.Annotation(svc, removeUnscheduled); on == "on" {
			reportLeftovers(s, r, svc, backends, off)
			continue
		}
		rest := len(backends) - len(nodes)
		f := doctor.Finding{Severity: doctor.Warning, About: doctor.OfService(svc), Key: "some",
			Evidence: map[string]string{"cordoned": strings.Join(nodes, ", "), "other backends": fmt.Sprint(rest)},
			Text: say.F("The load balancer still sends traffic of the Service to cordoned nodes (%d of %s): %s.",
				len(nodes), say.Count(len(backends), "backend"), say.List(nodes, shown)).
				And("Connections through such a node end when the node is removed."),
			Do: say.F("Let the controller remove cordoned nodes: %s.", ccm.SetCommand(svc, removeUnscheduled, "on")).
				And("Before that, turn on connection draining so that connections can finish: %s.", ccm.SetCommand(svc, "connection-drain", "on"))}
		if rest == 0 {
			f.Key = "all"
			f.Do = say.F("Add other nodes, or uncordon one: kubectl uncordon %s. With %s the Service would have no backend left.", nodes[0], removeUnscheduled)
		}
		r.Add(f)
	}
}

func reportLeftovers(s *doctor.Snapshot, r *doctor.Report, svc *corev1.Service, backends []string, off map[string]isOff) {
	var nodes []string
	for _, id := range backends {
		switch is, ok := off[id]; {
		case !ok:
		case is.since.IsZero():
			r.Unknown(about(svc), say.Errorf("whether the controller should already have removed the node %s: its taint does not say when it was cordoned", is.node))
		case s.Time.Sub(is.since) > overdue:
			nodes = append(nodes, is.node)
		}
	}
	if len(nodes) == 0 {
		return
	}
	slices.Sort(nodes)
	r.Add(doctor.Finding{Severity: doctor.Critical, About: about(svc), Key: "left",
		Evidence: map[string]string{"cordoned": strings.Join(nodes, ", ")},
		Text: say.F(`The Service has %s: "on". The load balancer still uses nodes that were cordoned more than ten minutes ago (%d of %s): %s.`,
			removeUnscheduled, len(nodes), say.Count(len(backends), "backend"), say.List(nodes, shown)),
		Do: say.F("Check the controller's log for why it does not remove them: %s. If the log says nothing, trigger a resync: %s.",
			remedy.LogQuery(name(svc)), ccm.ResyncCommand(svc))})
}

// backendsOf returns the sorted IDs of the servers behind the Service's ports, without duplicates; none without a load balancer.
func backendsOf(s *doctor.Snapshot, svc *corev1.Service) ([]string, error) {
	if err := s.Err(doctor.Groups, doctor.Backends); err != nil {
		return nil, err
	}
	b, err := s.Balancer(svc)
	if err != nil || b == nil {
		return nil, err
	}
	var ids []string
	for _, p := range svc.Spec.Ports {
		g, err := s.Group(svc, b, p)
		switch {
		case err != nil:
			return nil, err
		case g == nil:
		case g.Failed != nil:
			return nil, say.Errorf("the backends of the group %s could not be read: %w", g.ID, g.Failed)
		default:
			for _, backend := range g.Backends {
				ids = append(ids, backend.ID)
			}
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}
