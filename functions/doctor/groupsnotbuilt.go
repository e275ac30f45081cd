package doctor

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/say"
)

const groupsNotBuiltID = "groups-not-built"

// groupsNotBuilt looks for vServer groups that the controller silently leaves unchanged because it cannot build their members.
var groupsNotBuilt = &doctor.Check{
	ID:    groupsNotBuiltID,
	Doc:   page(groupsNotBuiltID),
	Needs: []doctor.Part{doctor.Services, doctor.Endpoints, doctor.Nodes, doctor.Detail},
	Uses:  []doctor.Part{doctor.Controller, doctor.CLBs, doctor.Groups},
	Find:  findGroupsNotBuilt,
}

func findGroupsNotBuilt(s *doctor.Snapshot, r *doctor.Report) {
	version, untold := versionOf(s)
	if untold == nil && version.Before(ccm.FirstSilentBuild()) {
		return // it fails with the reason
	}
	nodes := settledNodes(s)
	faulty, behind, of := map[string]ccm.Obstacle{}, map[string][]string{}, map[string]ccm.Building{}
	for _, svc := range s.OfType() {
		if ccm.NLB(svc) || !ccm.InForce(svc) {
			continue // otherwise the next sync fails with an Event
		}
		lb, err := s.Balancer(svc)
		if err == nil && lb == nil {
			continue // another check reports a missing load balancer
		}
		var b ccm.Building
		if err == nil {
			b, err = buildingOf(s, svc, lb, nodes)
		}
		if err != nil {
			r.Unknown(about(svc), err)
			r.Unknown(s.OfCluster(), say.Errorf("whether nodes keep backends from being updated: %w", err))
			continue
		}
		all := b.Obstacles()
		for _, o := range recent(s, b, all) {
			if o.Node {
				r.Settling(s.OfCluster())
			} else {
				r.Settling(about(svc))
			}
		}
		for _, o := range all {
			if o.Node {
				faulty[o.Name], of[o.Name] = o, b
				behind[o.Name] = append(behind[o.Name], name(svc))
			}
		}
		if own := slices.DeleteFunc(all, func(o ccm.Obstacle) bool { return o.Node }); len(own) > 0 {
			if untold != nil { // older releases fail with the reason, or do not read the annotation
				r.Unknown(about(svc), say.Errorf("whether its backends are updated: %w", untold))
				continue
			}
			r.Add(doctor.Finding{
				Severity: doctor.Critical, About: about(svc), Evidence: map[string]string{"load balancer": lb.ID},
				Text: ccm.DescribeObstacles(own).And("It reports success all the same, and does not update the backends.").Then(next(svc)),
				Do:   b.Ask(own),
			})
		}
	}
	if untold != nil && len(faulty) > 0 {
		r.Unknown(s.OfCluster(), say.Errorf("whether nodes keep backends from being updated: %w", untold))
		return
	}
	for _, node := range sorted(faulty) {
		slices.Sort(behind[node])
		r.Add(doctor.Finding{
			Severity: doctor.Critical, About: s.OfCluster(), Key: "node/" + node, Services: behind[node],
			Evidence: map[string]string{"services": fmt.Sprint(len(behind[node]))},
			Text: say.F("The controller reports success but does not update the backends of %s (%s), because %s.",
				say.Count(len(behind[node]), "Service"), say.List(behind[node], shown), faulty[node].Text).
				And("When such a Service changes, its syncs fail, or remove the backends from a load balancer that it reuses."),
			Do: of[node].Ask([]ccm.Obstacle{faulty[node]}),
		})
	}
}

// recent returns the obstacles that exist only with the recent changes, which buildingOf leaves out.
func recent(s *doctor.Snapshot, b ccm.Building, settled []ccm.Obstacle) []ccm.Obstacle {
	nodes, slicesOf := len(b.Nodes), len(b.Slices)
	b.Nodes, b.Slices = s.Nodes, s.Slices[name(b.Service)]
	if len(b.Nodes) == nodes && len(b.Slices) == slicesOf {
		return nil
	}
	return slices.DeleteFunc(b.Obstacles(), func(o ccm.Obstacle) bool {
		return slices.ContainsFunc(settled, func(x ccm.Obstacle) bool { return x.Node == o.Node && x.Name == o.Name })
	})
}

// settledNodes returns the nodes without those that changed recently.
func settledNodes(s *doctor.Snapshot) []corev1.Node {
	return slices.DeleteFunc(slices.Clone(s.Nodes), func(n corev1.Node) bool { return moving(&n, s.Time) })
}

// buildingOf returns the input from which the controller builds the Service's groups, without recent changes; nodes are settledNodes.
func buildingOf(s *doctor.Snapshot, svc *corev1.Service, lb *doctor.LoadBalancer, nodes []corev1.Node) (ccm.Building, error) {
	b := ccm.Building{Service: svc, Version: s.Controller.Version}
	if ccm.NLB(svc) || len(svc.Spec.Ports) == 0 {
		return b, nil // nothing prevents the controller from building it
	}
	var err error
	if b.Mode, err = s.ModeAt(svc, lb); err != nil {
		return b, err
	}
	b.Nodes = nodes
	if s.Time.Sub(s.Moved[name(svc)]) >= settling {
		b.Slices = s.Slices[name(svc)]
	}
	for _, g := range lb.Groups {
		b.Groups = append(b.Groups, ccm.Group{ID: g.ID, Name: g.Name, Servers: g.Servers})
	}
	return b, nil
}

func next(svc *corev1.Service) say.Text {
	if id, _ := ccm.Annotation(svc, ccm.BalancerID); id == "" {
		return say.F("When the Service changes, its syncs fail.")
	}
	return say.F("When the Service changes, its syncs fail, or remove the backends from the load balancer, which it reuses. Change nothing else before.")
}
