// Package nodenotresolvable reports nodes whose server the controller can't find.
package nodenotresolvable

import (
	"context"
	_ "embed"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

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
		if _, id, ok := ccm.SplitProviderID(n.Spec.ProviderID); ok {
			ids = append(ids, id)
		}
	}
	var servers []cloud.Instance
	if len(ids) > 0 {
		servers, err = c.Cloud.ECS.Instances(ctx, ids)
		if err != nil {
			return remedy.Plan{}, fmt.Errorf("describe the servers of the nodes: %w", err)
		}
	}
	found := faults{region: c.Cloud.Region(), vpc: cluster.VPC}
	for _, n := range nodes {
		found.judge(n, servers)
	}
	if c.Service.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal {
		found.lost(ccm.ReadyAll(c.Service, ends, c.Family()), all)
	}
	if len(found.findings) > 0 {
		slices.Sort(found.names)
		return remedy.Plan{
			Finding: say.F("The controller cannot find the servers of all backends: %s.", say.Clauses(found.findings, 5)),
			Cause:   remedy.List(slices.Compact(found.names), 20),
			Ask:     found.ask(c.Service).Then(ccm.Retries()),
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

// A kind is one of faults, by what must be done about it.
type kind int

const (
	unset     kind = iota // nodes without provider ID
	wrong                 // nodes whose provider ID leads to no server of this cloud
	gone                  // nodes whose server does not exist
	stopped               // nodes whose server does not run
	elsewhere             // nodes whose server is out of the load balancer's reach
	homeless              // Pods on nodes that do not exist
	misnamed              // endpoints without Pod that name a node that does not exist
	nameless              // endpoints that name no node
	kinds
)

// faults are what is wrong with nodes and endpoints.
type faults struct {
	region, vpc string // of the cluster

	findings []say.Text      // one clause each
	names    []string        // of all nodes and endpoints with a fault
	by       [kinds][]string // the same by kind
	stopped  []string        // IDs of servers
}

// add notes a fault of a node or an endpoint.
func (f *faults) add(k kind, name string, finding say.Text) {
	f.by[k] = append(f.by[k], name)
	f.names = append(f.names, name)
	f.findings = append(f.findings, finding)
}

// judge notes what is wrong with a node.
func (f *faults) judge(n corev1.Node, servers []cloud.Instance) {
	id := n.Spec.ProviderID
	region, instance, ok := ccm.SplitProviderID(id)
	var server cloud.Instance
	at := slices.IndexFunc(servers, func(s cloud.Instance) bool { return s.ID == instance })
	if at >= 0 {
		server = servers[at]
	}
	switch {
	case id == "":
		f.add(unset, n.Name, say.F("the node %s has no providerID", n.Name))
	case !ok:
		f.add(wrong, n.Name, say.F("the node %s has the providerID %s, which is not region.instance", n.Name, ccm.Quote(id)))
	case region != f.region:
		f.add(elsewhere, n.Name, say.F("the node %s has the providerID %s, but the cluster is in the region %s", n.Name, ccm.Quote(id), f.region))
	case at < 0:
		f.add(gone, n.Name, say.F("the node %s has the providerID %s, but %s has no such server", n.Name, ccm.Quote(id), f.region))
	case server.VPC == "" && f.vpc != "":
		f.add(elsewhere, n.Name, say.F("the server %s of the node %s is in the classic network, but the cluster is in the VPC %s", instance, n.Name, f.vpc))
	case server.VPC != f.vpc:
		f.add(elsewhere, n.Name, say.F("the server %s of the node %s is in the VPC %s, but the cluster is in the VPC %s", instance, n.Name, server.VPC, f.vpc))
	case server.Status != "Running":
		f.stopped = append(f.stopped, instance)
		f.add(stopped, n.Name, say.F("the server %s of the node %s is %q", instance, n.Name, server.Status))
	case len(server.IPs) == 0:
		f.add(elsewhere, n.Name, say.F("the server %s of the node %s has no private address", instance, n.Name))
	}
}

// lost notes the endpoints whose node does not exist. They matter only if traffic goes to the nodes
// of the Pods alone.
func (f *faults) lost(pods []ccm.Endpoint, nodes []corev1.Node) {
	for _, e := range pods {
		k := homeless
		switch {
		case slices.ContainsFunc(nodes, func(n corev1.Node) bool { return n.Name == e.Node }):
			continue
		case e.Node == "":
			f.add(nameless, e.Name(), say.F("the endpoint %s of the Service names no node", e.Name()))
			continue
		case e.Pod == "":
			k = misnamed
		}
		f.add(k, e.Name(), say.F("the endpoint %s of the Service is on the node %s, which does not exist", e.Name(), e.Node))
	}
}
