// Package vswitchipexhausted remedies Services whose vSwitch has no free IP address.
package vswitchipexhausted

import (
	"context"
	_ "embed"
	"errors"
	"strings"
	"time"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/step"
)

//go:embed doc.md
var doc string

// Remedy moves a Service that has no load balancer yet to a vSwitch with enough free addresses.
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
	Annotations: []string{vswitchID, zoneMaps},
	Diagnose:    diagnose,
	StillFails:  stillFails,
}

// lag is how long to wait until the cloud's figures of free addresses are up to date.
const lag = time.Minute

// Short names of the annotations that decide where a load balancer is created. They have no effect
// afterwards.
const (
	vswitchID = "vswitch-id"
	zoneMaps  = "zone-maps"
)

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
			Ask: say.F("Free addresses in the vSwitch, or name another vSwitch of the same zone: %s.", setMap(c)).
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
		return diagnoseNLB(c, vpc), nil
	}
	return diagnoseCLB(c, vpc), nil
}

// diagnoseCLB chooses the vSwitch for the address of a new CLB.
func diagnoseCLB(c *remedy.Case, vpc ccm.VPC) remedy.Plan {
	set := ccm.SetCommand(c.Service, vswitchID, "VSWITCH")
	if ip, _ := ccm.Annotation(c.Service, "ip"); ip != "" {
		return remedy.Plan{
			Finding: say.F("The vSwitch is full, and the annotation ip asks for the address %s, which lies in one vSwitch.", ccm.Quote(ip)),
			Ask: say.F("Free that address. Or let the cloud choose an address: %s.", ccm.RemoveCommand(c.Service, "ip")).
				And("Or name a vSwitch with enough free addresses, and an address in it: %s, and %s.", set, ccm.SetCommand(c.Service, "ip", "ADDRESS")),
		}
	}
	full := say.F("The Service names no vSwitch, and not all of the cluster's own vSwitches have enough free addresses: %s.", vpc.DescribeOwn())
	cause, zone := vpc.OwnIDs(), ""
	id, _ := ccm.Annotation(c.Service, vswitchID)
	if id != "" { // an empty annotation names no vSwitch
		now, ok := vpc.All[id]
		if !ok {
			return remedy.Plan{
				Finding: say.F("The annotation vswitch-id names %s, which the cluster's VPC %s does not have.", ccm.Quote(id), vpc.ID),
				Cause:   cut(id),
				Ask:     say.F("Name a vSwitch of the cluster's VPC: %s. The cluster's own vSwitches: %s.", set, vpc.DescribeOwn()),
			}
		}
		full, cause, zone = say.F("The vSwitch is full: %s.", ccm.DescribeVSwitch(now)), id, now.Zone
	}
	to, ok := c.BestVSwitch(vpc, zone, id, false)
	if !ok {
		return noRoom(full, cause, vpc, c.HeldVSwitches(vpc, zone, id, false))
	}
	return remedy.Plan{
		Finding: full.And("The Service can use another one: %s.", ccm.DescribeVSwitch(to)),
		Cause:   cause,
		Steps:   []remedy.Step{step.With(c.Service, vswitchID, to.ID)},
		Claims:  []remedy.Claim{c.PlaceIn(to)},
	}
}

// noRoom plans for a Service that no vSwitch has room for. held says that other Services hold the
// remaining room, if so.
func noRoom(full say.Text, cause string, vpc ccm.VPC, held say.Text) remedy.Plan {
	p := remedy.Plan{
		Finding: full.And("No other vSwitch has more free addresses than the reserve. The cluster's own vSwitches: %s.", vpc.DescribeOwn()),
		Cause:   cause,
		Ask:     say.F("Add a vSwitch to the VPC and to the cluster, or free addresses, or allow another vSwitch of the VPC in the policy file."),
	}
	if len(held) > 0 {
		p.Finding, p.Wait = full.Then(held), lag
	}
	return p
}

// diagnoseNLB replaces the full vSwitches in a zone map by others in the same zones.
func diagnoseNLB(c *remedy.Case, vpc ccm.VPC) remedy.Plan {
	value, _ := ccm.Annotation(c.Service, zoneMaps)
	var parts, causes []string
	var finding say.Text
	var claims []remedy.Claim
	for part := range strings.SplitSeq(value, ",") {
		fields := strings.Split(strings.TrimSpace(part), ":")
		if len(fields) < 2 {
			return remedy.Plan{
				Finding: say.F("The annotation zone-maps is %s, and one part of it does not have the form ZONE:VSWITCH.", ccm.Quote(value)),
				Ask:     say.F("Write one pair for each zone, separated by commas: %s.", setMap(c)),
			}
		}
		now, ok := vpc.All[fields[1]]
		if ok && fields[0] == now.Zone && c.Policy.VSwitches.Room(now.Free) > 0 {
			parts = append(parts, part)
			continue
		}
		to, bad := replace(c, vpc, fields)
		if to.ID == "" {
			return bad
		}
		finding = finding.And("The vSwitch is full: %s. The Service can use another one: %s.", ccm.DescribeVSwitch(now), ccm.DescribeVSwitch(to))
		causes = append(causes, now.ID)
		parts = append(parts, fields[0]+":"+to.ID)
		claims = append(claims, c.PlaceIn(to))
	}
	if len(claims) == 0 {
		return remedy.Plan{
			Finding: say.F("According to the cloud's own figures, which may lag, every vSwitch of the zone map %s has enough free addresses.", ccm.Quote(value)),
			Wait:    lag,
		}
	}
	return remedy.Plan{
		Finding: finding,
		Cause:   strings.Join(causes, ","),
		Steps:   []remedy.Step{step.With(c.Service, zoneMaps, strings.Join(parts, ","))},
		Claims:  claims,
	}
}

// replace returns the vSwitch that replaces the one in a part of the zone map, or the plan for a part
// in which lbremedy replaces nothing.
func replace(c *remedy.Case, vpc ccm.VPC, fields []string) (cloud.VSwitch, remedy.Plan) {
	now, ok := vpc.All[fields[1]]
	if !ok {
		return now, remedy.Plan{
			Finding: say.F("The annotation zone-maps names %s, which the cluster's VPC %s does not have.", ccm.Quote(fields[1]), vpc.ID),
			Cause:   cut(fields[1]),
			Ask:     say.F("Name vSwitches of the cluster's VPC: %s. The cluster's own vSwitches: %s.", setMap(c), vpc.DescribeOwn()),
		}
	}
	full := say.F("The vSwitch is full: %s.", ccm.DescribeVSwitch(now))
	p := remedy.Plan{Cause: now.ID}
	to, ok := c.BestVSwitch(vpc, now.Zone, now.ID, true)
	held := c.HeldVSwitches(vpc, now.Zone, now.ID, true)
	switch {
	case fields[0] != now.Zone:
		p.Finding = say.F("The annotation zone-maps lists %s under the zone %s, but the vSwitch is in %s.", now.ID, ccm.Quote(fields[0]), now.Zone)
		p.Ask = say.F("Name each vSwitch with its own zone: %s. The cluster's own vSwitches: %s.", setMap(c), vpc.DescribeOwn())
	case len(fields) > 2:
		p.Finding = full.And("The zone map asks for an address in it.")
		p.Ask = say.F("Free addresses in the vSwitch, or remove the address from the annotation, or name another vSwitch of the zone: %s.", setMap(c))
	case ok:
		return to, p
	case len(held) > 0:
		p.Finding, p.Wait = full.Then(held), lag
	default:
		p.Finding = full.And("No other vSwitch of its zone has more free addresses than the reserve. The cluster's own vSwitches: %s.", vpc.DescribeOwn())
		p.Ask = say.F("Free addresses in the vSwitch, or add a vSwitch to its zone, or allow another vSwitch of the zone in the policy file.")
	}
	return cloud.VSwitch{}, p
}

func setMap(c *remedy.Case) string {
	return ccm.SetCommand(c.Service, zoneMaps, "ZONE:VSWITCH,ZONE:VSWITCH")
}

// stillFails reports whether the vSwitch that the Service asks for is still full. The cloud's figures lag,
// and therefore a few free addresses prove nothing.
func stillFails(ctx context.Context, c *remedy.Case) (remedy.Verdict, error) {
	if c.Written() && ccm.Synced(c.Service) {
		return remedy.No, nil
	}
	vpc, err := c.VPC(ctx)
	if err != nil {
		return remedy.Unknown, err
	}
	asked := vpc.Own
	if id, _ := ccm.Annotation(c.Service, vswitchID); id != "" {
		asked = []string{id}
	}
	if value, ok := ccm.Annotation(c.Service, zoneMaps); ok && ccm.NLB(c.Service) {
		asked = nil
		for part := range strings.SplitSeq(value, ",") {
			_, rest, ok := strings.Cut(strings.TrimSpace(part), ":")
			if !ok {
				return remedy.Yes, nil // not a zone map
			}
			id, _, _ := strings.Cut(rest, ":")
			asked = append(asked, id)
		}
	}
	if len(asked) == 0 {
		return remedy.Unknown, errors.New("the cluster names no vSwitch of its own")
	}
	for _, id := range asked {
		if vsw, ok := vpc.All[id]; !ok || c.Policy.VSwitches.Room(vsw.Free) == 0 {
			return remedy.Yes, nil
		}
	}
	return remedy.No, nil
}

// cut returns at most 64 bytes of an ID that somebody wrote: IDs are not longer.
func cut(id string) string { return strings.ToValidUTF8(id[:min(len(id), 64)], "") }
