// Package nodenotresolvable reports nodes whose server the controller can't find.
package nodenotresolvable

import (
	"cmp"
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
	"github.com/lbremedy/lbremedy/shared/say"
)

//go:embed doc.md
var doc string

// Remedy asks: no class may change what a node says about itself.
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
	// The controller needs no server of a node that it excludes.
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
	if len(found.findings) > 0 {
		slices.Sort(found.names)
		return remedy.Plan{
			Finding: say.F("The controller cannot find the servers of all backends: %s.", say.Clauses(found.findings, 5)),
			Cause:   remedy.List(slices.Compact(found.names), 20),
			Ask:     found.ask(c.Service).And("The controller retries within %.0f minutes.", ccm.Retry.Minutes()),
			Seen:    true,
		}, nil
	}
	plan := remedy.Plan{
		Finding: say.F("The controller could not find the server of a node."),
		Wait:    c.PollInterval(),
		Ask:     say.F("Check which node or server the controller's log names, and compare the node's spec.providerID with the ECS console: %s.", c.LogQuery()),
	}
	if len(nodes) == 0 {
		plan.Finding = plan.Finding.And("No node is eligible as a backend now.")
	} else {
		plan.Finding = plan.Finding.And("Every node that is eligible as a backend (%d of %d) now has a server in the VPC %s in %s.",
			len(nodes), len(all), found.vpc, found.region)
	}
	return plan, nil
}

// split reads a provider ID such as cn-hangzhou.i-1, as the controller does.
func split(providerID string) (region, id string, ok bool) {
	region, id, ok = strings.Cut(strings.TrimPrefix(providerID, "alicloud://"), ".")
	return region, id, ok && region != "" && id != "" && !strings.ContainsAny(id, `"\ ,[]`)
}

// faults are what is wrong with nodes and endpoints, by what must be done about it.
type faults struct {
	region, vpc string // of the cluster

	findings  []say.Text // one clause each
	names     []string   // of all nodes and endpoints with a fault
	unset     []string   // nodes without provider ID
	wrong     []string   // nodes whose provider ID leads to no server of this cloud
	gone      []string   // nodes whose server does not exist
	stopped   []string   // nodes whose server does not run
	servers   []string   // IDs of those
	elsewhere []string   // nodes whose server is out of the load balancer's reach
	homeless  []string   // Pods on nodes that do not exist
	nameless  []string   // addresses of endpoints that name no node
}

// add notes a fault of a node or an endpoint.
func (f *faults) add(list *[]string, name string, finding say.Text) {
	*list = append(*list, name)
	f.names = append(f.names, name)
	f.findings = append(f.findings, finding)
}

// judge notes what is wrong with a node.
func (f *faults) judge(n corev1.Node, servers map[string]cloud.Instance) {
	id := n.Spec.ProviderID
	region, instance, ok := split(id)
	server, there := servers[instance]
	switch {
	case id == "":
		f.add(&f.unset, n.Name, say.F("the node %s has no providerID", n.Name))
	case !ok:
		f.add(&f.wrong, n.Name, say.F("the node %s has the providerID %s, which is not region.instance", n.Name, ccm.Quote(id)))
	case region != f.region:
		f.add(&f.elsewhere, n.Name, say.F("the node %s has the providerID %s, but the cluster is in the region %s", n.Name, ccm.Quote(id), f.region))
	case !there:
		f.add(&f.gone, n.Name, say.F("the node %s has the providerID %s, but %s has no such server", n.Name, ccm.Quote(id), f.region))
	case server.VPC == "" && f.vpc != "":
		f.add(&f.elsewhere, n.Name, say.F("the server %s of the node %s is in the classic network, but the cluster is in the VPC %s", instance, n.Name, f.vpc))
	case server.VPC != f.vpc:
		f.add(&f.elsewhere, n.Name, say.F("the server %s of the node %s is in the VPC %s, but the cluster is in the VPC %s", instance, n.Name, server.VPC, f.vpc))
	case server.Status != "Running":
		f.servers = append(f.servers, instance)
		f.add(&f.stopped, n.Name, say.F("the server %s of the node %s is %q", instance, n.Name, server.Status))
	case len(server.IPs) == 0:
		f.add(&f.elsewhere, n.Name, say.F("the server %s of the node %s has no private address", instance, n.Name))
	}
}

// lost notes the endpoints whose node does not exist. They matter only if traffic goes to the nodes
// of the Pods alone.
func (f *faults) lost(c *remedy.Case, ends []discoveryv1.EndpointSlice, nodes []corev1.Node) {
	svc := c.Service
	if svc.Spec.ExternalTrafficPolicy != corev1.ServiceExternalTrafficPolicyLocal {
		return
	}
	known, seen := map[string]bool{}, map[string]bool{}
	for _, n := range nodes {
		known[n.Name] = true
	}
	for _, p := range svc.Spec.Ports {
		for _, e := range ccm.Ready(ends, p, c.Family()) {
			if known[e.Node] || seen[e.IP] {
				continue
			}
			seen[e.IP] = true
			name := cmp.Or(e.Pod, e.IP)
			if e.Node == "" {
				f.add(&f.nameless, name, say.F("the endpoint %s of the Service names no node", name))
			} else {
				f.add(&f.homeless, name, say.F("the endpoint %s of the Service is on the node %s, which does not exist", name, e.Node))
			}
		}
	}
}

// ask returns what to do about each kind of fault.
func (f *faults) ask(svc *corev1.Service) (ask say.Text) {
	named := func(list []string) say.Text { return say.List(list, 5) }
	words := func(list []string) string { return strings.Join(list[:min(len(list), 5)], " ") } // for a command
	if len(f.unset) > 0 {
		ask = ask.And(`Set the providerID of the node %[1]s: kubectl patch node %[1]s -p '{"spec":{"providerID":"REGION.INSTANCE"}}'.`, f.unset[0])
	}
	if list := f.wrong; len(list) > 0 {
		ask = ask.And("A providerID cannot be changed. Delete each node that belongs to this region and VPC (%s): kubectl delete node %s.", named(list), words(list)).
			And("Then let its kubelet register it again with --provider-id=REGION.INSTANCE.")
	}
	if list := f.gone; len(list) > 0 {
		ask = ask.And("Delete each node whose server was released (%s): kubectl delete node %s.", named(list), words(list))
	}
	if list := f.stopped; len(list) > 0 {
		ask = ask.And("Start the server of %s, for example: aliyun ecs StartInstance --RegionId %s --InstanceId %s.", named(list), f.region, f.servers[0]).
			And("If it will not run again, delete the node.")
	}
	if list := slices.Concat(f.wrong, f.elsewhere); len(list) > 0 {
		ask = ask.And("Exclude each node that belongs elsewhere (%s) from all load balancers: kubectl label node %s service.alibabacloud.com/exclude-node=true.",
			named(list), words(list)).
			And("Its Pods are then reached through other nodes, or not at all if externalTrafficPolicy is Local.")
	}
	if list := f.homeless; len(list) > 0 {
		ask = ask.And("Bring back the node of %s, or recreate the Pods on another node: kubectl -n %s delete pod %s.", named(list), svc.Namespace, words(list))
	}
	if list := f.nameless; len(list) > 0 {
		ask = ask.And("Add the nodeName of %s to its EndpointSlice. To find the EndpointSlice: kubectl -n %s get endpointslices -l kubernetes.io/service-name=%s.",
			named(list), svc.Namespace, svc.Name)
	}
	return ask
}
