package cloud

import (
	"context"

	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/requests"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/nlb"
)

// NLB reads network load balancers.
type NLB struct{ c *client }

// A NetworkLoadBalancer is an NLB instance.
type NetworkLoadBalancer struct {
	ID      string
	Name    string
	DNSName string // its address, a host name
	VPC     string // ID
	Status  string // "Active", "Provisioning" and the steps between
}

// LoadBalancers returns the network load balancers of the region that carry the
// tag, sorted by ID.
//
// It needs grant.ListNLBs.
func (n NLB) LoadBalancers(ctx context.Context, tagKey, tagValue string) ([]NetworkLoadBalancer, error) {
	const action = "ListLoadBalancers"
	if tagKey == "" {
		return nil, absent("nlb", action, "tag key")
	}
	type wireNLB struct {
		LoadBalancerID     text `json:"LoadBalancerId"`
		LoadBalancerName   text
		DNSName            text
		VpcID              text `json:"VpcId"`
		LoadBalancerStatus text
	}
	type answer struct {
		TotalCount    number
		NextToken     text
		LoadBalancers []wireNLB
	}
	list, err := chained("nlb", action, func(token string) (pageOf[NetworkLoadBalancer], error) {
		a, err := read(ctx, n.c, call[answer]{
			request: func() requests.AcsRequest {
				r := nlb.CreateListLoadBalancersRequest()
				r.Tag = &[]nlb.ListLoadBalancersTag{{Key: tagKey, Value: tagValue}}
				r.MaxResults, r.NextToken = whole(100), token
				return r
			},
			check: func(a answer) error {
				switch {
				case !a.TotalCount.ok:
					return lack("TotalCount")
				case a.TotalCount.n > 0 && a.LoadBalancers == nil:
					return lack("LoadBalancers")
				}
				for _, w := range a.LoadBalancers {
					if w.LoadBalancerID == "" || w.VpcID == "" || w.LoadBalancerStatus == "" {
						return lack("ID, VPC and status of network load balancer %q", w.LoadBalancerID)
					}
				}
				return nil
			},
		})
		p := pageOf[NetworkLoadBalancer]{next: string(a.NextToken)}
		for _, w := range a.LoadBalancers {
			p.items = append(p.items, NetworkLoadBalancer{
				ID: string(w.LoadBalancerID), Name: string(w.LoadBalancerName), DNSName: string(w.DNSName), VPC: string(w.VpcID), Status: string(w.LoadBalancerStatus),
			})
		}
		return p, err
	})
	if err != nil {
		return nil, err
	}
	return sorted(list, func(l NetworkLoadBalancer) string { return l.ID }), nil
}
