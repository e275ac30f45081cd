package ccm

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/say"
)

// VPCReads is what VPC and Made read; a class that calls them declares it.
var VPCReads = []grant.Grant{
	grant.DescribeClusterDetail, grant.DescribeClusterNodePools, grant.DescribeVSwitches,
	grant.DescribeLoadBalancers, grant.ListNLBs,
}

// AddressLag is how long the cloud takes to update its figures of free addresses.
const AddressLag = time.Minute

// ClusterVPC returns the ID of the VPC of the cluster's nodes. It needs DescribeClusterDetail.
func (c *View) ClusterVPC(ctx context.Context) (string, error) {
	cluster, err := c.Cloud.CS.Cluster(ctx)
	if err != nil {
		return "", fmt.Errorf("describe the cluster: %w", err)
	}
	return cluster.VPC, nil
}

// A VPC is the cluster's VPC, with its vSwitches.
type VPC struct {
	ID   string
	All  map[string]cloud.VSwitch // by ID
	Own  []string                 // IDs of the cluster's own, without those for Pods only; sorted
	Pods []string                 // IDs of those for Pods, and perhaps for nodes too
}

// VPC reads the vSwitches of the cluster's VPC. The cluster's own are those of its detail and default node pool. One that serves Pods counts
// if nodes are in it too, as often with Terway.
func (c *View) VPC(ctx context.Context) (VPC, error) {
	var pools []cloud.NodePool
	var beside errgroup.Group
	beside.Go(func() (err error) {
		pools, err = c.Cloud.CS.NodePools(ctx)
		return err
	})
	cluster, err := c.Cloud.CS.Cluster(ctx)
	unlisted := beside.Wait()
	if err != nil {
		return VPC{}, fmt.Errorf("describe the cluster: %w", err)
	}
	if unlisted != nil {
		return VPC{}, fmt.Errorf("list node pools: %w", unlisted)
	}
	list, err := c.Cloud.VPC.VSwitches(ctx, cluster.VPC)
	if err != nil {
		return VPC{}, fmt.Errorf("list vSwitches of %s: %w", cluster.VPC, err)
	}
	v := VPC{ID: cluster.VPC, All: map[string]cloud.VSwitch{}, Own: slices.Clone(cluster.VSwitches), Pods: cluster.PodVSwitches}
	for _, vsw := range list {
		v.All[vsw.ID] = vsw
	}
	var nodes []string // of all node pools; without any, the nodes use those of the detail
	for _, p := range pools {
		nodes = append(nodes, p.VSwitches...)
		if p.Default {
			v.Own = append(v.Own, p.VSwitches...)
		}
	}
	v.Own = slices.DeleteFunc(v.Own, func(id string) bool {
		return slices.Contains(v.Pods, id) && len(nodes) > 0 && !slices.Contains(nodes, id)
	})
	slices.Sort(v.Own)
	v.Own = slices.Compact(v.Own)
	return v, nil
}

// VSwitchesOf returns the IDs of the vSwitches of the Service's load balancer, and of those in annotations that still count: all for a new
// one (lb is nil), and those for further zones of an NLB.
func VSwitchesOf(svc *corev1.Service, lb *Instance) []string {
	var ids []string
	switch {
	case lb != nil && lb.NLB != nil:
		for _, z := range lb.NLB.Zones {
			ids = append(ids, z.VSwitch)
		}
	case lb != nil:
		return []string{lb.CLB.VSwitch}
	default:
		id, _ := Annotation(svc, "vswitch-id")
		ids = append(ids, id)
	}
	zones, _ := Annotation(svc, "zone-maps")
	for part := range strings.SplitSeq(zones, ",") {
		if fields := strings.SplitN(part, ":", 3); len(fields) > 1 {
			ids = append(ids, fields[1])
		}
	}
	return ids
}

// ZonePairs returns the first vSwitch of each zone, as the annotation zone-maps has them.
func ZonePairs(list []cloud.VSwitch) []string {
	var pairs []string
	seen := map[string]bool{}
	for _, v := range list {
		if !seen[v.Zone] {
			pairs = append(pairs, v.Zone+":"+v.ID)
		}
		seen[v.Zone] = true
	}
	return pairs
}

// OwnIDs returns the IDs of the cluster's own vSwitches, separated by commas.
func (v VPC) OwnIDs() string { return strings.Join(v.Own, ",") }

// Lacks says that the annotation with this short name names a vSwitch that the VPC does not have.
func (v VPC) Lacks(short, id string) say.Text {
	return say.F("The annotation %s names %s, which the cluster's VPC %s does not have.", short, Quote(id), v.ID)
}

// LacksAll says that the annotation with this short name names vSwitches that the VPC does not have.
func (v VPC) LacksAll(short string, ids []string) say.Text {
	var quoted []string
	for _, id := range ids {
		quoted = append(quoted, Quote(id))
	}
	return say.F("The annotation %s names vSwitches that the cluster's VPC %s does not have: %s.", short, v.ID, say.List(quoted, 5))
}

// LacksDefault says, depending on the controller's message, that the VPC lacks the controller's default vSwitch, or that the controller has none.
func (v VPC) LacksDefault(message string) say.Text {
	text := say.F("The Service names no vSwitch, and the controller's default vSwitch does not exist.")
	if noDefault(message) {
		text = say.F("Neither the Service nor the controller's configuration names a vSwitch, or the configuration names it without its zone.")
	}
	return text.And("The cluster's own vSwitches: %s.", v.DescribeOwn())
}

// UntilDefault says how long the controller's default stays wrong.
func UntilDefault(message string) say.Text {
	text := say.F("The controller's configuration still names the missing vSwitch.")
	if noDefault(message) {
		text = say.F("The controller's configuration still names no vSwitch in the form zone:vSwitch.")
	}
	return text.And("Until it is corrected, other new Services fail in the same way.")
}

// noDefault reports whether the controller's configuration names no readable vSwitch (RandomVswitchID in clbv1/loadbalancer.go, since v2.13.0).
func noDefault(message string) bool { return strings.Contains(message, "no vswitches found") }

// HasAll reports whether the VPC has all vSwitches with these IDs.
func (v VPC) HasAll(ids []string) bool {
	return !slices.ContainsFunc(ids, func(id string) bool { return !v.Has(id) })
}

// Has reports whether the VPC has a vSwitch with this ID.
func (v VPC) Has(id string) bool {
	_, ok := v.All[id]
	return ok
}

// Holding returns the vSwitch whose IPv4 block contains the address.
func (v VPC) Holding(address string) (cloud.VSwitch, bool) {
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return cloud.VSwitch{}, false
	}
	for _, vsw := range v.All {
		if block, err := netip.ParsePrefix(vsw.CIDR); err == nil && block.Contains(ip) {
			return vsw, true
		}
	}
	return cloud.VSwitch{}, false
}

// DescribeOwn lists the cluster's own vSwitches with their free addresses.
func (v VPC) DescribeOwn() say.Text {
	var parts []say.Text
	for _, id := range v.Own {
		if vsw, ok := v.All[id]; ok {
			parts = append(parts, DescribeVSwitch(vsw))
		} else {
			parts = append(parts, say.F("%s (does not exist)", id))
		}
	}
	if len(parts) == 0 {
		return say.F("none")
	}
	return say.Items(parts, len(parts))
}

// DescribeVSwitch says where the vSwitch is and how many free addresses it has.
func DescribeVSwitch(v cloud.VSwitch) say.Text {
	if v.Free == 1 {
		return say.F("%s in %s has 1 free address", v.ID, v.Zone)
	}
	return say.F("%s in %s has %d free addresses", v.ID, v.Zone, v.Free)
}

// DescribeVSwitches lists up to limit vSwitches with their free addresses.
func DescribeVSwitches(list []cloud.VSwitch, limit int) say.Text {
	var texts []say.Text
	for _, v := range list {
		texts = append(texts, DescribeVSwitch(v))
	}
	return say.Items(texts, limit)
}

// AddressesOf returns how many addresses the vSwitch has for load balancers, nodes and Pods: the first of its block and the last three are
// reserved (https://www.alibabacloud.com/help/en/vpc/user-guide/create-and-manage-vswitch).
func AddressesOf(v cloud.VSwitch) (int64, error) {
	block, err := netip.ParsePrefix(v.CIDR)
	if err != nil || !block.Addr().Is4() {
		return 0, fmt.Errorf("its block is %q", v.CIDR)
	}
	return int64(1)<<(32-block.Bits()) - 4, nil
}

// OwnZones returns the zones of the cluster's own vSwitches, sorted.
func (v VPC) OwnZones() []string {
	var zones []string
	for _, id := range v.Own {
		if vsw, ok := v.All[id]; ok {
			zones = append(zones, vsw.Zone)
		}
	}
	slices.Sort(zones)
	return slices.Compact(zones)
}

// MeantZone returns the zone that a CLB's missing vSwitch was for: the one that the Service asks for, or the cluster's only one, or "".
func (v VPC) MeantZone(svc *corev1.Service) string {
	zone, _ := Annotation(svc, MasterZone)
	if own := v.OwnZones(); zone == "" && len(own) == 1 {
		return own[0]
	}
	return zone
}

// Zones returns the zones of the VPC's vSwitches, sorted.
func (v VPC) Zones() []string {
	var zones []string
	for _, vsw := range v.All {
		zones = append(zones, vsw.Zone)
	}
	slices.Sort(zones)
	return slices.Compact(zones)
}
