package sim

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// A Zone is a zone of the region, and how many load balancers it has room for.
type Zone struct {
	ID     string `json:"id,omitempty"`
	Stock  *int   `json:"stock,omitempty"`  // load balancers that can still be made there; nil: any number
	NoIPv6 bool   `json:"noIpv6,omitempty"` // it has no IPv6
}

// sold reports whether nothing more can be made in a zone.
func (z *Zone) sold() bool { return z.Stock != nil && *z.Stock <= 0 }

func fillZones(s *State, w *World) error {
	var errs []error
	s.Zones, errs = index(errs, "zone", w.Zones, func(z *Zone) string { return z.ID }, func(i int, z *Zone) {
		if z.ID == "" {
			z.ID = fmt.Sprintf("%s-%c", s.Region, 'h'+rune(i))
		}
	})
	if len(w.Zones) == 0 {
		s.Zones[s.Region+"-h"], s.Zones[s.Region+"-i"] = &Zone{ID: s.Region + "-h"}, &Zone{ID: s.Region + "-i"}
	}
	s.addZones()
	return errors.Join(errs...)
}

// addZones adds the zones of vSwitches and load balancers that nobody stated.
func (s *State) addZones() {
	add := func(id string) {
		if id != "" && s.Zones[id] == nil {
			s.Zones[id] = &Zone{ID: id}
		}
	}
	for _, v := range s.VSwitches {
		add(v.Zone)
	}
	for _, lb := range s.LoadBalancers {
		add(lb.MasterZone)
		add(lb.SlaveZone)
	}
	for id, z := range s.Zones {
		z.ID = id
	}
}

// roomy returns the first zone besides one that has stock, beginning with those
// that are asked for; it is empty if there is none.
func (s *State) roomy(besides string, first ...string) string {
	for _, id := range append(first, slices.Sorted(maps.Keys(s.Zones))...) {
		if z := s.Zones[id]; z != nil && id != besides && !z.sold() {
			return id
		}
	}
	return ""
}

// settleZones chooses the zones of a new load balancer, and refuses what they
// have no room for. A zone that is not said is one that has room.
func (q *request) settleZones(lb *LoadBalancer) *failure {
	s := q.state
	if lb.MasterZone == "" {
		if lb.MasterZone = s.roomy("", s.Region+"-h"); lb.MasterZone == "" {
			return documented("OperationFailed.RegionResourceLimit")
		}
	}
	if lb.SlaveZone == "" {
		lb.SlaveZone = s.roomy(lb.MasterZone, s.Region+"-i", s.Region+"-h")
	}
	for _, id := range []string{lb.MasterZone, lb.SlaveZone} {
		z := s.Zones[id]
		switch {
		case id == "": // a region with one zone has no second
		case z == nil:
			return documented("PRODUCT.NOT_AVAILABLE_IZ")
		case z.sold():
			return documented("OperationFailed.ZoneResourceLimit")
		case z.NoIPv6 && lb.IPVersion == "ipv6":
			return documented("RegionOrZonesNotSupportIpv6")
		}
	}
	return nil
}

// stock changes how many load balancers a zone has room for.
func (s *State) stock(zone string, n int) {
	if z := s.Zones[zone]; z != nil && z.Stock != nil {
		z.Stock = new(*z.Stock + n)
	}
}

// describeAvailableResource pairs the zones that have stock with each other. Its
// address types are not those of a load balancer: vpc, classic_internet and
// classic_intranet, which is no longer sold:
// https://www.alibabacloud.com/help/en/slb/classic-load-balancer/developer-reference/api-slb-2014-05-15-describeavailableresource
func describeAvailableResource(q *request) (any, *failure) {
	kind, version := q.params["AddressType"], q.params["AddressIPVersion"]
	if kind != "" && !oneOf("vpc,classic_internet,classic_intranet", kind) {
		return nil, invalid("AddressType")
	}
	if version != "" && !oneOf("ipv4,ipv6", version) {
		return nil, invalid("AddressIPVersion")
	}
	list := []reply{}
	for _, m := range sorted(q.state.Zones) {
		for _, b := range sorted(q.state.Zones) {
			if m.ID == b.ID || m.sold() || b.sold() {
				continue
			}
			kinds := []reply{}
			for _, t := range []string{"vpc", "classic_internet"} {
				for _, v := range []string{"ipv4", "ipv6"} {
					if is(kind, t) && is(version, v) && (v == "ipv4" || !m.NoIPv6 && !b.NoIPv6) {
						kinds = append(kinds, reply{"AddressType": t, "AddressIPVersion": v})
					}
				}
			}
			if len(kinds) > 0 {
				list = append(list, reply{"MasterZoneId": m.ID, "SlaveZoneId": b.ID, "SupportResources": reply{"SupportResource": kinds}})
			}
		}
	}
	return reply{"AvailableResources": reply{"AvailableResource": list}}, nil
}

func describeZones(q *request) (any, *failure) {
	list := []reply{}
	for _, id := range slices.Sorted(maps.Keys(q.state.Zones)) {
		others := []reply{}
		for _, other := range slices.Sorted(maps.Keys(q.state.Zones)) {
			if other != id {
				others = append(others, reply{"ZoneId": other, "LocalName": other})
			}
		}
		list = append(list, reply{"ZoneId": id, "LocalName": id, "SlaveZones": reply{"SlaveZone": others}})
	}
	return reply{"Zones": reply{"Zone": list}}, nil
}

func describeRegions(q *request) (any, *failure) {
	id := q.state.Region
	return reply{"Regions": reply{"Region": []reply{{"RegionId": id, "LocalName": id, "RegionEndpoint": "slb." + id + ".aliyuncs.com"}}}}, nil
}

// payable refuses what costs money if the account cannot pay or is not let:
// pay-as-you-go needs 100 CNY.
func (q *request) payable() *failure {
	account := q.state.Account
	if account.Gate != "" {
		return documented(account.Gate)
	}
	if account.Arrearage {
		return documented("ORDER.ARREARAGE")
	}
	if n, err := amount(account.Balance); err != nil || n < 100 {
		return documented("PAY.INSUFFICIENT_BALANCE")
	}
	return nil
}

// eipRole refuses to touch a load balancer with an EIP unless somebody made the
// service-linked role for that.
func (q *request) eipRole(lb *LoadBalancer) *failure {
	if !q.state.RAM.NoServiceRoles {
		return nil
	}
	for _, e := range q.state.EIPs {
		if e.Instance == lb.ID {
			return documented("NoPermission.AliyunServiceRoleForSlbEipAccess")
		}
	}
	return nil
}
