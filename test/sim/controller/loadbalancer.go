package controller

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/requests"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/slb"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/vpc"
	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
)

const (
	tagOwn     = "kubernetes.do.not.delete"  // on load balancers that the controller created
	tagReused  = "kubernetes.reused.by.user" // on load balancers that the Service named
	tagCluster = "ack.aliyun.com"            // set by ACK, also on the API server's

	// mostTags is the controller's own limit: it does not tag a load balancer that has this many tags.
	mostTags = 10

	addressInternet = "internet"
	addressIntranet = "intranet"
	networkClassic  = "classic"
	payBySpec       = "PayBySpec"
	payByCLCU       = "PayByCLCU"
	defaultSpec     = "slb.s1.small"
	protected       = "ConsoleProtection"
	unprotected     = "NonProtection"
	protectedBy     = "managed.by.ack"
)

// A balancer is a load balancer: a wanted one with the requested fields, an existing one with those of the cloud.
type balancer struct {
	id, name, address, addressType, ipVersion string
	network, vswitch, masterZone, slaveZone   string
	resourceGroup, spec, charge               string
	internetCharge                            string
	bandwidth                                 int
	deleteProtection, modificationProtection  string // on or off; ConsoleProtection or NonProtection
	tags                                      map[string]string
	groups                                    groups
	listeners                                 []*listener

	reused   bool // named by the Service: not the controller's own
	preserve bool // kept when the Service is deleted
	fresh    bool // created in this sync
}

func (p *pass) preserves() bool {
	return p.annotation("preserve-lb-on-delete") != ""
}

func (p *pass) wantedAttributes() (*balancer, error) {
	want := &balancer{
		id:                     p.annotation("id"),
		name:                   p.annotation("name"),
		address:                p.annotation("ip"),
		addressType:            p.annotation("address-type"),
		ipVersion:              p.annotation("ip-version"),
		network:                p.annotation("network-type"),
		vswitch:                p.annotation("vswitch-id"),
		masterZone:             p.annotation("master-zoneid"),
		slaveZone:              p.annotation("slave-zoneid"),
		resourceGroup:          p.annotation("resource-group-id"),
		spec:                   p.annotation("spec"),
		charge:                 p.annotation("instance-charge-type"),
		internetCharge:         p.annotation("charge-type"),
		deleteProtection:       p.annotation("delete-protection"),
		modificationProtection: p.annotation("modification-protection"),
		tags:                   pairs(p.annotation("additional-resource-tags")),
		preserve:               p.preserves(),
	}
	want.reused = want.id != ""
	if s := p.annotation("bandwidth"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			return nil, fmt.Errorf("bandwidth must be integer, got [%s], error: %w", s, err)
		}
		want.bandwidth = n
	}
	return want, nil
}

// find fills in lb by the ID that the Service names, which must exist, by tag, or by name. The ID is empty if none exists. The
// label with the ID is not used.
func (p *pass) find(ctx context.Context, lb *balancer) error {
	if id := cmp.Or(p.annotation("id"), lb.id); id != "" {
		lb.id = id
		return p.describe(ctx, lb)
	}
	tag, err := json.Marshal([]map[string]string{{"TagKey": tagOwn, "TagValue": p.name}})
	if err != nil {
		return fmt.Errorf("tags marshal error: %w", err)
	}
	byTag, byName := slb.CreateDescribeLoadBalancersRequest(), slb.CreateDescribeLoadBalancersRequest()
	byTag.Tags = string(tag)
	byName.LoadBalancerName = p.name
	for _, by := range []struct {
		req         *slb.DescribeLoadBalancersRequest
		what, named string
	}{{byTag, "tag", "tag"}, {byName, "name", "name " + p.name}} {
		resp := slb.CreateDescribeLoadBalancersResponse()
		if err := p.cloud.call(ctx, by.req, resp); err != nil {
			return fmt.Errorf("[%s/%s] find loadbalancer by %s error: %w", p.svc.Namespace, p.svc.Name, by.named, err)
		}
		found := resp.LoadBalancers.LoadBalancer
		if len(found) > 1 {
			var ids []string
			for _, f := range found {
				ids = append(ids, f.LoadBalancerId)
			}
			return fmt.Errorf("[%s/%s] find multiple loadbalances by %s, lbIds[%s]", p.svc.Namespace, p.svc.Name, by.what, strings.Join(ids, ","))
		}
		if len(found) == 1 {
			lb.load(found[0])
			return nil
		}
	}
	return nil
}

func (p *pass) describe(ctx context.Context, lb *balancer) error {
	req, resp := slb.CreateDescribeLoadBalancerAttributeRequest(), slb.CreateDescribeLoadBalancerAttributeResponse()
	req.LoadBalancerId = lb.id
	if err := p.cloud.call(ctx, req, resp); err != nil {
		return err
	}
	lb.load(slb.LoadBalancer{
		LoadBalancerId: resp.LoadBalancerId, LoadBalancerName: resp.LoadBalancerName, Address: resp.Address,
		AddressType: resp.AddressType, AddressIPVersion: resp.AddressIPVersion, VSwitchId: resp.VSwitchId,
		MasterZoneId: resp.MasterZoneId, SlaveZoneId: resp.SlaveZoneId, ResourceGroupId: resp.ResourceGroupId,
		NetworkType: resp.NetworkType, LoadBalancerSpec: resp.LoadBalancerSpec, InstanceChargeType: resp.InstanceChargeType,
		InternetChargeTypeAlias: resp.InternetChargeType, Bandwidth: resp.Bandwidth,
		DeleteProtection: resp.DeleteProtection, ModificationProtectionStatus: resp.ModificationProtectionStatus,
	})
	return nil
}

func (lb *balancer) load(r slb.LoadBalancer) {
	lb.id, lb.name, lb.address = r.LoadBalancerId, r.LoadBalancerName, r.Address
	lb.addressType, lb.ipVersion = r.AddressType, r.AddressIPVersion
	lb.network, lb.vswitch, lb.masterZone, lb.slaveZone = r.NetworkType, r.VSwitchId, r.MasterZoneId, r.SlaveZoneId
	lb.resourceGroup, lb.spec, lb.charge = r.ResourceGroupId, r.LoadBalancerSpec, r.InstanceChargeType
	lb.internetCharge, lb.bandwidth = cmp.Or(r.InternetChargeTypeAlias, r.InternetChargeType), r.Bandwidth
	lb.deleteProtection, lb.modificationProtection = r.DeleteProtection, r.ModificationProtectionStatus
}

func (p *pass) tagsOf(ctx context.Context, lb string) (map[string]string, error) {
	if !p.version.since("v2.5.0") {
		return p.firstTagsOf(ctx, lb)
	}
	req := slb.CreateListTagResourcesRequest()
	req.ResourceType, req.ResourceId = "instance", &[]string{lb}
	tags := map[string]string{}
	for {
		resp := slb.CreateListTagResourcesResponse()
		if err := p.cloud.call(ctx, req, resp); err != nil {
			return nil, err
		}
		for _, t := range resp.TagResources.TagResource {
			tags[t.TagKey] = t.TagValue
		}
		if resp.NextToken == "" {
			return tags, nil
		}
		req.NextToken = resp.NextToken
	}
}

func (p *pass) firstTagsOf(ctx context.Context, lb string) (map[string]string, error) {
	req, resp := slb.CreateDescribeTagsRequest(), slb.CreateDescribeTagsResponse()
	req.LoadBalancerId = lb
	if err := p.cloud.call(ctx, req, resp); err != nil {
		return nil, err
	}
	tags := map[string]string{}
	for _, t := range resp.TagSets.TagSet {
		tags[t.TagKey] = t.TagValue
	}
	return tags, nil
}

// settle deletes or creates the load balancer, or checks that the existing one may be used.
func (p *pass) settle(ctx context.Context, want, remote *balancer) error {
	if deleting(p.svc) {
		return p.let(ctx, want, remote)
	}
	ingress := p.svc.Status.LoadBalancer.Ingress
	if remote.id == "" {
		if len(ingress) > 0 {
			return p.gone()
		}
		id, err := p.create(ctx, want)
		if err != nil {
			return fmt.Errorf("create lb error: %w", err)
		}
		remote.id, remote.fresh = id, true
		if err := p.find(ctx, remote); err != nil {
			return fmt.Errorf("update remote model for lbId %s, error: %w", remote.id, err)
		}
		// The tags are those of the creation; they are not read again.
		remote.tags = map[string]string{tagOwn: p.name}
	}
	if !want.reused {
		return nil
	}
	if reason := p.unusable(remote, ingress); reason != "" {
		return fmt.Errorf("alicloud: the loadbalancer %s can not be reused, %s", remote.id, reason)
	}
	return nil
}

func (p *pass) unusable(lb *balancer, ingress []corev1.LoadBalancerIngress) string {
	_, own := lb.tags[tagOwn]
	_, cluster := lb.tags[tagCluster]
	if own || cluster {
		return "can not reuse loadbalancer created by kubernetes."
	}
	// With an EIP the status shows another address. Before v2.7.0 the check ignored that, and such a Service could no longer be changed.
	shown := p.annotation("external-ip-type") == "eip" && p.version.since("v2.7.0")
	if shown || len(ingress) == 0 {
		return ""
	}
	bound := func(i corev1.LoadBalancerIngress) bool { return i.IP == lb.address || i.Hostname != "" && i.IP == "" }
	if slices.ContainsFunc(ingress, bound) {
		return ""
	}
	return fmt.Sprintf("service has been associated with ip [%v], cannot be bound to ip [%s]", ingress[0].IP, lb.address)
}

// create creates a load balancer and returns its ID. Without a vSwitch of its own it uses a random one; if that is full, releases since
// v2.13.0 look for one with room. Before v2.10.0 tags were set afterwards; a load balancer that got none is later found by name.
func (p *pass) create(ctx context.Context, want *balancer) (string, error) {
	lb := *want
	lb.addressType = cmp.Or(lb.addressType, addressInternet)
	lb.name = cmp.Or(lb.name, p.name)
	lb.deleteProtection = cmp.Or(lb.deleteProtection, "on")
	lb.tags = map[string]string{tagOwn: p.name, tagCluster: p.ClusterID}
	maps.Copy(lb.tags, want.tags)
	switch {
	case p.bySpec(lb.charge):
		lb.spec = cmp.Or(lb.spec, defaultSpec)
	case lb.charge == "" || p.version.since(sinceByUse) && strings.EqualFold(lb.charge, payByCLCU):
		lb.charge = payByCLCU // whatever the spec
	}
	if lb.addressType == addressIntranet && lb.network == networkClassic {
		lb.vswitch = "" // a classic network, without vSwitches
	} else if lb.addressType == addressIntranet && lb.vswitch == "" {
		if len(p.vswitches) == 0 {
			return "", errors.New("set model default value error: get vsw id from metadata error: no vswitches found")
		}
		lb.vswitch = p.vswitches[p.Pick(len(p.vswitches))]
	}
	id, err := p.createIn(ctx, &lb)
	if hasCode(err, "VSwitchAvailableIpNotExist") && want.vswitch == "" && p.version.since("v2.13.0") {
		if lb.vswitch, err = p.roomy(ctx, lb.vswitch); err != nil {
			return "", fmt.Errorf("get available vswitch id error: %w", err)
		}
		id, err = p.createIn(ctx, &lb)
	}
	if err != nil {
		return "", fmt.Errorf("create slb error: %w", err)
	}
	if !p.version.since("v2.10.0") {
		return id, p.tag(ctx, id, lb.tags)
	}
	return id, nil
}

// sinceByUse is the first release that bills by use by default; before, a missing charge type meant billing by spec.
const sinceByUse = "v2.12.1"

func (p *pass) bySpec(charge string) bool {
	return strings.EqualFold(charge, payBySpec) || charge == "" && !p.version.since(sinceByUse)
}

// createIn sends the creation. Since v2.10.0 the client token stays the same until the controller deletes the load balancer.
func (p *pass) createIn(ctx context.Context, lb *balancer) (string, error) {
	req, resp := slb.CreateCreateLoadBalancerRequest(), slb.CreateCreateLoadBalancerResponse()
	req.ClientToken = uuid.NewString()
	if p.version.since("v2.10.0") {
		req.ClientToken = p.tokens.of(p.name)
	}
	req.LoadBalancerName, req.Address, req.AddressType, req.AddressIPVersion = lb.name, lb.address, lb.addressType, lb.ipVersion
	if lb.addressType == addressIntranet && lb.network != networkClassic {
		req.VpcId = p.VPC
	}
	req.VSwitchId, req.MasterZoneId, req.SlaveZoneId = lb.vswitch, lb.masterZone, lb.slaveZone
	req.ResourceGroupId, req.LoadBalancerSpec, req.InstanceChargeType = lb.resourceGroup, lb.spec, lb.charge
	req.InternetChargeType, req.DeleteProtection = lb.internetCharge, lb.deleteProtection
	if lb.bandwidth != 0 {
		req.Bandwidth = requests.NewInteger(lb.bandwidth)
	}
	req.ModificationProtectionStatus = lb.modificationProtection
	if lb.modificationProtection == "" && p.version.since("v1.9.3.304") {
		req.ModificationProtectionStatus, req.ModificationProtectionReason = protected, protectedBy
	}
	if p.version.since("v2.10.0") {
		var tags []slb.CreateLoadBalancerTag
		for _, k := range sorted(lb.tags) {
			tags = append(tags, slb.CreateLoadBalancerTag{Key: k, Value: lb.tags[k]})
		}
		req.Tag = &tags
	}
	if err := p.cloud.call(ctx, req, resp); err != nil {
		return "", err
	}
	return resp.LoadBalancerId, nil
}

// roomy returns the controller's first vSwitch with a free address, except the full one. It reads them one by one, skipping unreadable ones.
func (p *pass) roomy(ctx context.Context, full string) (string, error) {
	for _, id := range p.vswitches {
		if id == full {
			continue
		}
		req, resp := vpc.CreateDescribeVSwitchesRequest(), vpc.CreateDescribeVSwitchesResponse()
		req.VSwitchId = id
		if err := p.cloud.raw(ctx, req, resp); err != nil {
			p.Log.Warn("describe vswitch", "vswitch", id, "error", err)
			continue
		}
		if found := resp.VSwitches.VSwitch; len(found) > 0 && found[0].AvailableIpAddressCount != 0 {
			return id, nil
		}
	}
	return "", errors.New("no available vsw found")
}

// let deletes the controller's own load balancer, or keeps it without protection and tags if the Service says so.
func (p *pass) let(ctx context.Context, want, remote *balancer) error {
	if want.reused || remote.id == "" {
		return nil
	}
	id := remote.id
	if want.preserve {
		if err := p.unprotect(ctx, remote); err != nil {
			return fmt.Errorf("set loadbalancer [%s] protections off error: %w", id, err)
		}
		var keys []string
		for k, v := range map[string]string{tagOwn: p.name, tagCluster: p.ClusterID} {
			if remote.tags[k] == v {
				keys = append(keys, k)
			}
		}
		if len(keys) == 0 {
			return nil
		}
		return wrap(fmt.Sprintf("cleanup loadbalancer [%s] tags error", id), p.untag(ctx, id, keys...))
	}
	if err := p.unlock(ctx, remote); err != nil {
		return fmt.Errorf("delete loadbalancer [%s] error: %w", id, err)
	}
	p.tokens.forget(p.name)
	req := slb.CreateDeleteLoadBalancerRequest()
	req.LoadBalancerId = id
	if err := p.cloud.call(ctx, req, slb.CreateDeleteLoadBalancerResponse()); err != nil {
		return fmt.Errorf("delete loadbalancer [%s] error: %w", id, err)
	}
	*remote = balancer{}
	return nil
}

func (p *pass) unlock(ctx context.Context, lb *balancer) error {
	if lb.deleteProtection != "on" {
		return nil
	}
	return wrap(fmt.Sprintf("error to set slb id [%s] delete protection off, svc [%s/%s], err", lb.id, p.svc.Namespace, p.svc.Name),
		p.protectFromDeletion(ctx, lb.id, "off"))
}

func (p *pass) unprotect(ctx context.Context, lb *balancer) error {
	if err := p.unlock(ctx, lb); err != nil || lb.modificationProtection != protected {
		return err
	}
	return wrap(fmt.Sprintf("error to set slb id [%s] modification protection off, svc [%s/%s], err", lb.id, p.svc.Namespace, p.svc.Name),
		p.protectFromChange(ctx, lb.id, unprotected))
}

// update makes the attributes match the Service. Each change of an attribute that is fixed at creation is an error.
func (p *pass) update(ctx context.Context, want, remote *balancer) error {
	var errs []error
	tag, value := tagOwn, p.name
	if want.reused {
		tag, value = tagReused, "true"
	}
	if _, ok := remote.tags[tag]; !ok && len(remote.tags) < mostTags {
		errs = append(errs, wrap("AddTags", p.tag(ctx, remote.id, map[string]string{tag: value})))
	}
	// A Service being deleted wants IPv4, too, so it cannot give up an IPv6 load balancer that is kept.
	ipVersion := cmp.Or(want.ipVersion, "ipv4")
	for _, f := range []struct{ want, have, text string }{
		{want.masterZone, remote.masterZone, "can not change LoadBalancer master zone id once created"},
		{want.slaveZone, remote.slaveZone, "can not change LoadBalancer slave zone id once created"},
		{want.addressType, remote.addressType, "can not change LoadBalancer AddressType once created. delete and retry"},
		{ipVersion, cmp.Or(remote.ipVersion, "ipv4"), "can not change LoadBalancer AddressIPVersion once created"},
		{want.network, remote.network, "can not change LoadBalancer network type once created"},
		{want.resourceGroup, remote.resourceGroup, "can not change ResourceGroupId once created"},
		{want.address, remote.address, "can not change LoadBalancer address once created"},
	} {
		if f.want != "" && f.want != f.have {
			errs = append(errs, fmt.Errorf("alicloud: %s", f.text))
		}
	}
	errs = append(errs,
		wrap("updateInstanceChargeTypeAndInstanceSpec error", p.updateCharge(ctx, want, remote)),
		wrap("ModifyLoadBalancerInternetSpec", p.updateInternet(ctx, want, remote)))
	errs = append(errs, p.flags(ctx, want, remote)...)
	if len(want.tags) > 0 && p.version.since("v2.10.0") {
		errs = append(errs, p.updateTags(ctx, want, remote))
	}
	return aggregate(errs)
}

func (p *pass) flags(ctx context.Context, want, remote *balancer) (errs []error) {
	if want.deleteProtection != "" && want.deleteProtection != remote.deleteProtection {
		errs = append(errs, wrap("SetLoadBalancerDeleteProtection", p.protectFromDeletion(ctx, remote.id, want.deleteProtection)))
	}
	if want.modificationProtection != "" && want.modificationProtection != remote.modificationProtection {
		errs = append(errs, wrap("SetLoadBalancerModificationProtection", p.protectFromChange(ctx, remote.id, want.modificationProtection)))
	}
	if want.name != "" && want.name != remote.name {
		req := slb.CreateSetLoadBalancerNameRequest()
		req.LoadBalancerId, req.LoadBalancerName = remote.id, want.name
		errs = append(errs, wrap("SetLoadBalancerName", p.cloud.call(ctx, req, slb.CreateSetLoadBalancerNameResponse())))
	}
	return errs
}

// updateCharge changes the charge type or the spec. A value that differs only in case causes a call in every sync. Before v2.8.0
// a spec was sent for every charge type.
func (p *pass) updateCharge(ctx context.Context, want, remote *balancer) error {
	if want.charge != "" && want.charge != remote.charge {
		req := slb.CreateModifyLoadBalancerInstanceChargeTypeRequest()
		req.LoadBalancerId, req.InstanceChargeType = remote.id, want.charge
		if p.bySpec(want.charge) {
			req.LoadBalancerSpec = cmp.Or(want.spec, defaultSpec)
		}
		return p.cloud.call(ctx, req, slb.CreateModifyLoadBalancerInstanceChargeTypeResponse())
	}
	bySpec := p.bySpec(remote.charge) || !p.version.since("v2.8.0")
	if !bySpec || want.spec == "" || want.spec == remote.spec {
		return nil
	}
	req := slb.CreateModifyLoadBalancerInstanceSpecRequest()
	req.LoadBalancerId, req.LoadBalancerSpec = remote.id, want.spec
	return p.cloud.call(ctx, req, slb.CreateModifyLoadBalancerInstanceSpecResponse())
}

func (p *pass) updateInternet(ctx context.Context, want, remote *balancer) error {
	charge, bandwidth, differs := remote.internetCharge, remote.bandwidth, false
	if want.internetCharge != "" && want.internetCharge != charge {
		charge, differs = want.internetCharge, true
	}
	if want.bandwidth != 0 && want.bandwidth != bandwidth && want.internetCharge == "paybybandwidth" {
		bandwidth, differs = want.bandwidth, true
	}
	if !differs || remote.addressType != addressInternet {
		return nil
	}
	req := slb.CreateModifyLoadBalancerInternetSpecRequest()
	req.LoadBalancerId, req.InternetChargeType, req.Bandwidth = remote.id, charge, requests.NewInteger(bandwidth)
	return p.cloud.call(ctx, req, slb.CreateModifyLoadBalancerInternetSpecResponse())
}

// updateTags makes the tags match the Service's list, and removes others, except those of the controller and the cloud.
func (p *pass) updateTags(ctx context.Context, want, remote *balancer) error {
	about := func(doing string, tags any) string {
		return fmt.Sprintf("error to %s slb id [%s] with tags %v, svc [%s/%s], err", doing, remote.id, tags, p.svc.Namespace, p.svc.Name)
	}
	put := map[string]string{}
	for k, v := range want.tags {
		if old, ok := remote.tags[k]; !reserved(k) && (!ok || old != v) {
			put[k] = v
		}
	}
	if len(put) > 0 {
		if err := p.tag(ctx, remote.id, put); err != nil {
			return wrap(about("tag", put), err)
		}
	}
	var drop []string
	for _, k := range sorted(remote.tags) {
		if _, ok := want.tags[k]; !ok && !reserved(k) {
			drop = append(drop, k)
		}
	}
	if len(drop) == 0 {
		return nil
	}
	return wrap(about("untag", drop), p.untag(ctx, remote.id, drop...))
}

func reserved(key string) bool {
	return key == tagOwn || key == tagReused || key == tagCluster || strings.HasPrefix(key, "acs:")
}

// tag adds tags. Before v2.5.0 another action did so.
func (p *pass) tag(ctx context.Context, lb string, tags map[string]string) error {
	if !p.version.since("v2.5.0") {
		return p.firstTag(ctx, lb, tags)
	}
	var list []slb.TagResourcesTag
	for _, k := range sorted(tags) {
		list = append(list, slb.TagResourcesTag{Key: k, Value: tags[k]})
	}
	req := slb.CreateTagResourcesRequest()
	req.ResourceType, req.ResourceId, req.Tag = "instance", &[]string{lb}, &list
	return p.cloud.call(ctx, req, slb.CreateTagResourcesResponse())
}

func (p *pass) firstTag(ctx context.Context, lb string, tags map[string]string) error {
	var list []map[string]string
	for _, k := range sorted(tags) {
		list = append(list, map[string]string{"TagKey": k, "TagValue": tags[k]})
	}
	text, err := json.Marshal(list)
	if err != nil {
		return fmt.Errorf("tags marshal error: %w", err)
	}
	req := slb.CreateAddTagsRequest()
	req.LoadBalancerId, req.Tags = lb, string(text)
	return p.cloud.call(ctx, req, slb.CreateAddTagsResponse())
}

func (p *pass) untag(ctx context.Context, lb string, keys ...string) error {
	req := slb.CreateUntagResourcesRequest()
	req.ResourceType, req.ResourceId, req.TagKey = "instance", &[]string{lb}, &keys
	return p.cloud.raw(ctx, req, slb.CreateUntagResourcesResponse())
}

func (p *pass) protectFromDeletion(ctx context.Context, lb, flag string) error {
	req := slb.CreateSetLoadBalancerDeleteProtectionRequest()
	req.LoadBalancerId, req.DeleteProtection = lb, flag
	return p.cloud.call(ctx, req, slb.CreateSetLoadBalancerDeleteProtectionResponse())
}

func (p *pass) protectFromChange(ctx context.Context, lb, status string) error {
	req := slb.CreateSetLoadBalancerModificationProtectionRequest()
	req.LoadBalancerId, req.ModificationProtectionStatus = lb, status
	if status == protected {
		req.ModificationProtectionReason = protectedBy
	}
	return p.cloud.call(ctx, req, slb.CreateSetLoadBalancerModificationProtectionResponse())
}

// tokens are the client tokens of creations, by the name of the load balancer. A token is kept until the controller deletes its
// load balancer, so a vanished one is created again with the same token. A restart discards them.
type tokens struct {
	mu sync.Mutex
	m  map[string]string
}

func (t *tokens) of(name string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.m == nil {
		t.m = map[string]string{}
	}
	if t.m[name] == "" {
		t.m[name] = uuid.NewString()
	}
	return t.m[name]
}

func (t *tokens) forget(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.m, name)
}
