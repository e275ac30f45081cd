package ipversion

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/remedy"
)

// forVSwitches asks for vSwitches with IPv6, or for a load balancer without it.
func forVSwitches(c *remedy.Case, lb *remedy.Instance, without []string, able string) string {
	which, key := "its vSwitches", remedy.Prefix+vswitchID
	if len(without) > 0 {
		which = strings.Join(without, ", ")
	}
	if remedy.NLB(c.Service) {
		key = remedy.Prefix + zoneMaps
	}
	ask := fmt.Sprintf("Choose. Either enable IPv6 for %s, and for the VPC if it has none, in the VPC console: nothing else changes. Or name other vSwitches in the annotation %s; %s.", which, key, able)
	if lb == nil {
		return ask + fmt.Sprintf(" Or do without IPv6: %s.", remedy.SetCommand(c.Service, ipVersion, "ipv4"))
	}
	return ask + fmt.Sprintf(" %s keeps its vSwitches for life: for others, delete the Service and create it again, and its address changes. Or ask for what it is: %s.",
		lb.ID, remedy.SetCommand(c.Service, ipVersion, lb.IPVersion))
}

// forBackends asks for backends without IPv6, or for a load balancer that takes them.
func forBackends(c *remedy.Case, lb *remedy.Instance) string {
	want := "ipv6"
	if remedy.NLB(c.Service) {
		want = "DualStack"
	}
	more := fmt.Sprintf("Or have a load balancer that takes IPv6: with %s%s=%s, in vSwitches that have it.", remedy.Prefix, ipVersion, want)
	if lb != nil {
		more += fmt.Sprintf(" %s keeps its IP version for life: delete the Service and create it again with this annotation, and its address changes.", lb.ID)
	}
	return "Choose. " + less(c) + " " + more
}

// less says how the Service gets backends without IPv6.
func less(c *remedy.Case) string {
	svc := c.Service
	name := fmt.Sprintf("-n %s patch service %s", svc.Namespace, svc.Name)
	_, asked := remedy.Annotation(svc, backendVersion)
	list := svc.Spec.IPFamilies
	switch {
	case asked:
		return "Either take the wish for backends of IPv6 back: " + remedy.RemoveCommand(svc, backendVersion) + ". The address stays."
	case len(list) > 1 && list[0] == corev1.IPv4Protocol:
		return "Either let the Service have IPv4 alone: kubectl " + name + ` --type=merge -p '{"spec":{"ipFamilyPolicy":"SingleStack","ipFamilies":["IPv4"]}}'. The address stays.`
	case slices.Contains(list, corev1.IPv6Protocol):
		return "Either let the Service have IPv4 alone: its first family is IPv6, which never changes, so delete it and create it again with ipFamilies: [IPv4]. The address changes."
	}
	return fmt.Sprintf("Either give it backends of IPv4 alone. By its families it has those; see which Pods are behind it by IPv6: kubectl -n %s get endpointslices -l kubernetes.io/service-name=%s.", svc.Namespace, svc.Name)
}
