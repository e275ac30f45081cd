package sim

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// An NLB is a network load balancer.
type NLB struct {
	ID      string            `json:"id,omitempty"`
	Name    string            `json:"name,omitempty"`
	DNSName string            `json:"dnsName,omitempty"`
	VPC     string            `json:"vpc,omitempty"`    // the cluster's if empty
	Status  string            `json:"status,omitempty"` // Active if empty
	Tags    map[string]string `json:"tags,omitempty"`
}

// nlb is the network load balancer, as far as reading its list goes:
// https://www.alibabacloud.com/help/en/slb/network-load-balancer/developer-reference/api-nlb-2022-04-30-overview
func nlb() *product {
	return &product{
		name: "nlb", version: "2022-04-30", host: "nlb.aliyuncs.com",
		refusal: failure{Status: 403, Code: "Forbidden.NoPermission", Message: "Authentication is failed for NoPermission."},
		actions: map[string]*action{"ListLoadBalancers": {do: listNLBs}},
	}
}

func fillNLBs(s *State, w *World) error {
	var errs []error
	s.NLBs, errs = index(errs, "NLB", w.NLBs, func(n *NLB) string { return n.ID }, func(i int, n *NLB) {
		n.ID = cmp.Or(n.ID, fmt.Sprintf("nlb-%d", i+1))
		n.VPC, n.Status = cmp.Or(n.VPC, s.Cluster.VPC), cmp.Or(n.Status, "Active")
		n.DNSName = cmp.Or(n.DNSName, n.ID+"."+s.Region+".nlb.aliyuncs.com")
	})
	return errors.Join(errs...)
}

func listNLBs(q *request) (any, *failure) {
	tags, bad := q.params.tags()
	if bad != nil {
		return nil, bad
	}
	shown := []reply{}
	for _, id := range slices.Sorted(maps.Keys(q.state.NLBs)) {
		n := q.state.NLBs[id]
		if (&LoadBalancer{Tags: n.Tags}).tagged(tags) {
			shown = append(shown, reply{"LoadBalancerId": n.ID, "LoadBalancerName": n.Name, "DNSName": n.DNSName, "VpcId": n.VPC, "LoadBalancerStatus": n.Status})
		}
	}
	part, next, bad := chunk(q.params, shown, 20, 100)
	if bad != nil {
		return nil, bad
	}
	return reply{"TotalCount": len(shown), "MaxResults": len(part), "NextToken": next, "LoadBalancers": part}, nil
}
