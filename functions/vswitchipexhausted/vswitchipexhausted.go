// Package vswitchipexhausted remedies Services whose vSwitch has no free IP address.
package vswitchipexhausted

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/grant"
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
	Reads: []grant.Grant{
		grant.DescribeClusterDetail, grant.DescribeClusterNodePools, grant.DescribeVSwitches,
		grant.DescribeLoadBalancers, grant.ListNLBs,
	},
	Steps:    []remedy.Step{step.Annotate{}},
	Diagnose: diagnose,
	Holds:    holds,
}

// Short names of the annotations that decide where an LB is made, at its creation only.
const (
	vswitchID = "vswitch-id"
	zoneMaps  = "zone-maps"
)

func diagnose(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
	exists, err := balancer(ctx, c)
	if err != nil {
		return remedy.Plan{}, err
	}
	if exists != "" {
		return remedy.Plan{
			Finding: fmt.Sprintf("The vSwitch is full, and the load balancer %s exists already: a load balancer never leaves its vSwitch.", exists),
			Ask:     "Free addresses in the vSwitch of the load balancer, or recreate the Service in another one: its address changes then.",
		}, nil
	}
	vsws, err := vpc(ctx, c)
	if err != nil {
		return remedy.Plan{}, err
	}
	if remedy.NLB(c.Service) {
		return diagnoseNLB(c, vsws), nil
	}
	return diagnoseCLB(c, vsws), nil
}

// diagnoseCLB chooses the vSwitch that a new CLB is to take its address from.
func diagnoseCLB(c *remedy.Case, vsws vswitches) remedy.Plan {
	if ip, ok := remedy.Annotation(c.Service, "ip"); ok {
		return remedy.Plan{
			Finding: fmt.Sprintf("The vSwitch is full, and the annotation ip asks for the address %s, which lies in one vSwitch.", ip),
			Ask:     "Free that address, or remove the annotation ip, or give it an address of a vSwitch with room together with vswitch-id.",
		}
	}
	id, named := remedy.Annotation(c.Service, vswitchID)
	full, zone := vsws.describeOwn(), ""
	cause := vsws.ownIDs()
	if named {
		now, ok := vsws.all[id]
		if !ok {
			return remedy.Plan{
				Finding: fmt.Sprintf("The annotation vswitch-id names %s, which the cluster's VPC %s does not have.", id, vsws.vpc),
				Cause:   id,
				Ask:     "Name a vSwitch of the cluster's VPC: " + vsws.describeOwn() + ".",
			}
		}
		full, zone, cause = describe(now), now.Zone, id
	}
	to, ok := vsws.best(c, zone, id, false)
	if !ok {
		return noRoom(full, cause, vsws)
	}
	return remedy.Plan{
		Finding: fmt.Sprintf("The vSwitch is full: %s. %s.", full, describe(to)),
		Cause:   cause,
		Steps:   []remedy.Step{step.With(c, vswitchID, to.ID)},
		Claims:  []remedy.Claim{claim(c, to)},
	}
}

// diagnoseNLB exchanges the full vSwitches in a zone map for others of their zones.
func diagnoseNLB(c *remedy.Case, vsws vswitches) remedy.Plan {
	value, _ := remedy.Annotation(c.Service, zoneMaps)
	var parts, findings, causes []string
	var claims []remedy.Claim
	for _, part := range strings.Split(value, ",") {
		fields := strings.Split(strings.TrimSpace(part), ":")
		if len(fields) < 2 {
			return remedy.Plan{
				Finding: fmt.Sprintf("The annotation zone-maps is %q, and one part of it is not zone:vSwitch.", value),
				Ask:     "Write the annotation as zone:vsw-id, one pair a zone, with commas between.",
			}
		}
		now, ok := vsws.all[fields[1]]
		if !ok {
			return remedy.Plan{
				Finding: fmt.Sprintf("The annotation zone-maps names %s, which the cluster's VPC %s does not have.", fields[1], vsws.vpc),
				Cause:   fields[1],
				Ask:     "Name vSwitches of the cluster's VPC: " + vsws.describeOwn() + ".",
			}
		}
		if c.Policy.VSwitches.Room(now.Free) > 0 {
			parts = append(parts, part)
			continue
		}
		causes = append(causes, now.ID)
		if len(fields) > 2 {
			return remedy.Plan{
				Finding: fmt.Sprintf("The vSwitch is full: %s, and the zone map asks for an address in it.", describe(now)),
				Cause:   now.ID,
				Ask:     "Free addresses in the vSwitch, or take the address out of the annotation zone-maps.",
			}
		}
		to, ok := vsws.best(c, now.Zone, now.ID, true)
		if !ok {
			return remedy.Plan{
				Finding: fmt.Sprintf("The vSwitch is full: %s. No other vSwitch of its zone has more than the reserve. %s.", describe(now), vsws.considered()),
				Cause:   now.ID,
				Ask:     "Free addresses in the vSwitch, or add one to its zone, or allow one in the policy file.",
			}
		}
		findings = append(findings, fmt.Sprintf("The vSwitch is full: %s. %s.", describe(now), describe(to)))
		parts = append(parts, fields[0]+":"+to.ID)
		claims = append(claims, claim(c, to))
	}
	if len(claims) == 0 {
		return remedy.Plan{
			Finding: fmt.Sprintf("Every vSwitch of the zone map %q has room by the cloud's own figures, which may lag.", value),
			Wait:    lag,
		}
	}
	return remedy.Plan{
		Finding: strings.Join(findings, " "),
		Cause:   strings.Join(causes, ","),
		Steps:   []remedy.Step{step.With(c, zoneMaps, strings.Join(parts, ","))},
		Claims:  claims,
	}
}

func noRoom(full, cause string, vsws vswitches) remedy.Plan {
	return remedy.Plan{
		Finding: fmt.Sprintf("The vSwitch is full: %s. No other one has more than the reserve. %s.", full, vsws.considered()),
		Cause:   cause,
		Ask:     "Add a vSwitch to the VPC and to the cluster, or free addresses, or allow another vSwitch of the VPC in the policy file.",
	}
}

func claim(c *remedy.Case, to cloud.VSwitch) remedy.Claim {
	return remedy.Claim{Key: key(to.ID), Of: c.Policy.VSwitches.Room(to.Free)}
}

func key(id string) string { return "vswitch." + id }

// holds reports whether the vSwitch that the Service asks for is still out of
// addresses. The cloud's figures lag, so that a few free ones are no evidence.
func holds(ctx context.Context, c *remedy.Case) (remedy.Verdict, error) {
	if c.Written() && remedy.Synced(c.Service) {
		return remedy.No, nil
	}
	vsws, err := vpc(ctx, c)
	if err != nil {
		return remedy.Unknown, err
	}
	asked := vsws.own
	if id, ok := remedy.Annotation(c.Service, vswitchID); ok {
		asked = []string{id}
	}
	if value, ok := remedy.Annotation(c.Service, zoneMaps); ok && remedy.NLB(c.Service) {
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
		if vsw, ok := vsws.all[id]; !ok || c.Policy.VSwitches.Room(vsw.Free) == 0 {
			return remedy.Yes, nil
		}
	}
	return remedy.No, nil
}

// balancer returns the ID of the load balancer that the Service has already, or "".
func balancer(ctx context.Context, c *remedy.Case) (string, error) {
	if id, ok := remedy.Annotation(c.Service, "id"); ok {
		return id, nil
	}
	if remedy.Synced(c.Service) {
		return remedy.Address(c.Service), nil
	}
	name := remedy.DefaultName(c.Service)
	if remedy.NLB(c.Service) {
		nlbs, err := c.Cloud.NLB.LoadBalancers(ctx, remedy.NameTag, name)
		if err != nil {
			return "", fmt.Errorf("list NLBs with the tag %s=%s: %w", remedy.NameTag, name, err)
		}
		for _, nlb := range nlbs {
			return nlb.ID, nil
		}
		return "", nil
	}
	for _, filter := range []cloud.LBFilter{{TagKey: remedy.NameTag, TagValue: name}, {Name: name}} {
		lbs, err := c.Cloud.SLB.LoadBalancers(ctx, filter)
		if err != nil {
			return "", fmt.Errorf("list load balancers of the Service: %w", err)
		}
		for _, lb := range lbs {
			if filter.Name == "" || lb.Name == name {
				return lb.ID, nil
			}
		}
	}
	return "", nil
}

// vswitches are those of the cluster's VPC, and which of them a Service may use.
type vswitches struct {
	vpc  string
	all  map[string]cloud.VSwitch
	own  []string // the cluster's own, without those that are for Pods only
	pods []string
}

// vpc reads the vSwitches of the cluster's VPC.
func vpc(ctx context.Context, c *remedy.Case) (vswitches, error) {
	cluster, err := c.Cloud.CS.Cluster(ctx)
	if err != nil {
		return vswitches{}, fmt.Errorf("describe the cluster: %w", err)
	}
	pools, err := c.Cloud.CS.NodePools(ctx)
	if err != nil {
		return vswitches{}, fmt.Errorf("list node pools: %w", err)
	}
	list, err := c.Cloud.VPC.VSwitches(ctx, cluster.VPC)
	if err != nil {
		return vswitches{}, fmt.Errorf("list vSwitches of %s: %w", cluster.VPC, err)
	}
	v := vswitches{vpc: cluster.VPC, all: map[string]cloud.VSwitch{}, own: slices.Clone(cluster.VSwitches), pods: cluster.PodVSwitches}
	for _, vsw := range list {
		v.all[vsw.ID] = vsw
	}
	for _, p := range pools {
		if p.Default {
			v.own = append(v.own, p.VSwitches...)
		}
	}
	v.own = slices.DeleteFunc(v.own, func(id string) bool { return slices.Contains(v.pods, id) })
	slices.Sort(v.own)
	v.own = slices.Compact(v.own)
	return v, nil
}

// best returns the vSwitch to move to: of the zone first, or only, then with
// most free addresses, then by ID.
func (v vswitches) best(c *remedy.Case, zone, not string, onlyZone bool) (cloud.VSwitch, bool) {
	ipv6, _ := remedy.Annotation(c.Service, "ip-version")
	var fit []cloud.VSwitch
	for id, vsw := range v.all {
		switch {
		case id == not, vsw.Status != "Available", c.Full(key(id)):
		case onlyZone && vsw.Zone != zone:
		case !slices.Contains(v.own, id) && !c.Policy.VSwitches.Allowed(id):
		case strings.EqualFold(ipv6, "ipv6") && !vsw.IPv6:
		case c.Policy.VSwitches.Room(vsw.Free) == 0:
		default:
			fit = append(fit, vsw)
		}
	}
	if len(fit) == 0 {
		return cloud.VSwitch{}, false
	}
	return slices.MinFunc(fit, func(a, b cloud.VSwitch) int { return order(a, b, zone) }), true
}

// describeOwn lists the cluster's own vSwitches with their free addresses.
func (v vswitches) describeOwn() string {
	var parts []string
	for _, id := range v.own {
		if vsw, ok := v.all[id]; ok {
			parts = append(parts, describe(vsw))
		} else {
			parts = append(parts, id+" (does not exist)")
		}
	}
	return strings.Join(parts, ", ")
}

func (v vswitches) considered() string {
	return fmt.Sprintf("The cluster's own vSwitches: %s", v.describeOwn())
}

func (v vswitches) ownIDs() string { return strings.Join(v.own, ",") }
