package slb

import (
	"maps"
	"slices"

	"github.com/lbremedy/lbremedy/test/sim/core"
)

// settleZones chooses a new load balancer's zones, and rejects zones without stock. An unspecified zone is one with stock.
func (q *request) settleZones(lb *LoadBalancer) *core.Failure {
	s := q.state
	if lb.MasterZone == "" {
		if lb.MasterZone = s.vpc.Roomy("", s.Region+"-h"); lb.MasterZone == "" {
			return core.Documented("OperationFailed.RegionResourceLimit")
		}
	}
	if lb.SlaveZone == "" {
		lb.SlaveZone = s.vpc.Roomy(lb.MasterZone, s.Region+"-i", s.Region+"-h")
	}
	for _, id := range []string{lb.MasterZone, lb.SlaveZone} {
		z := s.vpc.Zones[id]
		switch {
		case id == "": // a region with one zone has no second
		case z == nil:
			return core.Documented("PRODUCT.NOT_AVAILABLE_IZ")
		case z.Sold():
			return core.Documented("OperationFailed.ZoneResourceLimit")
		case z.NoIPv6 && lb.IPVersion == "ipv6":
			return core.Documented("RegionOrZonesNotSupportIpv6")
		}
	}
	return nil
}

// describeAvailableResource returns pairs of zones with stock. Its address types differ from those of a load balancer: vpc,
// classic_internet and the discontinued classic_intranet:
// https://www.alibabacloud.com/help/en/slb/classic-load-balancer/developer-reference/api-slb-2014-05-15-describeavailableresource
func describeAvailableResource(q *request) (any, *core.Failure) {
	kind, version := q.Params["AddressType"], q.Params["AddressIPVersion"]
	if kind != "" && !core.OneOf("vpc,classic_internet,classic_intranet", kind) {
		return nil, core.Invalid("AddressType")
	}
	if version != "" && !core.OneOf("ipv4,ipv6", version) {
		return nil, core.Invalid("AddressIPVersion")
	}
	list := []core.Reply{}
	for _, m := range core.Sorted(q.state.vpc.Zones) {
		for _, b := range core.Sorted(q.state.vpc.Zones) {
			if m.ID == b.ID || m.Sold() || b.Sold() {
				continue
			}
			kinds := []core.Reply{}
			for _, t := range []string{"vpc", "classic_internet"} {
				for _, v := range []string{"ipv4", "ipv6"} {
					if core.Is(kind, t) && core.Is(version, v) && (v == "ipv4" || !m.NoIPv6 && !b.NoIPv6) {
						kinds = append(kinds, core.Reply{"AddressType": t, "AddressIPVersion": v})
					}
				}
			}
			if len(kinds) > 0 {
				list = append(list, core.Reply{"MasterZoneId": m.ID, "SlaveZoneId": b.ID, "SupportResources": core.Reply{"SupportResource": kinds}})
			}
		}
	}
	return core.Reply{"AvailableResources": core.Reply{"AvailableResource": list}}, nil
}

func describeZones(q *request) (any, *core.Failure) {
	list := []core.Reply{}
	for _, id := range slices.Sorted(maps.Keys(q.state.vpc.Zones)) {
		others := []core.Reply{}
		for _, other := range slices.Sorted(maps.Keys(q.state.vpc.Zones)) {
			if other != id {
				others = append(others, core.Reply{"ZoneId": other, "LocalName": other})
			}
		}
		list = append(list, core.Reply{"ZoneId": id, "LocalName": id, "SlaveZones": core.Reply{"SlaveZone": others}})
	}
	return core.Reply{"Zones": core.Reply{"Zone": list}}, nil
}

func describeRegions(q *request) (any, *core.Failure) {
	id := q.state.Region
	return core.Reply{"Regions": core.Reply{"Region": []core.Reply{{"RegionId": id, "LocalName": id, "RegionEndpoint": "slb." + id + ".aliyuncs.com"}}}}, nil
}

// eipRole rejects operations on a load balancer with an EIP unless the service-linked role for that exists.
func (q *request) eipRole(lb *LoadBalancer) *core.Failure {
	if !q.state.ram.RAM.NoServiceRoles {
		return nil
	}
	for _, e := range q.state.vpc.EIPs {
		if e.Instance == lb.ID {
			return core.Documented("NoPermission.AliyunServiceRoleForSlbEipAccess")
		}
	}
	return nil
}
