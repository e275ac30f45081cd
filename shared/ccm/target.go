package ccm

import (
	"context"
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/lbremedy/lbremedy/shared/say"
)

// FirstNamedPorts returns the first release that looks up a named target port in EndpointSlices. Older ones take it for 0 (clbv1/vgroups.go).
func FirstNamedPorts() Version { return Version{Major: 2} }

// FirstUnnamedLeftOut returns the first release that leaves out Pods without a port of the name. v2.11.2 still sends 0 for them, v2.12.4
// leaves them out (clbv1/vgroups.go and nlbv2/server_groups.go, setBackendsFromEndpointSlices); v2.12.0 to v2.12.3 were not seen.
func FirstUnnamedLeftOut() Version { return Version{Major: 2, Minor: 12, Patch: 4} }

// SendsZero reports whether a release that resolves names sends 0 for some Pod; if nodes are the backends, only Pods on virtual nodes count.
func SendsZero(named []NamedPort, virtual []Endpoint, v Version) bool {
	return v.Before(FirstUnnamedLeftOut()) && slices.ContainsFunc(named, func(p NamedPort) bool {
		return slices.ContainsFunc(p.Unknown, func(pod string) bool {
			return len(virtual) == 0 || slices.ContainsFunc(virtual, func(e Endpoint) bool { return e.Name() == pod })
		})
	})
}

// NamedPorts returns the ports of the Service whose target port is a name.
func NamedPorts(svc *corev1.Service) []corev1.ServicePort {
	return slices.DeleteFunc(slices.Clone(svc.Spec.Ports), func(p corev1.ServicePort) bool { return p.TargetPort.Type != intstr.String })
}

// Unallocated returns the Service's ports without a node port.
func Unallocated(svc *corev1.Service) []string {
	var ports []string
	for _, p := range svc.Spec.Ports {
		if p.NodePort == 0 {
			ports = append(ports, strconv.Itoa(int(p.Port)))
		}
	}
	return ports
}

// DescribePorts lists the ports of the Service with their target ports and node ports.
func DescribePorts(svc *corev1.Service) say.Text {
	var ports []say.Text
	for _, p := range svc.Spec.Ports {
		ports = append(ports, say.F("%d to %s (node port %d)", p.Port, p.TargetPort.String(), p.NodePort))
	}
	return say.Clauses(ports, 10)
}

// A NamedPort is what the name of a target port means to the ready Pods.
type NamedPort struct {
	Port    corev1.ServicePort
	By      map[int][]string // the Pods, or their addresses, by the number that the name has there
	Unknown []string         // the Pods that lack the name
}

// ResolvePorts returns what the names of the Service's target ports mean, for backends of this family.
func (c *View) ResolvePorts(ctx context.Context, family discoveryv1.AddressType) ([]NamedPort, error) {
	ends, err := c.Kube.EndpointSlices(ctx, c.Service.Namespace, c.Service.Name)
	if err != nil {
		return nil, err
	}
	var out []NamedPort
	for _, p := range NamedPorts(c.Service) {
		out = append(out, resolvePort(ends, p, family))
	}
	return out, nil
}

// resolvePort returns what the name of one target port means. All Pods of an EndpointSlice agree; the slice lacks the port if they lack the name.
func resolvePort(ends []discoveryv1.EndpointSlice, port corev1.ServicePort, family discoveryv1.AddressType) NamedPort {
	n := NamedPort{Port: port, By: map[int][]string{}}
	known := map[string]bool{}
	for _, e := range Ready(ends, port, family) {
		known[e.IP] = true
		n.By[e.Port] = append(n.By[e.Port], e.Name())
	}
	anyPort := port
	anyPort.TargetPort = intstr.FromInt32(1)
	for _, e := range Ready(ends, anyPort, family) {
		if !known[e.IP] {
			n.Unknown = append(n.Unknown, e.Name())
		}
	}
	return n
}

// Numbers returns the numbers of the name, sorted.
func (n NamedPort) Numbers() []int { return slices.Sorted(maps.Keys(n.By)) }

// Number returns the number that the name has on all Pods; 0 if they disagree or one lacks the name.
func (n NamedPort) Number() int {
	if len(n.By) != 1 || len(n.Unknown) > 0 {
		return 0
	}
	return n.Numbers()[0]
}

// Describe says what the name means to the Pods.
func (n NamedPort) Describe() say.Text {
	name := Quote(n.Port.TargetPort.StrVal)
	var parts []say.Text
	for _, number := range n.Numbers() {
		pods := n.By[number]
		parts = append(parts, say.F("%d on %s (%s)", number, say.Count(len(pods), "ready endpoint"), say.List(pods, 3)))
	}
	if len(n.Unknown) > 0 {
		parts = append(parts, say.F("unknown on %s (%s)", say.Count(len(n.Unknown), "ready endpoint"), say.List(n.Unknown, 3)))
	}
	if len(parts) == 0 {
		return say.F("The number of %s for port %d could not be determined, because the Service has no ready endpoint.", name, n.Port.Port)
	}
	return say.F("For port %d, %s is %s.", n.Port.Port, name, say.Clauses(parts, len(parts)))
}

// Advice says how the name gets the single number that an older controller needs.
func (n NamedPort) Advice(svc *corev1.Service) say.Text {
	patch, name := TargetPortCommand(svc, n.Port), Quote(n.Port.TargetPort.StrVal)
	switch {
	case len(n.By) == 0 && len(n.Unknown) == 0:
		return say.F("Make Pods of the Service ready, or set the number that they listen on: %s.", patch)
	case len(n.By) == 0:
		return say.F("Give the Pods a container port named %s, or set the number that they listen on: %s.", name, patch)
	case len(n.By) == 1:
		return say.F("Give the Pods that lack it a container port named %s, or set the number that all Pods listen on: %s.", name, patch)
	}
	return say.F("Make all Pods listen on one number, then set it: %s. Traffic reaches only the Pods that listen on that number.", patch).
		And("Or upgrade the controller, which then uses the number of each Pod.")
}
