package testbed

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lbremedy/lbremedy/test/sim"
)

// ClusterID is the default ID of a testbed's ACK cluster.
const ClusterID = "c0a1b2c3d4e5f60718293a4b5c6d7e8f9"

// The cluster's vSwitches, by zone. Two are full.
const (
	FullVSwitchH  = "vsw-h-full"
	SmallVSwitchH = "vsw-h-small" // 11 free addresses, of which a policy keeps 8 by default
	FullVSwitchI  = "vsw-i-full"
	RoomyVSwitchI = "vsw-i-roomy"
)

const (
	region     = "cn-hangzhou"
	zoneH      = region + "-h"
	zoneI      = region + "-i"
	soldZone   = region + "-k" // sold out
	masterRole = "KubernetesMasterRole-testbed"
	rolePolicy = "k8sMasterRolePolicy-Ccm-testbed"

	vpc      = "vpc-testbed"
	otherVPC = "vpc-neighbour" // of the same account
	podsVSW  = "vsw-pods"      // of Terway
	otherVSW = "vsw-neighbour" // of the other VPC

	validCert   = "cert-shop"
	expiredCert = "cert-shop-of-last-year"

	wholeVersion = "v2" // current version of the policy
	poorVersion  = "v1" // older version of the policy, without lost
)

// needed are the actions that controllers up to v2.12.1, except v1.9.3, need for CLB, NLB, Flannel and Terway, and those by which
// v2.13.0 reads vSwitches. The role of the cluster's masters allows them.
var needed = strings.Fields(`
	slb:DescribeLoadBalancers slb:DescribeLoadBalancerAttribute slb:CreateLoadBalancer slb:DeleteLoadBalancer
	slb:ModifyLoadBalancerInternetSpec slb:ModifyLoadBalancerInstanceSpec slb:ModifyLoadBalancerInstanceChargeType slb:SetLoadBalancerName
	slb:SetLoadBalancerDeleteProtection slb:SetLoadBalancerModificationProtection
	slb:DescribeVServerGroups slb:DescribeVServerGroupAttribute slb:CreateVServerGroup slb:DeleteVServerGroup
	slb:SetVServerGroupAttribute slb:AddVServerGroupBackendServers slb:RemoveVServerGroupBackendServers
	slb:CreateLoadBalancerTCPListener slb:CreateLoadBalancerUDPListener slb:CreateLoadBalancerHTTPListener slb:CreateLoadBalancerHTTPSListener
	slb:SetLoadBalancerTCPListenerAttribute slb:SetLoadBalancerUDPListenerAttribute
	slb:SetLoadBalancerHTTPListenerAttribute slb:SetLoadBalancerHTTPSListenerAttribute
	slb:StartLoadBalancerListener slb:DeleteLoadBalancerListener slb:DescribeLoadBalancerListeners
	slb:DescribeServerCertificates slb:TagResources slb:UntagResources slb:ListTagResources slb:AddTags slb:DescribeTags
	nlb:ListLoadBalancers nlb:GetLoadBalancerAttribute nlb:CreateLoadBalancer nlb:DeleteLoadBalancer
	nlb:UpdateLoadBalancerAttribute nlb:UpdateLoadBalancerZones nlb:UpdateLoadBalancerAddressTypeConfig nlb:UpdateLoadBalancerProtection
	nlb:EnableLoadBalancerIpv6Internet nlb:DisableLoadBalancerIpv6Internet nlb:LoadBalancerJoinSecurityGroup nlb:LoadBalancerLeaveSecurityGroup
	nlb:AttachCommonBandwidthPackageToLoadBalancer nlb:DetachCommonBandwidthPackageFromLoadBalancer
	nlb:ListTagResources nlb:TagResources nlb:UntagResources
	nlb:ListServerGroups nlb:ListServerGroupServers nlb:CreateServerGroup nlb:UpdateServerGroupAttribute nlb:DeleteServerGroup
	nlb:AddServersToServerGroup nlb:RemoveServersFromServerGroup nlb:UpdateServerGroupServersAttribute
	nlb:ListListeners nlb:CreateListener nlb:UpdateListenerAttribute nlb:StartListener nlb:DeleteListener nlb:GetJobStatus nlb:ListAsynJobs
	ecs:DescribeInstances ecs:DescribeNetworkInterfaces ecs:ModifyNetworkInterfaceAttribute
	vpc:DescribeVSwitches vpc:DescribeVpcAttribute vpc:DescribeEipAddresses vpc:DescribeRouteTableList vpc:DescribeRouteEntryList
	vpc:CreateRouteEntry vpc:DeleteRouteEntry vpc:CreateRouteEntries vpc:DeleteRouteEntries
`)

// lost are the actions that the policy's older document lacks. Each affects one kind of fixture, and others keep working.
var lost = []string{"slb:CreateLoadBalancerUDPListener", "slb:TagResources", "nlb:UpdateLoadBalancerAddressTypeConfig"}

// newInUse is an action that controllers need since v2.12.1.
const newInUse = "nlb:ListAsynJobs"

func without(actions ...string) []string {
	return slices.DeleteFunc(slices.Clone(needed), func(a string) bool { return slices.Contains(actions, a) })
}

func world(o Options) *sim.World {
	w := &sim.World{
		Region: region,
		Cluster: sim.Cluster{
			ID: o.ID, Name: "testbed", Type: "Kubernetes", VPC: vpc, MasterRole: masterRole,
			VSwitches: []string{FullVSwitchH, SmallVSwitchH, FullVSwitchI, RoomyVSwitchI},
			Addons:    map[string]string{controllerName: o.Version},
		},
		Zones: []sim.Zone{{ID: zoneH}, {ID: zoneI}, {ID: soldZone, Stock: new(0)}},
		VPCs:  []sim.VPC{{ID: vpc, CIDR: "10.0.0.0/8"}, {ID: otherVPC, CIDR: "10.0.0.0/8"}},
		VSwitches: []sim.VSwitch{
			{ID: FullVSwitchH, Zone: zoneH, Free: new(0)},
			{ID: SmallVSwitchH, Zone: zoneH, Free: new(11)},
			{ID: FullVSwitchI, Zone: zoneI, Free: new(0)},
			{ID: RoomyVSwitchI, Zone: zoneI, Free: new(o.Room)},
			{ID: otherVSW, VPC: otherVPC, Zone: zoneI},
		},
		Certificates: []sim.Certificate{
			{ID: validCert, Name: "shop", Domain: "shop.example", Expires: time.Now().AddDate(1, 0, 0)},
			{ID: expiredCert, Name: "shop of last year", Domain: "shop.example", Expires: time.Now().AddDate(0, -1, 0)},
		},
		RAM:   sim.RAM{Delay: sim.Duration(o.RAMDelay)},
		Roles: []sim.Role{{Name: masterRole, Policies: []string{rolePolicy}}},
		Policies: []sim.Policy{{Name: rolePolicy, Versions: []sim.PolicyVersion{
			{ID: poorVersion, Document: document(without(lost...))}, {ID: wholeVersion, Document: document(needed), Default: true},
		}}},
		Callers: []sim.Caller{{Name: controllerName, Role: masterRole}},
		Quotas: []sim.Quota{
			{Name: quotaBalancers, Total: 10_000},
			{Name: quotaListeners, Total: 50, Max: 100, Adjustable: true},
			{Name: quotaBackends, Total: 200, Max: 400, Adjustable: true},
			{Name: quotaAttached, Total: 10_000},
			{Product: "nlb", Name: "nlb_quota_loadbalancers_num", Total: 10_000}, // 120 histories of test/fault exceed the usual 60
			{Product: "nlb", Name: quotaNetworkServers, Total: 400, Max: 1000, Adjustable: true},
			{Product: "nlb", Name: quotaNetworkListeners, Total: 50, Max: 100, Adjustable: true},
		},
	}
	if o.Terway {
		w.Cluster.Network, w.Cluster.PodVSwitches = "terway-eniip", []string{podsVSW}
		w.VSwitches = append(w.VSwitches, sim.VSwitch{ID: podsVSW, Zone: zoneI, CIDR: podBlock})
	}
	for i := range nodes {
		w.Instances = append(w.Instances, server(workerInstance(i)))
	}
	o.Size.fill(w, o.Namespace, o.ID)
	return w
}

const (
	quotaBalancers        = "slb_quota_instances_num"
	quotaListeners        = "slb_quota_listeners_num"
	quotaBackends         = "slb_quota_backendservers_num"
	quotaAttached         = "slb_quota_backendserver_attached_num"
	quotaNetworkServers   = "nlb_quota_loadbalancer_noeci_servers_num"
	quotaNetworkListeners = "nlb_quota_loadbalancer_listeners_num"
)

func workerInstance(i int) string { return fmt.Sprintf("i-worker%d", i+1) }

func server(id string) sim.Instance {
	return sim.Instance{ID: id, Name: id, VPC: vpc, VSwitch: RoomyVSwitchI, Zone: zoneI, Status: "Running"}
}

func document(actions []string) string {
	type statement struct {
		Effect           string
		Action, Resource []string
	}
	data, err := json.Marshal(struct {
		Version   string
		Statement []statement
	}{"1", []statement{{"Allow", actions, []string{"*"}}}})
	if err != nil {
		panic("testbed: a policy document does not encode: " + err.Error()) // strings can always be encoded
	}
	return string(data)
}

// impoverish makes the older document the policy's default, like a person who resets a policy.
func impoverish(st *sim.State) {
	p := st.Policies[rolePolicy]
	for i := range p.Versions {
		p.Versions[i].Default = p.Versions[i].ID == poorVersion
	}
}

func limit(st *sim.State, name string, total int) {
	for i := range st.Quotas {
		if st.Quotas[i].Name == name {
			st.Quotas[i].Total = float64(total)
		}
	}
}
