package scene

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/lbremedy/lbremedy/test/sim"
)

// ClusterID is the ID of the stage's ACK cluster.
const ClusterID = "c0a1b2c3d4e5f60718293a4b5c6d7e8f9"

// The vSwitches of the cluster, by zone. Two have no free address.
const (
	FullVSwitchH  = "vsw-h-full"
	SmallVSwitchH = "vsw-h-small" // 11 free addresses, of which a policy keeps 8 by default
	FullVSwitchI  = "vsw-i-full"
	RoomyVSwitchI = "vsw-i-roomy"
)

const (
	region     = "cn-hangzhou"
	nodes      = 2
	masterRole = "KubernetesMasterRole-stage"
	rolePolicy = "k8sMasterRolePolicy-Ccm-stage"

	wholeVersion = "v2" // of the policy: what the controller needed so far
	poorVersion  = "v1" // of the policy: an older document, without lost
)

func instance(i int) string { return fmt.Sprintf("i-worker%d", i+1) }

// needed is what a controller needs for CLB and Flannel, as of v2.11.2: the
// masters' role of a cluster that was made then allows it.
var needed = strings.Fields(`
	slb:DescribeLoadBalancers slb:DescribeLoadBalancerAttribute slb:CreateLoadBalancer slb:DeleteLoadBalancer
	slb:ModifyLoadBalancerInternetSpec slb:ModifyLoadBalancerInstanceSpec slb:ModifyLoadBalancerInstanceChargeType slb:SetLoadBalancerName
	slb:SetLoadBalancerDeleteProtection slb:SetLoadBalancerModificationProtection
	slb:DescribeVServerGroups slb:DescribeVServerGroupAttribute slb:CreateVServerGroup slb:DeleteVServerGroup
	slb:SetVServerGroupAttribute slb:AddVServerGroupBackendServers slb:RemoveVServerGroupBackendServers slb:ModifyVServerGroupBackendServers
	slb:CreateLoadBalancerTCPListener slb:CreateLoadBalancerUDPListener slb:CreateLoadBalancerHTTPListener slb:CreateLoadBalancerHTTPSListener
	slb:SetLoadBalancerTCPListenerAttribute slb:SetLoadBalancerUDPListenerAttribute slb:SetLoadBalancerHTTPListenerAttribute slb:SetLoadBalancerHTTPSListenerAttribute
	slb:StartLoadBalancerListener slb:StopLoadBalancerListener slb:DeleteLoadBalancerListener slb:DescribeLoadBalancerListeners
	slb:DescribeServerCertificates slb:TagResources slb:UntagResources slb:ListTagResources
	ecs:DescribeInstances ecs:ModifyNetworkInterfaceAttribute
	vpc:DescribeVSwitches vpc:DescribeVpcAttribute vpc:DescribeRouteTableList vpc:DescribeRouteEntryList
	vpc:CreateRouteEntry vpc:DeleteRouteEntry vpc:CreateRouteEntries vpc:DeleteRouteEntries
`)

// lost is what the older document of the policy does not allow.
var lost = []string{"slb:CreateLoadBalancerUDPListener", "slb:TagResources"}

// world is the account before anything goes wrong.
func world(o Options) *sim.World {
	poor := slices.DeleteFunc(slices.Clone(needed), func(a string) bool { return slices.Contains(lost, a) })
	w := &sim.World{
		Region: region,
		Cluster: sim.Cluster{
			ID: ClusterID, Name: "stage", Type: "Kubernetes", VPC: "vpc-stage", MasterRole: masterRole,
			Addons: map[string]string{controllerName: o.Version},
		},
		VPCs: []sim.VPC{{ID: "vpc-stage", CIDR: "10.0.0.0/8"}},
		VSwitches: []sim.VSwitch{
			{ID: FullVSwitchH, Zone: region + "-h", Free: new(0)},
			{ID: SmallVSwitchH, Zone: region + "-h", Free: new(11)},
			{ID: FullVSwitchI, Zone: region + "-i", Free: new(0)},
			{ID: RoomyVSwitchI, Zone: region + "-i", Free: new(o.Room)},
		},
		RAM:   sim.RAM{Delay: sim.Duration(o.RAMDelay)},
		Roles: []sim.Role{{Name: masterRole, Policies: []string{rolePolicy}}},
		Policies: []sim.Policy{{Name: rolePolicy, Versions: []sim.PolicyVersion{
			{ID: poorVersion, Document: document(poor)}, {ID: wholeVersion, Document: document(needed), Default: true},
		}}},
		Callers: []sim.Caller{{Name: controllerName, Role: masterRole}},
		Quotas:  []sim.Quota{{Name: "slb_quota_instances_num", Total: 10_000}},
	}
	for i := range nodes {
		w.Instances = append(w.Instances, sim.Instance{ID: instance(i), VSwitch: RoomyVSwitchI})
	}
	return w
}

// document returns a policy document that allows the actions.
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
		panic("scene: a policy document does not encode: " + err.Error()) // strings only
	}
	return string(data)
}

// impoverish makes the older document the policy's default, as somebody does who
// sets a policy back.
func impoverish(st *sim.State) {
	p := st.Policies[rolePolicy]
	for i := range p.Versions {
		p.Versions[i].Default = p.Versions[i].ID == poorVersion
	}
}
