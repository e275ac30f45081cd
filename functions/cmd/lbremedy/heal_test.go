package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/test/cluster"
	"github.com/lbremedy/lbremedy/test/shell"
	"github.com/lbremedy/lbremedy/test/sim"
	"github.com/lbremedy/lbremedy/test/sim/controller"
)

const annotation = "service.beta.kubernetes.io/alibaba-cloud-loadbalancer-"

// A scene is a Service whose vSwitch is full, with the controller that says so.
type scene struct {
	call
	kube      *cluster.Cluster
	cloud     *sim.Cloud
	namespace string
}

func newScene(t *testing.T) *scene {
	t.Helper()
	c := cluster.Join(t)
	sc := &scene{kube: c, namespace: c.Namespace(t)}
	world, err := sim.ParseWorld([]byte(`
cluster: {id: c-cli}
vswitches:
- {id: vsw-a, zone: cn-hangzhou-h, free: 0}
- {id: vsw-b, zone: cn-hangzhou-i, free: 41}
instances: [{id: i-cli}]
`))
	if err != nil {
		t.Fatal(err)
	}
	sc.cloud = sim.New(t, world)
	admin := sc.cloud.Admin()
	sc.env = map[string]string{
		"HOME": t.TempDir(), "LBREMEDY_STATE_DIR": t.TempDir(), "LBREMEDY_KUBECONFIG": c.Kubeconfig,
		"LBREMEDY_CLUSTER": "c-cli", "LBREMEDY_REGION": sc.cloud.Region(),
		"LBREMEDY_CLOUD_ENDPOINT": sc.cloud.Addr(), "LBREMEDY_CLOUD_SCHEME": "HTTP",
		keyID: admin.AccessKeyID, keySecret: admin.Secret,
	}
	sc.create(t)
	sc.sync(t)
	return sc
}

// fixes returns a policy that fixes in the scene's namespace alone: "up" watches the whole
// cluster, in which other scenes play.
func (sc *scene) fixes() string {
	return fmt.Sprintf("rules: [{namespaces: [%q], mode: fix}]\n", sc.namespace)
}

// create makes a node, the failing Service and one that is no load balancer.
func (sc *scene) create(t *testing.T) {
	t.Helper()
	ctx, client := t.Context(), sc.kube.Client()
	labels := map[string]string{"scene": sc.namespace}
	node, err := client.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: sc.namespace, Labels: labels}, Spec: corev1.NodeSpec{ProviderID: "cn-hangzhou.i-cli"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.CoreV1().Nodes().Delete(context.WithoutCancel(ctx), sc.namespace, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	if _, err := client.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	for name, kind := range map[string]corev1.ServiceType{"web": corev1.ServiceTypeLoadBalancer, "inner": corev1.ServiceTypeClusterIP} {
		svc := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{annotation + "address-type": "intranet", annotation + "vswitch-id": "vsw-a"}},
			Spec:       corev1.ServiceSpec{Type: kind, Ports: []corev1.ServicePort{{Port: 80, Protocol: corev1.ProtocolTCP}}},
		}
		if _, err := client.CoreV1().Services(sc.namespace).Create(ctx, svc, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// sync runs the controller until the test ends.
func (sc *scene) sync(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var wait sync.WaitGroup
	t.Cleanup(func() { cancel(); wait.Wait() })
	world := sc.cloud.Snapshot()
	wait.Go(func() {
		err := controller.Run(ctx, controller.Options{
			Kube: rest.CopyConfig(sc.kube.Config), Cloud: sc.cloud.Addr(), Credentials: sc.cloud.Admin(), Region: world.Region, ClusterID: "c-cli",
			VPC: world.Cluster.VPC, VSwitches: []string{"cn-hangzhou-h:vsw-a"}, Namespace: sc.namespace, Nodes: "scene=" + sc.namespace,
		})
		if err != nil && ctx.Err() == nil {
			t.Errorf("the controller ended: %v", err)
		}
	})
}

// annotations returns the annotations of the Service.
func (sc *scene) annotations(t *testing.T) map[string]string {
	t.Helper()
	svc, err := sc.kube.Client().CoreV1().Services(sc.namespace).Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return svc.Annotations
}

// events returns what kubectl get events -o json prints.
func (sc *scene) events(t *testing.T) string {
	t.Helper()
	list, err := sc.kube.Client().CoreV1().Events(sc.namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	list.Kind, list.APIVersion = "List", "v1"
	for i := range list.Items {
		list.Items[i].Kind, list.Items[i].APIVersion = "Event", "v1"
	}
	data, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// measures fails unless metrics tell of exporter, runs, cloud and stream. The state of
// the stream is read beside all else, so that it may come a moment later.
func measures(t *testing.T, address string) {
	t.Helper()
	missing := []string{
		`lbremedy_events_ended_total{cluster="c-cli",end="published"}`, `lbremedy_exporter_ready{cluster="c-cli"} 1`,
		`lbremedy_runs_total{class="vswitch-ip-exhausted",cluster="c-cli",outcome="planned"}`,
		`lbremedy_run_phase_seconds_count{class="vswitch-ip-exhausted",cluster="c-cli",phase="diagnose"}`,
		`result="ok"`, `lbremedy_state_known{cluster="c-cli"} 1`, `lbremedy_class_budget_left{class="vswitch-ip-exhausted",cluster="c-cli"} 5`,
		`lbremedy_paused_timestamp_seconds{cluster="c-cli"} 0`, `lbremedy_stream_limit_bytes{cluster="c-cli",stream="CASES"}`,
	}
	end := time.After(20 * time.Second)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		res, err := http.Get(address)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || res.StatusCode != http.StatusOK {
			t.Fatalf("GET %s: %d, %v: %s", address, res.StatusCode, err, text)
		}
		missing = slices.DeleteFunc(missing, func(s string) bool { return strings.Contains(string(text), s) })
		if len(missing) == 0 {
			return
		}
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("the metrics lack %q:\n%s", missing, text)
		}
	}
}

// An operator watches a cluster, looks at what fails, plans, fixes by hand, replays and takes it back.
func TestHeal(t *testing.T) {
	t.Parallel()
	sc := newScene(t)
	web := sc.namespace + "/web"

	// up observes.
	u := sc.up(t, "--listen", "127.0.0.1:0")
	errs := u.errs
	planned := func(r event.Record) bool { return r.Result == event.Planned }
	id := u.until(t, planned).Case
	if said := errs.String(); !strings.Contains(said, "Mode: observe") || !strings.Contains(said, "Watching cluster c-cli") {
		t.Errorf("up said %q", said)
	}
	_, after, _ := strings.Cut(errs.String(), "Health: ")
	address, _, _ := strings.Cut(after, "\n")
	if res, err := http.Get(address); err != nil || res.StatusCode != http.StatusOK {
		t.Errorf("GET %s: %v, %v", address, res, err)
	}
	measures(t, strings.TrimSuffix(address, "/readyz")+"/metrics")

	run := func(code int, out, errs string, args ...string) said {
		t.Helper()
		return sc.wants(t, code, out, errs, args...)
	}
	run(command.CodeFailed, "", "lbremedy up already runs on the state directory", "up")
	run(0, id, "", "ls", "--open", "--namespace", sc.namespace)
	// The controller fails again and again: the case may be looked at anew just now.
	shown := sc.run(t.Context(), "show", web)
	for ; !strings.Contains(shown.out, "before: vswitch-id vsw-a"); shown = sc.run(t.Context(), "show", web) {
		u.until(t, planned)
	}
	if shown.code != 0 {
		t.Errorf("show ends with %d: %s", shown.code, shown.err)
	}
	run(command.CodeWrong, "", "is of type ClusterIP", "plan", sc.namespace+"/inner")
	run(command.CodeWrong, "", "there is no Service", "plan", sc.namespace+"/nope")
	run(command.CodeWrong, "", `the account has no ACK cluster "c-other"`, "plan", web, "--cluster", "c-other")
	away := write(t, "kubeconfig", `{kind: Config, clusters: [{name: a, cluster: {server: "https://127.0.0.1:1"}}], contexts: [{name: a, context: {cluster: a}}], current-context: a}`)
	run(command.CodeFailed, "", "the API server can't answer", "plan", web, "--kubeconfig", away)
	run(0, "vswitch-id=vsw-b", "", "plan", web)
	run(0, "Nothing was written", "", "run", web)
	run(codeOpen, "planned", "", "run", web, "--apply")
	if got := sc.annotations(t)[annotation+"vswitch-id"]; got != "vsw-a" {
		t.Fatalf("something wrote: the Service is in %s", got)
	}

	// The policy names who is told: the Service has an Event on the plan, and a webhook hears of the fix.
	told := make(chan string, 100)
	desk := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		told <- string(body)
	}))
	defer desk.Close()
	watch, err := sc.kube.Client().CoreV1().Events(sc.namespace).Watch(t.Context(), metav1.ListOptions{FieldSelector: "reason=LBRemedyPlanned"})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	run(0, "In force: ", "", "policy", "apply", write(t, "tell.yaml", fmt.Sprintf(`tell:
- {name: events, kind: event}
- {name: desk, kind: webhook, url: %q, secretFrom: {file: %q}}
`, desk.URL, write(t, "key", "MDEyMzQ1Njc4OWFiY2RlZg=="))))
	select {
	case e := <-watch.ResultChan():
		if e, ok := e.Object.(*corev1.Event); !ok || e.InvolvedObject.Name != "web" || !strings.Contains(e.Message, "Plan ") {
			t.Errorf("got Event %+v", e)
		}
	case <-time.After(2 * time.Minute):
		t.Fatalf("no Event tells of the plan: %s", errs)
	}
	run(0, "Tickets", "", "show", web)

	fix := write(t, "fix.yaml", "mode: fix\n")
	run(0, web+"  fixed", "", "run", web, "--policy", fix, "--apply")
	if got := sc.annotations(t)[annotation+"vswitch-id"]; got != "vsw-b" {
		t.Errorf("after the fix the Service is in %s", got)
	}
	for heard := false; !heard; {
		select {
		case body := <-told: // of other failures in the cluster, too
			heard = strings.Contains(body, `"io.lbremedy.ticket.opened.v1"`) && strings.Contains(body, "fixed by lbremedy")
		case <-time.After(2 * time.Minute):
			t.Fatalf("nobody was told of the fix: %s", errs)
		}
	}
	replayed := run(0, "fixed", "Nothing was written", "replay", "--service", web)
	if !strings.Contains(replayed.out, "gone") {
		t.Errorf("replay printed %q", replayed.out)
	}
	run(0, `"result": "gone"`, "", "replay", "--service", web, "--apply", "-o", "json")
	run(0, "fixed", "", "show", id, "--history")

	kept := sc.call
	kept.env = maps.Clone(sc.env)
	kept.env["LBREMEDY_STATE_DIR"], kept.in = t.TempDir(), sc.events(t)
	if got := kept.run(t.Context(), "replay", "-f", "-"); got.code != 0 || !strings.Contains(got.out, "gone") || !strings.Contains(got.out, "none") {
		t.Errorf("replay of kubectl's output without NATS: %+v", got)
	}

	stranger := sc.with(keyID, "nobody-knows-it")
	if got := stranger.run(t.Context(), "plan", web); got.code != command.CodeWrong || !strings.Contains(got.err, "Alibaba Cloud refuses the access key") {
		t.Errorf("with a key that nobody knows: %+v", got)
	}

	run(0, "vswitch-id=vsw-a", "Nothing was written", "undo", id)
	run(0, "undone", "", "undo", id, "--apply")
	if got := sc.annotations(t)[annotation+"vswitch-id"]; got != "vsw-a" {
		t.Errorf("after the undo the Service is in %s", got)
	}
	run(command.CodeWrong, "", "was taken back at", "undo", id)

	u.end(t)
	run(command.CodeFailed, "", `"lbremedy up" does not run`, "ls")
}

// wants runs a command and wants this code, and these texts in what it prints.
func (sc *scene) wants(t *testing.T, code int, out, errs string, args ...string) said {
	t.Helper()
	got := sc.run(t.Context(), args...)
	if got.code != code || !strings.Contains(got.out, out) || !strings.Contains(got.err, errs) {
		t.Errorf("%v: code %d, %q, %q; want %d with %q and %q", args, got.code, got.out, got.err, code, out, errs)
	}
	return got
}

// An upRun is a call of up that goes on.
type upRun struct {
	records chan event.Record // about the Service of the scene
	errs    *shell.Log
	cancel  context.CancelFunc
	ended   chan int
}

// up starts "lbremedy up".
func (sc *scene) up(t *testing.T, args ...string) *upRun {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	out, in := io.Pipe()
	u := &upRun{records: make(chan event.Record, 1000), errs: &shell.Log{}, cancel: cancel, ended: make(chan int, 1)}
	t.Cleanup(cancel)
	go func() {
		p := &program{in: strings.NewReader(""), out: in, err: u.errs, now: time.Now, getenv: func(name string) string { return sc.env[name] }, terminal: func(any) int { return 0 }, keys: sc.keys()}
		code := p.run(ctx, append([]string{"up", "-o", "json"}, args...))
		in.CloseWithError(fmt.Errorf("up ended with code %d: %s", code, u.errs))
		u.ended <- code
	}()
	go func() {
		defer close(u.records)
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			var r event.Record
			if json.Unmarshal(lines.Bytes(), &r) == nil && r.Service.String() == sc.namespace+"/web" {
				u.records <- r
			}
		}
	}()
	return u
}

// until returns the next record of the Service that is as wanted.
func (u *upRun) until(t *testing.T, wanted func(event.Record) bool) event.Record {
	t.Helper()
	late := time.After(2 * time.Minute)
	var last event.Record
	for {
		select {
		case r, ok := <-u.records:
			if !ok {
				t.Fatalf("up ended before that: %s", u.errs)
			}
			if last = r; wanted(r) {
				return r
			}
		case <-late:
			t.Fatalf("it does not come; the last record is %+v, and up said %s", last, u.errs)
		}
	}
}

// end ends up, and wants it to end well.
func (u *upRun) end(t *testing.T) {
	t.Helper()
	u.cancel()
	select {
	case code := <-u.ended:
		if code != 0 {
			t.Errorf("up ended with code %d: %s", code, u.errs)
		}
	case <-time.After(2 * time.Minute):
		t.Error("up does not end")
	}
}
