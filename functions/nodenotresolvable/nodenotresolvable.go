// Package nodenotresolvable reports nodes whose server the controller can't find.
package nodenotresolvable

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/remedy"
)

//go:embed doc.md
var doc string

// Remedy asks: a class must not change the identity of a node.
var Remedy = &remedy.Remedy{
	Class: "node-not-resolvable",
	Doc:   doc,
	Codes: []string{"ObtainIpFail", "InvalidServerId.NotFound"},
	Texts: []string{
		"unable to split instanceid and region from providerID",
		"parse providerid: * expected: ${regionid}.${nodeid}",
		"can not find correspond node",
		"some of the specified backend servers do not exist or are not running",
		"specified ServerId does not exist", "specified server is not found",
	},
	Reads:    []grant.Grant{grant.ListNodes, grant.ListEndpointSlices, grant.DescribeClusterDetail, grant.DescribeInstances},
	Scope:    remedy.Cluster,
	Diagnose: diagnose,
}

func diagnose(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
	cluster, err := c.Cloud.CS.Cluster(ctx)
	if err != nil {
		return remedy.Plan{}, fmt.Errorf("describe the cluster: %w", err)
	}
	all, err := c.Kube.Nodes(ctx)
	if err != nil {
		return remedy.Plan{}, err
	}
	ends, err := c.Kube.EndpointSlices(ctx, c.Service.Namespace, c.Service.Name)
	if err != nil {
		return remedy.Plan{}, err
	}
	// The controller does not need the servers of excluded nodes.
	nodes := slices.DeleteFunc(slices.Clone(all), func(n corev1.Node) bool {
		why, _ := ccm.ExclusionOf(&n, c.Service)
		return why != ccm.Serves
	})
	var ids []string
	for _, n := range nodes {
		if _, id, ok := split(n.Spec.ProviderID); ok {
			ids = append(ids, id)
		}
	}
	servers := map[string]cloud.Instance{}
	if len(ids) > 0 {
		list, err := c.Cloud.ECS.Instances(ctx, ids)
		if err != nil {
			return remedy.Plan{}, fmt.Errorf("describe the servers of the nodes: %w", err)
		}
		for _, s := range list {
			servers[s.ID] = s
		}
	}
	found := faults{region: c.Cloud.Region(), vpc: cluster.VPC}
	for _, n := range nodes {
		found.judge(n, servers)
	}
	found.lost(c, ends, all)
	if len(found.findings) == 0 {
		now := "There is no node now that may serve."
		if len(nodes) > 0 {
			now = fmt.Sprintf("Every node that may serve now (%d of %d) leads to a server of the VPC %s in %s.", len(nodes), len(all), found.vpc, found.region)
		}
		return remedy.Plan{
			Finding: "The controller could not tell the server of a node. " + now,
			Wait:    c.PollInterval(),
			Ask:     "Look which node or server the controller names in its log, and compare the node's spec.providerID with the ECS console: " + c.LogQuery() + ".",
		}, nil
	}
	slices.Sort(found.names)
	return remedy.Plan{
		Finding: "The controller can't tell the servers of all backends: " + ccm.Clauses(found.findings, 5) + ".",
		Cause:   remedy.List(slices.Compact(found.names), 20),
		Ask:     strings.Join(found.asks(c.Service), " "),
		Seen:    true,
	}, nil
}

// split reads a provider ID such as cn-hangzhou.i-1, as the controller does.
func split(providerID string) (region, id string, ok bool) {
	region, id, ok = strings.Cut(strings.TrimPrefix(providerID, "alicloud://"), ".")
	return region, id, ok && region != "" && id != "" && !strings.ContainsAny(id, `"\ ,[]`)
}

// faults are what is wrong with nodes, by what must be done about them.
type faults struct {
	region, vpc string // of the cluster

	findings  []string // one clause each
	names     []string // of nodes
	unset     []string // have no provider ID
	wrong     []string // have one that leads to no server of this cloud
	gone      []string // their server does not exist
	stopped   []string // their server does not run
	servers   []string // IDs of those
	elsewhere []string // their server is where the load balancer does not reach
	homeless  []string // Pods on nodes that do not exist
	nameless  []string // addresses of endpoints that name no node
}

func (f *faults) add(list *[]string, node, format string, args ...any) {
	*list = append(*list, node)
	f.names = append(f.names, node)
	f.findings = append(f.findings, fmt.Sprintf(format, args...))
}

func (f *faults) judge(n corev1.Node, servers map[string]cloud.Instance) {
	id := n.Spec.ProviderID
	region, instance, ok := split(id)
	server, there := servers[instance]
	switch {
	case id == "":
		f.add(&f.unset, n.Name, "the node %s has no providerID", n.Name)
	case !ok:
		f.add(&f.wrong, n.Name, "the providerID of the node %s is %s, which is not region.instance", n.Name, ccm.Quote(id))
	case region != f.region:
		f.add(&f.elsewhere, n.Name, "the providerID of the node %s is %s, and the cluster is in the region %s", n.Name, ccm.Quote(id), f.region)
	case !there:
		f.add(&f.gone, n.Name, "the providerID of the node %s is %s, and %s has no such server", n.Name, ccm.Quote(id), f.region)
	case server.VPC != f.vpc:
		f.add(&f.elsewhere, n.Name, "the server %s of the node %s is in %s, and the cluster is in the VPC %s", instance, n.Name, network(server), f.vpc)
	case server.Status != "Running":
		f.servers = append(f.servers, instance)
		f.add(&f.stopped, n.Name, "the server %s of the node %s is %q", instance, n.Name, server.Status)
	case len(server.IPs) == 0:
		f.add(&f.elsewhere, n.Name, "the server %s of the node %s has no private address", instance, n.Name)
	}
}

func network(s cloud.Instance) string {
	if s.VPC == "" {
		return "the classic network"
	}
	return "the VPC " + s.VPC
}

// lost finds the endpoints whose node does not exist.
func (f *faults) lost(c *remedy.Case, ends []discoveryv1.EndpointSlice, nodes []corev1.Node) {
	svc := c.Service
	if svc.Spec.ExternalTrafficPolicy != corev1.ServiceExternalTrafficPolicyLocal {
		return
	}
	known := map[string]bool{}
	for _, n := range nodes {
		known[n.Name] = true
	}
	seen := map[string]bool{}
	for _, p := range svc.Spec.Ports {
		for _, e := range ccm.Ready(ends, p, c.Family()) {
			if known[e.Node] || seen[e.IP] {
				continue
			}
			seen[e.IP] = true
			name := e.Pod
			if name == "" {
				name = e.IP
			}
			if e.Node == "" {
				f.add(&f.nameless, name, "the endpoint %s of the Service names no node", name)
				continue
			}
			f.add(&f.homeless, name, "the endpoint %s of the Service is on the node %s, which does not exist", name, e.Node)
		}
	}
}

// asks says what to do, one sentence for each kind of fault.
func (f *faults) asks(svc *corev1.Service) []string {
	var out []string
	say := func(list []string, format string) {
		if len(list) > 0 {
			out = append(out, fmt.Sprintf(format, remedy.List(list, 5), strings.Join(list[:min(len(list), 5)], " ")))
		}
	}
	say(f.unset[:min(len(f.unset), 1)], "Say which server %[1]s is: kubectl patch node %[2]s -p '{\"spec\":{\"providerID\":\"REGION.INSTANCE\"}}'.")
	say(f.wrong, "A providerID can't be changed: where %[1]s belongs to this region and VPC, delete it, kubectl delete node %[2]s, and let its kubelet register it again with --provider-id=REGION.INSTANCE.")
	say(f.gone, "Where the server of %[1]s was released, delete the node: kubectl delete node %[2]s.")
	if len(f.servers) > 0 {
		out = append(out, fmt.Sprintf("Start the server of %s, such as: aliyun ecs StartInstance --RegionId %s --InstanceId %s; or delete the node if it is not to come back.",
			remedy.List(f.stopped, 5), f.region, f.servers[0]))
	}
	say(slices.Concat(f.wrong, f.elsewhere), "Where %[1]s belongs elsewhere, keep it out of all load balancers: kubectl label node %[2]s service.alibabacloud.com/exclude-node=true; "+
		"its Pods are then reached through other nodes, and not at all where externalTrafficPolicy is Local.")
	say(f.homeless, "Bring the node of %[1]s back, or have the Pods made anew elsewhere: kubectl -n "+svc.Namespace+" delete pod %[2]s.")
	say(f.nameless, "Write the nodeName of %[1]s into the EndpointSlice that holds it: kubectl -n "+svc.Namespace+" get endpointslices -l kubernetes.io/service-name="+svc.Name+" finds %[2]s.")
	return append(out, "The controller tries again by itself within 5 minutes.")
}
