package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/aliyun/alibaba-cloud-sdk-go/services/slb"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
)

// A firstCLB simulates the first generation of the controller, v1.9.3, a different program with other messages:
//
// - It sets no finalizer, so it keeps the load balancer of a Service that is deleted while it is down.
// - It creates the load balancer first, then groups, then listeners. Of several matches it takes the first.
// - An attribute that cannot be changed ends the sync.
// - A group of Pods behind a named port has port 0, which the cloud rejects.
// - Before v1.9.3.339 it stores no hash, and always syncs in full.
//
// Simplified: one call reads all listeners, instead of one call each.
type firstCLB struct{ *controller }

func (b firstCLB) kind() kind {
	return kind{component: "service-controller", refusesPublic: true, wants: wantsCLB, ensure: b.ensure, clean: b.clean}
}

func (v version) hashes() bool { return v.since("v1.9.3.339") }

type firstPass struct{ *pass }

func (b firstCLB) begin(svc *corev1.Service, events record.EventRecorder) firstPass {
	p := b.controller.begin(svc, events)
	p.tokens = &tokens{}
	p.changed = p.changed || !p.version.hashes()
	return firstPass{p}
}

// say writes an Event, unless the release has none for this case.
func (p firstPass) say(n note) {
	if n != (note{}) {
		p.event(n)
	}
}

func (b firstCLB) ensure(ctx context.Context, svc *corev1.Service, events record.EventRecorder) error {
	p := b.begin(svc, events)
	lb, err := p.sync(ctx)
	if err != nil {
		if !p.version.since("v1.9.3.239") {
			err = fmt.Errorf("failed to ensure load balancer for service %s: %w", p.service(), err)
		}
		p.say(p.version.syncFailed("", err))
		return err
	}
	if p.version.hashes() {
		if err := p.setHash(ctx, p.svc, p.hash, "", nil); err != nil {
			return err
		}
	}
	if err := p.setIngress(ctx, p.svc, []corev1.LoadBalancerIngress{{IP: lb.address}}); err != nil {
		return err
	}
	p.say(p.version.ensured("", p.service()))
	return nil
}

// clean deletes the load balancer of a Service that no longer wants one, or only the groups on a user's load balancer.
func (b firstCLB) clean(ctx context.Context, svc *corev1.Service, events record.EventRecorder) error {
	p := b.begin(svc, events)
	if err := p.end(ctx); err != nil {
		p.say(p.version.cleanFailed("", err))
		return err
	}
	if p.svc.DeletionTimestamp == nil && p.svc.Spec.Type != corev1.ServiceTypeLoadBalancer {
		if err := p.setLabels(ctx, p.svc, map[string]string{labelHash: ""}); err != nil {
			return err
		}
		if err := p.setIngress(ctx, p.svc, nil); err != nil {
			return err
		}
	}
	text := "Deleted load balancer"
	if p.version.since("v1.9.3.239") {
		text = "LoadBalancer Deleted SUCCESS. " + p.service()
	}
	p.say(note{corev1.EventTypeNormal, "DeletedLoadBalancer", text})
	return nil
}

func (p firstPass) end(ctx context.Context) error {
	lb, err := p.find(ctx)
	if err != nil || lb == nil {
		return err
	}
	if p.annotation("id") != "" {
		return p.tidy(ctx, lb, &balancer{})
	}
	if lb.deleteProtection == "on" {
		if err := p.protectFromDeletion(ctx, lb.id, "off"); err != nil {
			return err
		}
	}
	req := slb.CreateDeleteLoadBalancerRequest()
	req.LoadBalancerId = lb.id
	return p.cloud.call(ctx, req, slb.CreateDeleteLoadBalancerResponse())
}

func (p firstPass) sync(ctx context.Context) (*balancer, error) {
	want, err := p.wantedAttributes()
	if err != nil {
		return nil, err
	}
	if !p.version.since("v1.9.3.276") {
		if nodes, err := p.candidates(); err != nil || len(nodes) == 0 {
			p.say(p.version.noBackends(p.service()))
		}
	}
	lb, err := p.find(ctx)
	switch {
	case err != nil:
		return nil, err
	case lb == nil && !p.changed:
		return nil, fmt.Errorf("the loadbalance you specified by name [%s] does not exist", p.svc.Name)
	case lb == nil:
		lb, err = p.make(ctx, want)
	case p.changed:
		err = p.change(ctx, want, lb)
	}
	if err != nil {
		return nil, err
	}
	if want.groups, err = p.wantedGroups(ctx, want.reused); err != nil {
		return nil, err
	}
	for _, g := range want.groups {
		if err := p.syncGroup(ctx, lb.id, g); err != nil {
			return nil, fmt.Errorf("ensure vgroup: %w. %s", err, g.name)
		}
	}
	if !p.changed {
		return lb, nil
	}
	if p.ownsListeners(want) {
		if want.listeners, err = p.wantedListeners(want.reused); err != nil {
			return nil, err
		}
		if lb.listeners, err = p.listenersOf(ctx, lb.id); err != nil {
			return nil, err
		}
		if err := p.listenersInTurn(ctx, want, lb); err != nil {
			return nil, err
		}
	}
	return lb, p.tidy(ctx, lb, want)
}

// find returns the load balancer by the ID that the Service names, by tag or by name, or nil.
func (p firstPass) find(ctx context.Context) (*balancer, error) {
	requests := []*slb.DescribeLoadBalancersRequest{slb.CreateDescribeLoadBalancersRequest(), slb.CreateDescribeLoadBalancersRequest()}
	if id := p.annotation("id"); id != "" {
		requests = requests[:1]
		requests[0].LoadBalancerId = id
	} else {
		requests[0].Tags = fmt.Sprintf(`[{"TagKey":%q,"TagValue":%q}]`, tagOwn, p.name)
		requests[1].LoadBalancerName = p.name
	}
	for _, req := range requests {
		resp := slb.CreateDescribeLoadBalancersResponse()
		if err := p.cloud.call(ctx, req, resp); err != nil {
			return nil, err
		}
		if all := resp.LoadBalancers.LoadBalancer; len(all) > 0 {
			lb := &balancer{id: all[0].LoadBalancerId}
			return lb, p.describe(ctx, lb)
		}
	}
	return nil, nil
}

func (p firstPass) make(ctx context.Context, want *balancer) (*balancer, error) {
	switch {
	case len(p.svc.Status.LoadBalancer.Ingress) > 0:
		return nil, fmt.Errorf("alicloud: not able to find loadbalancer named [%s] in openapi, but it's defined in "+
			"service.loaderbalancer.ingress. this may happen when you removed loadbalancerid annotation", p.svc.Name)
	case want.reused:
		return nil, fmt.Errorf("alicloud: user specified loadbalancer[%s] does not exist. pls check", want.id)
	}
	lb := *want
	lb.addressType, lb.name, lb.network = cmp.Or(lb.addressType, addressInternet), cmp.Or(lb.name, p.name), annotation(p.svc, "slb-network-type")
	if p.version.since("v1.9.3.304") {
		lb.deleteProtection = cmp.Or(lb.deleteProtection, "on")
	}
	if lb.addressType == addressIntranet && lb.network != networkClassic && lb.vswitch == "" && len(p.vswitches) > 0 {
		lb.vswitch = p.vswitches[p.Pick(len(p.vswitches))]
	}
	id, err := p.createIn(ctx, &lb)
	if err != nil {
		return nil, err
	}
	tags := map[string]string{tagOwn: p.name}
	if p.version.since("v1.9.3.304") {
		tags[tagCluster] = p.ClusterID
	}
	maps.Copy(tags, want.tags)
	if err := p.tag(ctx, id, tags); err != nil {
		return nil, err
	}
	made := &balancer{id: id}
	return made, p.describe(ctx, made)
}

// change checks whether a load balancer may be used, and changes attributes until one cannot be changed.
func (p firstPass) change(ctx context.Context, want, lb *balancer) error {
	tags, err := p.tagsOf(ctx, lb.id)
	if err != nil {
		return err
	}
	_, own := tags[tagOwn]
	_, cluster := tags[tagCluster]
	if want.reused && (own || cluster && p.version.since("v1.9.3.276")) {
		return fmt.Errorf("alicloud: can not reuse loadbalancer created by kubernetes. %s", lb.id)
	}
	if _, there := tags[tagReused]; want.reused && !there && len(tags) < mostTags && p.version.since("v1.9.3.378") {
		if err := p.tag(ctx, lb.id, map[string]string{tagReused: "true"}); err != nil {
			return err
		}
	}
	addressType := "can not change LoadBalancer AddressType once created. delete and retry"
	if !p.version.since("v1.9.3.339") {
		addressType = "change loadbalancer address type after service has been created is not supported. delete and retry"
	}
	fixed := []struct{ want, have, text string }{
		{want.masterZone, lb.masterZone, "can not change LoadBalancer master zone id once created"},
		{want.slaveZone, lb.slaveZone, "can not change LoadBalancer slave zone id once created"},
		{cmp.Or(want.ipVersion, "ipv4"), cmp.Or(lb.ipVersion, "ipv4"), "can not change LoadBalancer AddressIPVersion once created"},
		{want.addressType, lb.addressType, addressType},
	}
	if p.version.since("v1.9.3.378") {
		fixed = append(fixed, struct{ want, have, text string }{want.resourceGroup, lb.resourceGroup, "can not change ResourceGroupId once created"})
	}
	for _, f := range fixed {
		if f.want != "" && f.want != f.have {
			return errors.New("alicloud: " + f.text)
		}
	}
	if err := p.updateInternet(ctx, want, lb); err != nil {
		return err
	}
	if want.spec != "" && want.spec != lb.spec {
		req := slb.CreateModifyLoadBalancerInstanceSpecRequest()
		req.LoadBalancerId, req.LoadBalancerSpec = lb.id, want.spec
		if err := p.cloud.call(ctx, req, slb.CreateModifyLoadBalancerInstanceSpecResponse()); err != nil {
			return err
		}
	}
	return aggregate(p.flags(ctx, want, lb))
}

// syncGroup creates or updates a group. A new one is created with its first backend.
func (p firstPass) syncGroup(ctx context.Context, lb string, g *group) error {
	all, err := p.listGroups(ctx, lb)
	if err != nil {
		return fmt.Errorf("update: vserver group error, describe: vgroup error, %w", err)
	}
	i := slices.IndexFunc(all, func(o *group) bool { return o.name == g.name })
	if i >= 0 {
		g.id = all[i].id
	} else if err := p.createWithOne(ctx, lb, g); err != nil {
		return err
	}
	have := &group{id: g.id}
	if have.backends, err = p.backendsOf(ctx, g.id); err != nil {
		return fmt.Errorf("update: describe vserver group attribute error. %w", err)
	}
	add, drop, amend := diff(g, have)
	if err := p.addBackends(ctx, g.id, add); err != nil {
		return err
	}
	if err := p.removeBackends(ctx, g.id, drop); err != nil {
		return err
	}
	return p.amendBackends(ctx, g.id, amend)
}

func (p firstPass) createWithOne(ctx context.Context, lb string, g *group) error {
	req, resp := slb.CreateCreateVServerGroupRequest(), slb.CreateCreateVServerGroupResponse()
	req.LoadBalancerId, req.VServerGroupName = lb, g.name
	err := p.inBatches(g.backends[:min(1, len(g.backends))], func(list string) error {
		req.BackendServers = list
		return nil
	})
	if err == nil {
		err = p.cloud.call(ctx, req, resp)
	}
	if err != nil {
		return fmt.Errorf("CreateVServerGroup. %w", err)
	}
	g.id = resp.VServerGroupId
	return nil
}

func (p firstPass) tidy(ctx context.Context, lb, want *balancer) error {
	all, err := p.listGroups(ctx, lb.id)
	if err != nil {
		return fmt.Errorf("build vserver group from remote: list: vgroup error, %w", err)
	}
	for _, g := range all {
		kept := slices.ContainsFunc(want.groups, func(w *group) bool { return w.name == g.name })
		if kept || !p.mine(g.name) {
			continue
		}
		req := slb.CreateDeleteVServerGroupRequest()
		req.VServerGroupId = g.id
		if err := p.cloud.call(ctx, req, slb.CreateDeleteVServerGroupResponse()); err != nil {
			return err
		}
	}
	return nil
}
