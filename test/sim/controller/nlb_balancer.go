package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

func (p networkPass) wantedAttributes() (*networkBalancer, error) {
	want := &networkBalancer{
		id: p.annotation("id"), name: p.annotation("name"), resourceGroup: p.annotation("resource-group-id"),
		ipv6AddressType: p.annotation("ipv6-address-type"), bandwidth: p.annotation("bandwidth-package-id"),
		tags: pairs(p.annotation("additional-resource-tags")), preserve: p.preserves(),
	}
	want.reused = want.id != ""
	if want.reused && len(p.svc.Spec.LoadBalancerSourceRanges) > 0 && p.version.since("v2.14.0") {
		p.event(note{corev1.EventTypeWarning, "FeatureNotSupported", "LoadBalancerSourceRanges is not supported for user-managed LB."})
	}
	var err error
	if want.zones, err = parseZones(p.annotation("zone-maps"), want.reused); err != nil {
		return nil, err
	}
	if p.has("security-group-ids") {
		want.securityGroups = []string{}
		if s := p.annotation("security-group-ids"); s != "" {
			want.securityGroups = strings.Split(s, ",")
		}
	}
	for _, v := range []struct {
		annotation string
		field      *string
		values     []string
	}{
		{"address-type", &want.addressType, []string{"Internet", "Intranet"}},
		{"ip-version", &want.ipVersion, []string{"ipv4", "DualStack"}},
	} {
		*v.field = p.annotation(v.annotation)
		for _, s := range v.values {
			if strings.EqualFold(s, *v.field) {
				*v.field = s
			}
		}
	}
	switch v := strings.ToLower(p.annotation("cross-zone-enabled")); v {
	case "":
	case "on", "true":
		want.crossZone = "true"
	case "off", "false":
		want.crossZone = "false"
	default:
		return nil, fmt.Errorf("ParameterInvalid, cross zone enabled flag error: invalid flag %s", p.annotation("cross-zone-enabled"))
	}
	if !want.reused && p.version.since("v2.14.0") {
		want.sources = p.svc.Spec.LoadBalancerSourceRanges
	}
	return want, nil
}

// parseZones parses an annotation such as zone-a:vsw-1,zone-b:vsw-2:10.0.0.5:eip-1. Only a user's NLB may lack it.
func parseZones(s string, reused bool) ([]zoneMapping, error) {
	if s == "" && reused {
		return nil, nil
	}
	if s == "" {
		return nil, errors.New("ParameterMissing, zone mappings are required")
	}
	var zones []zoneMapping
	for m := range strings.SplitSeq(s, ",") {
		parts := strings.Split(m, ":")
		if len(parts) < 2 {
			return nil, fmt.Errorf("ZoneMapping format error, expect [zone-a:vsw-id-1,zone-b:vsw-id-2], got %s", s)
		}
		parts = append(parts, "", "")
		zones = append(zones, zoneMapping{parts[0], parts[1], parts[2], parts[3]})
	}
	return zones, nil
}

func (p networkPass) settle(ctx context.Context, want, lb *networkBalancer) error {
	if deleting(p.svc) {
		return p.let(ctx, want, lb)
	}
	if lb.id == "" {
		if len(p.svc.Status.LoadBalancer.Ingress) > 0 {
			return p.gone() // a host name is omitted
		}
		id, err := p.create(ctx, want)
		if err != nil {
			return fmt.Errorf("create nlb error: %w", err)
		}
		lb.id = id
		if err := p.find(ctx, lb); err != nil {
			return fmt.Errorf("update remote model for lbId %s, error: %w", lb.id, err)
		}
		// CreateLoadBalancer lacks these parameters. All of them are compared again later, with the state read here.
		if len(want.securityGroups) > 0 || want.ipv6AddressType != "" || want.crossZone != "" {
			if err := p.update(ctx, want, lb); err != nil {
				return err
			}
		}
	}
	if !want.reused {
		return nil
	}
	if reason := p.unusable(lb); reason != "" {
		return fmt.Errorf("the loadbalancer %s can not be reused, %s", lb.id, reason)
	}
	return nil
}

func (p networkPass) unusable(lb *networkBalancer) string {
	_, own := lb.tags[tagOwn]
	_, cluster := lb.tags[tagCluster]
	ingress := p.svc.Status.LoadBalancer.Ingress
	switch {
	case own || cluster:
		return "can not reuse loadbalancer created by kubernetes."
	case len(ingress) == 0, slices.ContainsFunc(ingress, func(i corev1.LoadBalancerIngress) bool { return i.Hostname == lb.dns }):
		return ""
	}
	return fmt.Sprintf("service has been associated with dnsname [%v], cannot be bound to dnsname [%s]", ingress[0].Hostname, lb.dns)
}

// create creates an NLB and returns its ID. Since v2.11.0 the call includes tags, and the client token stays the same until the
// controller deletes the NLB. Before v2.9.1 it had no protection.
func (p networkPass) create(ctx context.Context, want *networkBalancer) (string, error) {
	params := map[string]string{
		"LoadBalancerName": cmp.Or(want.name, p.name), "AddressType": cmp.Or(want.addressType, addressInternet), "VpcId": p.VPC,
	}
	if p.version.since("v2.9.1") {
		params["DeletionProtectionConfig.Enabled"] = "true"
		params["ModificationProtectionConfig.Status"], params["ModificationProtectionConfig.Reason"] = protected, protectedBy
	}
	say(params, "ResourceGroupId", want.resourceGroup)
	say(params, "AddressIpVersion", want.ipVersion)
	say(params, "BandwidthPackageId", want.bandwidth)
	sayZones(params, want.zones)
	tags := map[string]string{tagOwn: p.name, tagCluster: p.ClusterID}
	maps.Copy(tags, want.tags)
	atOnce := p.version.since("v2.11.0")
	if atOnce {
		params["ClientToken"] = p.tokens.of(p.name)
		sayTags(params, tags)
	}
	var a struct{ LoadbalancerId string }
	if err := p.ask(ctx, "CreateLoadBalancer", params, &a); err != nil || atOnce {
		return a.LoadbalancerId, err
	}
	return a.LoadbalancerId, p.tag(ctx, a.LoadbalancerId, tags)
}

func say(params map[string]string, name, value string) {
	if value != "" {
		params[name] = value
	}
}

func sayZones(params map[string]string, zones []zoneMapping) {
	for i, z := range zones {
		at := fmt.Sprintf("ZoneMappings.%d.", i+1)
		say(params, at+"ZoneId", z.zone)
		say(params, at+"VSwitchId", z.vswitch)
		say(params, at+"PrivateIPv4Address", z.address)
		say(params, at+"AllocationId", z.eip)
	}
}

func sayTags(params, tags map[string]string) map[string]string {
	for i, k := range sorted(tags) {
		at := fmt.Sprintf("Tag.%d.", i+1)
		params[at+"Key"], params[at+"Value"] = k, tags[k]
	}
	return params
}

func sayList(params map[string]string, name string, values []string) map[string]string {
	for i, v := range values {
		params[name+"."+strconv.Itoa(i+1)] = v
	}
	return params
}

// let deletes the controller's own NLB, or keeps it unprotected and untagged. It first reads the groups again: they may outlive the NLB.
func (p networkPass) let(ctx context.Context, want, lb *networkBalancer) error {
	if want.reused {
		return nil
	}
	if err := p.readGroups(ctx, lb); err != nil {
		return fmt.Errorf("build remote server group model error: DescribeVServerGroups error: %w", err)
	}
	if lb.id == "" {
		return nil
	}
	one := func() map[string]string { return map[string]string{"LoadBalancerId": lb.id} }
	if want.preserve {
		off := one()
		off["DeletionProtectionEnabled"], off["ModificationProtectionStatus"] = "false", unprotected
		if err := p.ask(ctx, "UpdateLoadBalancerProtection", off, nil); err != nil {
			return fmt.Errorf("set loadbalancer [%s] protections off error: error to set nlb id [%s] protections off, svc [%s], err: %w",
				lb.id, lb.id, p.service(), err)
		}
		var keys []string
		for k, v := range map[string]string{tagCluster: p.ClusterID, tagOwn: p.name} {
			if lb.tags[k] == v {
				keys = append(keys, k)
			}
		}
		if len(keys) == 0 {
			return nil
		}
		slices.Sort(keys)
		return wrap(fmt.Sprintf("cleanup loadbalancer [%s] tags error", lb.id), p.untag(ctx, "loadbalancer", lb.id, keys))
	}
	if err := p.remove(ctx, one); err != nil {
		return fmt.Errorf("delete nlb [%s] error: %w", lb.id, err)
	}
	lb.id, lb.dns = "", ""
	return nil
}

func (p networkPass) remove(ctx context.Context, one func() map[string]string) error {
	if p.version.since("v2.9.1") {
		off := one()
		off["DeletionProtectionEnabled"] = "false"
		if err := p.ask(ctx, "UpdateLoadBalancerProtection", off, nil); err != nil {
			return fmt.Errorf("disable delete protection error: %w", err)
		}
	}
	p.tokens.forget(p.name)
	var a job
	if err := p.ask(ctx, "DeleteLoadBalancer", one(), &a); err != nil {
		return err
	}
	return p.finished(ctx, a.JobId, deleteInterval, deleteLimit)
}

func (p networkPass) tag(ctx context.Context, lb string, tags map[string]string) error {
	return p.ask(ctx, "TagResources", sayTags(map[string]string{"ResourceType": "loadbalancer", "ResourceId.1": lb}, tags), nil)
}

func (p networkPass) untag(ctx context.Context, kind, id string, keys []string) error {
	return p.ask(ctx, "UntagResources", sayList(map[string]string{"ResourceType": kind, "ResourceId.1": id}, "TagKey", keys), nil)
}

func (p networkPass) update(ctx context.Context, want, lb *networkBalancer) error {
	var errs []error
	for _, f := range []struct{ name, want, have string }{
		{"AddressIpVersion", want.ipVersion, lb.ipVersion}, {"ResourceGroupId", want.resourceGroup, lb.resourceGroup},
	} {
		if f.want != "" && !strings.EqualFold(f.want, f.have) {
			errs = append(errs, fmt.Errorf("%s cannot be changed, service: %s, nlb: %s", f.name, f.want, f.have))
		}
	}
	one := func() map[string]string { return map[string]string{"LoadBalancerId": lb.id} }
	if want.addressType != "" && !strings.EqualFold(want.addressType, lb.addressType) {
		params := one()
		params["AddressType"] = want.addressType
		errs = append(errs, wrap("UpdateNLBAddressType error", p.ask(ctx, "UpdateLoadBalancerAddressTypeConfig", params, nil)))
	}
	moved := func(z zoneMapping) bool {
		return !slices.ContainsFunc(lb.zones, func(o zoneMapping) bool {
			return o.zone == z.zone && o.vswitch == z.vswitch && (z.address == "" || o.address == z.address) && (z.eip == "" || o.eip == z.eip)
		})
	}
	if slices.ContainsFunc(want.zones, moved) {
		params := one()
		sayZones(params, want.zones)
		errs = append(errs, wrap("update zone mappings error", p.ask(ctx, "UpdateLoadBalancerZones", params, nil)))
	}
	if err := p.updateSecurityGroups(ctx, want, lb); err != nil {
		err = fmt.Errorf("update security group ids error: %w", err)
		if !p.version.since("v2.9.1") {
			return err
		}
		errs = append(errs, err)
	}
	errs = append(errs, p.updateIPv6(ctx, want, lb), p.updateBandwidth(ctx, want, lb))
	if p.version.since("v2.10.0") {
		errs = append(errs, p.updateTags(ctx, want, lb))
	}
	errs = append(errs, p.updateRest(ctx, want, lb))
	return aggregate(errs)
}

func (p networkPass) updateIPv6(ctx context.Context, want, lb *networkBalancer) error {
	if want.ipv6AddressType == "" || strings.EqualFold(want.ipv6AddressType, lb.ipv6AddressType) {
		return nil
	}
	action := map[string]string{"internet": "EnableLoadBalancerIpv6Internet", "intranet": "DisableLoadBalancerIpv6Internet"}[strings.ToLower(want.ipv6AddressType)]
	if action == "" {
		return fmt.Errorf("UpdateNLBIPv6AddressType error: invalid ipv6 address type %s", want.ipv6AddressType)
	}
	return wrap("UpdateNLBIPv6AddressType error", p.ask(ctx, action, map[string]string{"LoadBalancerId": lb.id}, nil))
}

// updateBandwidth adds the NLB to a common bandwidth package, or removes it if the Service names an empty one.
func (p networkPass) updateBandwidth(ctx context.Context, want, lb *networkBalancer) error {
	if !p.has("bandwidth-package-id") || want.bandwidth == lb.bandwidth {
		return nil
	}
	if lb.bandwidth != "" {
		err := p.work(ctx, "DetachCommonBandwidthPackageFromLoadBalancer", map[string]string{"LoadBalancerId": lb.id, "BandwidthPackageId": lb.bandwidth})
		if err != nil {
			return err
		}
	}
	if want.bandwidth == "" {
		return nil
	}
	return p.ask(ctx, "AttachCommonBandwidthPackageToLoadBalancer", map[string]string{"LoadBalancerId": lb.id, "BandwidthPackageId": want.bandwidth}, nil)
}

// updateTags makes the tags match the Service's list, if any, and removes others, except those of the controller and the cloud.
func (p networkPass) updateTags(ctx context.Context, want, lb *networkBalancer) error {
	if len(want.tags) == 0 {
		return nil
	}
	about := func(doing string, tags map[string]string) string {
		var list []string
		for _, k := range sorted(tags) {
			list = append(list, "{"+k+" "+tags[k]+"}")
		}
		return fmt.Sprintf("error to %s slb id [%s] with tags %v, svc [%s], err", doing, lb.id, list, p.service())
	}
	ours := func(k string) bool {
		return k == tagOwn || k == tagCluster || want.reused && k == tagReused || strings.HasPrefix(k, "acs:")
	}
	put, drop := map[string]string{}, map[string]string{}
	for k, v := range want.tags {
		if old, ok := lb.tags[k]; !ours(k) && (!ok || old != v) {
			put[k] = v
		}
	}
	for k, v := range lb.tags {
		if _, ok := want.tags[k]; !ok && !ours(k) {
			drop[k] = v
		}
	}
	if len(put) > 0 {
		if err := p.tag(ctx, lb.id, put); err != nil {
			return wrap(about("tag", put), err)
		}
	}
	if len(drop) == 0 {
		return nil
	}
	return wrap(about("untag", drop), p.untag(ctx, "loadbalancer", lb.id, sorted(drop)))
}

func (p networkPass) updateRest(ctx context.Context, want, lb *networkBalancer) error {
	named := want.name != "" && want.name != lb.name
	crossed := want.crossZone != "" && want.crossZone != lb.crossZone
	if !named && !crossed {
		return nil
	}
	params := map[string]string{"LoadBalancerId": lb.id}
	say(params, "LoadBalancerName", want.name)
	say(params, "CrossZoneEnabled", want.crossZone)
	err := p.ask(ctx, "UpdateLoadBalancerAttribute", params, nil)
	if !p.version.since("v2.13.0") {
		return err
	}
	return wrap("UpdateNLBAttribute error", err)
}
