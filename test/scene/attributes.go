package scene

import (
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/test/sim"
)

// Classes of these scenes.
const (
	groupFixed     = "resource-group-immutable"
	typeFixed      = "address-type-immutable"
	attributeFixed = "attribute-immutable"
	chargeFixed    = "charge-type-conflict"
	badAnnotation  = "bad-annotation"
	families       = "ip-version"
	noReference    = "reference-missing"
	publicDenied   = "public-lb-forbidden"
)

// attributeScenes are those of a Service that is synced and then asks for
// something that a load balancer keeps for life.
func attributeScenes() []Scene {
	var scenes []Scene
	for _, of := range []struct {
		name, class, says, what string
		key, value              string
		on                      Setting
		options                 []option
	}{
		{"group", groupFixed, "can not change ResourceGroupId once created", "It is to be of another resource group.", "resource-group-id", "rg-of-another-team", Setting{}, nil},
		{"group-nlb", groupFixed, "ResourceGroupId cannot be changed, service: ", "Its NLB is to be of another resource group.", "resource-group-id", "rg-of-another-team", Setting{}, []option{network}},
		{"type", typeFixed, "can not change LoadBalancer AddressType once created", "It is to have a private address instead of a public one.", "address-type", "intranet", Setting{}, nil},
		{"zone", attributeFixed, "can not change LoadBalancer master zone id once created", "It is to be in another zone.", "master-zoneid", soldZone, Setting{}, nil},
		{"family", attributeFixed, "can not change LoadBalancer AddressIPVersion once created", "It is to have an IPv6 address.", "ip-version", "ipv6", Setting{}, nil},
		{"family-nlb", attributeFixed, "AddressIpVersion cannot be changed, service: ", "Its NLB is to have IPv6 addresses.", "ip-version", "DualStack", Setting{}, []option{network}},
		{"charge", chargeFixed, "User does not have permission modify InstanceChargeType to spec.", "It is paid for by use, and is to be paid for by size.", "instance-charge-type", "PayBySpec", Setting{}, nil},
		{
			"charge-old", chargeFixed, "the instanceChargeType of loadbalancer is PayByCLCU.", "It is paid for by use, is to have a size, and the controller is an old one.",
			"spec", "slb.s2.small", Setting{Version: "v2.6.0"}, []option{with("instance-charge-type", "PayByCLCU")},
		},
	} {
		scenes = append(scenes, Scene{
			Name: "fixed-" + of.name, Class: of.class, Says: of.says, Ends: event.Fixed, Heals: true, On: of.on,
			Story: of.what, prepare: created(of.options...), spoil: annotated(of.key, of.value), mend: annotated(of.key, ""),
		})
	}
	return scenes
}

func annotationScenes() []Scene {
	https := with("protocol-port", "https:80", "cert-id", validCert)
	return []Scene{
		{
			Name: "words-bandwidth", Class: badAnnotation, Says: "bandwidth must be integer, got [10M]", Ends: event.Asked,
			Story: "It is created with a bandwidth that is no number.",
			spoil: created(with("bandwidth", "10M")),
			mend:  annotated("bandwidth", "10"),
		},
		{
			Name: "words-interval", Class: badAnnotation, Says: "must be integer, but got [5s]", Ends: event.Asked,
			Story:   "Its health check is to have an interval that is no number.",
			prepare: created(),
			spoil:   annotated("health-check-interval", "5s"),
			mend:    annotated("health-check-interval", "5"),
		},
		{
			Name: "words-zones-nlb", Class: badAnnotation, Says: "ParameterMissing, zone mappings are required", Ends: event.Asked,
			Story: "It is created with an NLB and does not say in which zones.",
			spoil: created(network, bare),
			mend:  annotated("zone-maps", zoneI+":"+RoomyVSwitchI),
		},
		{
			Name: "family-vswitch-nlb", Class: families, Says: "The operation failed because of vSwitchNotSupportIpv6.", Ends: event.Asked,
			Story: "Its NLB is to have IPv6 addresses, in a vSwitch that has none.",
			spoil: created(with("ip-version", "DualStack"), network),
			mend:  annotated("ip-version", ""),
		},
		{
			Name: "cert-expired", Class: noReference, Says: "because it is expired", Ends: event.Asked,
			Story:   "Its certificate is to be one that has expired.",
			prepare: created(https),
			spoil:   annotated("cert-id", expiredCert),
			mend:    annotated("cert-id", validCert),
		},
		{
			Name: "public-denied", Class: publicDenied, Says: "create public address slb is not allowed", Ends: event.Asked, On: Setting{NoPublic: true},
			Story: "It is created with a public address, which the controller is told not to allow.",
			spoil: created(),
			mend:  annotated("address-type", "intranet", "vswitch-id", RoomyVSwitchI),
		},
	}
}

// listeners returns so many of a person's listeners.
func listeners(n int) []sim.Listener {
	var all []sim.Listener
	for i := range n {
		all = append(all, sim.Listener{Port: 1001 + i, Description: "the old shop", Status: "running"})
	}
	return all
}

func networkListeners(n int) []sim.NLBListener {
	var all []sim.NLBListener
	for i := range n {
		all = append(all, sim.NLBListener{Port: 1001 + i, Description: "the old shop"})
	}
	return all
}
