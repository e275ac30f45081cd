package survey

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/checkup"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/remedy"
)

//go:embed stalegroups.md
var staleGroupsDoc string

// staleGroups compares ready endpoints with the backends of the load balancers.
var staleGroups = &checkup.Check{
	ID:    "stale-groups",
	Doc:   staleGroupsDoc,
	Needs: []checkup.Part{checkup.Services, checkup.Endpoints, checkup.Nodes, checkup.Detail, checkup.Groups, checkup.Backends},
	Uses:  []checkup.Part{checkup.CLBs, checkup.NLBs},
	Find:  findStaleGroups,
}

// settling is how long the controller may take to bring backends up to date.
const settling = 2 * time.Minute

func findStaleGroups(s *checkup.Snapshot, r *checkup.Report) {
	nodes := map[string]*corev1.Node{}
	for i := range s.Nodes {
		nodes[s.Nodes[i].Name] = &s.Nodes[i]
	}
	for _, svc := range s.OfType() {
		if !remedy.Synced(svc) || s.Time.Sub(s.Moved[name(svc)]) < settling {
			continue // the first sync makes the groups; and what has just changed is on its way
		}
		b, err := s.Balancer(svc)
		switch {
		case err != nil:
			r.Unknown(checkup.OfService(svc), err)
			continue
		case b == nil:
			continue // that it is gone is a finding of its own
		}
		for _, port := range svc.Spec.Ports {
			g, err := s.Group(svc, b, port)
			if err == nil && g != nil {
				err = g.Failed
			}
			if err != nil {
				r.Unknown(checkup.OfService(svc), err)
				break
			}
			stale(r, grouping{s, svc, b, port, nodes}, g)
		}
	}
}

// A grouping is a port of a Service on its load balancer.
type grouping struct {
	s     *checkup.Snapshot
	svc   *corev1.Service
	b     *checkup.LoadBalancer
	port  corev1.ServicePort
	nodes map[string]*corev1.Node
}

// stale reports how the group of a port differs from what it is to hold.
func stale(r *checkup.Report, p grouping, g *checkup.Group) {
	want := p.want()
	var have map[string]bool
	if g != nil {
		have = backends(g.Backends, p.s.Mode(p.svc))
	}
	var missing, extra []string
	for key := range want {
		if !have[key] {
			missing = append(missing, key)
		}
	}
	for key := range have {
		if !want[key] {
			extra = append(extra, key)
		}
	}
	slices.Sort(missing)
	slices.Sort(extra)
	if len(missing)+len(extra) == 0 {
		return
	}
	f := checkup.Finding{
		Severity: checkup.Warning, About: checkup.OfService(p.svc), Key: fmt.Sprint(p.port.Protocol, ":", p.port.Port),
		Evidence: map[string]string{"load balancer": p.b.ID, "wanted": fmt.Sprint(len(want)), "there": fmt.Sprint(len(have))},
	}
	if g != nil {
		f.Evidence["group"] = g.ID
	}
	var parts []string
	if len(missing) > 0 {
		parts = append(parts, fmt.Sprintf("%s %s missing (%s)", remedy.Count(len(missing), "backend"), remedy.Are(len(missing)), remedy.List(missing, 3)))
	}
	if len(extra) > 0 {
		parts = append(parts, fmt.Sprintf("%s %s there that should not be (%s)", remedy.Count(len(extra), "backend"), remedy.Are(len(extra)), remedy.List(extra, 3)))
	}
	if len(want) > 0 && len(missing) == len(want) && len(p.s.Ready(p.svc, p.port)) > 0 {
		f.Severity = checkup.Critical // no traffic gets through
	}
	f.Text = fmt.Sprintf("Behind port %d of the Service on %s: %s.", p.port.Port, p.b.ID, strings.Join(parts, ", and "))
	f.Do = "Look why the controller does not bring them up to date: " + remedy.LogQuery(name(p.svc)) + ". If it says nothing, wake it: " + remedy.WakeCommand(p.svc) + "."
	r.Add(f)
}

// want returns the backends that a port is to have: Pods by their address, nodes by the
// ID of their server.
func (p grouping) want() map[string]bool {
	ready := p.s.Ready(p.svc, p.port)
	want := map[string]bool{}
	mode := p.s.Mode(p.svc)
	with := map[string]bool{}
	for _, e := range ready {
		with[e.Node] = true
		// Pods on virtual nodes are backends themselves in each mode.
		node := p.nodes[e.Node]
		if mode == remedy.PodMode {
			want[e.IP] = true
		} else if node != nil {
			if why, _ := remedy.LeftOut(node, p.svc); why == remedy.Virtual {
				want[e.IP] = true
			}
		}
	}
	if mode == remedy.PodMode {
		return want
	}
	// With the policy Cluster all nodes are added, whether there is a ready Pod or not
	// (clbv1/vgroups.go, nlbv2/server_groups.go).
	for _, node := range p.nodes {
		why, _ := remedy.LeftOut(node, p.svc)
		if why == remedy.Serves && (mode == remedy.ClusterMode || with[node.Name]) {
			want[server(node)] = true
		}
	}
	return want
}

// server returns the ID of a node's server, which ends its provider ID:
// "cn-hangzhou.i-1".
func server(node *corev1.Node) string {
	return node.Spec.ProviderID[strings.LastIndex(node.Spec.ProviderID, ".")+1:]
}

// backends returns what a group holds, named as want does.
func backends(list []cloud.Backend, mode remedy.BackendMode) map[string]bool {
	have := map[string]bool{}
	for _, b := range list {
		switch {
		case b.Type != "ecs" || mode == remedy.PodMode:
			have[b.IP] = true
		default:
			have[b.ID] = true
		}
	}
	return have
}
