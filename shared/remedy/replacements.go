package remedy

import (
	"context"
	"slices"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/say"
)

// OfVSwitches returns the Diagnose of a class about the vSwitches that a Service asks for. It calls clb, or nlb with the parts of a
// zone map that is not Malformed. made is an ID or address of the present load balancer, or empty. The class declares ccm.VPCReads.
func OfVSwitches(clb func(c *Case, vpc ccm.VPC, made string) Plan,
	nlb func(c *Case, vpc ccm.VPC, made string, zones []ccm.Zone) Plan) func(context.Context, *Case) (Plan, error) {
	return func(ctx context.Context, c *Case) (Plan, error) {
		made, err := c.Made(ctx)
		if err != nil {
			return Plan{}, err
		}
		vpc, err := c.VPC(ctx)
		if err != nil {
			return Plan{}, err
		}
		if !ccm.NLB(c.Service) {
			return clb(c, vpc, made), nil
		}
		value, _ := ccm.Annotation(c.Service, ccm.ZoneMap)
		zones, whole := ccm.Zones(value)
		if !whole {
			return c.Malformed(value), nil
		}
		return nlb(c, vpc, made, zones), nil
	}
}

// VSwitchesFail reports whether the Service still fails because of the vSwitches that it asks for, by fails, which gets no IDs if it
// names none. After a sync of what was written it does not fail; with a malformed zone map it does. A class that calls it declares
// ccm.VPCReads.
func (c *Case) VSwitchesFail(ctx context.Context, fails func(vpc ccm.VPC, asked []string) (Verdict, error)) (Verdict, error) {
	if c.Written() && ccm.Synced(c.Service) {
		return No, nil
	}
	vpc, err := c.VPC(ctx)
	if err != nil {
		return Unknown, err
	}
	asked, whole := ccm.AskedVSwitches(c.Service)
	if !whole {
		return Yes, nil
	}
	return fails(vpc, asked)
}

// VSwitchesMissing reports whether the Service still asks for a vSwitch that does not exist. The controller's default cannot be read:
// only a successful sync is evidence. A class that calls it declares ccm.VPCReads.
func VSwitchesMissing(ctx context.Context, c *Case) (Verdict, error) {
	return c.VSwitchesFail(ctx, func(vpc ccm.VPC, asked []string) (Verdict, error) {
		return Is(len(asked) == 0 || !vpc.HasAll(asked)), nil
	})
}

// OtherBlock warns that the address comes from another block than that of the named vSwitch, and names the setting that accepts this.
func OtherBlock() say.Text {
	return say.F("The address comes from the block of another vSwitch. Firewall rules and routes that name the old block do not cover it.").
		And("If vswitches.replaceMissing is set in the policy file, the risk of this plan is low.")
}

// Replace finds the best other vSwitch for a part of a zone map, in the same zone if onlyZone is true. For a CLB the part has only a vSwitch, or nothing.
func (c *Case) Replace(v ccm.VPC, z ccm.Zone, onlyZone bool) Replacement {
	to, _ := c.BestVSwitch(v, z.Name, z.VSwitch, onlyZone)
	return Replacement{For: z, To: to, Held: c.HeldVSwitches(v, z.Name, z.VSwitch, onlyZone)}
}

// Replacements are what Rezone replaces in a zone map.
type Replacements []Replacement

// IDs returns the IDs of the replaced vSwitches, as written.
func (l Replacements) IDs() []string {
	var ids []string
	for _, r := range l {
		ids = append(ids, r.For.VSwitch)
	}
	return ids
}

// Cause names the replaced vSwitches.
func (l Replacements) Cause() string {
	var ids []string
	for _, r := range l {
		ids = append(ids, ccm.CutID(r.For.VSwitch))
	}
	return List(ids, 5)
}

// Bind reports whether a replaced part asks for an address or an EIP in its vSwitch.
func (l Replacements) Bind() bool {
	return slices.ContainsFunc(l, func(r Replacement) bool { return r.For.Binds() })
}

// Lack returns HeldVSwitches of the last part without a replacement, and whether one exists.
func (l Replacements) Lack() (held say.Text, lack bool) {
	for _, r := range l {
		if r.To.ID == "" {
			held, lack = r.Held, true
		}
	}
	return held, lack
}

// Text lists the new vSwitches with their free addresses.
func (l Replacements) Text() say.Text {
	var found []say.Text
	for _, r := range l {
		if r.To.ID != "" {
			found = append(found, ccm.DescribeVSwitch(r.To))
		}
	}
	return say.Items(found, len(found))
}
