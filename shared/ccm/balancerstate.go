package ccm

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/lbremedy/lbremedy/shared/cloud"
)

// A BalancerState is the state of one load balancer.
type BalancerState struct {
	ID   string                     `json:"id"`
	Gone bool                       `json:"gone,omitempty"` // it does not exist according to the API
	CLB  *cloud.LoadBalancer        `json:"clb,omitempty"`  // with its tags
	NLB  *cloud.NetworkLoadBalancer `json:"nlb,omitempty"`  // with its tags

	Listeners        []cloud.Listener           `json:"listeners,omitempty"`        // of a CLB
	Groups           []cloud.VServerGroup       `json:"groups,omitempty"`           // of a CLB, with rules and backends
	NetworkListeners []cloud.NetworkListener    `json:"networkListeners,omitempty"` // of an NLB
	Servers          map[string][]cloud.Backend `json:"servers,omitempty"`          // of an NLB, by the ID of their server group
}

// BalancerStates reads the state of the load balancers among the targets of steps, and of the Service's by label or by the controller's search.
func (c *View) BalancerStates(ctx context.Context, targets []string) ([]BalancerState, error) {
	once := *c
	once.Cloud = c.Cloud.Once()
	c = &once
	var ids []string
	for _, target := range targets {
		for _, kind := range []string{"slb/", "nlb/"} {
			if id, ok := strings.CutPrefix(target, kind); ok {
				ids = append(ids, id)
			}
		}
	}
	if id := c.Service.Labels[BalancerLabel]; Identifier(id) {
		ids = append(ids, id)
	}
	bound, err := c.Bound(ctx)
	if err != nil {
		return nil, err
	}
	if bound != nil {
		ids = append(ids, bound.ID)
	}
	slices.Sort(ids)
	all := []BalancerState{}
	for _, id := range slices.Compact(ids) {
		standing, err := c.balancerState(ctx, id)
		if err != nil {
			return nil, err
		}
		all = append(all, standing)
	}
	return all, nil
}

func (c *View) balancerState(ctx context.Context, id string) (BalancerState, error) {
	lb, err := c.Named(ctx, id)
	if err != nil {
		return BalancerState{}, err
	}
	if lb == nil {
		return BalancerState{ID: id, Gone: true}, nil
	}
	s := BalancerState{ID: id, CLB: lb.CLB, NLB: lb.NLB}
	if lb.NLB != nil {
		if s.NetworkListeners, err = c.Cloud.NLB.Listeners(ctx, id); err != nil {
			return BalancerState{}, fmt.Errorf("list listeners of %s: %w", id, err)
		}
		s.Servers = map[string][]cloud.Backend{}
		for _, l := range s.NetworkListeners {
			if _, ok := s.Servers[l.ServerGroup]; ok || l.ServerGroup == "" {
				continue
			}
			if s.Servers[l.ServerGroup], err = c.Cloud.NLB.Servers(ctx, l.ServerGroup); err != nil {
				return BalancerState{}, fmt.Errorf("list the servers of %s: %w", l.ServerGroup, err)
			}
		}
		return s, nil
	}
	if s.Listeners, err = c.Cloud.SLB.Listeners(ctx, id); err != nil {
		return BalancerState{}, fmt.Errorf("list listeners of %s: %w", id, err)
	}
	s.Groups, err = c.WholeGroups(ctx, lb)
	return s, err
}
