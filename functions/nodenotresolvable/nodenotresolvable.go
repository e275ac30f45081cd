// Package nodenotresolvable reports nodes whose server the controller cannot find.
package nodenotresolvable

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

//go:embed doc.md
var doc string

// Remedy asks: no class may change a Node.
var Remedy = &remedy.Remedy{
	Class: "node-not-resolvable",
	Doc:   doc,
	Codes: []string{"ObtainIpFail", "InvalidServerId.NotFound"},
	Texts: []string{
		"unable to split instanceid and region from providerID",
		"unable to split instanceid and region from nodename", // v1.9.3
		"parse providerid: * expected: ${regionid}.${nodeid}",
		"can not find correspond node", "NodeName is nil for ip", "do not contains addresses", "can not find InternalIP in node addresses",
		"some of the specified backend servers do not exist or are not running",
		"specified ServerId does not exist", "specified server is not found",
	},
	Reads: slices.Concat([]grant.Grant{grant.ListNodes, grant.ListEndpointSlices, grant.DescribeClusterDetail, grant.DescribeInstances},
		ccm.ControllerReads),
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
	// The controller needs no server for a node that it excludes. Its release matters only for hybrid nodes.
	var runs ccm.Version
	nodes := eligible(runs, all, c.Service)
	if slices.ContainsFunc(nodes, func(n corev1.Node) bool { return ccm.IsHybrid(&n) }) {
		ctl, err := c.Controller(ctx)
		if err != nil {
			return remedy.Plan{}, err
		}
		runs = ctl.Version
		nodes = eligible(runs, all, c.Service)
	}
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
	found := ccm.NodeFaults{Region: c.Cloud.Region(), VPC: cluster.VPC, ByAddress: ccm.GroupsOfAddresses(c.Service)}
	for _, n := range nodes {
		found.Add(n, servers)
	}
	pods := ccm.ReadyAll(c.Service, ends, c.Family())
	if c.Service.Spec.ExternalTrafficPolicy != corev1.ServiceExternalTrafficPolicyLocal {
		// If all nodes serve, the controller needs only their names, and with Pods as backends not even those: only its message shows the cause.
		unnamed := strings.Contains(strings.ToLower(c.Event.Message), "nodename is nil")
		pods = slices.DeleteFunc(pods, func(e ccm.Endpoint) bool { return !unnamed || e.Node != "" })
	}
	found.Lost(pods, all)
	if len(found.Findings) > 0 {
		slices.Sort(found.Names)
		return remedy.Plan{
			Finding: say.F("The controller cannot find the servers of all backends: %s.", say.Clauses(found.Findings, 5)).Then(found.Release(runs)),
			Cause:   remedy.List(slices.Compact(found.Names), 20),
			Ask:     found.Ask(c.Service).Then(ccm.Retries()),
			Proven:  true,
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
			len(nodes), len(all), found.VPC, found.Region)
	}
	return plan, nil
}

func eligible(v ccm.Version, nodes []corev1.Node, svc *corev1.Service) []corev1.Node {
	return slices.DeleteFunc(slices.Clone(nodes), func(n corev1.Node) bool {
		why, _ := ccm.ExclusionBy(v, &n, svc)
		return why != ccm.Serves
	})
}
