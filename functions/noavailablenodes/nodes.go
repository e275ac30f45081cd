package noavailablenodes

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/remedy"
)

// out holds nodes by the reason for their exclusion.
type out struct {
	of    map[ccm.Exclusion][]string // names
	texts []string                   // one clause for each that is left out
	label map[string]string          // that excludes a node, by the node's name
}

func (s *state) leftOut(nodes []corev1.Node) out {
	o := out{of: map[ccm.Exclusion][]string{}, label: map[string]string{}}
	for i := range nodes {
		n := &nodes[i]
		why, text := ccm.ExclusionOf(n, s.c.Service)
		o.of[why] = append(o.of[why], n.Name)
		if why == ccm.Serves {
			continue
		}
		o.texts = append(o.texts, n.Name+" "+text)
		o.label[n.Name] = strings.TrimPrefix(text, "has the label ")
	}
	return o
}

// sentence names up to five nodes and why each is excluded.
func (o out) sentence() string { return ccm.Clauses(o.texts, 5) }

// passes reports whether an exclusion may be temporary.
func (o out) passes() bool { return len(o.of[ccm.NotReady])+len(o.of[ccm.Going]) > 0 }

// remedies says what a person can do about each exclusion, in sentences.
func (o out) remedies(svc *corev1.Service) string {
	var parts []string
	say := func(why ccm.Exclusion, format string, args ...any) {
		if list := o.of[why]; len(list) > 0 {
			parts = append(parts, fmt.Sprintf(format, append([]any{remedy.List(list, 5), list[0]}, args...)...))
		}
	}
	say(ccm.NotReady, "Look why %[1]s is not ready: kubectl describe node %[2]s.")
	say(ccm.Going, "Wait until the autoscaler has deleted %[1]s and the Pods run elsewhere, or stop it.")
	say(ccm.Cordoned, "Let nodes take Pods again, kubectl uncordon %[2]s, or keep cordoned nodes as backends: %[3]s.", ccm.RemoveCommand(svc, "remove-unscheduled-backend"))
	if list := o.of[ccm.Excluded]; len(list) > 0 {
		parts = append(parts, fmt.Sprintf("If %s is to serve load balancers, take its label off: kubectl label node %s %s-.", remedy.List(list, 5), list[0], o.label[list[0]]))
	}
	say(ccm.Unlabel, "Label the nodes that are to serve, or ask for labels that they have, %[3]s, or for none: %[4]s.",
		ccm.SetCommand(svc, "backend-label", "KEY=VALUE"), ccm.RemoveCommand(svc, "backend-label"))
	say(ccm.Master, "Masters such as %[1]s never serve: let the Pods run on workers, or add some.")
	say(ccm.Virtual, "On virtual nodes such as %[1]s only Pods serve: run some of the Service there, or add nodes that are servers.")
	return strings.Join(parts, " ")
}
