package ccm

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/cloud"
)

// Features are the parts of the controller that a cluster uses.
type Features struct {
	cluster  cloud.Cluster
	services []corev1.Service // of type LoadBalancer
	nodes    []corev1.Node
}

// InUse returns the features that the cluster, its Services and its nodes use.
func InUse(cluster cloud.Cluster, services []corev1.Service, nodes []corev1.Node) Features {
	return Features{cluster: cluster, nodes: nodes, services: slices.DeleteFunc(slices.Clone(services), func(svc corev1.Service) bool {
		return svc.Spec.Type != corev1.ServiceTypeLoadBalancer
	})}
}

func (f Features) any(like func(*corev1.Service) bool) bool {
	return slices.ContainsFunc(f.services, func(svc corev1.Service) bool { return like(&svc) })
}

// flannel reports whether the controller keeps routes for Pods.
func flannel(f Features) bool { return strings.HasPrefix(f.cluster.Network, "flannel") }

// pods reports whether Pods are backends: by Terway, the annotation backend-type, or virtual nodes.
func pods(f Features) bool {
	return strings.HasPrefix(f.cluster.Network, "terway") || f.any(func(svc *corev1.Service) bool { return svc.Annotations[BackendType] == "eni" }) ||
		slices.ContainsFunc(f.nodes, func(n corev1.Node) bool { return n.Labels["type"] == virtualNode })
}

// lingJun reports whether the controller manages LingJun nodes (pkg/controller/node/manager.go, node_controller.go).
func lingJun(f Features) bool {
	return slices.ContainsFunc(f.nodes, func(n corev1.Node) bool {
		_, elsewhere := n.Labels["alibabacloud.com/lingjun-tianwen-environment"]
		return IsLingJun(&n) && !elsewhere
	})
}

// IsLingJun reports whether a node is a LingJun server, unknown to ECS, with provider IDs such as e01-cn-abc (pkg/controller/node/node_controller.go).
func IsLingJun(n *corev1.Node) bool { return n.Labels["alibabacloud.com/lingjun-worker"] == "true" }

func nlbs(f Features) bool { return f.any(NLB) }

func eip(f Features) bool {
	return f.any(func(svc *corev1.Service) bool {
		mode, _ := Annotation(svc, ExternalIP)
		return mode == "eip" && !NLB(svc)
	})
}

// intranet reports whether the controller chooses the vSwitch of a CLB.
func intranet(f Features) bool {
	return f.any(func(svc *corev1.Service) bool {
		kind, _ := Annotation(svc, "address-type")
		vswitch, _ := Annotation(svc, "vswitch-id")
		return kind == "intranet" && vswitch == "" && !NLB(svc)
	})
}

func ranges(f Features) bool {
	return f.any(func(svc *corev1.Service) bool { return ownNLB(svc) && len(svc.Spec.LoadBalancerSourceRanges) > 0 })
}

// ranged reports whether an own NLB has or had source ranges, whose security group is deleted with it.
func ranged(f Features) bool {
	return ranges(f) || f.any(func(svc *corev1.Service) bool { return ownNLB(svc) && svc.Labels[securityGroupLabel] != "" })
}

// grouped reports whether an own NLB has security groups by annotation, among which the controller looks for that of source ranges.
func grouped(f Features) bool {
	return f.any(func(svc *corev1.Service) bool {
		_, has := Annotation(svc, "security-group-ids")
		return has && ownNLB(svc)
	})
}

func ownNLB(svc *corev1.Service) bool {
	id, _ := Annotation(svc, "id")
	return NLB(svc) && id == ""
}

func clbWith(short string) func(Features) bool {
	return func(f Features) bool {
		return f.any(func(svc *corev1.Service) bool { _, has := Annotation(svc, short); return has && !NLB(svc) })
	}
}

func nlbWith(short string) func(Features) bool {
	return func(f Features) bool {
		return f.any(func(svc *corev1.Service) bool { _, has := Annotation(svc, short); return has && NLB(svc) })
	}
}

type need struct {
	actions string // separated by spaces
	from    Version
	until   Version             // the first version that no longer calls them; zero: still called
	where   func(Features) bool // nil: in every cluster
}

// Versions at which the controller's calls changed.
var (
	v201  = Version{2, 0, 1, 0} // the first of the second generation, which is another program
	v24   = Version{2, 4, 0, 0}
	v244  = Version{2, 4, 4, 0}
	v25   = Version{2, 5, 0, 0}
	v26   = Version{2, 6, 0, 0}
	v28   = Version{2, 8, 0, 0}
	v291  = Version{2, 9, 1, 0}
	v210  = Version{2, 10, 0, 0}
	v2112 = Version{2, 11, 2, 0}
	v2121 = Version{2, 12, 1, 0}
	v2124 = Version{2, 12, 4, 0}
	v213  = Version{2, 13, 0, 0}
	v214  = Version{2, 14, 0, 0}
)

// needs lists what the controller's reconcilers call in the source of its releases (github.com/kubernetes/cloud-provider-alibaba-cloud,
// pkg/controller/service, node and route, through pkg/provider/alibaba; cloud-controller-manager of v1.9.3). The provider's unused calls,
// such as slb:StopLoadBalancerListener since v2.0.1 and slb:ModifyVServerGroupBackendServers, are left out, and the example policy is out of
// date. An action for an annotation is called only while the annotation exists.
var needs = []need{
	{actions: "slb:DescribeLoadBalancers slb:DescribeLoadBalancerAttribute slb:CreateLoadBalancer slb:DeleteLoadBalancer " +
		"slb:ModifyLoadBalancerInternetSpec slb:ModifyLoadBalancerInstanceSpec slb:SetLoadBalancerName " +
		"slb:SetLoadBalancerDeleteProtection slb:SetLoadBalancerModificationProtection " +
		"slb:DescribeVServerGroups slb:DescribeVServerGroupAttribute slb:CreateVServerGroup slb:DeleteVServerGroup " +
		"slb:SetVServerGroupAttribute slb:AddVServerGroupBackendServers slb:RemoveVServerGroupBackendServers " +
		"slb:CreateLoadBalancerTCPListener slb:CreateLoadBalancerUDPListener slb:CreateLoadBalancerHTTPListener slb:CreateLoadBalancerHTTPSListener " +
		"slb:SetLoadBalancerTCPListenerAttribute slb:SetLoadBalancerUDPListenerAttribute slb:SetLoadBalancerHTTPListenerAttribute " +
		"slb:SetLoadBalancerHTTPSListenerAttribute " +
		"slb:StartLoadBalancerListener slb:DeleteLoadBalancerListener"},
	{actions: "slb:DescribeLoadBalancerTCPListenerAttribute slb:DescribeLoadBalancerUDPListenerAttribute slb:DescribeLoadBalancerHTTPListenerAttribute " +
		"slb:DescribeLoadBalancerHTTPSListenerAttribute slb:StopLoadBalancerListener", until: v201},
	{actions: "slb:DescribeLoadBalancerListeners", from: v201},
	{actions: "slb:AddTags slb:DescribeTags", until: v25},
	{actions: "slb:TagResources slb:ListTagResources", from: v25},
	{actions: "slb:UntagResources", from: v210},
	{actions: "slb:ModifyLoadBalancerInstanceChargeType", from: v24, where: clbWith("instance-charge-type")},
	{actions: "slb:DescribeServerCertificates", from: v244, until: v25, where: clbWith("cert-id")},
	{actions: "slb:DescribeServerCertificates", from: v26, where: clbWith("cert-id")},
	{actions: "slb:CreateDomainExtension slb:SetDomainExtensionAttribute slb:DeleteDomainExtension slb:DescribeDomainExtensions", from: v213,
		where: clbWith("domain-extensions")},
	{actions: "ecs:DescribeInstances"},
	{actions: "ecs:DescribeNetworkInterfaces", where: pods},
	// For every node that joins, whatever the network: without them its cloud taint stays.
	{actions: "ecs:DescribeNetworkInterfaces ecs:ModifyNetworkInterfaceAttribute", from: v2112},
	{actions: "eflo:DescribeNode", from: v2124, where: lingJun},
	{actions: "vpc:DescribeVSwitches", from: v213, where: intranet},
	{actions: "vpc:DescribeVpcAttribute", from: v28, where: pods},
	{actions: "vpc:DescribeEipAddresses", where: eip},
	{actions: "vpc:DescribeRouteTableList vpc:DescribeRouteEntryList vpc:CreateRouteEntry vpc:DeleteRouteEntry", where: flannel},
	{actions: "vpc:CreateRouteEntries vpc:DeleteRouteEntries", from: v2112, where: flannel},
	{actions: "nlb:ListLoadBalancers nlb:GetLoadBalancerAttribute nlb:CreateLoadBalancer nlb:DeleteLoadBalancer " +
		"nlb:UpdateLoadBalancerAttribute nlb:UpdateLoadBalancerZones nlb:UpdateLoadBalancerAddressTypeConfig " +
		"nlb:ListTagResources nlb:TagResources " +
		"nlb:ListServerGroups nlb:ListServerGroupServers nlb:CreateServerGroup nlb:UpdateServerGroupAttribute nlb:DeleteServerGroup " +
		"nlb:AddServersToServerGroup nlb:RemoveServersFromServerGroup nlb:UpdateServerGroupServersAttribute " +
		"nlb:ListListeners nlb:CreateListener nlb:UpdateListenerAttribute nlb:StartListener nlb:DeleteListener nlb:GetJobStatus", from: v25, where: nlbs},
	{actions: "nlb:UpdateLoadBalancerProtection", from: v291, where: nlbs},
	{actions: "nlb:UntagResources", from: v210, where: nlbs},
	{actions: listJobs, from: v2121, where: nlbs},
	{actions: "nlb:LoadBalancerJoinSecurityGroup nlb:LoadBalancerLeaveSecurityGroup", from: v26, where: nlbWith("security-group-ids")},
	{actions: "nlb:AttachCommonBandwidthPackageToLoadBalancer nlb:DetachCommonBandwidthPackageFromLoadBalancer", from: v291,
		where: nlbWith(bandwidthPackageID)},
	{actions: "nlb:EnableLoadBalancerIpv6Internet nlb:DisableLoadBalancerIpv6Internet", from: v291, where: nlbWith("ipv6-address-type")},
	{actions: "nlb:ListListenerCertificates nlb:AssociateAdditionalCertificatesWithListener nlb:DisassociateAdditionalCertificatesWithListener", from: v213,
		where: nlbWith("additional-cert-ids")},
	{actions: "ecs:DescribeSecurityGroups", from: v214, where: grouped},
	{actions: "ecs:DescribeSecurityGroups ecs:DescribeSecurityGroupAttribute ecs:DeleteSecurityGroup nlb:LoadBalancerLeaveSecurityGroup", from: v214,
		where: ranged},
	{actions: "ecs:CreateSecurityGroup ecs:ModifySecurityGroupAttribute ecs:ModifySecurityGroupRule ecs:AuthorizeSecurityGroup ecs:RevokeSecurityGroup " +
		"nlb:LoadBalancerJoinSecurityGroup", from: v214, where: ranges},
}

const listJobs = "nlb:ListAsynJobs"

// Asked returns the RAM actions that ACK asks every cluster to allow from this version on, and that the cluster does not need yet
// (https://www.alibabacloud.com/help/en/ack/product-overview/cloud-controller-manager, the notes of v2.11.2 and v2.12.1).
func Asked(v Version, use Features) []string {
	if v.Before(v2112) || slices.Contains(Needs(v, use), listJobs) {
		return nil
	}
	return []string{listJobs}
}

// Needs returns the RAM actions that this version of the controller calls for these features, sorted.
func Needs(v Version, use Features) []string {
	var out []string
	for _, n := range needs {
		if v.Before(n.from) || n.until != (Version{}) && !v.Before(n.until) || n.where != nil && !n.where(use) {
			continue
		}
		out = append(out, strings.Fields(n.actions)...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}
