package cs

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/lbremedy/lbremedy/test/sim/core"
	"github.com/lbremedy/lbremedy/test/sim/ecs"
	"github.com/lbremedy/lbremedy/test/sim/slb"
	"github.com/lbremedy/lbremedy/test/sim/vpc"
)

const ccm = "cloud-controller-manager"

// A Cluster is an ACK cluster.
type Cluster struct {
	ID                string            `json:"id,omitempty"`
	Name              string            `json:"name,omitempty"`
	VPC               string            `json:"vpc,omitempty"`          // the first VPC if empty
	Type              string            `json:"type,omitempty"`         // ManagedKubernetes (the zero value) or Kubernetes, a dedicated one
	Version           string            `json:"version,omitempty"`      // of Kubernetes
	VSwitches         []string          `json:"vswitches,omitempty"`    // nil: all of the VPC that are not for Pods
	PodVSwitches      []string          `json:"podVSwitches,omitempty"` // of Terway
	NodePools         []NodePool        `json:"nodePools,omitempty"`    // nil: default-nodepool in the cluster's vSwitches
	Addons            map[string]string `json:"addons,omitempty"`       // versions by name; cloud-controller-manager is always included
	AddonLatest       map[string]string `json:"addonLatest,omitempty"`  // newer available versions
	AddonConfig       map[string]string `json:"addonConfig,omitempty"`
	Kubeconfig        string            `json:"kubeconfig,omitempty"`        // returned by DescribeClusterUserKubeconfig
	PrivateKubeconfig string            `json:"privateKubeconfig,omitempty"` // for use inside the VPC; default Kubeconfig
	// ID of the API server's load balancer, which is created if missing; empty: none
	APIServer    string         `json:"apiServer,omitempty"`
	MasterRole   string         `json:"masterRole,omitempty"`   // of a dedicated cluster
	NoMasterRole bool           `json:"noMasterRole,omitempty"` // the stack of a dedicated cluster created no role for masters
	WorkerRole   string         `json:"workerRole,omitempty"`
	Network      string         `json:"network,omitempty"` // flannel (the zero value) or terway-eniip
	PodCIDR      string         `json:"podCidr,omitempty"`
	ServiceCIDR  string         `json:"serviceCidr,omitempty"`
	Protected    []string       `json:"protected,omitempty"` // by ACK's deletion protection: a namespace, or a Service as namespace/name
	Metadata     map[string]any `json:"metadata,omitempty"`  // merged into meta_data of the cluster's details
}

// A NodePool is a group of nodes of the cluster.
type NodePool struct {
	ID        string   `json:"id,omitempty"`
	Name      string   `json:"name,omitempty"`
	Default   bool     `json:"default,omitempty"`
	VSwitches []string `json:"vswitches,omitempty"`
}

// A State holds the cluster.
type State struct {
	*core.State
	Cluster Cluster

	vpc    *vpc.State
	ecs    *ecs.State
	slb    *slb.State
	tasks  map[string]*task
	master string // address of the API server, kept after its load balancer is deleted
}

// New returns the state, with defaults for nodes and add-ons.
func New(base *core.State, c Cluster) *State {
	s := &State{
		State: base, Cluster: c, vpc: core.Part[*vpc.State](base), ecs: core.Part[*ecs.State](base), slb: core.Part[*slb.State](base), tasks: map[string]*task{},
	}
	base.Add(s)
	s.fill()
	s.noteMaster()
	return s
}

// Adopt copies from the previous state what a World does not contain.
func (s *State) Adopt(was *State) { s.tasks, s.master = was.tasks, cmp.Or(s.master, was.master) }

// Settle updates the state after an edit.
func (s *State) Settle() { s.noteMaster() }

// Fill sets the fields that other products depend on: ID, VPC and roles.
func (c *Cluster) Fill(vpc string) error {
	c.ID, c.Name = cmp.Or(c.ID, "c0a1b2c3d4e5f60718293a4b5c6d7e8f9"), cmp.Or(c.Name, "sim")
	c.VPC = cmp.Or(c.VPC, vpc)
	c.Type = cmp.Or(c.Type, "ManagedKubernetes")
	c.WorkerRole = cmp.Or(c.WorkerRole, "KubernetesWorkerRole-"+c.ID)
	switch c.Type {
	case "Kubernetes":
		if !c.NoMasterRole {
			c.MasterRole = cmp.Or(c.MasterRole, "KubernetesMasterRole-"+c.ID)
		}
	case "ManagedKubernetes":
	default:
		return fmt.Errorf("cluster type %q is neither ManagedKubernetes nor Kubernetes", c.Type)
	}
	return nil
}

func (s *State) fill() {
	c := &s.Cluster
	c.Version = cmp.Or(c.Version, "1.34.1-aliyun.1")
	c.Network = cmp.Or(c.Network, "flannel")
	c.ServiceCIDR = cmp.Or(c.ServiceCIDR, "172.16.0.0/16")
	if c.Network == "flannel" {
		c.PodCIDR = cmp.Or(c.PodCIDR, "172.20.0.0/16")
	}
	if c.VSwitches == nil {
		for _, v := range core.Sorted(s.vpc.VSwitches) {
			if v.VPC == c.VPC && !slices.Contains(c.PodVSwitches, v.ID) {
				c.VSwitches = append(c.VSwitches, v.ID)
			}
		}
	}
	if c.NodePools == nil {
		c.NodePools = []NodePool{{Name: "default-nodepool", Default: true}}
	}
	for i := range c.NodePools {
		p := &c.NodePools[i]
		p.Name = cmp.Or(p.Name, fmt.Sprintf("nodepool-%d", i+1))
		p.ID = cmp.Or(p.ID, "np"+strings.ToLower(core.Derive(c.ID+p.Name, 32)))
		if p.VSwitches == nil {
			p.VSwitches = slices.Clone(c.VSwitches)
		}
	}
	if c.Addons == nil {
		c.Addons = map[string]string{}
	}
	c.Addons[ccm] = cmp.Or(c.Addons[ccm], "v2.12.1")
	if c.Network != "flannel" {
		c.Addons[c.Network] = cmp.Or(c.Addons[c.Network], "v1.14.0")
	}
}

// AddAPIServer adds the API server's load balancer, with a tag that the controller's load balancers also have.
func (c *Cluster) AddAPIServer(lbs []slb.LoadBalancer, vswitches []vpc.VSwitch) []slb.LoadBalancer {
	id := c.APIServer
	if id == "" || slices.ContainsFunc(lbs, func(lb slb.LoadBalancer) bool { return lb.ID == id }) {
		return lbs
	}
	lb := slb.LoadBalancer{
		ID: id, Name: "ManagedK8SSlbIntranet-" + c.ID, Spec: "slb.s1.small", DeleteProtection: true,
		ModificationProtection: slb.Protection{Status: "ConsoleProtection", Reason: "managed.by.ack"},
		Tags:                   map[string]string{"ack.aliyun.com": c.ID},
		Listeners:              []slb.Listener{{Port: 6443, Protocol: "tcp"}},
	}
	if i := slices.IndexFunc(vswitches, func(v vpc.VSwitch) bool { return cmp.Or(v.VPC, c.VPC) == c.VPC }); i >= 0 {
		lb.VSwitch = cmp.Or(vswitches[i].ID, fmt.Sprintf("vsw-%d", i+1))
	}
	return append(lbs, lb)
}

// noteMaster stores the API server's address, which the container service still returns after its load balancer is deleted.
func (s *State) noteMaster() {
	if lb := s.slb.LoadBalancers[s.Cluster.APIServer]; lb != nil {
		s.master = lb.Address
	}
}

type request struct {
	*core.Request
	state *State
}

func on(do func(*request) (any, *core.Failure)) func(*core.Request) (any, *core.Failure) {
	return func(q *core.Request) (any, *core.Failure) { return do(&request{q, core.Part[*State](q.State)}) }
}
