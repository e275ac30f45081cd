package ccm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/say"
)

// BackendType is the annotation that makes Pods ("eni") or nodes ("ecs") the backends of a Service.
const BackendType = "service.beta.kubernetes.io/backend-type"

// A BackendMode is the kind of backends that the controller uses for a Service.
type BackendMode string

const (
	PodMode     BackendMode = "ENI"     // the ready Pods, by their network interfaces
	LocalMode   BackendMode = "Local"   // the nodes of the ready Pods
	ClusterMode BackendMode = "Cluster" // all nodes
)

// NodesAdvice says how to use nodes instead of Pods as backends without changing the load balancer.
func NodesAdvice(svc *corev1.Service) say.Text {
	return WithNodePorts(svc, say.F("Alternatively, keep the load balancer as it is and send traffic through the nodes: %s.", SetCommand(svc, BackendType, "ecs")))
}

// WithNodePorts adds to the advice how the Service gets node ports, if it lacks them.
func WithNodePorts(svc *corev1.Service, advice say.Text) say.Text {
	if slices.ContainsFunc(svc.Spec.Ports, func(p corev1.ServicePort) bool { return p.NodePort == 0 }) {
		advice = advice.And("The Service needs node ports for that: %s.", PatchCommand(svc, `{"spec":{"allocateLoadBalancerNodePorts":true}}`))
	}
	return advice
}

// BackendMode returns the mode that the annotation asks for, or else PodMode in a Terway cluster. It needs DescribeClusterDetail.
func (c *View) BackendMode(ctx context.Context) (BackendMode, error) {
	if c.Service.Annotations[BackendType] != "" {
		return ModeOf(c.Service, ""), nil
	}
	cluster, err := c.Cloud.CS.Cluster(ctx)
	if err != nil {
		return "", fmt.Errorf("describe the cluster: %w", err)
	}
	return ModeOf(c.Service, cluster.Network), nil
}

// ModeOf returns the backend mode of a Service in a cluster with this network plug-in.
func ModeOf(svc *corev1.Service, plugin string) BackendMode {
	kind := svc.Annotations[BackendType]
	switch {
	case kind == "eni", kind == "" && strings.HasPrefix(plugin, "terway"):
		return PodMode
	case svc.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal:
		return LocalMode
	}
	return ClusterMode
}

// An Endpoint is a Pod behind a port of a Service.
type Endpoint struct {
	IP   string
	Port int
	Pod  string // empty if the EndpointSlice names none that can exist
	Node string // empty if the EndpointSlice names none
}

// Name returns the name of the Pod, or the address.
func (e Endpoint) Name() string { return cmp.Or(e.Pod, e.IP) }

// ReadyAll returns the ready endpoints of all ports, each address once; see Ready.
func ReadyAll(svc *corev1.Service, ends []discoveryv1.EndpointSlice, family discoveryv1.AddressType) []Endpoint {
	var out []Endpoint
	for _, p := range svc.Spec.Ports {
		for _, e := range Ready(ends, p, family) {
			if !slices.ContainsFunc(out, func(o Endpoint) bool { return o.IP == e.IP }) {
				out = append(out, e)
			}
		}
	}
	return out
}

// FamilyOf returns the address family of the backends, from the annotations alone; Family also uses the event.
func FamilyOf(svc *corev1.Service) discoveryv1.AddressType {
	if backends, _ := Annotation(svc, "backend-ip-version"); AsksIPv6(svc) && strings.EqualFold(backends, "ipv6") {
		return discoveryv1.AddressTypeIPv6
	}
	return discoveryv1.AddressTypeIPv4
}

// DualStackBackends reports whether the Service asks for IPv6 backends besides those of FamilyOf, which it gets only with a feature gate of
// the controller (setAddressIpVersion in reconcile/backend/backend.go).
func DualStackBackends(svc *corev1.Service) bool {
	backends, _ := Annotation(svc, "backend-ip-version")
	return NLB(svc) && AsksIPv6(svc) && strings.EqualFold(backends, "dualstack")
}

// AsksIPv6 reports whether the Service asks for an IPv6 address: a CLB's only one, an NLB's second (GetAddressIpVersion in pkg/model/nlb/nlb.go).
func AsksIPv6(svc *corev1.Service) bool {
	value, _ := Annotation(svc, "ip-version")
	if NLB(svc) {
		return strings.EqualFold(value, "dualstack")
	}
	return strings.EqualFold(value, "ipv6")
}

// Ready returns the endpoints of a port that the controller counts: of this family, ready and not terminating; none for an unknown port name.
func Ready(slices []discoveryv1.EndpointSlice, port corev1.ServicePort, family discoveryv1.AddressType) []Endpoint {
	seen := map[string]bool{}
	var out []Endpoint
	for _, s := range slices {
		number := port.TargetPort.IntValue()
		if port.TargetPort.Type == intstr.String {
			number = numberIn(s, port)
		}
		if s.AddressType != family || number == 0 {
			continue
		}
		for _, e := range s.Endpoints {
			ready := e.Conditions.Ready != nil && *e.Conditions.Ready
			if !ready || e.Conditions.Terminating != nil && *e.Conditions.Terminating {
				continue
			}
			for _, ip := range e.Addresses {
				if seen[ip] {
					continue
				}
				seen[ip] = true
				found := Endpoint{IP: ip, Port: number, Pod: podOf(e)}
				if e.NodeName != nil {
					found.Node = *e.NodeName
				}
				out = append(out, found)
			}
		}
	}
	sortEndpoints(out)
	return out
}

// podOf returns the name of the endpoint's Pod, or "". Kubernetes does not check the reference, and the name becomes part of commands.
func podOf(e discoveryv1.Endpoint) string {
	if e.TargetRef == nil || e.TargetRef.Kind != "Pod" || !kube.ValidName(e.TargetRef.Name) {
		return ""
	}
	return e.TargetRef.Name
}

func sortEndpoints(list []Endpoint) {
	sort.Slice(list, func(i, k int) bool {
		return cmp.Or(cmp.Compare(list[i].Pod, list[k].Pod), cmp.Compare(list[i].IP, list[k].IP)) < 0
	})
}

func numberIn(s discoveryv1.EndpointSlice, port corev1.ServicePort) int {
	for _, p := range s.Ports {
		name := ""
		if p.Name != nil {
			name = *p.Name
		}
		if name == port.Name && p.Port != nil {
			return int(*p.Port)
		}
	}
	return 0
}

// Labels and taints that exclude nodes (helper/node_utils.go). Of the control plane's labels the controller reads only the old one.
const (
	MasterLabel  = "node-role.kubernetes.io/master"
	virtualNode  = "virtual-kubelet"
	hybridNode   = "ack-hybrid://" // prefix of the provider ID
	goingTaint   = "ToBeDeletedByClusterAutoscaler"
	backendLabel = "backend-label"
)

// FirstHybrid returns the first release that excludes hybrid nodes. Older ones try to read an instance from the provider ID and fail every
// Service that uses all nodes (IsExcludedNode in helper/node_utils.go of v2.12.4; its commit is older than v2.12.1).
func FirstHybrid() Version { return v2121 }

// The labels that keep a node out of all load balancers. The controller ignores a node with one of ignoreLabels altogether.
var (
	ignoreLabels  = []string{"service.beta.kubernetes.io/exclude-node", "service.alibabacloud.com/exclude-node"}
	excludeLabels = append([]string{corev1.LabelNodeExcludeBalancers, "alpha.service-controller.kubernetes.io/exclude-balancer"}, ignoreLabels...)
)

// RemoveUnscheduled is the annotation whose value "on" removes cordoned nodes from the backends (needExcludeFromLB in reconcile/backend/backend.go).
const RemoveUnscheduled = "remove-unscheduled-backend"

// An Exclusion is the reason why a node is not a backend.
type Exclusion int

// The reasons. Reasons that pass without anybody's action come last.
const (
	Serves   Exclusion = iota
	Virtual            // not a server: its Pods are backends themselves
	Unlabel            // lacks a label of the annotation backend-label
	Master             // has the label of control plane nodes
	Hybrid             // runs outside of the cloud; see FirstHybrid
	Excluded           // has a label that excludes it
	Cordoned           // cordoned, with the annotation remove-unscheduled-backend on
	Going              // about to be deleted by the autoscaler
	NotReady           // not ready, or no condition reported yet
)

// ExclusionOf returns why the controller excludes a node from the backends, and the evidence as a predicate for the node. A hybrid node
// counts as excluded in every release, since it serves no load balancer before FirstHybrid either; see ExclusionBy.
func ExclusionOf(node *corev1.Node, svc *corev1.Service) (Exclusion, say.Text) {
	if IsHybrid(node) {
		return Hybrid, say.F("is a hybrid node")
	}
	wanted, _ := Annotation(svc, backendLabel)
	for pair := range strings.SplitSeq(wanted, ",") {
		key, value, ok := strings.Cut(pair, "=")
		if have, there := node.Labels[key]; wanted != "" && (!ok || !there || have != value) {
			return Unlabel, say.F("lacks the label %s", clipped(pair))
		}
	}
	if _, ok := node.Labels[MasterLabel]; ok {
		return Master, say.F("has the label %s", MasterLabel)
	}
	for _, t := range node.Spec.Taints {
		if t.Key == goingTaint {
			return Going, say.F("has the taint %s", goingTaint)
		}
	}
	if off, _ := Annotation(svc, RemoveUnscheduled); node.Spec.Unschedulable && off == "on" {
		return Cordoned, say.F("is cordoned")
	}
	if node.Labels["type"] == virtualNode {
		return Virtual, say.F("is a virtual node")
	}
	if label := ExcludingLabel(node); label != "" {
		return Excluded, say.F("has the label %s", label)
	}
	if len(node.Status.Conditions) == 0 {
		return NotReady, say.F("has reported no condition yet")
	}
	for _, cond := range node.Status.Conditions {
		if cond.Type == corev1.NodeReady && cond.Status != corev1.ConditionTrue {
			if cond.Reason != "" {
				return NotReady, say.F("is not ready (%s)", cond.Reason)
			}
			return NotReady, say.F("is not ready")
		}
	}
	return Serves, nil
}

// ExclusionBy returns ExclusionOf for one release: before FirstHybrid, and if unknown, it may treat hybrid nodes like any other.
func ExclusionBy(v Version, node *corev1.Node, svc *corev1.Service) (Exclusion, say.Text) {
	why, text := ExclusionOf(node, svc)
	if why != Hybrid || !v.Before(FirstHybrid()) {
		return why, text
	}
	plain := *node
	plain.Spec.ProviderID = ""
	return ExclusionOf(&plain, svc)
}

// IsHybrid reports whether a node runs outside of the cloud.
func IsHybrid(node *corev1.Node) bool { return strings.HasPrefix(node.Spec.ProviderID, hybridNode) }

// PodServes reports whether a node's ready Pods can be backends in PodMode. Those of a hybrid node have no network interface in the VPC and
// work only in server groups of addresses (updateVServerGroupENIBackendID in clbv1/vgroups.go, updateServerGroupENIBackendID in
// nlbv2/server_groups.go). A nil node is unknown and serves.
func PodServes(node *corev1.Node, svc *corev1.Service) bool {
	return node == nil || !IsHybrid(node) || GroupsOfAddresses(svc)
}

// ExcludingLabel returns the label that keeps a node out of all load balancers, or "".
func ExcludingLabel(node *corev1.Node) string { return labelOf(node, excludeLabels) }

func labelOf(node *corev1.Node, labels []string) string {
	for _, label := range labels {
		if _, ok := node.Labels[label]; ok {
			return label
		}
	}
	return ""
}

// A Group holds the backends of one port of the Service: a vServer group of a CLB, or a server group of an NLB.
type Group struct {
	Port    corev1.ServicePort
	ID      string // empty if it does not exist
	Name    string // as the controller names it
	Servers int    // number of backends
}

// GroupReads and BackendReads are what Groups and Backends read, for CLBs and NLBs. A class that calls them declares both.
var (
	GroupReads   = append([]grant.Grant{grant.DescribeVServerGroups, grant.ListServerGroups, grant.ListServerGroupServers}, BoundReads...)
	BackendReads = append([]grant.Grant{grant.DescribeVServerGroupAttribute}, GroupReads...)
)

// Groups returns the group of each port, in port order, and the load balancer's ID, which is empty for an NLB: its groups are found by their
// tags or the IDs that the Service names. Without a load balancer no group has an ID.
func (c *View) Groups(ctx context.Context, mode BackendMode) ([]Group, string, error) {
	groups := make([]Group, len(c.Service.Spec.Ports))
	for i, p := range c.Service.Spec.Ports {
		groups[i] = Group{Port: p, Name: cmp.Or(RangeName(c.Service, p, c.Cluster), GroupName(c.Service, p, mode, c.Cluster))}
	}
	if NLB(c.Service) {
		all, err := c.Cloud.NLB.ServerGroups(ctx, NameTag, DefaultName(c.Service))
		if err != nil {
			return nil, "", fmt.Errorf("list server groups with the tag %s=%s: %w", NameTag, DefaultName(c.Service), err)
		}
		for i := range groups {
			g := &groups[i]
			id := AdoptedGroup(c.Service, g.Port)
			adopted := id != "" // it may lack the tag
			if at := slices.IndexFunc(all, func(s cloud.ServerGroup) bool { return s.Name == g.Name }); !adopted && at >= 0 {
				id = all[at].ID
			}
			if id == "" {
				continue
			}
			servers, err := c.Cloud.NLB.Servers(ctx, id)
			if adopted && errors.Is(err, cloud.ErrNotFound) {
				continue
			}
			if err != nil {
				return nil, "", fmt.Errorf("list servers of group %s: %w", id, err)
			}
			g.ID, g.Servers = id, len(servers)
			if adopted {
				g.Name = id
			}
		}
		return groups, "", nil
	}
	lb, err := c.Bound(ctx)
	if err != nil || lb == nil {
		return groups, "", err
	}
	all, err := c.Cloud.SLB.VServerGroups(ctx, lb.ID)
	if err != nil {
		return nil, "", fmt.Errorf("list vServer groups of %s: %w", lb.ID, err)
	}
	for i := range groups {
		g := &groups[i]
		adopted := AdoptedGroup(c.Service, g.Port)
		at := slices.IndexFunc(all, func(v cloud.VServerGroup) bool {
			return adopted != "" && v.ID == adopted || adopted == "" && v.Name == g.Name
		})
		if at >= 0 {
			g.ID, g.Name, g.Servers = all[at].ID, all[at].Name, all[at].Servers
		}
	}
	return groups, lb.ID, nil
}

// WholeGroupReads is what WholeGroups reads; a class that calls it declares it.
var WholeGroupReads = []grant.Grant{grant.DescribeVServerGroups, grant.DescribeVServerGroupAttribute}

// WholeGroups returns the CLB's vServer groups with their backends; nothing for an NLB.
func (c *View) WholeGroups(ctx context.Context, lb *Instance) ([]cloud.VServerGroup, error) {
	if lb.CLB == nil {
		return nil, nil
	}
	groups, err := c.Cloud.SLB.VServerGroups(ctx, lb.ID)
	if err != nil {
		return nil, fmt.Errorf("list vServer groups of %s: %w", lb.ID, err)
	}
	var out []cloud.VServerGroup
	for _, g := range groups {
		whole, err := c.Cloud.SLB.VServerGroup(ctx, g.ID)
		if errors.Is(err, cloud.ErrNotFound) {
			continue // deleted meanwhile
		}
		if err != nil {
			return nil, fmt.Errorf("describe vServer group %s: %w", g.ID, err)
		}
		g.Backends = whole.Backends
		out = append(out, g)
	}
	return out, nil
}

// Backends returns the backends of a group, if it exists.
func (c *View) Backends(ctx context.Context, g Group) ([]cloud.Backend, error) {
	if g.ID == "" {
		return nil, nil
	}
	if NLB(c.Service) {
		servers, err := c.Cloud.NLB.Servers(ctx, g.ID)
		if err != nil {
			return nil, fmt.Errorf("list servers of group %s: %w", g.ID, err)
		}
		return servers, nil
	}
	whole, err := c.Cloud.SLB.VServerGroup(ctx, g.ID)
	if err != nil {
		return nil, fmt.Errorf("describe vServer group %s: %w", g.ID, err)
	}
	return whole.Backends, nil
}

// LacksBackends reports whether the load balancer lacks a backend: in PodMode a ready Pod that can be one (see PodServes); otherwise any
// backend of a port, or a ready Pod on a virtual node. It needs BackendReads and ListNodes, or NetworkReads.
func (c *View) LacksBackends(ctx context.Context, mode BackendMode, ends []discoveryv1.EndpointSlice, family discoveryv1.AddressType) (bool, error) {
	groups, _, err := c.Groups(ctx, mode)
	if err != nil {
		return false, err
	}
	wanted := make([][]Endpoint, len(groups))
	for i, g := range groups {
		if mode != PodMode && g.Servers == 0 {
			return true, nil
		}
		wanted[i] = Ready(ends, g.Port, family)
	}
	among := c.OnVirtual
	if mode == PodMode {
		among = c.Reachable
	}
	can, err := among(ctx, slices.Concat(wanted...))
	if err != nil {
		return false, err
	}
	for i := range wanted {
		wanted[i] = slices.DeleteFunc(wanted[i], func(e Endpoint) bool { return !slices.Contains(can, e) })
	}
	for i, g := range groups {
		want := wanted[i]
		if len(want) == 0 {
			continue
		}
		have, err := c.Backends(ctx, g)
		if err != nil {
			return false, err
		}
		for _, e := range want {
			if !slices.ContainsFunc(have, func(b cloud.Backend) bool { return b.IP == e.IP }) {
				return true, nil
			}
		}
	}
	return false, nil
}

// GroupName returns the controller's name for the group of a port. It contains the node port (in PodMode the target port), and for an NLB
// the protocol of the listener, TCPSSL included (clbv1/vgroups.go, nlbv2/server_groups.go, model/nlb/nlb.go).
func GroupName(svc *corev1.Service, p corev1.ServicePort, mode BackendMode, cluster string) string {
	number := strconv.Itoa(int(p.NodePort))
	if mode == PodMode {
		number = p.TargetPort.String()
	}
	if !NLB(svc) {
		return strings.Join([]string{"k8s", number, svc.Name, svc.Namespace, cluster}, "/")
	}
	value, _ := Annotation(svc, "protocol-port")
	protocol := strings.ToUpper(cmp.Or(protocolsOf(value)[strconv.Itoa(int(p.Port))], string(p.Protocol)))
	return strings.Join([]string{"k8s", number, protocol, svc.Name, svc.Namespace, cluster}, ".")
}

// AdoptedGroup returns the ID of the user's group for a port, from the annotation vgroup-port ("rsp-a:80,rsp-b:443"), or "". The controller
// reads it only on a user's load balancer (clbv1/vgroups.go, nlbv2/server_groups.go).
func AdoptedGroup(svc *corev1.Service, p corev1.ServicePort) string {
	if id, _ := Annotation(svc, "id"); id == "" {
		return ""
	}
	value, _ := Annotation(svc, "vgroup-port")
	for pair := range strings.SplitSeq(value, ",") {
		if id, port, ok := strings.Cut(strings.TrimSpace(pair), ":"); ok && port == strconv.Itoa(int(p.Port)) {
			return id
		}
	}
	return ""
}
