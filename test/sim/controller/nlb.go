package controller

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
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

	// throttledTries is the number of attempts of a throttled call, throttledWait apart. Releases before v2.12.0 make one.
	throttledTries = 10
	throttledWait  = time.Second
)

// An nlb syncs Services against NLB instances, since v2.5.0. It signs requests as for other products, which the cloud accepts.
type nlb struct {
	*controller
	tokens tokens
}

func (b *nlb) kind() kind {
	return kind{component: "nlb-controller", finalizer: finalizerNLB, wants: wantsNLB, ensure: b.ensure, clean: b.clean,
		unrehearsed: !b.version.since(networkRehearsals)}
}

func wantsNLB(svc *corev1.Service) bool {
	return svc.Spec.Type == corev1.ServiceTypeLoadBalancer && svc.Spec.LoadBalancerClass != nil && *svc.Spec.LoadBalancerClass == classNLB
}

type networkPass struct{ *pass }

func (b *nlb) begin(svc *corev1.Service, events record.EventRecorder) networkPass {
	p := b.controller.begin(svc, events)
	p.network, p.tokens = true, &b.tokens
	return networkPass{p}
}

// annotation returns an annotation that this release reads for NLB. Some came earlier than for CLB, others later.
func (p networkPass) annotation(name string) string {
	if since := introducedNLB(name); since != "" && !p.version.since(since) {
		return ""
	}
	return annotation(p.svc, name)
}

// has reports whether an annotation that this release reads for NLB exists, even without a value.
func (p networkPass) has(name string) bool {
	since := introducedNLB(name)
	_, now := p.svc.Annotations[prefix+name]
	_, old := p.svc.Annotations[legacyPrefix+name]
	return (now || old) && (since == "" || p.version.since(since))
}

// introducedNLB returns the first release that read an annotation for NLB, or "" if all of them do.
func introducedNLB(name string) string {
	switch name {
	case "security-group-ids":
		return "v2.6.0"
	case "server-group-type":
		return "v2.8.0"
	case "bandwidth-package-id", "ipv6-address-type", "ppv2-pvl-ep-id-enabled", "ppv2-pvl-eps-id-enabled", "ppv2-pvl-vpc-id-enabled":
		return "v2.9.1"
	case "alpn", "alpn-policy", "preserve-lb-on-delete":
		return "v2.10.0"
	case "ignore-weight-update":
		return "v2.11.1"
	case "listener-port-range":
		return "v2.11.2"
	case "cross-zone-enabled", "additional-cert-ids":
		return "v2.13.0"
	case "default-weight":
		return "v2.14.0"
	}
	return ""
}

func (b *nlb) ensure(ctx context.Context, svc *corev1.Service, events record.EventRecorder) error {
	if b.DryRun && b.version.since(networkRehearsals) {
		return b.rehearse(ctx, svc, events)
	}
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
	if p.changed && p.version.since("v2.14.0") {
		p.labels = map[string]string{labelSecurityGroup: lb.source.id()}
	}
	ingress := []corev1.LoadBalancerIngress{{Hostname: lb.dns}}
	return p.conclude(ctx, lb.id, func() []corev1.LoadBalancerIngress { return ingress }, want.groups.plain(), "has invalid server in server groups")
}

func (b *nlb) clean(ctx context.Context, svc *corev1.Service, events record.EventRecorder) error {
	if b.DryRun && b.version.since(networkRehearsals) {
		return b.rehearse(ctx, svc, events)
	}
	p := b.begin(svc, events)
	return p.end(ctx, finalizerNLB, "ResourceNotFound.loadBalancer", func() (string, error) {
		lb, _, err := p.apply(ctx)
		return lb.id, err
	})
}

// A networkBalancer is an NLB: a wanted one with the requested fields, an existing one with those of the cloud.
type networkBalancer struct {
	id, name, dns, vpc, status            string
	addressType, ipVersion, resourceGroup string
	ipv6AddressType, bandwidth            string
	crossZone                             string // true or false
	zones                                 []zoneMapping
	securityGroups                        []string // nil: not requested
	sources                               []string // allowed client address blocks; empty: all
	sourceGroup                           string   // ID of the security group that admits sources
	source                                *sourceGroup
	tags                                  map[string]string
	groups                                networkGroups
	listeners                             []*networkListener

	reused, preserve bool
}

type zoneMapping struct{ zone, vswitch, address, eip string }

func (p networkPass) ask(ctx context.Context, action string, params map[string]string, out any) error {
	if p.cloud.dry != nil {
		if instead, err := p.instead(action, params); instead {
			return err
		}
	}
	tries := throttledTries
	if !p.version.since("v2.12.0") {
		tries = 1
	}
	for try := 1; ; try++ {
		req, resp := requests.NewCommonRequest(), responses.NewCommonResponse()
		req.Method, req.Product, req.Version, req.ApiName = requests.POST, "Nlb", "2022-04-30", action
		maps.Copy(req.FormParams, params)
		req.TransToAcsRequest()
		err := p.cloud.raw(ctx, req, resp)
		var refused *sdkerrors.ServerError
		switch {
		case errors.As(err, &refused) && strings.HasPrefix(refused.ErrorCode(), "Throttling") && try < tries:
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

// The text of a networkError includes the status and ends with a blank, because the request ID after it is cut off.
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

const (
	conflictTries = 5
	conflictWait  = 10 * time.Millisecond
)

// again repeats a call a few times while its error contains text, for conflicts with other operations.
func (p networkPass) again(ctx context.Context, text string, do func() error) error {
	for try := 1; ; try++ {
		err := do()
		if err == nil || try == conflictTries || !strings.Contains(err.Error(), text) {
			return err
		}
		if err := p.wait(ctx, conflictWait); err != nil {
			return err
		}
	}
}

const (
	jobInterval, jobLimit       = 3 * time.Second, 30 * time.Second
	deleteInterval, deleteLimit = 20 * time.Second, 3 * time.Minute
	activeInterval, activeLimit = 20 * time.Second, 2 * time.Minute
	groupInterval, groupLimit   = 3 * time.Second, 10 * time.Second
	groupJobInterval            = 1200 * time.Millisecond
	batchInterval               = 2200 * time.Millisecond
)

// poll calls done until it returns true or the limit passes, which is not an error: the next sync checks again.
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

type job struct{ JobId string }

func (p networkPass) finished(ctx context.Context, job string, interval, limit time.Duration) error {
	return p.poll(ctx, interval, limit, func() (bool, error) {
		var a struct{ Status string }
		err := p.ask(ctx, "GetJobStatus", map[string]string{"JobId": job}, &a)
		return a.Status == "Succeeded" || a.Status == "Failed", err
	})
}

func (p networkPass) work(ctx context.Context, action string, params map[string]string) error {
	var a job
	if err := p.ask(ctx, action, params, &a); err != nil {
		return err
	}
	return p.finished(ctx, a.JobId, jobInterval, jobLimit)
}

type nlbAnswer struct {
	LoadBalancerId, LoadBalancerName, DNSName, VpcId, AddressType, AddressIpVersion, LoadBalancerStatus, ResourceGroupId string
	Ipv6AddressType, BandwidthPackageId                                                                                  string

	CrossZoneEnabled bool
	SecurityGroupIds []string
	Tags             []struct{ Key, Value, TagKey, TagValue string } // Key and Value in a list, TagKey and TagValue in a single answer
	ZoneMappings     []struct {
		ZoneId, VSwitchId     string
		LoadBalancerAddresses []struct{ PrivateIPv4Address, AllocationId string }
	}
}

func (lb *networkBalancer) load(a nlbAnswer) {
	lb.id, lb.name, lb.dns, lb.vpc, lb.status = a.LoadBalancerId, a.LoadBalancerName, a.DNSName, a.VpcId, a.LoadBalancerStatus
	lb.addressType, lb.ipVersion, lb.resourceGroup = a.AddressType, a.AddressIpVersion, a.ResourceGroupId
	lb.ipv6AddressType, lb.bandwidth, lb.crossZone = a.Ipv6AddressType, a.BandwidthPackageId, fmt.Sprint(a.CrossZoneEnabled)
	lb.securityGroups, lb.zones, lb.tags = a.SecurityGroupIds, nil, map[string]string{}
	for _, t := range a.Tags {
		lb.tags[t.Key+t.TagKey] = t.Value + t.TagValue
	}
	for _, z := range a.ZoneMappings {
		m := zoneMapping{zone: z.ZoneId, vswitch: z.VSwitchId}
		if len(z.LoadBalancerAddresses) > 0 {
			m.address, m.eip = z.LoadBalancerAddresses[0].PrivateIPv4Address, z.LoadBalancerAddresses[0].AllocationId
		}
		lb.zones = append(lb.zones, m)
	}
}

// find searches in the same order as for CLB: by ID, by tag, by name.
func (p networkPass) find(ctx context.Context, lb *networkBalancer) error {
	// Until the NLB is read, its fields hold the search terms.
	lb.tags = map[string]string{tagOwn: p.name}
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
			return fmt.Errorf("[%s] %s: %w", p.service(), by.doing, err)
		}
		if len(a.LoadBalancers) > 1 {
			var ids []string
			for _, f := range a.LoadBalancers {
				ids = append(ids, f.LoadBalancerId)
			}
			return fmt.Errorf("[%s] find multiple loadbalances by %s, lbIds[%s]", p.service(), by.what, strings.Join(ids, ","))
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

func (p networkPass) active(ctx context.Context, lb *networkBalancer) error {
	id := lb.id
	err := p.poll(ctx, activeInterval, activeLimit, func() (bool, error) {
		var a nlbAnswer
		if err := p.ask(ctx, "GetLoadBalancerAttribute", map[string]string{"LoadBalancerId": id}, &a); err != nil {
			return false, err
		}
		if a.LoadBalancerId != id {
			return false, fmt.Errorf("[%s] find loadbalancer by id error: loadbalancer id from API not match, expect [%s], actual [%s]",
				p.service(), id, a.LoadBalancerId)
		}
		lb.load(a)
		return lb.status != "Provisioning", nil
	})
	if err == nil && lb.status == "Provisioning" {
		return fmt.Errorf("nlb %s is in creating status", id)
	}
	return err
}

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
	// The typo is the controller's; older releases swapped the two.
	listeners, groups := "build nlb listener error", "builid nlb server group error"
	if !p.version.since("v2.11.2") { // pkg/controller/service/nlbv2/model_builder.go
		listeners, groups = "build nlb server group error", "builid nlb listener error"
	}
	if want.listeners, err = p.wantedListeners(want.reused); err != nil {
		return nil, fmt.Errorf("%s: %w", listeners, err)
	}
	if want.groups, err = p.wantedGroups(ctx, want); err != nil {
		return nil, fmt.Errorf("%s: %w", groups, err)
	}
	return want, nil
}

func (p networkPass) applyTo(ctx context.Context, want, lb *networkBalancer) error {
	owns := !want.reused || p.annotation("force-override-listeners") == "true"
	if err := p.read(ctx, want, lb, p.changed && owns); err != nil {
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
		if p.looksForSources(want, lb) && p.findSources(ctx, want, lb) {
			tasks = append(tasks, func() error {
				return wrap("update associated security group error", p.updateSources(ctx, want, lb.source))
			})
		}
	}
	moves, err := p.planGroups(want.groups, lb)
	if err != nil {
		return err
	}
	if lb.id == "" && !deleting(p.svc) {
		return p.notFound()
	}
	var done chan groupDone
	if p.changed {
		done = make(chan groupDone, len(want.groups))
	}
	tasks = append(tasks, func() error { return p.applyGroups(ctx, moves, done) })
	if lb.id != "" && p.changed && owns { // a preserved NLB loses its listeners, too
		plan, err := p.planListeners(want, lb)
		if err != nil {
			return err
		}
		tasks = append(tasks, func() error { return p.applyListeners(ctx, plan, done) })
	}
	if err := together(tasks...); err != nil || !p.changed {
		return err
	}
	return p.cleanup(ctx, want, lb)
}

func (p networkPass) read(ctx context.Context, want, lb *networkBalancer, listeners bool) error {
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
			return wrap("get lb listeners from cloud, error", p.readListeners(ctx, lb))
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

func differ(a, b []string) bool {
	return !slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

func without(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(s string) bool { return slices.Contains(b, s) })
}
