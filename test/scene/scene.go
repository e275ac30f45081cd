// Package scene brings a real cluster and a simulated cloud into the states in
// which load-balancer syncs really fail.
//
// A Stage is a cluster with nodes, an account in which a dedicated ACK cluster
// lives, and the controller between them under the RAM role of the masters. A
// Scene is one way for a Service to fail on it: what there was before (Prepare),
// and what then goes wrong (Spoil). Nothing writes an event but the controller,
// and nothing waits for time to pass: every step ends when the cluster shows
// what it was to bring about. Demonstration, end-to-end tests and benchmarks
// share it, so that they show, test and measure the same failures.
package scene

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/lbremedy/lbremedy/test/cluster"
	"github.com/lbremedy/lbremedy/test/sim"
	"github.com/lbremedy/lbremedy/test/sim/controller"
)

// Options say what a stage is like. The zero value is a stage of its own.
type Options struct {
	Cluster   *cluster.Cluster // nil: one is started, and ended by Close
	Log       io.Writer        // progress of a first build of the cluster; nil: standard error
	Namespace string           // of the Services; empty: shop. It is made where it is missing
	Version   string           // of the controller; empty: v2.12.1
	Upgrade   string           // version of a controller that takes the place of another in Spoil; empty: the same
	Room      int              // free addresses of the vSwitch with room; zero: 250
	RAMDelay  time.Duration    // how long RAM takes to act on a new policy version; zero: at once

	BackoffBase, BackoffMax time.Duration // of the controller; zero: its real ones, 5 s and 300 s
	Workers                 int           // of the controller; zero: its real number, 3
}

// A Stage is where scenes are played. Its methods may be called side by side.
type Stage struct {
	Cluster   *cluster.Cluster
	Cloud     *sim.Cloud
	Namespace string

	opts   Options
	kube   kubernetes.Interface
	close  []func() // in reverse order
	watch  *watch
	faults sync.Once

	mu      sync.Mutex
	version string
	stop    func() // ends the controller; nil: it does not run
	was     map[string]string
}

// Start sets a stage up, with the controller running. The stage ends with Close.
func Start(ctx context.Context, o Options) (_ *Stage, err error) {
	if o.Namespace == "" {
		o.Namespace = "shop"
	}
	if o.Version == "" {
		o.Version = "v2.12.1"
	}
	if o.Room == 0 {
		o.Room = 250
	}
	s := &Stage{opts: o, Cluster: o.Cluster, Namespace: o.Namespace, version: o.Version, was: map[string]string{}}
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
	if err := s.build(ctx); err != nil {
		return nil, err
	}
	if s.watch, err = newWatch(ctx, s.kube, s.Namespace); err != nil {
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

func (s *Stage) startController(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	world := s.Cloud.Snapshot()
	o := controller.Options{
		Kube: s.Cluster.Config, Cloud: s.Cloud.Addr(), Region: world.Region, ClusterID: ClusterID, VPC: world.Cluster.VPC, Version: s.version,
		BackoffBase: s.opts.BackoffBase, BackoffMax: s.opts.BackoffMax, Workers: s.opts.Workers,
		Namespace: s.Namespace, Nodes: stageLabel + "=" + s.Namespace,
		Pick: func(int) int { return 0 }, // the full one, as chance has it
	}
	for _, c := range world.Callers {
		if c.Name == controllerName {
			o.Credentials = c.Credentials()
		}
	}
	for _, id := range world.Cluster.VSwitches {
		i := slices.IndexFunc(world.VSwitches, func(v sim.VSwitch) bool { return v.ID == id })
		o.VSwitches = append(o.VSwitches, world.VSwitches[i].Zone+":"+id)
	}
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

// controllerName is the controller's: of its DaemonSet, of its add-on, and of
// its caller in the cloud.
const controllerName = "cloud-controller-manager"

// stageLabel keeps the nodes of stages on one cluster apart.
const stageLabel = "lbremedy.io/stage"

// build makes what is in the cluster before any Service: namespace, nodes, the
// controller's DaemonSet.
func (s *Stage) build(ctx context.Context) error {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.Namespace}}
	if _, err := s.kube.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("make namespace %s: %w", s.Namespace, err)
	}
	for i := range nodes {
		node := &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: s.node(i), Labels: map[string]string{stageLabel: s.Namespace}},
			Spec:       corev1.NodeSpec{ProviderID: region + "." + instance(i)},
			Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
		}
		if _, err := s.kube.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("make node %s: %w", node.Name, err)
		}
	}
	if s.opts.Cluster != nil {
		s.close = append(s.close, func() { s.clear(context.WithoutCancel(ctx)) })
	}
	return s.daemonSet(ctx)
}

// clear takes what is of no namespace of the stage's off a cluster that outlives
// it. What can't be deleted stays: the cluster is a sandbox.
func (s *Stage) clear(ctx context.Context) {
	for i := range nodes {
		_ = s.kube.CoreV1().Nodes().Delete(ctx, s.node(i), metav1.DeleteOptions{})
	}
	_ = s.kube.AppsV1().DaemonSets(metav1.NamespaceSystem).Delete(ctx, controllerName, metav1.DeleteOptions{})
}

func (s *Stage) node(i int) string { return fmt.Sprintf("%s-worker-%d", s.Namespace, i+1) }

// daemonSet makes the controller's DaemonSet, or gives it the present version.
// No Pod runs: what runs is the simulated controller.
func (s *Stage) daemonSet(ctx context.Context) error {
	app := map[string]string{"app": controllerName}
	want := &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: controllerName},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: app},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: app},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name: controllerName, Image: "registry.example/acs/" + controllerName + "-amd64:" + s.Version(),
				}}},
			},
		},
	}
	sets := s.kube.AppsV1().DaemonSets(metav1.NamespaceSystem)
	_, err := sets.Create(ctx, want, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = sets.Update(ctx, want, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("make the controller's DaemonSet: %w", err)
	}
	return nil
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

// Failed returns when the controller's first failure event about a Service was
// seen, on this process's clock, and its message; the zero time if none was.
func (s *Stage) Failed(service string) (time.Time, string) { return s.watch.failure(service) }

// Healed reports whether a Service works: it is synced to the letter of the
// cloud, and by a sync that came after what Prepare left.
func (s *Stage) Healed(service string) bool {
	svc := s.watch.service(service)
	if svc == nil || !marked(svc) {
		return false
	}
	s.mu.Lock()
	was := s.was[service]
	s.mu.Unlock()
	if svc.Labels[hashLabel] == was {
		return false
	}
	world := s.Cloud.Snapshot()
	i := slices.IndexFunc(world.LoadBalancers, func(lb sim.LoadBalancer) bool { return lb.ID == svc.Labels[balancerLabel] })
	if i < 0 || world.LoadBalancers[i].Address != svc.Status.LoadBalancer.Ingress[0].IP {
		return false
	}
	for _, p := range svc.Spec.Ports {
		served := slices.ContainsFunc(world.LoadBalancers[i].Listeners, func(l sim.Listener) bool {
			return l.Port == int(p.Port) && l.Protocol == strings.ToLower(string(p.Protocol)) && l.Status == "running"
		})
		if !served && svc.Annotations[prefix+"id"] == "" { // listeners of a person's load balancer are the person's
			return false
		}
	}
	return true
}

// Until waits until ok, which is asked again after each change of a Service or
// an Event of the stage, and whenever wake is called. It fails when ctx ends, or
// the controller does.
func (s *Stage) Until(ctx context.Context, ok func() bool) error { return s.watch.until(ctx, ok) }

// Wake makes Until ask again.
func (s *Stage) Wake() { s.watch.wake() }
