package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

// staleGroups compares ready endpoints with the backends of the load balancers.
var staleGroups = &doctor.Check{
	ID:    "stale-groups",
	Doc:   page("stale-groups"),
	Needs: []doctor.Part{doctor.Services, doctor.Endpoints, doctor.Nodes, doctor.Detail, doctor.Groups, doctor.Backends},
	Uses:  []doctor.Part{doctor.CLBs, doctor.NLBs},
	Find:  findStaleGroups,
}

// settling is the time that the controller may take to update backends.
const settling = 2 * time.Minute

func findStaleGroups(s *doctor.Snapshot, r *doctor.Report) {
	nodes := map[string]*corev1.Node{}
	for i := range s.Nodes {
		nodes[s.Nodes[i].Name] = &s.Nodes[i]
	}
	settled := settledNodes(s)
	for _, svc := range s.OfType() {
		if !ccm.Synced(svc) {
			continue // the first sync creates the groups
		}
		if s.Time.Sub(s.Moved[name(svc)]) < settling || s.Time.Sub(s.Marks[svc.UID].Changed) < settling {
			r.Settling(about(svc))
			continue
		}
		b, err := s.Balancer(svc)
		switch {
		case err != nil:
			r.Unknown(about(svc), err)
			continue
		case b == nil:
			continue // another check reports that it is gone
		}
		built, err := buildingOf(s, svc, b, settled)
		if err != nil {
			r.Unknown(about(svc), err)
			continue
		}
		stuck := len(built.Obstacles()) > 0
		for _, port := range svc.Spec.Ports {
			mode, g, err := s.Group(svc, b, port)
			if err == nil && g != nil {
				err = g.Failed
			}
			if err != nil {
				r.Unknown(about(svc), err)
				break
			}
			stale(r, grouping{s, svc, b, port, mode, nodes, stuck}, g)
		}
	}
}

type grouping struct {
	s     *doctor.Snapshot
	svc   *corev1.Service
	b     *doctor.LoadBalancer
	port  corev1.ServicePort
	mode  ccm.BackendMode
	nodes map[string]*corev1.Node
	stuck bool // the controller cannot build a group of the Service: see groupsNotBuilt
}

func stale(r *doctor.Report, p grouping, g *doctor.Group) {
	want, moved := p.want(p.s.Ready(p.svc, p.port))
	maybe := map[string]bool{}
	if ccm.DualStackBackends(p.svc) {
		maybe, _ = p.want(ccm.Ready(p.s.Slices[name(p.svc)], p.port, discoveryv1.AddressTypeIPv6))
	}
	have := map[string]bool{}
	var missing, extra []string
	settles := false
	if g != nil {
		for _, e := range g.Backends {
			key := p.key(e)
			if !have[key] && !want[key] && !maybe[key] && p.ours(e) {
				if settles = settles || moved[key]; !moved[key] {
					extra = append(extra, key)
				}
			}
			have[key] = true
		}
	}
	for key := range want {
		if !have[key] {
			if settles = settles || moved[key]; !moved[key] {
				missing = append(missing, key)
			}
		}
	}
	if settles {
		r.Settling(about(p.svc))
	}
	slices.Sort(missing)
	slices.Sort(extra)
	if len(missing)+len(extra) == 0 {
		return
	}
	f := doctor.Finding{
		Severity: doctor.Warning, About: about(p.svc), Key: fmt.Sprint(p.port.Protocol, ":", p.port.Port),
		Evidence: map[string]string{"load balancer": p.b.ID, "wanted": fmt.Sprint(len(want)), "there": fmt.Sprint(len(have))},
		Do: say.F("Check the controller's log for why it does not update them: %s. If the log says nothing, trigger a resync: %s.",
			remedy.LogQuery(name(p.svc)), ccm.ResyncCommand(p.svc)),
	}
	if p.stuck { // a resync would fail, or delete a group
		f.Do = say.F("Do what the check %s asks for first. Do not trigger a resync before: it would fail, or remove backends.", groupsNotBuiltID)
	}
	if g != nil {
		f.Evidence["group"] = g.ID
	}
	if len(missing) > 0 {
		f.Text = f.Text.And("Port %d of the Service lacks %s on %s: %s.", p.port.Port, say.Count(len(missing), "backend"), p.b.ID, say.List(missing, 3))
	}
	if len(extra) > 0 {
		f.Text = f.Text.And("Port %d of the Service has %s on %s that should not be there: %s.",
			p.port.Port, say.Count(len(extra), "backend"), p.b.ID, say.List(extra, 3))
	}
	if len(want) > 0 && len(missing) == len(want) && len(p.s.Ready(p.svc, p.port)) > 0 {
		f.Severity = doctor.Critical // no traffic gets through
	}
	r.Add(f)
}

// want returns a port's expected backends for its ready endpoints, Pods by address and nodes by key, and recently changed nodes, which may be backends or not.
// With the policy Cluster all nodes are (clbv1/vgroups.go, nlbv2/server_groups.go).
func (p grouping) want(ready []ccm.Endpoint) (want, moved map[string]bool) {
	want, moved = map[string]bool{}, map[string]bool{}
	with := map[string]bool{}
	for _, e := range ready {
		with[e.Node] = true
		// Pods on virtual nodes are backends themselves in each mode.
		node := p.nodes[e.Node]
		if p.mode == ccm.PodMode {
			if ccm.PodServes(node, p.svc) {
				want[e.IP] = true
			}
		} else if node != nil {
			if why, _ := ccm.ExclusionOf(node, p.svc); why == ccm.Virtual {
				want[e.IP] = true
			}
		}
	}
	if p.mode == ccm.PodMode {
		return want, moved
	}
	for _, node := range p.nodes {
		key := p.node(node)
		if key == "" {
			continue // the load balancer can't know it, and the resulting failure has a class of its own
		}
		why, _ := ccm.ExclusionOf(node, p.svc)
		if why == ccm.Serves && (p.mode == ccm.ClusterMode || with[node.Name]) {
			want[key] = true
		}
		moved[key] = moving(node, p.s.Time)
	}
	return want, moved
}

// moving reports whether a node came, changed readiness or was tainted so recently that backends may not reflect it yet.
func moving(node *corev1.Node, now time.Time) bool {
	last := node.CreationTimestamp.Time
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady && c.LastTransitionTime.After(last) {
			last = c.LastTransitionTime.Time
		}
	}
	for _, t := range node.Spec.Taints {
		if t.TimeAdded != nil && t.TimeAdded.After(last) {
			last = t.TimeAdded.Time
		}
	}
	return now.Sub(last) < settling
}

// byIP reports whether an NLB's group identifies all servers by address, nodes too.
func (p grouping) byIP() bool {
	kind, _ := ccm.Annotation(p.svc, "server-group-type")
	return p.b.NLB != nil && strings.EqualFold(kind, "ip")
}

// node names a node as a backend: its server's ID, which ends its provider ID ("cn-hangzhou.i-1"), or its address.
func (p grouping) node(node *corev1.Node) string {
	if !p.byIP() {
		return server(node)
	}
	for _, a := range node.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			return a.Address
		}
	}
	return ""
}

func server(node *corev1.Node) string {
	return node.Spec.ProviderID[strings.LastIndex(node.Spec.ProviderID, ".")+1:]
}

func (p grouping) key(e cloud.Backend) string {
	if e.Type != "ecs" || p.mode == ccm.PodMode {
		return cmp.Or(e.IP, e.ID)
	}
	return e.ID
}

// ours reports whether the controller added a backend for the Service. Another description means a person or another cluster
// (clbv1/vgroups.go); NLBs and older answers have none.
func (p grouping) ours(e cloud.Backend) bool {
	if e.Description == "" {
		return ccm.AdoptedGroup(p.svc, p.port) == ""
	}
	t, ok := ccm.ParseTrace(e.Description)
	return ok && t.Of(p.svc, p.s.Cluster)
}
