package slb

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/lbremedy/lbremedy/test/sim/billing"
	"github.com/lbremedy/lbremedy/test/sim/core"
	"github.com/lbremedy/lbremedy/test/sim/ecs"
	"github.com/lbremedy/lbremedy/test/sim/quotas"
	"github.com/lbremedy/lbremedy/test/sim/ram"
	"github.com/lbremedy/lbremedy/test/sim/vpc"
)

// A LoadBalancer is a CLB instance.
type LoadBalancer struct {
	ID                     string            `json:"id,omitempty"`
	Name                   string            `json:"name,omitempty"`
	Address                string            `json:"address,omitempty"`     // default: the next free one
	AddressType            string            `json:"addressType,omitempty"` // intranet if a vSwitch is named, else internet
	IPVersion              string            `json:"ipVersion,omitempty"`   // ipv4 if empty
	VPC                    string            `json:"vpc,omitempty"`         // the vSwitch's if empty
	VSwitch                string            `json:"vswitch,omitempty"`
	MasterZone             string            `json:"masterZone,omitempty"`
	SlaveZone              string            `json:"slaveZone,omitempty"`
	Spec                   string            `json:"spec,omitempty"`               // empty with PayBySpec: a shared-resource instance
	ChargeType             string            `json:"chargeType,omitempty"`         // PayByCLCU without a spec, else PayBySpec
	InternetChargeType     string            `json:"internetChargeType,omitempty"` // paybytraffic if empty
	Bandwidth              int               `json:"bandwidth,omitempty"`
	PayType                string            `json:"payType,omitempty"` // PayOnDemand if empty; PrePay is a subscription
	Tags                   map[string]string `json:"tags,omitempty"`
	ModificationProtection Protection        `json:"modificationProtection,omitzero"`
	DeleteProtection       bool              `json:"deleteProtection,omitempty"`
	ResourceGroup          string            `json:"resourceGroup,omitempty"`
	Status                 string            `json:"status,omitempty"` // active if empty
	Created                time.Time         `json:"created,omitzero"`
	Listeners              []Listener        `json:"listeners,omitempty"`
	VGroups                []VGroup          `json:"vgroups,omitempty"`
}

// A Protection keeps a load balancer from being changed in the console.
type Protection struct {
	Status string `json:"status,omitempty"` // NonProtection if empty, or ConsoleProtection
	Reason string `json:"reason,omitempty"`
}

// A Listener is a port that a load balancer forwards.
type Listener struct {
	Port        int               `json:"port"`
	Protocol    string            `json:"protocol,omitempty"` // tcp if empty
	VGroup      string            `json:"vgroup,omitempty"`   // ID
	Description string            `json:"description,omitempty"`
	Status      string            `json:"status,omitempty"` // default in a World: running; a created one is stopped
	Scheduler   string            `json:"scheduler,omitempty"`
	Bandwidth   int               `json:"bandwidth,omitempty"`
	Config      map[string]string `json:"config,omitempty"` // other parameters by their API names
	Rules       []Rule            `json:"rules,omitempty"`
	Domains     []Domain          `json:"domains,omitempty"` // further domains of an HTTPS listener
}

// A Rule forwards some requests of an HTTP listener to another group.
type Rule struct {
	ID     string `json:"id,omitempty"`
	Name   string `json:"name,omitempty"`
	Domain string `json:"domain,omitempty"`
	URL    string `json:"url,omitempty"`
	VGroup string `json:"vgroup,omitempty"`
}

// A Domain is a further domain of an HTTPS listener, with its certificate.
type Domain struct {
	ID          string `json:"id,omitempty"`
	Name        string `json:"name,omitempty"`
	Certificate string `json:"certificate,omitempty"`
}

// A VGroup is a vServer group: a group of backends.
type VGroup struct {
	ID       string    `json:"id,omitempty"`
	Name     string    `json:"name,omitempty"`
	Backends []Backend `json:"backends,omitempty"`
}

// A Backend is a server of a load balancer.
type Backend struct {
	Server      string `json:"server,omitempty"` // ID of an instance or an ENI
	IP          string `json:"ip,omitempty"`
	Type        string `json:"type,omitempty"` // ecs if empty, or eni
	Port        int    `json:"port,omitempty"`
	Weight      *int   `json:"weight,omitempty"` // 100 if nil
	Description string `json:"description,omitempty"`
}

// A Certificate is a server certificate that HTTPS listeners use.
type Certificate struct {
	ID      string            `json:"id,omitempty"`
	Name    string            `json:"name,omitempty"`
	Domain  string            `json:"domain,omitempty"` // common name
	Names   []string          `json:"names,omitempty"`  // alternative names
	Expires time.Time         `json:"expires,omitzero"`
	Tags    map[string]string `json:"tags,omitempty"`
}

// A State holds a region's load balancers, which can be changed in place.
type State struct {
	*core.State
	LoadBalancers map[string]*LoadBalancer
	ACLs          map[string]*ACL
	Certificates  map[string]*Certificate
	KnownServers  bool

	groups  map[string]string // vServer group ID to load balancer ID
	vpc     *vpc.State
	ecs     *ecs.State
	ram     *ram.State
	quotas  *quotas.State
	billing *billing.State
}

// A Start is the initial state.
type Start struct {
	LoadBalancers []LoadBalancer
	ACLs          []ACL
	Certificates  []Certificate
	KnownServers  bool
}

// New returns the state, with defaults set.
func New(base *core.State, w Start) (*State, error) {
	s := &State{
		State: base, KnownServers: w.KnownServers, groups: map[string]string{}, vpc: core.Part[*vpc.State](base), ecs: core.Part[*ecs.State](base),
		ram: core.Part[*ram.State](base), quotas: core.Part[*quotas.State](base), billing: core.Part[*billing.State](base),
	}
	base.Add(s)
	var certificates error
	s.Certificates, certificates = core.Index("certificate", w.Certificates, func(c *Certificate) string { return c.ID }, func(i int, c *Certificate) {
		c.ID = cmp.Or(c.ID, fmt.Sprintf("cert-%d", i+1))
	})
	return s, errors.Join(s.fillLoadBalancers(w.LoadBalancers), s.fillACLs(w.ACLs), certificates)
}

// Settle sets defaults of added objects after an edit and indexes them. A load balancer without an address gets one.
func (s *State) Settle() {
	clear(s.groups)
	for _, lb := range s.LoadBalancers {
		if a, err := netip.ParseAddr(lb.Address); err == nil {
			s.vpc.Take(a, lb.VSwitch)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(s.LoadBalancers)) {
		lb := s.LoadBalancers[id]
		lb.ID, lb.AddressType, lb.ChargeType = id, cmp.Or(lb.AddressType, "internet"), cmp.Or(lb.ChargeType, "PayByCLCU")
		lb.fill(s)
		lb.complete(s)
		if lb.Address == "" {
			lb.Address, _ = s.address(lb)
		}
		s.vpc.AddZone(lb.MasterZone)
		s.vpc.AddZone(lb.SlaveZone)
	}
	for id, a := range s.ACLs {
		a.ID = id
		a.fill(s)
	}
	for id, c := range s.Certificates {
		c.ID = id
	}
}

func (s *State) fillLoadBalancers(list []LoadBalancer) error {
	var errs []error
	for _, lb := range list { // stated addresses first, so they stay free
		if a, err := netip.ParseAddr(lb.Address); lb.Address != "" && err != nil {
			errs = append(errs, fmt.Errorf("load balancer %s: %w", lb.ID, err))
		} else if err == nil && !s.vpc.Take(a, lb.VSwitch) {
			errs = append(errs, fmt.Errorf("address %s occurs twice", lb.Address))
		}
	}
	var bad []error // of the loop below
	var twice error
	s.LoadBalancers, twice = core.Index("load balancer", list, func(lb *LoadBalancer) string { return lb.ID }, func(i int, lb *LoadBalancer) {
		lb.ID = cmp.Or(lb.ID, fmt.Sprintf("lb-%d", i+1))
		if lb.AddressType == "" {
			lb.AddressType = "internet"
			if lb.VSwitch != "" {
				lb.AddressType = "intranet"
			}
		}
		if v := s.vpc.VSwitches[lb.VSwitch]; v != nil {
			lb.VPC, lb.MasterZone = cmp.Or(lb.VPC, v.VPC), cmp.Or(lb.MasterZone, v.Zone)
		}
		if lb.ChargeType == "" {
			lb.ChargeType = "PayByCLCU"
			if lb.Spec != "" {
				lb.ChargeType = "PayBySpec"
			}
		}
		lb.fill(s)
		if lb.Created.IsZero() {
			lb.Created = s.Started.Add(-24 * time.Hour)
		}
		if lb.Address == "" {
			a, ok := s.address(lb)
			if !ok {
				bad = append(bad, fmt.Errorf("load balancer %s: no address left", lb.ID))
				return
			}
			lb.Address = a
		}
		s.vpc.AddZone(lb.MasterZone)
		s.vpc.AddZone(lb.SlaveZone)
		for _, err := range lb.complete(s) {
			bad = append(bad, fmt.Errorf("load balancer %s: %w", lb.ID, err))
		}
	})
	return errors.Join(append(append(errs, twice), bad...)...)
}

func (s *State) fillACLs(list []ACL) error {
	var err error
	s.ACLs, err = core.Index("ACL", list, func(a *ACL) string { return a.ID }, func(i int, a *ACL) {
		a.ID = cmp.Or(a.ID, fmt.Sprintf("acl-%d", i+1))
		a.fill(s)
	})
	errs := []error{err}
	for _, a := range s.ACLs {
		for _, e := range a.Entries {
			if _, err := netip.ParsePrefix(e.Block); err != nil {
				errs = append(errs, fmt.Errorf("ACL %s: %w", a.ID, err))
			}
		}
	}
	return errors.Join(errs...)
}

func (lb *LoadBalancer) complete(s *State) []error {
	var errs []error
	for n := range lb.VGroups {
		g := &lb.VGroups[n]
		g.ID = cmp.Or(g.ID, fmt.Sprintf("rsp-%s-%d", lb.ID, n+1))
		if s.groups[g.ID] != "" {
			errs = append(errs, fmt.Errorf("vServer group %s occurs twice", g.ID))
		}
		s.groups[g.ID] = lb.ID
		for k := range g.Backends {
			g.Backends[k].fill()
		}
	}
	for n := range lb.Listeners {
		l := &lb.Listeners[n]
		l.fill()
		l.Status = cmp.Or(l.Status, "running")
		for k := range l.Rules {
			l.Rules[k].ID = cmp.Or(l.Rules[k].ID, fmt.Sprintf("rule-%s-%d-%d", lb.ID, l.Port, k+1))
		}
		if l.VGroup != "" && lb.vgroup(l.VGroup) == nil {
			errs = append(errs, fmt.Errorf("listener %d: there is no vServer group %s", l.Port, l.VGroup))
		}
	}
	return errs
}

func (lb *LoadBalancer) fill(s *State) {
	lb.IPVersion = cmp.Or(lb.IPVersion, "ipv4")
	lb.PayType = cmp.Or(lb.PayType, "PayOnDemand")
	lb.Status = cmp.Or(lb.Status, "active")
	lb.InternetChargeType = cmp.Or(lb.InternetChargeType, "paybytraffic")
	lb.MasterZone = cmp.Or(lb.MasterZone, s.Region+"-h")
	if lb.SlaveZone == "" {
		lb.SlaveZone = s.Region + "-i"
		if lb.MasterZone == lb.SlaveZone {
			lb.SlaveZone = s.Region + "-h"
		}
	}
	lb.ResourceGroup = cmp.Or(lb.ResourceGroup, s.ResourceGroup())
	lb.ModificationProtection.Status = cmp.Or(lb.ModificationProtection.Status, "NonProtection")
	if lb.Tags == nil {
		lb.Tags = map[string]string{}
	}
}

func (b *Backend) fill() {
	b.Type = cmp.Or(b.Type, "ecs")
	if b.Weight == nil {
		b.Weight = new(100)
	}
}

func (l *Listener) fill() {
	l.Protocol = cmp.Or(strings.ToLower(l.Protocol), "tcp")
	l.Scheduler = cmp.Or(l.Scheduler, "wrr")
	l.Bandwidth = cmp.Or(l.Bandwidth, -1)
	if l.Config == nil {
		l.Config = map[string]string{}
	}
}

func (lb *LoadBalancer) vgroup(id string) *VGroup {
	for i := range lb.VGroups {
		if lb.VGroups[i].ID == id {
			return &lb.VGroups[i]
		}
	}
	return nil
}

// address takes an address of a load balancer's vSwitch or a public one, without changing VSwitch.Free; false if all are taken.
func (s *State) address(lb *LoadBalancer) (string, bool) {
	switch {
	case lb.IPVersion == "ipv6":
		return s.vpc.IPv6(lb.VSwitch)
	case lb.AddressType == "intranet" && s.vpc.VSwitches[lb.VSwitch] != nil:
		return s.vpc.Private(lb.VSwitch)
	}
	return s.vpc.Public()
}

// Drop deletes a load balancer and releases its address.
func (s *State) Drop(id string) {
	lb := s.LoadBalancers[id]
	if lb == nil {
		return
	}
	delete(s.LoadBalancers, id)
	s.vpc.Stock(lb.MasterZone, 1)
	for _, g := range lb.VGroups {
		delete(s.groups, g.ID)
	}
	vswitch := ""
	if lb.AddressType == "intranet" {
		vswitch = lb.VSwitch
	}
	s.vpc.Release(lb.Address, vswitch)
}

type request struct {
	*core.Request
	state *State
}

func on(do func(*request) (any, *core.Failure)) func(*core.Request) (any, *core.Failure) {
	return func(q *core.Request) (any, *core.Failure) { return do(&request{q, core.Part[*State](q.State)}) }
}
