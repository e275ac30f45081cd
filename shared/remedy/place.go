package remedy

import (
	"cmp"
	"slices"
	"strings"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/say"
)

// Crowded reports whether the vSwitch has no free address above the reserve.
func (c *Case) Crowded(v cloud.VSwitch) bool { return c.Policy.VSwitches.Room(v.Free) == 0 }

// BestVSwitch returns the vSwitch that a new load balancer of the case's Service is to
// take an address from, and whether there is one: available, with more than the
// reserve of free addresses, the cluster's own or allowed by the policy, with IPv6
// where the Service asks for it, and not the one called not. One of the zone comes
// first, then the one with most free addresses, then the first by ID, so that the
// choice is the same each time; with onlyZone no other zone's counts.
func (c *Case) BestVSwitch(v ccm.VPC, zone, not string, onlyZone bool) (cloud.VSwitch, bool) {
	fit := slices.DeleteFunc(c.fit(v, zone, not, onlyZone), func(vsw cloud.VSwitch) bool { return c.Full(vswitchKey(vsw.ID)) })
	if len(fit) == 0 {
		return cloud.VSwitch{}, false
	}
	return slices.MinFunc(fit, func(a, b cloud.VSwitch) int {
		if (a.Zone == zone) != (b.Zone == zone) {
			if a.Zone == zone {
				return -1
			}
			return 1
		}
		return cmp.Or(-cmp.Compare(a.Free, b.Free), cmp.Compare(a.ID, b.ID))
	}), true
}

// BestVSwitches returns the best vSwitch of each zone that has one, as BestVSwitch chooses it, without
// those of the zones called not, by the names of their zones.
func (c *Case) BestVSwitches(v ccm.VPC, not []string) []cloud.VSwitch {
	var list []cloud.VSwitch
	for _, zone := range v.Zones() {
		if best, ok := c.BestVSwitch(v, zone, "", true); ok && !slices.Contains(not, zone) {
			list = append(list, best)
		}
	}
	return list
}

// BestZones returns the first of the pairs whose primary zone has a vSwitch for the case's Service, and
// the first of all where none has. There is at least one pair.
func (c *Case) BestZones(v ccm.VPC, pairs []cloud.ZonePair) cloud.ZonePair {
	i := slices.IndexFunc(pairs, func(z cloud.ZonePair) bool {
		_, ok := c.BestVSwitch(v, z.Zone, "", true)
		return ok
	})
	return pairs[max(i, 0)]
}

// fit returns the vSwitches that BestVSwitch may choose from, also those whose room others
// have claimed.
func (c *Case) fit(v ccm.VPC, zone, not string, onlyZone bool) []cloud.VSwitch {
	rules := c.Policy.VSwitches
	var fit []cloud.VSwitch
	for id, vsw := range v.All {
		switch {
		case id == not, vsw.Status != "Available":
		case onlyZone && vsw.Zone != zone:
		case !slices.Contains(v.Own, id) && !rules.Allowed(id):
		case ccm.AsksIPv6(c.Service) && !vsw.IPv6:
		case c.Crowded(vsw):
		default:
			fit = append(fit, vsw)
		}
	}
	return fit
}

// HeldVSwitches says that BestVSwitch finds none because others hold the room that
// there is: by the time that they let go of it, the cloud's figures show what they
// took. It is empty where that is not why.
func (c *Case) HeldVSwitches(v ccm.VPC, zone, not string, onlyZone bool) say.Text {
	var held []string
	for _, vsw := range c.fit(v, zone, not, onlyZone) {
		if c.Full(vswitchKey(vsw.ID)) {
			held = append(held, vsw.ID)
		}
	}
	if len(held) == 0 {
		return nil
	}
	slices.Sort(held)
	return say.F("The free addresses of %s above the reserve are held for other Services, for 10 minutes at most.", say.List(held, named))
}

// PlaceIn is the claim on one address of the vSwitch, so that many Services don't
// all choose the same last one.
func (c *Case) PlaceIn(to cloud.VSwitch) Claim {
	return Claim{Key: vswitchKey(to.ID), Of: c.Policy.VSwitches.Room(to.Free)}
}

// A Replacement is a vSwitch for one in a zone map that cannot be used.
type Replacement struct {
	For  ccm.Zone
	To   cloud.VSwitch // of the same zone; its ID is empty if none exists
	Held say.Text      // what HeldVSwitches says of the zone
}

// Rezone replaces the vSwitches of a zone map that are bad by the best others of their zones. It
// returns what it replaced, the new zone map, without parts that have no replacement, and the claims.
func (c *Case) Rezone(v ccm.VPC, zones []ccm.Zone, bad func(ccm.Zone) bool) (Replacements, string, []Claim) {
	var list Replacements
	var parts []string
	var claims []Claim
	for _, z := range zones {
		if !bad(z) {
			parts = append(parts, z.Text)
			continue
		}
		r := c.Replace(v, z, true)
		if r.To.ID != "" {
			parts, claims = append(parts, z.Name+":"+r.To.ID), append(claims, c.PlaceIn(r.To))
		}
		list = append(list, r)
	}
	return list, strings.Join(parts, ","), claims
}

// Malformed is the plan for a zone map of which one part names no vSwitch.
func (c *Case) Malformed(zoneMap string) Plan {
	return Plan{
		Finding: say.F("The annotation zone-maps is %s, and one part of it does not have the form ZONE:VSWITCH.", ccm.Quote(zoneMap)),
		Ask:     say.F("Write one pair for each zone, separated by commas: %s.", ccm.ZoneMapCommand(c.Service, nil)),
	}
}

func vswitchKey(id string) string { return "vswitch." + id }
