package cloud

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/requests"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/slb"
)

// SLB reads classic load balancers (CLB).
type SLB struct{ c *client }

// SLBWriter writes to classic load balancers.
type SLBWriter struct{ c *client }

// A LoadBalancer is a classic load balancer.
type LoadBalancer struct {
	ID               string
	Name             string
	Address          string // IP address
	AddressType      string // "internet" or "intranet"
	IPVersion        string // "ipv4" or "ipv6"; empty if the answer lacks it
	VPC              string // empty for one that faces the internet
	VSwitch          string // empty for one that faces the internet
	Zone             string // of the primary
	SlaveZone        string // of the standby
	Network          string // "vpc" or "classic"
	Bandwidth        int    // Mbit/s if billed by bandwidth; -1 or 0: by traffic
	InternetCharge   string // "paybytraffic" or "paybybandwidth"; empty if the answer lacks it
	Status           string // "active", "inactive" or "locked"
	Spec             string // such as "slb.s1.small"; empty: shared-resource, or PayByCLCU
	PayType          string // "PayOnDemand" or "PrePay"
	ChargeType       string // "PayByCLCU" or "PayBySpec"
	ResourceGroup    string
	DeleteProtection bool
	Protected        bool   // modification protection is on
	ProtectionReason string // of the modification protection
	// Tags are the tags in the answer; nil if it contains none at all. Use SLB.Tags before a decision that depends on a missing tag.
	Tags map[string]string
	// Ports are the listeners, sorted by port and protocol. LoadBalancers leaves them out.
	Ports []ListenerPort
	// Backends are those of the default group, which the controller does not use. LoadBalancers leaves them out.
	Backends []Backend
}

// A ListenerPort names a listener of a load balancer or a vServer group.
type ListenerPort struct {
	Port        int
	Protocol    string // "tcp", "udp", "http" or "https"
	Description string // empty in a vServer group
}

// A Backend is a server behind a load balancer.
type Backend struct {
	ID     string // of the instance or the network interface
	IP     string // empty for an instance that is known by its ID
	Type   string // "ecs", "eni", "eci", or "ip" in a group of addresses
	Port   int    // 0 in a default group, where listeners have the port
	Weight int    // 0 to 100
	VPC    string // empty if the answer lacks it
	// Description is the name of its vServer group if the controller added it; empty if the answer lacks it.
	Description string
}

// A Listener is a port of a load balancer.
type Listener struct {
	Port         int
	Protocol     string // "tcp", "udp", "http" or "https"
	Status       string // "running", "stopped" and the steps between
	VServerGroup string // ID; empty if it uses another kind of group
	Description  string
	Scheduler    string
	Bandwidth    int // Mbit/s; -1: unlimited
	BackendPort  int // of the default group; 0 with a vServer group
	// Config holds its other settings by their names in the API, such as HealthCheckInterval, or nil. AclId separates several with commas.
	Config map[string]string
	// Partial: the answer has settings that are neither in Config nor sent by CreateListener, or lacks those of the protocol.
	Partial bool `json:",omitempty"`
}

// A VServerGroup is a group of backends that listeners and rules share.
type VServerGroup struct {
	ID           string
	Name         string
	LoadBalancer string         // ID
	Servers      int            // number of backends
	Listeners    []ListenerPort // that use it, sorted; VServerGroup leaves them out
	Rules        []Rule         // that use it, sorted by ID; VServerGroup leaves them out
	Backends     []Backend      // VServerGroups leaves them out
}

// A Rule sends some requests of an HTTP or HTTPS listener to a vServer group.
type Rule struct {
	ID     string
	Name   string
	Domain string // empty: any
	URL    string // empty: any
}

// An LBFilter selects load balancers. The zero value selects all of the region; all conditions must hold.
type LBFilter struct {
	Address  string   // IP address
	VPC      string   // ID
	Name     string   // exact
	TagKey   string   // has a tag with this key
	TagValue string   // and this value; empty: any value
	IDs      []string // has one of these; empty: any
}

// by returns the only condition of the filter, a tag with its value or a name, or empty.
func (f LBFilter) by() string {
	switch {
	case len(f.IDs) > 0 || f.Address+f.VPC != "" || f.Name != "" && f.TagKey != "":
		return ""
	case f.TagValue != "":
		return tagged(f.TagKey, f.TagValue)
	case f.Name != "":
		return named(f.Name)
	}
	return ""
}

// A wireTag is a tag of a load balancer of either kind; within a load balancer it lacks the resource ID.
type wireTag struct {
	ResourceID       text `json:"ResourceId"`
	TagKey, TagValue text
}

var tagsGone = []string{"InvalidResourceId.NotFound", "InvalidLoadBalancerId.NotFound"}

func tagsOf(list []wireTag) map[string]string {
	tags := map[string]string{}
	for _, t := range list {
		tags[string(t.TagKey)] = string(t.TagValue)
	}
	return tags
}

type wirePort struct {
	ListenerPort     number
	ListenerProtocol text
	Description      text
}

type wireBackend struct {
	ServerID text `json:"ServerId"`
	ServerIP text `json:"ServerIp"`
	Type     text
	Port     number
	Weight   number
	VpcID    text `json:"VpcId"`

	Description text
}

type wireBackends struct{ BackendServer []wireBackend }

type wireLoadBalancer struct {
	LoadBalancerID               text `json:"LoadBalancerId"`
	LoadBalancerName             text
	Address                      text
	AddressType                  text
	AddressIPVersion             text
	VpcID                        text `json:"VpcId"`
	VSwitchID                    text `json:"VSwitchId"`
	MasterZoneID                 text `json:"MasterZoneId"`
	SlaveZoneID                  text `json:"SlaveZoneId"`
	NetworkType                  text
	Bandwidth                    number
	InternetChargeType           text
	InternetChargeTypeAlias      text // of lists, where InternetChargeType is a number
	LoadBalancerStatus           text
	LoadBalancerSpec             text
	PayType                      text
	InstanceChargeType           text
	ResourceGroupID              text `json:"ResourceGroupId"`
	DeleteProtection             *on
	ModificationProtectionStatus text
	ModificationProtectionReason text
	Tags                         *struct{ Tag []wireTag }
	ListenerPortsAndProtocol     *struct{ ListenerPortAndProtocol []wirePort }
	BackendServers               *wireBackends
}

func (w wireLoadBalancer) check() error {
	for name, v := range map[string]text{
		"LoadBalancerId": w.LoadBalancerID, "Address": w.Address, "AddressType": w.AddressType, "LoadBalancerStatus": w.LoadBalancerStatus,
	} {
		if v == "" {
			return lack("%s of load balancer %q", name, w.LoadBalancerID)
		}
	}
	return nil
}

func (w wireLoadBalancer) value() LoadBalancer {
	lb := LoadBalancer{
		ID:               string(w.LoadBalancerID),
		Name:             string(w.LoadBalancerName),
		Address:          string(w.Address),
		AddressType:      string(w.AddressType),
		IPVersion:        string(w.AddressIPVersion),
		VPC:              string(w.VpcID),
		VSwitch:          string(w.VSwitchID),
		Zone:             string(w.MasterZoneID),
		SlaveZone:        string(w.SlaveZoneID),
		Network:          string(w.NetworkType),
		Bandwidth:        int(w.Bandwidth.n),
		InternetCharge:   string(cmp.Or(w.InternetChargeTypeAlias, w.InternetChargeType)),
		Status:           string(w.LoadBalancerStatus),
		Spec:             string(w.LoadBalancerSpec),
		PayType:          string(w.PayType),
		ChargeType:       string(w.InstanceChargeType),
		ResourceGroup:    string(w.ResourceGroupID),
		DeleteProtection: w.DeleteProtection != nil && bool(*w.DeleteProtection),
		Protected:        w.ModificationProtectionStatus == "ConsoleProtection",
		ProtectionReason: string(w.ModificationProtectionReason),
	}
	if w.Tags != nil {
		lb.Tags = tagsOf(w.Tags.Tag)
	}
	if w.ListenerPortsAndProtocol != nil {
		for _, p := range w.ListenerPortsAndProtocol.ListenerPortAndProtocol {
			lb.Ports = append(lb.Ports, ListenerPort{int(p.ListenerPort.n), string(p.ListenerProtocol), string(p.Description)})
		}
		order(lb.Ports, byPort)
	}
	lb.Backends = w.BackendServers.values()
	return lb
}

func byPort(a, b ListenerPort) int {
	return cmp.Or(cmp.Compare(a.Port, b.Port), cmp.Compare(a.Protocol, b.Protocol))
}

func (w *wireBackends) values() []Backend {
	if w == nil {
		return nil
	}
	var list []Backend
	for _, b := range w.BackendServer {
		list = append(list, Backend{
			ID: string(b.ServerID), IP: string(b.ServerIP), Type: string(cmp.Or(b.Type, "ecs")),
			Port: int(b.Port.n), Weight: int(b.Weight.n), VPC: string(b.VpcID), Description: string(b.Description),
		})
	}
	order(list, byBackend)
	return list
}

func byBackend(a, b Backend) int {
	return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.IP, b.IP), cmp.Compare(a.Port, b.Port))
}

// LoadBalancer returns a load balancer with its ports and the backends of its default group. The error is ErrNotFound only if the API
// answers InvalidLoadBalancerId.NotFound. It needs grant.DescribeLoadBalancerAttribute.
func (s SLB) LoadBalancer(ctx context.Context, id string) (LoadBalancer, error) {
	w, err := read(ctx, s.c, call[wireLoadBalancer]{
		needs: needs{{"load balancer ID", id}},
		request: func() requests.AcsRequest {
			r := slb.CreateDescribeLoadBalancerAttributeRequest()
			r.LoadBalancerId = id
			return r
		},
		check: func(w wireLoadBalancer) error {
			switch {
			case w.LoadBalancerID != "" && string(w.LoadBalancerID) != id:
				return lack("load balancer %s: it is about %s", id, w.LoadBalancerID)
			case w.ListenerPortsAndProtocol == nil:
				return lack("ListenerPortsAndProtocol of load balancer %s", id)
			case w.BackendServers == nil:
				return lack("BackendServers of load balancer %s", id)
			case w.DeleteProtection == nil || w.PayType == "":
				return lack("DeleteProtection and PayType of load balancer %s", id)
			}
			for _, p := range w.ListenerPortsAndProtocol.ListenerPortAndProtocol {
				if !p.ListenerPort.ok || p.ListenerProtocol == "" {
					return lack("port and protocol of a listener of load balancer %s", id)
				}
			}
			return w.check()
		},
		gone: []string{"InvalidLoadBalancerId.NotFound"},
	})
	if err != nil {
		return LoadBalancer{}, err
	}
	return w.value(), nil
}

// idsAtOnce is how many IDs DescribeLoadBalancers accepts:
// https://www.alibabacloud.com/help/en/slb/classic-load-balancer/developer-reference/api-slb-2014-05-15-describeloadbalancers
const idsAtOnce = 10

// LoadBalancers returns the region's load balancers that match the filter, with their tags. An empty list proves nothing: the API leaves out
// what the caller may not see. It needs grant.DescribeLoadBalancers.
func (s SLB) LoadBalancers(ctx context.Context, f LBFilter) ([]LoadBalancer, error) {
	const action = "DescribeLoadBalancers"
	if f.TagValue != "" && f.TagKey == "" {
		return nil, absent("slb", action, "key of the tag that has the value")
	}
	if slices.Contains(f.IDs, "") {
		return nil, absent("slb", action, "ID of a load balancer")
	}
	every := func(ctx context.Context, c *client) ([]LoadBalancer, error) {
		return SLB{c}.LoadBalancers(ctx, LBFilter{})
	}
	marks := func(lb LoadBalancer) (string, map[string]string) { return lb.Name, lb.Tags }
	if found, ok := search(ctx, s.c, "slb", action, f.by(), every, marks); ok {
		return found, nil
	}
	lists := [][]string{nil}
	if len(f.IDs) > 0 {
		lists = slices.Collect(slices.Chunk(f.IDs, idsAtOnce))
	}
	type answer struct {
		TotalCount    number
		LoadBalancers struct{ LoadBalancer []wireLoadBalancer }
	}
	var all []LoadBalancer
	for _, ids := range lists {
		id := func(w wireLoadBalancer) string { return string(w.LoadBalancerID) }
		part, err := numbered("slb", action, id, pages(ctx, s.c, listing[int, answer, wireLoadBalancer]{
			request: func(page int) requests.AcsRequest {
				r := slb.CreateDescribeLoadBalancersRequest()
				r.Address, r.VpcId, r.LoadBalancerName = f.Address, f.VPC, f.Name
				r.LoadBalancerId = strings.Join(ids, ",")
				if f.TagKey != "" {
					r.Tag = &[]slb.DescribeLoadBalancersTag{{Key: f.TagKey, Value: f.TagValue}}
				}
				r.PageNumber, r.PageSize = whole(page), whole(100)
				return r
			},
			page: func(a answer) (pageOf[wireLoadBalancer], error) {
				return counted(a.TotalCount, a.LoadBalancers.LoadBalancer)
			},
			check: wireLoadBalancer.check,
		}))
		if err != nil {
			return nil, err
		}
		all = append(all, values(part, wireLoadBalancer.value)...)
	}
	return sorted(all, func(lb LoadBalancer) string { return lb.ID }), nil
}

// Tags returns all tags of a load balancer, perhaps none, or ErrNotFound. It needs grant.ListSLBTags.
func (s SLB) Tags(ctx context.Context, id string) (map[string]string, error) {
	if id == "" {
		return nil, absent("slb", "ListTagResources", "load balancer ID")
	}
	list, err := s.tagsOf(ctx, []string{id})
	if err != nil {
		return nil, err
	}
	return tagsOf(list), nil
}

// Listeners returns the listeners of a load balancer, sorted by port and protocol, or ErrNotFound. It needs grant.DescribeLoadBalancerListeners.
func (s SLB) Listeners(ctx context.Context, id string) ([]Listener, error) {
	type wireListener struct {
		LoadBalancerID    text `json:"LoadBalancerId"`
		ListenerPort      number
		ListenerProtocol  text
		Status            text
		VServerGroupID    text `json:"VServerGroupId"`
		Description       text
		Scheduler         text
		Bandwidth         number
		BackendServerPort number

		// Access control is outside the settings of the protocol.
		AclStatus, AclType text
		AclID              text   `json:"AclId"`
		AclIDs             []text `json:"AclIds"`

		TCPListenerConfig, UDPListenerConfig, HTTPListenerConfig, HTTPSListenerConfig map[string]json.RawMessage

		Tags []json.RawMessage
	}
	type answer struct {
		TotalCount number
		NextToken  text
		Listeners  *[]wireListener
	}
	list, err := chained("slb", "DescribeLoadBalancerListeners", pages(ctx, s.c, listing[string, answer, wireListener]{
		needs: needs{{"load balancer ID", id}},
		request: func(token string) requests.AcsRequest {
			r := slb.CreateDescribeLoadBalancerListenersRequest()
			r.LoadBalancerId = &[]string{id}
			r.NextToken, r.MaxResults = token, whole(100)
			return r
		},
		page: func(a answer) (p pageOf[wireListener], err error) {
			if a.Listeners == nil {
				return p, lack("Listeners")
			}
			return pageOf[wireListener]{items: *a.Listeners, total: a.TotalCount, next: string(a.NextToken)}, nil
		},
		check: func(l wireListener) error {
			if !l.ListenerPort.ok || l.ListenerProtocol == "" || l.Status == "" || string(l.LoadBalancerID) != id {
				return lack("port, protocol and status of a listener of load balancer %s", id)
			}
			return nil
		},
		gone: []string{"InvalidLoadBalancerId.NotFound"},
	}))
	if err != nil {
		return nil, err
	}
	var out []Listener
	for _, l := range list {
		config, partial := scalars(l.TCPListenerConfig, l.UDPListenerConfig, l.HTTPListenerConfig, l.HTTPSListenerConfig)
		for name, v := range map[string]string{"AclStatus": string(l.AclStatus), "AclType": string(l.AclType), "AclId": cmp.Or(strings.Join(strs(l.AclIDs), ","),
			string(l.AclID))} {
			if v == "" {
				continue
			}
			if config == nil {
				config = map[string]string{}
			}
			config[name] = v
		}
		out = append(out, Listener{
			Port: int(l.ListenerPort.n), Protocol: string(l.ListenerProtocol), Status: string(l.Status),
			VServerGroup: string(l.VServerGroupID), Description: string(l.Description), Scheduler: string(l.Scheduler),
			Bandwidth: int(l.Bandwidth.n), BackendPort: int(l.BackendServerPort.n),
			Config: config, Partial: partial || len(l.Tags) > 0,
		})
	}
	order(out, func(a, b Listener) int {
		return cmp.Or(cmp.Compare(a.Port, b.Port), cmp.Compare(a.Protocol, b.Protocol))
	})
	return out, nil
}

// Domains returns the further domains of an HTTPS listener, with their certificates' IDs, or ErrNotFound. It needs grant.DescribeDomainExtensions.
func (s SLB) Domains(ctx context.Context, id string, port int) (map[string]string, error) {
	if id == "" || port == 0 {
		return nil, absent("slb", "DescribeDomainExtensions", "load balancer ID or the port of the listener")
	}
	type answer struct {
		DomainExtensions *struct {
			DomainExtension []struct {
				Domain              text
				ServerCertificateID text `json:"ServerCertificateId"`
			}
		}
	}
	a, err := read(ctx, s.c, call[answer]{
		request: func() requests.AcsRequest {
			r := slb.CreateDescribeDomainExtensionsRequest()
			r.LoadBalancerId, r.ListenerPort = id, whole(port)
			return r
		},
		check: func(a answer) error {
			if a.DomainExtensions == nil {
				return lack("DomainExtensions of port %d of load balancer %s", port, id)
			}
			for _, d := range a.DomainExtensions.DomainExtension {
				if d.Domain == "" || d.ServerCertificateID == "" {
					return lack("domain and certificate of a further domain of port %d of load balancer %s", port, id)
				}
			}
			return nil
		},
		gone: []string{"InvalidLoadBalancerId.NotFound"},
	})
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, d := range a.DomainExtensions.DomainExtension {
		out[string(d.Domain)] = string(d.ServerCertificateID)
	}
	return out, nil
}

// scalars returns the settings with one value, and whether they are missing or some have several.
func scalars(objects ...map[string]json.RawMessage) (out map[string]string, partial bool) {
	for _, o := range objects {
		for k, raw := range o {
			var v text
			if v.UnmarshalJSON(raw) != nil {
				partial = partial || strings.Trim(string(raw), "[]{} \n") != ""
				continue
			}
			if out == nil {
				out = map[string]string{}
			}
			out[k] = string(v)
		}
	}
	return out, partial || out == nil
}

// VServerGroups returns a load balancer's groups with listeners and rules, without backends, or ErrNotFound. It needs grant.DescribeVServerGroups.
func (s SLB) VServerGroups(ctx context.Context, id string) ([]VServerGroup, error) {
	type group struct {
		VServerGroupID    text `json:"VServerGroupId"`
		VServerGroupName  text
		ServerCount       number
		AssociatedObjects struct {
			Listeners struct {
				Listener []struct {
					Port     number
					Protocol text
				}
			}
			Rules struct {
				Rule []struct {
					RuleID   text `json:"RuleId"`
					RuleName text
					Domain   text
					URL      text `json:"Url"`
				}
			}
		}
	}
	type answer struct {
		VServerGroups *struct{ VServerGroup []group }
	}
	a, err := read(ctx, s.c, call[answer]{
		needs: needs{{"load balancer ID", id}},
		request: func() requests.AcsRequest {
			r := slb.CreateDescribeVServerGroupsRequest()
			r.LoadBalancerId = id
			r.IncludeListener, r.IncludeRule = requests.NewBoolean(true), requests.NewBoolean(true)
			return r
		},
		check: func(a answer) error {
			if a.VServerGroups == nil {
				return lack("VServerGroups")
			}
			for _, g := range a.VServerGroups.VServerGroup {
				if g.VServerGroupID == "" || !g.ServerCount.ok {
					return lack("ID and ServerCount of a vServer group of load balancer %s", id)
				}
			}
			return nil
		},
		gone: []string{"InvalidLoadBalancerId.NotFound"},
	})
	if err != nil {
		return nil, err
	}
	var list []VServerGroup
	for _, w := range a.VServerGroups.VServerGroup {
		g := VServerGroup{ID: string(w.VServerGroupID), Name: string(w.VServerGroupName), LoadBalancer: id, Servers: int(w.ServerCount.n)}
		for _, l := range w.AssociatedObjects.Listeners.Listener {
			g.Listeners = append(g.Listeners, ListenerPort{Port: int(l.Port.n), Protocol: string(l.Protocol)})
		}
		for _, r := range w.AssociatedObjects.Rules.Rule {
			g.Rules = append(g.Rules, Rule{ID: string(r.RuleID), Name: string(r.RuleName), Domain: string(r.Domain), URL: string(r.URL)})
		}
		order(g.Listeners, byPort)
		order(g.Rules, func(a, b Rule) int { return cmp.Compare(a.ID, b.ID) })
		list = append(list, g)
	}
	return sorted(list, func(g VServerGroup) string { return g.ID }), nil
}

// VServerGroup returns a vServer group and its backends, without its listeners, or ErrNotFound. It needs grant.DescribeVServerGroupAttribute.
func (s SLB) VServerGroup(ctx context.Context, id string) (VServerGroup, error) {
	type answer struct {
		VServerGroupID   text `json:"VServerGroupId"`
		VServerGroupName text
		LoadBalancerID   text `json:"LoadBalancerId"`
		BackendServers   *wireBackends
	}
	a, err := read(ctx, s.c, call[answer]{
		needs: needs{{"vServer group ID", id}},
		request: func() requests.AcsRequest {
			r := slb.CreateDescribeVServerGroupAttributeRequest()
			r.VServerGroupId = id
			return r
		},
		check: func(a answer) error {
			switch {
			case string(a.VServerGroupID) != id:
				return lack("vServer group %s: it is about %q", id, a.VServerGroupID)
			case a.LoadBalancerID == "" || a.BackendServers == nil:
				return lack("LoadBalancerId and BackendServers of vServer group %s", id)
			}
			for _, b := range a.BackendServers.BackendServer {
				if b.ServerID == "" || !b.Port.ok || !b.Weight.ok {
					return lack("ID, port and weight of a backend of vServer group %s", id)
				}
			}
			return nil
		},
		// The API has no separate code for a missing group; the group's ID is the only parameter of this call.
		gone: []string{"InvalidParameter", "InvalidVServerGroupId.NotFound"},
	})
	if err != nil {
		return VServerGroup{}, err
	}
	return VServerGroup{
		ID: id, Name: string(a.VServerGroupName), LoadBalancer: string(a.LoadBalancerID),
		Servers: len(a.BackendServers.BackendServer), Backends: a.BackendServers.values(),
	}, nil
}

// Tag sets a tag of a load balancer, which holds 20; one more is an error. It may be repeated. It needs grant.TagSLB.
func (w SLBWriter) Tag(ctx context.Context, id, key, value string) error {
	r := slb.CreateTagResourcesRequest()
	r.ResourceType = "instance"
	r.ResourceId = &[]string{id}
	r.Tag = &[]slb.TagResourcesTag{{Key: key, Value: value}}
	return w.c.change(ctx, needs{{"load balancer ID", id}, {"key of the tag", key}}, id, tagsGone, r)
}

// Untag removes the tag with this key, if any, from a load balancer. It may be repeated. It needs grant.UntagSLB.
func (w SLBWriter) Untag(ctx context.Context, id, key string) error {
	r := slb.CreateUntagResourcesRequest()
	r.ResourceType = "instance"
	r.ResourceId = &[]string{id}
	r.TagKey = &[]string{key}
	return w.c.change(ctx, needs{{"load balancer ID", id}, {"key of the tag", key}}, id, tagsGone, r)
}
