package ccm

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/cloud"
)

// A feature is a part of the controller that a cluster uses or not.
type feature int

const (
	always      feature = iota
	flannel             // routes for Pods
	eni                 // Pods as backends: Terway, or the annotation backend-type
	nlbs                // Network Load Balancers
	eip                 // an EIP as the Service's address
	sourceRange         // spec.loadBalancerSourceRanges on an NLB
)

// Features are the parts of the controller that a cluster uses.
type Features map[feature]bool

// InUse returns the features that the cluster and its Services use.
func InUse(cluster cloud.Cluster, services []corev1.Service) Features {
	use := Features{always: true, flannel: strings.HasPrefix(cluster.Network, "flannel"), eni: strings.HasPrefix(cluster.Network, "terway")}
	for _, svc := range services {
		if svc.Spec.Type != corev1.ServiceTypeLoadBalancer {
			continue
		}
		if NLB(&svc) {
			use[nlbs] = true
			use[sourceRange] = use[sourceRange] || len(svc.Spec.LoadBalancerSourceRanges) > 0
		}
		if mode, _ := Annotation(&svc, ExternalIP); mode == "eip" {
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
	from    Version
	until   Version // the first version that no longer calls it; zero: still called
	feature feature
}

// Versions at which the controller's calls changed.
var (
	v24   = Version{2, 4, 0, 0}
	v25   = Version{2, 5, 0, 0}
	v26   = Version{2, 6, 0, 0}
	v28   = Version{2, 8, 0, 0}
	v291  = Version{2, 9, 1, 0}
	v2112 = Version{2, 11, 2, 0}
	v2121 = Version{2, 12, 1, 0}
	v213  = Version{2, 13, 0, 0}
	v214  = Version{2, 14, 0, 0}
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
		"slb:SetLoadBalancerTCPListenerAttribute slb:SetLoadBalancerUDPListenerAttribute slb:SetLoadBalancerHTTPListenerAttribute " +
		"slb:SetLoadBalancerHTTPSListenerAttribute " +
		"slb:StartLoadBalancerListener slb:StopLoadBalancerListener slb:DeleteLoadBalancerListener"},
	{actions: "slb:DescribeLoadBalancerListeners", from: Version{2, 0, 0, 0}},
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
		"nlb:ListListeners nlb:CreateListener nlb:UpdateListenerAttribute nlb:StartListener nlb:DeleteListener nlb:GetJobStatus", from: v25, feature: nlbs},
	{actions: "nlb:LoadBalancerJoinSecurityGroup nlb:LoadBalancerLeaveSecurityGroup", from: v26, feature: nlbs},
	{actions: "nlb:UpdateLoadBalancerProtection nlb:AttachCommonBandwidthPackageToLoadBalancer nlb:DetachCommonBandwidthPackageFromLoadBalancer " +
		"nlb:EnableLoadBalancerIpv6Internet nlb:DisableLoadBalancerIpv6Internet", from: v291, feature: nlbs},
	{actions: "nlb:ListListenerCertificates nlb:AssociateAdditionalCertificatesWithListener nlb:DisassociateAdditionalCertificatesWithListener", from: v213,
		feature: nlbs},
	{actions: "ecs:CreateSecurityGroup ecs:DeleteSecurityGroup ecs:DescribeSecurityGroups ecs:DescribeSecurityGroupAttribute " +
		"ecs:ModifySecurityGroupAttribute ecs:ModifySecurityGroupRule ecs:AuthorizeSecurityGroup ecs:RevokeSecurityGroup", from: v214, feature: sourceRange},
}

// Needs returns the RAM actions that this version of the controller calls for
// these features, sorted.
func Needs(v Version, use Features) []string {
	var out []string
	for _, n := range needs {
		if v.Before(n.from) || n.until != (Version{}) && !v.Before(n.until) || !use[n.feature] {
			continue
		}
		out = append(out, strings.Fields(n.actions)...)
	}
	slices.Sort(out)
	return out
}
