package remedy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/lbremedy/lbremedy/shared/cloud"
)

// A Network is what could be found out about the NLB of a Service.
type Network struct {
	LB     *cloud.NetworkLoadBalancer  // nil: none was found
	By     string                      // how it was found: "label", "DNS name", "tag" or "name"
	Gone   string                      // an ID that the Service had and that the API says does not exist
	Tagged []cloud.NetworkLoadBalancer // all that carry the Service's name tag
	Where  string                      // account and region that were asked
}

// Network finds the NLB of the case's Service, as Balancer finds a CLB: by the ID
// that the controller left on it, then by the DNS name that is its address, then
// by name tag and default name. DNS names are the cloud's own, so that one is
// proof whatever the VPC. It needs NetworkReads and GetCallerIdentity.
func (c *Case) Network(ctx context.Context) (Network, error) {
	var n Network
	who, err := c.Cloud.STS.Identity(ctx)
	if err != nil {
		return n, fmt.Errorf("ask which account this is: %w", err)
	}
	n.Where = fmt.Sprintf("account %s, region %s", who.Account, c.Cloud.Region())

	name := DefaultName(c.Service)
	n.Tagged, err = c.Cloud.NLB.Find(ctx, cloud.NLBFilter{TagKey: NameTag, TagValue: name})
	if err != nil {
		return n, fmt.Errorf("list NLBs with the tag %s=%s: %w", NameTag, name, err)
	}
	if id := c.Service.Labels[BalancerLabel]; id != "" {
		lb, err := c.Cloud.NLB.LoadBalancer(ctx, id)
		switch {
		case err == nil && (lb.DNSName == Address(c.Service) || !Synced(c.Service)):
			return c.foundNLB(ctx, n, lb, "label")
		case err == nil: // the label is evidence, and the address is better evidence
		case !errors.Is(err, cloud.ErrNotFound):
			return n, fmt.Errorf("describe NLB %s: %w", id, err)
		default:
			n.Gone = id
		}
	}
	if host := Address(c.Service); host != "" {
		lbs, err := c.Cloud.NLB.Find(ctx, cloud.NLBFilter{DNSName: host})
		if err != nil {
			return n, fmt.Errorf("list NLBs with the DNS name %s: %w", host, err)
		}
		lbs = slices.DeleteFunc(lbs, func(lb cloud.NetworkLoadBalancer) bool { return lb.DNSName != host })
		if len(lbs) == 1 {
			return c.foundNLB(ctx, n, lbs[0], "DNS name")
		}
	}
	if len(n.Tagged) == 1 {
		return c.foundNLB(ctx, n, n.Tagged[0], "tag")
	}
	if len(n.Tagged) == 0 {
		named, err := c.Cloud.NLB.Find(ctx, cloud.NLBFilter{Name: name})
		if err != nil {
			return n, fmt.Errorf("list NLBs named %s: %w", name, err)
		}
		named = slices.DeleteFunc(named, func(lb cloud.NetworkLoadBalancer) bool { return lb.Name != name })
		if len(named) == 1 {
			return c.foundNLB(ctx, n, named[0], "name")
		}
	}
	return n, nil
}

// foundNLB completes an NLB with what lists may leave out.
func (c *Case) foundNLB(ctx context.Context, n Network, lb cloud.NetworkLoadBalancer, by string) (Network, error) {
	whole, err := c.Cloud.NLB.LoadBalancer(ctx, lb.ID)
	if err != nil {
		return n, fmt.Errorf("describe NLB %s: %w", lb.ID, err)
	}
	whole.Tags, err = c.Cloud.NLB.Tags(ctx, lb.ID)
	if err != nil {
		return n, fmt.Errorf("list tags of NLB %s: %w", lb.ID, err)
	}
	n.LB, n.By = &whole, by
	return n, nil
}

// NetworkOwner finds out whose the NLB is, and the evidence, as a sentence. What
// vServer groups are for a CLB, listeners are for an NLB: their descriptions name
// the Service that they were made for.
func (c *Case) NetworkOwner(ctx context.Context, lb *cloud.NetworkLoadBalancer) (Owner, string, error) {
	listeners, err := c.Cloud.NLB.Listeners(ctx, lb.ID)
	if err != nil {
		return Unproven, "", fmt.Errorf("list listeners of %s: %w", lb.ID, err)
	}
	m := traces{id: lb.ID, tags: lb.Tags, reason: lb.ProtectionReason, cluster: c.Event.Cluster, what: "listener"}
	for _, l := range listeners {
		if l.Port == apiServerPort && lb.Tags[ClusterTag] != "" {
			return APIServer, servesAPI(lb.ID), nil
		}
		m.add(c, l.Description)
	}
	if lb.Tags[ReusedTag] != "" {
		return Users, reusedBy(lb.ID), nil
	}
	owner, evidence := m.judge()
	return owner, evidence, nil
}

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
	if reused && network(*lb).ByController() {
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
