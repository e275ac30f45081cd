package cloud

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"

	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/requests"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/nlb"
)

// NLB reads network load balancers.
type NLB struct{ c *client }

// A NetworkLoadBalancer is an NLB instance.
type NetworkLoadBalancer struct {
	ID               string
	Name             string
	DNSName          string // its address, a host name
	VPC              string // ID
	Status           string // "Active", "Provisioning" and the steps between
	AddressType      string // "Internet" or "Intranet"
	IPVersion        string // "ipv4" or "DualStack"
	ResourceGroup    string
	SecurityGroups   []string // IDs
	DeleteProtection bool
	Protected        bool   // modification protection is on
	ProtectionReason string // of the modification protection
	Zones            []NetworkZone
	BandwidthPackage string // ID of its bandwidth package, or empty
	CrossZone        bool   // it also sends to servers in other zones
	IPv6AddressType  string // "Internet" or "Intranet"
	// Tags are the tags in the answer; nil if it contains none at all. Use NLB.Tags before a decision that depends on a missing tag.
	Tags map[string]string
}

// A NetworkZone is a zone in which an NLB has an address.
type NetworkZone struct {
	Zone    string
	VSwitch string // ID
	Address string // private IPv4 address; empty if the answer lacks it
	EIP     string // ID of the elastic IP address, or empty
}

// A NetworkListener is a port of an NLB.
type NetworkListener struct {
	ID          string
	Port        int    // 0: a range of ports
	First, Last string // of a range; else empty
	Protocol    string // "TCP", "UDP" or "TCPSSL"
	Status      string // "Running", "Stopped" and the steps between
	ServerGroup string // ID
	Description string
	// Config are the other settings in the answer, and those of ProxyProtocolV2Config, by their names in the API. A list is one value with commas.
	Config map[string]string
}

// An NLBFilter selects network load balancers. The zero value selects all of the region; all conditions must hold.
type NLBFilter struct {
	DNSName  string // host name
	Name     string // exact
	TagKey   string // has a tag with this key
	TagValue string // and this value; empty: any value
}

// by returns the only condition of the filter, a tag with its value or a name, or empty.
func (f NLBFilter) by() string {
	switch {
	case f.TagValue != "" && f == (NLBFilter{TagKey: f.TagKey, TagValue: f.TagValue}):
		return tagged(f.TagKey, f.TagValue)
	case f.Name != "" && f == (NLBFilter{Name: f.Name}):
		return named(f.Name)
	}
	return ""
}

type wireNLBTag struct{ Key, Value, TagKey, TagValue text }

type wireNLB struct {
	LoadBalancerID               text `json:"LoadBalancerId"`
	LoadBalancerName             text
	DNSName                      text
	VpcID                        text `json:"VpcId"`
	LoadBalancerStatus           text
	AddressType                  text
	AddressIPVersion             text   `json:"AddressIpVersion"`
	ResourceGroupID              text   `json:"ResourceGroupId"`
	SecurityGroupIDs             []text `json:"SecurityGroupIds"`
	BandwidthPackageID           text   `json:"BandwidthPackageId"`
	CrossZoneEnabled             on
	IPv6AddressType              text `json:"Ipv6AddressType"`
	DeletionProtectionConfig     *struct{ Enabled on }
	ModificationProtectionConfig struct{ Status, Reason text }
	ZoneMappings                 []struct {
		ZoneID                text `json:"ZoneId"`
		VSwitchID             text `json:"VSwitchId"`
		LoadBalancerAddresses []struct {
			PrivateIPv4Address text
			AllocationID       text `json:"AllocationId"`
		}
	}
	Tags *[]wireNLBTag
}

func (w wireNLB) check() error {
	if w.LoadBalancerID == "" || w.VpcID == "" || w.LoadBalancerStatus == "" {
		return lack("ID, VPC and status of network load balancer %q", w.LoadBalancerID)
	}
	return nil
}

func (w wireNLB) value() NetworkLoadBalancer {
	lb := NetworkLoadBalancer{
		ID: string(w.LoadBalancerID), Name: string(w.LoadBalancerName), DNSName: string(w.DNSName), VPC: string(w.VpcID),
		Status: string(w.LoadBalancerStatus), AddressType: string(w.AddressType), IPVersion: string(w.AddressIPVersion),
		ResourceGroup: string(w.ResourceGroupID), SecurityGroups: sortedIDs(strs(w.SecurityGroupIDs)),
		DeleteProtection: w.DeletionProtectionConfig != nil && bool(w.DeletionProtectionConfig.Enabled),
		Protected:        w.ModificationProtectionConfig.Status == "ConsoleProtection",
		ProtectionReason: string(w.ModificationProtectionConfig.Reason),
		BandwidthPackage: string(w.BandwidthPackageID), CrossZone: bool(w.CrossZoneEnabled), IPv6AddressType: string(w.IPv6AddressType),
	}
	for _, z := range w.ZoneMappings {
		zone := NetworkZone{Zone: string(z.ZoneID), VSwitch: string(z.VSwitchID)}
		if len(z.LoadBalancerAddresses) > 0 {
			zone.Address, zone.EIP = string(z.LoadBalancerAddresses[0].PrivateIPv4Address), string(z.LoadBalancerAddresses[0].AllocationID)
		}
		lb.Zones = append(lb.Zones, zone)
	}
	order(lb.Zones, func(a, b NetworkZone) int { return cmp.Compare(a.Zone, b.Zone) })
	if w.Tags != nil {
		lb.Tags = map[string]string{}
		for _, t := range *w.Tags {
			lb.Tags[string(cmp.Or(t.Key, t.TagKey))] = string(cmp.Or(t.Value, t.TagValue))
		}
	}
	return lb
}

var nlbGone = []string{"ResourceNotFound.loadBalancer", "ResourceNotFound.LoadBalancer"}

// LoadBalancer returns a network load balancer. The error is ErrNotFound only if the API says so. It needs grant.GetNLB.
func (n NLB) LoadBalancer(ctx context.Context, id string) (NetworkLoadBalancer, error) {
	w, err := read(ctx, n.c, call[wireNLB]{
		needs: needs{{"load balancer ID", id}},
		request: func() requests.AcsRequest {
			r := nlb.CreateGetLoadBalancerAttributeRequest()
			r.LoadBalancerId = id
			return r
		},
		check: func(w wireNLB) error {
			switch {
			case w.LoadBalancerID != "" && string(w.LoadBalancerID) != id:
				return lack("network load balancer %s: it is about %s", id, w.LoadBalancerID)
			case w.DNSName == "" || w.AddressType == "" || w.AddressIPVersion == "" || w.ResourceGroupID == "" || w.DeletionProtectionConfig == nil:
				return lack("DNSName, AddressType, AddressIpVersion, ResourceGroupId and DeletionProtectionConfig of network load balancer %s", id)
			}
			return w.check()
		},
		gone: nlbGone,
	})
	if err != nil {
		return NetworkLoadBalancer{}, err
	}
	return w.value(), nil
}

// Find returns the region's NLBs that match the filter, by ID. An empty list proves nothing: the caller may not see all. It needs grant.ListNLBs.
func (n NLB) Find(ctx context.Context, f NLBFilter) ([]NetworkLoadBalancer, error) {
	const action = "ListLoadBalancers"
	if f.TagValue != "" && f.TagKey == "" {
		return nil, absent("nlb", action, "key of the tag that has the value")
	}
	every := func(ctx context.Context, c *client) ([]NetworkLoadBalancer, error) {
		return NLB{c}.Find(ctx, NLBFilter{})
	}
	marks := func(lb NetworkLoadBalancer) (string, map[string]string) { return lb.Name, lb.Tags }
	if found, ok := search(ctx, n.c, "nlb", action, f.by(), every, marks); ok {
		return found, nil
	}
	type answer struct {
		TotalCount    number
		NextToken     text
		LoadBalancers []wireNLB
	}
	list, err := chained("nlb", action, pages(ctx, n.c, listing[string, answer, wireNLB]{
		request: func(token string) requests.AcsRequest {
			r := nlb.CreateListLoadBalancersRequest()
			r.DNSName = f.DNSName
			if f.Name != "" {
				r.LoadBalancerNames = &[]string{f.Name}
			}
			if f.TagKey != "" {
				r.Tag = &[]nlb.ListLoadBalancersTag{{Key: f.TagKey, Value: f.TagValue}}
			}
			r.MaxResults, r.NextToken = whole(100), token
			return r
		},
		page: func(a answer) (pageOf[wireNLB], error) {
			return linked(a.TotalCount, a.NextToken, a.LoadBalancers)
		},
		check: wireNLB.check,
	}))
	return sorted(values(list, wireNLB.value), func(l NetworkLoadBalancer) string { return l.ID }), err
}

// Tags returns all tags of a network load balancer, perhaps none, or ErrNotFound. It needs grant.ListNLBTags.
func (n NLB) Tags(ctx context.Context, id string) (map[string]string, error) {
	type answer struct {
		NextToken    text
		TagResources *[]wireTag
	}
	list, err := chained("nlb", "ListTagResources", pages(ctx, n.c, listing[string, answer, wireTag]{
		needs: needs{{"load balancer ID", id}},
		request: func(token string) requests.AcsRequest {
			r := nlb.CreateListTagResourcesRequest()
			r.ResourceType = "loadbalancer"
			r.ResourceId = &[]string{id}
			r.NextToken = token
			return r
		},
		page: func(a answer) (p pageOf[wireTag], err error) {
			if a.TagResources == nil {
				return p, lack("TagResources")
			}
			return pageOf[wireTag]{items: *a.TagResources, next: string(a.NextToken)}, nil
		},
		check: func(t wireTag) error {
			if t.TagKey == "" || string(t.ResourceID) != id {
				return lack("a tag of network load balancer %s: it is about %q", id, t.ResourceID)
			}
			return nil
		},
		gone: append([]string{"ResourceNotFound.loadbalancer"}, nlbGone...),
	}))
	if err != nil {
		return nil, err
	}
	return tagsOf(list), nil
}

type wireNetworkListener struct {
	LoadBalancerID      text `json:"LoadBalancerId"`
	ListenerID          text `json:"ListenerId"`
	ListenerPort        number
	StartPort, EndPort  text
	ListenerProtocol    text
	ListenerStatus      text
	ServerGroupID       text `json:"ServerGroupId"`
	ListenerDescription text

	config map[string]string
}

func (l *wireNetworkListener) UnmarshalJSON(b []byte) error {
	type plain wireNetworkListener
	if err := json.Unmarshal(b, (*plain)(l)); err != nil {
		return err
	}
	var err error
	l.config, err = settings(b, "ProxyProtocolV2Config", "LoadBalancerId", "ListenerId", "ListenerPort", "StartPort", "EndPort", "ListenerProtocol",
		"ListenerStatus", "ServerGroupId", "ListenerDescription", "RegionId")
	return err
}

// Listeners returns the listeners of a network load balancer, sorted by port and protocol. It needs grant.ListNLBListeners.
func (n NLB) Listeners(ctx context.Context, id string) ([]NetworkListener, error) {
	type answer struct {
		TotalCount number
		NextToken  text
		Listeners  []wireNetworkListener
	}
	list, err := chained("nlb", "ListListeners", pages(ctx, n.c, listing[string, answer, wireNetworkListener]{
		needs: needs{{"load balancer ID", id}},
		request: func(token string) requests.AcsRequest {
			r := nlb.CreateListListenersRequest()
			r.LoadBalancerIds = &[]string{id}
			r.MaxResults, r.NextToken = whole(100), token
			return r
		},
		page: func(a answer) (pageOf[wireNetworkListener], error) {
			return linked(a.TotalCount, a.NextToken, a.Listeners)
		},
		check: func(l wireNetworkListener) error {
			if l.ListenerID == "" || !l.ListenerPort.ok || l.ListenerProtocol == "" || string(l.LoadBalancerID) != id {
				return lack("ID, port and protocol of a listener of network load balancer %s", id)
			}
			return nil
		},
		gone: nlbGone,
	}))
	out := values(list, func(l wireNetworkListener) NetworkListener {
		return NetworkListener{
			ID: string(l.ListenerID), Port: int(l.ListenerPort.n), First: string(l.StartPort), Last: string(l.EndPort), Protocol: string(l.ListenerProtocol),
			Status: string(l.ListenerStatus), ServerGroup: string(l.ServerGroupID), Description: string(l.ListenerDescription), Config: l.config,
		}
	})
	order(out, func(a, b NetworkListener) int {
		return cmp.Or(cmp.Compare(a.Port, b.Port), cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.ID, b.ID))
	})
	return out, err
}

// FurtherCertificates returns the sorted IDs of a listener's certificates but the first, or ErrNotFound. It needs grant.ListListenerCertificates.
func (n NLB) FurtherCertificates(ctx context.Context, listenerID string) ([]string, error) {
	type certificate struct {
		CertificateID text `json:"CertificateId"`
		IsDefault     on
	}
	type answer struct {
		NextToken    text
		Certificates *[]certificate
	}
	list, err := chained("nlb", "ListListenerCertificates", pages(ctx, n.c, listing[string, answer, certificate]{
		needs: needs{{"listener ID", listenerID}},
		request: func(token string) requests.AcsRequest {
			r := nlb.CreateListListenerCertificatesRequest()
			r.ListenerId = listenerID
			r.MaxResults, r.NextToken = whole(50), token
			return r
		},
		page: func(a answer) (p pageOf[certificate], err error) {
			if a.Certificates == nil {
				return p, lack("Certificates")
			}
			return pageOf[certificate]{items: *a.Certificates, next: string(a.NextToken)}, nil
		},
		check: func(c certificate) error {
			if c.CertificateID == "" {
				return lack("ID of a certificate of listener %s", listenerID)
			}
			return nil
		},
		gone: []string{"ResourceNotFound.listener", "ResourceNotFound.Listener"},
	}))
	if err != nil {
		return nil, err
	}
	var out []string
	for _, c := range list {
		if !c.IsDefault {
			out = append(out, string(c.CertificateID))
		}
	}
	slices.Sort(out)
	return out, nil
}
