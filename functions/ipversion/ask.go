package ipversion

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

// forVSwitches asks for vSwitches with IPv6, or for a load balancer without it. able are the cluster's own with IPv6.
func forVSwitches(svc *corev1.Service, lb *ccm.Instance, used, able []cloud.VSwitch) say.Text {
	var without []string
	for _, v := range used {
		if !v.IPv6 {
			without = append(without, v.ID)
		}
	}
	enable := say.F("Enable IPv6 in the VPC console for the vSwitches of the load balancer, and for the VPC if it has none. Nothing else changes.")
	if len(without) > 0 {
		enable = say.F("Enable IPv6 in the VPC console for %s, and for the VPC if it has none. Nothing else changes.", say.List(without, 5))
	}
	asked, _ := ccm.Annotation(svc, ccm.IPVersion)
	ask := say.F("Choose one option.")
	switch {
	case lb == nil:
		ask = say.F("Choose one option. Use IPv4 only: %s.", ccm.SetCommand(svc, ccm.IPVersion, "ipv4"))
	case lb.IPVersion != "" && !strings.EqualFold(asked, lb.IPVersion):
		ask = ask.And("Ask for the IP version that it has: %s.", ccm.SetCommand(svc, ccm.IPVersion, lb.IPVersion))
	}
	ask = ask.Then(enable).Then(ccm.IPv6Advice(svc, lb, able))
	switch {
	case lb == nil:
	case lb.NLB != nil:
		ask = ask.And("In the zones that it already uses, %s keeps its vSwitches.", lb.ID)
	default:
		ask = ask.And("%s keeps its vSwitch for life. To use another, delete and recreate the Service, which changes its address.", lb.ID)
	}
	return ask
}

func forIntranet(svc *corev1.Service) say.Text {
	return say.F("Choose one option. Use IPv4 only: %s.", ccm.SetCommand(svc, ccm.IPVersion, "ipv4")).
		And("Or make the load balancer public: %s.", ccm.SetCommand(svc, "address-type", "internet")).
		And("The whole internet can then reach it, and its traffic costs money.")
}

func forZones(c *remedy.Case, pairs []cloud.ZonePair) say.Text {
	ipv4 := ccm.SetCommand(c.Service, ccm.IPVersion, "ipv4")
	if len(pairs) == 0 {
		return say.F("Use IPv4 only: %s. No zones of the region %s have public CLBs with IPv6 in stock.", ipv4, c.Cloud.Region())
	}
	such := ccm.SetCommand(c.Service, ccm.MasterZone, pairs[0].Zone)
	if pairs[0].SlaveZone != "" {
		such += " && " + ccm.SetCommand(c.Service, ccm.SlaveZone, pairs[0].SlaveZone)
	}
	return say.F("Choose one option. Use zones with IPv6, given as primary/standby: %s.", ccm.DescribeZonePairs(pairs)).
		And("For example: %s.", such).
		And("Or use IPv4 only: %s.", ipv4)
}

func forBackends(svc *corev1.Service, lb *ccm.Instance) say.Text {
	want := "ipv6"
	if ccm.NLB(svc) {
		want = "DualStack"
	}
	ask := say.F("Choose one option.").Then(ccm.IPv4Advice(svc))
	if lb == nil {
		return ask.And("Or use a load balancer that accepts IPv6, in vSwitches with IPv6: %s.", ccm.SetCommand(svc, ccm.IPVersion, want))
	}
	return ask.And("Or use a load balancer that accepts IPv6, with %s%s=%s and in vSwitches with IPv6.", ccm.Prefix, ccm.IPVersion, want).
		And("%s keeps its IP version for life: delete the Service and recreate it with this annotation, which changes its address.", lb.ID)
}
