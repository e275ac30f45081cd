package sim

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/lbremedy/lbremedy/test/sim/billing"
	"github.com/lbremedy/lbremedy/test/sim/core"
	"github.com/lbremedy/lbremedy/test/sim/cs"
	"github.com/lbremedy/lbremedy/test/sim/ecs"
	"github.com/lbremedy/lbremedy/test/sim/nlb"
	"github.com/lbremedy/lbremedy/test/sim/quotas"
	"github.com/lbremedy/lbremedy/test/sim/ram"
	"github.com/lbremedy/lbremedy/test/sim/slb"
	"github.com/lbremedy/lbremedy/test/sim/support"
	"github.com/lbremedy/lbremedy/test/sim/vpc"
)

// A State is the current state of a Cloud: a World with defaults, indexed by ID, with a part for each product. Maps are non-nil,
// and their elements can be changed in place.
type State struct {
	*coreState
	*billingState
	*quotasState
	*ramState
	*vpcState
	*ecsState
	*slbState
	*nlbState
	*csState
	*supportState
}

// Distinct names for the parts, which are all called State.
type (
	coreState    = core.State
	billingState = billing.State
	quotasState  = quotas.State
	ramState     = ram.State
	vpcState     = vpc.State
	ecsState     = ecs.State
	slbState     = slb.State
	nlbState     = nlb.State
	csState      = cs.State
	supportState = support.State
)

const (
	defaultRegion  = "cn-hangzhou"
	defaultAccount = "1298765432101234"
)

// newState sets the defaults of w, which it keeps. A product comes after the ones that it needs.
func newState(w *World, now func() time.Time) (*State, error) {
	s := &State{coreState: core.NewState(cmp.Or(w.Region, defaultRegion), cmp.Or(w.AccountID, defaultAccount), now)}
	base := s.coreState
	s.Lag, s.ForgetTokens = w.Lag, w.ForgetTokens
	s.Made, s.Copy = s.made, s.copy
	if len(w.VPCs) == 0 {
		w.VPCs = []VPC{{ID: cmp.Or(w.Cluster.VPC, "vpc-1")}}
	}
	if len(w.VSwitches) == 0 {
		w.VSwitches = []VSwitch{{ID: "vsw-1"}}
	}
	if w.Quotas == nil {
		w.Quotas = slices.Concat(slb.Quotas(), nlb.Quotas(), vpc.Quotas())
	}
	errs := make([]error, 9)
	errs[0] = w.Cluster.Fill(w.VPCs[0].ID)
	s.Home = w.Cluster.VPC
	w.LoadBalancers = w.Cluster.AddAPIServer(w.LoadBalancers, w.VSwitches)
	s.billingState, errs[1] = billing.New(base, w.Account)
	s.quotasState, errs[2] = quotas.New(base, w.Quotas, w.QuotaApplications)
	s.ramState, errs[3] = ram.New(base, ram.Start{
		Settings: w.RAM, Roles: w.Roles, Needed: []string{w.Cluster.MasterRole, w.Cluster.WorkerRole}, Policies: w.Policies,
		OIDCProviders: w.OIDCProviders, Callers: w.Callers,
	})
	s.vpcState, errs[4] = vpc.New(base, vpc.Start{VPCs: w.VPCs, VSwitches: w.VSwitches, Zones: w.Zones, RouteTables: w.RouteTables, EIPs: w.EIPs})
	s.ecsState, errs[5] = ecs.New(base, ecs.Start{Instances: w.Instances, ENIs: w.ENIs, SecurityGroups: w.SecurityGroups})
	s.slbState, errs[6] = slb.New(base, slb.Start{LoadBalancers: w.LoadBalancers, ACLs: w.ACLs, Certificates: w.Certificates, KnownServers: w.KnownServers})
	s.nlbState, errs[7] = nlb.New(base, w.NLBs, w.ServerGroups)
	s.csState = cs.New(base, w.Cluster)
	s.supportState, errs[8] = support.New(base, w.Tickets)
	s.quotasState.Used = s.used
	s.vpcState.Balancers, s.vpcState.Instance = s.balancers, func(id string) bool { return s.Instances[id] != nil }
	s.ecsState.InUse = s.nlbState.Guarded
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *State) made(id string) bool {
	return s.LoadBalancers[id] != nil || s.SecurityGroups[id] != nil || s.nlbState.Has(id)
}

func (s *State) copy() (*core.State, error) {
	c, err := newState(s.world(), s.Now)
	if err != nil {
		return nil, err
	}
	return c.coreState, nil
}

func (s *State) used(quota string) (int, bool) {
	if n, ok := s.slbState.Used(quota); ok {
		return n, true
	}
	return s.nlbState.Used(quota)
}

func (s *State) balancers(vswitch string) int {
	n := 0
	for _, lb := range s.LoadBalancers {
		if lb.VSwitch == vswitch {
			n++
		}
	}
	return n
}

func (s *State) advance(now time.Time) {
	s.coreState.Advance(now)
	s.quotasState.Audit(now)
}

func (s *State) adopt(was *State) {
	s.coreState.Adopt(was.coreState)
	s.quotasState.Adopt(was.quotasState)
	s.ramState.Adopt(was.ramState)
	s.vpcState.Adopt(was.vpcState)
	s.csState.Adopt(was.csState)
}

func (s *State) settle() {
	s.Home = s.Cluster.VPC
	s.vpcState.Settle()
	s.slbState.Settle()
	s.csState.Settle()
	s.nlbState.Settle()
	s.ecsState.Settle()
	s.quotasState.Settle()
	s.ramState.Settle()
}

func (s *State) world() *World {
	w := &World{
		Region: s.Region, AccountID: s.AccountID, Account: s.Account, Cluster: s.Cluster, RAM: s.RAM, Lag: s.Lag,
		ForgetTokens: s.ForgetTokens, KnownServers: s.KnownServers,
		VPCs: core.Sorted(s.VPCs), VSwitches: core.Sorted(s.VSwitches), Zones: core.Sorted(s.Zones), RouteTables: core.Sorted(s.RouteTables),
		EIPs: core.Sorted(s.EIPs), ENIs: core.Sorted(s.ENIs), Instances: core.Sorted(s.Instances), SecurityGroups: core.Sorted(s.SecurityGroups),
		LoadBalancers: core.Sorted(s.LoadBalancers), ACLs: core.Sorted(s.ACLs), Certificates: core.Sorted(s.Certificates),
		NLBs: core.Sorted(s.NLBs), ServerGroups: core.Sorted(s.ServerGroups),
		Roles: core.Sorted(s.Roles), Policies: core.Sorted(s.Policies), OIDCProviders: core.Sorted(s.OIDCProviders), Callers: core.Sorted(s.Callers),
		Quotas: s.Quotas, QuotaApplications: core.Sorted(s.QuotaApplications), Tickets: core.Sorted(s.Tickets),
	}
	c := w.Clone()
	for i := range c.LoadBalancers {
		lb := &c.LoadBalancers[i]
		slices.SortFunc(lb.Listeners, func(a, b Listener) int {
			return cmp.Or(cmp.Compare(a.Port, b.Port), cmp.Compare(a.Protocol, b.Protocol))
		})
		slices.SortFunc(lb.VGroups, func(a, b VGroup) int { return cmp.Compare(a.ID, b.ID) })
		for _, g := range lb.VGroups {
			slices.SortFunc(g.Backends, func(a, b Backend) int {
				return cmp.Or(cmp.Compare(a.Server, b.Server), cmp.Compare(a.IP, b.IP), cmp.Compare(a.Port, b.Port))
			})
		}
	}
	for i := range c.Roles {
		slices.Sort(c.Roles[i].Policies)
	}
	return c
}
