package remedy

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/lbremedy/lbremedy/shared/cloud"
)

// networkDrift returns what a full sync of the Service would change on its NLB,
// one clause each. Resource group and IP version are not among it: a sync never
// changes them, it fails.
func (c *Case) networkDrift(ctx context.Context, lb *cloud.NetworkLoadBalancer) ([]string, error) {
	var drift []string
	svc := c.Service
	value := func(short string) string { v, _ := Annotation(svc, short); return v }
	differ := func(what, is, want string) {
		if want != "" && !strings.EqualFold(is, want) {
			drift = append(drift, fmt.Sprintf("%s is %s and the annotations say %s", what, or(is, "empty"), clipped(want)))
		}
	}
	reused := value("id") != ""
	if reused && Network(*lb).ByController() {
		drift = append(drift, fmt.Sprintf("the reuse check fails, because %s carries a tag of the controller", lb.ID))
	}
	differ("the address type", lb.AddressType, value("address-type"))
	if want := value("name"); want != "" && want != lb.Name {
		differ("the name", lb.Name, want)
	}
	if maps := value("zone-maps"); maps != "" {
		if want, is := zonesOf(maps), zonesOf(ZoneMaps(lb)); !slices.Equal(want, is) {
			drift = append(drift, fmt.Sprintf("its zones are %s and the annotations say %s", strings.Join(is, ","), clipped(strings.Join(want, ","))))
		}
	}
	if groups, ok := svc.Annotations[Prefix+"security-group-ids"]; ok {
		want := strings.FieldsFunc(groups, func(r rune) bool { return r == ',' })
		slices.Sort(want)
		if !slices.Equal(want, lb.SecurityGroups) {
			drift = append(drift, fmt.Sprintf("its security groups are %s and the annotations say %s", or(strings.Join(lb.SecurityGroups, ","), "none"), clipped(or(groups, "none"))))
		}
	}
	if reused && value("force-override-listeners") != "true" {
		return drift, nil
	}
	listeners, err := c.Cloud.NLB.Listeners(ctx, lb.ID)
	if err != nil {
		return nil, fmt.Errorf("list listeners of %s: %w", lb.ID, err)
	}
	protocols := protocolsOf(value("protocol-port"))
	wanted := map[string]bool{}
	for _, p := range svc.Spec.Ports {
		key := strings.ToUpper(or(protocols[fmt.Sprint(p.Port)], string(p.Protocol))) + ":" + fmt.Sprint(p.Port)
		wanted[key] = true
		i := slices.IndexFunc(listeners, func(l cloud.NetworkListener) bool { return l.Protocol+":"+fmt.Sprint(l.Port) == key })
		switch {
		case i < 0 && value("listener-port-range") == "":
			drift = append(drift, fmt.Sprintf("there is no listener %s", key))
		case i >= 0 && listeners[i].Status == "Stopped":
			drift = append(drift, fmt.Sprintf("listener %s is Stopped and would be started", key))
		}
	}
	for _, l := range listeners {
		key := l.Protocol + ":" + fmt.Sprint(l.Port)
		if l.Port != 0 && !wanted[key] && strings.HasPrefix(l.Description, "k8s.") {
			drift = append(drift, fmt.Sprintf("listener %s has no port of the Service and would be deleted", key))
		}
	}
	return drift, nil
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
