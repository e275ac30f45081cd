// Package eninotfound remedies Services whose backend Pods have no network interface.
package eninotfound

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/step"
)

//go:embed doc.md
var doc string

// Remedy makes nodes the backends if the network gives Pods no interface.
var Remedy = &remedy.Remedy{
	Class: "eni-not-found",
	Doc:   doc,
	Texts: []string{
		"can not find eniid for ip",
		"whose eni is invalid",
		"Not sync pods whose eni is invalid",
		"whose ip is not in vpc cidrs",
		"Skip delete and update backends to vgroup * due to invalid backends",
	},
	Reads: slices.Concat(
		[]grant.Grant{grant.DescribeClusterDetail, grant.ListEndpointSlices, grant.DescribeVpcAttribute, grant.DescribeNetworkInterfaces},
		ccm.BackendReads, []grant.Grant{grant.ListSLBTags}, ccm.NetworkReads),
	Steps:       []remedy.Step{step.RemoveAnnotation{}},
	Annotations: []string{ccm.BackendType},
	Sees:        true,
	Diagnose:    diagnose,
	StillFails:  holds,
}

func diagnose(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
	cluster, err := c.Cloud.CS.Cluster(ctx)
	if err != nil {
		return remedy.Plan{}, fmt.Errorf("describe the cluster: %w", err)
	}
	pods, err := behind(ctx, c)
	if err != nil {
		return remedy.Plan{}, err
	}
	blocks, err := c.Cloud.VPC.Blocks(ctx, cluster.VPC)
	if err != nil {
		return remedy.Plan{}, fmt.Errorf("describe the VPC %s: %w", cluster.VPC, err)
	}
	var interfaces []cloud.Interface
	if ips := addresses(pods); len(ips) > 0 {
		interfaces, err = c.Cloud.ECS.Interfaces(ctx, cluster.VPC, ips)
		if err != nil {
			return remedy.Plan{}, fmt.Errorf("look up the network interfaces of the Pods: %w", err)
		}
	}
	s := sort(pods, blocks, interfaces)
	switch {
	case strings.HasPrefix(cluster.Network, "terway"):
		return terway(c, cluster, s), nil
	case cluster.Network != "flannel" || len(s.found) > 0:
		return unsure(c, cluster, s), nil
	case c.Service.Annotations[ccm.BackendType] != "eni":
		return byDefault(c, cluster, s), nil
	}
	return flannel(ctx, c, cluster, s)
}

// flannel plans to remove the annotation: Flannel gives Pods no interface of the VPC.
func flannel(ctx context.Context, c *remedy.Case, cluster cloud.Cluster, s sorted) (remedy.Plan, error) {
	plan := remedy.Plan{
		Finding: fmt.Sprintf("The annotation %s says eni, so that Pods are to be the backends, and the cluster's network plug-in is Flannel, which gives Pods no network interface. %s", ccm.BackendType, s.says(cluster.VPC)),
		Note:    "Nodes are the backends then, and reach the Pods.",
	}
	for _, p := range c.Service.Spec.Ports {
		if p.NodePort == 0 {
			plan.Note = ""
			plan.Ask = fmt.Sprintf("Give the Service node ports and take the annotation away: kubectl -n %s patch service %s --type=merge -p '{\"metadata\":{\"annotations\":{\"%s\":null}},\"spec\":{\"allocateLoadBalancerNodePorts\":true}}'. Without node ports nodes can't be its backends.",
				c.Service.Namespace, c.Service.Name, ccm.BackendType)
			return plan, nil
		}
	}
	plan.Steps = []remedy.Step{step.RemoveAnnotation{Names: []string{ccm.BackendType}, Was: map[string]string{ccm.BackendType: "eni"}}}
	return plan, nil
}

// byDefault answers if the controller's own configuration makes Pods the backends.
func byDefault(c *remedy.Case, cluster cloud.Cluster, s sorted) remedy.Plan {
	return remedy.Plan{
		Finding: fmt.Sprintf("The controller takes Pods for the backends though the Service does not ask for it, and the cluster's network plug-in is Flannel, which gives Pods no network interface. %s", s.says(cluster.VPC)),
		Ask: fmt.Sprintf("Set serviceBackendType in the controller's cloud-config to ecs, and take SERVICE_FORCE_BACKEND_ENI out of its environment; that helps all Services. For this one alone: kubectl -n %s annotate service %s %s=ecs --overwrite.",
			c.Service.Namespace, c.Service.Name, ccm.BackendType),
	}
}

// unsure answers if the network plug-in can't be determined.
func unsure(c *remedy.Case, cluster cloud.Cluster, s sorted) remedy.Plan {
	plugin := "The cluster does not say which network plug-in it has."
	if cluster.Network != "" {
		plugin = fmt.Sprintf("The cluster's network plug-in is %s.", cluster.Network)
	}
	return remedy.Plan{
		Finding: plugin + " " + s.says(cluster.VPC),
		Ask: fmt.Sprintf("If the plug-in gives Pods no network interface of the VPC, let nodes be the backends: kubectl -n %s annotate service %s %s=ecs --overwrite; the Service needs node ports then. If it does, look why the Pods named have none.",
			c.Service.Namespace, c.Service.Name, ccm.BackendType),
	}
}

// terway answers if each Pod has an address of the VPC, and its interface can appear late.
func terway(c *remedy.Case, cluster cloud.Cluster, s sorted) remedy.Plan {
	plan := remedy.Plan{Finding: fmt.Sprintf("The cluster's network plug-in is %s. %s", cluster.Network, s.says(cluster.VPC)), Cause: s.nodes()}
	switch {
	case len(s.outside) > 0:
		plan.Ask = fmt.Sprintf("Look where these addresses come from: Terway gives Pods addresses of the VPC. %s Or let nodes be the backends: kubectl -n %s annotate service %s %s=ecs --overwrite; the Service needs node ports then.",
			s.outside.anew(c.Service), c.Service.Namespace, c.Service.Name, ccm.BackendType)
	case len(s.missing) > 0 || len(s.pending) > 0:
		late := slices.Concat(s.missing, s.pending)
		plan.Wait = c.PollInterval()
		plan.Ask = "Look into the log of Terway on the node: kubectl -n kube-system get pod -o wide finds its Pod there. " + late.anew(c.Service)
	default:
		plan.Wait = c.PollInterval()
		plan.Ask = "Look into the controller's log for why it does not add these Pods to the load balancer: " + c.LogQuery() + "."
	}
	return plan
}

// behind returns the ready Pods behind any port of the Service.
func behind(ctx context.Context, c *remedy.Case) (endpoints, error) {
	all, err := c.Kube.EndpointSlices(ctx, c.Service.Namespace, c.Service.Name)
	if err != nil {
		return nil, err
	}
	var pods endpoints
	for _, p := range c.Service.Spec.Ports {
		pods = append(pods, ccm.Ready(all, p, c.Family())...)
	}
	return pods.unique(), nil
}

// holds reports whether a ready Pod that should be a backend is missing from the
// load balancer; if nodes are the backends, whether a port has none.
func holds(ctx context.Context, c *remedy.Case) (remedy.Verdict, error) {
	mode, err := c.BackendMode(ctx)
	if err != nil {
		return remedy.Unknown, err
	}
	if mode != ccm.PodMode && c.Written() {
		return remedy.No, nil
	}
	all, err := c.Kube.EndpointSlices(ctx, c.Service.Namespace, c.Service.Name)
	if err != nil {
		return remedy.Unknown, err
	}
	groups, _, err := c.Groups(ctx, mode)
	if err != nil {
		return remedy.Unknown, err
	}
	for _, g := range groups {
		if mode != ccm.PodMode {
			if g.Servers == 0 {
				return remedy.Yes, nil
			}
			continue
		}
		want := ccm.Ready(all, g.Port, c.Family())
		if len(want) == 0 {
			continue
		}
		have, err := c.Backends(ctx, g)
		if err != nil {
			return remedy.Unknown, err
		}
		for _, e := range want {
			if !slices.ContainsFunc(have, func(b cloud.Backend) bool { return b.IP == e.IP }) {
				return remedy.Yes, nil
			}
		}
	}
	return remedy.No, nil
}
