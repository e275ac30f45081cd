// Package vswitchnotfound remedies Services whose vSwitch does not exist.
package vswitchnotfound

import (
	"context"
	_ "embed"
	"fmt"
	"strings"
	"time"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/step"
)

//go:embed doc.md
var doc string

// Remedy asks which vSwitch to use, or chooses one if nobody named one or the policy
// allows it.
var Remedy = &remedy.Remedy{
	Class: "vswitch-not-found",
	Doc:   doc,
	Codes: []string{"VSwitchNotExist", "InvalidVSwitchId.NotFound", "ResourceNotFound.VSwitch"},
	Texts: []string{
		"specified VSwitch does not exist.",
		"specified vSwitch instance is invalid",
		"resource of vSwitch is not found",
		"vpc subnet is not exist",
	},
	Reads:       ccm.VPCReads,
	Steps:       []remedy.Step{step.Annotate{}},
	Annotations: []string{vswitchID, zoneMaps},
	Diagnose:    diagnose,
	StillFails:  holds,
}

// Short names of the annotations that name vSwitches.
const (
	vswitchID = "vswitch-id"
	zoneMaps  = "zone-maps"
)

// lag is how long to wait for the cloud's figures of free addresses to follow.
const lag = time.Minute

// soon is how long the controller takes to try again by itself at most.
const soon = 5 * time.Minute

func diagnose(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
	exists, err := c.Made(ctx)
	if err != nil {
		return remedy.Plan{}, err
	}
	vpc, err := c.VPC(ctx)
	if err != nil {
		return remedy.Plan{}, err
	}
	if ccm.NLB(c.Service) {
		return diagnoseNLB(c, vpc, exists), nil
	}
	if exists != "" {
		return remedy.Plan{
			Finding: fmt.Sprintf("The load balancer %s exists, and yet the controller asks for a vSwitch that does not.", exists),
			Ask:     fmt.Sprintf("Find out what the controller wants to make: %s. The vSwitch of a load balancer can't change; the annotation %svswitch-id counts for a new one only.", c.LogQuery(), ccm.Prefix),
		}, nil
	}
	id, _ := ccm.Annotation(c.Service, vswitchID)
	if id == "" { // an empty one counts for none
		return unnamed(c, vpc), nil
	}
	if now, ok := vpc.All[id]; ok {
		return remedy.Plan{
			Finding: fmt.Sprintf("The annotation vswitch-id names %s, which exists in %s by now.", id, now.Zone),
			Wait:    soon,
		}, nil
	}
	cause := cut(id)
	finding := fmt.Sprintf("The annotation vswitch-id names %s, which the cluster's VPC %s does not have.", ccm.Quote(id), vpc.ID)
	to, ok := c.BestVSwitch(vpc, "", id, false)
	if !ok {
		return noRoom(c, finding, cause, vpc, c.HeldVSwitches(vpc, "", id, false)), nil
	}
	if !c.Policy.VSwitches.ReplaceMissing {
		return remedy.Plan{
			Finding: finding,
			Cause:   cause,
			Ask: fmt.Sprintf("Name a vSwitch of the VPC %s. %s. With %s it would be: %s. lbremedy does that by itself where the policy file says vswitches.replaceMissing.",
				vpc.ID, own(vpc), to.ID, ccm.SetCommand(c.Service, vswitchID, to.ID)),
		}, nil
	}
	return remedy.Plan{
		Finding: fmt.Sprintf("%s Of those that may be used, %s.", finding, ccm.DescribeVSwitch(to)),
		Cause:   cause,
		Steps:   []remedy.Step{step.With(c.Service, vswitchID, to.ID)},
		Claims:  []remedy.Claim{c.PlaceIn(to)},
	}, nil
}

// longest is how long a cause may be: no ID of the cloud is longer.
const longest = 64

// cut returns an ID that may be none, as short as IDs are.
func cut(id string) string { return strings.ToValidUTF8(id[:min(len(id), longest)], "") }

// unnamed answers if the Service leaves the choice to the controller, whose own
// configuration names a vSwitch that is gone.
func unnamed(c *remedy.Case, vpc ccm.VPC) remedy.Plan {
	finding := fmt.Sprintf("The Service names no vSwitch, and the one that the controller takes by default does not exist. %s.", own(vpc))
	to, ok := c.BestVSwitch(vpc, "", "", false)
	if !ok {
		return noRoom(c, finding, vpc.OwnIDs(), vpc, c.HeldVSwitches(vpc, "", "", false))
	}
	return remedy.Plan{
		Finding: finding,
		Cause:   vpc.OwnIDs(),
		Note:    "The controller's configuration still names the missing vSwitch: other new Services fail the same way until it is put right.",
		Steps:   []remedy.Step{step.With(c.Service, vswitchID, to.ID)},
		Claims:  []remedy.Claim{c.PlaceIn(to)},
	}
}

// diagnoseNLB answers for a zone map that names a vSwitch that does not exist.
func diagnoseNLB(c *remedy.Case, vpc ccm.VPC, exists string) remedy.Plan {
	value, _ := ccm.Annotation(c.Service, zoneMaps)
	var parts, gone, found []string
	var claims []remedy.Claim
	bound, full, held := false, false, ""
	for part := range strings.SplitSeq(value, ",") {
		part = strings.TrimSpace(part)
		fields := strings.Split(part, ":")
		if len(fields) < 2 {
			return remedy.Plan{
				Finding: fmt.Sprintf("The annotation zone-maps is %s, and one part of it is not zone:vSwitch.", ccm.Quote(value)),
				Ask:     fmt.Sprintf("Write one pair a zone, with commas between: %s.", ccm.SetCommand(c.Service, zoneMaps, "ZONE:VSWITCH,ZONE:VSWITCH")),
			}
		}
		if _, ok := vpc.All[fields[1]]; ok {
			parts = append(parts, part)
			continue
		}
		gone = append(gone, cut(fields[1]))
		bound = bound || len(fields) > 2
		to, ok := c.BestVSwitch(vpc, fields[0], fields[1], true)
		if !ok {
			full, held = true, c.HeldVSwitches(vpc, fields[0], fields[1], true)
			continue
		}
		found = append(found, ccm.DescribeVSwitch(to))
		parts = append(parts, fields[0]+":"+to.ID)
		claims = append(claims, c.PlaceIn(to))
	}
	if len(gone) == 0 {
		return remedy.Plan{
			Finding: fmt.Sprintf("Every vSwitch of the zone map %s exists by now.", ccm.Quote(value)),
			Wait:    soon,
		}
	}
	p := remedy.Plan{
		Finding: fmt.Sprintf("The annotation zone-maps names %s, which the cluster's VPC %s does not have.", remedy.List(gone, 5), vpc.ID),
		Cause:   remedy.List(gone, 5),
	}
	written := strings.Join(parts, ",")
	switch {
	case exists != "":
		p.Finding += fmt.Sprintf(" The NLB %s exists, and a change of its zones moves traffic.", exists)
		p.Ask = fmt.Sprintf("Name vSwitches that exist, one for each zone of the NLB, in the annotation %szone-maps. %s.", ccm.Prefix, own(vpc))
	case bound:
		p.Finding += " The zone map asks for an address in it."
		p.Ask = fmt.Sprintf("Name a vSwitch that exists, and an address of it or none. %s.", own(vpc))
	case full && held != "":
		p.Finding += " " + held
		p.Wait = lag
	case full:
		p.Finding += " No vSwitch of the same zone has more than the reserve of free addresses."
		p.Ask = fmt.Sprintf("Name a vSwitch of that zone, or another zone, in the annotation %szone-maps, or add a vSwitch to the zone. %s.", ccm.Prefix, own(vpc))
	case !c.Policy.VSwitches.ReplaceMissing:
		p.Ask = fmt.Sprintf("Name vSwitches that exist. %s. The nearest zone map would be: %s. lbremedy writes it by itself where the policy file says vswitches.replaceMissing.",
			own(vpc), ccm.SetCommand(c.Service, zoneMaps, written))
	default:
		p.Finding += fmt.Sprintf(" Of the same zone, %s.", strings.Join(found, ", "))
		p.Steps = []remedy.Step{step.With(c.Service, zoneMaps, written)}
		p.Claims = claims
	}
	return p
}

// noRoom answers if no vSwitch can be chosen; held says why, if the free addresses
// are held for others.
func noRoom(c *remedy.Case, finding, cause string, vpc ccm.VPC, held string) remedy.Plan {
	p := remedy.Plan{
		Finding: finding + " No vSwitch that may be used has more than the reserve of free addresses.",
		Cause:   cause,
		Ask: fmt.Sprintf("Add a vSwitch to the VPC %s and to the cluster, or free addresses, or allow another vSwitch of the VPC in the policy file; then name it: %s.",
			vpc.ID, ccm.SetCommand(c.Service, vswitchID, "VSWITCH")),
	}
	if held != "" {
		p.Finding, p.Wait = finding+" "+held, lag
	}
	return p
}

func own(vpc ccm.VPC) string { return "The cluster's own vSwitches: " + vpc.DescribeOwn() }

// holds reports whether the Service still asks for a vSwitch that does not exist.
// The controller's default can't be read: for it only a successful sync is evidence,
// and the engine has looked for one.
func holds(ctx context.Context, c *remedy.Case) (remedy.Verdict, error) {
	if c.Written() && ccm.Synced(c.Service) {
		return remedy.No, nil
	}
	vpc, err := c.VPC(ctx)
	if err != nil {
		return remedy.Unknown, err
	}
	var asked []string
	if ccm.NLB(c.Service) {
		value, _ := ccm.Annotation(c.Service, zoneMaps)
		for part := range strings.SplitSeq(value, ",") {
			fields := strings.Split(strings.TrimSpace(part), ":")
			if len(fields) < 2 {
				return remedy.Yes, nil
			}
			asked = append(asked, fields[1])
		}
	} else if id, _ := ccm.Annotation(c.Service, vswitchID); id != "" {
		asked = []string{id}
	}
	for _, id := range asked {
		if _, ok := vpc.All[id]; !ok {
			return remedy.Yes, nil
		}
	}
	return remedy.Is(len(asked) == 0), nil
}
