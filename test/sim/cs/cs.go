// Package cs simulates the container service (ACK): one cluster with add-ons and tasks.
package cs

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/lbremedy/lbremedy/test/sim/core"
)

// Product is the container service (ACK), the only product with paths
// (https://www.alibabacloud.com/help/en/ack/ack-managed-and-ack-dedicated/developer-reference/api-cs-2015-12-15-overview).
func Product() *core.Product {
	p := &core.Product{
		Name: "cs", Version: "2015-12-15", Host: "cs.aliyuncs.com", Regional: true, Lower: true,
		Refusal: core.Failure{Status: http.StatusForbidden, Code: "StatusForbidden", Message: core.NotAuthorized.Message},
		Actions: map[string]*core.Action{
			"DescribeClustersV1":            {Do: on(describeClusters), Path: "/api/v1/clusters", RAM: []string{"cs:DescribeClustersV1", "cs:GetClusters"}},
			"DescribeClusterDetail":         {Do: on(ofCluster(clusterDetail)), Path: "/clusters/{}", RAM: []string{"cs:DescribeClusterDetail", "cs:GetClusterById"}},
			"DescribeClusterResources":      {Do: on(ofCluster(clusterResources)), Path: "/clusters/{}/resources"},
			"DescribeClusterNodePools":      {Do: on(ofCluster(clusterNodePools)), Path: "/clusters/{}/nodepools"},
			"DescribeClusterNodePoolDetail": {Do: on(inCluster(describeNodePool)), Path: "/clusters/{}/nodepools/{}"},
			"DescribeClusterUserKubeconfig": {Do: on(inCluster(describeKubeconfig)), Path: "/k8s/{}/user_config"},
			"DescribeUserQuota":             {Do: on(describeUserQuota), Path: "/quota"},
			"RunClusterCheck":               {Do: on(inCluster(examine("check_id"))), Path: "/clusters/{}/checks", Method: http.MethodPost},
			"CreateClusterDiagnosis":        {Do: on(inCluster(examine("diagnosis_id"))), Path: "/clusters/{}/diagnosis", Method: http.MethodPost},
		},
	}
	maps.Copy(p.Actions, addonActions())
	maps.Copy(p.Actions, protectionActions())
	for _, a := range p.Actions {
		ofOne := strings.HasPrefix(a.Path, "/clusters/{}") || strings.HasPrefix(a.Path, "/k8s/{}")
		a.Resource = func(q *core.Request) string {
			if ofOne {
				return "cluster/" + q.Params["path.0"]
			}
			return "cluster/*"
		}
	}
	return p
}

func ofCluster(show func(*State) any) func(*request) (any, *core.Failure) {
	return inCluster(func(q *request) (any, *core.Failure) { return show(q.state), nil })
}

func describeClusters(q *request) (any, *core.Failure) {
	c := q.state.Cluster
	list := []any{}
	if core.Is(q.Params["name"], c.Name) && core.Is(q.Params["cluster_id"], c.ID) && core.Is(q.Params["cluster_type"], c.Type) {
		list = append(list, clusterDetail(q.state))
	}
	return map[string]any{"clusters": list, "page_info": map[string]any{"page_number": 1, "page_size": 50, "total_count": len(list)}}, nil
}

func clusterDetail(s *State) any {
	c := s.Cluster
	capabilities := map[string]any{"Network": c.Network, "NetworkPolicy": "False", "IngressType": "none"}
	addons := []map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(c.Addons)) {
		e := map[string]any{"name": name, "version": c.Addons[name]}
		if name == c.Network && len(c.PodVSwitches) > 0 {
			ids := map[string][]string{}
			for _, id := range c.PodVSwitches {
				zone := ""
				if v := s.vpc.VSwitches[id]; v != nil {
					zone = v.Zone
				}
				ids[zone] = append(ids[zone], id)
			}
			config, _ := json.Marshal(map[string]any{"PodVswitchId": ids}) // strings can always be encoded
			e["config"] = string(config)
		}
		addons = append(addons, e)
	}
	meta := map[string]any{"Capabilities": capabilities, "Addons": addons, "VersionSpec": c.Version, "Provider": "Aliyun"}
	maps.Copy(meta, c.Metadata)
	text, _ := json.Marshal(meta) // decoded JSON or YAML can be encoded
	spec := "ack.pro.small"
	if c.Type == "Kubernetes" {
		spec = ""
	}
	created := s.Started.Add(-24 * time.Hour).Format("2006-01-02T15:04:05+00:00")
	master := ""
	if s.master != "" {
		master = `{"intranet_api_server_endpoint":"https://` + s.master + `:6443"}`
	}
	return map[string]any{
		"external_loadbalancer_id": c.APIServer, "master_url": master,
		"cluster_id": c.ID, "name": c.Name, "cluster_type": c.Type, "cluster_spec": spec, "profile": "Default", "state": "running",
		"region_id": s.Region, "vpc_id": c.VPC, "vswitch_id": strings.Join(c.VSwitches, ","), "vswitch_ids": c.VSwitches,
		"current_version": c.Version, "init_version": c.Version, "meta_data": string(text), "worker_ram_role_name": c.WorkerRole,
		"security_group_id": "sg-" + strings.ToLower(core.Derive(c.ID, 20)), "network_mode": "vpc", "subnet_cidr": c.PodCIDR,
		"container_cidr": c.PodCIDR, "service_cidr": c.ServiceCIDR, "deletion_protection": true, "size": len(s.ecs.Instances),
		"created": created, "updated": created, "zone_id": s.Region + "-h", "resource_group_id": "", "tags": []any{},
		"network_config": map[string]any{"pod_vswitch_ids": slices.Concat([]string{}, c.PodVSwitches)},
	}
}

// clusterResources lists the cluster's stack; only a dedicated cluster has a master role.
func clusterResources(s *State) any {
	c := s.Cluster
	list := []map[string]any{}
	add := func(logical, kind, id string) {
		if id == "" {
			return
		}
		info, _ := json.Marshal(map[string]any{ // strings can always be encoded
			"Id": logical, "Name": logical, "Type": kind, "Status": "CREATE_COMPLETE", "StatusReason": "state changed",
			"Updated": s.Started.Format("2006-01-02T15:04:05"), "PhysicalId": id,
		})
		list = append(list, map[string]any{
			"cluster_id": c.ID, "created": s.Started.Format("2006-01-02T15:04:05+00:00"), "instance_id": id, "resource_info": string(info),
			"resource_type": kind, "state": "CREATE_COMPLETE", "auto_create": 1,
			"dependencies": map[string]any{"cluster_id": c.ID, "instance_id": id, "resource_type": kind},
		})
	}
	add("KubernetesMasterRole", "ALIYUN::RAM::Role", c.MasterRole)
	add("KubernetesWorkerRole", "ALIYUN::RAM::Role", c.WorkerRole)
	add("k8s_master_slb", "ALIYUN::SLB::LoadBalancer", c.APIServer)
	add("k8s_vpc", "ALIYUN::ECS::VPC", c.VPC)
	for i, id := range c.VSwitches {
		add(fmt.Sprintf("k8s_vswitch_%d", i), "ALIYUN::ECS::VSwitch", id)
	}
	return list
}

func clusterNodePools(s *State) any {
	list := []map[string]any{}
	for _, p := range s.Cluster.NodePools {
		list = append(list, s.nodePool(p))
	}
	return map[string]any{"nodepools": list}
}

func (s *State) nodePool(p NodePool) map[string]any {
	return map[string]any{
		"nodepool_info": map[string]any{"nodepool_id": p.ID, "name": p.Name, "is_default": p.Default, "type": "ess", "region_id": s.Region},
		"scaling_group": map[string]any{"vswitch_ids": p.VSwitches, "ram_policy": "", "ram_role_name": s.Cluster.WorkerRole},
		"status":        map[string]any{"state": "active"},
	}
}
