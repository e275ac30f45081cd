package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/requests"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
)

// precheckEvent is the Event in kube-system with the report of a dry run, the check before an upgrade.
const precheckEvent = "CloudControllerManagerPrecheckResult"

// A precheck is a dry run: Services still to be checked, and changes that would be made. It is safe for concurrent use.
type precheck struct {
	end func() // called when all are checked

	mu           sync.Mutex
	left         map[turn]bool
	items        map[string]item
	count        int
	networkItems map[string]item
	networkCount int
}

type turn struct {
	component string
	service   cache.ObjectName
}

// The field names of an item are those of the real report.
type item struct {
	Name, Id, MessageLevel, MessageCode, AffectCode, AdviseCode, Message string
}

func (d *precheck) expect(l *loop) error {
	all, err := l.services.List(labels.Everything())
	if err != nil {
		return fmt.Errorf("list services: %w", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, svc := range all {
		if l.wants(svc) || slices.Contains(svc.Finalizers, l.finalizer) {
			d.left[turn{l.component, cache.MetaObjectToName(svc)}] = true
		}
	}
	return nil
}

func (d *precheck) looked(t turn) {
	d.mu.Lock()
	delete(d.left, t)
	over := len(d.left) == 0
	d.mu.Unlock()
	if over {
		d.end()
	}
}

func (d *precheck) report(ctx context.Context, c *controller) error {
	type check struct {
		Name                                            string
		InstanceResults                                 map[string]item `json:"instanceResults,omitempty"`
		PassCount, FailedCount, WarnCount, UnknownCount int
	}
	result := struct {
		State, Reason string
		CheckResults  []check
	}{State: "Success", Reason: "ccm initial process finished"}
	d.mu.Lock()
	if d.count > 0 {
		result.CheckResults = []check{{Name: "ccmSLB", InstanceResults: d.items, FailedCount: d.count}}
	}
	if d.networkCount > 0 {
		result.CheckResults = append(result.CheckResults, check{Name: checkNLB, InstanceResults: d.networkItems, FailedCount: d.networkCount})
	}
	text, err := json.Marshal(result)
	d.mu.Unlock()
	if err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	event := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: precheckEvent, Namespace: metav1.NamespaceSystem},
		Reason:     result.State, Message: string(text), Type: corev1.EventTypeNormal,
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", APIVersion: "v1", Name: "ccm-precheck-pod", Namespace: metav1.NamespaceSystem},
	}
	events := c.kube.CoreV1().Events(metav1.NamespaceSystem)
	_, err = events.Create(ctx, event, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = events.Update(ctx, event, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("report the dry run: %w", err)
	}
	return nil
}

func (b *clb) try(ctx context.Context, svc *corev1.Service, events record.EventRecorder) error {
	p := b.begin(svc, events)
	if lb, _, err := p.apply(about(ctx, svc)); err != nil {
		n := p.version.syncFailed(lb.id, err)
		n.message = "DryRun: " + n.message
		p.event(n)
	}
	return nil
}

type aboutKey struct{}

func about(ctx context.Context, svc *corev1.Service) context.Context {
	return context.WithValue(ctx, aboutKey{}, svc.Namespace+"/"+svc.Name)
}

// A hint is the item that a dry run reports in place of a call: its code, and a text with the values of these parameters.
type hint struct {
	code, text string
	params     []string
	about      string // parameter appended to the Service's name
}

// hints returns the reported hint for each call. Unlisted calls are made, including two writes: if a release needs another group,
// its dry run creates that group and its backends.
func hints() map[string]hint {
	const lb, port, group = "LoadBalancerId", "ListenerPort", "VServerGroupId"
	all := map[string]hint{
		"CreateLoadBalancer":             {code: "CreateSLB", text: "need to create loadbalancer"},
		"DeleteLoadBalancer":             {code: "DeleteSLB", text: "loadbalancer %s should be deleted", params: []string{lb}},
		"ModifyLoadBalancerInstanceSpec": {code: "ModifySLBSpec", text: "loadbalancer %s spec should be %s", params: []string{lb, "LoadBalancerSpec"}},
		"SetLoadBalancerDeleteProtection": {code: "SetSLBDeleteProtection", text: "loadbalancer %s DeleteProtection should be %s",
			params: []string{lb, "DeleteProtection"}},
		"SetLoadBalancerName": {code: "SetSLBName", text: "loadbalancer %s name should be %s", params: []string{lb, "LoadBalancerName"}},
		"ModifyLoadBalancerInternetSpec": {code: "ModifyInternetSpec", text: "loadbalancer %s chargeType should be %s, bandwidth %s",
			params: []string{lb, "InternetChargeType", "Bandwidth"}},
		"SetLoadBalancerModificationProtection": {code: "SetSLBModificationProtection", text: "loadbalancer %s ModificationProtection should be %s",
			params: []string{lb, "ModificationProtectionStatus"}},
		"ModifyLoadBalancerInstanceChargeType": {code: "ModifyLoadBalancerInstanceChargeType",
			text: "loadbalancer %s ModifyLoadBalancerInstanceChargeType should be %s with spec [%s]", params: []string{lb, "InstanceChargeType", "LoadBalancerSpec"}},
		"StartLoadBalancerListener":  {code: "StartListener", text: "loadbalancer %s listener %s should be running", params: []string{lb, port}, about: port},
		"DeleteLoadBalancerListener": {code: "DeleteListener", text: "loadbalancer %s listener %s should be deleted", params: []string{lb, port}, about: port},
		"DeleteVServerGroup":         {code: "DeleteVgroup", text: "loadbalancer %s vgroup %s should be deleted", params: []string{lb, group}, about: group},
		"RemoveVServerGroupBackendServers": {code: "RemoveVgroup", text: "loadbalancer %s vgroup %s backends %s should be deleted",
			params: []string{lb, group, "BackendServers"}, about: group},
		"TagResources":                {},
		"UntagResources":              {},
		"AddTags":                     {},
		"SetVServerGroupAttribute":    {},
		"CreateDomainExtension":       {},
		"SetDomainExtensionAttribute": {},
		"DeleteDomainExtension":       {},
	}
	for _, protocol := range []string{"TCP", "UDP", "HTTP", "HTTPS"} {
		all["CreateLoadBalancer"+protocol+"Listener"] = hint{code: "CreateListener", text: "loadbalancer %s listener %s should be created",
			params: []string{lb, port}, about: port}
		all["SetLoadBalancer"+protocol+"ListenerAttribute"] = hint{code: "UpdateListener", text: "loadbalancer %s listener %s should be updated, ",
			params: []string{lb, port}, about: port}
	}
	return all
}

func (d *precheck) instead(ctx context.Context, req requests.AcsRequest) (bool, error) {
	action := req.GetActionName()
	h, ok := hints()[action]
	if !ok || h.code == "" {
		return ok, nil
	}
	if err := requests.InitParams(req); err != nil {
		return true, fmt.Errorf("read parameters of %s: %w", action, err)
	}
	params := req.GetQueryParams()
	var values []any
	for _, p := range h.params {
		values = append(values, params[p])
	}
	name, _ := ctx.Value(aboutKey{}).(string)
	if h.about != "" {
		name += "/" + params[h.about]
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.count++
	d.items[name] = item{Name: name, Id: params["LoadBalancerId"], MessageLevel: "error", MessageCode: h.code, AffectCode: h.code, AdviseCode: "ccmSLB"}
	return true, fmt.Errorf("OpenAPI: %s, Message: %s", action, fmt.Sprintf(h.text, values...))
}
