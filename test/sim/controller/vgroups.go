package controller

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/requests"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/ecs"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/slb"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/vpc"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
)

const (
	backendECS = "ecs"
	backendENI = "eni"

	defaultWeight = 100
	// batch is the number of backends in one call; firstBatch is that of the first generation.
	batch, firstBatch = 39, 19
	// interfacesPerCall is the number of addresses in one call of DescribeNetworkInterfaces.
	interfacesPerCall = 100
)

const (
	labelMaster     = "node-role.kubernetes.io/master"
	labelVirtual    = "virtual-kubelet"
	taintToBeGone   = "ToBeDeletedByClusterAutoscaler"
	labelIgnoreOld  = "service.beta.kubernetes.io/exclude-node"
	labelIgnore     = "service.alibabacloud.com/exclude-node"
	labelExcludeOld = "alpha.service-controller.kubernetes.io/exclude-balancer"

	hybrid = "ack-hybrid://" // prefix of the provider ID of a node outside the cloud
)

// A group is a vServer group: the backends of one port of the Service.
type group struct {
	id, name    string
	backends    []backend
	pods        []backend // the ready Pods behind the port, even if nodes are the backends
	bad         []backend // Pods whose network interface was not found
	keepWeights bool      // keep weights that were changed in the console
	foreign     bool      // contains a backend that is not the controller's
	anyPort     bool      // CLB: sets the weight of a server that is there with another port
}

type groups []*group

func (g groups) invalid() bool {
	return slices.ContainsFunc(g, func(g *group) bool { return len(g.bad) > 0 })
}

type backend struct {
	ServerID    string `json:"serverId"`
	ServerIP    string `json:"serverIp,omitempty"`
	Weight      int    `json:"weight"`
	Port        int    `json:"port"`
	Type        string `json:"type"`
	Description string `json:"description,omitempty"`

	foreign bool                    // not the controller's
	target  *corev1.ObjectReference // the Pod
	node    string
}

// none is the controller's text for a missing Pod or node.
const none = "<nil>"

func (b backend) pod() string {
	if b.target == nil {
		return none
	}
	return b.target.Namespace + "/" + b.target.Name
}

func addresses(all []backend) string {
	var ips []string
	for _, b := range all {
		ips = append(ips, b.ServerIP)
	}
	return strings.Join(ips, ",")
}

func (b backend) server(o backend) bool {
	return b.ServerID == o.ServerID && (b.Type != backendENI || b.ServerIP == o.ServerIP)
}

func (b backend) same(o backend) bool { return b.server(o) && b.Port == o.Port }

func (c *controller) usesENI(svc *corev1.Service) bool {
	return cmp.Or(svc.Annotations[annotationBackend], c.Options.Backends) == backendENI
}

// groupName returns the name of a port's group, which identifies its owner.
func (p *pass) groupName(port corev1.ServicePort) string {
	number := strconv.Itoa(int(port.NodePort))
	switch {
	case p.usesENI(p.svc) && p.version.first(): // 0 for a named port
		number = strconv.Itoa(int(port.TargetPort.IntVal))
	case p.usesENI(p.svc):
		number = port.TargetPort.String()
	}
	return p.key(number)
}

func (p *pass) key(port string) string {
	return strings.Join([]string{"k8s", port, p.svc.Name, p.svc.Namespace, p.ClusterID}, "/")
}

// mine reports whether this controller gave a name or description to one of the Service's resources.
func (p *pass) mine(key string) bool {
	parts := strings.Split(key, "/")
	return len(parts) == 5 && parts[0] == "k8s" && slices.Equal(parts[2:], []string{p.svc.Name, p.svc.Namespace, p.ClusterID})
}

func (p *pass) wantedGroups(ctx context.Context, reused bool) (groups, error) {
	nodes, err := p.candidates()
	if err != nil {
		return nil, fmt.Errorf("get nodes error: %w", err)
	}
	ends, err := p.endpointSlices()
	if err != nil {
		return nil, fmt.Errorf("get endpointslice error: %w", err)
	}
	var all groups
	byPort := !p.version.since("v2.11.0") // the network interfaces are looked up for each port
	for _, port := range p.svc.Spec.Ports {
		g, err := p.wantedGroup(ctx, port, nodes, ends, reused)
		if err == nil && byPort {
			err = wrap("build eni backends error", p.findInterfaces(ctx, groups{g}))
		}
		if err != nil && !p.version.since("v2.12.4") {
			return nil, fmt.Errorf("build vgroup for port %d error: %w", port.Port, err)
		}
		if err != nil {
			// Since v2.12.4 the controller notices the missing group only when it creates the port's listener.
			p.Log.Warn("build vgroup", "namespace", p.svc.Namespace, "service", p.svc.Name, "port", port.Port, "error", err)
			continue
		}
		if len(g.backends) == 0 && p.version.since("v1.9.3.276") {
			p.event(p.version.noBackends(p.service()))
		}
		all = append(all, g)
	}
	if byPort {
		return all, nil
	}
	return all, p.findInterfaces(ctx, all)
}

func (p *pass) wantedGroup(ctx context.Context, port corev1.ServicePort, nodes []*corev1.Node, ends []*discoveryv1.EndpointSlice, reused bool) (*group, error) {
	g := &group{name: p.groupName(port), anyPort: true, keepWeights: strings.EqualFold(p.annotation("ignore-weight-update"), "on")}
	weight := -1
	if ports := p.annotation("vgroup-port"); reused && ports != "" {
		id, err := groupOf(ports, port)
		if err != nil {
			return nil, fmt.Errorf("vgroupid parse error: %w", err)
		}
		if err := p.adopt(ctx, g, id); err != nil {
			return nil, err
		}
		if s := p.annotation("weight"); s != "" {
			if weight, err = strconv.Atoi(s); err != nil || weight < 0 || weight > 100 {
				return nil, fmt.Errorf("weight must be integer in range [0,100] , got [%s]", s)
			}
		}
	}
	return g, p.fillGroup(g, port, nodes, ends, weight)
}

// fillGroup finds the backends of a port's group. A weight that is not negative is their total.
func (p *pass) fillGroup(g *group, port corev1.ServicePort, nodes []*corev1.Node, ends []*discoveryv1.EndpointSlice, weight int) error {
	normal, err := p.normalWeight()
	if err != nil {
		return err
	}
	g.pods = p.pods(g.name, port, ends)
	switch {
	case p.usesENI(p.svc):
		g.backends = asENI(g.pods)
	case p.svc.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal:
		g.backends, err = p.local(g, port, nodes)
	default:
		g.backends, err = p.cluster(g, port, nodes)
	}
	if err != nil {
		return err
	}
	share(g.backends, weight, normal)
	return nil
}

// normalWeight returns the weight of backends without one of their own. The annotation is read since v2.14.0.
func (p *pass) normalWeight() (int, error) {
	s := p.annotation("default-weight")
	if s == "" || !p.version.since("v2.14.0") {
		return defaultWeight, nil
	}
	w, err := strconv.Atoi(s)
	if err != nil || w < 0 || w > 100 {
		return 0, fmt.Errorf("default weight must be integer in range [0,100] , got [%s]", s)
	}
	return w, nil
}

func asENI(pods []backend) []backend {
	all := slices.Clone(pods)
	for i := range all {
		all[i].Type = backendENI
	}
	return all
}

func (p *pass) adopt(ctx context.Context, g *group, id string) error {
	if id == "" {
		return nil
	}
	lb := p.annotation("id")
	there, err := p.listGroups(ctx, lb)
	if err != nil {
		return fmt.Errorf("find vgroupId %s of lb %s error: %w", id, lb, err)
	}
	i := slices.IndexFunc(there, func(o *group) bool { return o.id == id })
	switch {
	case i < 0:
		return fmt.Errorf("can not find vgroupId %s in lb %s", id, lb)
	case strings.HasPrefix(there[i].name, "k8s/"):
		return fmt.Errorf("cannot reuse a ccm created vgroup %s for slb %s", id, lb)
	}
	g.id = id
	return nil
}

// groupOf returns the group of a port in an annotation such as rsp-a:80,rsp-b:443.
func groupOf(annotation string, port corev1.ServicePort) (string, error) {
	for v := range strings.SplitSeq(annotation, ",") {
		id, number, ok := strings.Cut(v, ":")
		if !ok {
			return "", fmt.Errorf("vgroupid and protocol format must be like 'vsp-xxx:443' with colon separated. got=[[%s]]", v)
		}
		if number == strconv.Itoa(int(port.Port)) {
			return id, nil
		}
	}
	return "", nil
}

func (p *pass) candidates() ([]*corev1.Node, error) {
	all, err := p.nodes.List(labels.Everything())
	if err != nil {
		return nil, err
	}
	want := p.annotation("backend-label")
	var kept []*corev1.Node
	for _, n := range all {
		ok, err := hasLabels(n, want)
		if err != nil {
			return nil, fmt.Errorf("filter nodes by label error: %w", err)
		}
		if ok && p.serves(n) {
			kept = append(kept, n)
		}
	}
	slices.SortFunc(kept, func(a, b *corev1.Node) int { return strings.Compare(a.Name, b.Name) })
	return kept, nil
}

func hasLabels(n *corev1.Node, want string) (bool, error) {
	if want == "" {
		return true, nil
	}
	for l := range strings.SplitSeq(want, ",") {
		k, v, ok := strings.Cut(l, "=")
		if !ok {
			return false, fmt.Errorf("parse backend label: %s, [k1=v1,k2=v2]", l)
		}
		v, _, _ = strings.Cut(v, "=")
		if have, ok := n.Labels[k]; !ok || have != v {
			return false, nil
		}
	}
	return true, nil
}

// serves reports whether a node can be a backend: it is not a master (only the old label counts), is not about to be removed, and has
// conditions, with Ready not false. Nodes that the cluster autoscaler is about to remove are excluded since v2.4.0.
func (p *pass) serves(n *corev1.Node) bool {
	if _, master := n.Labels[labelMaster]; master {
		return false
	}
	going := func(t corev1.Taint) bool { return t.Key == taintToBeGone }
	if p.version.since("v2.4.0") && slices.ContainsFunc(n.Spec.Taints, going) {
		return false
	}
	if n.Spec.Unschedulable && p.annotation("remove-unscheduled-backend") == "on" {
		return false
	}
	if n.Labels["type"] == labelVirtual {
		return true
	}
	if len(n.Status.Conditions) == 0 {
		return false
	}
	return !slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue
	})
}

func ignored(n *corev1.Node) bool {
	_, old := n.Labels[labelIgnoreOld]
	_, now := n.Labels[labelIgnore]
	return old || now
}

// excluded reports whether a node is never a backend. Kubernetes' own label counts since v2.6.0, in addition to the older one.
func (p *pass) excluded(n *corev1.Node) bool {
	_, now := n.Labels[corev1.LabelNodeExcludeBalancers]
	_, old := n.Labels[labelExcludeOld]
	return now && p.version.since("v2.6.0") || old || ignored(n) || p.version.outside(n)
}

func (v version) outside(n *corev1.Node) bool {
	return v.since("v2.12.1") && strings.HasPrefix(n.Spec.ProviderID, hybrid)
}

// ipv6 reports whether backends are reached by IPv6, which needs two annotations and the feature gate.
func (p *pass) ipv6() bool {
	frontend := "ipv6"
	if p.network {
		frontend = "DualStack"
	}
	return p.DualStack && p.annotation("ip-version") == frontend && p.annotation("backend-ip-version") == "ipv6"
}

// byService is the index of EndpointSlices by their Service. Releases before v2.9.1 read Endpoints instead, which hold the same for IPv4.
const byService = "service"

func serviceOf(o any) ([]string, error) {
	s, ok := o.(*discoveryv1.EndpointSlice)
	if !ok {
		return nil, fmt.Errorf("%T is no EndpointSlice", o)
	}
	return []string{s.Namespace + "/" + s.Labels[discoveryv1.LabelServiceName]}, nil
}

func (p *pass) endpointSlices() ([]*discoveryv1.EndpointSlice, error) {
	found, err := p.slices.ByIndex(byService, p.svc.Namespace+"/"+p.svc.Name)
	if err != nil {
		return nil, err
	}
	var all []*discoveryv1.EndpointSlice
	for _, o := range found {
		all = append(all, o.(*discoveryv1.EndpointSlice))
	}
	family := discoveryv1.AddressTypeIPv4
	if p.ipv6() {
		family = discoveryv1.AddressTypeIPv6
	}
	all = slices.DeleteFunc(all, func(s *discoveryv1.EndpointSlice) bool { return s.AddressType != family })
	slices.SortFunc(all, func(a, b *discoveryv1.EndpointSlice) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// pods returns the ready Pods behind a port, and those that lack only the readiness gate. A named port that no slice has leads to no Pods;
// up to v2.11 it leads to Pods with port 0 (v2.11.2 and v2.12.4 of the source), as all named ports did in the first generation.
func (p *pass) pods(name string, port corev1.ServicePort, ends []*discoveryv1.EndpointSlice) []backend {
	seen := map[string]bool{}
	var pods []backend
	for _, s := range ends {
		number := port.TargetPort.IntValue()
		if p.version.first() {
			number = int(port.TargetPort.IntVal)
		} else if port.TargetPort.Type == intstr.String {
			number = 0
			for _, sp := range s.Ports {
				if sp.Name != nil && *sp.Name == port.Name && sp.Port != nil {
					number = int(*sp.Port)
				}
			}
			if number == 0 {
				p.Log.Warn("port not found by name", "group", name, "port", port.Name)
				if p.version.since("v2.12.0") {
					continue
				}
			}
		}
		for _, e := range s.Endpoints {
			terminating := e.Conditions.Terminating != nil && *e.Conditions.Terminating
			ready := e.Conditions.Ready != nil && *e.Conditions.Ready
			if terminating || !ready && !p.waitsForUs(e.TargetRef) {
				continue
			}
			for _, ip := range e.Addresses {
				if seen[ip] {
					continue
				}
				seen[ip] = true
				b := backend{ServerIP: ip, Port: number, Description: name, target: e.TargetRef}
				if e.NodeName != nil {
					b.node = *e.NodeName
				}
				pods = append(pods, b)
			}
		}
	}
	return pods
}

// cluster returns all nodes as backends, and Pods on virtual nodes, which are containers without a server.
func (p *pass) cluster(g *group, port corev1.ServicePort, nodes []*corev1.Node) ([]backend, error) {
	var all []backend
	for _, n := range nodes {
		if p.excluded(n) || n.Labels["type"] == labelVirtual {
			continue
		}
		id, err := instance(n)
		if err != nil {
			return nil, fmt.Errorf("build cluster backends error: normal parse providerid: %s. expected: ${regionid}.${nodeid}, %w", n.Spec.ProviderID, err)
		}
		all = append(all, backend{ServerID: id, Port: int(port.NodePort), Type: backendECS, Description: g.name})
	}
	var virtual []backend
	for _, pod := range g.pods {
		n, err := p.nodeOf(pod, nodes)
		if err != nil {
			return nil, fmt.Errorf("build cluster backends error: %w", err)
		}
		if n != nil && n.Labels["type"] == labelVirtual {
			virtual = append(virtual, pod)
		}
	}
	return append(all, asENI(virtual)...), nil
}

func (p *pass) nodeOf(pod backend, nodes []*corev1.Node) (*corev1.Node, error) {
	if pod.node == "" {
		return nil, fmt.Errorf("add ecs backends for service[%s/%s] error, NodeName is nil for ip %s ", p.svc.Namespace, p.svc.Name, pod.ServerIP)
	}
	if i := slices.IndexFunc(nodes, func(n *corev1.Node) bool { return n.Name == pod.node }); i >= 0 {
		return nodes[i], nil
	}
	return nil, nil
}

// local returns the nodes of the Service's Pods as backends, weighted by the number of Pods, and the Pods on virtual nodes with a weight of 1.
// v2.11.2 uses only the first of these, with the weight of all: it removes duplicates by an ID that they do not have yet (removeDuplicatedECS).
func (p *pass) local(g *group, port corev1.ServicePort, nodes []*corev1.Node) ([]backend, error) {
	var all, virtual []backend
	for _, pod := range g.pods {
		n, err := p.nodeOf(pod, nodes)
		switch {
		case err != nil:
			return nil, fmt.Errorf("build local backends error: %w", err)
		case n == nil:
			continue
		case n.Labels["type"] == labelVirtual && virtual != nil && p.version.since("v2.11.0") && !p.version.since("v2.12.4"):
			virtual[0].Weight++
			continue
		case n.Labels["type"] == labelVirtual:
			pod.Weight = 1
			virtual = append(virtual, asENI([]backend{pod})...)
			continue
		case p.excluded(n):
			continue
		}
		id, err := instance(n)
		if err != nil {
			return nil, fmt.Errorf("build local backends error: parse providerid: %s. expected: ${regionid}.${nodeid}, %w", n.Spec.ProviderID, err)
		}
		if j := slices.IndexFunc(all, func(b backend) bool { return b.ServerID == id }); j >= 0 {
			all[j].Weight++
			continue
		}
		all = append(all, backend{ServerID: id, Weight: 1, Port: int(port.NodePort), Type: backendECS, Description: g.name})
	}
	return append(all, virtual...), nil
}

// instance returns the ID of a node's ECS instance, from a provider ID such as cn-hangzhou.i-1.
func instance(n *corev1.Node) (string, error) {
	parts := strings.Split(strings.TrimPrefix(n.Spec.ProviderID, "alicloud://"), ".")
	if len(parts) < 2 {
		return "", fmt.Errorf("alicloud: unable to split instanceid and region from providerID, error unexpected providerID=%s", n.Spec.ProviderID)
	}
	return parts[1], nil
}

// share sets the weights. It divides a total in percent by the weights; backends without one count equally. It ignores a negative total.
func share(all []backend, total, normal int) {
	sum := 0
	for _, b := range all {
		sum += max(b.Weight, 1)
	}
	for i := range all {
		w := all[i].Weight
		switch {
		case total == 0:
			w = 0
		case total > 0:
			w = max(max(w, 1)*total/sum, 1)
		case w == 0:
			w = normal
		}
		all[i].Weight = w
	}
}

// findInterfaces finds the network interfaces of backend Pods. A Pod without one fails the sync up to v2.12, and is excluded with
// an Event later. A Pod outside the VPC is excluded since v2.8.0, with an Event since v2.9.0; v2.9 and v2.10 only report it, and
// look it up all the same (pkg/controller/service/clbv1/vgroups.go, updateENIBackends).
func (p *pass) findInterfaces(ctx context.Context, all groups) error {
	var ips []string
	for _, g := range all {
		for _, b := range g.backends {
			if b.Type == backendENI && !slices.Contains(ips, b.ServerIP) {
				ips = append(ips, b.ServerIP)
			}
		}
	}
	if len(ips) == 0 {
		return nil
	}
	var blocks []netip.Prefix
	if p.version.since("v2.8.0") && !p.version.since("v2.11.0") && !p.network {
		var err error
		if blocks, err = p.blocks(ctx); err != nil {
			return fmt.Errorf("get vpc cidr error: %w", err)
		}
	}
	interfaces, err := p.interfaces(ctx, ips)
	if err != nil {
		return fmt.Errorf("call DescribeNetworkInterfaces: %w", err)
	}
	for _, g := range all {
		var kept []backend
		var outside []string
		for _, b := range g.backends {
			if b.Type != backendENI {
				kept = append(kept, b)
				continue
			}
			if b.ServerID = interfaces[b.ServerIP]; b.ServerID != "" {
				kept = append(kept, b)
				continue
			}
			if p.version.since("v2.8.0") && !p.network {
				if blocks == nil {
					if blocks, err = p.blocks(ctx); err != nil {
						return fmt.Errorf("call DescribeVpcCIDRBlock: %w", err)
					}
				}
				if !within(b.ServerIP, blocks) {
					outside = append(outside, b.ServerIP)
					if p.version.since("v2.9.0") && !p.version.since("v2.11.0") {
						kept = append(kept, b) // without its interface: the cloud rejects all of them
					}
					continue
				}
			}
			switch {
			case p.version.first():
				return fmt.Errorf("ensure vgroup: build backend: build backend: batch process eni fail: private ip address not found in openapi %s. %s", b.ServerIP, g.name)
			case p.version.since("v2.13.0"):
				g.bad = append(g.bad, b)
			case p.version.since("v2.12.3"):
				return fmt.Errorf("can not find eniid for ip %s in vpc %s, target: %s, node: %s", b.ServerIP, p.VPC, b.pod(), cmp.Or(b.node, none))
			default:
				return fmt.Errorf("can not find eniid for ip %s in vpc %s", b.ServerIP, p.VPC)
			}
		}
		g.backends = kept
		if len(outside) > 0 && p.version.since("v2.9.0") {
			p.event(note{corev1.EventTypeNormal, reasonSkipBackends, fmt.Sprintf("Not sync pods [%s] whose ip is not in vpc cidrs", strings.Join(outside, ","))})
		}
		if len(g.bad) > 0 {
			text := "Not sync pods [%s] whose eni is invalid"
			if p.network {
				text = "Not sync pods whose eni is invalid: %s"
			}
			p.event(note{corev1.EventTypeWarning, reasonSkipBackends, fmt.Sprintf(text, addresses(g.bad))})
		}
	}
	return nil
}

func (p *pass) interfaces(ctx context.Context, ips []string) (map[string]string, error) {
	found := map[string]string{}
	for part := range slices.Chunk(ips, interfacesPerCall) {
		req := ecs.CreateDescribeNetworkInterfacesRequest()
		req.VpcId, req.Status = p.VPC, "InUse"
		if p.ipv6() {
			req.Ipv6Address = &part
		} else {
			req.PrivateIpAddress = &part
		}
		for page := 1; ; page++ {
			byToken := p.version.since("v2.11.1")
			if byToken {
				req.MaxResults = requests.NewInteger(interfacesPerCall)
			} else {
				req.PageSize, req.PageNumber = requests.NewInteger(interfacesPerCall), requests.NewInteger(page)
			}
			resp := ecs.CreateDescribeNetworkInterfacesResponse()
			if err := p.cloud.raw(ctx, req, resp); err != nil {
				return nil, err
			}
			for _, eni := range resp.NetworkInterfaceSets.NetworkInterfaceSet {
				for _, ip := range eni.PrivateIpSets.PrivateIpSet {
					found[ip.PrivateIpAddress] = eni.NetworkInterfaceId
				}
				for _, ip := range eni.Ipv6Sets.Ipv6Set {
					found[ip.Ipv6Address] = eni.NetworkInterfaceId
				}
			}
			if byToken && resp.NextToken == "" || !byToken && page*interfacesPerCall >= resp.TotalCount {
				break
			}
			req.NextToken = resp.NextToken
		}
	}
	return found, nil
}

// blocks returns the VPC's address blocks of the backends' family. Invalid blocks are skipped.
func (p *pass) blocks(ctx context.Context) ([]netip.Prefix, error) {
	req, resp := vpc.CreateDescribeVpcAttributeRequest(), vpc.CreateDescribeVpcAttributeResponse()
	req.VpcId = p.VPC
	if err := p.cloud.raw(ctx, req, resp); err != nil {
		return nil, err
	}
	texts := append([]string{resp.CidrBlock}, resp.SecondaryCidrBlocks.SecondaryCidrBlock...)
	if p.ipv6() {
		texts = []string{resp.Ipv6CidrBlock}
		for _, b := range resp.Ipv6CidrBlocks.Ipv6CidrBlock {
			texts = append(texts, b.Ipv6CidrBlock)
		}
	}
	blocks := []netip.Prefix{} // not nil, so it is read only once
	for _, s := range texts {
		if block, err := netip.ParsePrefix(s); err == nil {
			blocks = append(blocks, block)
		}
	}
	return blocks, nil
}

func within(ip string, blocks []netip.Prefix) bool {
	a, err := netip.ParseAddr(ip)
	return err == nil && slices.ContainsFunc(blocks, func(b netip.Prefix) bool { return b.Contains(a) })
}

// groupsOf returns the groups of a load balancer, with the backends of those that concern this Service. It ignores errors in reading these.
func (p *pass) groupsOf(ctx context.Context, lb string) (groups, error) {
	all, err := p.listGroups(ctx, lb)
	if err != nil {
		return nil, err
	}
	named := p.annotation("vgroup-port")
	if _, err := groupOf(named, corev1.ServicePort{}); named != "" && err != nil {
		return nil, err // also if the Service is being deleted or the load balancer is the controller's own
	}
	each(ctx, len(all), func(i int) error {
		g := all[i]
		if !p.mine(g.name) && !slices.ContainsFunc(strings.Split(named, ","), func(s string) bool { return strings.HasPrefix(s, g.id+":") }) {
			return nil
		}
		var err error
		g.backends, err = p.backendsOf(ctx, g.id)
		g.foreign = slices.ContainsFunc(g.backends, func(b backend) bool { return b.foreign })
		return err
	})
	return all, nil
}

func (p *pass) backendsOf(ctx context.Context, group string) ([]backend, error) {
	req, resp := slb.CreateDescribeVServerGroupAttributeRequest(), slb.CreateDescribeVServerGroupAttributeResponse()
	req.VServerGroupId = group
	if err := p.cloud.call(ctx, req, resp); err != nil {
		return nil, err
	}
	var all []backend
	for _, b := range resp.BackendServers.BackendServer {
		all = append(all, backend{
			ServerID: b.ServerId, ServerIP: b.ServerIp, Weight: b.Weight, Port: b.Port, Type: b.Type, Description: b.Description,
			foreign: !p.mine(b.Description),
		})
	}
	return all, nil
}

func (p *pass) listGroups(ctx context.Context, lb string) (groups, error) {
	req, resp := slb.CreateDescribeVServerGroupsRequest(), slb.CreateDescribeVServerGroupsResponse()
	req.LoadBalancerId = lb
	if err := p.cloud.call(ctx, req, resp); err != nil {
		return nil, err
	}
	var all groups
	for _, g := range resp.VServerGroups.VServerGroup {
		all = append(all, &group{id: g.VServerGroupId, name: g.VServerGroupName})
	}
	return all, nil
}

type move struct {
	want, have       *group
	add, drop, amend []backend
}

func planGroups(want, have groups) []move {
	var moves []move
	planned := map[string]bool{}
	for _, w := range want {
		key := cmp.Or(w.id, w.name) // two ports can share a group
		i := slices.IndexFunc(have, func(h *group) bool {
			if w.id != "" {
				return h.id == w.id
			}
			return h.name == w.name
		})
		if i >= 0 {
			w.id = have[i].id
		}
		if planned[key] {
			continue
		}
		if i < 0 {
			planned[key] = true
			moves = append(moves, move{want: w})
			continue
		}
		m := move{want: w, have: have[i]}
		m.add, m.drop, m.amend = diff(w, have[i])
		if len(m.add)+len(m.drop)+len(m.amend) > 0 {
			planned[key] = true
			moves = append(moves, m)
		}
	}
	return moves
}

func diff(want, have *group) (add, drop, amend []backend) {
	for _, h := range have.backends {
		if !h.foreign && !slices.ContainsFunc(want.backends, h.same) {
			drop = append(drop, h)
		}
	}
	for _, w := range want.backends {
		if !slices.ContainsFunc(have.backends, w.same) {
			add = append(add, w)
		}
		if slices.ContainsFunc(have.backends, func(h backend) bool {
			if !w.same(h) {
				return want.anyPort && w.server(h)
			}
			return w.Description != h.Description || !want.keepWeights && w.Weight != h.Weight
		}) {
			amend = append(amend, w)
		}
	}
	return add, drop, amend
}

type groupDone struct {
	name, id string
	err      error
}

// applyGroups executes the moves and sends each created group to done, which may be nil and is closed at the end.
func (p *pass) applyGroups(ctx context.Context, lb string, moves []move, done chan<- groupDone) error {
	if done != nil {
		defer close(done)
	}
	return aggregate(each(ctx, len(moves), func(i int) error {
		m := moves[i]
		if m.have != nil {
			return p.changeGroup(ctx, m)
		}
		id, err := p.createGroup(ctx, lb, m.want)
		if done != nil {
			done <- groupDone{m.want.name, id, err}
		}
		return err
	}))
}

// createGroup adds the backends in further calls, so a group with too many backends exists all the same.
func (p *pass) createGroup(ctx context.Context, lb string, g *group) (string, error) {
	req, resp := slb.CreateCreateVServerGroupRequest(), slb.CreateCreateVServerGroupResponse()
	req.LoadBalancerId, req.VServerGroupName = lb, g.name
	if err := p.cloud.call(ctx, req, resp); err != nil {
		return "", err
	}
	g.id = resp.VServerGroupId
	return g.id, p.addBackends(ctx, g.id, g.backends)
}

func (p *pass) changeGroup(ctx context.Context, m move) error {
	drop, amend := m.drop, m.amend
	if p.mustKeep(m) {
		drop, amend = nil, nil
	}
	var errs []error
	err := p.addBackends(ctx, m.have.id, m.add)
	again := hasCode(err, "InstanceBackendServerNumberOverLimit")
	if !again {
		errs = append(errs, err)
	}
	errs = append(errs, p.removeBackends(ctx, m.have.id, drop), p.amendBackends(ctx, m.have.id, amend))
	if again { // removing may have made room
		errs = append(errs, p.addBackends(ctx, m.have.id, m.add))
	}
	return aggregate(errs)
}

// mustKeep reports whether the backends of a group stay unchanged: a Pod that is temporarily not found must keep its place.
func (p *pass) mustKeep(m move) bool {
	if len(m.want.bad) == 0 || len(m.drop)+len(m.amend) == 0 {
		return false
	}
	p.event(note{corev1.EventTypeWarning, reasonSkipBackends, fmt.Sprintf(
		"Skip delete and update backends to vgroup %s due to invalid backends: %s", m.want.name, addresses(m.want.bad))})
	return true
}

func (p *pass) addBackends(ctx context.Context, group string, all []backend) error {
	return p.inBatches(all, func(list string) error {
		req := slb.CreateAddVServerGroupBackendServersRequest()
		req.VServerGroupId, req.BackendServers = group, list
		return p.cloud.call(ctx, req, slb.CreateAddVServerGroupBackendServersResponse())
	})
}

func (p *pass) removeBackends(ctx context.Context, group string, all []backend) error {
	return p.inBatches(all, func(list string) error {
		req := slb.CreateRemoveVServerGroupBackendServersRequest()
		req.VServerGroupId, req.BackendServers = group, list
		return p.cloud.call(ctx, req, slb.CreateRemoveVServerGroupBackendServersResponse())
	})
}

func (p *pass) amendBackends(ctx context.Context, group string, all []backend) error {
	return p.inBatches(all, func(list string) error {
		req := slb.CreateSetVServerGroupAttributeRequest()
		req.VServerGroupId, req.BackendServers = group, list
		return p.cloud.call(ctx, req, slb.CreateSetVServerGroupAttributeResponse())
	})
}

func (p *pass) inBatches(all []backend, do func(list string) error) error {
	size := batch
	if p.version.first() {
		size = firstBatch
	}
	var errs []error
	for part := range slices.Chunk(all, size) {
		list, err := json.Marshal(part)
		if err == nil {
			err = do(string(list))
		}
		errs = append(errs, err)
	}
	return aggregate(errs)
}

// cleanup deletes this Service's groups that no port uses. From a group with backends of others it removes its own.
func (p *pass) cleanup(ctx context.Context, want, remote *balancer) error {
	var gone groups
	for _, g := range remote.groups {
		if slices.ContainsFunc(want.groups, func(w *group) bool { return w.id == g.id }) {
			continue
		}
		if p.mine(g.name) && !g.foreign {
			gone = append(gone, g)
			continue
		}
		var own []backend
		for _, b := range g.backends {
			if !b.foreign {
				own = append(own, b)
			}
		}
		if err := p.removeBackends(ctx, g.id, own); err != nil {
			return err
		}
	}
	if !p.version.since("v2.12.0") {
		return p.deleteGroups(ctx, remote.id, gone)
	}
	return aggregate(each(ctx, len(gone), func(i int) error { return p.deleteGroup(ctx, gone[i].id) }))
}

func (p *pass) deleteGroup(ctx context.Context, id string) error {
	req := slb.CreateDeleteVServerGroupRequest()
	req.VServerGroupId = id
	return p.cloud.call(ctx, req, slb.CreateDeleteVServerGroupResponse())
}
