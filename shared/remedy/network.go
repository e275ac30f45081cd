package remedy

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/cloud"
)

// networkDrift returns what a full sync of the Service would change on its NLB,
// one clause each. Resource group and IP version are not among it: a sync never
// changes them, it fails.
func (c *Case) networkDrift(ctx context.Context, lb *cloud.NetworkLoadBalancer) ([]string, error) {
	drift := texts(Differences(c.Service, Network(*lb)))
	if !OwnsListeners(c.Service) {
		return drift, nil
	}
	listeners, err := c.Cloud.NLB.Listeners(ctx, lb.ID)
	if err != nil {
		return nil, fmt.Errorf("list listeners of %s: %w", lb.ID, err)
	}
	return append(drift, texts(NetworkListenerDifferences(c.Service, listeners, c.Event.Cluster))...), nil
}

func networkDifferences(svc *corev1.Service, lb *cloud.NetworkLoadBalancer) []Difference {
	var drift []Difference
	value := func(short string) string { v, _ := Annotation(svc, short); return v }
	differ := func(what, is, want, short, keep string) {
		drift = append(drift, Difference{Text: fmt.Sprintf("%s %s and the annotations say %s", what, is, clipped(want)), Keep: short, Is: keep})
	}
	if want := value("address-type"); want != "" && !strings.EqualFold(lb.AddressType, want) {
		differ("the address type is", or(lb.AddressType, "empty"), want, "address-type", strings.ToLower(lb.AddressType))
	}
	if want := value("name"); want != "" && want != lb.Name {
		differ("the name is", or(lb.Name, "empty"), want, "name", lb.Name)
	}
	if maps := value("zone-maps"); maps != "" {
		if want, is := zonesOf(maps), zonesOf(ZoneMaps(lb)); !slices.Equal(want, is) {
			differ("its zones are", strings.Join(is, ","), strings.Join(want, ","), "zone-maps", ZoneMaps(lb))
		}
	}
	if groups, ok := svc.Annotations[Prefix+"security-group-ids"]; ok {
		want := strings.FieldsFunc(groups, func(r rune) bool { return r == ',' })
		slices.Sort(want)
		if is := strings.Join(lb.SecurityGroups, ","); !slices.Equal(want, lb.SecurityGroups) {
			differ("its security groups are", or(is, "none"), or(groups, "none"), "security-group-ids", is)
		}
	}
	return drift
}

// NetworkListenerDifferences returns what a full sync of the Service of this cluster
// would change on the listeners of its NLB, if it sets them.
func NetworkListenerDifferences(svc *corev1.Service, listeners []cloud.NetworkListener, cluster string) []Difference {
	var drift []Difference
	ranges, _ := Annotation(svc, "listener-port-range")
	wanted := map[string]bool{}
	for _, p := range svc.Spec.Ports {
		key := ListenerKey(svc, p)
		wanted[key] = true
		i := slices.IndexFunc(listeners, func(l cloud.NetworkListener) bool { return l.Protocol+":"+fmt.Sprint(l.Port) == key })
		switch {
		case i < 0 && ranges == "":
			drift = append(drift, Difference{Text: fmt.Sprintf("there is no listener %s", key), Down: true})
		case i >= 0 && listeners[i].Status == "Stopped":
			drift = append(drift, Difference{Text: fmt.Sprintf("listener %s is Stopped and would be started", key), Down: true})
		}
	}
	for _, l := range listeners {
		key := l.Protocol + ":" + fmt.Sprint(l.Port)
		if t, ok := ParseTrace(l.Description); ok && t.Of(svc, cluster) && l.Port != 0 && !wanted[key] {
			drift = append(drift, Difference{Text: fmt.Sprintf("listener %s has no port of the Service and would be deleted", key)})
		}
	}
	return drift
}

// ZoneMaps returns the zones of the NLB as the annotation zone-maps has them.
func ZoneMaps(lb *cloud.NetworkLoadBalancer) string {
	var parts []string
	for _, z := range lb.Zones {
		parts = append(parts, z.Zone+":"+z.VSwitch)
	}
	return strings.Join(parts, ",")
}

// zonesOf returns the zone:vSwitch pairs of a zone map, sorted; addresses behind
// them are left out.
func zonesOf(maps string) []string {
	var out []string
	for part := range strings.SplitSeq(maps, ",") {
		fields := strings.Split(strings.TrimSpace(part), ":")
		out = append(out, strings.Join(fields[:min(len(fields), 2)], ":"))
	}
	slices.Sort(out)
	return out
}
