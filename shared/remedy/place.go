package remedy

import (
	"cmp"
	"slices"
	"strings"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/say"
)

// NoRoom reports whether the vSwitch has no free address above the reserve.
func (c *Case) NoRoom(v cloud.VSwitch) bool { return c.Policy.VSwitches.Room(v.Free) == 0 }

// BestVSwitch returns the vSwitch for a new load balancer of the Service, if any. It must be available, have more free addresses than
// the reserve, be the cluster's own or allowed by the policy, have IPv6 if the Service asks for it, and differ from not. One in zone
// comes first, then the most free addresses, then the lowest ID, for a stable choice. With onlyZone other zones do not count.
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

// BestVSwitches returns the best vSwitch of each zone that has one, without the zones in not, sorted by zone.
func (c *Case) BestVSwitches(v ccm.VPC, not []string) []cloud.VSwitch {
	var list []cloud.VSwitch
	for _, zone := range v.Zones() {
		if best, ok := c.BestVSwitch(v, zone, "", true); ok && !slices.Contains(not, zone) {
			list = append(list, best)
		}
	}
	return list
}

// BestZones returns the first pair whose primary zone has a vSwitch for the Service, or else the first of pairs, which must not be empty.
func (c *Case) BestZones(v ccm.VPC, pairs []cloud.ZonePair) cloud.ZonePair {
	i := slices.IndexFunc(pairs, func(z cloud.ZonePair) bool {
		_, ok := c.BestVSwitch(v, z.Zone, "", true)
		return ok
	})
	return pairs[max(i, 0)]
}

func (c *Case) fit(v ccm.VPC, zone, not string, onlyZone bool) []cloud.VSwitch {
	rules := c.Policy.VSwitches
	var fit []cloud.VSwitch
	for id, vsw := range v.All {
		switch {
		case id == not, vsw.Status != "Available":
		case onlyZone && vsw.Zone != zone:
		case !slices.Contains(v.Own, id) && !rules.Allowed(id):
		case ccm.AsksIPv6(c.Service) && !vsw.IPv6:
		case c.NoRoom(vsw):
		default:
			fit = append(fit, vsw)
		}
	}
	return fit
}

// HeldVSwitches says that others hold the room that BestVSwitch looked for; empty otherwise. Once released, the cloud's figures show what they took.
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

// PlaceIn returns the claim on one address of the vSwitch: many Services must not choose the same last one.
func (c *Case) PlaceIn(to cloud.VSwitch) Claim {
	return Claim{Key: vswitchKey(to.ID), Of: c.Policy.VSwitches.Room(to.Free)}
}

// A Replacement is a vSwitch for an unusable one in a zone map.
type Replacement struct {
	For  ccm.Zone
	To   cloud.VSwitch // of the same zone; without an ID if none exists
	Held say.Text      // HeldVSwitches of the zone
}

// Rezone replaces the bad vSwitches of a zone map by the best others of their zones. It returns the replacements, the new zone map
// without parts that have no replacement, and the claims.
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

// Malformed returns the plan for a zone map with a part that names no vSwitch.
func (c *Case) Malformed(zoneMap string) Plan {
	return Plan{
		Finding: say.F("The annotation zone-maps is %s, and one part of it does not have the form ZONE:VSWITCH.", ccm.Quote(zoneMap)),
		Ask:     say.F("Write one pair for each zone, separated by commas: %s.", ccm.ZoneMapCommand(c.Service, nil)),
	}
}

func vswitchKey(id string) string { return "vswitch." + id }
