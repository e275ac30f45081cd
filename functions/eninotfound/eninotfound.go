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

// Remedy makes nodes the backends if the network plugin gives Pods no interface.
var Remedy = &remedy.Remedy{
	Class: "eni-not-found",
	Doc:   doc,
	Texts: []string{
		"can not find eniid for ip",
		"whose eni is invalid",
		"Not sync pods whose eni is invalid",
		"whose ip is not in vpc cidrs",
		"Skip delete and update backends to vgroup * due to invalid backends",
		"Skip delete and update servers to servergroup * due to invalid servers",
		"private ip address not found in openapi", // v1.9.3
	},
	Reads: slices.Concat(
		[]grant.Grant{grant.DescribeClusterDetail, grant.ListEndpointSlices, grant.ListPods, grant.ListNodes}, ccm.AddressReads, ccm.BackendReads, ccm.NetworkReads),
	Steps:        []remedy.Step{step.RemoveAnnotation{}},
	Annotations:  []string{ccm.BackendType},
	IgnoresEvent: true,
	Backends:     true,
	Diagnose:     diagnose,
	StillFails:   stillFails,
}

func diagnose(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
	cluster, err := c.Cloud.CS.Cluster(ctx)
	if err != nil {
		return remedy.Plan{}, fmt.Errorf("describe the cluster: %w", err)
	}
	ends, err := c.Kube.EndpointSlices(ctx, c.Service.Namespace, c.Service.Name)
	if err != nil {
		return remedy.Plan{}, err
	}
	ready := ccm.ReadyAll(c.Service, ends, c.Family())
	if ends, err = c.Gated(ctx, ends); err != nil {
		return remedy.Plan{}, err
	}
	pods := ccm.ReadyAll(c.Service, ends, c.Family())
	var virtual bool
	var notes say.Text
	if ccm.ModeOf(c.Service, cluster.Network) != ccm.PodMode {
		on, err := c.OnVirtual(ctx, pods)
		if err != nil {
			return remedy.Plan{}, err
		}
		if virtual = onlyOf(c, pods, on); virtual {
			pods = on
		}
	} else {
		can, err := c.Reachable(ctx, pods)
		if err != nil {
			return remedy.Plan{}, err
		}
		if others := slices.DeleteFunc(pods, func(e ccm.Endpoint) bool { return slices.Contains(can, e) }); len(others) > 0 {
			notes = say.F("Pods on hybrid nodes are outside of the VPC and cannot be backends: %s.", names(others))
		}
		pods = can
	}
	waiting := slices.DeleteFunc(slices.Clone(pods), func(e ccm.Endpoint) bool { return slices.Contains(ready, e) })
	slices.SortFunc(pods, func(a, b ccm.Endpoint) int { return strings.Compare(a.IP, b.IP) })
	known, err := c.Addresses(ctx, cluster.VPC, pods)
	if err != nil {
		return remedy.Plan{}, err
	}
	if len(waiting) > 0 {
		notes = notes.And("Ready except for the controller's readiness gate: %s.", names(waiting))
	}
	return decide(c, cluster, known, virtual, notes), nil
}

// onlyOf reports whether the Pods that are not ready backends can only be those on virtual nodes: the message names no other.
func onlyOf(c *remedy.Case, pods, on []ccm.Endpoint) bool {
	words := strings.FieldsFunc(c.Event.Message, func(r rune) bool { return !strings.ContainsRune("0123456789abcdefABCDEF.:", r) })
	return len(on) > 0 && !slices.ContainsFunc(pods, func(e ccm.Endpoint) bool { return slices.Contains(words, e.IP) && !slices.Contains(on, e) })
}

// decide returns the plan. virtual: nodes are the backends, and the Pods may be only those on virtual nodes. notes are about single Pods.
func decide(c *remedy.Case, cluster cloud.Cluster, known ccm.Addresses, virtual bool, notes say.Text) remedy.Plan {
	pods := describe(known, cluster.VPC).Then(notes)
	switch {
	case virtual:
		return onVirtual(c, known, pods)
	case strings.HasPrefix(cluster.Network, "terway"):
		return terway(c, cluster.Network, known, pods)
	case cluster.Network != "flannel" || len(known.Found) > 0 || ccm.GroupsOfAddresses(c.Service):
		return unsure(c.Service, cluster.Network, pods)
	case c.Service.Annotations[ccm.BackendType] != "eni":
		return byDefault(c.Service, pods)
	}
	return flannel(c.Service, pods)
}

// flannel removes the annotation: Flannel gives Pods no network interface of the VPC.
func flannel(svc *corev1.Service, pods say.Text) remedy.Plan {
	plan := remedy.Plan{
		Finding: say.F("The annotation %s is eni, which makes Pods the backends.", ccm.BackendType).
			And("But the cluster's network plug-in is Flannel, which gives Pods no network interface.").Then(pods),
	}
	if len(ccm.Unallocated(svc)) > 0 {
		patch := fmt.Sprintf(`{"metadata":{"annotations":{"%s":null}},"spec":{"allocateLoadBalancerNodePorts":true}}`, ccm.BackendType)
		plan.Ask = say.F("Give the Service node ports and remove the annotation: %s.", ccm.PatchCommand(svc, patch)).
			And("Without node ports, nodes cannot be its backends.")
		return plan
	}
	plan.Note = say.F("Nodes are then the backends and reach the Pods.")
	plan.Steps = []remedy.Step{step.RemoveAnnotation{Names: []string{ccm.BackendType}, Was: map[string]string{ccm.BackendType: "eni"}}}
	return plan
}

func useNodes(svc *corev1.Service) string { return ccm.SetCommand(svc, ccm.BackendType, "ecs") }

func byDefault(svc *corev1.Service, pods say.Text) remedy.Plan {
	return remedy.Plan{
		Finding: say.F("The controller makes Pods the backends although the Service does not ask for that.").
			And("But the cluster's network plug-in is Flannel, which gives Pods no network interface.").Then(pods),
		Ask: say.F("Set serviceBackendType in the controller's cloud-config to ecs, and remove SERVICE_FORCE_BACKEND_ENI from its environment.").
			And("That fixes all Services. To fix only this one: %s.", useNodes(svc)),
	}
}

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

// terway plans for Pods that should each have an address of the VPC: its interface can be late.
func terway(c *remedy.Case, plugin string, known ccm.Addresses, pods say.Text) remedy.Plan {
	late := slices.Concat(known.Missing, known.Pending)
	plan := remedy.Plan{Finding: say.F("The cluster's network plug-in is %s.", plugin).Then(pods), Cause: nodes(slices.Concat(known.Outside, late))}
	switch {
	case len(known.Outside) > 0:
		plan.Ask = say.F("Find out where these addresses come from: Terway gives Pods addresses of the VPC.").
			Then(recreate(c.Service, known.Outside)).
			And("Or make nodes the backends: %s. The Service then needs node ports.", useNodes(c.Service))
	case len(late) > 0:
		plan.Wait = c.PollInterval()
		plan.Ask = say.F("Check the log of the Terway Pod on the node. To find that Pod: %s.", "kubectl -n kube-system get pod -o wide").
			Then(recreate(c.Service, late))
	default:
		plan.Wait = c.PollInterval()
		plan.Ask = unadded(c)
	}
	return plan
}

func unadded(c *remedy.Case) say.Text {
	return say.F("Check the controller's log for why it does not add these Pods to the load balancer: %s.", c.LogQuery())
}

func onVirtual(c *remedy.Case, known ccm.Addresses, pods say.Text) remedy.Plan {
	late := slices.Concat(known.Outside, known.Missing, known.Pending)
	plan := remedy.Plan{
		Finding: say.F("Nodes are the backends of the Service. Its Pods on virtual nodes are backends, too, by their network interfaces.").Then(pods),
		Cause:   nodes(late),
		Wait:    c.PollInterval(),
		Ask:     unadded(c),
	}
	if len(late) > 0 {
		plan.Ask = say.F("Check the Events of these Pods for why they have no network interface.").Then(recreate(c.Service, late))
	}
	return plan
}

// stillFails reports whether the load balancer lacks a ready Pod, or one that waits for the controller's readiness gate. With nodes as
// backends, it reports whether a port has no backend, or lacks such a Pod on a virtual node.
func stillFails(ctx context.Context, c *remedy.Case) (remedy.Verdict, error) {
	mode, err := c.BackendMode(ctx)
	if err != nil {
		return remedy.Unknown, err
	}
	if mode != ccm.PodMode && c.Written() {
		return remedy.No, nil
	}
	ends, err := c.Kube.EndpointSlices(ctx, c.Service.Namespace, c.Service.Name)
	if err != nil {
		return remedy.Unknown, err
	}
	if ends, err = c.Gated(ctx, ends); err != nil {
		return remedy.Unknown, err
	}
	lacks, err := c.LacksBackends(ctx, mode, ends, c.Family())
	if err != nil {
		return remedy.Unknown, err
	}
	return remedy.Is(lacks), nil
}
