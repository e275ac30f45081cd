// Package vswitchnotfound remedies Services whose vSwitch does not exist.
package vswitchnotfound

import (
	"context"
	_ "embed"
	"strings"
	"time"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/step"
)

//go:embed doc.md
var doc string

// Remedy asks for an existing vSwitch. It chooses one if nobody named a vSwitch, or if the policy
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
	StillFails:  stillFails,
}

// Short names of the annotations that name vSwitches.
const (
	vswitchID = "vswitch-id"
	zoneMaps  = "zone-maps"
)

// lag is how long to wait until the cloud's figures of free addresses are up to date.
const lag = time.Minute

// soon is the longest time until the controller retries.
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
			Finding: say.F("The load balancer %s exists, but the controller asks for a vSwitch that does not exist.", exists),
			Ask: say.F("Check the controller's log for what it tries to create: %s.", c.LogQuery()).
				And("A load balancer never changes its vSwitch: the annotation %svswitch-id only applies to a new one.", ccm.Prefix),
		}, nil
	}
	id, _ := ccm.Annotation(c.Service, vswitchID)
	if now, ok := vpc.All[id]; ok {
		return remedy.Plan{
			Finding: say.F("The annotation vswitch-id names %s, which now exists in %s.", id, now.Zone),
			Wait:    soon,
		}, nil
	}
	return diagnoseCLB(c, vpc, id), nil
}

// diagnoseCLB plans for a new CLB whose vSwitch does not exist: the one with the ID, or without an ID
// the one that the controller uses by default.
func diagnoseCLB(c *remedy.Case, vpc ccm.VPC, id string) remedy.Plan {
	p := remedy.Plan{
		Finding: say.F("The annotation vswitch-id names %s, which the cluster's VPC %s does not have.", ccm.Quote(id), vpc.ID),
		Cause:   cut(id),
	}
	if id == "" {
		p.Finding = say.F("The Service names no vSwitch, and the controller's default vSwitch does not exist.").
			And("The cluster's own vSwitches: %s.", vpc.DescribeOwn())
		p.Cause = vpc.OwnIDs()
	}
	to, ok := c.BestVSwitch(vpc, "", id, false)
	held := c.HeldVSwitches(vpc, "", id, false)
	switch {
	case !ok:
		p.Ask = say.F("Add a vSwitch to the VPC %s and to the cluster, or free addresses, or allow another vSwitch of the VPC in the policy file.", vpc.ID).
			And("Then name it: %s.", ccm.SetCommand(c.Service, vswitchID, "VSWITCH"))
		if len(held) > 0 {
			p.Finding, p.Wait = p.Finding.Then(held), lag
		} else {
			p.Finding = p.Finding.And("No allowed vSwitch has more free addresses than the reserve.")
		}
		return p
	case id == "":
		p.Note = say.F("The controller's configuration still names the missing vSwitch. Until it is corrected, other new Services fail in the same way.")
	case !c.Policy.VSwitches.ReplaceMissing:
		p.Ask = say.F("Name a vSwitch of the VPC %s. The cluster's own vSwitches: %s.", vpc.ID, vpc.DescribeOwn()).
			And("For example, to use %s: %s.", to.ID, ccm.SetCommand(c.Service, vswitchID, to.ID)).
			And("lbremedy does this automatically if vswitches.replaceMissing is set in the policy file.")
		return p
	default:
		p.Finding = p.Finding.And("The best of the allowed vSwitches: %s.", ccm.DescribeVSwitch(to))
	}
	p.Steps = []remedy.Step{step.With(c.Service, vswitchID, to.ID)}
	p.Claims = []remedy.Claim{c.PlaceIn(to)}
	return p
}

// cut returns at most 64 bytes of an ID that somebody wrote: IDs are not longer.
func cut(id string) string { return strings.ToValidUTF8(id[:min(len(id), 64)], "") }

// diagnoseNLB plans for a zone map that names a vSwitch which does not exist.
func diagnoseNLB(c *remedy.Case, vpc ccm.VPC, exists string) remedy.Plan {
	value, _ := ccm.Annotation(c.Service, zoneMaps)
	var parts, gone, quoted []string
	var found []say.Text
	var claims []remedy.Claim
	bound, full := false, false
	var held say.Text
	for part := range strings.SplitSeq(value, ",") {
		part = strings.TrimSpace(part)
		fields := strings.Split(part, ":")
		if len(fields) < 2 {
			return remedy.Plan{
				Finding: say.F("The annotation zone-maps is %s, and one part of it does not have the form ZONE:VSWITCH.", ccm.Quote(value)),
				Ask: say.F("Write one pair for each zone, separated by commas: %s.",
					ccm.SetCommand(c.Service, zoneMaps, "ZONE:VSWITCH,ZONE:VSWITCH")),
			}
		}
		if _, ok := vpc.All[fields[1]]; ok {
			parts = append(parts, part)
			continue
		}
		gone, quoted = append(gone, cut(fields[1])), append(quoted, ccm.Quote(fields[1]))
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
			Finding: say.F("Every vSwitch of the zone map %s exists now.", ccm.Quote(value)),
			Wait:    soon,
		}
	}
	p := remedy.Plan{
		Finding: say.F("The annotation zone-maps names vSwitches that the cluster's VPC %s does not have: %s.", vpc.ID, say.List(quoted, 5)),
		Cause:   remedy.List(gone, 5),
	}
	own, written := vpc.DescribeOwn(), strings.Join(parts, ",")
	switch {
	case exists != "":
		p.Finding = p.Finding.And("The NLB %s exists, and a change of its zones moves traffic.", exists)
		p.Ask = say.F("Name existing vSwitches in the annotation %szone-maps, one for each zone of the NLB.", ccm.Prefix)
	case bound:
		p.Finding = p.Finding.And("The zone map asks for an address in a missing vSwitch.")
		p.Ask = say.F("Name an existing vSwitch, with an address that belongs to it or without an address.")
	case full && len(held) > 0:
		p.Finding, p.Wait = p.Finding.Then(held), lag
		return p
	case full:
		p.Finding = p.Finding.And("No vSwitch of the same zone has more free addresses than the reserve.")
		p.Ask = say.F("In the annotation %szone-maps, name another vSwitch of that zone or another zone. Or add a vSwitch to the zone.", ccm.Prefix)
	case !c.Policy.VSwitches.ReplaceMissing:
		p.Ask = say.F("Name existing vSwitches.").
			And("The most similar zone map: %s.", ccm.SetCommand(c.Service, zoneMaps, written)).
			And("lbremedy sets it automatically if vswitches.replaceMissing is set in the policy file.")
	default:
		p.Finding = p.Finding.And("Replacements in the same zones: %s.", say.Items(found, len(found)))
		p.Steps = []remedy.Step{step.With(c.Service, zoneMaps, written)}
		p.Claims = claims
		return p
	}
	p.Ask = p.Ask.And("The cluster's own vSwitches: %s.", own)
	return p
}

// stillFails reports whether the Service still asks for a vSwitch that does not exist. The controller's
// default cannot be read: there only a successful sync is evidence, and the engine has already checked
// for one.
func stillFails(ctx context.Context, c *remedy.Case) (remedy.Verdict, error) {
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
