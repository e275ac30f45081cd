package ccm

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Short names of the annotations that say which load balancer a Service has, and what the controller
// may do with it.
const (
	BalancerID    = "id"                       // of one that a person created and the Service reuses
	ForceOverride = "force-override-listeners" // "true": the controller manages the listeners of one that is reused
	ExternalIP    = "external-ip-type"         // "eip": the Service has the address of an EIP in front of its CLB
	Preserve      = "preserve-lb-on-delete"    // it stays when the Service goes, whatever the value is
	ForwardPort   = "forward-port"             // pairs of an HTTP port and the one that it redirects to
)

// FirstPreserve is the first release of the controller that can keep a load balancer that it created.
func FirstPreserve() Version { return Version{Major: 2, Minor: 10} }

// PreserveCommand returns the command by which a person has the controller keep the load balancer that
// it created for the Service, when that is deleted.
func PreserveCommand(svc *corev1.Service) string { return SetCommand(svc, Preserve, "true") }

// DeniesPreserve reports whether the value of the annotation [Preserve] reads as a no. The controller asks only whether there is a
// value, and keeps the load balancer (clbv1/loadbalancer.go and nlbv2/loadbalancer.go, v2.10.0 to v2.14.0).
func DeniesPreserve(value string) bool {
	return slices.Contains([]string{"false", "f", "off", "no", "n", "none", "never", "0", "disable", "disabled"}, strings.ToLower(strings.TrimSpace(value)))
}
