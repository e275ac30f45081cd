package rampermission

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/remedy"
)

// A version of the controller, such as v2.12.1.
type version struct{ major, minor, patch int }

// String returns the version as its release is called.
func (v version) String() string { return fmt.Sprintf("v%d.%d.%d", v.major, v.minor, v.patch) }

func (v version) before(o version) bool {
	return slices.Compare([]int{v.major, v.minor, v.patch}, []int{o.major, o.minor, o.patch}) < 0
}

// parseVersion reads "v2.12.1", also with a suffix: "v1.9.3.380-gd6d0962-aliyun".
func parseVersion(s string) (version, bool) {
	parts := strings.SplitN(strings.TrimPrefix(s, "v"), ".", 3)
	if len(parts) < 3 || !strings.HasPrefix(s, "v") {
		return version{}, false
	}
	last := strings.FieldsFunc(parts[2], func(r rune) bool { return r < '0' || r > '9' })
	if len(last) == 0 {
		return version{}, false
	}
	var v version
	var errs [3]error
	v.major, errs[0] = strconv.Atoi(parts[0])
	v.minor, errs[1] = strconv.Atoi(parts[1])
	v.patch, errs[2] = strconv.Atoi(last[0])
	return v, errs == [3]error{}
}

// imageVersion reads the version from the tag of a container image.
func imageVersion(image string) (version, bool) {
	image, _, _ = strings.Cut(image, "@")
	i := strings.LastIndex(image, ":")
	return parseVersion(image[i+1:])
}

// A feature is a part of the controller that a cluster uses or not.
type feature int

const (
	always      feature = iota
	flannel             // routes for Pods
	eni                 // Pods as backends: Terway, or the annotation backend-type
	nlb                 // Network Load Balancers
	eip                 // an EIP as the Service's address
	sourceRange         // spec.loadBalancerSourceRanges on an NLB
)

// inUse returns the features that the cluster and its Services use.
func inUse(cluster cloud.Cluster, services []corev1.Service) map[feature]bool {
	use := map[feature]bool{always: true, flannel: strings.HasPrefix(cluster.Network, "flannel"), eni: strings.HasPrefix(cluster.Network, "terway")}
	for _, svc := range services {
		if svc.Spec.Type != corev1.ServiceTypeLoadBalancer {
			continue
		}
		if remedy.NLB(&svc) {
			use[nlb] = true
			use[sourceRange] = use[sourceRange] || len(svc.Spec.LoadBalancerSourceRanges) > 0
		}
		if mode, _ := remedy.Annotation(&svc, "external-ip-type"); mode == "eip" {
			use[eip] = true
		}
		if svc.Annotations["service.beta.kubernetes.io/backend-type"] == "eni" {
			use[eni] = true
		}
	}
	return use
}

// A need is an action that the controller calls, from a version on, up to
// another, for a feature.
type need struct {
	actions string // with spaces between; all of one product
	from    version
	until   version // the first version that no longer calls it; zero: still called
	feature feature
}

// Versions at which the controller's calls changed.
var (
	v24   = version{2, 4, 0}
	v25   = version{2, 5, 0}
	v26   = version{2, 6, 0}
	v28   = version{2, 8, 0}
	v291  = version{2, 9, 1}
	v2112 = version{2, 11, 2}
	v2121 = version{2, 12, 1}
	v213  = version{2, 13, 0}
	v214  = version{2, 14, 0}
)

// needs is what the controller calls, read from its releases
// (github.com/kubernetes/cloud-provider-alibaba-cloud, pkg/provider/alibaba) and
// its release notes. The policy among its own examples is out of date.
var needs = []need{
	{actions: "slb:DescribeLoadBalancers slb:DescribeLoadBalancerAttribute slb:CreateLoadBalancer slb:DeleteLoadBalancer " +
		"slb:ModifyLoadBalancerInternetSpec slb:ModifyLoadBalancerInstanceSpec slb:SetLoadBalancerName " +
		"slb:SetLoadBalancerDeleteProtection slb:SetLoadBalancerModificationProtection " +
		"slb:DescribeVServerGroups slb:DescribeVServerGroupAttribute slb:CreateVServerGroup slb:DeleteVServerGroup " +
		"slb:SetVServerGroupAttribute slb:AddVServerGroupBackendServers slb:RemoveVServerGroupBackendServers slb:ModifyVServerGroupBackendServers " +
		"slb:CreateLoadBalancerTCPListener slb:CreateLoadBalancerUDPListener slb:CreateLoadBalancerHTTPListener slb:CreateLoadBalancerHTTPSListener " +
		"slb:SetLoadBalancerTCPListenerAttribute slb:SetLoadBalancerUDPListenerAttribute slb:SetLoadBalancerHTTPListenerAttribute slb:SetLoadBalancerHTTPSListenerAttribute " +
		"slb:StartLoadBalancerListener slb:StopLoadBalancerListener slb:DeleteLoadBalancerListener"},
	{actions: "slb:DescribeLoadBalancerListeners", from: version{2, 0, 0}},
	{actions: "slb:AddTags slb:RemoveTags slb:DescribeTags", until: v25},
	{actions: "slb:ModifyLoadBalancerInstanceChargeType slb:DescribeServerCertificates", from: v24},
	{actions: "slb:TagResources slb:UntagResources slb:ListTagResources", from: v25},
	{actions: "slb:CreateDomainExtension slb:SetDomainExtensionAttribute slb:DeleteDomainExtension slb:DescribeDomainExtensions", from: v213},
	{actions: "ecs:DescribeInstances"},
	{actions: "ecs:DescribeNetworkInterfaces", feature: eni},
	{actions: "vpc:DescribeVSwitches"},
	{actions: "vpc:DescribeVpcAttribute", from: v28},
	{actions: "vpc:DescribeEipAddresses", feature: eip},
	{actions: "vpc:DescribeRouteTableList vpc:DescribeRouteEntryList vpc:CreateRouteEntry vpc:DeleteRouteEntry", feature: flannel},
	{actions: "vpc:CreateRouteEntries vpc:DeleteRouteEntries", from: v2112, feature: flannel},
	{actions: "ecs:ModifyNetworkInterfaceAttribute", from: v2112},
	// The release notes ask for it from every cluster, not only from those with NLBs.
	{actions: "nlb:ListAsynJobs", from: v2121},
	{actions: "nlb:ListLoadBalancers nlb:GetLoadBalancerAttribute nlb:CreateLoadBalancer nlb:DeleteLoadBalancer " +
		"nlb:UpdateLoadBalancerAttribute nlb:UpdateLoadBalancerZones nlb:UpdateLoadBalancerAddressTypeConfig " +
		"nlb:ListTagResources nlb:TagResources nlb:UntagResources " +
		"nlb:ListServerGroups nlb:ListServerGroupServers nlb:CreateServerGroup nlb:UpdateServerGroupAttribute nlb:DeleteServerGroup " +
		"nlb:AddServersToServerGroup nlb:RemoveServersFromServerGroup nlb:UpdateServerGroupServersAttribute " +
		"nlb:ListListeners nlb:CreateListener nlb:UpdateListenerAttribute nlb:StartListener nlb:DeleteListener nlb:GetJobStatus", from: v25, feature: nlb},
	{actions: "nlb:LoadBalancerJoinSecurityGroup nlb:LoadBalancerLeaveSecurityGroup", from: v26, feature: nlb},
	{actions: "nlb:UpdateLoadBalancerProtection nlb:AttachCommonBandwidthPackageToLoadBalancer nlb:DetachCommonBandwidthPackageFromLoadBalancer " +
		"nlb:EnableLoadBalancerIpv6Internet nlb:DisableLoadBalancerIpv6Internet", from: v291, feature: nlb},
	{actions: "nlb:ListListenerCertificates nlb:AssociateAdditionalCertificatesWithListener nlb:DisassociateAdditionalCertificatesWithListener", from: v213, feature: nlb},
	{actions: "ecs:CreateSecurityGroup ecs:DeleteSecurityGroup ecs:DescribeSecurityGroups ecs:DescribeSecurityGroupAttribute " +
		"ecs:ModifySecurityGroupAttribute ecs:ModifySecurityGroupRule ecs:AuthorizeSecurityGroup ecs:RevokeSecurityGroup", from: v214, feature: sourceRange},
}

// needed returns the actions that this version calls for these features, sorted.
func needed(v version, use map[feature]bool) []string {
	var out []string
	for _, n := range needs {
		if v.before(n.from) || n.until != (version{}) && !v.before(n.until) || !use[n.feature] {
			continue
		}
		out = append(out, strings.Fields(n.actions)...)
	}
	slices.Sort(out)
	return out
}

// known reports whether any version of the controller calls the action.
func known(action string) bool {
	return slices.ContainsFunc(needs, func(n need) bool { return slices.Contains(strings.Fields(n.actions), action) })
}
