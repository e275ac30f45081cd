package ccm

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/lbremedy/lbremedy/shared/say"
)

// PodBackends returns the backend mode and, if nodes are the backends, the Pods on virtual nodes, which are, too. It needs
// DescribeClusterDetail, ListEndpointSlices and ListNodes.
func (c *View) PodBackends(ctx context.Context, family discoveryv1.AddressType) (BackendMode, []Endpoint, error) {
	mode, err := c.BackendMode(ctx)
	if err != nil || mode == PodMode {
		return mode, nil, err
	}
	virtual, err := c.VirtualPods(ctx, family)
	return mode, virtual, err
}

// DescribePodBackends says which Pods are backends: these on virtual nodes, or all if the list is empty.
func DescribePodBackends(virtual []Endpoint) say.Text {
	if len(virtual) == 0 {
		return say.F("Pods are the backends.")
	}
	return say.F("Nodes are the backends, and so are the Pods on virtual nodes, by their network interfaces: %s.", EndpointNames(virtual))
}

// VirtualPods returns the Service's Pods on virtual nodes, which are backends by their network interfaces whatever backend-type says. They
// need not be ready: one that waits for the controller's readiness gate is a backend before. It needs ListEndpointSlices and ListNodes.
func (c *View) VirtualPods(ctx context.Context, family discoveryv1.AddressType) ([]Endpoint, error) {
	ends, err := c.Kube.EndpointSlices(ctx, c.Service.Namespace, c.Service.Name)
	if err != nil {
		return nil, err
	}
	var pods []Endpoint
	for _, s := range ends {
		for _, e := range s.Endpoints {
			going := e.Conditions.Terminating != nil && *e.Conditions.Terminating
			if s.AddressType != family || going || e.NodeName == nil || len(e.Addresses) == 0 {
				continue
			}
			pods = append(pods, Endpoint{IP: e.Addresses[0], Pod: podOf(e), Node: *e.NodeName})
		}
	}
	sortEndpoints(pods)
	return c.OnVirtual(ctx, pods)
}

// OnVirtual returns the endpoints on virtual nodes, whose Pods are backends by their network interfaces even where nodes are
// (buildClusterBackends and buildLocalBackends in clbv1/vgroups.go). It needs ListNodes.
func (c *View) OnVirtual(ctx context.Context, list []Endpoint) ([]Endpoint, error) {
	return c.onNodes(ctx, list, func(n *corev1.Node) bool {
		if n == nil {
			return false
		}
		why, _ := ExclusionOf(n, c.Service)
		return why == Virtual
	})
}

// Reachable returns the endpoints that can be backends in PodMode (see PodServes). It needs ListNodes.
func (c *View) Reachable(ctx context.Context, list []Endpoint) ([]Endpoint, error) {
	return c.onNodes(ctx, list, func(n *corev1.Node) bool { return PodServes(n, c.Service) })
}

// onNodes returns the endpoints on nodes that keep accepts; an unknown node is nil.
func (c *View) onNodes(ctx context.Context, list []Endpoint, keep func(*corev1.Node) bool) ([]Endpoint, error) {
	if len(list) == 0 {
		return nil, nil
	}
	nodes, err := c.Kube.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	byName := map[string]*corev1.Node{}
	for i := range nodes {
		byName[nodes[i].Name] = &nodes[i]
	}
	return slices.DeleteFunc(slices.Clone(list), func(e Endpoint) bool { return !keep(byName[e.Node]) }), nil
}
