package ccm

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/say"
)

func networkDifferences(svc *corev1.Service, lb *cloud.NetworkLoadBalancer) []Difference {
	var drift []Difference
	value := func(short string) string { v, _ := Annotation(svc, short); return v }
	differ := func(is say.Text, want, short, keep string) {
		drift = append(drift, Difference{What: short, Text: say.F("%s and the annotations say %s", is, say.Or(clipped(want), "none")), Keep: short, Is: keep})
	}
	if want := value("address-type"); want != "" && !strings.EqualFold(lb.AddressType, want) {
		differ(say.F("the address type is %s", say.Or(lb.AddressType, "empty")), want, "address-type", strings.ToLower(lb.AddressType))
	}
	if want := value("name"); want != "" && want != lb.Name {
		differ(say.F("the name is %s", say.Or(lb.Name, "empty")), want, "name", lb.Name)
	}
	if maps := value(ZoneMap); maps != "" {
		want, is := zonesOf(maps), zonesOf(ZoneMaps(lb))
		switch other := otherAddress(maps, lb); {
		case !slices.Equal(want, is):
			differ(say.F("its zones are %s", strings.Join(is, ",")), strings.Join(want, ","), "zone-maps", ZoneMaps(lb))
		case other != "":
			differ(say.F("its zones are %s with other addresses", strings.Join(is, ",")), other, "zone-maps", ZoneMaps(lb))
		}
	}
	if want := value("ipv6-address-type"); want != "" && !strings.EqualFold(lb.IPv6AddressType, want) {
		differ(say.F("the IPv6 address type is %s", say.Or(lb.IPv6AddressType, "empty")), want, "ipv6-address-type", strings.ToLower(lb.IPv6AddressType))
	}
	if want := value("cross-zone-enabled"); (want == "on" || want == "off") && want != onOff(lb.CrossZone) {
		differ(say.F("cross-zone forwarding is %s", onOff(lb.CrossZone)), want, "cross-zone-enabled", onOff(lb.CrossZone))
	}
	// An empty annotation removes the NLB from its package.
	if want, ok := Annotation(svc, bandwidthPackageID); ok && want != lb.BandwidthPackage {
		differ(say.F("the bandwidth package is %s", say.Or(lb.BandwidthPackage, "none")), want, bandwidthPackageID, lb.BandwidthPackage)
	}
	if groups, ok := svc.Annotations[Prefix+"security-group-ids"]; ok {
		want := strings.FieldsFunc(groups, func(r rune) bool { return r == ',' })
		slices.Sort(want)
		if is := strings.Join(lb.SecurityGroups, ","); !slices.Equal(want, lb.SecurityGroups) {
			differ(say.F("its security groups are %s", say.Or(is, "none")), groups, "security-group-ids", is)
		}
	}
	return append(drift, tagDrift(svc, lb.Tags)...)
}

// NetworkListenerDifferences returns what a full sync would change on the listeners of the Service's NLB, if the controller sets them. On an
// NLB that is not reused, v2.14.0 deletes all listeners without a port of the Service, whoever made them (nlbv2/model_applier.go).
func NetworkListenerDifferences(svc *corev1.Service, listeners []cloud.NetworkListener, cluster string) []Difference {
	var drift []Difference
	reused, _ := Annotation(svc, "id")
	wanted := map[string]bool{}
	for _, p := range svc.Spec.Ports {
		key := networkKey(svc, p)
		wanted[key] = true
		i := slices.IndexFunc(listeners, func(l cloud.NetworkListener) bool { return keyOf(l) == key })
		switch {
		case i < 0:
			drift = append(drift, Difference{What: "listener " + key, Text: say.F("there is no listener %s", key), Down: true, Makes: true})
		case listeners[i].Status == "Stopped":
			drift = append(drift, Difference{What: "listener " + key, Text: say.F("listener %s is Stopped and would be started", key), Down: true})
		}
		if i >= 0 {
			drift = append(drift, apart(networkSettings, svc, listeners[i].Protocol, listeners[i].Config, "listener "+key, "listener "+key)...)
		}
	}
	for _, l := range listeners {
		key := keyOf(l)
		t, ok := ParseTrace(l.Description)
		if !wanted[key] && (reused == "" || ok && t.Of(svc, cluster)) {
			drift = append(drift, Difference{What: "listener " + key, Text: say.F("listener %s has no port of the Service and would be deleted", key),
				Cuts: l.Status != "Stopped"})
		}
	}
	return drift
}

// networkKey returns the listener of a Service's port on an NLB: one port, or the range from an annotation such as "1000-2000:80".
func networkKey(svc *corev1.Service, p corev1.ServicePort) string {
	key := ListenerKey(svc, p)
	ranges, _ := Annotation(svc, "listener-port-range")
	for pair := range strings.SplitSeq(ranges, ",") {
		if span, port, ok := strings.Cut(pair, ":"); ok && port == fmt.Sprint(p.Port) {
			protocol, _, _ := strings.Cut(key, ":")
			return protocol + ":" + span
		}
	}
	return key
}

func keyOf(l cloud.NetworkListener) string {
	if l.Port == 0 {
		return fmt.Sprintf("%s:%s-%s", l.Protocol, l.First, l.Last)
	}
	return fmt.Sprintf("%s:%d", l.Protocol, l.Port)
}

// ZoneMaps returns the zones of the NLB as the annotation zone-maps has them.
func ZoneMaps(lb *cloud.NetworkLoadBalancer) string {
	var parts []string
	for _, z := range lb.Zones {
		parts = append(parts, z.Zone+":"+z.VSwitch)
	}
	return strings.Join(parts, ",")
}

// otherAddress returns the first part of a zone map that names an address or EIP that the NLB lacks in that zone, or "".
func otherAddress(maps string, lb *cloud.NetworkLoadBalancer) string {
	zones, _ := Zones(maps)
	for _, want := range zones {
		there := func(z cloud.NetworkZone) bool {
			return z.Zone == want.Name && (want.Address == "" || z.Address == want.Address) && (want.EIP == "" || z.EIP == want.EIP)
		}
		if want.VSwitch != "" && !slices.ContainsFunc(lb.Zones, there) {
			return want.Text
		}
	}
	return ""
}

func zonesOf(maps string) []string {
	var out []string
	zones, _ := Zones(maps)
	for _, z := range zones {
		out = append(out, z.Pair())
	}
	slices.Sort(out)
	return out
}

// GroupsOfAddresses reports whether an NLB's server groups hold addresses instead of servers, even for nodes (nlbv2/server_groups.go).
func GroupsOfAddresses(svc *corev1.Service) bool {
	kind, _ := Annotation(svc, "server-group-type")
	return NLB(svc) && strings.EqualFold(kind, "ip")
}

// HasInternalIP reports whether a node has the address that the controller puts into such groups.
func HasInternalIP(n *corev1.Node) bool { return internalIP(n) != "" }

// internalIP returns that address, or "" (GetNodeInternalIP in helper/node_utils.go).
func internalIP(n *corev1.Node) string {
	for _, a := range n.Status.Addresses {
		if ip, err := netip.ParseAddr(a.Address); err == nil && ip.Is4() && a.Type == corev1.NodeInternalIP {
			return a.Address
		}
	}
	return ""
}
