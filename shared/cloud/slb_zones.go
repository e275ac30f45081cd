package cloud

import (
	"cmp"
	"context"
	"slices"

	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/requests"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/slb"
)

// A ZonePair is a pair of zones in which classic load balancers can be created now.
type ZonePair struct {
	Zone      string // of the primary
	SlaveZone string // of the standby, or empty
}

// stockKinds are the names of address types that only DescribeAvailableResource uses:
// https://www.alibabacloud.com/help/en/slb/classic-load-balancer/developer-reference/api-slb-2014-05-15-describeavailableresource
var stockKinds = map[string]string{"internet": "classic_internet", "intranet": "vpc"}

// Available returns the zone pairs of the region with stock for an address type ("internet" or "intranet") and IP version ("ipv4" or
// "ipv6"), sorted; perhaps none. It needs grant.DescribeAvailableResource.
func (s SLB) Available(ctx context.Context, addressType, ipVersion string) ([]ZonePair, error) {
	kind := stockKinds[addressType]
	if kind == "" || ipVersion == "" {
		return nil, absent("slb", "DescribeAvailableResource", "address type or the IP version")
	}
	type wirePair struct {
		MasterZoneID     text `json:"MasterZoneId"`
		SlaveZoneID      text `json:"SlaveZoneId"`
		SupportResources *struct {
			SupportResource []struct{ AddressType, AddressIPVersion text }
		}
	}
	type answer struct {
		AvailableResources *struct{ AvailableResource []wirePair }
	}
	a, err := read(ctx, s.c, call[answer]{
		request: func() requests.AcsRequest {
			r := slb.CreateDescribeAvailableResourceRequest()
			r.AddressType, r.AddressIPVersion = kind, ipVersion
			return r
		},
		check: func(a answer) error {
			if a.AvailableResources == nil {
				return lack("AvailableResources")
			}
			for _, w := range a.AvailableResources.AvailableResource {
				if w.MasterZoneID == "" || w.SupportResources == nil {
					return lack("MasterZoneId and SupportResources of a pair of zones")
				}
				for _, r := range w.SupportResources.SupportResource {
					if r.AddressType == "" || r.AddressIPVersion == "" {
						return lack("AddressType and AddressIPVersion of what zone %s supports", w.MasterZoneID)
					}
				}
			}
			return nil
		},
	})
	if err != nil {
		return nil, err
	}
	var pairs []ZonePair
	for _, w := range a.AvailableResources.AvailableResource {
		for _, r := range w.SupportResources.SupportResource {
			// The API may or may not leave out other kinds: this is not documented.
			if string(r.AddressType) == kind && string(r.AddressIPVersion) == ipVersion {
				pairs = append(pairs, ZonePair{Zone: string(w.MasterZoneID), SlaveZone: string(w.SlaveZoneID)})
			}
		}
	}
	order(pairs, func(a, b ZonePair) int {
		return cmp.Or(cmp.Compare(a.Zone, b.Zone), cmp.Compare(a.SlaveZone, b.SlaveZone))
	})
	return slices.Compact(pairs), nil
}
