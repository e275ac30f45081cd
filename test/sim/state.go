package sim

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/bits"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// A State is the present state of a Cloud: a World whose defaults are filled in
// and whose resources are found by ID. All maps are non-nil; load balancers,
// policies and so on are the live ones, to be changed in place.
type State struct {
	Region            string
	AccountID         string
	Account           Account
	Cluster           Cluster
	VPCs              map[string]*VPC
	VSwitches         map[string]*VSwitch // Free is never nil
	Zones             map[string]*Zone
	RouteTables       map[string]*RouteTable
	LoadBalancers     map[string]*LoadBalancer
	NLBs              map[string]*NLB
	ServerGroups      map[string]*ServerGroup
	SecurityGroups    map[string]*SecurityGroup
	EIPs              map[string]*EIP
	ENIs              map[string]*ENI
	Instances         map[string]*Instance
	ACLs              map[string]*ACL
	Certificates      map[string]*Certificate
	RAM               RAM
	Lag               Lag
	ForgetTokens      bool
	KnownServers      bool
	Roles             map[string]*Role
	Policies          map[string]*Policy       // by name
	OIDCProviders     map[string]*OIDCProvider // by name
	Callers           map[string]*Caller       // by access key ID
	Quotas            []Quota
	QuotaApplications map[string]*QuotaApplication
	Tickets           map[string]*Ticket

	serial      map[string]int             // last number given, by kind of ID
	tokens      map[string]settled         // what was done, by client token
	taken       map[spot]struct{}          // addresses of load balancers
	groups      map[string]string          // vServer group ID to load balancer ID
	documents   map[string]trail[string]   // of policies
	attachments map[string]trail[[]string] // policies of roles
	tagTrail    map[string]trail[map[string]string]
	freeTrail   map[string]trail[int] // of vSwitches
	jobs        map[string]*job
	pending     []*job
	tasks       map[string]*task // of the cluster
	parsed      map[string]*document
	rates       map[string]*rate // of calls, by the code of the quota
	master      string           // address of the API server, which outlives its load balancer
	now         func() time.Time
	started     time.Time
}

const (
	defaultRegion  = "cn-hangzhou"
	defaultAccount = "1298765432101234"
	defaultCluster = "c0a1b2c3d4e5f60718293a4b5c6d7e8f9"
	ccmAddon       = "cloud-controller-manager"
)

// newState fills in the defaults of w, which it keeps.
func newState(w *World, now func() time.Time) (*State, error) {
	s := &State{
		Region: cmp.Or(w.Region, defaultRegion), AccountID: cmp.Or(w.AccountID, defaultAccount),
		Account: w.Account, Cluster: w.Cluster, RAM: w.RAM, Lag: w.Lag, ForgetTokens: w.ForgetTokens, KnownServers: w.KnownServers,
		serial: map[string]int{}, tokens: map[string]settled{}, taken: map[spot]struct{}{}, groups: map[string]string{},
		documents: map[string]trail[string]{}, attachments: map[string]trail[[]string]{}, tagTrail: map[string]trail[map[string]string]{},
		freeTrail: map[string]trail[int]{}, jobs: map[string]*job{}, tasks: map[string]*task{}, parsed: map[string]*document{}, rates: map[string]*rate{}, now: now,
		started: now().UTC().Truncate(time.Second),
	}
	s.Account.Balance = cmp.Or(s.Account.Balance, "10,000.00")
	if _, err := amount(s.Account.Balance); err != nil {
		return nil, fmt.Errorf("balance: %w", err)
	}
	if _, ok := usualErrors[s.Account.Gate]; !ok && s.Account.Gate != "" {
		return nil, fmt.Errorf("gate: %s is no error that the API reference names", s.Account.Gate)
	}
	if len(w.VPCs) == 0 {
		w.VPCs = []VPC{{ID: cmp.Or(w.Cluster.VPC, "vpc-1")}}
	}
	s.Cluster.VPC = cmp.Or(s.Cluster.VPC, w.VPCs[0].ID)
	if len(w.VSwitches) == 0 {
		w.VSwitches = []VSwitch{{ID: "vsw-1"}}
	}
	addAPIServer(s, w)
	errs := []error{
		fillVPCs(s, w), fillVSwitches(s, w), fillCluster(s), fillAccess(s, w), fillServers(s, w), fillEIPs(s, w), fillLoadBalancers(s, w),
		fillSecurityGroups(s, w), fillServerGroups(s, w), fillNLBs(s, w), fillQuotas(s, w), fillACLs(s, w), fillZones(s, w), fillRoutes(s, w), fillOIDC(s, w),
	}
	s.Certificates, errs = index(errs, "certificate", w.Certificates, func(c *Certificate) string { return c.ID }, func(i int, c *Certificate) {
		c.ID = cmp.Or(c.ID, fmt.Sprintf("cert-%d", i+1))
	})
	s.Tickets, errs = index(errs, "ticket", w.Tickets, func(t *Ticket) string { return t.ID }, func(i int, t *Ticket) {
		t.ID, t.Status, t.Severity = cmp.Or(t.ID, fmt.Sprintf("T%06d", i+1)), cmp.Or(t.Status, "in_progress"), cmp.Or(t.Severity, 1)
		if t.Created.IsZero() {
			t.Created = s.started
		}
	})
	s.noteMaster()
	return s, errors.Join(errs...)
}

// index puts the elements of list in a map after fill, and adds an error for
// each ID that occurs twice.
func index[T any](errs []error, kind string, list []T, id func(*T) string, fill func(int, *T)) (map[string]*T, []error) {
	m := make(map[string]*T, len(list))
	for i := range list {
		e := &list[i]
		fill(i, e)
		if m[id(e)] != nil {
			errs = append(errs, fmt.Errorf("%s %s occurs twice", kind, id(e)))
		}
		m[id(e)] = e
	}
	return m, errs
}

func fillVPCs(s *State, w *World) error {
	var errs []error
	s.VPCs, errs = index(nil, "VPC", w.VPCs, func(v *VPC) string { return v.ID }, func(i int, v *VPC) {
		v.ID = cmp.Or(v.ID, fmt.Sprintf("vpc-%d", i+1))
		v.CIDR = cmp.Or(v.CIDR, "10.0.0.0/8")
	})
	for _, v := range s.VPCs {
		for _, c := range append([]string{v.CIDR}, v.SecondaryCIDRs...) {
			if _, err := netip.ParsePrefix(c); err != nil {
				errs = append(errs, fmt.Errorf("VPC %s: %w", v.ID, err))
			}
		}
	}
	return errors.Join(errs...)
}

func fillVSwitches(s *State, w *World) error {
	var errs []error
	s.VSwitches, errs = index(nil, "vSwitch", w.VSwitches, func(v *VSwitch) string { return v.ID }, func(i int, v *VSwitch) {
		v.ID = cmp.Or(v.ID, fmt.Sprintf("vsw-%d", i+1))
		v.VPC = cmp.Or(v.VPC, s.Cluster.VPC)
		v.Zone = cmp.Or(v.Zone, s.Region+"-h")
		v.Status = cmp.Or(v.Status, "Available")
		if vpc := s.VPCs[v.VPC]; vpc != nil && v.CIDR == "" {
			v.CIDR = subnet(vpc.CIDR, i)
		}
	})
	for _, v := range s.VSwitches {
		p, err := netip.ParsePrefix(v.CIDR)
		switch {
		case s.VPCs[v.VPC] == nil:
			errs = append(errs, fmt.Errorf("vSwitch %s: there is no VPC %s", v.ID, v.VPC))
		case err != nil || !p.Addr().Is4():
			errs = append(errs, fmt.Errorf("vSwitch %s: bad CIDR block %q", v.ID, v.CIDR))
		case v.Free == nil:
			// The first and the last three addresses of a block are the cloud's own:
			// https://www.alibabacloud.com/help/en/vpc/user-guide/create-and-manage-vswitch
			v.Free = new(max(0, 1<<(32-p.Bits())-4))
		}
	}
	return errors.Join(errs...)
}

// subnet returns the n-th /20 of a block, or the block itself if it is smaller.
func subnet(block string, n int) string {
	p, err := netip.ParsePrefix(block)
	if err != nil || !p.Addr().Is4() || p.Bits() >= 20 {
		return block
	}
	b := p.Masked().Addr().As4()
	binary.BigEndian.PutUint32(b[:], binary.BigEndian.Uint32(b[:])+uint32(n)<<12)
	return netip.PrefixFrom(netip.AddrFrom4(b), 20).String()
}

func fillCluster(s *State) error {
	c := &s.Cluster
	c.ID, c.Name = cmp.Or(c.ID, defaultCluster), cmp.Or(c.Name, "sim")
	c.Type = cmp.Or(c.Type, "ManagedKubernetes")
	c.Version = cmp.Or(c.Version, "1.34.1-aliyun.1")
	c.Network = cmp.Or(c.Network, "flannel")
	c.ServiceCIDR = cmp.Or(c.ServiceCIDR, "172.16.0.0/16")
	if c.Network == "flannel" {
		c.PodCIDR = cmp.Or(c.PodCIDR, "172.20.0.0/16")
	}
	if c.VSwitches == nil {
		for _, v := range sorted(s.VSwitches) {
			if v.VPC == c.VPC && !slices.Contains(c.PodVSwitches, v.ID) {
				c.VSwitches = append(c.VSwitches, v.ID)
			}
		}
	}
	if c.NodePools == nil {
		c.NodePools = []NodePool{{Name: "default-nodepool", Default: true}}
	}
	for i := range c.NodePools {
		p := &c.NodePools[i]
		p.Name = cmp.Or(p.Name, fmt.Sprintf("nodepool-%d", i+1))
		p.ID = cmp.Or(p.ID, "np"+strings.ToLower(derive(c.ID+p.Name, 32)))
		if p.VSwitches == nil {
			p.VSwitches = slices.Clone(c.VSwitches)
		}
	}
	if c.Addons == nil {
		c.Addons = map[string]string{}
	}
	c.Addons[ccmAddon] = cmp.Or(c.Addons[ccmAddon], "v2.12.1")
	if c.Network != "flannel" {
		c.Addons[c.Network] = cmp.Or(c.Addons[c.Network], "v1.14.0")
	}
	c.WorkerRole = cmp.Or(c.WorkerRole, "KubernetesWorkerRole-"+c.ID)
	switch c.Type {
	case "Kubernetes":
		if !c.NoMasterRole {
			c.MasterRole = cmp.Or(c.MasterRole, "KubernetesMasterRole-"+c.ID)
		}
	case "ManagedKubernetes":
	default:
		return fmt.Errorf("cluster type %q is neither ManagedKubernetes nor Kubernetes", c.Type)
	}
	return nil
}

func fillAccess(s *State, w *World) error {
	for _, name := range []string{s.Cluster.MasterRole, s.Cluster.WorkerRole} {
		if name != "" && !slices.ContainsFunc(w.Roles, func(r Role) bool { return r.Name == name }) {
			w.Roles = append(w.Roles, Role{Name: name})
		}
	}
	var errs []error
	s.Roles, errs = index(errs, "role", w.Roles, func(r *Role) string { return r.Name }, func(int, *Role) {})
	s.Policies, errs = index(errs, "policy", w.Policies, func(p *Policy) string { return p.Name }, func(_ int, p *Policy) {
		p.Type = cmp.Or(p.Type, "Custom")
		for i := range p.Versions {
			v := &p.Versions[i]
			v.ID = cmp.Or(v.ID, fmt.Sprintf("v%d", i+1))
			if v.Created.IsZero() {
				v.Created = s.started.Add(time.Duration(i-len(p.Versions)) * time.Hour)
			}
		}
		if n := len(p.Versions); n > 0 && p.current() == nil {
			p.Versions[n-1].Default = true
		}
	})
	for _, p := range s.Policies {
		if p.current() == nil {
			errs = append(errs, fmt.Errorf("policy %s has no version", p.Name))
		}
		for _, v := range p.Versions {
			if _, err := s.document(v.Document); err != nil {
				errs = append(errs, fmt.Errorf("policy %s, version %s: %w", p.Name, v.ID, err))
			}
		}
		// A policy that names a role and a role that names a policy are the same
		// thing; State keeps it with the role.
		for _, name := range p.Roles {
			r := s.Roles[name]
			if r == nil {
				r = &Role{Name: name}
				s.Roles[name] = r
			}
			if !slices.Contains(r.Policies, p.Name) {
				r.Policies = append(r.Policies, p.Name)
			}
		}
		p.Roles = nil
	}
	for _, r := range s.Roles {
		for _, name := range r.Policies {
			if s.policy(name) == nil {
				errs = append(errs, fmt.Errorf("role %s: there is no policy %s", r.Name, name))
			}
		}
	}
	s.Callers, errs = index(errs, "caller", w.Callers, func(c *Caller) string { return c.AccessKeyID }, func(_ int, c *Caller) { c.fill() })
	for _, c := range s.Callers {
		if c.Role != "" && s.Roles[c.Role] == nil {
			errs = append(errs, fmt.Errorf("caller %s: there is no role %s", c.Name, c.Role))
		}
	}
	return errors.Join(errs...)
}

func fillEIPs(s *State, w *World) error {
	var errs []error
	s.EIPs, errs = index(errs, "EIP", w.EIPs, func(e *EIP) string { return e.ID }, func(i int, e *EIP) {
		e.ID = cmp.Or(e.ID, fmt.Sprintf("eip-%d", i+1))
		if e.InstanceType == "" && e.Instance != "" {
			e.InstanceType = "SlbInstance"
		}
	})
	return errors.Join(errs...)
}

func fillServers(s *State, w *World) error {
	var errs []error
	at := func(vpc, vswitch string) string {
		if v := s.VSwitches[vswitch]; vpc == "" && v != nil {
			return v.VPC
		}
		return cmp.Or(vpc, s.Cluster.VPC)
	}
	s.ENIs, errs = index(errs, "ENI", w.ENIs, func(e *ENI) string { return e.ID }, func(i int, e *ENI) {
		e.ID, e.VPC = cmp.Or(e.ID, fmt.Sprintf("eni-%d", i+1)), at(e.VPC, e.VSwitch)
		e.Status, e.Type = cmp.Or(e.Status, "InUse"), cmp.Or(e.Type, "Secondary")
	})
	s.Instances, errs = index(errs, "instance", w.Instances, func(i *Instance) string { return i.ID }, func(n int, i *Instance) {
		i.ID, i.VPC, i.Status = cmp.Or(i.ID, fmt.Sprintf("i-%d", n+1)), at(i.VPC, i.VSwitch), cmp.Or(i.Status, "Running")
		if v := s.VSwitches[i.VSwitch]; v != nil {
			i.Zone = cmp.Or(i.Zone, v.Zone)
		}
		i.Zone = cmp.Or(i.Zone, s.Region+"-h")
	})
	return errors.Join(errs...)
}

func fillLoadBalancers(s *State, w *World) error {
	var errs []error
	for _, lb := range w.LoadBalancers { // addresses that are stated come first, so that none is given away
		if a, err := netip.ParseAddr(lb.Address); lb.Address != "" && err != nil {
			errs = append(errs, fmt.Errorf("load balancer %s: %w", lb.ID, err))
		} else if err == nil && !s.take(a, lb.VSwitch) {
			errs = append(errs, fmt.Errorf("address %s occurs twice", lb.Address))
		}
	}
	var bad []error // of the loop below
	s.LoadBalancers, errs = index(errs, "load balancer", w.LoadBalancers, func(lb *LoadBalancer) string { return lb.ID }, func(i int, lb *LoadBalancer) {
		lb.ID = cmp.Or(lb.ID, fmt.Sprintf("lb-%d", i+1))
		if lb.AddressType == "" {
			lb.AddressType = "internet"
			if lb.VSwitch != "" {
				lb.AddressType = "intranet"
			}
		}
		if v := s.VSwitches[lb.VSwitch]; v != nil {
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
			lb.Created = s.started.Add(-24 * time.Hour)
		}
		if lb.Address == "" {
			a, ok := s.address(lb)
			if !ok {
				bad = append(bad, fmt.Errorf("load balancer %s: no address left", lb.ID))
				return
			}
			lb.Address = a
		}
		for _, err := range lb.complete(s) {
			bad = append(bad, fmt.Errorf("load balancer %s: %w", lb.ID, err))
		}
	})
	return errors.Join(append(errs, bad...)...)
}

// complete fills in the defaults of what a load balancer holds, and notes whose
// its vServer groups are.
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

// adopt takes over what a World does not say from the state before.
func (s *State) adopt(was *State) {
	for kind, n := range was.serial {
		s.serial[kind] = max(s.serial[kind], n)
	}
	s.tokens, s.documents, s.attachments, s.tagTrail, s.freeTrail = was.tokens, was.documents, was.attachments, was.tagTrail, was.freeTrail
	s.jobs, s.pending, s.tasks, s.started, s.rates = was.jobs, was.pending, was.tasks, was.started, was.rates
	s.master = cmp.Or(s.master, was.master)
}

// noteMaster notes the address of the API server, which the container service goes on
// to state when its load balancer is gone.
func (s *State) noteMaster() {
	if lb := s.LoadBalancers[s.Cluster.APIServer]; lb != nil {
		s.master = lb.Address
	}
}

// settle makes the state whole after an edit: what was added gets its defaults
// and is found from now on. A load balancer without an address gets one.
func (s *State) settle() {
	for id, v := range s.VSwitches {
		v.ID = id
		if v.Free == nil {
			v.Free = new(0)
		}
	}
	clear(s.groups)
	clear(s.taken)
	for _, lb := range s.LoadBalancers {
		if a, err := netip.ParseAddr(lb.Address); err == nil {
			s.take(a, lb.VSwitch)
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
	}
	s.noteMaster()
	s.settleNLBs()
	s.addZones()
	s.addRouteTables()
	for i := range s.Quotas {
		s.Quotas[i].fill()
	}
	for id, a := range s.QuotaApplications {
		a.ID = id
		a.fill(s)
	}
	s.agree()
	for id, a := range s.ACLs {
		a.ID = id
		a.fill(s)
	}
	for id, c := range s.Certificates {
		c.ID = id
	}
	for id, p := range s.Policies {
		p.Name, p.Type = id, cmp.Or(p.Type, "Custom")
	}
	for id, k := range s.Callers {
		k.AccessKeyID = id
		k.fill()
	}
}

// fill sets what every load balancer has.
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
	lb.ResourceGroup = cmp.Or(lb.ResourceGroup, "rg-acfm"+strings.ToLower(derive(s.AccountID, 11)))
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

// publicRanges are blocks that are reserved for documentation and benchmarks
// (RFC 5737, RFC 2544): nothing answers there.
var publicRanges = []netip.Prefix{
	netip.MustParsePrefix("203.0.113.0/24"), netip.MustParsePrefix("198.51.100.0/24"),
	netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("198.18.0.0/15"),
}

// address takes an address for a load balancer: of its vSwitch, or a public
// one. It reports false if there is none left, and leaves VSwitch.Free alone.
func (s *State) address(lb *LoadBalancer) (string, bool) {
	if lb.IPVersion == "ipv6" {
		return s.next("ipv6", netip.MustParsePrefix("2001:db8::/64"), lb.VSwitch)
	}
	if v := s.VSwitches[lb.VSwitch]; lb.AddressType == "intranet" && v != nil {
		p, err := netip.ParsePrefix(v.CIDR)
		if err != nil {
			return "", false
		}
		return s.next(v.ID, p, v.ID)
	}
	for _, p := range publicRanges {
		if a, ok := s.next(p.String(), p, ""); ok {
			return a, true
		}
	}
	return "", false
}

// next takes the first free address of a block behind the last one given, and
// starts over once.
func (s *State) next(key string, p netip.Prefix, vswitch string) (string, bool) {
	size := 1 << min(32-4, p.Addr().BitLen()-p.Bits())
	for range size {
		n := s.serial["address "+key] + 1
		if n >= size-3 {
			n = 1
		}
		s.serial["address "+key] = n
		a := add(p.Masked().Addr(), n)
		if s.take(a, vswitch) {
			return a.String(), true
		}
	}
	return "", false
}

func add(a netip.Addr, n int) netip.Addr {
	b := a.As16()
	lo, carry := bits.Add64(binary.BigEndian.Uint64(b[8:]), uint64(n), 0)
	binary.BigEndian.PutUint64(b[8:], lo)
	binary.BigEndian.PutUint64(b[:8], binary.BigEndian.Uint64(b[:8])+carry)
	if a.Is4() {
		return netip.AddrFrom16(b).Unmap()
	}
	return netip.AddrFrom16(b)
}

// A spot is an address in a VPC, or a public one; private addresses repeat
// across VPCs.
type spot struct {
	vpc  string
	addr netip.Addr
}

func (s *State) spot(a netip.Addr, vswitch string) spot {
	if v := s.VSwitches[vswitch]; v != nil {
		return spot{v.VPC, a}
	}
	return spot{"", a}
}

// take marks an address as used in the VPC of a vSwitch, or as public if
// vswitch is empty. It reports false if it is in use.
func (s *State) take(a netip.Addr, vswitch string) bool {
	at := s.spot(a, vswitch)
	_, used := s.taken[at]
	s.taken[at] = struct{}{}
	return !used
}

// dropLoadBalancer removes a load balancer and gives its address back.
func (s *State) dropLoadBalancer(id string) {
	lb := s.LoadBalancers[id]
	if lb == nil {
		return
	}
	delete(s.LoadBalancers, id)
	s.stock(lb.MasterZone, 1)
	for _, g := range lb.VGroups {
		delete(s.groups, g.ID)
	}
	vswitch := ""
	if lb.AddressType == "intranet" {
		vswitch = lb.VSwitch
	}
	s.release(lb.Address, vswitch)
}

// release gives an address back: to its vSwitch, or a public one if that is
// empty.
func (s *State) release(address, vswitch string) {
	if a, err := netip.ParseAddr(address); err == nil {
		delete(s.taken, s.spot(a, vswitch))
	}
	if v := s.VSwitches[vswitch]; v != nil {
		s.spend(v, 1)
	}
}

// id returns the next ID of a kind that is not in use.
func (s *State) id(prefix string, used func(string) bool) string {
	for {
		s.serial[prefix]++
		if id := fmt.Sprintf("%ssim%04d", prefix, s.serial[prefix]); !used(id) {
			return id
		}
	}
}

// world returns s as a World that shares nothing with it.
func (s *State) world() *World {
	w := &World{
		Region: s.Region, AccountID: s.AccountID, Account: s.Account, Cluster: s.Cluster, RAM: s.RAM, Lag: s.Lag, ForgetTokens: s.ForgetTokens, KnownServers: s.KnownServers,
		VPCs: sorted(s.VPCs), VSwitches: sorted(s.VSwitches), Zones: sorted(s.Zones), RouteTables: sorted(s.RouteTables), LoadBalancers: sorted(s.LoadBalancers), NLBs: sorted(s.NLBs), EIPs: sorted(s.EIPs),
		ServerGroups: sorted(s.ServerGroups), SecurityGroups: sorted(s.SecurityGroups),
		ENIs: sorted(s.ENIs), Instances: sorted(s.Instances), ACLs: sorted(s.ACLs), Certificates: sorted(s.Certificates), Roles: sorted(s.Roles),
		Policies: sorted(s.Policies), OIDCProviders: sorted(s.OIDCProviders), Callers: sorted(s.Callers), Quotas: s.Quotas, QuotaApplications: sorted(s.QuotaApplications), Tickets: sorted(s.Tickets),
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

// sorted returns the elements of m in the order of their keys.
func sorted[T any](m map[string]*T) []T {
	list := make([]T, 0, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		list = append(list, *m[k])
	}
	return list
}

// picked returns the elements of m that are wanted, in the order of their keys.
// They are the live ones.
func picked[T any](m map[string]*T, wanted func(*T) bool) []*T {
	type entry struct {
		key string
		v   *T
	}
	entries := make([]entry, 0, len(m))
	for k, v := range m {
		if wanted(v) {
			entries = append(entries, entry{k, v})
		}
	}
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.key, b.key) })
	list := make([]*T, len(entries))
	for i, e := range entries {
		list[i] = e.v
	}
	return list
}

// amount reads an amount of money, which the billing API writes with
// separators: "1,234.56".
func amount(s string) (float64, error) {
	var n json.Number = json.Number(strings.ReplaceAll(s, ",", ""))
	return n.Float64()
}
