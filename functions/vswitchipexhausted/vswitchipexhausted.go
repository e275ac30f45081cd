// Package vswitchipexhausted remedies Services whose vSwitch has no free IP address.
package vswitchipexhausted

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/step"
)

//go:embed doc.md
var doc string

// Remedy moves a Service that has no load balancer yet to a vSwitch with room.
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
	StillFails:  holds,
}

// lag is how long to wait for the cloud's figures of free addresses to follow.
const lag = time.Minute

// Short names of the annotations that decide where an LB is made, at its creation only.
const (
	vswitchID = "vswitch-id"
	zoneMaps  = "zone-maps"
)

func diagnose(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
	exists, err := c.Made(ctx)
	if err != nil {
		return remedy.Plan{}, err
	}
	if exists != "" && ccm.NLB(c.Service) {
		return remedy.Plan{
			Finding: fmt.Sprintf("A vSwitch of the zone map is full, and the NLB %s exists already: to change its zones moves traffic.", exists),
			Ask:     fmt.Sprintf("Free addresses in the vSwitch, or name another vSwitch of the same zone, where the NLB then gets another address: %s.", ccm.SetCommand(c.Service, zoneMaps, "ZONE:VSWITCH,ZONE:VSWITCH")),
		}, nil
	}
	if exists != "" {
		return remedy.Plan{
			Finding: fmt.Sprintf("The vSwitch is full, and the load balancer %s exists already: a load balancer never leaves its vSwitch.", exists),
			Ask:     "Free addresses in the vSwitch of the load balancer, or recreate the Service in another one: its address changes then.",
		}, nil
	}
	vsws, err := c.VPC(ctx)
	if err != nil {
		return remedy.Plan{}, err
	}
	if ccm.NLB(c.Service) {
		return diagnoseNLB(c, vsws), nil
	}
	return diagnoseCLB(c, vsws), nil
}

// diagnoseCLB chooses the vSwitch for the address of a new CLB.
func diagnoseCLB(c *remedy.Case, vsws ccm.VPC) remedy.Plan {
	if ip, _ := ccm.Annotation(c.Service, "ip"); ip != "" {
		return remedy.Plan{
			Finding: fmt.Sprintf("The vSwitch is full, and the annotation ip asks for the address %s, which lies in one vSwitch.", ccm.Quote(ip)),
			Ask: fmt.Sprintf("Free that address. Or let the cloud choose one: %s. Or ask for an address of a vSwitch with room, together with that vSwitch: %s, and %s.",
				ccm.RemoveCommand(c.Service, "ip"), ccm.SetCommand(c.Service, vswitchID, "VSWITCH"), ccm.SetCommand(c.Service, "ip", "ADDRESS")),
		}
	}
	id, _ := ccm.Annotation(c.Service, vswitchID)
	full, zone := "The Service names no vSwitch, and not each of the cluster's own has room: "+vsws.DescribeOwn()+".", ""
	cause := vsws.OwnIDs()
	if id != "" { // an empty one counts for none
		now, ok := vsws.All[id]
		if !ok {
			return remedy.Plan{
				Finding: fmt.Sprintf("The annotation vswitch-id names %s, which the cluster's VPC %s does not have.", ccm.Quote(id), vsws.ID),
				Cause:   cut(id),
				Ask:     fmt.Sprintf("Name a vSwitch of the cluster's VPC: %s. %s.", ccm.SetCommand(c.Service, vswitchID, "VSWITCH"), considered(vsws)),
			}
		}
		full, zone, cause = fmt.Sprintf("The vSwitch is full: %s.", ccm.DescribeVSwitch(now)), now.Zone, id
	}
	to, ok := c.BestVSwitch(vsws, zone, id, false)
	if !ok {
		return noRoom(full, cause, vsws, c.HeldVSwitches(vsws, zone, id, false))
	}
	return remedy.Plan{
		Finding: fmt.Sprintf("%s %s.", full, ccm.DescribeVSwitch(to)),
		Cause:   cause,
		Steps:   []remedy.Step{step.With(c.Service, vswitchID, to.ID)},
		Claims:  []remedy.Claim{c.PlaceIn(to)},
	}
}

// diagnoseNLB replaces the full vSwitches in a zone map with others of their zones.
func diagnoseNLB(c *remedy.Case, vsws ccm.VPC) remedy.Plan {
	value, _ := ccm.Annotation(c.Service, zoneMaps)
	var parts, findings, causes []string
	var claims []remedy.Claim
	for _, part := range strings.Split(value, ",") {
		fields := strings.Split(strings.TrimSpace(part), ":")
		if len(fields) < 2 {
			return remedy.Plan{
				Finding: fmt.Sprintf("The annotation zone-maps is %s, and one part of it is not zone:vSwitch.", ccm.Quote(value)),
				Ask:     fmt.Sprintf("Write one pair a zone, with commas between: %s.", ccm.SetCommand(c.Service, zoneMaps, "ZONE:VSWITCH,ZONE:VSWITCH")),
			}
		}
		now, ok := vsws.All[fields[1]]
		if !ok {
			return remedy.Plan{
				Finding: fmt.Sprintf("The annotation zone-maps names %s, which the cluster's VPC %s does not have.", ccm.Quote(fields[1]), vsws.ID),
				Cause:   cut(fields[1]),
				Ask:     fmt.Sprintf("Name vSwitches of the cluster's VPC: %s. %s.", ccm.SetCommand(c.Service, zoneMaps, "ZONE:VSWITCH,ZONE:VSWITCH"), considered(vsws)),
			}
		}
		if fields[0] != now.Zone {
			return remedy.Plan{
				Finding: fmt.Sprintf("The annotation zone-maps has %s in the zone %s, and it is in %s.", now.ID, ccm.Quote(fields[0]), now.Zone),
				Cause:   now.ID,
				Ask:     fmt.Sprintf("Name each vSwitch with its own zone: %s. %s.", ccm.SetCommand(c.Service, zoneMaps, "ZONE:VSWITCH,ZONE:VSWITCH"), considered(vsws)),
			}
		}
		if c.Policy.VSwitches.Room(now.Free) > 0 {
			parts = append(parts, part)
			continue
		}
		causes = append(causes, now.ID)
		if len(fields) > 2 {
			return remedy.Plan{
				Finding: fmt.Sprintf("The vSwitch is full: %s, and the zone map asks for an address in it.", ccm.DescribeVSwitch(now)),
				Cause:   now.ID,
				Ask:     fmt.Sprintf("Free addresses in the vSwitch, or take the address out of the annotation, or name another vSwitch of the zone: %s.", ccm.SetCommand(c.Service, zoneMaps, "ZONE:VSWITCH,ZONE:VSWITCH")),
			}
		}
		to, ok := c.BestVSwitch(vsws, now.Zone, now.ID, true)
		if held := c.HeldVSwitches(vsws, now.Zone, now.ID, true); !ok && held != "" {
			return remedy.Plan{
				Finding: fmt.Sprintf("The vSwitch is full: %s. %s", ccm.DescribeVSwitch(now), held),
				Cause:   now.ID,
				Wait:    lag,
			}
		}
		if !ok {
			return remedy.Plan{
				Finding: fmt.Sprintf("The vSwitch is full: %s. No other vSwitch of its zone has more than the reserve. %s.", ccm.DescribeVSwitch(now), considered(vsws)),
				Cause:   now.ID,
				Ask:     "Free addresses in the vSwitch, or add one to its zone, or allow one in the policy file.",
			}
		}
		findings = append(findings, fmt.Sprintf("The vSwitch is full: %s. %s.", ccm.DescribeVSwitch(now), ccm.DescribeVSwitch(to)))
		parts = append(parts, fields[0]+":"+to.ID)
		claims = append(claims, c.PlaceIn(to))
	}
	if len(claims) == 0 {
		return remedy.Plan{
			Finding: fmt.Sprintf("Every vSwitch of the zone map %s has room by the cloud's own figures, which may lag.", ccm.Quote(value)),
			Wait:    lag,
		}
	}
	return remedy.Plan{
		Finding: strings.Join(findings, " "),
		Cause:   strings.Join(causes, ","),
		Steps:   []remedy.Step{step.With(c.Service, zoneMaps, strings.Join(parts, ","))},
		Claims:  claims,
	}
}

// noRoom answers if no vSwitch can be chosen; held says why, if the free addresses
// are held for others.
func noRoom(full, cause string, vsws ccm.VPC, held string) remedy.Plan {
	p := remedy.Plan{
		Finding: fmt.Sprintf("%s No other one has more than the reserve. %s.", full, considered(vsws)),
		Cause:   cause,
		Ask:     "Add a vSwitch to the VPC and to the cluster, or free addresses, or allow another vSwitch of the VPC in the policy file.",
	}
	if held != "" {
		p.Finding, p.Wait = full+" "+held, lag
	}
	return p
}

// holds reports whether the vSwitch that the Service asks for is still out of
// addresses. The cloud's figures lag, so a few free addresses prove nothing.
func holds(ctx context.Context, c *remedy.Case) (remedy.Verdict, error) {
	if c.Written() && ccm.Synced(c.Service) {
		return remedy.No, nil
	}
	vsws, err := c.VPC(ctx)
	if err != nil {
		return remedy.Unknown, err
	}
	asked := vsws.Own
	if id, _ := ccm.Annotation(c.Service, vswitchID); id != "" {
		asked = []string{id}
	}
	if value, ok := ccm.Annotation(c.Service, zoneMaps); ok && ccm.NLB(c.Service) {
		asked = nil
		for _, part := range strings.Split(value, ",") {
			_, rest, ok := strings.Cut(strings.TrimSpace(part), ":")
			if !ok {
				return remedy.Yes, nil // no zone map at all
			}
			id, _, _ := strings.Cut(rest, ":")
			asked = append(asked, id)
		}
	}
	if len(asked) == 0 {
		return remedy.Unknown, errors.New("the cluster names no vSwitch of its own")
	}
	for _, id := range asked {
		if vsw, ok := vsws.All[id]; !ok || c.Policy.VSwitches.Room(vsw.Free) == 0 {
			return remedy.Yes, nil
		}
	}
	return remedy.No, nil
}

// cut returns an ID that may be none, as short as IDs are.
func cut(id string) string { return strings.ToValidUTF8(id[:min(len(id), 64)], "") }

func considered(vsws ccm.VPC) string {
	return "The cluster's own vSwitches: " + vsws.DescribeOwn()
}
