package namedtargetport

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/remedy"
)

// A meaning is what the ready Pods mean by the name of a port.
type meaning struct {
	number  int32            // that all mean; 0: they don't agree, or none knows the name
	by      map[int][]string // the Pods, or their addresses, by what they mean
	unknown []string         // the Pods that don't know it
}

// resolve finds out what the name of a port means. An EndpointSlice holds only
// Pods that agree, and lacks the port if they don't know its name.
func resolve(all []discoveryv1.EndpointSlice, port corev1.ServicePort, family discoveryv1.AddressType) meaning {
	m := meaning{by: map[int][]string{}}
	known := map[string]bool{}
	for _, e := range ccm.Ready(all, port, family) {
		known[e.IP] = true
		m.by[e.Port] = append(m.by[e.Port], called(e))
	}
	anyPort := port
	anyPort.TargetPort = intstr.FromInt32(1)
	for _, e := range ccm.Ready(all, anyPort, family) {
		if !known[e.IP] {
			m.unknown = append(m.unknown, called(e))
		}
	}
	if len(m.by) == 1 && len(m.unknown) == 0 {
		for n := range m.by {
			m.number = int32(n)
		}
	}
	return m
}

func called(e ccm.Endpoint) string {
	if e.Pod == "" {
		return e.IP
	}
	return e.Pod
}

// says returns what the Pods mean, as a sentence.
func (m meaning) says(p corev1.ServicePort) string {
	name := ccm.Quote(p.TargetPort.StrVal)
	var parts []string
	for _, n := range slices.Sorted(maps.Keys(m.by)) {
		parts = append(parts, fmt.Sprintf("%d on %s (%s)", n, ccm.Count(len(m.by[n]), "ready endpoint"), remedy.List(m.by[n], 3)))
	}
	if len(m.unknown) > 0 {
		parts = append(parts, fmt.Sprintf("no port on %s (%s)", ccm.Count(len(m.unknown), "ready endpoint"), remedy.List(m.unknown, 3)))
	}
	if len(parts) == 0 {
		return fmt.Sprintf("What %s is for port %d can't be told, since the Service has no ready endpoint.", name, p.Port)
	}
	return fmt.Sprintf("For port %d, %s is %s.", p.Port, name, strings.Join(parts, " and "))
}

// ask says what a person must do where the name has not one meaning.
func (m meaning) ask(c *remedy.Case, p corev1.ServicePort) string {
	patch := ccm.TargetPortCommand(c.Service, p)
	name := ccm.Quote(p.TargetPort.StrVal)
	switch {
	case len(m.by) == 0 && len(m.unknown) == 0:
		return fmt.Sprintf("Make Pods of the Service ready, or set the number that they listen on: %s.", patch)
	case len(m.by) == 0:
		return fmt.Sprintf("Name a container port of the Pods %s, or set the number that they listen on: %s.", name, patch)
	case len(m.by) == 1:
		return fmt.Sprintf("Name the container port %s on the Pods that lack it, or set the number that all listen on: %s.", name, patch)
	}
	return fmt.Sprintf("Let all Pods listen on one number, then set it: %s; a number reaches only the Pods that listen on it. Or upgrade the controller, which then takes the number of each Pod.", patch)
}
