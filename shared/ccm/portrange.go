package ccm

import (
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/say"
)

// PortRange is the annotation for a listener with a range of ports, such as "1000-2000:80", of an NLB (nlbv2/listeners.go, from v2.11.2 on).
const PortRange = "listener-port-range"

func portRanges() ValueRule {
	r := like(PortRange, nlb, say.F("ranges of ports, each with a port of the Service, with commas between, such as 1000-2000:80"),
		listOf(`\d{1,5}-\d{1,5}:\d{1,5}`),
		"listener port range must be like", "port range [")
	fits := r.Takes
	r.Takes = func(v string) bool {
		if !fits(v) {
			return false
		}
		for pair := range strings.SplitSeq(v, ",") {
			span, _, _ := strings.Cut(pair, ":")
			if first, last := ends(span); first < 1 || first >= last || last > 65535 {
				return false
			}
		}
		return true
	}
	return r
}

// ends returns the first and the last port of "1000-2000" or of "80"; zeros for any other text.
func ends(span string) (first, last int) {
	from, to, ok := strings.Cut(span, "-")
	if !ok {
		to = from
	}
	first, err := strconv.Atoi(from)
	if err != nil {
		return 0, 0
	}
	if last, err = strconv.Atoi(to); err != nil {
		return 0, 0
	}
	return first, last
}

// A Misfit is a combination of settings that the controller cannot make, although each value is valid.
type Misfit struct{ Finding, Ask say.Text }

// MisfitOf returns the misfit that a message of the controller names, or nil if the Service does not have it now. named reports whether it names one.
func MisfitOf(svc *corev1.Service, message string) (m *Misfit, named bool) {
	folded := strings.ToLower(strings.Join(strings.Fields(message), " "))
	if m, named := specMisfit(svc, folded); named {
		return m, true
	}
	ranges, _ := Annotation(svc, PortRange)
	if strings.Contains(folded, "listener port range can only be used for eni") {
		// Without the annotation, the controller's configuration decides, and it cannot be eni, or the sync would not have failed.
		if ranges == "" || svc.Annotations[BackendType] == "eni" {
			return nil, true
		}
		return &Misfit{
			Finding: say.F("The annotation %s is %s. It needs Pods as backends, but the backends of the Service are nodes.", PortRange, Quote(ranges)),
			Ask: say.F("Remove it: %s.", RemoveCommand(svc, PortRange)).
				And("Or, if the cluster's network plug-in is Terway, make Pods the backends: %s.", SetCommand(svc, BackendType, "eni")),
		}, true
	}
	if !strings.Contains(folded, "port of listener [") || !strings.Contains(folded, "] overlaps with listener [") {
		return nil, false
	}
	a, b := overlap(svc)
	if a == "" {
		return nil, true
	}
	short, value := PortRange, ranges
	if ranges == "" { // one port with two protocols, which the annotation makes the same
		short = "protocol-port"
		value, _ = Annotation(svc, short)
	}
	return &Misfit{
		Finding: say.F("Two listeners of the Service would have the same port: %s and %s. The annotation %s is %s.", a, b, short, Quote(value)),
		Ask: say.F("Set the annotation so that no two ports of the Service get the same port of the NLB: %s.", SetCommand(svc, short, "VALUE")).
			And("Or remove it: %s.", RemoveCommand(svc, short)),
	}, true
}

func overlap(svc *corev1.Service) (a, b string) {
	protocol := func(key string) string { p, _, _ := strings.Cut(key, ":"); return strings.ToLower(p) }
	for i, p := range svc.Spec.Ports {
		for _, q := range svc.Spec.Ports[i+1:] {
			a, b := networkKey(svc, p), networkKey(svc, q)
			_, one, _ := strings.Cut(a, ":")
			_, other, _ := strings.Cut(b, ":")
			first, last := ends(one)
			from, to := ends(other)
			if protocol(a) == protocol(b) && first <= to && from <= last {
				return strings.ToLower(a), strings.ToLower(b)
			}
		}
	}
	return "", ""
}
