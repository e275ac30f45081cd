package namedtargetport

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

// A meaning is the number that the ready Pods give to the name of a port.
type meaning struct {
	number  int32            // the one that all give; 0: they disagree, or none knows the name
	by      map[int][]string // the Pods, or their addresses, by the number they give
	unknown []string         // the Pods that don't know the name
}

// resolve finds out what the name of a port means. All Pods of an EndpointSlice agree; it lacks the
// port if they don't know the name.
func resolve(all []discoveryv1.EndpointSlice, port corev1.ServicePort, family discoveryv1.AddressType) meaning {
	m := meaning{by: map[int][]string{}}
	known := map[string]bool{}
	for _, e := range ccm.Ready(all, port, family) {
		known[e.IP] = true
		m.by[e.Port] = append(m.by[e.Port], cmp.Or(e.Pod, e.IP))
	}
	anyPort := port
	anyPort.TargetPort = intstr.FromInt32(1)
	for _, e := range ccm.Ready(all, anyPort, family) {
		if !known[e.IP] {
			m.unknown = append(m.unknown, cmp.Or(e.Pod, e.IP))
		}
	}
	if len(m.by) == 1 && len(m.unknown) == 0 {
		for n := range m.by {
			m.number = int32(n)
		}
	}
	return m
}

// says returns what the name means to the Pods.
func (m meaning) says(p corev1.ServicePort) say.Text {
	name := ccm.Quote(p.TargetPort.StrVal)
	var parts []say.Text
	for _, n := range slices.Sorted(maps.Keys(m.by)) {
		parts = append(parts, say.F("%d on %s (%s)", n, say.Count(len(m.by[n]), "ready endpoint"), say.List(m.by[n], 3)))
	}
	if len(m.unknown) > 0 {
		parts = append(parts, say.F("unknown on %s (%s)", say.Count(len(m.unknown), "ready endpoint"), say.List(m.unknown, 3)))
	}
	if len(parts) == 0 {
		return say.F("The number of %s for port %d could not be determined, because the Service has no ready endpoint.", name, p.Port)
	}
	return say.F("For port %d, %s is %s.", p.Port, name, say.Clauses(parts, len(parts)))
}

// ask returns what a person must do if the name does not have exactly one meaning.
func (m meaning) ask(c *remedy.Case, p corev1.ServicePort) say.Text {
	patch := ccm.TargetPortCommand(c.Service, p)
	name := ccm.Quote(p.TargetPort.StrVal)
	switch {
	case len(m.by) == 0 && len(m.unknown) == 0:
		return say.F("Make Pods of the Service ready, or set the number that they listen on: %s.", patch)
	case len(m.by) == 0:
		return say.F("Give the Pods a container port named %s, or set the number that they listen on: %s.", name, patch)
	case len(m.by) == 1:
		return say.F("Give the Pods that lack it a container port named %s, or set the number that all Pods listen on: %s.", name, patch)
	}
	return say.F("Make all Pods listen on one number, then set it: %s. Traffic reaches only the Pods that listen on that number.", patch).
		And("Or upgrade the controller, which then uses the number of each Pod.")
}
