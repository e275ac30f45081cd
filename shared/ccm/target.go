package ccm

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// FirstNamedPorts is the first release of the controller that looks the name of a target port up
// in EndpointSlices. Older ones take it for the number 0 (clbv1/vgroups.go).
func FirstNamedPorts() Version { return Version{Major: 2} }

// A NamedPort is what the ready Pods take the name of a target port for.
type NamedPort struct {
	By      map[int][]string // the Pods, or their addresses, by the number that they give
	Unknown []string         // the Pods that don't know the name
}

// ResolvePort finds out what the name of a target port means. All Pods of an EndpointSlice agree;
// it lacks the port if they don't know the name.
func ResolvePort(ends []discoveryv1.EndpointSlice, port corev1.ServicePort, family discoveryv1.AddressType) NamedPort {
	n := NamedPort{By: map[int][]string{}}
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

// Numbers returns the numbers that the Pods give, sorted.
func (n NamedPort) Numbers() []int { return slices.Sorted(maps.Keys(n.By)) }

// Number returns the number that all Pods give; 0 if they disagree or one does not know the name.
func (n NamedPort) Number() int {
	if len(n.By) != 1 || len(n.Unknown) > 0 {
		return 0
	}
	return n.Numbers()[0]
}
