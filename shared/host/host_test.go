package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/connect"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/step"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/shared/stream/embedded"
	"github.com/lbremedy/lbremedy/test/cluster"
	"github.com/lbremedy/lbremedy/test/nats"
	"github.com/lbremedy/lbremedy/test/sim"
)

type rig struct {
	*Host
	testing.TB
	config Config
	svc    *corev1.Service
	log    *bytes.Buffer
}

func build(t *testing.T, remedies ...*remedy.Remedy) *rig {
	t.Helper()
	r := &rig{TB: t, log: &bytes.Buffer{}}
	server := nats.Start(t, embedded.Options{Token: "sesame"})
	account := sim.New(t, nil)
	k := cluster.Join(t)
	ns := k.Namespace(t)
	var err error
	r.svc, err = k.Client().CoreV1().Services(ns).Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.ServiceSpec{Type: "LoadBalancer", Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"CLUSTER": "c-1", "REGION": account.Region(), "KUBECONFIG": k.Kubeconfig,
		"CLOUD_ENDPOINT": account.Addr(), "CLOUD_SCHEME": "http",
	} {
		t.Setenv("LBREMEDY_"+name, value)
	}
	r.config = Config{Config: connect.FromEnv(), NATS: server.URL(), NATSToken: "sesame", Who: "test", Watch: 100 * time.Millisecond}
	r.config.Log = slog.New(slog.NewTextHandler(r.log, nil))
	key := account.Client("host", "*:*")
	r.config.Credentials = cloud.Static(cloud.Key{ID: key.AccessKeyID, Secret: key.Secret, Token: key.Token})
	env, err := ConnectReads(r.config)
	if err != nil {
		t.Fatal(err)
	}
	if env.Stream, err = r.config.Stream(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(env.Stream.Close)
	r.Host = &Host{Env: env.Env, Remedies: remedies}
	if err := r.Validate(); err != nil {
		t.Fatal(err)
	}
	if _, err := env.Stream.Setup(t.Context(), r.Classes(), stream.Settings{Clusters: []string{"c-1"}}); err != nil {
		t.Fatal(err)
	}
	return r
}

func class(id string, plan remedy.Plan, err error) *remedy.Remedy {
	return &remedy.Remedy{Class: id, Doc: "# " + id, Diagnose: func(context.Context, *remedy.Case) (remedy.Plan, error) { return plan, err }}
}

func (r *rig) event(class string) cloudevents.Event {
	r.Helper()
	e, err := event.NewFailed(event.Failure{
		Cluster: "c-1", Class: class, Reason: "SyncLoadBalancerFailed", Type: "Warning", Component: "service-controller", Message: "no",
		Service: event.Service{Namespace: r.svc.Namespace, Name: r.svc.Name, UID: string(r.svc.UID)},
		Event:   event.Reference{Name: "web.1", UID: "11111111-1111-1111-1111-111111111111", ResourceVersion: "7"},
		Count:   1, First: time.Now(), Last: time.Now(),
	})
	if err != nil {
		r.Fatal(err)
	}
	return e
}

func (r *rig) publish(e cloudevents.Event, class string) {
	r.Helper()
	header, data, err := event.EncodeNATS(e)
	if err != nil {
		r.Fatal(err)
	}
	subject := event.FailedSubject("c-1", class, string(r.svc.UID))
	if _, _, err := r.Env.Stream.PublishNewer(r.Context(), subject, e.ID()+class, header, data, func(stream.Message) bool { return true }); err != nil {
		r.Fatal(err)
	}
}

func TestHandle(t *testing.T) {
	secret := errors.New("get https://slb.aliyuncs.com/?AccessKeyId=LTAI4FakeFakeFake1234&Signature=c2VjcmV0c2VjcmV0c2Vj%3D: no")
	r := build(t,
		class("asks", remedy.Plan{Finding: say.F("f"), Ask: say.F("a")}, nil),
		class("waits", remedy.Plan{Finding: say.F("f"), Wait: 3 * time.Minute}, nil),
		class("soon", remedy.Plan{Finding: say.F("f"), Wait: time.Nanosecond}, nil),
		class("errs", remedy.Plan{}, secret),
		class("panics", remedy.Plan{}, nil),
	)
	r.Remedies[4].Diagnose = func(context.Context, *remedy.Case) (remedy.Plan, error) { panic("oh no") }
	var seen []string
	r.OnRun = func(rec event.Record, err error) {
		seen = append(seen, fmt.Sprint(rec.Class, " ", rec.Result, " ", err != nil))
	}
	broken := cloudevents.NewEvent()
	foreign := r.event("asks")
	foreign.SetExtension(event.ExtCluster, "c-2")
	foreign.SetData("application/json", bytes.ReplaceAll(foreign.Data(), []byte(`"c-1"`), []byte(`"c-2"`)))
	foreign.SetSource("/clusters/c-2")
	for _, tt := range []struct {
		name  string
		event cloudevents.Event
		retry time.Duration
		dead  string
		err   bool
		want  event.Result
	}{
		{"settled", r.event("asks"), 0, "", false, event.Asked},
		{"later", r.event("waits"), 3 * time.Minute, "", false, event.Waiting},
		{"not at once", r.event("soon"), time.Second, "", false, event.Waiting},
		{"an error", r.event("errs"), 2 * time.Second, "", true, event.Waiting},
		{"a panic", r.event("panics"), 2 * time.Second, "", true, event.Waiting},
		{"after the panic", r.event("asks"), 0, "", false, event.Asked},
		{"an unknown class", r.event("nobody"), 0, `"nobody" is not known here; known are [asks`, false, ""},
		{"no event", broken, 0, "not a CloudEvent", false, ""},
		{"another cluster's", foreign, 0, "not for this host", true, ""},
	} {
		got := r.Handle(t.Context(), tt.event)
		if got.Retry != tt.retry || !strings.Contains(got.Dead, tt.dead) || (got.Dead == "") != (tt.dead == "") || (got.Err != nil) != tt.err ||
			got.Record.Result != tt.want {
			t.Errorf("%s: %+v", tt.name, got)
		}
	}
	want := []string{"asks asked false", "waits waiting false", "soon waiting false", "errs waiting true", "panics waiting true", "asks asked false", "  true"}
	if got := strings.Join(seen, "; "); got != strings.Join(want, "; ") {
		t.Errorf("seen: %s", got)
	}
	if log := r.log.String(); strings.Contains(log, "c2VjcmV0") || !strings.Contains(log, "outcome=asked") || !strings.Contains(log, "run failed") {
		t.Errorf("the log says:\n%s", log)
	}

	now := time.Now()
	r.Env.Now = func() time.Time { return now }
	e := r.event("errs")
	for n := 0; ; n++ {
		reply := r.Handle(t.Context(), e)
		if reply.Record.Result == event.Failed {
			if reply.Retry != 0 || reply.Err == nil {
				t.Errorf("failed for good: %+v", reply)
			}
			break
		}
		if n > 200 {
			t.Fatal("it never fails for good")
		}
		now = now.Add(reply.Retry)
	}

	r.Env.Stream.Close()
	if got := r.Handle(t.Context(), r.event("asks")); got.Retry < time.Second || got.Err == nil {
		t.Errorf("without a journal: %+v", got)
	}
	r.Env.Log = nil
	r.Handle(t.Context(), r.event("asks"))
}

func TestHandleUnnoted(t *testing.T) {
	r := build(t, class("asks", remedy.Plan{Finding: say.F("f"), Ask: say.F("a")}, nil))
	if got := r.Handle(t.Context(), r.event("asks")); got.Retry != 0 || got.Err != nil {
		t.Fatalf("%+v", got)
	}
	diagnose, noted := r.Remedies[0].Diagnose, false
	r.Remedies[0].Diagnose = func(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
		if !noted { // another engine has taken the object and released it
			noted = true
			key := event.StateKey("c-1", string(r.svc.UID))
			data, err := r.Env.Stream.Get(ctx, key)
			if err == nil {
				err = r.Env.Stream.Put(ctx, key, regexp.MustCompile(`"holder":"[^"]*"`).ReplaceAll(data, []byte(`"holder":""`)))
			}
			if err != nil {
				return remedy.Plan{}, err
			}
		}
		return diagnose(ctx, c)
	}
	again := r.event("asks")
	f, err := event.ReadFailed(again)
	if err != nil {
		t.Fatal(err)
	}
	f.Event.ResourceVersion, f.Count = "8", 2
	if again, err = event.NewFailed(f); err != nil {
		t.Fatal(err)
	}
	if got := r.Handle(t.Context(), again); got.Retry < time.Second || got.Err == nil {
		t.Errorf("not noted: %+v", got)
	}
	if got := r.Handle(t.Context(), again); got.Retry != 0 || got.Err != nil || got.Record.Result != event.Asked {
		t.Errorf("noted: %+v", got)
	}
}

// An event comes again until CASES has the record of its answer, even if the case is over.
func TestHandleUnaudited(t *testing.T) {
	r := build(t, class("asks", remedy.Plan{Finding: say.F("f"), Ask: say.F("a")}, nil))
	js := nats.JetStream(t, strings.Replace(r.config.NATS, "://", "://sesame@", 1))
	if err := js.DeleteStream(t.Context(), stream.Cases); err != nil {
		t.Fatal(err)
	}
	e := r.event("asks")
	for range 2 {
		if got := r.Handle(t.Context(), e); got.Retry < time.Second || got.Err == nil {
			t.Errorf("without CASES: %+v", got)
		}
	}
	if _, err := r.Env.Stream.Setup(t.Context(), r.Classes(), stream.Settings{Clusters: []string{"c-1"}}); err != nil {
		t.Fatal(err)
	}
	if got := r.Handle(t.Context(), e); got.Retry != 0 || got.Err != nil {
		t.Errorf("with CASES: %+v", got)
	}
	if _, err := r.Env.Stream.Last(t.Context(), stream.Cases, event.CaseSubject("c-1", string(r.svc.UID), "asks")); err != nil {
		t.Errorf("CASES has no record: %v", err)
	}
}

func TestValidate(t *testing.T) {
	asks := class("asks", remedy.Plan{Finding: say.F("f"), Ask: say.F("a")}, nil)
	h := &Host{Remedies: []*remedy.Remedy{asks, asks, {Class: "empty"}}}
	err := h.Validate()
	for _, want := range []string{`"asks" is there twice`, `class "empty"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want it to say %s", err, want)
		}
	}
	if got := strings.Join(h.Classes(), " "); got != "asks asks empty" {
		t.Errorf("the classes are %s", got)
	}
	if r, ok := h.Remedy("asks"); !ok || r != asks {
		t.Error("a class is not found")
	}
	if _, ok := h.Remedy("none"); ok {
		t.Error("a class is found that isn't there")
	}
}

// A worker puts unreadable messages away, and lets those in hand finish when asked to end.
func TestWork(t *testing.T) {
	begun, end := make(chan struct{}), make(chan struct{})
	slow := class("slow", remedy.Plan{}, nil)
	slow.Diagnose = func(ctx context.Context, _ *remedy.Case) (remedy.Plan, error) {
		close(begun)
		select {
		case <-end:
			return remedy.Plan{Finding: say.F("f"), Ask: say.F("a")}, nil
		case <-ctx.Done():
			return remedy.Plan{}, ctx.Err()
		}
	}
	r := build(t, slow, class("asks", remedy.Plan{Finding: say.F("f"), Ask: say.F("a")}, nil))
	var mu sync.Mutex
	results := map[string]event.Result{}
	asked := make(chan struct{})
	r.OnRun = func(rec event.Record, err error) {
		mu.Lock()
		defer mu.Unlock()
		if results[rec.Class] = rec.Result; rec.Class == "asks" {
			close(asked)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Work(ctx, 2) }()

	dead := make(chan stream.Message, 1)
	go r.Env.Stream.Tail(ctx, stream.Dead, "lbremedy.dead.>", 0, func(m stream.Message) error { dead <- m; return nil })
	garbage := r.event("asks")
	garbage.SetID("garbage")
	garbage.SetData("text/plain", "nobody reads this")
	r.publish(garbage, "asks")
	if m := <-dead; m.Header[stream.HeaderReason] == nil {
		t.Errorf("dead without a reason: %v", m.Header)
	}
	r.publish(r.event("asks"), "asks")
	<-asked
	r.publish(r.event("slow"), "slow")
	<-begun
	cancel()
	select {
	case err := <-done:
		t.Errorf("it ended with an event in hand: %v", err)
	default:
	}
	close(end)
	if err := <-done; err != nil {
		t.Error(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if results["slow"] != event.Asked || results["asks"] != event.Asked {
		t.Errorf("the results are %v", results)
	}
	if m := r.message(t.Context(), stream.Message{Header: map[string][]string{"ce-specversion": {"9"}}}); m.Dead == "" {
		t.Error("a message that is no event is not dead")
	}
}

// Runs that only watch for success make room: no Service waits for the syncs of others.
func TestWorkCrowded(t *testing.T) {
	const services = 6
	reached := make(chan string, 10*services)
	writes := &remedy.Remedy{
		Class: "writes", Doc: "# writes", Steps: []remedy.Step{step.Annotate{}}, Annotations: []string{ccm.VSwitchID},
		Diagnose: func(_ context.Context, c *remedy.Case) (remedy.Plan, error) {
			reached <- c.Service.Name
			return remedy.Plan{Finding: say.F("f"), Cause: "c", Steps: []remedy.Step{step.With(c.Service, ccm.VSwitchID, "vsw-1")}}, nil
		},
		StillFails: func(context.Context, *remedy.Case) (remedy.Verdict, error) { return remedy.Yes, nil },
	}
	r := build(t, writes)
	r.Env.Watch = time.Hour
	r.Env.Policy = func(context.Context) (remedy.Policy, error) {
		return remedy.Policy{Mode: remedy.Fix, Risk: remedy.Low, Budgets: remedy.Budgets{Class: 100, Least: 100}}, nil
	}
	svcs := cluster.Join(t).Client().CoreV1().Services(r.svc.Namespace)
	for i := range services {
		svc := r.svc.DeepCopy()
		svc.ObjectMeta = metav1.ObjectMeta{Name: fmt.Sprintf("web-%d", i)}
		svc.Spec.ClusterIP, svc.Spec.ClusterIPs, svc.Spec.Ports[0].NodePort = "", nil, 0
		made, err := svcs.Create(t.Context(), svc, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		r.svc = made
		r.publish(r.event("writes"), "writes")
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Work(ctx, 2) }()
	seen := map[string]bool{}
	for limit := time.After(time.Minute); len(seen) < services; {
		select {
		case name := <-reached:
			seen[name] = true
		case <-limit:
			t.Fatalf("only %v were looked at within a minute", seen)
		}
	}
	cancel()
	for name := range seen { // none of these is watched by a run
		if err := svcs.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	}
	<-done
}

func TestWorkWithoutConsumer(t *testing.T) {
	r := build(t, class("asks", remedy.Plan{Finding: say.F("f"), Ask: say.F("a")}, nil))
	r.Remedies = append(r.Remedies, class("unknown", remedy.Plan{Finding: say.F("f"), Ask: say.F("a")}, nil))
	if err := r.Work(t.Context(), 1); !errors.Is(err, stream.ErrNotFound) || !strings.Contains(err.Error(), "consume unknown") {
		t.Errorf("got %v", err)
	}
}

func TestObserves(t *testing.T) {
	r := build(t)
	look, err := ConnectReads(r.config)
	if err != nil {
		t.Fatal(err)
	}
	for _, env := range []*Connection{{Env: r.Env}, look} {
		if got, err := env.Policy(t.Context()); err != nil || got.Mode != remedy.Observe {
			t.Errorf("got %+v, %v", got, err)
		}
	}
	if look.Stream != nil {
		t.Error("a look has the stream")
	}
}

// The chart kills the Pod ten seconds after Grace.
func TestGrace(t *testing.T) {
	chart, err := os.ReadFile("../../infra/cluster/templates/up.yaml")
	if err != nil {
		t.Fatal(err)
	}
	grace := int(Config{}.stream().Grace.Seconds())
	if want := fmt.Sprintf("terminationGracePeriodSeconds: %d\n", grace+10); !strings.Contains(string(chart), want) {
		t.Errorf("the chart does not say %s", want)
	}
}

func TestConnect(t *testing.T) {
	if _, err := ConnectReads(Config{}); err == nil || !strings.Contains(err.Error(), "LBREMEDY_CLUSTER") {
		t.Errorf("without a configuration: %v", err)
	}
	r := build(t)
	c := r.config
	c.NATSToken = "wrong"
	if _, err := c.Stream(t.Context()); err == nil {
		t.Error("a wrong token connects")
	}
}

func TestClustersOnOneNATS(t *testing.T) {
	r := build(t, class("asks", remedy.Plan{Finding: say.F("f"), Ask: say.F("a")}, nil))
	env := *r.Env
	env.Cluster = "c-2"
	other := &Host{Env: &env, Remedies: r.Remedies}
	if _, err := env.Stream.Setup(t.Context(), other.Classes(), stream.Settings{Clusters: []string{"c-2"}}); err != nil {
		t.Fatal(err)
	}
	seen := make(chan string, 10)
	ctx, cancel := context.WithCancel(t.Context())
	var wait sync.WaitGroup
	for _, h := range []*Host{r.Host, other} {
		h.OnRun = func(rec event.Record, err error) {
			seen <- fmt.Sprint(h.Env.Cluster, " ", rec.Cluster, " ", rec.Result, " ", err)
		}
		wait.Go(func() {
			if err := h.Work(ctx, 4); err != nil {
				t.Error(err)
			}
		})
	}
	for _, cluster := range []string{"c-1", "c-2"} {
		e := r.event("asks")
		e.SetExtension(event.ExtCluster, cluster)
		if err := e.SetData("application/json", bytes.ReplaceAll(e.Data(), []byte(`"c-1"`), []byte(`"`+cluster+`"`))); err != nil {
			t.Fatal(err)
		}
		e.SetSource("/clusters/" + cluster)
		header, data, err := event.EncodeNATS(e)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := env.Stream.PublishNewer(ctx, event.FailedSubject(cluster, "asks", string(r.svc.UID)), e.ID()+cluster, header, data,
			func(stream.Message) bool { return true }); err != nil {
			t.Fatal(err)
		}
	}
	got := []string{<-seen, <-seen}
	slices.Sort(got)
	if want := []string{"c-1 c-1 asked <nil>", "c-2 c-2 asked <nil>"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	cancel()
	wait.Wait()
	if m, err := env.Stream.Last(t.Context(), stream.Dead, stream.DeadSubjects); !errors.Is(err, stream.ErrNotFound) {
		t.Errorf("%s is dead, %v", m.Subject, err)
	}
}
