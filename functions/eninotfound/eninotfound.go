// Package eninotfound remedies Services whose backend Pods have no network interface.
package eninotfound

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
	StillFails:  stillFails,
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
		return unsure(c.Service, cluster.Network, s.says(cluster.VPC)), nil
	case c.Service.Annotations[ccm.BackendType] != "eni":
		return byDefault(c.Service, s.says(cluster.VPC)), nil
	}
	return flannel(c.Service, s.says(cluster.VPC)), nil
}

// flannel removes the annotation: Flannel gives Pods no network interface of the VPC.
func flannel(svc *corev1.Service, pods say.Text) remedy.Plan {
	plan := remedy.Plan{
		Finding: say.F("The annotation %s is eni, which makes Pods the backends.", ccm.BackendType).
			And("But the cluster's network plug-in is Flannel, which gives Pods no network interface.").Then(pods),
	}
	if slices.ContainsFunc(svc.Spec.Ports, func(p corev1.ServicePort) bool { return p.NodePort == 0 }) {
		patch := fmt.Sprintf(`{"metadata":{"annotations":{"%s":null}},"spec":{"allocateLoadBalancerNodePorts":true}}`, ccm.BackendType)
		plan.Ask = say.F("Give the Service node ports and remove the annotation: %s.",
			fmt.Sprintf("kubectl -n %s patch service %s --type=merge -p '%s'", svc.Namespace, svc.Name, patch)).
			And("Without node ports, nodes cannot be its backends.")
		return plan
	}
	plan.Note = say.F("Nodes are then the backends and reach the Pods.")
	plan.Steps = []remedy.Step{step.RemoveAnnotation{Names: []string{ccm.BackendType}, Was: map[string]string{ccm.BackendType: "eni"}}}
	return plan
}

// useNodes returns the command that makes nodes the backends of the Service.
func useNodes(svc *corev1.Service) string { return ccm.SetCommand(svc, ccm.BackendType, "ecs") }

// byDefault is the plan if the controller's own configuration makes Pods the backends.
func byDefault(svc *corev1.Service, pods say.Text) remedy.Plan {
	return remedy.Plan{
		Finding: say.F("The controller makes Pods the backends although the Service does not ask for that.").
			And("But the cluster's network plug-in is Flannel, which gives Pods no network interface.").Then(pods),
		Ask: say.F("Set serviceBackendType in the controller's cloud-config to ecs, and remove SERVICE_FORCE_BACKEND_ENI from its environment.").
			And("That fixes all Services. To fix only this one: %s.", useNodes(svc)),
	}
}

// unsure is the plan if nothing tells which network gives the Pods their addresses.
func unsure(svc *corev1.Service, plugin string, pods say.Text) remedy.Plan {
	finding := say.F("The cluster does not report its network plug-in.")
	if plugin != "" {
		finding = say.F("The cluster's network plug-in is %s.", plugin)
	}
	return remedy.Plan{
		Finding: finding.Then(pods),
		Ask: say.F("If the plug-in gives Pods no network interface of the VPC, make nodes the backends: %s.", useNodes(svc)).
			And("The Service then needs node ports. If the plug-in does, find out why these Pods have none."),
	}
}

// terway is the plan if each Pod should have an address of the VPC: its interface can be late.
func terway(c *remedy.Case, cluster cloud.Cluster, s sorted) remedy.Plan {
	plan := remedy.Plan{Finding: say.F("The cluster's network plug-in is %s.", cluster.Network).Then(s.says(cluster.VPC)), Cause: s.nodes()}
	late := slices.Concat(s.missing, s.pending)
	switch {
	case len(s.outside) > 0:
		plan.Ask = say.F("Find out where these addresses come from: Terway gives Pods addresses of the VPC.").
			Then(s.outside.recreate(c.Service)).
			And("Or make nodes the backends: %s. The Service then needs node ports.", useNodes(c.Service))
	case len(late) > 0:
		plan.Wait = c.PollInterval()
		plan.Ask = say.F("Check the log of the Terway Pod on the node. To find that Pod: %s.", "kubectl -n kube-system get pod -o wide").
			Then(late.recreate(c.Service))
	default:
		plan.Wait = c.PollInterval()
		plan.Ask = say.F("Check the controller's log for why it does not add these Pods to the load balancer: %s.", c.LogQuery())
	}
	return plan
}

// behind returns the ready Pods of all ports of the Service.
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

// stillFails reports whether the load balancer lacks a ready Pod that should be a backend. If nodes
// are the backends, it reports whether a port has none.
func stillFails(ctx context.Context, c *remedy.Case) (remedy.Verdict, error) {
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
