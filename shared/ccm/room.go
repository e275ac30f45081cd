package ccm

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/say"
)

// RoomReads is what Room reads; a class that calls it declares it.
var RoomReads = slices.Concat(CandidateReads, NetworkReads)

// A Room is what the load balancer of a Service holds, and what the Service needs there.
type Room struct {
	Candidates       // LB is also set for an NLB
	Rest       Tally // backends of the load balancer that are not of the Service's ports
}

// Room reads the Room of the Service. Without a load balancer, Rest is empty. For an NLB its figures leave out the Service's Pods on virtual nodes.
func (c *View) Room(ctx context.Context, family discoveryv1.AddressType) (Room, error) {
	all, err := c.Candidates(ctx, family)
	if err != nil {
		return Room{}, err
	}
	s := Room{Candidates: all}
	if NLB(c.Service) {
		if err := c.leaveOutVirtual(ctx, &s.Candidates); err != nil {
			return Room{}, err
		}
		lb, err := c.Bound(ctx)
		if err != nil {
			return Room{}, err
		}
		if lb != nil {
			s.LB = lb.ID
		}
	}
	if s.LB != "" {
		s.Rest, err = c.Tenants(ctx, s.LB, s.Groups)
	}
	return s, err
}

// leaveOutVirtual drops the Pods on virtual nodes, ready or not, and their places in the Service's groups: the limit of NLBs does not count them.
func (c *View) leaveOutVirtual(ctx context.Context, s *Candidates) error {
	var all []string
	s.Slices = slices.Clone(s.Slices)
	for i := range s.Slices {
		s.Slices[i].Endpoints = slices.DeleteFunc(slices.Clone(s.Slices[i].Endpoints), func(e discoveryv1.Endpoint) bool {
			if e.NodeName == nil || s.Node(*e.NodeName) == nil {
				return false
			}
			why, _ := ExclusionOf(s.Node(*e.NodeName), c.Service)
			if why == Virtual {
				all = append(all, e.Addresses...)
			}
			return why == Virtual
		})
	}
	for i, g := range s.Groups {
		have, err := c.Backends(ctx, g)
		if err != nil {
			return err
		}
		for _, b := range have {
			if slices.Contains(all, b.IP) {
				s.Groups[i].Servers--
			}
		}
	}
	return nil
}

// BackendLimit reads how many backends the Service's load balancer may have (see Limit), with the limit's name.
func (c *View) BackendLimit(ctx context.Context) (*cloud.Quota, string, error) {
	product, name := "slb", LimitBackends.Name
	if NLB(c.Service) {
		product, name = "nlb", LimitNLBBackends.Name
	}
	limit, err := c.Limit(ctx, product, name)
	return limit, name, err
}

// Total returns how many backends the load balancer needs.
func (s *Room) Total() int { return s.Rest.Total() + s.Demand(s.Mode, nil) }

// Describe returns the figures. limit is that on the load balancer's backends; nil if unknown.
func (s *Room) Describe(limit *cloud.Quota) say.Text {
	var ports []say.Text
	for _, g := range s.Groups {
		ports = append(ports, say.F("%d for port %d", s.Needs(s.Mode, g.Port, nil), g.Port.Port))
	}
	now, rest := s.Attached(), s.Rest.Total()
	has := say.Count(now+rest, "backend")
	text := say.F("The load balancer %s has %s.", s.LB, has)
	if limit != nil {
		text = say.F("The load balancer %s has %s, and the limit is %.0f (%s).", s.LB, has, limit.Total, limit.Name)
	}
	text = text.And("The Service needs %s there (%s) and has %d.", say.Count(s.Demand(s.Mode, nil), "backend"), say.Clauses(ports, 5), now)
	switch s.Mode {
	case PodMode:
		text = text.And("Its backends are its ready Pods.")
	case LocalMode:
		text = text.And("Its backends are the nodes of its ready Pods, because of externalTrafficPolicy Local.")
	default:
		text = text.And("Its backends are all nodes that the controller does not exclude.")
	}
	if rest > 0 {
		text = text.And("The other backends belong to %s.", say.Clauses(s.sharers(), 5))
	}
	return text.And("In total, the load balancer needs %s.", say.Count(s.Total(), "backend"))
}

func (s *Room) sharers() []say.Text {
	var out []say.Text
	for _, service := range slices.Sorted(maps.Keys(s.Rest.Others)) {
		out = append(out, say.F("%s (%d)", service, s.Rest.Others[service]))
	}
	if s.Rest.Manual > 0 {
		out = append(out, say.F("groups that a person created (%d)", s.Rest.Manual))
	}
	if s.Rest.Own > 0 {
		out = append(out, say.F("former ports of the Service (%d)", s.Rest.Own))
	}
	return out
}

// Ways names each change that would make the Service fit, with its effect. In PodMode it says nothing about nodes.
func (s *Room) Ways(limit int) say.Text {
	svc, rest := s.Service, s.Rest.Total()
	var out say.Text
	if n := s.Demand(LocalMode, nil); s.Mode == ClusterMode && n > 0 && rest+n <= limit {
		out = out.And("Use only nodes with ready Pods of the Service as backends, which makes %d in total: %s.",
			rest+n, TrafficPolicyCommand(svc, corev1.ServiceExternalTrafficPolicyLocal)).
			And("The Pods then see the addresses of the clients. Traffic for a node whose Pods are gone is lost until the controller removes the node.")
	}
	if label, nodes, n := s.Label(limit - rest); label != "" {
		value := label
		if now, _ := Annotation(svc, "backend-label"); now != "" {
			value = now + "," + label
		}
		out = out.And("Use only nodes with the label %s (%s) as backends, which makes %d in total: %s.",
			label, say.Count(nodes, "node"), rest+n, SetCommand(svc, "backend-label", value))
	}
	id, _ := Annotation(svc, "id")
	if n := s.Demand(s.Mode, nil); id != "" && rest > 0 && n <= limit {
		out = out.And("Give the Service its own load balancer, which has room for %s: delete it and recreate it without the annotation %s.",
			say.Count(n, "backend"), Prefix+"id").
			And("Its address changes, and the load balancer costs money.")
	}
	if len(out) == 0 {
		return say.F("Split the Service into several, each with its own load balancer and with fewer ports or Pods.")
	}
	return out
}

// Behind returns the function Behind for the Services of this cluster. It needs ListServices and DescribeClusterDetail.
func (c *View) Behind(ctx context.Context, lb string) (int, error) {
	services, err := c.Kube.Services(ctx)
	if err != nil {
		return 0, err
	}
	cluster, err := c.Cloud.CS.Cluster(ctx)
	if err != nil {
		return 0, fmt.Errorf("describe the cluster: %w", err)
	}
	return Behind(cluster, services, lb), nil
}
