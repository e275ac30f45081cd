package zoneshortage

import (
	"context"
	"slices"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/step"
)

// choose returns a pair of zones with stock and vSwitches of the cluster, preferably with the requested primary zone. A private CLB's vSwitch
// has to be in the primary zone, because the API may not accept another, and needs room, or is the one that the Service or its address requires.
func choose(c *remedy.Case, places ccm.Places) (cloud.ZonePair, bool) {
	own := places.VPC.OwnZones()
	named, _ := ccm.Annotation(c.Service, ccm.VSwitchID)
	fits := func(z cloud.ZonePair) bool {
		switch {
		case !slices.Contains(own, z.Zone) || !slices.Contains(own, z.SlaveZone):
			return false
		case !places.Private():
			return true
		case named != "":
			return places.VPC.All[named].Zone == z.Zone
		}
		_, ok := within(c, places.VPC, z.Zone)
		return ok
	}
	i := slices.IndexFunc(places.Others, func(z cloud.ZonePair) bool { return z.Zone == places.Asked.Zone && fits(z) })
	if i < 0 {
		i = slices.IndexFunc(places.Others, fits)
	}
	if i < 0 {
		return cloud.ZonePair{}, false
	}
	return places.Others[i], true
}

// within returns the zone's vSwitch for a private CLB's address: the one that contains the requested address, or else the one with most room.
func within(c *remedy.Case, vpc ccm.VPC, zone string) (cloud.VSwitch, bool) {
	ip, _ := ccm.Annotation(c.Service, address)
	if ip == "" {
		return c.BestVSwitch(vpc, zone, "", true)
	}
	vsw, ok := vpc.Holding(ip)
	allowed := slices.Contains(vpc.Own, vsw.ID) || c.Policy.VSwitches.Allowed(vsw.ID)
	return vsw, ok && allowed && vsw.Zone == zone
}

const address = "ip"

// held says that a private CLB would find a vSwitch if its room were not held for other Services.
func held(c *remedy.Case, places ccm.Places) say.Text {
	own := places.VPC.OwnZones()
	named, _ := ccm.Annotation(c.Service, ccm.VSwitchID)
	if ip, _ := ccm.Annotation(c.Service, address); !places.Private() || named != "" || ip != "" {
		return nil
	}
	for _, z := range places.Others {
		text := c.HeldVSwitches(places.VPC, z.Zone, "", true)
		if len(text) > 0 && slices.Contains(own, z.Zone) && slices.Contains(own, z.SlaveZone) {
			return text
		}
	}
	return nil
}

func move(c *remedy.Case, p remedy.Plan, places ccm.Places, to cloud.ZonePair) remedy.Plan {
	edits := []step.Edit{step.With(c.Service, ccm.MasterZone, to.Zone), step.With(c.Service, ccm.SlaveZone, to.SlaveZone)}
	p.Finding = p.Finding.And("The zones %s and %s have stock, and the cluster has vSwitches in both.", to.Zone, to.SlaveZone)
	if named, _ := ccm.Annotation(c.Service, ccm.VSwitchID); places.Private() && named == "" {
		best, _ := within(c, places.VPC, to.Zone)
		p.Finding = p.Finding.And("The Service can use this vSwitch: %s.", ccm.DescribeVSwitch(best))
		edits = append(edits, step.With(c.Service, ccm.VSwitchID, best.ID))
		if ip, _ := ccm.Annotation(c.Service, address); ip == "" {
			p.Claims = []remedy.Claim{c.PlaceIn(best)}
		}
	}
	p.Risk, p.Steps = remedy.Medium, []remedy.Step{step.Together(edits...)}
	p.Note = say.F("A CLB never changes its zones. Traffic from Pods in other zones crosses zones.")
	return p
}

// stillFails reports whether the CLB is to be created in zones without stock. Before a change of zones, the list of zones with stock
// proves nothing: it may lag, or only some specifications may be sold out.
func stillFails(ctx context.Context, c *remedy.Case) (remedy.Verdict, error) {
	if ccm.NLB(c.Service) || !c.Written() {
		return remedy.Yes, nil
	}
	if ccm.Synced(c.Service) {
		return remedy.No, nil
	}
	places, err := c.Places(ctx)
	if err != nil {
		return remedy.Unknown, err
	}
	return remedy.Is(!places.InStock), nil
}
