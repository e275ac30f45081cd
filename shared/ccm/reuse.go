package ccm

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// The annotations that choose a Service's load balancer, and limit what the controller does with it.
const (
	BalancerID    = "id"                       // of a load balancer that a person created and the Service reuses
	ForceOverride = "force-override-listeners" // "true": the controller manages the listeners of a reused one
	ExternalIP    = "external-ip-type"         // "eip": the Service has the address of an EIP in front of its CLB
	Preserve      = "preserve-lb-on-delete"    // any value: the load balancer stays when the Service is deleted
	ForwardPort   = "forward-port"             // pairs of an HTTP port and the port to which it redirects
)

// FirstPreserve returns the first release that can keep a load balancer that it created.
func FirstPreserve() Version { return Version{Major: 2, Minor: 10} }

// PreserveCommand returns the command with which the controller keeps the load balancer that it created when the Service is deleted.
func PreserveCommand(svc *corev1.Service) string { return SetCommand(svc, Preserve, "true") }

// DeniesPreserve reports whether a value of the annotation [Preserve] reads as a no. The controller keeps the load balancer for any value
// (clbv1/loadbalancer.go and nlbv2/loadbalancer.go, v2.10.0 to v2.14.0).
func DeniesPreserve(value string) bool {
	return slices.Contains([]string{"false", "f", "off", "no", "n", "none", "never", "0", "disable", "disabled"}, strings.ToLower(strings.TrimSpace(value)))
}
