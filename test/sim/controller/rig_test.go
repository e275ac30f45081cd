package controller_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/cache"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/test/cluster"
	"github.com/lbremedy/lbremedy/test/kubernetes"
	"github.com/lbremedy/lbremedy/test/sim"
	"github.com/lbremedy/lbremedy/test/sim/controller"
)

const (
	prefix    = "service.beta.kubernetes.io/alibaba-cloud-loadbalancer-"
	clusterID = "c0a1b2c3d4e5f60718293a4b5c6d7e8f9"

	labelHash = "service.beta.kubernetes.io/hash"
	labelID   = "service.k8s.alibaba/loadbalancer-id"

	patience = 30 * time.Second
)

// A rig is a namespace of a real cluster, a simulated cloud, a controller between them, and watches of the namespace.
type rig struct {
	*testing.T
	ns    string
	kube  *kubernetes.Client
	cloud *sim.Cloud
	opts  controller.Options
	stop  func()       // stops the controller
	ahead atomic.Int64 // nanoseconds that the cloud's clock is ahead

	mu       sync.Mutex
	seen     sync.Cond
	services map[string]*corev1.Service
	all      map[string]*corev1.Event // by name
	was      []corev1.Service         // each state of each Service
	nodes    []corev1.Node            // each state of each node
}

// newRig starts the cloud w, a ready node if nodes is 1, and a controller with long delays. change may modify the rig before.
func newRig(t *testing.T, w *sim.World, nodes int, change ...func(*rig)) *rig {
	t.Helper()
	c := cluster.Join(t)
	r := &rig{
		T: t, ns: c.Namespace(t), kube: c.Client(),
		services: map[string]*corev1.Service{}, all: map[string]*corev1.Event{},
	}
	r.cloud = sim.New(t, w, sim.WithClock(func() time.Time { return time.Now().Add(time.Duration(r.ahead.Load())) }))
	r.seen.L = &r.mu
	r.opts = controller.Options{
		Kube: c.Config, Cloud: r.cloud.Addr(), Credentials: r.cloud.Client("ccm", "*"),
		ClusterID: clusterID, VPC: "vpc-1", VSwitches: []string{"cn-hangzhou-h:vsw-1"},
		Namespace: r.ns, Nodes: "rig=" + r.ns,
		BackoffBase: time.Hour, BackoffMax: time.Hour,
	}
	for i := range nodes {
		r.node(fmt.Sprintf("%s-%d", r.ns, i+1), fmt.Sprintf("i-%d", i+1))
	}
	for _, f := range change {
		f(r)
	}
	r.watch()
	r.Cleanup(r.needed)
	r.start()
	return r
}

func (r *rig) start() {
	r.Helper()
	r.stop = controller.Start(r.T, r.opts)
}

// needed checks that the controller called only actions that its release needs for these objects.
func (r *rig) needed() {
	v, ok := ccm.ParseVersion(cmp.Or(r.opts.Version, "v2.14.0"))
	if !ok {
		r.Fatalf("release %q", r.opts.Version)
	}
	var network string
	if r.opts.Backends == "eni" {
		network = "terway"
	}
	var lack []string
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(100 * time.Millisecond) { // the last states may still arrive
		r.mu.Lock()
		needs := ccm.Needs(v, ccm.InUse(cloud.Cluster{Network: network}, r.was, r.nodes))
		r.mu.Unlock()
		if v.Major == 1 { // it makes one call for each listener; the simulation makes one for all
			needs = append(needs, "slb:DescribeLoadBalancerListeners")
		}
		lack = nil
		for _, c := range r.cloud.CallsOf("ccm") {
			if action := c.Product + ":" + c.Action; !slices.Contains(needs, action) && !slices.Contains(lack, action) {
				lack = append(lack, action)
			}
		}
		if len(lack) == 0 || time.Now().After(deadline) {
			break
		}
	}
	if len(lack) > 0 {
		r.Errorf("CCM %s calls %v, which its needs do not hold", v, lack)
	}
}

func (r *rig) watch() {
	ctx, cancel := context.WithCancel(context.Background())
	f := r.kube.Informers(r.ns, "")
	note := func(o any) {
		r.mu.Lock()
		defer r.mu.Unlock()
		switch o := o.(type) {
		case *corev1.Service:
			r.services[o.Name] = o
			r.was = append(r.was, *o)
		case *corev1.Node:
			r.nodes = append(r.nodes, *o)
		case *corev1.Event:
			// The API server writes Events on Services, too.
			if o.Source.Component == "service-controller" || o.Source.Component == "nlb-controller" {
				r.all[o.Name] = o
			}
		}
		r.seen.Broadcast()
	}
	h := cache.ResourceEventHandlerFuncs{
		AddFunc:    note,
		UpdateFunc: func(_, o any) { note(o) },
		DeleteFunc: func(o any) {
			if svc, ok := o.(*corev1.Service); ok {
				r.mu.Lock()
				defer r.mu.Unlock()
				delete(r.services, svc.Name)
				r.seen.Broadcast()
			}
		},
	}
	own := r.kube.Informers("", "rig="+r.ns)
	for _, i := range []cache.SharedIndexInformer{f.Services(), f.Events(), own.Nodes()} {
		if _, err := i.AddEventHandler(h); err != nil {
			r.Fatal(err)
		}
	}
	f.Start(ctx)
	own.Start(ctx)
	r.Cleanup(func() {
		cancel()
		f.Wait()
		own.Wait()
	})
}

// until waits until ok returns true, calling it after each change of a Service or an Event; ok may read r.services and r.all.
func (r *rig) until(what string, ok func() bool) {
	r.Helper()
	late := false
	timer := time.AfterFunc(patience, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		late = true
		r.seen.Broadcast()
	})
	defer timer.Stop()
	r.mu.Lock()
	defer r.mu.Unlock()
	for !ok() {
		if late {
			var lines []string
			for _, e := range r.all {
				lines = append(lines, fmt.Sprintf("%s %s x%d: %s", e.InvolvedObject.Name, line(e), e.Count, e.FirstTimestamp.Format(time.TimeOnly)))
			}
			slices.Sort(lines)
			r.Fatalf("waited %v for %s; events:\n%s", patience, what, strings.Join(lines, "\n"))
		}
		r.seen.Wait()
	}
}

func line(e *corev1.Event) string {
	return fmt.Sprintf("%s %s %s", e.Type, e.Reason, e.Message)
}

func (r *rig) saw(service, want string) *corev1.Event {
	r.Helper()
	var found *corev1.Event
	r.until(want, func() bool {
		for _, e := range r.all {
			if e.InvolvedObject.Name == service && line(e) == want {
				found = e
				return true
			}
		}
		return false
	})
	return found
}

func (r *rig) synced(name, was string) *corev1.Service {
	r.Helper()
	var svc *corev1.Service
	r.until(name+" to be synced", func() bool {
		svc = r.services[name]
		return svc != nil && len(svc.Status.LoadBalancer.Ingress) > 0 && r.marked(svc, was)
	})
	return svc
}

// marked reports whether a Service has the labels of a sync: releases stored no hash before v1.9.3.339, and no ID before v2.4.0.
func (r *rig) marked(svc *corev1.Service, was string) bool {
	hash, id, v := svc.Labels[labelHash] != was, svc.Labels[labelID] != "", r.opts.Version
	if strings.HasPrefix(v, "v1.9.3.") && v < "v1.9.3.339" {
		return svc.Labels[labelHash] == "" && !id
	}
	unnamed := slices.ContainsFunc([]string{"v1.9.3.", "v2.0.", "v2.1.", "v2.2.", "v2.3."}, func(old string) bool { return strings.HasPrefix(v, old) })
	return hash && id != unnamed
}

func plays(version string) func(*rig) { return func(r *rig) { r.opts.Version = version } }

func (r *rig) get(name string) *corev1.Service {
	r.Helper()
	svc, err := r.kube.CoreV1().Services(r.ns).Get(r.Context(), name, metav1.GetOptions{})
	if err != nil {
		r.Fatal(err)
	}
	return svc
}

func (r *rig) ensured(name string, n int32) {
	r.Helper()
	r.until(fmt.Sprintf("%d syncs of %s", n, name), func() bool {
		var count int32
		for _, e := range r.all {
			if e.InvolvedObject.Name == name && e.Reason == "EnsuredLoadBalancer" {
				count += e.Count
			}
		}
		return count >= n
	})
}

func (r *rig) gone(name string) {
	r.Helper()
	r.until(name+" to be gone", func() bool { return r.services[name] == nil })
}

// events returns the texts of a Service's Events, in order, without those that only report a trigger.
func (r *rig) events(service string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var lines []string
	for _, e := range r.all {
		if e.InvolvedObject.Name == service && !strings.HasSuffix(e.Reason, "Changed") {
			lines = append(lines, line(e))
		}
	}
	slices.Sort(lines)
	return lines
}

func (r *rig) service(name string, annotations map[string]string, change ...func(*corev1.Service)) *corev1.Service {
	r.Helper()
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{}},
		Spec: corev1.ServiceSpec{
			Type:  corev1.ServiceTypeLoadBalancer,
			Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt(8080), Protocol: corev1.ProtocolTCP}},
		},
	}
	for k, v := range annotations {
		svc.Annotations[prefix+k] = v
	}
	for _, f := range change {
		f(svc)
	}
	svc, err := r.kube.CoreV1().Services(r.ns).Create(r.Context(), svc, metav1.CreateOptions{})
	if err != nil {
		r.Fatal(err)
	}
	return svc
}

func eni(svc *corev1.Service) {
	svc.Annotations["service.beta.kubernetes.io/backend-type"] = "eni"
}

func (r *rig) patch(name, change string, subresource ...string) {
	r.Helper()
	if _, err := r.kube.CoreV1().Services(r.ns).Patch(r.Context(), name, types.MergePatchType, []byte(change), metav1.PatchOptions{}, subresource...); err != nil {
		r.Fatal(err)
	}
}

func (r *rig) annotate(name, key, value string) {
	r.Helper()
	r.patch(name, fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, prefix+key, value))
}

func (r *rig) touch(name, value string) {
	r.Helper()
	r.patch(name, fmt.Sprintf(`{"metadata":{"annotations":{"touch":%q}}}`, value))
}

func (r *rig) delete(name string) {
	r.Helper()
	if err := r.kube.CoreV1().Services(r.ns).Delete(r.Context(), name, metav1.DeleteOptions{}); err != nil {
		r.Fatal(err)
	}
}

func (r *rig) node(name, instance string) {
	r.Helper()
	nodes := r.kube.CoreV1().Nodes()
	_, err := nodes.Create(r.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"rig": r.ns}},
		Spec:       corev1.NodeSpec{ProviderID: "cn-hangzhou." + instance},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}, metav1.CreateOptions{})
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { _ = nodes.Delete(context.Background(), name, metav1.DeleteOptions{}) })
}

func (r *rig) pods(service string, ips ...string) {
	r.Helper()
	r.namedPods(service, "", ips...)
}

func (r *rig) namedPods(service, portName string, ips ...string) {
	r.Helper()
	yes, tcp, port := true, corev1.ProtocolTCP, int32(8080)
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{GenerateName: service + "-", Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: &portName, Port: &port, Protocol: &tcp}},
	}
	if portName == "" {
		slice.Name, slice.GenerateName, slice.Ports[0].Name = service, "", nil
	}
	if strings.Contains(ips[0], ":") {
		slice.AddressType = discoveryv1.AddressTypeIPv6
	}
	for _, ip := range ips {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{ip}, Conditions: discoveryv1.EndpointConditions{Ready: &yes},
			NodeName:  new(r.ns + "-1"),
			TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: r.ns, Name: "pod-" + strings.NewReplacer(".", "-", ":", "-").Replace(ip)},
		})
	}
	if _, err := r.kube.DiscoveryV1().EndpointSlices(r.ns).Create(r.Context(), slice, metav1.CreateOptions{}); err != nil {
		r.Fatal(err)
	}
}

func (r *rig) label(node, key, value string) {
	r.Helper()
	r.changeNode(node, fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, key, value))
}

func (r *rig) changeNode(node, change string, subresource ...string) {
	r.Helper()
	if _, err := r.kube.CoreV1().Nodes().Patch(r.Context(), node, types.MergePatchType, []byte(change), metav1.PatchOptions{}, subresource...); err != nil {
		r.Fatal(err)
	}
}

func (r *rig) moveEndpoints(service, node string) {
	r.Helper()
	all := r.kube.DiscoveryV1().EndpointSlices(r.ns)
	s, err := all.Get(r.Context(), service, metav1.GetOptions{})
	if err != nil {
		r.Fatal(err)
	}
	for i := range s.Endpoints {
		s.Endpoints[i].NodeName = &node
	}
	if _, err := all.Update(r.Context(), s, metav1.UpdateOptions{}); err != nil {
		r.Fatal(err)
	}
}

func (r *rig) lb(id string) *sim.LoadBalancer {
	w := r.cloud.Snapshot()
	i := slices.IndexFunc(w.LoadBalancers, func(lb sim.LoadBalancer) bool { return lb.ID == id })
	if i < 0 {
		return nil
	}
	return &w.LoadBalancers[i]
}

func ownName(svc *corev1.Service) string {
	return ("a" + strings.ReplaceAll(string(svc.UID), "-", ""))[:32]
}

func (r *rig) actions() []string {
	var names []string
	for _, c := range r.cloud.CallsOf("ccm") {
		names = append(names, c.Action)
	}
	return names
}
