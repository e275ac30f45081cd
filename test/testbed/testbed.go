// Package testbed puts a real cluster and a simulated cloud into the states in which syncs of load balancers really fail.
// Demonstration, end-to-end tests and benchmarks share it.
//
// A [Testbed] is a cluster with nodes, an account with a dedicated ACK cluster, and the controller under the masters' RAM role. A
// [Fixture] is a Service with one way to fail: its previous state (Prepare), the fault (Inject), and often a person's repair
// (Repair). Only the controller writes Events. Failures come from states of the cloud, and from injected faults only if no state
// causes them. A step ends when the cluster shows its effect, not after a time.
//
// Fixtures that consist of a few operations are data in their class's testdata/fixtures.yaml; file.go has the operations. The
// others are Go code here. Begin with [Start] and [All].
package testbed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/test/cluster"
	"github.com/lbremedy/lbremedy/test/kubernetes"
	"github.com/lbremedy/lbremedy/test/sim"
	"github.com/lbremedy/lbremedy/test/sim/controller"
)

// A Config is the testbed that a fixture needs. Fixtures with the same config share one; [ByConfig] groups them.
type Config struct {
	Version  string  `json:"version"`  // of the controller; empty: v2.12.1
	Upgrade  string  `json:"upgrade"`  // version that replaces the controller in Inject; empty: the same
	Terway   bool    `json:"terway"`   // Pods have addresses of the VPC, and are the backends
	NoPublic bool    `json:"noPublic"` // the controller refuses public load balancers
	Routes   bool    `json:"routes"`   // each node has a block of Pods and a route; needs a cluster of its own
	Speed    float64 `json:"speed"`    // of the controller's clock; zero: 1
	Own      string  `json:"own"`      // a fixture's change of shared state, which excludes other fixtures; empty: none
}

// DefaultVersion is the default release of the controller.
const DefaultVersion = "v2.12.1"

// Options configure a testbed. The zero value starts a cluster of its own.
type Options struct {
	Config
	Cluster   *cluster.Cluster // nil: start one, and end it in Close
	Log       io.Writer        // progress of a cluster's first build; nil: standard error
	Namespace string           // of the Services; empty: shop. Created if missing
	ID        string           // ACK ID of the cluster; empty: ClusterID
	Room      int              // free addresses of the vSwitch with room; zero: 250
	RAMDelay  time.Duration    // delay of new policy versions in RAM; zero: none
	Size      Size             // other objects in the world; default none

	BackoffBase, BackoffMax time.Duration // of the controller; zero: the real 5 s and 300 s
	Workers                 int           // of the controller; zero: the real 3
}

// A Testbed injects failures. Its methods may be called concurrently.
type Testbed struct {
	Cluster   *cluster.Cluster
	Cloud     *sim.Cloud
	Namespace string
	ID        string // ACK ID of the cluster

	opts      Options
	kube      *kubernetes.Client
	vswitches []string // of the controller's configuration
	key       sim.Credentials
	close     []func() // called in reverse order
	watch     *watch
	joining   sync.Mutex // held while a node joins

	mu        sync.Mutex
	version   string
	stop      func()      // stops the controller; nil: it does not run
	stall     func(error) // ends the controller with a cause
	was       map[string]string
	says      map[string]string // expected texts of Services' failures
	faults    map[string]func() // remove a Service's faults from the cloud
	kinds     map[string]string // of fixtures that are not about a Service
	pods      map[string][]pod
	addresses int      // assigned to Pods so far
	touches   int      // so far
	joined    []string // nodes
}

// Start starts a testbed with a running controller. Close ends it.
func Start(ctx context.Context, o Options) (_ *Testbed, err error) {
	o.Namespace = cmp.Or(o.Namespace, "shop")
	o.ID = cmp.Or(o.ID, ClusterID)
	o.Version = cmp.Or(o.Version, DefaultVersion)
	if bin, version := controller.Real(); bin != "" {
		o.Version, o.Upgrade = version, "" // it has one release
	}
	o.Room = cmp.Or(o.Room, 250)
	if err := o.Size.check(o); err != nil {
		return nil, fmt.Errorf("set up the testbed: %w", err)
	}
	tb := &Testbed{
		opts: o, Cluster: o.Cluster, Namespace: o.Namespace, ID: o.ID, version: o.Version,
		was: map[string]string{}, says: map[string]string{}, faults: map[string]func(){}, pods: map[string][]pod{},
		kinds: map[string]string{},
	}
	defer func() {
		if err != nil {
			tb.Close()
			err = fmt.Errorf("set up the testbed: %w", err)
		}
	}()
	if tb.Cluster == nil {
		// The end of ctx only interrupts the start. Later, Close ends the cluster after its users.
		starting, cancel := context.WithCancel(context.WithoutCancel(ctx))
		tb.close = append(tb.close, cancel)
		started := context.AfterFunc(ctx, cancel)
		c, stop, err := cluster.Start(starting, cluster.Options{Log: o.Log})
		if err != nil {
			return nil, err
		}
		started()
		tb.Cluster = c
		tb.close = append(tb.close, stop)
	}
	tb.kube = tb.Cluster.Client()
	if tb.Cloud, err = sim.Start(world(o)); err != nil {
		return nil, err
	}
	tb.close = append(tb.close, tb.Cloud.Close)
	tb.Cloud.View(func(st *sim.State) {
		for _, id := range st.Cluster.VSwitches {
			tb.vswitches = append(tb.vswitches, st.VSwitches[id].Zone+":"+id)
		}
		for _, c := range st.Callers {
			tb.key = c.Credentials() // the only caller so far
		}
	})
	if err := tb.build(ctx); err != nil {
		return nil, err
	}
	if err := tb.settle(ctx, o.Size); err != nil {
		return nil, err
	}
	if tb.watch, err = newWatch(ctx, tb); err != nil {
		return nil, err
	}
	tb.close = append(tb.close, tb.watch.close)
	tb.startController(ctx)
	tb.close = append(tb.close, tb.stopController)
	return tb, nil
}

// Close ends the controller and everything that Start has started.
func (tb *Testbed) Close() {
	for _, f := range slices.Backward(tb.close) {
		f()
	}
	tb.close = nil
}

// Version returns the controller's version.
func (tb *Testbed) Version() string {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	return tb.version
}

// Upgrade replaces the controller by another version, like the add-on's upgrade. The new one remembers nothing and syncs every Service.
func (tb *Testbed) Upgrade(ctx context.Context, version string) error {
	tb.stopController()
	defer tb.startController(ctx)
	return tb.setVersion(ctx, version)
}

func (tb *Testbed) setVersion(ctx context.Context, version string) error {
	tb.mu.Lock()
	tb.version = version
	tb.mu.Unlock()
	tb.Cloud.Edit(func(st *sim.State) { st.Cluster.Addons[controllerName] = version })
	return tb.daemonSet(ctx)
}

// Halt stops the controller until Resume, and waits for its running calls to the cloud. Syncs in progress are left unfinished.
func (tb *Testbed) Halt(ctx context.Context) error {
	tb.stopController()
	return tb.Cloud.Idle(ctx)
}

// Resume starts the controller after Halt. It has no memory, and syncs every Service.
func (tb *Testbed) Resume(ctx context.Context) { tb.startController(ctx) }

func (tb *Testbed) startController(ctx context.Context) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	o := controller.Options{
		Kube: tb.Cluster.Config, Cloud: tb.Cloud.Addr(), Region: region, ClusterID: tb.ID, VPC: vpc, VSwitches: tb.vswitches, Version: tb.version,
		BackoffBase: tb.opts.BackoffBase, BackoffMax: tb.opts.BackoffMax, Workers: tb.opts.Workers, Speed: tb.opts.Speed,
		NoPublic: tb.opts.NoPublic, Namespace: tb.Namespace, Nodes: NodesOf(tb.Namespace),
		Pick: func(int) int { return 0 }, // the full one: a possible random choice
		Log:  slog.New(tally{tb.watch}),
	}
	if tb.opts.Terway {
		o.Backends = "eni"
	}
	if tb.opts.Routes {
		o.Routes = allPods
	}
	o.Credentials = tb.key
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err := controller.Play(ctx, o)
		if cause := context.Cause(ctx); err == nil && errors.Is(cause, controller.ErrStalled) {
			err = cause
		}
		if err != nil {
			tb.watch.fail(err)
		}
	}()
	tb.stop, tb.stall = func() { cancel(nil); <-ended }, cancel
}

// Guard ends a controller that has been idle this long, and fails waiting calls with the end of its log. It returns when ctx ends.
func (tb *Testbed) Guard(ctx context.Context, quiet time.Duration) {
	tick := time.NewTicker(quiet / 20)
	defer tick.Stop()
	last, since := tb.signs(), time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if n := tb.signs(); n != last {
			last, since = n, time.Now()
		} else if time.Since(since) > quiet {
			tb.mu.Lock()
			tb.stall(fmt.Errorf("%w for %s", controller.ErrStalled, quiet))
			tb.mu.Unlock()
			return
		}
	}
}

func (tb *Testbed) signs() int {
	calls := len(tb.Cloud.CallsOf(controllerName))
	tb.watch.mu.Lock()
	defer tb.watch.mu.Unlock()
	return calls + tb.watch.events
}

func (tb *Testbed) stopController() {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	if tb.stop != nil {
		tb.stop()
	}
	tb.stop = nil
}

// Prepare creates the state before a fixture's failure, such as a synced Service. Fixtures without preparation are ready at once.
func (tb *Testbed) Prepare(ctx context.Context, fixtures ...Fixture) error {
	return tb.each(fixtures, func(f Fixture) error {
		if f.prepare == nil {
			return nil
		}
		if err := f.prepare(ctx, tb, f.Service); err != nil {
			return fmt.Errorf("prepare Service %s/%s: %w", tb.Namespace, f.Service, err)
		}
		if f.later {
			return nil
		}
		svc, err := tb.watch.synced(ctx, f.Service)
		if err != nil {
			return fmt.Errorf("prepare Service %s/%s: %w", tb.Namespace, f.Service, err)
		}
		tb.mu.Lock()
		tb.was[f.Service] = svc.Labels[hashLabel]
		tb.mu.Unlock()
		return nil
	})
}

// Inject causes the failures and waits until the controller has reported each with the fixture's text. It replaces the controller
// if a fixture fails only with a restarted one.
func (tb *Testbed) Inject(ctx context.Context, fixtures ...Fixture) error {
	tb.mu.Lock()
	for _, f := range fixtures {
		tb.says[f.Service] = f.Says
		if f.Kind != "" {
			tb.kinds[f.Service] = f.Kind
		}
	}
	tb.mu.Unlock()
	if slices.ContainsFunc(fixtures, func(f Fixture) bool { return f.restarts }) {
		// A stopped controller cannot react to the changes.
		tb.stopController()
		err := tb.inject(ctx, fixtures)
		if err == nil && tb.opts.Upgrade != "" {
			err = tb.setVersion(ctx, tb.opts.Upgrade)
		}
		tb.startController(ctx)
		if err != nil {
			return err
		}
	} else if err := tb.inject(ctx, fixtures); err != nil {
		return err
	}
	return tb.each(fixtures, func(f Fixture) error {
		err := tb.watch.until(ctx, func() bool { return tb.watch.hasFailed(tb.keyOf(f.Service), f.Says) })
		if err != nil {
			return fmt.Errorf("wait for %s to fail with %q: %w%s", tb.About(f), f.Says, err, tb.watch.said(tb.keyOf(f.Service)))
		}
		return nil
	})
}

func (tb *Testbed) inject(ctx context.Context, fixtures []Fixture) error {
	return tb.each(fixtures, func(f Fixture) error {
		if err := f.inject(ctx, tb, f.Service); err != nil {
			return fmt.Errorf("inject the failure of Service %s/%s: %w", tb.Namespace, f.Service, err)
		}
		return nil
	})
}

// Fail prepares the fixtures and injects their failures.
func (tb *Testbed) Fail(ctx context.Context, fixtures ...Fixture) error {
	if err := tb.Prepare(ctx, fixtures...); err != nil {
		return err
	}
	return tb.Inject(ctx, fixtures...)
}

// Repair performs the fixtures' repairs by a person, and waits until the Services work. It skips fixtures without one.
func (tb *Testbed) Repair(ctx context.Context, fixtures ...Fixture) error {
	fixtures = slices.DeleteFunc(slices.Clone(fixtures), func(f Fixture) bool { return f.repair == nil })
	return tb.each(fixtures, func(f Fixture) error {
		// The controller would otherwise notice within five minutes. A Service being deleted may already be gone.
		repair := inOrder(f.repair, touched)
		if f.Kind != "" {
			repair = f.repair
		}
		if err := repair(ctx, tb, f.Service); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("repair Service %s/%s: %w", tb.Namespace, f.Service, err)
		}
		if err := tb.watch.until(ctx, func() bool { return tb.Healed(f.Service) }); err != nil {
			return fmt.Errorf("wait for Service %s/%s to work again: %w%s", tb.Namespace, f.Service, err, tb.watch.said(f.Service))
		}
		return nil
	})
}

func (tb *Testbed) each(fixtures []Fixture, do func(Fixture) error) error {
	if i := slices.IndexFunc(fixtures, func(f Fixture) bool { return f.Service == "" }); i >= 0 {
		return fmt.Errorf("the fixture %s names no Service", fixtures[i].Name)
	}
	errs := make([]error, len(fixtures))
	limit := make(chan struct{}, 16) // capacity of the API server
	var wait sync.WaitGroup
	for i, f := range fixtures {
		limit <- struct{}{}
		wait.Go(func() {
			defer func() { <-limit }()
			errs[i] = do(f)
		})
	}
	wait.Wait()
	return errors.Join(errs...)
}

// Failed returns the time, on this process's clock, of the controller's first Event with the fixture's text about a Service, and
// its message; the zero time if none was seen.
func (tb *Testbed) Failed(service string) (time.Time, string) {
	f, _ := tb.failure(service)
	return f.at, f.Message
}

// Event returns the Event of Failed, and whether one was seen.
func (tb *Testbed) Event(service string) (event.Input, bool) {
	f, ok := tb.failure(service)
	return f.Input, ok
}

func (tb *Testbed) failure(service string) (failure, bool) {
	tb.mu.Lock()
	says := tb.says[service]
	tb.mu.Unlock()
	return tb.watch.failure(tb.keyOf(service), says)
}

// Healed reports whether a Service works: the cloud matches it, each port has a backend, and a sync has come after the state of
// Prepare. A full sync changes the hash label; a sync of only backends, such as a retry after a Pod has started, does not. A
// Service to be deleted is healed when it is gone, a node when it has its route, and the cluster when all nodes have theirs.
func (tb *Testbed) Healed(service string) bool {
	svc := tb.watch.service(service)
	tb.mu.Lock()
	was, known := tb.was[service]
	kind := tb.kinds[service]
	tb.mu.Unlock()
	if kind != "" {
		return tb.routed(tb.About(Fixture{Service: service, Kind: kind}))
	}
	if svc == nil {
		return known
	}
	return tb.Works(service) && (svc.Labels[hashLabel] != was || tb.syncedBackends(svc))
}

// syncedBackends reports whether the controller has synced a Service's backends since a failure: it reported success, and also
// read each group of backends, since its report proves nothing.
func (tb *Testbed) syncedBackends(svc *corev1.Service) bool {
	since, ok := tb.watch.recovered(svc.Name)
	if !ok {
		return false
	}
	unread := map[string]bool{}
	tb.Cloud.View(func(st *sim.State) {
		lb, _ := balancersOf(st, svc)
		for _, id := range filled(st, lb, svc, tb.ID) {
			unread[id] = true
		}
	})
	for _, c := range tb.Cloud.CallsOf(controllerName) {
		if c.At.After(since) && c.Code == "" {
			delete(unread, c.Params["VServerGroupId"]) // DescribeVServerGroupAttribute
			delete(unread, c.Params["ServerGroupId"])  // ListServerGroupServers
		}
	}
	return len(unread) == 0
}

// Works reports whether a Service was synced in any way and each port has a backend.
func (tb *Testbed) Works(service string) bool {
	svc := tb.watch.service(service)
	if svc == nil || svc.DeletionTimestamp != nil || !marked(svc) {
		return false
	}
	works := false
	tb.Cloud.View(func(st *sim.State) {
		lb, n := balancersOf(st, svc)
		works = serves(st, lb, n, svc, tb.ID)
	})
	return works
}

// balancersOf returns the load balancer, of either kind, with the status's address, unless the Service's label names another one.
func balancersOf(st *sim.State, svc *corev1.Service) (*sim.LoadBalancer, *sim.NLB) {
	said, ingress := svc.Labels[balancerLabel], svc.Status.LoadBalancer.Ingress
	if len(ingress) == 0 {
		return nil, nil
	}
	for id, lb := range st.LoadBalancers {
		// Private addresses repeat in other VPCs.
		if lb.Address == ingress[0].IP && (said == "" || id == said) && lb.VPC != otherVPC {
			return lb, nil
		}
	}
	for id, n := range st.NLBs {
		if n.DNSName == ingress[0].Hostname && (said == "" || id == said) {
			return nil, n
		}
	}
	return nil, nil
}

func filled(st *sim.State, lb *sim.LoadBalancer, svc *corev1.Service, cluster string) []string {
	var ids []string
	if lb != nil {
		for _, g := range lb.VGroups {
			if strings.HasSuffix(g.Name, fmt.Sprintf("/%s/%s/%s", svc.Name, svc.Namespace, cluster)) && len(g.Backends) > 0 {
				ids = append(ids, g.ID)
			}
		}
		return ids
	}
	for id, g := range st.ServerGroups {
		if strings.HasSuffix(g.Name, fmt.Sprintf(".%s.%s.%s", svc.Name, svc.Namespace, cluster)) && len(g.Servers) > 0 {
			ids = append(ids, id)
		}
	}
	return ids
}

func serves(st *sim.State, lb *sim.LoadBalancer, n *sim.NLB, svc *corev1.Service, cluster string) bool {
	if lb == nil && n == nil || len(filled(st, lb, svc, cluster)) < groupsOf(svc) {
		return false
	}
	return svc.Annotations[prefix+"id"] != "" || listens(lb, n, svc) // listeners of a person's load balancer belong to the person
}

// Listens reports whether each port of a Service has a running listener, which traffic needs. A deleted Service needs none.
func (tb *Testbed) Listens(service string) bool {
	svc := tb.watch.service(service)
	if svc == nil {
		return true
	}
	does := false
	tb.Cloud.View(func(st *sim.State) { lb, n := balancersOf(st, svc); does = listens(lb, n, svc) })
	return does
}

func listens(lb *sim.LoadBalancer, n *sim.NLB, svc *corev1.Service) bool {
	return !slices.ContainsFunc(svc.Spec.Ports, func(p corev1.ServicePort) bool {
		runs := lb != nil && slices.ContainsFunc(lb.Listeners, func(l sim.Listener) bool { return l.Port == int(p.Port) && l.Status == "running" }) ||
			n != nil && slices.ContainsFunc(n.Listeners, func(l sim.NLBListener) bool { return l.Port == int(p.Port) && l.Status == "Running" })
		return !runs
	})
}

// groupsOf returns a Service's number of backend groups: one for each port of nodes or Pods.
func groupsOf(svc *corev1.Service) int {
	behind := map[string]bool{}
	for _, p := range svc.Spec.Ports {
		behind[fmt.Sprint(p.NodePort, p.TargetPort.String())] = true
	}
	return len(behind)
}

// Until waits until ok returns true, called after each change of a Service or Event, and Wake. It fails when ctx or the controller ends.
func (tb *Testbed) Until(ctx context.Context, ok func() bool) error { return tb.watch.until(ctx, ok) }

// Wake makes Until call ok again.
func (tb *Testbed) Wake() { tb.watch.wake() }
