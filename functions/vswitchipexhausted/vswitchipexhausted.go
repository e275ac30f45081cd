// Package vswitchipexhausted remedies Services whose vSwitch has no free IP address.
package vswitchipexhausted

import (
	"context"
	_ "embed"
	"slices"
	"strings"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/step"
)

//go:embed doc.md
var doc string

// Remedy moves a Service without a load balancer to a vSwitch with enough free addresses.
var Remedy = &remedy.Remedy{
	Class: "vswitch-ip-exhausted",
	Doc:   doc,
	Codes: []string{"VSwitchAvailableIpNotExist", "SubnetIpExhaust", "ResourceNotEnough.VSwitchIp"},
	Texts: []string{
		"VSwitch has no available ip",
		"VSwitch has no availabe ip", // as the API's metadata spells it
		"No subnet IP addresses are available",
		"specified resource of VSwitchIp is not enough",
		"no available vsw found",
	},
	Reads:       ccm.VPCReads,
	Steps:       []remedy.Step{step.Annotate{}},
	Annotations: []string{ccm.VSwitchID, ccm.ZoneMap},
	Diagnose:    diagnose,
	StillFails:  stillFails,
}

func diagnose(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
	exists, err := c.Made(ctx)
	if err != nil {
		return remedy.Plan{}, err
	}
	nlb := ccm.NLB(c.Service)
	switch {
	case exists != "" && nlb:
		return remedy.Plan{
			Finding: say.F("A vSwitch of the zone map is full, and the NLB %s already exists: a change of its zones moves traffic.", exists),
			Ask: say.F("Free addresses in the vSwitch, or name another vSwitch of the same zone: %s.", ccm.ZoneMapCommand(c.Service, nil)).
				And("With another vSwitch, the address of the NLB in this zone changes."),
		}, nil
	case exists != "":
		return remedy.Plan{
			Finding: say.F("The vSwitch is full, and the load balancer %s already exists: a load balancer never leaves its vSwitch.", exists),
			Ask:     say.F("Free addresses in the vSwitch of the load balancer, or recreate the Service in another vSwitch: its address changes."),
		}, nil
	}
	vpc, err := c.VPC(ctx)
	if err != nil {
		return remedy.Plan{}, err
	}
	if nlb {
		return decideNLB(c, vpc), nil
	}
	return decideCLB(c, vpc), nil
}

func decideCLB(c *remedy.Case, vpc ccm.VPC) remedy.Plan {
	set := ccm.SetCommand(c.Service, ccm.VSwitchID, "VSWITCH")
	if ip, _ := ccm.Annotation(c.Service, "ip"); ip != "" {
		return remedy.Plan{
			Finding: say.F("The vSwitch is full, and the annotation ip asks for the address %s, which lies in one vSwitch.", ccm.Quote(ip)),
			Ask: say.F("Free that address. Or let the cloud choose an address: %s.", ccm.RemoveCommand(c.Service, "ip")).
				And("Or name a vSwitch with enough free addresses, and an address in it: %s, and %s.", set, ccm.SetCommand(c.Service, "ip", "ADDRESS")),
		}
	}
	full := say.F("The Service names no vSwitch, and not all of the cluster's own vSwitches have enough free addresses: %s.", vpc.DescribeOwn())
	if !slices.ContainsFunc(vpc.Own, func(id string) bool { return c.NoRoom(vpc.All[id]) }) {
		full = say.F("The Service names no vSwitch, and the controller uses those of its own configuration, which the cluster's detail need not name.")
	}
	cause := vpc.OwnIDs()
	id, _ := ccm.Annotation(c.Service, ccm.VSwitchID)
	now, ok := vpc.All[id]
	switch {
	case ok:
		full, cause = say.F("The vSwitch is full: %s.", ccm.DescribeVSwitch(now)), id
	case id != "": // an empty annotation names no vSwitch
		return remedy.Plan{
			Finding: vpc.Lacks(ccm.VSwitchID, id),
			Cause:   ccm.CutID(id),
			Ask:     say.F("Name a vSwitch of the cluster's VPC: %s. The cluster's own vSwitches: %s.", set, vpc.DescribeOwn()),
		}
	}
	if to, ok := c.BestVSwitch(vpc, now.Zone, id, false); ok {
		return remedy.Plan{
			Finding: full.And("The Service can use another one: %s.", ccm.DescribeVSwitch(to)),
			Cause:   cause,
			Steps:   []remedy.Step{step.With(c.Service, ccm.VSwitchID, to.ID)},
			Claims:  []remedy.Claim{c.PlaceIn(to)},
		}
	}
	p := remedy.Plan{
		Finding: full.And("No other vSwitch has more free addresses than the reserve. The cluster's own vSwitches: %s.", vpc.DescribeOwn()),
		Cause:   cause,
		Ask:     say.F("Add a vSwitch to the VPC and to the cluster, or free addresses, or allow another vSwitch of the VPC in the policy file."),
	}
	if held := c.HeldVSwitches(vpc, now.Zone, id, false); len(held) > 0 {
		p.Finding, p.Wait = full.Then(held), ccm.AddressLag
	}
	return p
}

func decideNLB(c *remedy.Case, vpc ccm.VPC) remedy.Plan {
	value, _ := ccm.Annotation(c.Service, ccm.ZoneMap)
	zones, whole := ccm.Zones(value)
	if !whole {
		return c.Malformed(value)
	}
	replaced, written, claims := c.Rezone(vpc, zones, func(z ccm.Zone) bool {
		now := vpc.All[z.VSwitch]
		return z.Name != now.Zone || c.NoRoom(now)
	})
	if len(replaced) == 0 {
		return remedy.Plan{
			Finding: say.F("According to the cloud's own figures, which may lag, every vSwitch of the zone map %s has enough free addresses.", ccm.Quote(value)),
			Wait:    ccm.AddressLag,
		}
	}
	form := ccm.ZoneMapCommand(c.Service, nil)
	var finding say.Text
	var causes []string
	for _, r := range replaced {
		now, ok := vpc.All[r.For.VSwitch]
		full := say.F("The vSwitch is full: %s.", ccm.DescribeVSwitch(now))
		p := remedy.Plan{Cause: now.ID}
		switch {
		case !ok:
			p.Finding, p.Cause = vpc.Lacks(ccm.ZoneMap, r.For.VSwitch), ccm.CutID(r.For.VSwitch)
			p.Ask = say.F("Name vSwitches of the cluster's VPC: %s. The cluster's own vSwitches: %s.", form, vpc.DescribeOwn())
		case r.For.Name != now.Zone:
			p.Finding = say.F("The annotation zone-maps lists %s under the zone %s, but the vSwitch is in %s.", now.ID, ccm.Quote(r.For.Name), now.Zone)
			p.Ask = say.F("Name each vSwitch with its own zone: %s. The cluster's own vSwitches: %s.", form, vpc.DescribeOwn())
		case r.For.Binds():
			p.Finding = full.And("The zone map asks for an address in it.")
			p.Ask = say.F("Free addresses in the vSwitch, or remove the address from the annotation, or name another vSwitch of the zone: %s.", form)
		case r.To.ID != "":
			finding = finding.Then(full).And("The Service can use another one: %s.", ccm.DescribeVSwitch(r.To))
			causes = append(causes, now.ID)
			continue
		case len(r.Held) > 0:
			p.Finding, p.Wait = full.Then(r.Held), ccm.AddressLag
		default:
			p.Finding = full.And("No other vSwitch of its zone has more free addresses than the reserve. The cluster's own vSwitches: %s.", vpc.DescribeOwn())
			p.Ask = say.F("Free addresses in the vSwitch, or add a vSwitch to its zone, or allow another vSwitch of the zone in the policy file.")
		}
		return p
	}
	return remedy.Plan{
		Finding: finding,
		Cause:   strings.Join(causes, ","),
		Steps:   []remedy.Step{step.With(c.Service, ccm.ZoneMap, written)},
		Claims:  claims,
	}
}

// stillFails reports whether the requested vSwitch is full. The cloud's numbers lag, so a few free addresses prove nothing. Without the
// annotation the controller uses the vSwitches of its cloud-config (pkg/controller/service/clbv1/loadbalancer.go, setModelDefaultValue),
// which no API returns: room in the cluster's own proves nothing, and naming one of them ends the failure.
func stillFails(ctx context.Context, c *remedy.Case) (remedy.Verdict, error) {
	if c.Written() && ccm.Synced(c.Service) {
		return remedy.No, nil
	}
	vpc, err := c.VPC(ctx)
	if err != nil {
		return remedy.Unknown, err
	}
	asked, whole := ccm.AskedVSwitches(c.Service)
	if !whole {
		return remedy.Yes, nil
	}
	return remedy.Is(len(asked) == 0 && !ccm.NLB(c.Service) || slices.ContainsFunc(asked, func(id string) bool { return c.NoRoom(vpc.All[id]) })), nil
}
