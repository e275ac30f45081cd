package root_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/test/operator"
)

func events(sc *operator.Testbed, t *testing.T) string {
	t.Helper()
	list, err := sc.Kube.Client().CoreV1().Events(sc.Namespace).List(t.Context(), metav1.ListOptions{})
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

// measures fails unless there are metrics of exporter, runs, cloud and stream. The stream's state may come a moment later.
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

func TestPlanOthers(t *testing.T) {
	t.Parallel()
	sc := operator.NewTestbed(t)
	name := "n-" + sc.Namespace
	nodes, events := sc.Kube.Client().CoreV1().Nodes(), sc.Kube.Client().CoreV1().Events(metav1.NamespaceDefault)
	if _, err := nodes.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.NodeSpec{ProviderID: "cn-hangzhou.i-cli", PodCIDR: "172.20.7.0/24", PodCIDRs: []string{"172.20.7.0/24"}}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = nodes.Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{}) }()
	sc.Wants(t, 0, "", "node "+name+": no failure is known", "plan", "node/"+name)
	says := func(component, uid, message string) {
		t.Helper()
		now := metav1.Now()
		if _, err := events.Create(t.Context(), &corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{GenerateName: name + ".", Namespace: metav1.NamespaceDefault},
			InvolvedObject: corev1.ObjectReference{Kind: "Node", Name: name, UID: types.UID(uid)}, Reason: "CreateRouteFailed", Message: message,
			Type: corev1.EventTypeWarning, Source: corev1.EventSource{Component: component}, FirstTimestamp: now, LastTimestamp: now, Count: 1,
		}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	const message = "Error creating route entry in vtb-1: Message: Specified CIDR block is already exists."
	says("kubelet", name, message)
	says("route-controller", "11111111-1111-4111-8111-111111111111", message)
	sc.Wants(t, 0, "", "node "+name+": no failure is known", "plan", "node/"+name)
	says("route-controller", name, message)
	sc.Wants(t, cli.CodeOpen, "No route leads to the Pods of the node "+name, "", "plan", "node/"+name)
	sc.Wants(t, 0, "", "cluster c-cli: no failure is known", "plan", "cluster")
	sc.Wants(t, command.CodeWrong, "", "the cluster has no node nope", "run", "node/nope")
	sc.Wants(t, command.CodeWrong, "", `"node/No" is not a node`, "plan", "node/No")
	for _, want := range []string{"node/" + name, "cluster", sc.Namespace + "/web"} {
		sc.Wants(t, 0, want, "", "__complete", "plan", "")
	}
}

func TestHeal(t *testing.T) {
	t.Parallel()
	sc := operator.NewTestbed(t)
	web := sc.Namespace + "/web"

	u := sc.Up(t, "--secrets", os.TempDir(), "--listen", "127.0.0.1:0")
	errs := u.Errs
	planned := func(r event.Record) bool { return r.Result == event.Planned }
	id := u.Until(t, planned).Case
	if said := errs.String(); !strings.Contains(said, "Mode: observe") || !strings.Contains(said, "Watching cluster c-cli") {
		t.Errorf("up said %q", said)
	}
	_, after, _ := strings.Cut(errs.String(), "Health: ")
	address, _, _ := strings.Cut(after, "\n")
	if res, err := http.Get(address); err != nil || res.StatusCode != http.StatusOK {
		t.Errorf("GET %s: %v, %v", address, res, err)
	}
	measures(t, strings.TrimSuffix(address, "/readyz")+"/metrics")

	run := func(code int, out, errs string, args ...string) operator.Said {
		t.Helper()
		return sc.Wants(t, code, out, errs, args...)
	}
	run(command.CodeFailed, "", "lbremedy up already runs on the state directory", "up")
	run(0, id[:8], "", "ls", "--open", "--namespace", sc.Namespace)
	run(0, id, "", "ls", "--open", "--namespace", sc.Namespace, "-o", "wide")
	if got := sc.Run(t.Context(), "status"); got.Code != cli.CodeOpen || !strings.Contains(got.Out, "Exporter    alive, last reported ") ||
		!strings.Contains(got.Out, " planned and only observed: lbremedy ls --result planned\n") || strings.Contains(got.Out, "unknown") {
		t.Errorf("status: %+v", got)
	}
	// The case may be under way just now, and a run that ends like the one before leaves no record to wait for.
	soon := time.Now().Add(time.Minute)
	shown := sc.Run(t.Context(), "show", web)
	for !strings.Contains(shown.Out, "before: vswitch-id vsw-a") && time.Now().Before(soon) {
		shown = sc.Run(t.Context(), "show", web)
	}
	if shown.Code != 0 || !strings.Contains(shown.Out, "before: vswitch-id vsw-a") {
		t.Errorf("show ends with %d: %s", shown.Code, shown.Err)
	}
	run(command.CodeWrong, "", "is of type ClusterIP", "plan", sc.Namespace+"/inner")
	run(command.CodeWrong, "", "there is no Service", "plan", sc.Namespace+"/nope")
	run(command.CodeWrong, "", `the account has no ACK cluster "c-other"`, "plan", web, "--cluster", "c-other")
	away := operator.Write(t, "kubeconfig", `{kind: Config, clusters: [{name: a, cluster: {server: "https://127.0.0.1:1"}}], contexts: [{name: a, context: `+
		`{cluster: a}}], current-context: a}`)
	run(command.CodeFailed, "", "the API server can't answer", "plan", web, "--kubeconfig", away)
	calm := func(code int, out string, args ...string) { // once the engine does not look at the case
		t.Helper()
		got := sc.Run(t.Context(), args...)
		for strings.Contains(got.Out, "is under way") && time.Now().Before(soon) {
			got = sc.Run(t.Context(), args...)
		}
		if got.Code != code || !strings.Contains(got.Out, out) {
			t.Errorf("%v: code %d, want %d and %q in %s%s", args, got.Code, code, out, got.Out, got.Err)
		}
	}
	calm(0, "vswitch-id=vsw-b", "plan", web)
	calm(0, "Nothing was written", "run", web)
	calm(cli.CodeOpen, "planned", "run", web, "--apply")
	if got := sc.Annotations(t)[operator.Annotation+"vswitch-id"]; got != "vsw-a" {
		t.Fatalf("something wrote: the Service is in %s", got)
	}

	told := make(chan string, 100)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		told <- string(body)
	}))
	defer receiver.Close()
	watch, err := sc.Kube.Client().CoreV1().Events(sc.Namespace).Watch(t.Context(), metav1.ListOptions{FieldSelector: "reason=LBRemedyPlanned"})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	sc.Policy(t, fmt.Sprintf(`tell:
- {name: events, kind: event}
- {name: ops, kind: webhook, url: %q, secretFrom: {file: %q}}
`, receiver.URL, operator.Write(t, "key", "MDEyMzQ1Njc4OWFiY2RlZg==")))
	select {
	case e := <-watch.ResultChan():
		if e, ok := e.Object.(*corev1.Event); !ok || e.InvolvedObject.Name != "web" || !strings.Contains(e.Message, "Plan ") {
			t.Errorf("got Event %+v", e)
		}
	case <-time.After(2 * time.Minute):
		t.Fatalf("no Event tells of the plan: %s", errs)
	}
	run(0, "Tickets", "", "show", web)

	fix := operator.Write(t, "fix.yaml", "mode: fix\n")
	run(0, web+"  fixed", "", "run", web, "--policy", fix, "--apply")
	if got := sc.Annotations(t)[operator.Annotation+"vswitch-id"]; got != "vsw-b" {
		t.Errorf("after the fix the Service is in %s", got)
	}
	for heard := false; !heard; {
		select {
		case body := <-told: // also of other failures in the cluster
			heard = strings.Contains(body, `"io.lbremedy.ticket.opened.v1"`) && strings.Contains(body, "fixed by lbremedy")
		case <-time.After(2 * time.Minute):
			t.Fatalf("nobody was told of the fix: %s", errs)
		}
	}
	replayed := run(0, "fixed", "Nothing was written", "replay", "--service", web)
	if !strings.Contains(replayed.Out, "recovered") {
		t.Errorf("replay printed %q", replayed.Out)
	}
	run(0, `"result": "recovered"`, "", "replay", "--service", web, "--apply", "-o", "json")
	run(0, "fixed", "", "show", id, "--history")

	kept := sc.Call
	kept.Env = maps.Clone(sc.Env)
	kept.Env["LBREMEDY_STATE_DIR"] = t.TempDir()
	if got := kept.Run(t.Context(), "plan", web); got.Code != 0 || !strings.Contains(got.Out, "recovered") {
		t.Errorf("a plan without NATS: %+v", got)
	}
	kept.In = events(sc, t)
	if got := kept.Run(t.Context(), "classify", "-"); got.Code != 0 || !strings.Contains(got.Out, "vswitch-ip-exhausted") {
		t.Errorf("the class of kubectl's output: %+v", got)
	}
	if err := os.WriteFile(filepath.Join(kept.Env["LBREMEDY_STATE_DIR"], "nats.json"), []byte(`{"url":"nats://127.0.0.1:1","token":"t"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := kept.Run(t.Context(), "plan", web); got.Code != 0 || !strings.Contains(got.Err, "observe mode is assumed") {
		t.Errorf("a plan after the end of up: %+v", got)
	}

	stranger := sc.With(operator.KeyID, "nobody-knows-it")
	if got := stranger.Run(t.Context(), "plan", web); got.Code != command.CodeWrong || !strings.Contains(got.Err, "Alibaba Cloud refuses the access key") {
		t.Errorf("with a key that nobody knows: %+v", got)
	}

	run(0, "vswitch-id=vsw-a", "Nothing was written", "undo", id)
	run(0, "vswitch-id=vsw-a", "Nothing was written", "undo", web)
	typing := *sc
	typing.Types, typing.In = true, "\n"
	typing.Wants(t, command.CodeWrong, "", "vswitch-id=vsw-a", "undo", web, "--apply")
	if got := sc.Annotations(t)[operator.Annotation+"vswitch-id"]; got != "vsw-b" {
		t.Errorf("a person who did not agree has undone it: the Service is in %s", got)
	}
	run(0, "Cluster c-cli: Paused by ann", "", "pause", "--by", "ann")
	typing.In = ""
	typing.Wants(t, 0, "undone", "This undo writes although writes are paused", "undo", web, "--apply", "--yes", "--by", "ann")
	run(0, "Ended. Cluster c-cli: Paused by ann", "", "resume")
	run(0, "called by ann (", "", "show", id)
	run(0, `"identity": "`, "", "show", id, "-o", "json")
	run(0, "In force: observe", "", "policy", "show")
	run(0, "patch services", "", "ls", "--writes", "--service", web)
	if got := sc.Annotations(t)[operator.Annotation+"vswitch-id"]; got != "vsw-a" {
		t.Errorf("after the undo the Service is in %s", got)
	}
	run(command.CodeWrong, "", "was already undone at", "undo", id)

	u.End(t)
	run(command.CodeFailed, "", `"lbremedy up" does not run`, "ls")
}
