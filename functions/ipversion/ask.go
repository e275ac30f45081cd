package ipversion

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/remedy"
)

// forVSwitches asks for vSwitches with IPv6, or for a load balancer without it.
func forVSwitches(c *remedy.Case, lb *ccm.Instance, without []string, able []cloud.VSwitch) string {
	which := "its vSwitches"
	if len(without) > 0 {
		which = remedy.List(without, 5)
	}
	ask := fmt.Sprintf("Choose. Either enable IPv6 for %s, and for the VPC if it has none, in the VPC console: nothing else changes. Or %s.", which, others(c, lb, able))
	if lb == nil {
		return ask + fmt.Sprintf(" Or do without IPv6: %s.", ccm.SetCommand(c.Service, ipVersion, "ipv4"))
	}
	if lb.NLB != nil {
		ask += fmt.Sprintf(" A zone that %s is in keeps its vSwitch.", lb.ID)
	} else {
		ask += fmt.Sprintf(" %s keeps its vSwitch for life: for another, delete the Service and create it again, and its address changes.", lb.ID)
	}
	if asked, _ := ccm.Annotation(c.Service, ipVersion); lb.IPVersion != "" && !strings.EqualFold(asked, lb.IPVersion) {
		ask += fmt.Sprintf(" Or ask for what it is: %s.", ccm.SetCommand(c.Service, ipVersion, lb.IPVersion))
	}
	return ask
}

// forIntranet asks for a CLB that is either public or of IPv4.
func forIntranet(c *remedy.Case) string {
	return fmt.Sprintf("Choose. Either do without IPv6: %s. Or have a public load balancer, which the whole internet reaches and which costs traffic: %s.",
		ccm.SetCommand(c.Service, ipVersion, "ipv4"), ccm.SetCommand(c.Service, addressType, "internet"))
}

// forZones asks for a CLB in zones that have IPv6, or without it.
func forZones(c *remedy.Case, pairs []cloud.ZonePair) string {
	without := ccm.SetCommand(c.Service, ipVersion, "ipv4")
	if len(pairs) == 0 {
		return fmt.Sprintf("Do without IPv6: %s. No zones of the region %s have public CLBs of IPv6 in stock.", without, c.Cloud.Region())
	}
	var names []string
	for _, z := range pairs {
		names = append(names, strings.TrimSuffix(z.Zone+" with "+z.SlaveZone, " with "))
	}
	such := ccm.SetCommand(c.Service, "master-zoneid", pairs[0].Zone)
	if pairs[0].SlaveZone != "" {
		such += " && " + ccm.SetCommand(c.Service, "slave-zoneid", pairs[0].SlaveZone)
	}
	return fmt.Sprintf("Choose. Either have it in zones with IPv6, which are %s, such as: %s. Or do without IPv6: %s.", remedy.List(names, 6), such, without)
}

// others asks for other vSwitches, as the end of a sentence: for those of the
// cluster's own that have IPv6.
func others(c *remedy.Case, lb *ccm.Instance, able []cloud.VSwitch) string {
	short := vswitchID
	if ccm.NLB(c.Service) {
		short = zoneMaps
	}
	text := "name other vSwitches in the annotation " + ccm.Prefix + short
	if len(able) == 0 {
		return text + "; the cluster has none with IPv6"
	}
	var names, pairs []string
	seen := map[string]bool{}
	for _, v := range able {
		names = append(names, v.ID+" in "+v.Zone)
		if !seen[v.Zone] {
			pairs = append(pairs, v.Zone+":"+v.ID)
		}
		seen[v.Zone] = true
	}
	text += "; the cluster's own with IPv6 are " + remedy.List(names, 6)
	switch {
	case lb != nil:
	case short == vswitchID:
		text += ", such as: " + ccm.SetCommand(c.Service, short, able[0].ID)
	case len(pairs) > 1:
		text += ", such as: " + ccm.SetCommand(c.Service, short, strings.Join(pairs[:2], ","))
	}
	return text
}

// forBackends asks for backends without IPv6, or for a load balancer that takes them.
func forBackends(c *remedy.Case, lb *ccm.Instance) string {
	want := "ipv6"
	if ccm.NLB(c.Service) {
		want = "DualStack"
	}
	more := fmt.Sprintf("Or have a load balancer that takes IPv6, in vSwitches that have it: %s.", ccm.SetCommand(c.Service, ipVersion, want))
	if lb != nil {
		more = fmt.Sprintf("Or have a load balancer that takes IPv6: with %s%s=%s, in vSwitches that have it.", ccm.Prefix, ipVersion, want)
		more += fmt.Sprintf(" %s keeps its IP version for life: delete the Service and create it again with this annotation, and its address changes.", lb.ID)
	}
	return "Choose. " + less(c) + " " + more
}

// less says how the Service gets backends without IPv6.
func less(c *remedy.Case) string {
	svc := c.Service
	name := fmt.Sprintf("-n %s patch service %s", svc.Namespace, svc.Name)
	_, asked := ccm.Annotation(svc, backendVersion)
	list := svc.Spec.IPFamilies
	switch {
	case asked:
		return "Either take the wish for backends of IPv6 back: " + ccm.RemoveCommand(svc, backendVersion) + ". The address stays."
	case len(list) > 1 && list[0] == corev1.IPv4Protocol:
		return "Either let the Service have IPv4 alone: kubectl " + name + ` --type=merge -p '{"spec":{"ipFamilyPolicy":"SingleStack","ipFamilies":["IPv4"]}}'. The address stays.`
	case slices.Contains(list, corev1.IPv6Protocol):
		return "Either let the Service have IPv4 alone: its first family is IPv6, which never changes, so delete it and create it again with ipFamilies: [IPv4]. The address changes."
	}
	return fmt.Sprintf("Either give it backends of IPv4 alone. By its families it has those; see which Pods are behind it by IPv6: kubectl -n %s get endpointslices -l kubernetes.io/service-name=%s.", svc.Namespace, svc.Name)
}
