package ccm

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/say"
)

// The annotations for IP versions.
const (
	IPVersion        = "ip-version"         // of the load balancer
	BackendIPVersion = "backend-ip-version" // of its backends
)

// DescribeFamilies returns clauses about the IP versions that the Service asks for.
func DescribeFamilies(svc *corev1.Service) []say.Text {
	var facts []say.Text
	switch list := svc.Spec.IPFamilies; len(list) {
	case 0:
		facts = append(facts, say.F("the Service names no IP family"))
	case 1:
		facts = append(facts, say.F("the Service has the IP family %s", list[0]))
	default:
		facts = append(facts, say.F("the Service has the IP families %s and %s", list[0], list[1]))
	}
	if p := svc.Spec.IPFamilyPolicy; p != nil {
		facts = append(facts, say.F("its ipFamilyPolicy is %s", *p))
	}
	for _, name := range []string{IPVersion, BackendIPVersion, "address-type"} {
		if v, ok := Annotation(svc, name); ok {
			facts = append(facts, say.F("the annotation %s is %s", name, Quote(v)))
		}
	}
	return facts
}

// DescribeVersions returns clauses about the IP versions of the load balancer and its vSwitches.
func DescribeVersions(lb *Instance, used []cloud.VSwitch) []say.Text {
	facts := []say.Text{say.F("no load balancer of the Service was found")}
	switch {
	case lb != nil && lb.IPVersion == "":
		facts[0] = say.F("the API does not say which IP version the %s %s has", lb.Kind(), lb.ID)
	case lb != nil:
		facts[0] = say.F("the %s %s is %s", lb.Kind(), lb.ID, lb.IPVersion)
	}
	for _, v := range used {
		if v.IPv6 {
			facts = append(facts, say.F("the vSwitch %s in %s has IPv6", v.ID, v.Zone))
		} else {
			facts = append(facts, say.F("the vSwitch %s in %s has no IPv6", v.ID, v.Zone))
		}
	}
	return facts
}

// IPv4Advice says how the Service gets backends without IPv6.
func IPv4Advice(svc *corev1.Service) say.Text {
	_, asked := Annotation(svc, BackendIPVersion)
	list := svc.Spec.IPFamilies
	switch {
	case asked:
		return say.F("Stop asking for IPv6 backends: %s. The address does not change.", RemoveCommand(svc, BackendIPVersion))
	case len(list) > 1 && list[0] == corev1.IPv4Protocol:
		return say.F("Make the Service IPv4 only: %s.", PatchCommand(svc, `{"spec":{"ipFamilyPolicy":"SingleStack","ipFamilies":["IPv4"]}}`)).
			And("The address does not change.")
	case slices.Contains(list, corev1.IPv6Protocol):
		return say.F("Make the Service IPv4 only: delete it and recreate it with ipFamilies: [IPv4].").
			And("Its first IP family is IPv6, which cannot be changed in place. The address changes.")
	}
	return say.F("Give the Service IPv4 backends only. According to its IP families, it has no others.").
		And("Find out which Pods it reaches over IPv6: %s.", SlicesCommand(svc))
}

// IPv6Advice says which other vSwitches the Service can name for a load balancer with IPv6; able are those of the cluster.
func IPv6Advice(svc *corev1.Service, lb *Instance, able []cloud.VSwitch) say.Text {
	short := VSwitchID
	if NLB(svc) {
		short = ZoneMap
	}
	if len(able) == 0 {
		return say.F("Or name other vSwitches in the annotation %s. The cluster has none with IPv6.", Prefix+short)
	}
	var have []say.Text
	for _, v := range able {
		have = append(have, say.F("%s in %s", v.ID, v.Zone))
	}
	pairs := ZonePairs(able)
	ask := say.F("Or name other vSwitches in the annotation %s. The cluster has these with IPv6: %s.", Prefix+short, say.Clauses(have, 6))
	switch {
	case lb != nil:
	case short == VSwitchID:
		ask = ask.And("For example: %s.", SetCommand(svc, short, able[0].ID))
	case len(pairs) > 1: // an NLB needs two zones
		ask = ask.And("For example: %s.", SetCommand(svc, short, strings.Join(pairs[:2], ",")))
	}
	return ask
}
