// Package scene brings a real cluster and a simulated cloud into the states in
// which load-balancer syncs really fail.
//
// A Stage is a cluster with nodes, an account in which a dedicated ACK cluster
// lives, and the controller between them under the RAM role of the masters. A
// Scene is one way for a Service to fail on it: what there was before (Prepare),
// what then goes wrong (Spoil), and often what a person does about it (Mend).
// Nothing writes an event but the controller, no fault is injected where a state
// of the cloud brings the failure about, and nothing waits for time to pass:
// every step ends when the cluster shows what it was to bring about.
//
// Scenes that a few deeds make up lie with their class, in testdata/scenes.yaml of
// its folder; script.go has the deeds. Those that need more are here, in Go.
//
// Demonstration, end-to-end tests and benchmarks share it, so that they show,
// test and measure the same failures.
package scene

import (
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
	"k8s.io/client-go/kubernetes"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/test/cluster"
	"github.com/lbremedy/lbremedy/test/sim"
	"github.com/lbremedy/lbremedy/test/sim/controller"
)

// A Setting is what a scene needs its stage to be. Scenes of one setting share a
// stage; [Casts] sorts roles by it.
type Setting struct {
	Version  string  `json:"version"`  // of the controller; empty: v2.12.1
	Upgrade  string  `json:"upgrade"`  // version of a controller that takes the place of another in Spoil; empty: the same
	Terway   bool    `json:"terway"`   // the Pods have addresses of the VPC, and are the backends
	NoPublic bool    `json:"noPublic"` // the controller refuses to make load balancers with public addresses
	Speed    float64 `json:"speed"`    // of the controller's clock; zero: 1
	Own      string  `json:"own"`      // what the scenes do to all that is on the stage, which keeps others away; empty: nothing
}

// Options say what a stage is like. The zero value is a stage of its own.
type Options struct {
	Setting
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

// A Stage is where scenes are played. Its methods may be called side by side.
type Stage struct {
	Cluster   *cluster.Cluster
	Cloud     *sim.Cloud
	Namespace string
	ID        string // of the cluster on Alibaba Cloud

	opts      Options
	kube      kubernetes.Interface
	vswitches []string // of the controller's configuration
	key       sim.Credentials
	close     []func() // in reverse order
	watch     *watch
	joining   sync.Mutex // held while a node joins

	mu        sync.Mutex
	version   string
	stop      func() // ends the controller; nil: it does not run
	was       map[string]string
	says      map[string]string // what Services are to fail with
	faults    map[string]func() // end what the cloud refuses because of a Service
	crews     map[string][]member
	addresses int      // that Pods were given so far
	touches   int      // of Services so far
	joined    []string // nodes
}

// Start sets a stage up, with the controller running. The stage ends with Close.
func Start(ctx context.Context, o Options) (_ *Stage, err error) {
	if o.Namespace == "" {
		o.Namespace = "shop"
	}
	if o.ID == "" {
		o.ID = ClusterID
	}
	if o.Version == "" {
		o.Version = "v2.12.1"
	}
	if bin, version := controller.Real(); bin != "" {
		o.Version, o.Upgrade = version, "" // it is of one release
	}
	if o.Room == 0 {
		o.Room = 250
	}
	if err := o.Size.check(o); err != nil {
		return nil, fmt.Errorf("set the stage: %w", err)
	}
	s := &Stage{
		opts: o, Cluster: o.Cluster, Namespace: o.Namespace, ID: o.ID, version: o.Version,
		was: map[string]string{}, says: map[string]string{}, faults: map[string]func(){}, crews: map[string][]member{},
	}
	defer func() {
		if err != nil {
			s.Close()
			err = fmt.Errorf("set the stage: %w", err)
		}
	}()
	if s.Cluster == nil {
		// The end of ctx ends the start. After that, Close ends the cluster, when
		// nothing uses it any more.
		starting, cancel := context.WithCancel(context.WithoutCancel(ctx))
		s.close = append(s.close, cancel)
		started := context.AfterFunc(ctx, cancel)
		c, stop, err := cluster.Start(starting, cluster.Options{Log: o.Log})
		if err != nil {
			return nil, err
		}
		started()
		s.Cluster = c
		s.close = append(s.close, stop)
	}
	s.kube = s.Cluster.Client()
	if s.Cloud, err = sim.Start(world(o)); err != nil {
		return nil, err
	}
	s.close = append(s.close, s.Cloud.Close)
	s.Cloud.View(func(st *sim.State) {
		for _, id := range st.Cluster.VSwitches {
			s.vswitches = append(s.vswitches, st.VSwitches[id].Zone+":"+id)
		}
		for _, c := range st.Callers {
			s.key = c.Credentials() // the controller is the only one so far
		}
	})
	if err := s.build(ctx); err != nil {
		return nil, err
	}
	if err := s.settle(ctx, o.Size); err != nil {
		return nil, err
	}
	if s.watch, err = newWatch(ctx, s); err != nil {
		return nil, err
	}
	s.close = append(s.close, s.watch.close)
	s.startController(ctx)
	s.close = append(s.close, s.stopController)
	return s, nil
}

// Close ends the controller and what Start has started.
func (s *Stage) Close() {
	for _, f := range slices.Backward(s.close) {
		f()
	}
	s.close = nil
}

// Version returns the controller's version.
func (s *Stage) Version() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version
}

// Upgrade replaces the controller by one of another version, as an upgrade of
// the add-on does. It forgets what the old one remembered, and syncs every Service.
func (s *Stage) Upgrade(ctx context.Context, version string) error {
	s.stopController()
	defer s.startController(ctx)
	return s.setVersion(ctx, version)
}

func (s *Stage) setVersion(ctx context.Context, version string) error {
	s.mu.Lock()
	s.version = version
	s.mu.Unlock()
	s.Cloud.Edit(func(st *sim.State) { st.Cluster.Addons[controllerName] = version })
	return s.daemonSet(ctx)
}

// Halt ends the controller until Resume, and waits for what it has asked the cloud to
// do. What it is in the middle of stays as it is.
func (s *Stage) Halt(ctx context.Context) error {
	s.stopController()
	return s.Cloud.Idle(ctx)
}

// Resume starts a controller in the place of the one that Halt has ended. It has
// forgotten what that one did, and syncs every Service.
func (s *Stage) Resume(ctx context.Context) { s.startController(ctx) }

func (s *Stage) startController(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := controller.Options{
		Kube: s.Cluster.Config, Cloud: s.Cloud.Addr(), Region: region, ClusterID: s.ID, VPC: vpc, VSwitches: s.vswitches, Version: s.version,
		BackoffBase: s.opts.BackoffBase, BackoffMax: s.opts.BackoffMax, Workers: s.opts.Workers, Speed: s.opts.Speed,
		NoPublic: s.opts.NoPublic, Namespace: s.Namespace, Nodes: stageLabel + "=" + s.Namespace,
		Pick: func(int) int { return 0 }, // the full one, as chance has it
		Log:  slog.New(tally{s.watch}),
	}
	if s.opts.Terway {
		o.Backends = "eni"
	}
	o.Credentials = s.key
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := controller.Play(ctx, o); err != nil {
			s.watch.fail(err)
		}
	}()
	s.stop = func() { cancel(); <-ended }
}

func (s *Stage) stopController() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stop != nil {
		s.stop()
	}
	s.stop = nil
}

// Prepare makes what a scene needs before it goes wrong, such as a Service that
// is synced. Scenes that need nothing are prepared at once.
func (s *Stage) Prepare(ctx context.Context, roles ...Role) error {
	return s.each(roles, func(r Role) error {
		if r.prepare == nil {
			return nil
		}
		if err := r.prepare(ctx, s, r.Service); err != nil {
			return fmt.Errorf("prepare Service %s/%s: %w", s.Namespace, r.Service, err)
		}
		if r.later {
			return nil
		}
		svc, err := s.watch.synced(ctx, r.Service)
		if err != nil {
			return fmt.Errorf("prepare Service %s/%s: %w", s.Namespace, r.Service, err)
		}
		s.mu.Lock()
		s.was[r.Service] = svc.Labels[hashLabel]
		s.mu.Unlock()
		return nil
	})
}

// Spoil lets the scenes go wrong and returns when the controller has said so of
// each, in the text that the scene names.
//
// Where one of them comes to light only with a controller that has forgotten
// what it did before, the controller is replaced by a fresh one.
func (s *Stage) Spoil(ctx context.Context, roles ...Role) error {
	s.mu.Lock()
	for _, r := range roles {
		s.says[r.Service] = r.Says
	}
	s.mu.Unlock()
	if slices.ContainsFunc(roles, func(r Role) bool { return r.restarts }) {
		// The controller can't hold on to what happens while it is away.
		s.stopController()
		err := s.spoil(ctx, roles)
		if err == nil && s.opts.Upgrade != "" {
			err = s.setVersion(ctx, s.opts.Upgrade)
		}
		s.startController(ctx)
		if err != nil {
			return err
		}
	} else if err := s.spoil(ctx, roles); err != nil {
		return err
	}
	return s.each(roles, func(r Role) error {
		err := s.watch.until(ctx, func() bool { return s.watch.hasFailed(r.Service, r.Says) })
		if err != nil {
			return fmt.Errorf("wait for Service %s/%s to fail with %q: %w%s", s.Namespace, r.Service, r.Says, err, s.watch.said(r.Service))
		}
		return nil
	})
}

func (s *Stage) spoil(ctx context.Context, roles []Role) error {
	return s.each(roles, func(r Role) error {
		if err := r.spoil(ctx, s, r.Service); err != nil {
			return fmt.Errorf("spoil Service %s/%s: %w", s.Namespace, r.Service, err)
		}
		return nil
	})
}

// Play prepares and spoils the scenes.
func (s *Stage) Play(ctx context.Context, roles ...Role) error {
	if err := s.Prepare(ctx, roles...); err != nil {
		return err
	}
	return s.Spoil(ctx, roles...)
}

// Mend does what a person would do about each scene that says what that is, and
// returns when the Services work. The others stay as they are.
func (s *Stage) Mend(ctx context.Context, roles ...Role) error {
	roles = slices.DeleteFunc(slices.Clone(roles), func(r Role) bool { return r.mend == nil })
	return s.each(roles, func(r Role) error {
		// The controller would find out by itself, some time within five minutes.
		if err := inTurn(r.mend, touched)(ctx, s, r.Service); err != nil {
			return fmt.Errorf("mend Service %s/%s: %w", s.Namespace, r.Service, err)
		}
		if err := s.watch.until(ctx, func() bool { return s.Healed(r.Service) }); err != nil {
			return fmt.Errorf("wait for Service %s/%s to work again: %w%s", s.Namespace, r.Service, err, s.watch.said(r.Service))
		}
		return nil
	})
}

// each does something for all roles at once.
func (s *Stage) each(roles []Role, do func(Role) error) error {
	errs := make([]error, len(roles))
	limit := make(chan struct{}, 16) // the API server's room
	var wait sync.WaitGroup
	for i, r := range roles {
		limit <- struct{}{}
		wait.Go(func() {
			defer func() { <-limit }()
			errs[i] = do(r)
		})
	}
	wait.Wait()
	return errors.Join(errs...)
}

// Failed returns when the controller's first event about a Service was seen that
// says what its scene does, on this process's clock, and its message; the zero
// time if there was none.
func (s *Stage) Failed(service string) (time.Time, string) {
	f, _ := s.failure(service)
	return f.at, f.Message
}

// Event returns the event of Failed, and whether there was one.
func (s *Stage) Event(service string) (event.Input, bool) {
	f, ok := s.failure(service)
	return f.Input, ok
}

func (s *Stage) failure(service string) (failure, bool) {
	s.mu.Lock()
	says := s.says[service]
	s.mu.Unlock()
	return s.watch.failure(service, says)
}

// Healed reports whether a Service works: it is synced to the letter of the
// cloud, has a backend behind each port, and by a sync that came after what
// Prepare left. One that was to go works when it has gone.
func (s *Stage) Healed(service string) bool {
	svc := s.watch.service(service)
	s.mu.Lock()
	was, known := s.was[service]
	s.mu.Unlock()
	if svc == nil {
		return known
	}
	if svc.DeletionTimestamp != nil || !marked(svc) || svc.Labels[hashLabel] == was {
		return false
	}
	works := false
	s.Cloud.View(func(st *sim.State) {
		lb, n := balancersOf(st, svc)
		works = lb != nil && serves(lb, svc, s.ID) || n != nil && servesNetwork(st, n, svc, s.ID)
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

// serves reports whether a CLB forwards each port of a cluster's Service to a backend.
func serves(lb *sim.LoadBalancer, svc *corev1.Service, cluster string) bool {
	theirs := fmt.Sprintf("/%s/%s/%s", svc.Name, svc.Namespace, cluster)
	filled := 0
	for _, g := range lb.VGroups {
		if strings.HasSuffix(g.Name, theirs) && len(g.Backends) > 0 {
			filled++
		}
	}
	if filled < groupsOf(svc) {
		return false
	}
	// Listeners of a person's load balancer are the person's.
	return svc.Annotations[prefix+"id"] != "" || !slices.ContainsFunc(svc.Spec.Ports, func(p corev1.ServicePort) bool {
		return !slices.ContainsFunc(lb.Listeners, func(l sim.Listener) bool { return l.Port == int(p.Port) && l.Status == "running" })
	})
}

// servesNetwork is serves, of an NLB.
func servesNetwork(st *sim.State, n *sim.NLB, svc *corev1.Service, cluster string) bool {
	theirs := fmt.Sprintf(".%s.%s.%s", svc.Name, svc.Namespace, cluster)
	filled := 0
	for _, g := range st.ServerGroups {
		if strings.HasSuffix(g.Name, theirs) && len(g.Servers) > 0 {
			filled++
		}
	}
	if filled < groupsOf(svc) {
		return false
	}
	return svc.Annotations[prefix+"id"] != "" || !slices.ContainsFunc(svc.Spec.Ports, func(p corev1.ServicePort) bool {
		return !slices.ContainsFunc(n.Listeners, func(l sim.NLBListener) bool { return l.Port == int(p.Port) && l.Status == "Running" })
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
// an Event of the stage, and whenever wake is called. It fails when ctx ends, or
// the controller does.
func (s *Stage) Until(ctx context.Context, ok func() bool) error { return s.watch.until(ctx, ok) }

// Wake makes Until ask again.
func (s *Stage) Wake() { s.watch.wake() }
