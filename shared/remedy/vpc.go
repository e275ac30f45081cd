package remedy

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/grant"
)

// VPCReads is what VPC and Made read. A class that calls them declares it.
var VPCReads = []grant.Grant{
	grant.DescribeClusterDetail, grant.DescribeClusterNodePools, grant.DescribeVSwitches,
	grant.DescribeLoadBalancers, grant.ListNLBs,
}

// A VPC is the cluster's, with its vSwitches, and which of them a Service may use.
type VPC struct {
	ID   string
	All  map[string]cloud.VSwitch // by ID
	Own  []string                 // IDs of the cluster's own, without those that are for Pods only; sorted
	Pods []string                 // IDs of those that are for Pods
}

// VPC reads the vSwitches of the cluster's VPC. The cluster's own are those of
// its detail and of its default node pool.
func (c *Case) VPC(ctx context.Context) (VPC, error) {
	cluster, err := c.Cloud.CS.Cluster(ctx)
	if err != nil {
		return VPC{}, fmt.Errorf("describe the cluster: %w", err)
	}
	pools, err := c.Cloud.CS.NodePools(ctx)
	if err != nil {
		return VPC{}, fmt.Errorf("list node pools: %w", err)
	}
	list, err := c.Cloud.VPC.VSwitches(ctx, cluster.VPC)
	if err != nil {
		return VPC{}, fmt.Errorf("list vSwitches of %s: %w", cluster.VPC, err)
	}
	v := VPC{ID: cluster.VPC, All: map[string]cloud.VSwitch{}, Own: slices.Clone(cluster.VSwitches), Pods: cluster.PodVSwitches}
	for _, vsw := range list {
		v.All[vsw.ID] = vsw
	}
	for _, p := range pools {
		if p.Default {
			v.Own = append(v.Own, p.VSwitches...)
		}
	}
	v.Own = slices.DeleteFunc(v.Own, func(id string) bool { return slices.Contains(v.Pods, id) })
	slices.Sort(v.Own)
	v.Own = slices.Compact(v.Own)
	return v, nil
}

// Best returns the vSwitch that a new load balancer of the case's Service is to
// take an address from, and whether there is one: available, with more than the
// reserve of free addresses, the cluster's own or allowed by the policy, with IPv6
// where the Service asks for it, and not the one called not. One of the zone comes
// first, then the one with most free addresses, then the first by ID, so that the
// choice is the same each time; with onlyZone no other zone's counts.
func (v VPC) Best(c *Case, zone, not string, onlyZone bool) (cloud.VSwitch, bool) {
	fit := slices.DeleteFunc(v.fit(c, zone, not, onlyZone), func(vsw cloud.VSwitch) bool { return c.Full(vswitchKey(vsw.ID)) })
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

// fit returns the vSwitches that Best may choose from, also those whose room others
// have claimed.
func (v VPC) fit(c *Case, zone, not string, onlyZone bool) []cloud.VSwitch {
	ipv6, _ := Annotation(c.Service, "ip-version")
	var fit []cloud.VSwitch
	for id, vsw := range v.All {
		switch {
		case id == not, vsw.Status != "Available":
		case onlyZone && vsw.Zone != zone:
		case !slices.Contains(v.Own, id) && !c.Policy.VSwitches.Allowed(id):
		case strings.EqualFold(ipv6, "ipv6") && !vsw.IPv6:
		case c.Policy.VSwitches.Room(vsw.Free) == 0:
		default:
			fit = append(fit, vsw)
		}
	}
	return fit
}

// Held says, as a sentence, that Best finds none because others hold the room that
// there is: by the time that they let go of it, the cloud's figures show what they
// took. It is empty where that is not why.
func (v VPC) Held(c *Case, zone, not string, onlyZone bool) string {
	var held []string
	for _, vsw := range v.fit(c, zone, not, onlyZone) {
		if c.Full(vswitchKey(vsw.ID)) {
			held = append(held, vsw.ID)
		}
	}
	if len(held) == 0 {
		return ""
	}
	slices.Sort(held)
	return fmt.Sprintf("What %s has free above the reserve is held for other Services, for 10 minutes at most.", List(held, named))
}

// Place is the claim on one address of the vSwitch, so that many Services don't
// all choose the same last one.
func (v VPC) Place(c *Case, to cloud.VSwitch) Claim {
	return Claim{Key: vswitchKey(to.ID), Of: c.Policy.VSwitches.Room(to.Free)}
}

func vswitchKey(id string) string { return "vswitch." + id }

// OwnIDs returns the IDs of the cluster's own vSwitches, with commas between.
func (v VPC) OwnIDs() string { return strings.Join(v.Own, ",") }

// DescribeOwn lists the cluster's own vSwitches with their free addresses.
func (v VPC) DescribeOwn() string {
	var parts []string
	for _, id := range v.Own {
		if vsw, ok := v.All[id]; ok {
			parts = append(parts, DescribeVSwitch(vsw))
		} else {
			parts = append(parts, id+" (does not exist)")
		}
	}
	return or(strings.Join(parts, ", "), "none")
}

// DescribeVSwitch says where the vSwitch is and how many addresses it has free.
func DescribeVSwitch(v cloud.VSwitch) string {
	if v.Free == 1 {
		return fmt.Sprintf("%s in %s has 1 free address", v.ID, v.Zone)
	}
	return fmt.Sprintf("%s in %s has %d free addresses", v.ID, v.Zone, v.Free)
}
