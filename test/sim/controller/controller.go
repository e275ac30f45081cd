// Package controller is a simulated cloud-controller-manager. It syncs LoadBalancer Services of a real API server against the
// simulated cloud, and leaves the Events, labels, finalizers and status of the real one.
//
// [Run] plays v2.14.0 by default, faithful wherever it affects failures: triggers, hash, search for and reuse of a load balancer,
// calls and their order, texts of Events, back-off. Code names the release since which behaviour differs. Facts are from the
// public source and recorded runs of v2.14.0. Oddities are kept: an error in one port's backends appears only when its listener
// finds no group, errors in reading a group's backends are ignored, and no error is cleaned up.
//
// Begin with trigger.go (what queues a Service), loop.go (its turn) and clb.go (its sync). sequence.go has releases before
// v2.12.0, first.go the first generation (v1.9.3), nlb*.go NLB, route.go the routes to nodes. [GitOps] reverts changes.
//
// Not simulated: routes of nodes that leave; the feature gate by which an annotation chooses the kind of load balancer;
// Endpoints, which releases before v2.9.1 read instead of EndpointSlices; the edge load balancers of v2.7 and v2.8; the cluster's
// resource group for new load balancers.
package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"github.com/lbremedy/lbremedy/test/kubernetes"
	"github.com/lbremedy/lbremedy/test/sim"
)

const fieldManager = "cloud-controller-manager"

// Options configure a controller. Kube, Cloud, Credentials, ClusterID and VPC are required, and VSwitches for intranet
// load balancers without a vSwitch of their own.
type Options struct {
	Kube        *rest.Config // unlimited rate unless it sets one
	Cloud       string       // host:port of the simulated OpenAPI
	Credentials sim.Credentials
	Region      string   // cn-hangzhou if empty
	ClusterID   string   // of ACK
	VPC         string   // of the cluster
	VSwitches   []string // as zone:vsw-id; a load balancer gets a random one
	Version     string   // simulated release, v2.14.0 if empty

	BackoffBase time.Duration // delay before the first retry; it doubles; 5 s if zero
	BackoffMax  time.Duration // longest delay; 300 s if zero
	Workers     int           // Services synced in parallel; 3 if zero
	Speed       float64       // of its clock: waits are shorter by this factor; 1 if zero

	Backends  string          // backend type of Services without one: ecs (default) or eni
	NoPublic  bool            // refuse load balancers with a public address
	DualStack bool            // the feature gate that IPv6 backends need
	Routes    string          // address block of all Pods; each node with a part of it gets a route. Empty: no routes
	Namespace string          // of the Services; empty: all, as the real one
	Nodes     string          // label selector of the nodes; empty: all, as the real one
	Pick      func(n int) int // picks one of n vSwitches; nil: at random
	DryRun    bool            // check every Service once, change nothing, report, and end

	// Before, if not nil, is called with each Event before it is stored. It delays that Event and all later ones until it returns.
	Before func(*corev1.Event)

	Log *slog.Logger // nil: none
}

func (o *Options) check() (version, error) {
	v, err := parseVersion(o.Version)
	if err != nil {
		return nil, err
	}
	if o.Kube == nil {
		return nil, errors.New("no cluster: Kube is nil")
	}
	for _, f := range []struct{ name, value string }{
		{"Cloud", o.Cloud}, {"ClusterID", o.ClusterID}, {"VPC", o.VPC}, {"Credentials.AccessKeyID", o.Credentials.AccessKeyID},
	} {
		if f.value == "" {
			return nil, fmt.Errorf("%s is empty", f.name)
		}
	}
	for _, s := range o.VSwitches {
		if !zoneAndVSwitch.MatchString(s) {
			return nil, fmt.Errorf("vSwitch %q is not of the form zone:vsw-id", s)
		}
	}
	if o.DryRun && v.first() {
		return nil, fmt.Errorf("version %s has no dry run", o.Version)
	}
	if o.Backends != "" && o.Backends != backendECS && o.Backends != backendENI {
		return nil, fmt.Errorf("backend type %q is neither ecs nor eni", o.Backends)
	}
	o.Region = cmp.Or(o.Region, "cn-hangzhou")
	o.BackoffBase = cmp.Or(o.BackoffBase, 5*time.Second)
	o.BackoffMax = cmp.Or(o.BackoffMax, 300*time.Second)
	o.Workers = cmp.Or(o.Workers, 3)
	o.Speed = cmp.Or(o.Speed, 1)
	if o.Speed < 0 {
		return nil, fmt.Errorf("speed %v is negative", o.Speed)
	}
	if o.Pick == nil {
		o.Pick = rand.IntN
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return v, nil
}

var zoneAndVSwitch = regexp.MustCompile(`^[^:,]+:[^:,]+$`)

type controller struct {
	Options
	version   version
	vswitches []string // IDs, in the order of Options.VSwitches
	kube      *kubernetes.Client
	cloud     *openapi

	services corelisters.ServiceLister
	slices   cache.Indexer // of EndpointSlices, by the Service in their label
	nodes    corelisters.NodeLister
	pods     corelisters.PodLister
}

func (c *controller) wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(c.pause(d))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *controller) pause(d time.Duration) time.Duration {
	return time.Duration(float64(d) / c.Speed)
}

// Run runs the controller until ctx ends (a dry run until it is done), and returns nil, or an error about options or an unreadable cluster.
func Run(ctx context.Context, o Options) error {
	v, err := o.check()
	if err != nil {
		return fmt.Errorf("run simulated controller: %w", err)
	}
	config := rest.CopyConfig(o.Kube)
	if config.QPS == 0 {
		config.QPS = -1
	}
	config.UserAgent = fieldManager
	kube, err := kubernetes.New(config)
	if err != nil {
		return fmt.Errorf("run simulated controller: %w", err)
	}
	c := &controller{Options: o, version: v, kube: kube, cloud: newOpenAPI(o.Cloud, o.Region, o.Credentials)}
	defer c.cloud.transport.CloseIdleConnections()
	for _, s := range o.VSwitches {
		_, id, _ := strings.Cut(s, ":")
		c.vswitches = append(c.vswitches, id)
	}

	// Informers and recorders outlive their users.
	background, end := context.WithCancel(context.WithoutCancel(ctx))
	namespaced, wide := kube.Informers(o.Namespace, ""), kube.Informers("", o.Nodes)
	services, slices, nodes, pods := namespaced.Services(), namespaced.EndpointSlices(), wide.Nodes(), namespaced.Pods()
	c.services, c.slices = corelisters.NewServiceLister(services.GetIndexer()), slices.GetIndexer()
	c.nodes, c.pods = corelisters.NewNodeLister(nodes.GetIndexer()), corelisters.NewPodLister(pods.GetIndexer())
	if err := slices.AddIndexers(cache.Indexers{byService: serviceOf}); err != nil {
		end()
		return fmt.Errorf("run simulated controller: %w", err)
	}

	told := ctx
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if o.DryRun {
		c.cloud.dry = &precheck{end: stop, left: map[turn]bool{}, items: map[string]item{}, networkItems: map[string]item{}}
	}
	loops := []*loop{}
	broadcasters := []record.EventBroadcaster{}
	drains := []func(context.Context){} // wait until Events are stored
	c.cloud.first = v.first()
	kinds := []kind{newCLB(c).kind()}
	if v.first() {
		kinds = []kind{firstCLB{c}.kind()}
	}
	if v.since("v2.5.0") {
		kinds = append(kinds, (&nlb{controller: c}).kind())
	}
	for _, k := range kinds {
		broadcaster := record.NewBroadcaster(record.WithContext(background), record.WithCorrelatorOptions(c.correlation()))
		into := sink{&typedcorev1.EventSinkImpl{Interface: kube.CoreV1().Events("")}, v.since("v2.8.0"), o.Before, make(chan struct{}, 1)}
		broadcaster.StartRecordingToSink(into)
		broadcasters = append(broadcasters, broadcaster)
		recorder := broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: k.component})
		drains = append(drains, func(ctx context.Context) { into.drain(ctx, recorder) })
		l := c.newLoop(k, recorder)
		loops = append(loops, l)
		for _, watch := range []struct {
			informer cache.SharedIndexInformer
			handler  cache.ResourceEventHandler
		}{
			{services, l.serviceHandler()}, {slices, l.sliceHandler()}, {nodes, l.nodeHandler()},
		} {
			if _, err := watch.informer.AddEventHandler(watch.handler); err != nil {
				end()
				return fmt.Errorf("run simulated controller: %w", err)
			}
		}
	}
	var keeper *routeLoop
	if o.Routes != "" {
		broadcaster := record.NewBroadcaster(record.WithContext(background), record.WithCorrelatorOptions(c.correlation()))
		broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: kube.CoreV1().Events("")})
		broadcasters = append(broadcasters, broadcaster)
		keeper = c.newRouteLoop(broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: routeController}))
		if _, err := nodes.AddEventHandler(keeper.handler()); err != nil {
			end()
			return fmt.Errorf("run simulated controller: %w", err)
		}
	}
	namespaced.Start(background)
	wide.Start(background)
	defer func() {
		end()
		namespaced.Wait()
		wide.Wait()
		for _, b := range broadcasters {
			b.Shutdown()
		}
	}()
	if !cache.WaitForCacheSync(ctx.Done(), services.HasSynced, slices.HasSynced, nodes.HasSynced, pods.HasSynced) {
		return nil // ended before it began
	}
	if c.cloud.dry != nil {
		for _, l := range loops {
			if l.unrehearsed {
				continue
			}
			if err := c.cloud.dry.expect(l); err != nil {
				return fmt.Errorf("run simulated controller: %w", err)
			}
		}
		c.cloud.dry.looked(turn{}) // there may be no Services
	}
	var running sync.WaitGroup
	for _, l := range loops {
		running.Go(func() { l.run(ctx, o.Workers) })
	}
	if keeper != nil {
		running.Go(func() { keeper.run(ctx) })
	}
	running.Wait()
	if c.cloud.dry == nil || told.Err() != nil {
		return nil
	}
	for _, drain := range drains {
		drain(told)
	}
	return c.cloud.dry.report(told, c)
}

// Start runs the controller until the test ends or stop is called, which waits for the end.
func Start(t testing.TB, o Options) (stop func()) {
	t.Helper()
	if _, err := o.check(); err != nil {
		t.Fatal(err)
	}
	return start(t, func(ctx context.Context) error { return Run(ctx, o) })
}

// correlation returns the recorder's real limits, on the controller's clock: ten Events within ten minutes that differ only in
// text become one, and a Service has 25 Events plus one every five minutes.
func (c *controller) correlation() record.CorrelatorOptions {
	return record.CorrelatorOptions{
		QPS:                  float32(c.Speed / 300),
		MaxIntervalInSeconds: max(1, int(600/c.Speed)),
	}
}

// A sink stores Events. Before v2.8.0 the controller's Kubernetes library left the reporting component empty.
type sink struct {
	record.EventSink
	reporting bool
	before    func(*corev1.Event)
	last      chan struct{} // capacity one; receives when all Events so far are stored
}

// lastEvent is the object of a marker Event that follows all Events written before it and is not stored.
const lastEvent = "last-event"

// drain waits until all written Events are stored, or ctx ends. The recorder drops Events if too many wait, so the marker is repeated.
func (s sink) drain(ctx context.Context, events record.EventRecorder) {
	again := time.NewTicker(time.Second)
	defer again.Stop()
	for {
		events.Event(&corev1.ObjectReference{Kind: "Service", Namespace: metav1.NamespaceSystem, Name: lastEvent}, corev1.EventTypeNormal, lastEvent, lastEvent)
		select {
		case <-s.last:
			return
		case <-again.C:
		case <-ctx.Done():
			return
		}
	}
}

func (s sink) isLast(e *corev1.Event) bool {
	if e.InvolvedObject.Name != lastEvent || e.Reason != lastEvent {
		return false
	}
	select {
	case s.last <- struct{}{}:
	default: // already signalled
	}
	return true
}

func (s sink) Patch(e *corev1.Event, data []byte) (*corev1.Event, error) {
	if s.isLast(e) {
		return e, nil
	}
	if s.before != nil {
		s.before(e)
	}
	return s.EventSink.Patch(e, data)
}

func (s sink) Create(e *corev1.Event) (*corev1.Event, error) {
	if s.isLast(e) {
		return e, nil
	}
	if s.before != nil {
		s.before(e)
	}
	if !s.reporting {
		e = e.DeepCopy()
		e.ReportingController = ""
	}
	return s.EventSink.Create(e)
}
