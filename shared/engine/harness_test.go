package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/lbremedy/lbremedy/shared/approval"
	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/document"
	"github.com/lbremedy/lbremedy/shared/engine"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/hand"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/step"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/shared/stream/embedded"
	"github.com/lbremedy/lbremedy/test/cluster"
	"github.com/lbremedy/lbremedy/test/identity"
	"github.com/lbremedy/lbremedy/test/nats"
	"github.com/lbremedy/lbremedy/test/sim"
)

// server is the JetStream of all tests, whose clusters and Services differ.
var server *embedded.Server

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "remedy")
	if err == nil {
		server, err = embedded.Start(embedded.Options{Dir: dir, Port: -1})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	server.Close()
	os.RemoveAll(dir)
	os.Exit(code)
}

const (
	key   = ccm.Prefix + "vswitch-id"
	class = "fake"
)

// A rig is one failed Service with an API server, a stream and a cloud that are real at the wire, and a class and a clock that the test controls.
type rig struct {
	testing.TB
	kube    *cluster.Cluster
	cloud   *sim.Cloud
	env     *engine.Env
	clients *hand.Clients // of its hands
	class   *remedy.Remedy
	event   engine.Event
	svc     *corev1.Service                                   // as it was created
	patches atomic.Int64                                      // patches that the API server accepted
	steps   []remedy.Step                                     // of the default plan
	lb      string                                            // ID of the load balancer, at 192.168.0.9
	kinds   map[string]func(data []byte) (remedy.Step, error) // steps of a single test

	mu     sync.Mutex
	skew   time.Duration
	dead   []string // heartbeat keys of engines that have ended
	policy remedy.Policy
	hooks  map[string]func(context.Context) error
	hits   map[string]int
}

// build makes a rig with the Service, including its status, as edit leaves it.
func build(t testing.TB, edit ...func(*corev1.Service)) *rig {
	t.Helper()
	r := &rig{TB: t, kube: cluster.Join(t), policy: remedy.Policy{Mode: remedy.Fix, Risk: remedy.High, Budgets: plenty},
		hooks: map[string]func(context.Context) error{}, hits: map[string]int{}, kinds: map[string]func([]byte) (remedy.Step, error){}}
	ns := r.kube.Namespace(t)
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web", Annotations: map[string]string{key: "old"}},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}},
	}
	for _, e := range edit {
		e(svc)
	}
	r.svc, r.lb = r.create(svc), "lb-"+ns
	r.cloud = sim.New(t, &sim.World{
		Cluster:       sim.Cluster{ID: "c-" + ns},
		LoadBalancers: []sim.LoadBalancer{{ID: r.lb, Address: "192.168.0.9", AddressType: "intranet", Listeners: []sim.Listener{{Port: 80, Protocol: "tcp"}}}},
		NLBs:          []sim.NLB{{ID: r.lb, Listeners: []sim.NLBListener{{Port: 80, Protocol: "TCP", Status: "Running"}}}},
		Policies:      []sim.Policy{{Name: "p", Versions: []sim.PolicyVersion{{ID: "v1", Default: true, Document: allowing("slb:DescribeTags")}}}},
	})
	caller := r.cloud.Client("fake", "*:*")
	read, write, err := cloud.New(cloud.Config{
		Region: r.cloud.Region(), ClusterID: "c-" + ns, Endpoint: r.cloud.Addr(), Scheme: "HTTP",
		Credentials: func(context.Context) (cloud.Key, error) {
			return cloud.Key{ID: caller.AccessKeyID, Secret: caller.Secret, Token: caller.Token}, nil
		},
	})
	r.must(err)
	t.Cleanup(read.Close)
	config := rest.CopyConfig(r.kube.Config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return tap{r, next} })
	c, err := kube.New(config)
	r.must(err)
	r.clients = &hand.Clients{Kube: c, KubeWriter: kube.NewWriter(c), Cloud: read, CloudWriter: write, Decode: r.decode}
	r.env = &engine.Env{
		Cluster: "c-" + ns, Stream: r.connect(), Kube: c, Hand: r.clients.Hand,
		Policy: func(ctx context.Context) (remedy.Policy, error) {
			err := r.hit(ctx, "policy")
			r.mu.Lock()
			defer r.mu.Unlock()
			return r.policy, err
		},
		Decode: r.decode, Who: "test", Watch: 200 * time.Millisecond, Now: r.now,
	}
	r.starts()
	r.steps = []remedy.Step{act{Name: "1", Annotate: set(key, "new", "old")}}
	r.class = &remedy.Remedy{
		Class: class, Doc: "# Fake",
		Steps: append(step.All(), act{}, paced{}, settling{}), Annotations: []string{key, "a/b", "example.com/a", "example.com/f", "example.com/second"},
		Diagnose: func(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
			return remedy.Plan{Finding: say.F("It is old."), Steps: r.bind(r.steps)}, r.hit(ctx, "diagnose")
		},
		StillFails: func(ctx context.Context, c *remedy.Case) (remedy.Verdict, error) {
			point := "still fails"
			if c.Written() {
				point = "still fails after"
			}
			return remedy.Is(c.Service.Annotations[key] == "old"), r.hit(ctx, point)
		},
	}
	r.event = r.failure(class, time.Now().Add(-10*time.Second))
	return r
}

var plenty = remedy.Budgets{Class: 1000, Least: 1000}

func allowing(action string) string {
	return fmt.Sprintf(`{"Version":"1","Statement":[{"Effect":"Allow","Action":%q,"Resource":"*"}]}`, action)
}

func set(key, value, was string) step.Annotate {
	return step.Annotate{Set: map[string]string{key: value}, Was: map[string]string{key: was}}
}

func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

func (r *rig) connect() *stream.Stream {
	r.Helper()
	s, err := stream.Connect(r.Context(), stream.Config{URL: server.URL()})
	r.must(err)
	r.Cleanup(s.Close)
	_, err = s.Setup(r.Context(), nil, stream.Settings{})
	r.must(err)
	return s
}

func (r *rig) apart() (url string) {
	r.Helper()
	url = nats.Start(r, embedded.Options{}).URL()
	r.env.Stream = nats.Connect(r, stream.Config{URL: url})
	r.starts()
	_, err := r.env.Stream.Setup(r.Context(), nil, stream.Settings{})
	r.must(err)
	return url
}

func (r *rig) starts() {
	r.env.Engine = document.Start(r.Context(), r.env.Stream, r.env.Cluster, slog.New(slog.DiscardHandler))
	r.Cleanup(r.env.Engine.Stop)
}

// restart replaces the rig's env by a new process's, as if the old process had been killed.
func (r *rig) restart() {
	r.Helper()
	env := *r.env
	env.Stream.Close()
	env.Stream = r.connect()
	dead, err := env.Stream.Entries(r.Context(), "engine."+env.Cluster+".*")
	r.must(err)
	for _, e := range dead {
		r.dead = append(r.dead, e.Key)
	}
	r.env = &env
	r.starts()
}

func (r *rig) create(svc *corev1.Service) *corev1.Service {
	r.Helper()
	made, err := r.kube.Client().CoreV1().Services(svc.Namespace).Create(r.Context(), svc, metav1.CreateOptions{})
	r.must(err)
	if len(svc.Status.LoadBalancer.Ingress) > 0 {
		made.Status = svc.Status
		made, err = r.kube.Client().CoreV1().Services(svc.Namespace).UpdateStatus(r.Context(), made, metav1.UpdateOptions{})
		r.must(err)
	}
	return made
}

func (r *rig) failure(class string, at time.Time) engine.Event {
	at = at.Truncate(time.Second)
	return engine.Event{ID: fmt.Sprintf("%s-%d", class, at.Unix()), Failure: event.Failure{
		Cluster: "c-" + r.svc.Namespace, Class: class, Reason: "SyncLoadBalancerFailed", Type: "Warning", Component: "service-controller", Message: "it is old",
		Service: event.Service{Namespace: r.svc.Namespace, Name: r.svc.Name, UID: string(r.svc.UID)},
		Event:   event.Reference{Name: "web.1", UID: "11111111-1111-1111-1111-111111111111", ResourceVersion: fmt.Sprint(at.Unix())},
		Count:   1, First: at, Last: at,
	}}
}

func (r *rig) publish(ev engine.Event) {
	r.Helper()
	e, err := event.NewFailed(ev.Failure)
	r.must(err)
	header, data, err := event.EncodeNATS(e)
	r.must(err)
	f := ev.Failure
	_, _, err = r.env.Stream.PublishNewer(r.Context(), event.FailedSubject(f.Cluster, f.Class, f.Service.UID), e.ID(), header, data,
		func(stream.Message) bool { return true })
	r.must(err)
}

func (r *rig) now() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Now().Add(r.skew)
}

// advance moves the clock of all runs. Engines that ended 15 s ago count as dead.
func (r *rig) advance(d time.Duration) {
	r.mu.Lock()
	r.skew += d
	dead := r.dead
	if d >= 15*time.Second {
		r.dead = nil
	}
	r.mu.Unlock()
	if d >= 15*time.Second {
		for _, key := range dead {
			r.must(r.env.Stream.Delete(r.Context(), key))
		}
	}
}

func (r *rig) stolen(ctx context.Context) error { return r.writes(ctx, "another") }

// writes has another engine write the document of the rig's Service and leave it to a holder; empty means no holder.
func (r *rig) writes(ctx context.Context, holder string) error {
	d := r.document()
	d.State.Holder = holder
	data, err := json.Marshal(d)
	return errors.Join(err, r.env.Stream.Put(ctx, event.StateKey(r.env.Cluster, string(r.svc.UID)), data))
}

func (r *rig) setPolicy(p remedy.Policy) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.policy = p
}

// on has f called whenever a run reaches a point: "policy", "diagnose", "still fails", "still fails after" (the write), and for a fake step
// "check 1", "before 1", "after 1".
func (r *rig) on(point string, f func(context.Context) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hooks[point] = f
}

func (r *rig) once(point string, f func(context.Context) error) {
	r.on(point, func(ctx context.Context) error {
		r.on(point, nil)
		return f(ctx)
	})
}

func (r *rig) hit(ctx context.Context, point string) error {
	r.mu.Lock()
	f := r.hooks[point]
	r.hits[point]++
	r.mu.Unlock()
	if f == nil {
		return nil
	}
	return f(ctx)
}

func (r *rig) count(point string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.hits[point]
}

// kill ends the goroutine of a run as the end of its process would.
func kill(context.Context) error {
	runtime.Goexit()
	return nil
}

func (r *rig) try(ev engine.Event) (rec event.Record, err error, killed bool) {
	killed = true
	done := make(chan struct{})
	go func() {
		defer close(done)
		rec, err = engine.Run(r.Context(), r.env, r.class, ev)
		killed = false
	}()
	<-done
	return rec, err, killed
}

func (r *rig) run() event.Record {
	r.Helper()
	rec, err, killed := r.try(r.event)
	if err != nil || killed {
		r.Fatalf("run: %v (killed: %t)", err, killed)
	}
	return rec
}

func (r *rig) ends(want event.Result) event.Record {
	r.Helper()
	rec := r.run()
	if rec.Result != want {
		r.Fatalf("ended as %q (finding %q, rule %q, note %q, ask %q, error %q), want %q", rec.Result, rec.Finding, rec.Rule, rec.Note, rec.Ask, rec.Error, want)
	}
	return rec
}

func (r *rig) fails(want string) event.Record {
	r.Helper()
	rec, err, killed := r.try(r.event)
	if killed || err == nil || !strings.Contains(err.Error(), want) {
		r.Fatalf("got error %v (killed: %t, ended as %q), want %q", err, killed, rec.Result, want)
	}
	return rec
}

func (r *rig) dies() {
	r.Helper()
	if rec, err, killed := r.try(r.event); !killed {
		r.Fatalf("the run was not killed: ended as %q, %v", rec.Result, err)
	}
}

func (r *rig) wrote(want int64) {
	r.Helper()
	if got := r.patches.Load(); got != want {
		r.Errorf("%d patches were written, want %d", got, want)
	}
}

func (r *rig) journal() []event.Record {
	r.Helper()
	var all []event.Record
	r.must(r.env.Stream.Each(r.Context(), stream.Cases, event.CaseFilter(r.env.Cluster, string(r.svc.UID)), time.Time{}, func(m stream.Message) error {
		rec, err := event.DecodeRecord(m.Subject, m.Header, m.Data)
		all = append(all, rec)
		return err
	}))
	return all
}

func (r *rig) applied() ([]event.Record, time.Time) {
	r.Helper()
	all := r.journal()
	applied, back, err := r.env.Documents().Applied(r.Context(), all[len(all)-1])
	r.must(err)
	return applied, back
}

func (r *rig) answer(rec event.Record, reply approval.Reply, name string, groups ...string) (*kube.Approval, error) {
	r.Helper()
	identity.Answerable(r, r.kube)
	return approval.Answer(r.Context(), identity.Person(r, r.kube, name, groups...), rec, reply)
}

// consent gives the rig a plan that needs a person's approval, and returns the record that asks for it.
func (r *rig) consent() event.Record {
	r.Helper()
	r.policy.Risk = remedy.Low
	r.steps = []remedy.Step{act{Name: "1", How: remedy.Medium, Annotate: set(key, "new", "old")}}
	return r.ends(event.Asked)
}

func (r *rig) approve(rec event.Record, name string, groups ...string) *kube.Approval {
	r.Helper()
	a, err := r.answer(rec, approval.Reply{Verdict: kube.Approve}, name, groups...)
	r.must(err)
	return a
}

func (r *rig) reject(rec event.Record, name string) *kube.Approval {
	r.Helper()
	a, err := r.answer(rec, approval.Reply{Verdict: kube.Reject, Comment: "it is to go"}, name)
	r.must(err)
	return a
}

// sync does what the controller does at the end of a full sync: it sets labels and status in one patch of the status.
func (r *rig) sync(hash, ip string) {
	r.Helper()
	r.patch("status", fmt.Sprintf(`{"metadata":{"labels":{%q:%q,%q:%q}},"status":{"loadBalancer":{"ingress":[{"ip":%q}]}}}`, ccm.HashLabel, hash,
		ccm.BalancerLabel, r.lb, ip))
}

func (r *rig) syncs(context.Context) error {
	r.sync("h2", "192.168.0.9")
	return nil
}

func (r *rig) patch(subresource, patch string) {
	r.Helper()
	var sub []string
	if subresource != "" {
		sub = []string{subresource}
	}
	_, err := r.kube.Client().CoreV1().Services(r.svc.Namespace).Patch(r.Context(), r.svc.Name, types.MergePatchType, []byte(patch),
		metav1.PatchOptions{FieldManager: "somebody"}, sub...)
	r.must(err)
}

func (r *rig) replace() {
	r.Helper()
	r.remove()
	r.create(&corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.svc.Namespace, Name: r.svc.Name, Annotations: map[string]string{key: "old"}},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}},
	})
}

func (r *rig) remove() {
	r.Helper()
	r.must(r.kube.Client().CoreV1().Services(r.svc.Namespace).Delete(r.Context(), r.svc.Name, metav1.DeleteOptions{}))
}

func (r *rig) live() *corev1.Service {
	r.Helper()
	svc, err := r.kube.Client().CoreV1().Services(r.svc.Namespace).Get(r.Context(), r.svc.Name, metav1.GetOptions{})
	r.must(err)
	return svc
}

// A tap counts the patches that the API server accepts, and can stop requests at the points "PATCH", "GET", "WATCH".
type tap struct {
	rig  *rig
	next http.RoundTripper
}

func (t tap) RoundTrip(q *http.Request) (*http.Response, error) {
	point := q.Method
	if q.URL.Query().Get("watch") != "" {
		point = "WATCH"
	}
	if err := t.rig.hit(q.Context(), point); err != nil {
		return nil, err
	}
	if strings.HasSuffix(q.URL.Path, "/approvals") {
		if err := t.rig.hit(q.Context(), "approvals"); err != nil {
			return nil, err
		}
	}
	if strings.HasSuffix(q.URL.Path, "/"+approval.Policy) {
		switch err := t.rig.hit(q.Context(), "guard"); {
		case errors.Is(err, errNotFound):
			return said(q, http.StatusNotFound, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`), nil
		case err != nil:
			return nil, err
		}
	}
	if strings.HasSuffix(q.URL.Path, "/daemonsets") { // tests beside this one have controllers in the cluster that all share
		return said(q, http.StatusOK, `{"kind":"DaemonSetList","apiVersion":"apps/v1","metadata":{"resourceVersion":"1"},"items":[]}`), nil
	}
	a, err := t.next.RoundTrip(q)
	if err == nil && q.Method == http.MethodPatch && a.StatusCode == http.StatusOK && q.URL.Query().Get("dryRun") == "" {
		t.rig.patches.Add(1)
		if err := t.rig.hit(q.Context(), "patched"); err != nil {
			a.Body.Close()
			if errors.Is(err, errTimeout) {
				a.StatusCode, a.Status = http.StatusGatewayTimeout, "504 Gateway Timeout"
				a.Body = io.NopCloser(strings.NewReader(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Timeout","code":504}`))
				return a, nil
			}
			return nil, err
		}
	}
	return a, err
}

func said(q *http.Request, code int, body string) *http.Response {
	return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Request: q, Body: io.NopCloser(strings.NewReader(body))}
}

var errNotFound = errors.New("404")

// errTimeout makes the API server report a timeout for a request that it has carried out.
var errTimeout = errors.New("504")

// An act is the annotation step with points where the test can step in.
type act struct {
	step.Annotate
	Name string      `json:"name"`
	At   string      `json:"at,omitempty"` // target
	How  remedy.Risk `json:"how"`

	rig *rig
}

func (a act) Kind() string      { return "act" }
func (a act) Target() string    { return a.At }
func (a act) Risk() remedy.Risk { return a.How }

func (a act) Check(ctx context.Context, c *remedy.Case) (remedy.State, error) {
	if err := a.rig.hit(ctx, "check "+a.Name); err != nil {
		return remedy.Todo, err
	}
	return a.Annotate.Check(ctx, c)
}

func (a act) Apply(ctx context.Context, c *remedy.Case, w *remedy.Writers) error {
	if err := a.rig.hit(ctx, "before "+a.Name); err != nil {
		return err
	}
	if err := a.Annotate.Apply(ctx, c, w); err != nil {
		return err
	}
	return a.rig.hit(ctx, "after "+a.Name)
}

// Undo returns an act too if it sets the annotation back; its points are "before 1 back" and so on.
func (a act) Undo() (remedy.Step, bool) {
	back, ok := a.Annotate.Undo()
	if sets, is := back.(step.Annotate); is {
		return act{Annotate: sets, Name: a.Name + " back", At: a.At, How: a.How, rig: a.rig}, ok
	}
	return back, ok
}

type paced struct{ act }

func (paced) Kind() string        { return "paced" }
func (paced) Pace() time.Duration { return 5 * time.Second }

type settling struct{ act }

func (settling) Kind() string          { return "settling" }
func (settling) Settle() time.Duration { return time.Minute }

func (r *rig) bind(steps []remedy.Step) []remedy.Step {
	var out []remedy.Step
	for _, s := range steps {
		switch s := s.(type) {
		case act:
			s.rig = r
			out = append(out, s)
		case paced:
			s.rig = r
			out = append(out, s)
		case settling:
			s.rig = r
			out = append(out, s)
		default:
			out = append(out, s)
		}
	}
	return out
}

func (r *rig) decode(kind string, data []byte) (remedy.Step, error) {
	if make, ok := r.kinds[kind]; ok {
		return make(data)
	}
	var err error
	var s remedy.Step
	switch kind {
	case "act":
		var a act
		err = json.Unmarshal(data, &a)
		s = a
	case "paced":
		var p paced
		err = json.Unmarshal(data, &p)
		s = p
	case "resync":
		return step.Decode(kind, data)
	case "settling":
		var p settling
		err = json.Unmarshal(data, &p)
		s = p
	default:
		return step.Decode(kind, data)
	}
	return r.bind([]remedy.Step{s})[0], err
}

func finalizer(name string) func(*corev1.Service) {
	return func(svc *corev1.Service) { svc.Finalizers = append(svc.Finalizers, name) }
}

var errBoom = errors.New("boom")

func boom(context.Context) error { return errBoom }
