package hand

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/remedy"
)

// A Snapshot is how the load balancers of a case stood before a plan of medium or
// high risk was applied. It is for people: nothing is put back from it by itself.
type Snapshot struct {
	Case      string        `json:"case"`
	Cluster   string        `json:"cluster"`
	Class     string        `json:"class"`
	Service   event.Service `json:"service"`
	Attempt   int           `json:"attempt"`   // that was about to write
	At        time.Time     `json:"at"`        // which the engine says
	Balancers []Standing    `json:"balancers"` // none: the Service has no load balancer that can be found
}

// A Standing is how one load balancer stood.
type Standing struct {
	ID   string                     `json:"id"`
	Gone bool                       `json:"gone,omitempty"` // the API says that there is none of this ID
	CLB  *cloud.LoadBalancer        `json:"clb,omitempty"`  // with its tags
	NLB  *cloud.NetworkLoadBalancer `json:"nlb,omitempty"`  // with its tags

	Listeners        []cloud.Listener           `json:"listeners,omitempty"`        // of a CLB
	Groups           []cloud.VServerGroup       `json:"groups,omitempty"`           // of a CLB, with rules and backends
	NetworkListeners []cloud.NetworkListener    `json:"networkListeners,omitempty"` // of an NLB
	Servers          map[string][]cloud.Backend `json:"servers,omitempty"`          // of an NLB, by the ID of their server group
}

// snapshot reads how the load balancers stand that the steps write to, and the ones
// that are the Service's by its label or by the way in which the controller finds them.
func (l Local) snapshot(ctx context.Context, c *remedy.Case, steps []remedy.Step) (*Snapshot, error) {
	at := c.View
	at.Cloud = at.Cloud.Once()
	s := &Snapshot{Case: c.ID, Cluster: c.Event.Cluster, Class: c.Remedy.Class, Service: c.Event.Service, Attempt: c.Attempt, Balancers: []Standing{}}
	var ids []string
	for _, step := range steps {
		for _, kind := range []string{"slb/", "nlb/"} {
			if id, ok := strings.CutPrefix(step.Target(), kind); ok {
				ids = append(ids, id)
			}
		}
	}
	if id := c.Service.Labels[ccm.BalancerLabel]; ccm.Identifier(id) {
		ids = append(ids, id)
	}
	bound, err := at.Bound(ctx)
	if err != nil {
		return nil, err
	}
	if bound != nil {
		ids = append(ids, bound.ID)
	}
	slices.Sort(ids)
	for _, id := range slices.Compact(ids) {
		standing, err := standingOf(ctx, &at, id)
		if err != nil {
			return nil, err
		}
		s.Balancers = append(s.Balancers, standing)
	}
	return s, nil
}

// standingOf reads how a load balancer of the Service's kind stands.
func standingOf(ctx context.Context, c *ccm.View, id string) (Standing, error) {
	lb, err := c.Named(ctx, id)
	if err != nil {
		return Standing{}, err
	}
	if lb == nil {
		return Standing{ID: id, Gone: true}, nil
	}
	s := Standing{ID: id, CLB: lb.CLB, NLB: lb.NLB}
	if lb.NLB != nil {
		if s.NetworkListeners, err = c.Cloud.NLB.Listeners(ctx, id); err != nil {
			return Standing{}, fmt.Errorf("list listeners of %s: %w", id, err)
		}
		s.Servers = map[string][]cloud.Backend{}
		for _, l := range s.NetworkListeners {
			if _, ok := s.Servers[l.ServerGroup]; ok || l.ServerGroup == "" {
				continue
			}
			if s.Servers[l.ServerGroup], err = c.Cloud.NLB.Servers(ctx, l.ServerGroup); err != nil {
				return Standing{}, fmt.Errorf("list the servers of %s: %w", l.ServerGroup, err)
			}
		}
		return s, nil
	}
	if s.Listeners, err = c.Cloud.SLB.Listeners(ctx, id); err != nil {
		return Standing{}, fmt.Errorf("list listeners of %s: %w", id, err)
	}
	if s.Groups, err = c.Cloud.SLB.VServerGroups(ctx, id); err != nil {
		return Standing{}, fmt.Errorf("list vServer groups of %s: %w", id, err)
	}
	for i, g := range s.Groups {
		whole, err := c.Cloud.SLB.VServerGroup(ctx, g.ID)
		if errors.Is(err, cloud.ErrNotFound) {
			continue // it went meanwhile
		}
		if err != nil {
			return Standing{}, fmt.Errorf("describe vServer group %s: %w", g.ID, err)
		}
		s.Groups[i].Backends = whole.Backends
	}
	return s, nil
}
