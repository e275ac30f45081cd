package nlb

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/lbremedy/lbremedy/test/sim/billing"
	"github.com/lbremedy/lbremedy/test/sim/core"
	"github.com/lbremedy/lbremedy/test/sim/ecs"
	"github.com/lbremedy/lbremedy/test/sim/quotas"
	"github.com/lbremedy/lbremedy/test/sim/ram"
	"github.com/lbremedy/lbremedy/test/sim/slb"
	"github.com/lbremedy/lbremedy/test/sim/vpc"
)

// A State holds the network load balancers of a region.
type State struct {
	*core.State
	NLBs         map[string]*NLB
	ServerGroups map[string]*ServerGroup

	vpc     *vpc.State
	ecs     *ecs.State
	ram     *ram.State
	quotas  *quotas.State
	billing *billing.State
	slb     *slb.State
}

// New returns the state, with defaults for load balancers and server groups.
func New(base *core.State, nlbs []NLB, groups []ServerGroup) (*State, error) {
	s := &State{
		State: base, vpc: core.Part[*vpc.State](base), ecs: core.Part[*ecs.State](base), ram: core.Part[*ram.State](base),
		quotas: core.Part[*quotas.State](base), billing: core.Part[*billing.State](base), slb: core.Part[*slb.State](base),
	}
	base.Add(s)
	var twice error
	s.ServerGroups, twice = core.Index("server group", groups, func(g *ServerGroup) string { return g.ID }, func(i int, g *ServerGroup) {
		g.ID = cmp.Or(g.ID, fmt.Sprintf("sgp-%d", i+1))
		g.fill(s)
	})
	return s, errors.Join(twice, s.fillNLBs(nlbs))
}

// Settle updates the state after an edit.
func (s *State) Settle() {
	for _, n := range s.NLBs {
		for _, z := range n.Zones {
			if a, err := netip.ParseAddr(z.Address); err == nil {
				s.vpc.Take(a, z.VSwitch)
			}
			if a, err := netip.ParseAddr(z.Public); err == nil {
				s.vpc.Take(a, "")
			}
		}
	}
	for id, g := range s.ServerGroups {
		g.ID = id
		g.fill(s)
	}
	for _, id := range slices.Sorted(maps.Keys(s.NLBs)) {
		n := s.NLBs[id]
		n.ID = id
		_ = n.fill(s) // an edit may leave invalid references, as the cloud does
	}
}

// Has reports whether a load balancer, server group or listener with this ID exists.
func (s *State) Has(id string) bool {
	_, l := s.nlbListener(id)
	return s.NLBs[id] != nil || s.ServerGroups[id] != nil || l != nil
}

// Guarded reports whether a security group contains a load balancer.
func (s *State) Guarded(securityGroup string) bool {
	for _, n := range s.NLBs {
		if slices.Contains(n.SecurityGroups, securityGroup) {
			return true
		}
	}
	return false
}

func (s *State) fillNLBs(list []NLB) error {
	var errs, bad []error
	for _, n := range list { // stated addresses first, so they stay free
		for _, z := range n.Zones {
			if a, err := netip.ParseAddr(z.Address); z.Address != "" && (err != nil || !s.vpc.Take(a, z.VSwitch)) {
				errs = append(errs, fmt.Errorf("NLB %s: bad address %s, or it occurs twice", n.ID, z.Address))
			}
			if a, err := netip.ParseAddr(z.Public); z.Public != "" && (err != nil || !s.vpc.Take(a, "")) {
				errs = append(errs, fmt.Errorf("NLB %s: bad address %s, or it occurs twice", n.ID, z.Public))
			}
		}
	}
	var twice error
	s.NLBs, twice = core.Index("NLB", list, func(n *NLB) string { return n.ID }, func(i int, n *NLB) {
		n.ID = cmp.Or(n.ID, fmt.Sprintf("nlb-%d", i+1))
		if n.Created.IsZero() {
			n.Created = s.Started.Add(-24 * time.Hour)
		}
		if err := n.fill(s); err != nil {
			bad = append(bad, fmt.Errorf("NLB %s: %w", n.ID, err))
		}
	})
	return errors.Join(append(append(errs, twice), bad...)...)
}

type request struct {
	*core.Request
	state *State
}

func on(do func(*request) (any, *core.Failure)) func(*core.Request) (any, *core.Failure) {
	return func(q *core.Request) (any, *core.Failure) { return do(&request{q, core.Part[*State](q.State)}) }
}

// job starts a job and returns its ID. The job ends with finish or, if it fails, undo.
func (q *request) job(finish, undo func(*State)) string { return q.Job(core.On(finish), core.On(undo)) }

func getJobStatus(q *request) (any, *core.Failure) {
	j := q.State.Jobs()[q.Params["JobId"]]
	if j == nil {
		return nil, notFound("job")
	}
	return core.Reply{"Status": j.Status()}, nil
}

func listAsynJobs(q *request) (any, *core.Failure) {
	ids := q.Params.List("JobIds")
	list := []core.Reply{}
	for _, id := range slices.Sorted(maps.Keys(q.State.Jobs())) {
		if slices.Contains(ids, id) {
			list = append(list, core.Reply{"Id": id, "Status": q.State.Jobs()[id].Status()})
		}
	}
	return core.Reply{"Jobs": list, "TotalCount": strconv.Itoa(len(list))}, nil
}
