package cloud

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/requests"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/cs"
)

// CS reads the ACK cluster of the Config.
type CS struct{ c *client }

// A Cluster is an ACK cluster.
type Cluster struct {
	ID           string
	VPC          string   // ID
	Region       string   // ID
	Type         string   // "ManagedKubernetes", or "Kubernetes" for a dedicated cluster
	Profile      string   // "Default", "Serverless", "Edge"; empty if the answer lacks it
	VSwitches    []string // IDs, of nodes and of the control plane
	PodVSwitches []string // IDs of the vSwitches for Terway's Pod addresses; empty without Terway
	APIServer    string   // address of the API server within the VPC; empty if the answer lacks it
	Network      string   // the network plug-in: "flannel", "terway-eniip" or another Terway; empty if the answer lacks it
}

// Managed reports whether Alibaba Cloud runs the control plane, whose nodes and RAM role are then not the account's.
func (c Cluster) Managed() bool { return c.Type == "ManagedKubernetes" || c.Type == "Ask" }

// A NodePool is a group of nodes of the cluster.
type NodePool struct {
	ID        string
	Default   bool
	VSwitches []string // IDs of the vSwitches of its new nodes
}

var clusterGone = []string{"ErrorClusterNotFound", "ClusterNotFound"}

// Cluster returns the cluster. The error is ErrNotFound if the account has no such cluster. It needs grant.DescribeClusterDetail.
func (s CS) Cluster(ctx context.Context) (Cluster, error) {
	type answer struct {
		ClusterID  text    `json:"cluster_id"`
		VpcID      text    `json:"vpc_id"`
		RegionID   text    `json:"region_id"`
		Type       text    `json:"cluster_type"`
		Profile    text    `json:"profile"`
		VSwitchIDs *[]text `json:"vswitch_ids"`
		VSwitchID  *text   `json:"vswitch_id"` // older form: several, separated by commas
		MetaData   text    `json:"meta_data"`
		MasterURL  text    `json:"master_url"`
		Parameters struct {
			PodVSwitchIDs json.RawMessage `json:"PodVswitchIds"`
		} `json:"parameters"`
		NetworkConfig struct {
			PodVSwitchIDs json.RawMessage `json:"pod_vswitch_ids"`
		} `json:"network_config"`
	}
	var meta metadata
	var pods []string
	a, err := read(ctx, s.c, call[answer]{
		wide: true,
		request: func() requests.AcsRequest {
			r := cs.CreateDescribeClusterDetailRequest()
			r.ClusterId = s.c.ClusterID
			return r
		},
		check: func(a answer) (err error) {
			switch {
			case string(a.ClusterID) != s.c.ClusterID:
				return lack("cluster %s: it is about %q", s.c.ClusterID, a.ClusterID)
			case a.VpcID == "" || a.Type == "":
				return lack("vpc_id and cluster_type of cluster %s", a.ClusterID)
			case a.VSwitchIDs == nil && a.VSwitchID == nil:
				return lack("vswitch_ids of cluster %s", a.ClusterID)
			}
			meta = metadata{}
			if a.MetaData != "" {
				if err := json.Unmarshal([]byte(a.MetaData), &meta); err != nil {
					return fmt.Errorf("unexpected form of the cluster's meta_data: %w", err)
				}
			}
			pods, err = meta.podVSwitches(a.Parameters.PodVSwitchIDs, a.NetworkConfig.PodVSwitchIDs)
			return err
		},
		gone: clusterGone,
	})
	if err != nil {
		return Cluster{}, err
	}
	var nodes []text
	if a.VSwitchIDs != nil {
		nodes = *a.VSwitchIDs
	}
	if len(nodes) == 0 && a.VSwitchID != nil {
		for id := range strings.SplitSeq(string(*a.VSwitchID), ",") {
			nodes = append(nodes, text(strings.TrimSpace(id)))
		}
	}
	return Cluster{
		ID: string(a.ClusterID), VPC: string(a.VpcID), Region: string(a.RegionID), Type: string(a.Type), Profile: string(a.Profile),
		VSwitches: sortedIDs(strs(nodes)), PodVSwitches: pods, Network: meta.network(),
		APIServer: apiServer(string(a.MasterURL)),
	}, nil
}

// apiServer returns the API server's address within the VPC from the endpoints, a JSON object in a string; empty if missing.
func apiServer(endpoints string) string {
	var of struct {
		Intranet string `json:"intranet_api_server_endpoint"`
	}
	if json.Unmarshal([]byte(endpoints), &of) != nil {
		return ""
	}
	u, err := url.Parse(of.Intranet)
	if err != nil {
		return ""
	}
	return u.Hostname()
}

func sortedIDs(ids []string) []string {
	slices.Sort(ids)
	return slices.Compact(ids)
}

type metadata struct {
	Addons []struct {
		Name   text `json:"name"`
		Config text `json:"config"`
	}
	Capabilities struct{ Network text }
}

// network returns the network plug-in in lower case. For Terway it is the add-on's name, which contains its mode.
func (m metadata) network() string {
	found := strings.ToLower(string(m.Capabilities.Network))
	for _, a := range m.Addons {
		switch name := strings.ToLower(string(a.Name)); {
		case name == "terway-controlplane":
		case strings.HasPrefix(name, "terway"):
			return name
		case strings.Contains(name, "flannel"):
			found = "flannel"
		}
	}
	return found
}

// podVSwitches returns the vSwitches for Pods that the cluster names, and those in the configuration of the Terway add-on.
func (m metadata) podVSwitches(named ...json.RawMessage) ([]string, error) {
	var ids []string
	for _, n := range named {
		list, err := idsIn(n)
		if err != nil {
			return nil, fmt.Errorf("unexpected form of the cluster's pod vSwitches: %w", err)
		}
		ids = append(ids, list...)
	}
	for _, a := range m.Addons {
		if !strings.HasPrefix(string(a.Name), "terway") || a.Config == "" {
			continue
		}
		var config struct {
			PodVSwitchID json.RawMessage `json:"PodVswitchId"`
		}
		if err := json.Unmarshal([]byte(a.Config), &config); err != nil {
			return nil, fmt.Errorf("unexpected form of the configuration of add-on %s: %w", a.Name, err)
		}
		list, err := idsIn(config.PodVSwitchID)
		if err != nil {
			return nil, fmt.Errorf("unexpected form of PodVswitchId of add-on %s: %w", a.Name, err)
		}
		ids = append(ids, list...)
	}
	return sortedIDs(ids), nil
}

// idsIn returns the IDs in a list, or in a map of lists by zone. Either may be JSON within a string.
func idsIn(raw json.RawMessage) ([]string, error) {
	var inner string
	if json.Unmarshal(raw, &inner) == nil {
		raw = json.RawMessage(inner)
	}
	if len(raw) == 0 {
		return nil, nil
	}
	var ids []string
	if json.Unmarshal(raw, &ids) == nil {
		return ids, nil
	}
	var zones map[string][]string
	if err := json.Unmarshal(raw, &zones); err != nil {
		return nil, errors.New("neither a list nor a map of lists")
	}
	for _, list := range zones {
		ids = append(ids, list...)
	}
	return ids, nil
}

// NodePools returns the node pools of the cluster, or ErrNotFound without such a cluster. It needs grant.DescribeClusterNodePools.
func (s CS) NodePools(ctx context.Context) ([]NodePool, error) {
	type pool struct {
		Info struct {
			ID      text `json:"nodepool_id"`
			Default on   `json:"is_default"`
		} `json:"nodepool_info"`
		ScalingGroup struct {
			VSwitchIDs []text `json:"vswitch_ids"`
		} `json:"scaling_group"`
	}
	type answer struct {
		NodePools *[]pool `json:"nodepools"`
	}
	a, err := read(ctx, s.c, call[answer]{
		wide: true,
		request: func() requests.AcsRequest {
			r := cs.CreateDescribeClusterNodePoolsRequest()
			r.ClusterId = s.c.ClusterID
			return r
		},
		check: func(a answer) error {
			if a.NodePools == nil {
				return lack("nodepools")
			}
			for _, p := range *a.NodePools {
				if p.Info.ID == "" {
					return lack("the ID of a node pool")
				}
			}
			return nil
		},
		gone: clusterGone,
	})
	if err != nil {
		return nil, err
	}
	var list []NodePool
	for _, p := range *a.NodePools {
		list = append(list, NodePool{
			ID: string(p.Info.ID), Default: bool(p.Info.Default),
			VSwitches: sortedIDs(strs(p.ScalingGroup.VSwitchIDs)),
		})
	}
	return sorted(list, func(p NodePool) string { return p.ID }), nil
}

// Addons returns the versions of the installed add-ons by name, or ErrNotFound without such a cluster. It needs grant.DescribeClusterAddons.
func (s CS) Addons(ctx context.Context) (map[string]string, error) {
	type addon struct {
		Version text `json:"version"`
	}
	installed := func(list map[string]addon) map[string]string {
		out := map[string]string{}
		for name, a := range list {
			if a.Version != "" {
				out[name] = string(a.Version)
			}
		}
		return out
	}
	list, err := read(ctx, s.c, call[map[string]addon]{
		request: func() requests.AcsRequest {
			r := cs.CreateDescribeClusterAddonsVersionRequest()
			r.ClusterId = s.c.ClusterID
			return r
		},
		check: func(list map[string]addon) error {
			if len(installed(list)) == 0 {
				return lack("any add-on that is installed, which no cluster is without")
			}
			return nil
		},
		gone: clusterGone,
	})
	if err != nil {
		return nil, err
	}
	return installed(list), nil
}

// AddonConfig returns the configuration of an add-on, usually JSON, or "", or ErrNotFound without such an add-on. It needs
// grant.GetClusterAddon
// (https://www.alibabacloud.com/help/en/ack/ack-managed-and-ack-dedicated/developer-reference/api-cs-2015-12-15-getclusteraddoninstance).
func (s CS) AddonConfig(ctx context.Context, name string) (string, error) {
	type answer struct {
		Name   text `json:"name"`
		Config text `json:"config"`
	}
	a, err := read(ctx, s.c, call[answer]{
		request: func() requests.AcsRequest {
			r := &addonRequest{RoaRequest: &requests.RoaRequest{}, ClusterID: s.c.ClusterID, Addon: name}
			r.InitWithApiInfo("CS", "2015-12-15", "GetClusterAddonInstance", "/clusters/[ClusterId]/addon_instances/[InstanceName]", "", "")
			r.Method = requests.GET
			return r
		},
		check: func(a answer) error {
			if string(a.Name) != name {
				return lack("add-on %s: it is about %q", name, a.Name)
			}
			return nil
		},
		gone: append([]string{"AddonNotFound", "ErrorAddonNotFound"}, clusterGone...),
	})
	return string(a.Config), err
}

// An addonRequest exists because the SDK's package is older than this call.
type addonRequest struct {
	*requests.RoaRequest
	ClusterID string `position:"Path" name:"ClusterId"`
	Addon     string `position:"Path" name:"InstanceName"`
}

// atOnce is the most objects in one call: their names are part of its URL.
const atOnce = 50

// DeleteProtection reports, by name, whether ACK refuses to delete Services of a namespace, or namespaces if namespace is empty. Objects
// that the answer lacks are missing. The component for security policies enforces the protection. The error is ErrNotFound without such a
// cluster. It needs grant.DescribeDeleteProtection
// (https://www.alibabacloud.com/help/en/ack/ack-managed-and-ack-dedicated/developer-reference/api-cs-2015-12-15-describeresourcesdeleteprotection).
func (s CS) DeleteProtection(ctx context.Context, namespace string, names []string) (map[string]bool, error) {
	type answer struct {
		Name       text `json:"name"`
		Protection *on  `json:"protection"`
	}
	kind := "services"
	if namespace == "" {
		kind = "namespaces"
	}
	out := map[string]bool{}
	for some := range slices.Chunk(names, atOnce) {
		list, err := read(ctx, s.c, call[[]answer]{
			request: func() requests.AcsRequest {
				r := &protectionRequest{RoaRequest: &requests.RoaRequest{}, ClusterID: s.c.ClusterID, Kind: kind,
					Namespace: namespace, Resources: strings.Join(some, ",")}
				r.InitWithApiInfo("CS", "2015-12-15", "DescribeResourcesDeleteProtection", "/clusters/[ClusterId]/resources/[ResourceType]/protection", "", "")
				r.Method = requests.GET
				return r
			},
			check: func(list []answer) error {
				if len(list) == 0 {
					return lack("the list of what is protected")
				}
				for _, a := range list {
					if a.Name == "" || a.Protection == nil {
						return lack("name and protection of one of the %s", kind)
					}
				}
				return nil
			},
			gone: clusterGone,
		})
		if err != nil {
			return nil, err
		}
		for _, a := range list {
			out[string(a.Name)] = bool(*a.Protection)
		}
	}
	return out, nil
}

// A protectionRequest exists because the SDK's package is older than this call.
type protectionRequest struct {
	*requests.RoaRequest
	ClusterID string `position:"Path" name:"ClusterId"`
	Kind      string `position:"Path" name:"ResourceType"`
	Namespace string `position:"Query" name:"namespace"`
	Resources string `position:"Query" name:"resources"`
}

// MasterRole returns the RAM role of a dedicated cluster's control plane, or ErrNotFound, also if managed. It needs grant.DescribeClusterResources.
func (s CS) MasterRole(ctx context.Context) (string, error) {
	const action = "DescribeClusterResources"
	list, err := read(ctx, s.c, call[[]wireResource]{
		request: func() requests.AcsRequest {
			r := cs.CreateDescribeClusterResourcesRequest()
			r.ClusterId = s.c.ClusterID
			return r
		},
		check: func(list []wireResource) error {
			if list == nil {
				return lack("the list of resources")
			}
			for _, r := range list {
				if r.Type == "" {
					return lack("the resource_type of a resource")
				}
			}
			return nil
		},
		gone: clusterGone,
	})
	if err != nil {
		return "", err
	}
	var roles []string
	for _, r := range list {
		if role := r.masterRole(); role != "" {
			roles = append(roles, role)
		}
	}
	switch roles = sortedIDs(roles); len(roles) {
	case 1:
		return roles[0], nil
	case 0:
		return "", &Error{
			Product: "cs", Action: action, Code: "NoMasterRole", Status: 200, kind: ErrNotFound,
			Message: "cluster " + s.c.ClusterID + " has no RAM role of its own for masters",
		}
	}
	return "", &Error{
		Product: "cs", Action: action, Code: codeBadAnswer, Status: 200, kind: ErrUnavailable,
		Message: "cluster " + s.c.ClusterID + " has several RAM roles for masters: " + strings.Join(roles, ", "),
	}
}

type wireResource struct {
	Type text `json:"resource_type"` // such as ALIYUN::RAM::Role
	ID   text `json:"instance_id"`   // of a role: its name
	Info text `json:"resource_info"` // a name in the template, or JSON
}

// masterRole returns the role's name if it is the control plane's: that role, or its resource in the template, is named KubernetesMasterRole-….
func (r wireResource) masterRole() string {
	kind := strings.ToLower(string(r.Type))
	if !strings.Contains(kind, "ram") || !strings.HasSuffix(kind, "role") {
		return ""
	}
	var info struct {
		RAMRoleName text `json:"RamRoleName"`
	}
	name := string(r.ID)
	if json.Unmarshal([]byte(r.Info), &info) == nil && info.RAMRoleName != "" {
		name = string(info.RAMRoleName)
	}
	if strings.HasPrefix(name, "KubernetesMasterRole") || strings.Contains(string(r.Info), "KubernetesMasterRole") {
		return name
	}
	return ""
}
