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
	"time"

	sdkerrors "github.com/aliyun/alibaba-cloud-sdk-go/sdk/errors"
	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/requests"
	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/responses"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
)

const (
	classNLB     = "alibabacloud.com/nlb"
	finalizerNLB = "service.k8s.alibaba/nlb"

	// throttledTries is how often a call is tried again that was throttled, each
	// time after throttledWait.
	throttledTries = 10
	throttledWait  = time.Second
)

// An nlb syncs Services against NLB instances, since v2.5.0. Its requests are
// signed as those of the other products are, which the cloud takes as well.
type nlb struct{ *controller }

func (b *nlb) kind() kind {
	return kind{component: "nlb-controller", finalizer: finalizerNLB, wants: wantsNLB, ensure: b.ensure, clean: b.clean}
}

// wantsNLB reports whether the Service asks for an NLB, by its class.
func wantsNLB(svc *corev1.Service) bool {
	return svc.Spec.Type == corev1.ServiceTypeLoadBalancer && svc.Spec.LoadBalancerClass != nil && *svc.Spec.LoadBalancerClass == classNLB
}

// A networkPass is one sync of one Service against its NLB.
type networkPass struct{ *pass }

func (b *nlb) begin(svc *corev1.Service, events record.EventRecorder) networkPass {
	p := b.controller.begin(svc, events)
	p.network = true
	return networkPass{p}
}

func (b *nlb) ensure(ctx context.Context, svc *corev1.Service, events record.EventRecorder) error {
	finalized, err := b.addFinalizer(ctx, svc, finalizerNLB)
	if err != nil {
		return b.begin(svc, events).fail(reasonFailedFinalizer, "adding finalizer", err)
	}
	p := b.begin(finalized, events)
	lb, want, err := p.apply(ctx)
	if err != nil {
		p.event(p.version.syncFailed(lb.id, err))
		return err
	}
	ingress := []corev1.LoadBalancerIngress{{Hostname: lb.dns}}
	return p.conclude(ctx, lb.id, func() []corev1.LoadBalancerIngress { return ingress }, want.groups, "has invalid server in server groups")
}

func (b *nlb) clean(ctx context.Context, svc *corev1.Service, events record.EventRecorder) error {
	p := b.begin(svc, events)
	return p.end(ctx, finalizerNLB, "ResourceNotFound.loadBalancer", func() (string, error) {
		lb, _, err := p.apply(ctx)
		return lb.id, err
	})
}

// A networkBalancer is an NLB: as the Service wants it, where an empty field is
// not asked for, or as the cloud has it.
type networkBalancer struct {
	id, name, dns, vpc, status            string
	addressType, ipVersion, resourceGroup string
	zones                                 []zoneMapping
	securityGroups                        []string // nil: not asked for
	deletionProtected, changeProtected    bool
	tags                                  map[string]string
	groups                                groups
	attributes                            map[string]map[string]string // of the groups, by name, by their names in the API
	listeners                             []*networkListener

	reused, preserve bool
}

// A zoneMapping says in which vSwitch of a zone an NLB has its address.
type zoneMapping struct{ zone, vswitch, address, eip string }

// ask makes a call and reads the answer into out, which may be nil. A call that
// is throttled is made again.
func (p networkPass) ask(ctx context.Context, action string, params map[string]string, out any) error {
	for try := 0; ; try++ {
		req, resp := requests.NewCommonRequest(), responses.NewCommonResponse()
		req.Method, req.Product, req.Version, req.ApiName = requests.POST, "Nlb", "2022-04-30", action
		maps.Copy(req.FormParams, params)
		req.TransToAcsRequest()
		err := p.cloud.raw(ctx, req, resp)
		var refused *sdkerrors.ServerError
		switch {
		case errors.As(err, &refused) && strings.HasPrefix(refused.ErrorCode(), "Throttling") && try < throttledTries:
			if err := p.wait(ctx, throttledWait); err != nil {
				return err
			}
			continue
		case refused != nil:
			return &networkError{action, p.version, refused}
		case err != nil || out == nil:
			return err
		}
		if err := json.Unmarshal(resp.GetHttpContentBytes(), out); err != nil {
			return fmt.Errorf("read answer of %s: %w", action, err)
		}
		return nil
	}
}

// A networkError is an error that NLB answered with. Its text has the status and
// ends with a blank, because the request ID behind it is cut off.
type networkError struct {
	action  string
	version version
	*sdkerrors.ServerError
}

func (e *networkError) Error() string {
	blank := " "
	if !e.version.since("v2.12.0") {
		blank = ""
	}
	return fmt.Sprintf("%s API: %s,%sStatusCode: %d, ErrorCode: %s, RequestId:  %s, Message: code: %d, %s ",
		sdkErrorMark, e.action, blank, e.HttpStatus(), e.ErrorCode(), e.RequestId(), e.HttpStatus(), e.Message())
}

// poll asks done until it says so, at intervals, up to a limit. What is not done
// by then is no error: the next sync will see.
func (p networkPass) poll(ctx context.Context, interval, limit time.Duration, done func() (bool, error)) error {
	for waited := time.Duration(0); ; waited += interval {
		if ok, err := done(); ok || err != nil {
			return err
		}
		if waited+interval > limit {
			return nil
		}
		if err := p.wait(ctx, interval); err != nil {
			return err
		}
	}
}

// finished waits for a job.
func (p networkPass) finished(ctx context.Context, job string, interval, limit time.Duration) error {
	return p.poll(ctx, interval, limit, func() (bool, error) {
		var a struct{ Status string }
		err := p.ask(ctx, "GetJobStatus", map[string]string{"JobId": job}, &a)
		return a.Status == "Succeeded", err
	})
}

const (
	jobInterval, jobLimit       = 3 * time.Second, 30 * time.Second
	deleteInterval, deleteLimit = 20 * time.Second, 3 * time.Minute
	activeInterval, activeLimit = 20 * time.Second, 2 * time.Minute
	groupInterval, groupLimit   = 3 * time.Second, 10 * time.Second
	batchInterval               = 2200 * time.Millisecond
)

// job is the answer of an action that goes on after it.
type job struct{ JobId string }

// work makes a call and waits for its job.
func (p networkPass) work(ctx context.Context, action string, params map[string]string) error {
	var a job
	if err := p.ask(ctx, action, params, &a); err != nil {
		return err
	}
	return p.finished(ctx, a.JobId, jobInterval, jobLimit)
}

// An nlbAnswer is an NLB in an answer.
type nlbAnswer struct {
	LoadBalancerId, LoadBalancerName, DNSName, VpcId, AddressType, AddressIpVersion, LoadBalancerStatus, ResourceGroupId string

	SecurityGroupIds []string
	ZoneMappings     []struct {
		ZoneId, VSwitchId     string
		LoadBalancerAddresses []struct{ PrivateIPv4Address, AllocationId string }
	}
	DeletionProtectionConfig     struct{ Enabled bool }
	ModificationProtectionConfig struct{ Status string }
}

func (lb *networkBalancer) load(a nlbAnswer) {
	lb.id, lb.name, lb.dns, lb.vpc, lb.status = a.LoadBalancerId, a.LoadBalancerName, a.DNSName, a.VpcId, a.LoadBalancerStatus
	lb.addressType, lb.ipVersion, lb.resourceGroup = a.AddressType, a.AddressIpVersion, a.ResourceGroupId
	lb.securityGroups, lb.zones = a.SecurityGroupIds, nil
	lb.deletionProtected, lb.changeProtected = a.DeletionProtectionConfig.Enabled, a.ModificationProtectionConfig.Status == protected
	for _, z := range a.ZoneMappings {
		m := zoneMapping{zone: z.ZoneId, vswitch: z.VSwitchId}
		if len(z.LoadBalancerAddresses) > 0 {
			m.address, m.eip = z.LoadBalancerAddresses[0].PrivateIPv4Address, z.LoadBalancerAddresses[0].AllocationId
		}
		lb.zones = append(lb.zones, m)
	}
}

// find looks for the Service's NLB, in the order of CLB: by ID, by tag, by name.
func (p networkPass) find(ctx context.Context, lb *networkBalancer) error {
	if id := cmp.Or(p.annotation("id"), lb.id); id != "" {
		lb.id = id
		return p.active(ctx, lb)
	}
	for _, by := range []struct {
		what, doing string
		params      map[string]string
	}{
		{"tag", "find nlb by tag error", map[string]string{"Tag.1.Key": tagOwn, "Tag.1.Value": p.name}},
		{"name", "find loadbalancer by name " + p.name + " error", map[string]string{"LoadBalancerNames.1": p.name}},
	} {
		var a struct{ LoadBalancers []nlbAnswer }
		if err := p.ask(ctx, "ListLoadBalancers", by.params, &a); err != nil {
			return fmt.Errorf("[%s/%s] %s: %w", p.svc.Namespace, p.svc.Name, by.doing, err)
		}
		if len(a.LoadBalancers) > 1 {
			var ids []string
			for _, f := range a.LoadBalancers {
				ids = append(ids, f.LoadBalancerId)
			}
			return fmt.Errorf("[%s/%s] find multiple loadbalances by %s, lbIds[%s]", p.svc.Namespace, p.svc.Name, by.what, strings.Join(ids, ","))
		}
		if len(a.LoadBalancers) == 1 {
			if lb.load(a.LoadBalancers[0]); lb.status == "Active" {
				return nil
			}
			return p.active(ctx, lb)
		}
	}
	return nil
}

// active reads the NLB once it has been made.
func (p networkPass) active(ctx context.Context, lb *networkBalancer) error {
	err := p.poll(ctx, activeInterval, activeLimit, func() (bool, error) {
		var a nlbAnswer
		if err := p.ask(ctx, "GetLoadBalancerAttribute", map[string]string{"LoadBalancerId": lb.id}, &a); err != nil {
			return false, err
		}
		lb.load(a)
		return lb.status != "Provisioning", nil
	})
	if err == nil && lb.status == "Provisioning" {
		return fmt.Errorf("nlb %s is in creating status", lb.id)
	}
	return err
}

// apply makes the cloud as the Service wants it, and returns what it found or
// made, with an ID as soon as one is known, and what was wanted.
func (p networkPass) apply(ctx context.Context) (lb, want *networkBalancer, err error) {
	lb = &networkBalancer{}
	if want, err = p.wanted(ctx); err != nil {
		return lb, nil, fmt.Errorf("build lb local model error: %w", err)
	}
	if err := p.applyTo(ctx, want, lb); err != nil {
		return lb, nil, fmt.Errorf("apply model error: %w", err)
	}
	return lb, want, nil
}

func (p networkPass) wanted(ctx context.Context) (*networkBalancer, error) {
	if deleting(p.svc) {
		return &networkBalancer{reused: p.annotation("id") != "", preserve: p.preserves()}, nil
	}
	want, err := p.wantedAttributes()
	if err != nil {
		return nil, fmt.Errorf("build nlb attribute error: %w", err)
	}
	if want.listeners, err = p.wantedListeners(); err != nil {
		return nil, fmt.Errorf("build nlb listener error: %w", err)
	}
	if err := p.wantedServers(ctx, want); err != nil {
		return nil, fmt.Errorf("build server group error: %w", err)
	}
	return want, nil
}

func (p networkPass) wantedAttributes() (*networkBalancer, error) {
	want := &networkBalancer{
		id: p.annotation("id"), name: p.annotation("name"), resourceGroup: p.annotation("resource-group-id"),
		tags: pairs(p.annotation("additional-resource-tags")), preserve: p.preserves(),
	}
	want.reused = want.id != ""
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
	if s, ok := p.svc.Annotations[prefix+"security-group-ids"]; ok {
		want.securityGroups = []string{}
		if s != "" {
			want.securityGroups = strings.Split(s, ",")
		}
	}
	maps := p.annotation("zone-maps")
	if maps == "" && !want.reused {
		return nil, errors.New("ParameterMissing, zone mappings are required")
	}
	for m := range strings.SplitSeq(maps, ",") {
		if maps == "" {
			break
		}
		parts := strings.Split(m, ":")
		if len(parts) < 2 {
			return nil, fmt.Errorf("ZoneMapping format error, expect [zone-a:vsw-id-1,zone-b:vsw-id-2], got %s", maps)
		}
		parts = append(parts, "", "")
		want.zones = append(want.zones, zoneMapping{parts[0], parts[1], parts[2], parts[3]})
	}
	if want.reused && len(p.svc.Spec.LoadBalancerSourceRanges) > 0 && p.version.since("v2.14.0") {
		p.event(note{corev1.EventTypeWarning, "FeatureNotSupported", "LoadBalancerSourceRanges is not supported for user-managed LB."})
	}
	return want, nil
}

func (p networkPass) applyTo(ctx context.Context, want, lb *networkBalancer) error {
	owns := !want.reused || p.annotation("force-override-listeners") == "true"
	if err := p.read(ctx, lb, p.changed && owns); err != nil {
		return err
	}
	if lb.id != "" && want.preserve {
		p.event(note{corev1.EventTypeWarning, reasonPreserved, fmt.Sprintf("The lb [%s] will be preserved after the service is deleted.", lb.id)})
	}
	var tasks []func() error
	if p.changed {
		if err := p.settle(ctx, want, lb); err != nil {
			if !p.version.since("v2.12.0") {
				*lb = networkBalancer{} // older releases lose the ID
			}
			return fmt.Errorf("update nlb attribute error: %w", err)
		}
		if !deleting(p.svc) {
			tasks = append(tasks, func() error { return wrap("update nlb attribute error", p.update(ctx, want, lb)) })
		}
	}
	if lb.id == "" && !deleting(p.svc) {
		return p.notFound()
	}
	moves := planGroups(want.groups, lb.groups)
	var done chan groupDone
	if p.changed {
		done = make(chan groupDone, len(want.groups))
	}
	tasks = append(tasks, func() error { return p.applyGroups(ctx, want, lb, moves, done) })
	if lb.id != "" && p.changed && owns && !(want.preserve && deleting(p.svc)) {
		plan, err := p.planListeners(want, lb)
		if err != nil {
			return err
		}
		tasks = append(tasks, func() error { return p.applyListeners(ctx, lb.id, plan, done) })
	}
	if err := together(tasks...); err != nil || !p.changed {
		return err
	}
	return p.cleanup(ctx, want, lb)
}

func (p networkPass) read(ctx context.Context, lb *networkBalancer, listeners bool) error {
	if err := p.find(ctx, lb); err != nil {
		return fmt.Errorf("get nlb attribute from cloud error: %w", err)
	}
	if lb.id == "" {
		return nil
	}
	tasks := []func() error{
		func() (err error) {
			lb.tags, err = p.tagsOf(ctx, lb.id)
			return wrap("ListNLBTagResources", wrap("list nlb "+lb.id+" tag error", err))
		},
		func() error {
			return wrap("get lb backend from remote error: DescribeVServerGroups error", p.readGroups(ctx, lb))
		},
	}
	if listeners {
		tasks = append(tasks, func() error {
			return wrap("get lb listeners from cloud, error", wrap("DescribeNLBListeners error", p.readListeners(ctx, lb)))
		})
	}
	return together(tasks...)
}

func (p networkPass) tagsOf(ctx context.Context, id string) (map[string]string, error) {
	tags := map[string]string{}
	params := map[string]string{"ResourceType": "loadbalancer", "ResourceId.1": id}
	for {
		var a struct {
			TagResources []struct{ TagKey, TagValue string }
			NextToken    string
		}
		if err := p.ask(ctx, "ListTagResources", params, &a); err != nil {
			return nil, err
		}
		for _, t := range a.TagResources {
			tags[t.TagKey] = t.TagValue
		}
		if a.NextToken == "" {
			return tags, nil
		}
		params["NextToken"] = a.NextToken
	}
}

// settle makes sure that there is the right NLB.
func (p networkPass) settle(ctx context.Context, want, lb *networkBalancer) error {
	if deleting(p.svc) {
		return p.let(ctx, want, lb)
	}
	if lb.id == "" {
		if len(p.svc.Status.LoadBalancer.Ingress) > 0 {
			return p.gone() // an address that is a name is left out
		}
		id, err := p.create(ctx, want)
		if err != nil {
			return fmt.Errorf("create nlb error: %w", err)
		}
		lb.id = id
		if err := p.find(ctx, lb); err != nil {
			return fmt.Errorf("update remote model for lbId %s, error: %w", lb.id, err)
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

func (p networkPass) create(ctx context.Context, want *networkBalancer) (string, error) {
	params := map[string]string{
		"LoadBalancerName": cmp.Or(want.name, p.name), "AddressType": cmp.Or(want.addressType, "Internet"), "VpcId": p.VPC,
		"DeletionProtectionConfig.Enabled":    "true",
		"ModificationProtectionConfig.Status": protected, "ModificationProtectionConfig.Reason": protectedBy,
	}
	if v := p.annotation("delete-protection"); v != "" {
		params["DeletionProtectionConfig.Enabled"] = strconv.FormatBool(v == "on")
	}
	say(params, "ResourceGroupId", want.resourceGroup)
	say(params, "AddressIpVersion", want.ipVersion)
	say(params, "BandwidthPackageId", p.annotation("bandwidth-package-id"))
	sayZones(params, want.zones)
	var a struct{ LoadbalancerId string }
	if err := p.ask(ctx, "CreateLoadBalancer", params, &a); err != nil {
		return "", err
	}
	tags := map[string]string{tagOwn: p.name, tagCluster: p.ClusterID}
	maps.Copy(tags, want.tags)
	return a.LoadbalancerId, p.ask(ctx, "TagResources", sayTags(map[string]string{"ResourceType": "loadbalancer", "ResourceId.1": a.LoadbalancerId}, tags), nil)
}

// say adds a parameter that has a value.
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
		params[fmt.Sprintf("%s.%d", name, i+1)] = v
	}
	return params
}

// let lets go of the NLB, as of a CLB.
func (p networkPass) let(ctx context.Context, want, lb *networkBalancer) error {
	if want.reused || lb.id == "" {
		return nil
	}
	one := map[string]string{"LoadBalancerId": lb.id}
	if lb.deletionProtected || want.preserve && lb.changeProtected {
		err := p.ask(ctx, "UpdateLoadBalancerProtection", map[string]string{
			"LoadBalancerId": lb.id, "DeletionProtectionEnabled": "false", "ModificationProtectionStatus": unprotected,
		}, nil)
		if err != nil {
			return fmt.Errorf("set loadbalancer [%s] protections off error: %w", lb.id, err)
		}
	}
	if want.preserve {
		keys := []string{}
		for _, k := range []string{tagCluster, tagOwn} {
			if lb.tags[k] == map[string]string{tagOwn: p.name, tagCluster: p.ClusterID}[k] {
				keys = append(keys, k)
			}
		}
		if len(keys) == 0 {
			return nil
		}
		return wrap(fmt.Sprintf("cleanup loadbalancer [%s] tags error", lb.id), p.untag(ctx, "loadbalancer", lb.id, keys))
	}
	var a job
	err := p.ask(ctx, "DeleteLoadBalancer", one, &a)
	if err == nil {
		err = p.finished(ctx, a.JobId, deleteInterval, deleteLimit)
	}
	if err != nil {
		return fmt.Errorf("delete nlb [%s] error: %w", lb.id, err)
	}
	lb.id, lb.dns = "", ""
	return nil
}

func (p networkPass) untag(ctx context.Context, kind, id string, keys []string) error {
	return p.ask(ctx, "UntagResources", sayList(map[string]string{"ResourceType": kind, "ResourceId.1": id}, "TagKey", keys), nil)
}

// update makes the attributes of the NLB as the Service wants them.
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
	if want.securityGroups != nil {
		for _, do := range []struct {
			action   string
			from, to []string
		}{{"LoadBalancerLeaveSecurityGroup", lb.securityGroups, want.securityGroups}, {"LoadBalancerJoinSecurityGroup", want.securityGroups, lb.securityGroups}} {
			gone := slices.DeleteFunc(slices.Clone(do.from), func(id string) bool { return slices.Contains(do.to, id) })
			if len(gone) == 0 {
				continue
			}
			if err := p.work(ctx, do.action, sayList(one(), "SecurityGroupIds", gone)); err != nil {
				return fmt.Errorf("update security group ids error: %w", err)
			}
		}
	}
	if want.name != "" && want.name != lb.name {
		params := one()
		params["LoadBalancerName"] = want.name
		errs = append(errs, p.ask(ctx, "UpdateLoadBalancerAttribute", params, nil))
	}
	return aggregate(errs)
}
