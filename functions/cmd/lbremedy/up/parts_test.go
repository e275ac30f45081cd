package up_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/policy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/shared/stream/embedded"
	"github.com/lbremedy/lbremedy/test/nats"
	"github.com/lbremedy/lbremedy/test/operator"
)

func TestParts(t *testing.T) {
	nats := []string{"--nats", "nats://127.0.0.1:1"}
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"unknown part":          {[]string{"--parts", "exporter,engine"}, `--parts: the part "engine" is unknown: choose from exporter,worker,notifier`},
		"no part":               {[]string{"--parts", ""}, `--parts: the part "" is unknown: choose from`},
		"empty part":            {[]string{"--parts", "worker,,notifier"}, `--parts: the part "" is unknown: choose from`},
		"notifier without NATS": {[]string{"--parts", "notifier"}, "name the NATS that they share with --nats or LBREMEDY_NATS"},
		"worker without NATS":   {[]string{"--parts", "worker,notifier"}, "name the NATS that they share"},
		"exporter without NATS": {[]string{"--parts", "exporter, notifier"}, "name the NATS that they share"},
		"exporter's policy":     {append(nats, "--parts", "exporter", "--policy", "p.yaml"), "--policy: an exporter alone does not apply a policy"},
		"notifier's doctor":     {append(nats, "--parts", "notifier", "--doctor", "1h"), "--doctor: only the worker runs the doctor"},
		"no runs":               {append(nats, "--runs", "0"), "--runs: 0 is less than one"},
		"worker's posts":        {append(nats, "--parts", "worker", "--from-http", ":0"), "--from-http: only the exporter reads Events"},
		"worker's probes":       {append(nats, "--parts", "worker", "--probe", "10m"), "--probe: only the notifier probes"},
		"probes too often":      {append(nats, "--probe", "1m"), "--probe: 1m is less than 3m"},
		"probe of no class": {append(nats, "--probe", "10m", "--probe-classes", "quotas"),
			`--probe-classes: unknown class "quotas": the nearest are quota, `},
		"probes in no place":    {append(nats, "--probe", "10m", "--probe-namespace", "A/b"), "--probe-namespace: \"A/b\" is not a valid namespace name"},
		"notifier's kubeconfig": {append(nats, "--parts", "notifier", "--kubeconfig", "nowhere"), "there is no kubeconfig nowhere"},
		"worker's kubeconfig":   {append(nats, "--parts", "worker", "--kubeconfig", "nowhere"), "there is no kubeconfig nowhere"},
		"exporter's kubeconfig": {append(nats, "--parts", "exporter", "--kubeconfig", "nowhere"), "there is no kubeconfig nowhere"},
	} {
		t.Run(name, func(t *testing.T) {
			got := operator.Call{Env: operator.Home(t)}.Run(t.Context(), append([]string{"up", "--cluster", "c1", "--region", "cn-hangzhou"}, tt.args...)...)
			if got.Code != command.CodeWrong || !strings.Contains(got.Err, tt.want) {
				t.Errorf("code %d, said %q; want code %d and %q", got.Code, got.Err, command.CodeWrong, tt.want)
			}
		})
	}
}

// Two notifiers send once, without the cluster or the cloud, and measure the state. Only the engine reports the policy in force.
func TestNotifiers(t *testing.T) {
	server := nats.Start(t, embedded.Options{})
	admin := nats.Connect(t, stream.Config{URL: server.URL()})
	if _, err := admin.Setup(t.Context(), new(cli.Program).Classes(), stream.Settings{Clusters: []string{"c1"}}); err != nil {
		t.Fatal(err)
	}
	came := make(chan string, 1000)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		came <- string(body)
	}))
	defer receiver.Close()
	told := fmt.Sprintf("tell: [{name: ops, kind: webhook, url: %q, secretFrom: {file: %q}}]\n", receiver.URL,
		operator.Write(t, "key", "MDEyMzQ1Njc4OWFiY2RlZg=="))
	file := operator.Write(t, "policy.yaml", "mode: observe\n"+told)
	sc := nowhere(t, server.URL())
	var notifiers []*operator.UpRun
	for range 2 {
		notifiers = append(notifiers, sc.Up(t, "--parts", "notifier", "--policy", file, "--secrets", os.TempDir(), "--listen", "127.0.0.1:0"))
	}
	const causes = 6
	at := time.Now()
	for i := range 3 * causes {
		r := event.Record{
			Origin: event.Origin{
				Case: fmt.Sprintf("4444%04d-20260102T150405", i), Cluster: "c1", Class: "vswitch-ip-exhausted",
				Service: event.Service{Namespace: "shop", Name: fmt.Sprint("web", i), UID: operator.UID(i)}, Event: "e", Message: "full",
				EventTime: at,
			},
			Run:     event.Run{Phase: event.Settled, Result: event.Asked, At: at, First: at, Who: "fc"},
			Plan:    event.Plan{Finding: say.Literal("It is full."), Cause: fmt.Sprint("vsw-", i%causes)},
			Outcome: event.Outcome{Ask: say.Literal("Make room.")},
		}
		if err := operator.Seed(t.Context(), admin, r); err != nil {
			t.Fatal(err)
		}
	}
	operator.Bury(t, admin, "tag-missing", operator.UID(99), "7", "it is a test")
	opened := map[string]int{}
	hear := func(body string) {
		var e struct {
			Type string
			Data struct{ Cause string }
		}
		if err := json.Unmarshal([]byte(body), &e); err != nil {
			t.Fatalf("read %s: %v", body, err)
		}
		if e.Type == "io.lbremedy.ticket.opened.v1" {
			opened[e.Data.Cause]++
		}
	}
	for late := time.After(time.Minute); len(opened) < causes; {
		select {
		case body := <-came:
			hear(body)
		case <-late:
			t.Fatalf("told of %v only: %s %s", opened, notifiers[0].Errs, notifiers[1].Errs)
		}
	}

	for _, u := range notifiers {
		address := u.Address(t)
		if res, err := http.Get(address + "/healthz"); err != nil || res.StatusCode != http.StatusOK {
			t.Errorf("healthz: %v, %v", res, err)
		}
		if res, err := http.Get(address + "/readyz"); err != nil || res.StatusCode != http.StatusOK {
			t.Errorf("readyz: %v, %v", res, err)
		}
		text := metricsOf(t, address+"/metrics", `lbremedy_state_known{cluster="c1"} 1`, `lbremedy_stream_messages{cluster="c1",stream="DEAD"} 1`,
			`lbremedy_notifications_total{`)
		for _, other := range []string{"lbremedy_exporter_ready", "lbremedy_runs_total"} {
			if strings.Contains(text, other) {
				t.Errorf("a notifier has the metric %s, which is another part's", other)
			}
		}
	}

	for _, u := range notifiers {
		u.End(t)
		if told, err := policy.Get(t.Context(), admin, "c1"); err != nil || told.Version != "" {
			t.Errorf("told is %+v, %v", told, err)
		}
		if said := u.Errs.String(); !strings.Contains(said, "Opening tickets for failures of cluster c1") || strings.Contains(said, "Watching") {
			t.Errorf("up said %q", said)
		}
	}
	for len(came) > 0 {
		hear(<-came)
	}
	want := map[string]int{}
	for i := range causes {
		want[fmt.Sprint("vsw-", i)] = 1
	}
	if diff := cmp.Diff(want, opened); diff != "" {
		t.Errorf("opened (-want +got):\n%s", diff)
	}
}

// A notifier with a sink at Alibaba Cloud counts its calls, and continues without an answer.
func TestNotifierAsksTheCloud(t *testing.T) {
	server := nats.Start(t, embedded.Options{})
	admin := nats.Connect(t, stream.Config{URL: server.URL()})
	if _, err := admin.Setup(t.Context(), new(cli.Program).Classes(), stream.Settings{Clusters: []string{"c1"}}); err != nil {
		t.Fatal(err)
	}
	sc := nowhere(t, server.URL())
	sc.Env["ALIBABA_CLOUD_ACCESS_KEY_ID"], sc.Env["ALIBABA_CLOUD_ACCESS_KEY_SECRET"] = "LTAI-key", "secret"
	u := sc.Up(t, "--parts", "notifier", "--listen", "127.0.0.1:0",
		"--policy", operator.Write(t, "policy.yaml", "mode: observe\ntell: [{name: support, kind: alibaba, category: \"53811\"}]\n"))
	at := time.Now()
	err := operator.Seed(t.Context(), admin, event.Record{
		Origin: event.Origin{
			Case: "44440001-20260102T150405", Cluster: "c1", Class: "busy", Service: event.Service{Namespace: "shop", Name: "web", UID: operator.UID(1)},
			Event: "e", Message: "busy", EventTime: at,
		},
		Run:     event.Run{Phase: event.Settled, Result: event.Asked, At: at, First: at, Who: "fc"},
		Plan:    event.Plan{Finding: say.Literal("It is busy."), Cause: "it"},
		Outcome: event.Outcome{Ask: say.Literal("Wait.")},
	})
	if err != nil {
		t.Fatal(err)
	}
	metricsOf(t, u.Address(t)+"/metrics", `lbremedy_cloud_calls_total{action="CreateTicket",cluster="c1",product="workorder",result="unanswered"}`)
	u.End(t)
}

func nowhere(t *testing.T, natsURL string) *operator.Testbed {
	t.Helper()
	sc := &operator.Testbed{Namespace: "shop"}
	sc.Env = map[string]string{
		"HOME": t.TempDir(), "LBREMEDY_CLUSTER": "c1", "LBREMEDY_REGION": "cn-hangzhou",
		"LBREMEDY_KUBECONFIG": operator.Write(t, "kubeconfig",
			`{kind: Config, clusters: [{name: a, cluster: {server: "https://127.0.0.1:1"}}], contexts: [{name: a, context: {cluster: a}}], current-context: a}`),
		"LBREMEDY_NATS": natsURL, "LBREMEDY_CLOUD_ENDPOINT": "127.0.0.1:1", "LBREMEDY_CLOUD_SCHEME": "HTTP",
	}
	return sc
}

func metricsOf(t *testing.T, address string, wants ...string) string {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for late := time.After(time.Minute); ; {
		res, err := http.Get(address)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		missing := ""
		for _, want := range wants {
			if !strings.Contains(string(text), want) {
				missing = want
			}
		}
		if missing == "" {
			return string(text)
		}
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("the metrics lack %q:\n%s", missing, text)
		}
	}
}
