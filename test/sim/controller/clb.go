package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/aliyun/alibaba-cloud-sdk-go/services/vpc"
	corev1 "k8s.io/api/core/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
)

const finalizerCLB = "service.k8s.alibaba/resources"

type clb struct {
	*controller
	tokens tokens
}

func newCLB(c *controller) *clb { return &clb{controller: c} }

func (b *clb) kind() kind {
	return kind{component: "service-controller", finalizer: finalizerCLB, refusesPublic: true, wants: wantsCLB, ensure: b.ensure, clean: b.clean}
}

// wantsCLB returns false for a Service with another class: other controllers sync it.
func wantsCLB(svc *corev1.Service) bool {
	_, tunnel := svc.Annotations[annotationTunnel]
	return svc.Spec.Type == corev1.ServiceTypeLoadBalancer && svc.Spec.LoadBalancerClass == nil &&
		!tunnel && svc.Annotations[annotationClass] == ""
}

// A pass is one sync of a Service as it was at the start; later changes wait for the next pass.
type pass struct {
	*controller
	tokens  *tokens // client tokens of CLB
	network bool    // the load balancer is an NLB
	svc     *corev1.Service
	events  record.EventRecorder
	name    string // name and tag value of the controller's own load balancer
	hash    string
	changed bool              // since the last successful sync; if not, only backends are synced
	labels  map[string]string // labels of the Service besides the usual ones; an empty value removes one

	potential bool // a Pod may soon lack only its readiness gate
}

func (c *controller) begin(svc *corev1.Service, events record.EventRecorder) *pass {
	hash := c.version.hash(svc)
	return &pass{controller: c, svc: svc, events: events, name: defaultName(svc), hash: hash, changed: c.DryRun || svc.Labels[labelHash] != hash}
}

func (b *clb) begin(svc *corev1.Service, events record.EventRecorder) *pass {
	p := b.controller.begin(svc, events)
	p.tokens = &b.tokens
	return p
}

func (p *pass) annotation(name string) string {
	if since := introduced(name); since != "" && !p.version.since(since) {
		return ""
	}
	return annotation(p.svc, name)
}

func (p *pass) event(n note) { p.events.Event(p.svc, n.kind, n.reason, n.message) }

func (p *pass) service() string { return p.svc.Namespace + "/" + p.svc.Name }

func (p *pass) fail(reason, doing string, err error) error {
	p.event(note{corev1.EventTypeWarning, reason, "Error " + doing + ": " + err.Error()})
	return fmt.Errorf("%s: %w", doing, err)
}

// ensure syncs finalizer, cloud, labels and status, in this order: a failed sync leaves labels and status unchanged.
func (b *clb) ensure(ctx context.Context, svc *corev1.Service, events record.EventRecorder) error {
	if b.DryRun {
		return b.try(ctx, svc, events)
	}
	finalized, err := b.addFinalizer(ctx, svc, finalizerCLB)
	if err != nil {
		return b.begin(svc, events).fail(reasonFailedFinalizer, "adding finalizer", err)
	}
	p := b.begin(finalized, events)
	lb, backends, err := p.apply(ctx)
	if err != nil {
		p.event(p.version.syncFailed(lb.id, err))
		return err
	}
	return p.conclude(ctx, lb.id, func() []corev1.LoadBalancerIngress { return p.ingress(ctx, lb) }, backends, "has invalid backend in vservergroups")
}

// conclude marks the Service as synced in its Pods, labels and status, in this order, and then writes an Event. If backends are
// missing, it queues the Service again instead of writing the Event.
func (p *pass) conclude(ctx context.Context, id string, ingress func() []corev1.LoadBalancerIngress, backends groups, lacking string) error {
	if err := p.open(ctx, backends); err != nil {
		p.event(note{corev1.EventTypeWarning, reasonFailedReadiness, fmt.Sprintf(
			"Error updating pod readiness gates for service [%s/%s]: %v", p.svc.Namespace, p.svc.Name, err)})
		return err
	}
	if err := p.setHash(ctx, p.svc, p.hash, id, p.labels); err != nil {
		return p.fail(reasonFailedHash, "adding service hash", err)
	}
	if err := p.setIngress(ctx, p.svc, ingress()); err != nil {
		return p.fail(reasonFailedStatus, "updating load balancer status", err)
	}
	if backends.invalid() {
		return errors.New(lacking)
	}
	p.event(p.version.ensured(id, p.service()))
	if p.potential {
		return errPotential
	}
	return nil
}

func (b *clb) clean(ctx context.Context, svc *corev1.Service, events record.EventRecorder) error {
	if b.DryRun {
		return b.try(ctx, svc, events)
	}
	p := b.begin(svc, events)
	return p.end(ctx, finalizerCLB, "LoadBalancerId does not exist", func() (string, error) {
		lb, _, err := p.apply(ctx)
		return lb.id, err
	})
}

// end calls apply to delete cloud resources, which may be missing, and then removes labels, status and, last, the finalizer.
func (p *pass) end(ctx context.Context, finalizer, gone string, apply func() (string, error)) error {
	if slices.Contains(p.svc.Finalizers, finalizer) {
		if id, err := apply(); err != nil && !strings.Contains(err.Error(), gone) {
			p.event(p.version.cleanFailed(id, err))
			return err
		}
		if err := p.removeHash(ctx, p.svc); err != nil {
			return p.fail(reasonFailedUnhash, "removing service hash", err)
		}
		if err := p.setIngress(ctx, p.svc, nil); err != nil {
			return p.fail(reasonFailedStatus, "removing load balancer status", err)
		}
		if err := p.removeFinalizer(ctx, p.svc, finalizer); err != nil {
			return p.fail(reasonFailedUnfinalize, "removing load balancer finalizer", err)
		}
	}
	p.event(note{corev1.EventTypeNormal, reasonCleaned, "Clean load balancer"})
	return nil
}

// apply makes the cloud match the Service. The returned load balancer is never nil, and has an ID if one is known, even with an error.
func (p *pass) apply(ctx context.Context) (*balancer, groups, error) {
	remote := &balancer{}
	want, err := p.wanted(ctx)
	if err != nil {
		return remote, nil, fmt.Errorf("build lb local model error: %w", err)
	}
	if err := p.applyTo(ctx, want, remote); err != nil {
		return remote, nil, fmt.Errorf("apply model error: %w", err)
	}
	return remote, want.groups, nil
}

func (p *pass) wanted(ctx context.Context) (*balancer, error) {
	if deleting(p.svc) {
		return &balancer{reused: p.annotation("id") != "", preserve: p.preserves()}, nil
	}
	want, err := p.wantedAttributes()
	if err != nil {
		return nil, fmt.Errorf("build lb attribute error: %w", err)
	}
	if want.groups, err = p.wantedGroups(ctx, want.reused); err != nil {
		return nil, fmt.Errorf("build vserver groups error: %w", err)
	}
	if want.listeners, err = p.wantedListeners(want.reused); err != nil {
		// The typo is the controller's.
		return nil, fmt.Errorf("builid lb listener error: %w", err)
	}
	return want, nil
}

func (p *pass) applyTo(ctx context.Context, want, remote *balancer) error {
	if err := p.find(ctx, remote); err != nil {
		return fmt.Errorf("get load balancer attribute from cloud, error: %w", err)
	}
	atOnce := p.version.since("v2.12.0")
	if atOnce && remote.id != "" {
		if err := p.read(ctx, want, remote); err != nil {
			return err
		}
	}
	if remote.id != "" && want.preserve {
		p.event(note{corev1.EventTypeWarning, reasonPreserved, fmt.Sprintf("The lb [%s] will be preserved after the service is deleted.", remote.id)})
	}
	if !atOnce {
		return p.inTurn(ctx, want, remote)
	}
	var tasks []func() error
	if p.changed {
		if err := p.settle(ctx, want, remote); err != nil {
			return fmt.Errorf("update lb attribute error: %w", err)
		}
		tasks = append(tasks, func() error { return wrap("update lb attribute error", p.update(ctx, want, remote)) })
	}
	if remote.id == "" {
		if deleting(p.svc) {
			return nil
		}
		return p.notFound()
	}

	moves := planGroups(want.groups, remote.groups)
	var done chan groupDone
	if p.changed {
		done = make(chan groupDone, len(want.groups))
	}
	tasks = append(tasks, func() error { return p.applyGroups(ctx, remote.id, moves, done) })
	if p.changed && p.ownsListeners(want) {
		differs, err := p.diffListeners(want, remote)
		if err != nil {
			return err
		}
		plan := p.planListeners(remote.id, differs)
		tasks = append(tasks, func() error { return p.applyListeners(ctx, remote.id, plan, done) })
	}
	if err := together(tasks...); err != nil {
		return err // no cleanup after an error
	}
	if !p.changed {
		return nil
	}
	return wrap("cleanup lb error", p.cleanup(ctx, want, remote))
}

func (p *pass) read(ctx context.Context, want, remote *balancer) error {
	tasks := []func() error{
		func() (err error) {
			remote.tags, err = p.tagsOf(ctx, remote.id)
			return wrap("DescribeTags", err)
		},
		func() (err error) {
			remote.groups, err = p.groupsOf(ctx, remote.id)
			return wrap("get lb backend from remote error: DescribeVServerGroups error", err)
		},
	}
	if p.changed && p.ownsListeners(want) {
		tasks = append(tasks, func() (err error) {
			remote.listeners, err = p.listenersOf(ctx, remote.id)
			return wrap("get lb listeners from cloud, error: DescribeLoadBalancerListeners error", err)
		})
	}
	return together(tasks...)
}

// ownsListeners reports whether the controller manages the listeners: on a load balancer of others, only on request.
func (p *pass) ownsListeners(want *balancer) bool {
	return !want.reused || p.annotation("force-override-listeners") == "true"
}

func (p *pass) notFound() error {
	if !p.version.since("v2.3.0") {
		return p.gone()
	}
	return fmt.Errorf("alicloud: can not find loadbalancer by tag [%s:%s]", tagOwn, p.name)
}

func (p *pass) gone() error {
	ip := ""
	if ingress := p.svc.Status.LoadBalancer.Ingress; len(ingress) > 0 {
		ip = ingress[0].IP
	}
	return fmt.Errorf("alicloud: can not find loadbalancer, but it's defined in service [%v] "+
		"this may happen when you delete the loadbalancer", ip)
}

// ingress returns the addresses for the Service's status. A host name replaces EIPs, which are looked up all the same.
func (p *pass) ingress(ctx context.Context, lb *balancer) []corev1.LoadBalancerIngress {
	ips := []corev1.LoadBalancerIngress{{IP: lb.address}}
	if p.annotation("external-ip-type") == "eip" {
		eips, err := p.eipsOf(ctx, lb.id)
		if err != nil {
			p.event(note{corev1.EventTypeWarning, reasonFailedEIP, "get eip error, set external ip to slb ip"})
		} else {
			ips = eips
		}
	}
	if host := p.annotation("hostname"); host != "" {
		return []corev1.LoadBalancerIngress{{Hostname: host}}
	}
	return ips
}

func (p *pass) eipsOf(ctx context.Context, lb string) ([]corev1.LoadBalancerIngress, error) {
	req, resp := vpc.CreateDescribeEipAddressesRequest(), vpc.CreateDescribeEipAddressesResponse()
	req.AssociatedInstanceType, req.AssociatedInstanceId = "SlbInstance", lb
	if err := p.cloud.raw(ctx, req, resp); err != nil {
		return nil, err
	}
	var ips []corev1.LoadBalancerIngress
	for _, e := range resp.EipAddresses.EipAddress {
		ips = append(ips, corev1.LoadBalancerIngress{IP: e.IpAddress})
	}
	if len(ips) == 0 {
		return nil, fmt.Errorf("slb %s has no eip, svc external ip cannot be set to eip address", lb)
	}
	return ips, nil
}

func wrap(doing string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// together runs tasks in parallel and joins their errors in task order: one unchanged, several as "[a, b]".
func together(tasks ...func() error) error {
	errs := make([]error, len(tasks))
	var running sync.WaitGroup
	for i, task := range tasks {
		running.Go(func() {
			// A panic ends the sync, not the controller.
			defer func() {
				if r := recover(); r != nil {
					errs[i] = fmt.Errorf("panic: %v [recovered]", r)
				}
			}()
			errs[i] = task()
		})
	}
	running.Wait()
	return aggregate(errs)
}

// each runs n tasks, ten at a time, and returns their errors in order.
func each(ctx context.Context, n int, do func(i int) error) []error {
	errs := make([]error, n)
	workqueue.ParallelizeUntil(ctx, 10, n, func(i int) { errs[i] = do(i) })
	return errs
}

func aggregate(errs []error) error {
	if a := utilerrors.NewAggregate(errs); a != nil {
		return a
	}
	return nil
}
