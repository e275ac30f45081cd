// Package testbed brings a real cluster and a simulated cloud into the states in
// which load-balancer syncs really fail.
//
// A Testbed is a cluster with nodes, an account in which a dedicated ACK cluster
// lives, and the controller between them under the RAM role of the masters. A
// Fixture is a Service in it with one way to fail: what there was before (Prepare),
// what then goes wrong (Inject), and often what a person does about it (Repair).
// Nothing writes an event but the controller, no fault is injected where a state
// of the cloud brings the failure about, and nothing waits for time to pass:
// every step ends when the cluster shows what it was to bring about.
//
// Fixtures that a few operations make up lie with their class, in
// testdata/fixtures.yaml of its folder; file.go has the operations. Those that need
// more are here, in Go.
//
// Demonstration, end-to-end tests and benchmarks share it, so that they show,
// test and measure the same failures.
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

// A Config is what a fixture needs its testbed to be. Fixtures of one config share a
// testbed; [ByConfig] groups them.
type Config struct {
	Version  string  `json:"version"`  // of the controller; empty: v2.12.1
	Upgrade  string  `json:"upgrade"`  // version of a controller that replaces the first in Inject; empty: the same
	Terway   bool    `json:"terway"`   // the Pods have addresses of the VPC, and are the backends
	NoPublic bool    `json:"noPublic"` // the controller refuses to make load balancers with public addresses
	Routes   bool    `json:"routes"`   // each node has a block of Pods, and the controller keeps a route to it. It needs a cluster of its own
	Speed    float64 `json:"speed"`    // of the controller's clock; zero: 1
	Own      string  `json:"own"`      // what the fixtures do to all that is in the testbed, which keeps others away; empty: nothing
}

// DefaultVersion is the release of the controller in a testbed that names none.
const DefaultVersion = "v2.12.1"

// Options say what a testbed is like. The zero value is one with a cluster of its own.
type Options struct {
	Config
	Cluster   *cluster.Cluster // nil: one is started, and ended by Close
	Log       io.Writer        // progress of a first build of the cluster; nil: standard error
	Namespace string           // of the Services; empty: shop. It is made where it is missing
	ID        string           // of the cluster on Alibaba Cloud; empty: ClusterID
	Room      int              // free addresses of the vSwitch with room; zero: 250
	RAMDelay  time.Duration    // how long RAM takes to act on a new policy version; zero: at once
	Size      Size             // of what else is in the world; the zero value is nothing

	BackoffBase, BackoffMax time.Duration // of the controller; zero: its real ones, 5 s and 300 s
	Workers                 int           // of the controller; zero: its real number, 3
}

// A Testbed is where fixtures fail. Its methods may be called concurrently.
type Testbed struct {
	Cluster   *cluster.Cluster
	Cloud     *sim.Cloud
	Namespace string
	ID        string // of the cluster on Alibaba Cloud

	opts      Options
	kube      *kubernetes.Client
	vswitches []string // of the controller's configuration
	key       sim.Credentials
	close     []func() // in reverse order
	watch     *watch
	joining   sync.Mutex // held while a node joins

	mu        sync.Mutex
	version   string
	stop      func()      // ends the controller; nil: it does not run
	stall     func(error) // ends the controller for a reason
	was       map[string]string
	says      map[string]string // what Services are to fail with
	faults    map[string]func() // end what the cloud refuses because of a Service
	kinds     map[string]string // of what fixtures are about that are about no Service
	pods      map[string][]pod
	addresses int      // that Pods were given so far
	touches   int      // of Services so far
	joined    []string // nodes
}

// Start sets a testbed up, with the controller running. It ends with Close.
func Start(ctx context.Context, o Options) (_ *Testbed, err error) {
	o.Namespace = cmp.Or(o.Namespace, "shop")
	o.ID = cmp.Or(o.ID, ClusterID)
	o.Version = cmp.Or(o.Version, DefaultVersion)
	if bin, version := controller.Real(); bin != "" {
		o.Version, o.Upgrade = version, "" // it is of one release
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
		// The end of ctx ends the start. After that, Close ends the cluster, when
		// nothing uses it any more.
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
			tb.key = c.Credentials() // the controller is the only one so far
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

// Close ends the controller and what Start has started.
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

// Upgrade replaces the controller by one of another version, as an upgrade of
// the add-on does. It forgets what the old one remembered, and syncs every Service.
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

// Halt ends the controller until Resume, and waits for what it has asked the cloud to
// do. What it is in the middle of stays as it is.
func (tb *Testbed) Halt(ctx context.Context) error {
	tb.stopController()
	return tb.Cloud.Idle(ctx)
}

// Resume starts a controller in the place of the one that Halt has ended. It has
// forgotten what that one did, and syncs every Service.
func (tb *Testbed) Resume(ctx context.Context) { tb.startController(ctx) }

func (tb *Testbed) startController(ctx context.Context) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	o := controller.Options{
		Kube: tb.Cluster.Config, Cloud: tb.Cloud.Addr(), Region: region, ClusterID: tb.ID, VPC: vpc, VSwitches: tb.vswitches, Version: tb.version,
		BackoffBase: tb.opts.BackoffBase, BackoffMax: tb.opts.BackoffMax, Workers: tb.opts.Workers, Speed: tb.opts.Speed,
		NoPublic: tb.opts.NoPublic, Namespace: tb.Namespace, Nodes: NodesOf(tb.Namespace),
		Pick: func(int) int { return 0 }, // the full one, as chance has it
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

// Guard ends a controller that has called no API and written no Event for so long: it does not work. What waits for it
// then fails with the end of its log. Guard returns when ctx ends.
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

// signs counts the controller's signs of life.
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

// Prepare makes what a fixture needs before its failure, such as a Service that is
// synced. Fixtures that need nothing are prepared at once.
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

// Inject causes the failures and returns when the controller has reported each, in
// the text that the fixture names.
//
// Where one of them comes to light only with a controller that has forgotten
// what it did before, the controller is replaced by a fresh one.
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
		// The controller can't hold on to what happens while it is away.
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

// Repair does what a person would do about each fixture that says what that is, and
// returns when the Services work. The others stay as they are.
func (tb *Testbed) Repair(ctx context.Context, fixtures ...Fixture) error {
	fixtures = slices.DeleteFunc(slices.Clone(fixtures), func(f Fixture) bool { return f.repair == nil })
	return tb.each(fixtures, func(f Fixture) error {
		// The controller would find out by itself, some time within five minutes.
		// One that was to go may be gone before.
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

// each does something for all fixtures at once.
func (tb *Testbed) each(fixtures []Fixture, do func(Fixture) error) error {
	if i := slices.IndexFunc(fixtures, func(f Fixture) bool { return f.Service == "" }); i >= 0 {
		return fmt.Errorf("the fixture %s names no Service", fixtures[i].Name)
	}
	errs := make([]error, len(fixtures))
	limit := make(chan struct{}, 16) // the API server's room
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

// Failed returns when the controller's first event about a Service was seen that
// says what its fixture does, on this process's clock, and its message; the zero
// time if there was none.
func (tb *Testbed) Failed(service string) (time.Time, string) {
	f, _ := tb.failure(service)
	return f.at, f.Message
}

// Event returns the event of Failed, and whether there was one.
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

// Healed reports whether a Service works: it is synced to the letter of the
// cloud, has a backend behind each port, and by a sync that came after what
// Prepare left. A full sync leaves another hash label. One of backends alone, such as the
// controller's retry after a Pod has started, does not. One that was to go works when it has gone.
// A node is healed when it has its route, and the cluster when all nodes have theirs.
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

// syncedBackends reports whether the controller has synced a Service's backends since it failed: it said so, and has read
// each group of backends in between. Its word alone proves nothing.
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

// Works reports whether a Service was synced, by whichever sync, and has a backend behind each port.
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

// balancersOf returns the load balancer that has the address in a Service's
// status, of either kind, unless the Service's label says that it is another one.
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

// filled returns the IDs of the groups of the Service on its load balancer, of either kind, that have a backend.
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

// serves reports whether a load balancer of either kind forwards each port of a cluster's Service to a backend.
func serves(st *sim.State, lb *sim.LoadBalancer, n *sim.NLB, svc *corev1.Service, cluster string) bool {
	if lb == nil && n == nil || len(filled(st, lb, svc, cluster)) < groupsOf(svc) {
		return false
	}
	return svc.Annotations[prefix+"id"] != "" || listens(lb, n, svc) // listeners of a person's load balancer are the person's
}

// Listens reports whether each port of a Service has a running listener: without, no traffic flows. One that has gone
// needs none.
func (tb *Testbed) Listens(service string) bool {
	svc := tb.watch.service(service)
	if svc == nil {
		return true
	}
	does := false
	tb.Cloud.View(func(st *sim.State) { lb, n := balancersOf(st, svc); does = listens(lb, n, svc) })
	return does
}

// listens reports whether the load balancer of either kind has a running listener for each port of the Service.
func listens(lb *sim.LoadBalancer, n *sim.NLB, svc *corev1.Service) bool {
	return !slices.ContainsFunc(svc.Spec.Ports, func(p corev1.ServicePort) bool {
		runs := lb != nil && slices.ContainsFunc(lb.Listeners, func(l sim.Listener) bool { return l.Port == int(p.Port) && l.Status == "running" }) ||
			n != nil && slices.ContainsFunc(n.Listeners, func(l sim.NLBListener) bool { return l.Port == int(p.Port) && l.Status == "Running" })
		return !runs
	})
}

// groupsOf returns how many groups of backends a Service has: one for each port
// of its nodes or Pods.
func groupsOf(svc *corev1.Service) int {
	behind := map[string]bool{}
	for _, p := range svc.Spec.Ports {
		behind[fmt.Sprint(p.NodePort, p.TargetPort.String())] = true
	}
	return len(behind)
}

// Until waits until ok, which is asked again after each change of a Service or
// an Event of the testbed, and whenever wake is called. It fails when ctx ends, or
// the controller does.
func (tb *Testbed) Until(ctx context.Context, ok func() bool) error { return tb.watch.until(ctx, ok) }

// Wake makes Until ask again.
func (tb *Testbed) Wake() { tb.watch.wake() }
