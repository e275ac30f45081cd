package e2e

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/cache"

	"github.com/lbremedy/lbremedy/test/cluster"
	"github.com/lbremedy/lbremedy/test/kubernetes"
	"github.com/lbremedy/lbremedy/test/sim"
	"github.com/lbremedy/lbremedy/test/sim/controller"
)

const (
	lbPrefix   = "service.beta.kubernetes.io/alibaba-cloud-loadbalancer-"
	hashLabel  = "service.beta.kubernetes.io/hash"
	idLabel    = "service.k8s.alibaba/loadbalancer-id"
	patience   = 3 * time.Minute
	svcName    = "web"
	ensuredCLB = "Normal EnsuredLoadBalancer service-controller: Ensured load balancer [LB]"
)

// An outcome is everything that a reader can see after a scenario. Values that differ between runs are replaced: IDs of the cloud
// by LB, the address of a load balancer by IP(its ID), the controller's name for its resources by NAME, and the namespace by NS.
type outcome struct {
	Events      []string // type, reason, component and message, sorted, with the count if the scenario counts
	Labels      map[string]string
	Annotations map[string]string
	Finalizers  []string
	Ingress     []string
	Tags        map[string]string // of the load balancer
	Actions     []string          // of the OpenAPI, as tracks returns them
	Pauses      []string          // before the retries, by the controller's clock, if the scenario measures them
	Gone        bool              // the Service was deleted
	Stalled     string            // what the scenario waited for in vain, with a release other than v2.14.0
}

type scenario struct {
	name    string
	world   sim.World
	nodes   int
	options func(*controller.Options)
	arrange func(*run)            // before the Service exists, while the controller runs
	service func(*corev1.Service) // changes it before it is created
	act     func(*run)            // after its first sync; nil: that sync is the scenario
	amid    func(*run)            // instead of act: after the controller has begun
	until   string                // event that ends the scenario
	want    outcome               // as recorded; nil Labels, Annotations, Tags, Actions and Pauses are not compared

	counts    bool   // Events include their count
	retries   string // first action of each attempt; the pauses before retries are measured
	simulated string // why a real controller v2.14.0 cannot run it; empty: it can
	release   string // release to simulate in place of v2.14.0; empty: v2.14.0
	stalls    bool   // with that release, the simulated controller stalled
}

const (
	recorded = "v2.14.0" // release of the recorded outcomes
	localNLB = "v2.11.2" // first release with a configurable NLB endpoint: pkg/provider/alibaba/base/clientMgr.go
)

// TestConformance compares the outcomes of the simulated controller with those of the cloud-controller-manager in CCM_BIN, or
// else with those recorded from v2.14.0. If CCM_VERSION names another release, the simulated controller plays that one, and
// recorded outcomes are not used.
func TestConformance(t *testing.T) {
	c := cluster.Join(t)
	bin, release := controller.Real()
	if bin == "" || release == recorded {
		release = ""
	}
	if bin == "" {
		t.Logf("%s is not set: this is the recorded comparison, with what v2.14.0 left, and no real controller runs", controller.BinaryVariable)
	} else {
		t.Logf("the real controller %s is compared with the simulated one", bin)
		c.Exclusive(t)
	}
	for _, s := range append(clbScenarios(), nlbScenarios()...) {
		t.Run(s.name, func(t *testing.T) {
			if bin == "" {
				t.Parallel()
			}
			if release != "" && s.simulated == "" && strings.HasPrefix(s.name, "NLB ") && !controller.Since(release, localNLB) {
				s.simulated = release + " asks for NLBs at their public endpoint"
			} else if release != "" && s.simulated == "" {
				s.release = release
			}
			got := s.run(t, c, "")
			if bin != "" && s.simulated != "" {
				t.Logf("the simulated controller alone runs this, and its outcome is compared with the recorded one: %s", s.simulated)
			} else if bin != "" {
				s.stalls = got.Stalled != ""
				if diff := differ(t, s.run(t, c, bin), got); diff != "" {
					t.Errorf("real (-) and simulated (+) controller differ:\n%s", diff)
				}
			}
			if s.release != "" {
				return
			}
			s.want.Actions = tracks(s.want.Actions)
			if diff := differ(t, s.want, s.recorded(got)); diff != "" {
				t.Errorf("recorded (-) and simulated (+) outcome differ:\n%s", diff)
			}
		})
	}
}

// differ returns the differences of two outcomes. It logs and omits those that depend only on timing: an extra wake-up causes an
// extra round of reads; and a listener's new protocol is created in parallel with the removal of the old listener, so the
// controller tries again if the port is still in use (seen with v2.14.0; pkg/controller/service/nlbv2/listeners.go).
func differ(t *testing.T, a, b outcome) string {
	t.Helper()
	diff := cmp.Diff(a, b)
	if diff == "" {
		return ""
	}
	actions := rounds
	for _, o := range []*outcome{&a, &b} {
		ensured := func(line string) bool { return strings.Contains(line, "EnsuredLoadBalancer") }
		kept := slices.DeleteFunc(slices.Clone(o.Events), portInUse.MatchString)
		if len(kept) < len(o.Events) && slices.ContainsFunc(kept, ensured) {
			o.Events, actions = kept, distinct
		}
	}
	a.Actions, b.Actions = actions(a.Actions), actions(b.Actions)
	if cmp.Diff(a, b) != "" {
		return diff
	}
	t.Logf("by timing alone, a round of the two differs:\n%s", diff)
	return ""
}

func TestDiffer(t *testing.T) {
	const ensured, inUse = "Normal EnsuredLoadBalancer x", "Warning SyncLoadBalancerFailed nlb-controller: Error: code: 400, The Port [80] is conflict. "
	plain := outcome{Events: []string{ensured}, Actions: []string{"ListTags", "ListListeners", "DeleteListener", "CreateListener"}}
	again := outcome{Events: plain.Events, Actions: append([]string{"ListTags"}, plain.Actions...)}
	for name, tt := range map[string]struct {
		with outcome
		same bool
	}{
		"the same":                   {plain, true},
		"a read more":                {again, true},
		"a write more":               {outcome{Events: plain.Events, Actions: append(slices.Clone(plain.Actions), "CreateListener")}, false},
		"another read":               {outcome{Events: plain.Events, Actions: append(slices.Clone(plain.Actions), "ListJobs")}, false},
		"the port still in use":      {outcome{Events: []string{ensured, inUse}, Actions: append(slices.Clone(plain.Actions), "CreateListener")}, true},
		"the port in use to the end": {outcome{Events: []string{inUse}, Actions: plain.Actions}, false},
		"another failure":            {outcome{Events: []string{ensured, "Warning SyncLoadBalancerFailed other"}, Actions: plain.Actions}, false},
	} {
		if diff := differ(t, plain, tt.with); (diff == "") != tt.same {
			t.Errorf("%s: %q", name, diff)
		}
	}
}

var portInUse = regexp.MustCompile(`^Warning SyncLoadBalancerFailed .* The Port \[\d+\] is conflict\.`)

func rounds(tracks []string) []string {
	return slices.CompactFunc(slices.Clone(tracks), func(a, b string) bool { return a == b && isRead.MatchString(a) })
}

func distinct(actions []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(actions)))
}

func (s scenario) recorded(o outcome) outcome {
	if s.want.Labels == nil {
		o.Labels = nil
	}
	if s.want.Annotations == nil {
		o.Annotations = nil
	}
	if s.want.Tags == nil {
		o.Tags = nil
	}
	if s.want.Actions == nil {
		o.Actions = nil
	}
	if s.want.Pauses == nil {
		o.Pauses = nil
	}
	return o
}

type run struct {
	*testing.T
	ns    string
	kube  *kubernetes.Client
	cloud *sim.Cloud

	mu     sync.Mutex
	seen   sync.Cond
	svc    *corev1.Service
	events map[string]*corev1.Event // by name
	left   map[string]bool          // objects that the controller has released, see awake
	lost   string                   // address of a deleted load balancer
	gone   bool                     // the Service is deleted
	counts bool
	probes bool // whether awake probes; not with releases that set no finalizer

	release string
	quiet   time.Duration // idle time of the controller that ends the scenario; zero: nothing ends it early

	touches int
	repair  func()   // removes the last fault
	ends    []func() // cleanups; the real controller may run next
}

func (s scenario) run(t *testing.T, c *cluster.Cluster, bin string) outcome {
	t.Helper()
	p := &run{
		T: t, ns: c.Namespace(t), kube: c.Client(), cloud: sim.New(t, &s.world), events: map[string]*corev1.Event{}, left: map[string]bool{}, counts: s.counts,
		release: s.release,
	}
	p.seen.L = &p.mu
	defer p.watch()()
	for i := range s.nodes {
		defer p.node(i + 1)()
	}
	defer func() {
		for _, end := range p.ends {
			end()
		}
	}()
	o := controller.Options{
		Kube: c.Config, Cloud: p.cloud.Addr(), Credentials: p.cloud.Client("ccm", "*"),
		ClusterID: clusterID, VPC: "vpc-1", VSwitches: []string{"cn-hangzhou-h:vsw-1"},
		Namespace: p.ns, Nodes: "run=" + p.ns, BackoffBase: 100 * time.Hour, BackoffMax: 100 * time.Hour, Speed: 100,
	}
	o.Version = s.release
	if s.options != nil {
		s.options(&o)
	}
	defer p.remove() // after the controller has ended
	if bin != "" {
		defer controller.StartReal(t, bin, o)()
	} else {
		defer controller.Start(t, o)()
	}
	if p.probes = s.simulated == ""; p.probes {
		p.awake()
	}
	if s.release != "" {
		switch p.quiet = quiet; {
		case bin == "":
		case s.stalls:
			p.quiet = quietStalled
		default:
			p.quiet = quietReal
		}
	}
	stalled := s.play(p)
	out := p.outcome()
	out.Stalled = stalled
	if s.retries != "" {
		speed := o.Speed
		if bin != "" {
			speed = 1 // a real controller uses the real clock
		}
		out.Pauses = p.pauses(s.retries, speed)
	}
	return out
}

// How long a controller of another release than v2.14.0 may be idle before the scenario ends, because that release may never do what the
// scenario waits for. If the simulated controller has stalled, the real one is stopped before its first retry, which comes after 5 s.
const (
	quiet        = 6 * time.Second
	quietReal    = 45 * time.Second
	quietStalled = 3 * time.Second
)

type stall string

func (s scenario) play(p *run) (stalled string) {
	p.Helper()
	defer func() {
		switch r := recover().(type) {
		case nil:
		case stall:
			stalled = string(r)
		default:
			panic(r)
		}
	}()
	if s.arrange != nil {
		s.arrange(p)
	}
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: svcName, Annotations: map[string]string{}},
		Spec: corev1.ServiceSpec{
			Type:  corev1.ServiceTypeLoadBalancer,
			Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt(8080), Protocol: corev1.ProtocolTCP}},
		},
	}
	if s.service != nil {
		s.service(svc)
	}
	if _, err := p.kube.CoreV1().Services(p.ns).Create(p.Context(), svc, metav1.CreateOptions{}); err != nil {
		p.Fatal(err)
	}
	if s.act != nil {
		p.synced("")
		p.cloud.ResetCalls()
		s.act(p)
	}
	if s.amid != nil {
		s.amid(p)
	}
	p.saw(s.until)
	if s.want.Gone {
		p.wait("the end of the Service", func() bool { return p.gone })
	}
	if len(s.want.Ingress) > 0 { // some successful syncs write no Event at the end
		p.wait("an address", func() bool { return p.svc != nil && len(p.svc.Status.LoadBalancer.Ingress) > 0 })
	}
	if s.want.Labels[hashLabel] == hashOfNow { // a sync that omits backends writes its labels after its Events
		p.wait("the hash of what the Service says", func() bool { return p.svc != nil && p.hashed(p.svc) == hashOfNow })
	}
	return ""
}

func (p *run) watch() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	f := p.kube.Informers(p.ns, "")
	note := func(o any) {
		p.mu.Lock()
		defer p.mu.Unlock()
		switch o := o.(type) {
		case *corev1.Service:
			if o.Name == svcName {
				p.svc = o
			} else if len(o.Finalizers) == 0 {
				p.left[o.Name] = true
			}
		case *corev1.Event:
			if o.Source.Component != "" && o.InvolvedObject.Name == svcName { // Events of the API server itself have none
				p.events[o.Name] = o
			}
		}
		p.seen.Broadcast()
	}
	h := cache.ResourceEventHandlerFuncs{
		AddFunc: note, UpdateFunc: func(_, o any) { note(o) },
		DeleteFunc: func(o any) {
			if svc, ok := o.(*corev1.Service); ok && svc.Name == svcName {
				p.mu.Lock()
				defer p.mu.Unlock()
				p.gone = true
				p.seen.Broadcast()
			}
		},
	}
	for _, i := range []cache.SharedIndexInformer{f.Services(), f.Events()} {
		if _, err := i.AddEventHandler(h); err != nil {
			p.Fatal(err)
		}
	}
	f.Start(ctx)
	return func() {
		cancel()
		f.Wait()
	}
}

// awake waits until the controller has processed the current state of the cluster, for both kinds of load balancer: it removes
// its finalizer from a probe Service that wants no load balancer. Otherwise an earlier change, such as a node, could queue the
// next Service a second time during its first sync.
func (p *run) awake() {
	p.Helper()
	services := p.kube.CoreV1().Services(p.ns)
	var probes []string
	finalizers := []string{"service.k8s.alibaba/resources", "service.k8s.alibaba/nlb"}
	if p.release != "" && !controller.Since(p.release, localNLB) {
		finalizers = finalizers[:1]
	}
	for _, finalizer := range finalizers {
		probe, err := services.Create(p.Context(), &corev1.Service{
			// The address type is for a controller that refuses public load balancers at once.
			ObjectMeta: metav1.ObjectMeta{
				GenerateName: "probe-", Finalizers: []string{finalizer}, Annotations: map[string]string{lbPrefix + "address-type": "intranet"},
			},
			Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone},
		}, metav1.CreateOptions{})
		if err != nil {
			p.Fatal(err)
		}
		probes = append(probes, probe.Name)
	}
	p.wait("the controller to look at the cluster", func() bool {
		return !slices.ContainsFunc(probes, func(name string) bool { return !p.left[name] })
	})
	for _, name := range probes {
		if err := services.Delete(p.Context(), name, metav1.DeleteOptions{}); err != nil {
			p.Fatal(err)
		}
	}
	p.cloud.ResetCalls()
}

// wait waits until ok returns true; ok is called with p.mu held.
func (p *run) wait(what string, ok func() bool) {
	p.Helper()
	late, calm := false, false
	tell := func(what *bool) func() {
		return func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			*what = true
			p.seen.Broadcast()
		}
	}
	timer := time.AfterFunc(patience, tell(&late))
	defer timer.Stop()
	if p.quiet > 0 {
		defer p.calm(tell(&calm))()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for !ok() {
		if calm {
			panic(stall(what))
		}
		if late {
			p.Fatalf("waited %v for %s; events:\n%s", patience, what, strings.Join(p.lines(p.marks()), "\n"))
		}
		p.seen.Wait()
	}
}

func (p *run) calm(tell func()) (stop func()) {
	done := make(chan struct{})
	go func() {
		calls, since := -1, time.Now()
		for time.Since(since) < p.quiet {
			select {
			case <-done:
				return
			case <-time.After(100 * time.Millisecond):
			}
			if n := len(p.cloud.CallsOf("ccm")); n != calls {
				calls, since = n, time.Now()
			}
		}
		tell()
	}()
	return func() { close(done) }
}

func (p *run) saw(line string) {
	p.Helper()
	p.wait(line, func() bool { return slices.Contains(p.lines(p.marks()), line) })
}

func (p *run) synced(was string) *corev1.Service {
	p.Helper()
	var svc *corev1.Service
	p.wait("a sync", func() bool {
		svc = p.svc
		ensured := slices.ContainsFunc(slices.Collect(maps.Values(p.events)), func(e *corev1.Event) bool { return e.Reason == "EnsuredLoadBalancer" })
		return svc != nil && svc.Labels[hashLabel] != was && len(svc.Status.LoadBalancer.Ingress) > 0 && ensured
	})
	return svc
}

// lines returns the Events, sorted. It needs p.mu.
func (p *run) lines(marks *strings.Replacer) []string {
	var all []string
	for _, e := range p.events {
		line := fmt.Sprintf("%s %s %s: %s", e.Type, e.Reason, e.Source.Component, e.Message)
		line = given.ReplaceAllString(marks.Replace(line), "LB")
		line = jobID.ReplaceAllString(volatile.ReplaceAllString(line, "$1…"), "job JOB")
		if p.counts {
			line += fmt.Sprintf(" (x%d)", e.Count)
		}
		all = append(all, line)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

var (
	given    = regexp.MustCompile(`\b(?:n?lb|rsp|sgp?|lsn)-sim[0-9]+\b`)
	jobID    = regexp.MustCompile(`\bjob [0-9a-f-]{36}\b`)
	volatile = regexp.MustCompile(`(?s)((?:RequestId|Recommend): |RespHeaders: map\[|EncodedDiagnosticMessage:)[^\n]*`)
)

func (p *run) marks() *strings.Replacer {
	w := p.cloud.Snapshot()
	addresses := map[string]string{}
	if p.lost != "" {
		addresses[p.lost] = "GONE"
	}
	for _, lb := range w.LoadBalancers {
		addresses[lb.Address] = "IP(" + lb.ID + ")"
	}
	var pairs []string
	// The longest first: one address can be a prefix of another.
	for _, a := range slices.SortedFunc(maps.Keys(addresses), func(a, b string) int { return len(b) - len(a) }) {
		pairs = append(pairs, a, addresses[a])
	}
	if p.svc != nil {
		pairs = append(pairs, p.own(), "NAME")
	}
	return strings.NewReplacer(append(pairs, p.ns, "NS")...)
}

func (p *run) own() string { return ("a" + strings.ReplaceAll(string(p.svc.UID), "-", ""))[:32] }

func (p *run) outcome() outcome {
	p.Helper()
	svc, err := p.kube.CoreV1().Services(p.ns).Get(p.Context(), svcName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		svc = &corev1.Service{}
	} else if err != nil {
		p.Fatal(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	marks := p.marks()
	mark := func(s string) string { return given.ReplaceAllString(marks.Replace(s), "LB") }
	o := outcome{
		Events: p.lines(marks), Finalizers: svc.Finalizers, Labels: map[string]string{}, Annotations: map[string]string{}, Tags: map[string]string{},
		Gone: err != nil,
	}
	for k, v := range svc.Labels {
		o.Labels[k] = mark(v)
	}
	if _, ok := o.Labels[hashLabel]; ok {
		o.Labels[hashLabel] = p.hashed(svc)
	}
	for k, v := range svc.Annotations {
		o.Annotations[k] = mark(v)
	}
	for _, i := range svc.Status.LoadBalancer.Ingress {
		o.Ingress = append(o.Ingress, mark(i.IP+i.Hostname))
	}
	if o.Gone {
		svc = p.svc
	}
	for k, v := range p.tags(svc) {
		o.Tags[k] = mark(v)
	}
	for _, c := range p.cloud.CallsOf("ccm") {
		o.Actions = append(o.Actions, c.Action)
	}
	o.Actions = tracks(o.Actions)
	return o
}

const hashOfNow = "of now"

func (p *run) hashed(svc *corev1.Service) string {
	p.Helper()
	now, err := controller.Hash(svc, p.release)
	if err != nil {
		p.Fatal(err)
	}
	if svc.Labels[hashLabel] == now {
		return hashOfNow
	}
	return "of another state"
}

// tracks returns actions without their random order. A controller works in parallel on a load balancer, its groups and its
// listeners, reads in any order, creates the groups of several ports in parallel, and polls a job or a new NLB any number of
// times. Actions are split into these tracks, each in order; adjacent reads and creations of groups are sorted, since a group
// needs to exist before it gets servers. All calls count, except polls.
func tracks(actions []string) []string {
	var all []string
	for _, track := range []func(string) bool{
		func(a string) bool {
			return !ofGroups.MatchString(a) && !ofListeners.MatchString(a) && !ofSources.MatchString(a) && !ofJobs.MatchString(a)
		},
		ofGroups.MatchString,
		ofListeners.MatchString,
		ofSources.MatchString,
	} {
		var alike func(string) bool // actions that may come in any order with the previous one
		from := 0
		for _, a := range actions {
			if !track(a) {
				continue
			}
			if alike == nil || !alike(a) {
				from, alike = len(all), nil
			}
			if last := len(all) - 1; last >= from && a == asksNLB && all[last] == a {
				continue
			}
			all = append(all, a)
			for _, kind := range []*regexp.Regexp{isRead, makesGroup} {
				if kind.MatchString(a) {
					alike = kind.MatchString
				}
			}
			if alike != nil {
				slices.SortFunc(all[from:], func(a, b string) int { return strings.Compare(b, a) })
			}
		}
	}
	return all
}

// asksNLB is the read that a controller repeats until an NLB exists.
const asksNLB = "GetLoadBalancerAttribute"

var (
	isRead      = regexp.MustCompile(`^(?:Describe|List|Get)`)
	makesGroup  = regexp.MustCompile(`^(?:CreateServerGroup|AddServersToServerGroup)$`)
	ofGroups    = regexp.MustCompile(`ServerGroup`)
	ofListeners = regexp.MustCompile(`Listener`)
	ofSources   = regexp.MustCompile(`^[A-Z][a-z]+SecurityGroup`)
	ofJobs      = regexp.MustCompile(`^(?:GetJobStatus|ListAsynJobs)$`)
)

// pauses returns the delays before the attempts that begin with an action, rounded to the back-off in use: 5 s, doubling.
func (p *run) pauses(action string, speed float64) []string {
	var all []string
	var last time.Time
	for _, c := range p.cloud.CallsOf("ccm") {
		if c.Action != action {
			continue
		}
		if pause := time.Duration(float64(c.At.Sub(last)) * speed); !last.IsZero() && pause >= 5*time.Second {
			delay := 5 * time.Second
			for 2*delay <= pause {
				delay *= 2
			}
			all = append(all, delay.String())
		}
		last = c.At
	}
	return all
}

func (p *run) tags(svc *corev1.Service) map[string]string {
	w, id := p.cloud.Snapshot(), svc.Annotations[lbPrefix+"id"]
	mine := func(other, name string) bool {
		return other == id || id == "" && (other == svc.Labels[idLabel] || name == p.own())
	}
	for _, lb := range w.LoadBalancers {
		if mine(lb.ID, lb.Name) {
			return lb.Tags
		}
	}
	for _, lb := range w.NLBs {
		if mine(lb.ID, lb.Name) {
			return lb.Tags
		}
	}
	return nil
}

func (p *run) node(n int) (remove func()) {
	p.Helper()
	nodes, name := p.kube.CoreV1().Nodes(), fmt.Sprintf("%s-%d", p.ns, n)
	_, err := nodes.Create(p.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"run": p.ns}},
		Spec:       corev1.NodeSpec{ProviderID: fmt.Sprintf("cn-hangzhou.i-%d", n)},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}, metav1.CreateOptions{})
	if err != nil {
		p.Fatal(err)
	}
	return func() { _ = nodes.Delete(context.Background(), name, metav1.DeleteOptions{}) }
}

func (p *run) pods(ips ...string) {
	p.Helper()
	p.namedPods("", ips...)
}

func (p *run) namedPods(port string, ips ...string) {
	p.Helper()
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{GenerateName: svcName + "-", Labels: map[string]string{discoveryv1.LabelServiceName: svcName}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: &port, Port: new(int32(8080)), Protocol: new(corev1.ProtocolTCP)}},
	}
	for _, ip := range ips {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{ip}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)}, NodeName: new(p.ns + "-1"),
		})
	}
	if _, err := p.kube.DiscoveryV1().EndpointSlices(p.ns).Create(p.Context(), slice, metav1.CreateOptions{}); err != nil {
		p.Fatal(err)
	}
	p.mu.Lock()
	first := p.svc == nil
	p.mu.Unlock()
	if first && p.probes {
		p.awake() // or they may be news during the Service's sync
	}
}

func (p *run) patch(format string, args ...any) {
	p.Helper()
	change := fmt.Appendf(nil, format, args...)
	if _, err := p.kube.CoreV1().Services(p.ns).Patch(p.Context(), svcName, types.MergePatchType, change, metav1.PatchOptions{}); err != nil {
		p.Fatal(err)
	}
}

func (p *run) clear() {
	p.Helper()
	change := []byte(`{"status":{"loadBalancer":{"ingress":null}}}`)
	if _, err := p.kube.CoreV1().Services(p.ns).Patch(p.Context(), svcName, types.MergePatchType, change, metav1.PatchOptions{}, "status"); err != nil {
		p.Fatal(err)
	}
}

// repoint gives the Service's port another node port. Other Services of the cluster may have taken some.
func (p *run) repoint() {
	p.Helper()
	var port int32
	p.wait("the Service", func() bool {
		if p.svc == nil {
			return false
		}
		port = p.svc.Spec.Ports[0].NodePort
		return true
	})
	for range 100 {
		port = 30000 + (port-30000+1)%2768
		change := fmt.Appendf(nil, `{"spec":{"ports":[{"port":80,"targetPort":8080,"protocol":"TCP","nodePort":%d}]}}`, port)
		_, err := p.kube.CoreV1().Services(p.ns).Patch(p.Context(), svcName, types.MergePatchType, change, metav1.PatchOptions{})
		if err == nil {
			return
		}
		if !apierrors.IsInvalid(err) {
			p.Fatal(err)
		}
	}
	p.Fatal("no port of nodes is free")
}

func (p *run) count(n int32) {
	p.Helper()
	p.wait(fmt.Sprintf("%d events", n), func() bool {
		var all int32
		for _, e := range p.events {
			all += e.Count
		}
		return all >= n
	})
}

func (p *run) annotate(name, value string) {
	p.Helper()
	p.patch(`{"metadata":{"annotations":{%q:%q}}}`, lbPrefix+name, value)
}

func (p *run) lose() {
	p.Helper()
	svc := p.synced("")
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lost = svc.Status.LoadBalancer.Ingress[0].IP
	p.cloud.DropLoadBalancer(svc.Labels[idLabel])
}

// touch triggers a full sync, with a new value each time.
func (p *run) touch() {
	p.Helper()
	p.touches++
	p.patch(`{"metadata":{"annotations":{"touch":"%d"}}}`, p.touches)
}

func (p *run) delete() {
	p.Helper()
	if err := p.kube.CoreV1().Services(p.ns).Delete(p.Context(), svcName, metav1.DeleteOptions{}); err != nil {
		p.Fatal(err)
	}
}

func (p *run) remove() {
	services := p.kube.CoreV1().Services(p.ns)
	_, _ = services.Patch(context.Background(), svcName, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	_ = services.Delete(context.Background(), svcName, metav1.DeleteOptions{})
}

func annotated(pairs ...string) func(*corev1.Service) {
	return func(svc *corev1.Service) {
		for i := 0; i < len(pairs); i += 2 {
			svc.Annotations[lbPrefix+pairs[i]] = pairs[i+1]
		}
	}
}

func eni(svc *corev1.Service) { svc.Annotations["service.beta.kubernetes.io/backend-type"] = "eni" }

func fault(action, code, message string, status int) func(*run) {
	return func(p *run) {
		p.repair = p.cloud.Fault(sim.Fault{Action: action, Code: code, Message: message, Status: status, Caller: "ccm"})
	}
}

func both(f ...func(*run)) func(*run) {
	return func(p *run) {
		for _, do := range f {
			do(p)
		}
	}
}
