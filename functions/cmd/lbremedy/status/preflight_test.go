package status_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats-server/v2/server"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/root"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/status"
	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/observe"
	"github.com/lbremedy/lbremedy/shared/policy"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/test/cluster"
	"github.com/lbremedy/lbremedy/test/identity"
	"github.com/lbremedy/lbremedy/test/operator"
	"github.com/lbremedy/lbremedy/test/sim"
)

// All conditions for fix mode hold, then one after the other fails. Proxies to the API server, the cloud and NATS prove that nothing is written.
func TestPreflight(t *testing.T) {
	t.Parallel()
	sc := operator.NewTestbed(t)
	sc.Cloud.Edit(func(s *sim.State) {
		s.Roles["lbremedy"] = &sim.Role{Name: "lbremedy", Policies: []string{"lbremedy-all"}}
	})
	log := &writes{}
	sc.Env["LBREMEDY_KUBECONFIG"] = log.through(t, sc.Kube.Config)
	s := sc.Embed(t)
	allow(sc, "*")
	sc.Env[operator.KeyID], sc.Env[operator.KeySecret] = member(sc)
	fix := operator.Write(t, "fix.yaml", "mode: fix\n")
	preflight := func(code int, args ...string) map[string]status.Check {
		t.Helper()
		got := sc.Run(t.Context(), append([]string{"preflight", "-o", "json"}, args...)...)
		var list []status.Check
		if err := json.Unmarshal([]byte(got.Out), &list); err != nil || got.Code != code {
			t.Fatalf("%v: %v, code %d, want %d: %s%s", args, err, got.Code, code, got.Out, got.Err)
		}
		all := map[string]status.Check{}
		for _, c := range list {
			if c.Result != status.Well && c.Do == "" {
				t.Errorf("%s does not say what to do: %+v", c.Check, c)
			}
			all[c.Check] = c
		}
		return all
	}
	only := func(all map[string]status.Check, name string, r status.Verdict, says string) {
		t.Helper()
		for _, c := range all {
			if c.Check != name && c.Result != status.Well {
				t.Errorf("beside %s: %+v", name, c)
			}
		}
		if c := all[name]; c.Result != r || !strings.Contains(c.Text, says) {
			t.Errorf("%s: %+v, want it %s with %q", name, c, r, says)
		}
	}

	sc.Cloud.ResetCalls()
	only(preflight(0), "streams", status.Well, "are not there yet, and there is room")
	if all := preflight(0); all["admission"].Check != "" {
		t.Errorf("without --fix-mode it tries a write: %+v", all["admission"])
	}
	if got := holds(t, s); len(got) > 0 {
		t.Errorf("it made the streams %v", got)
	}
	if got := sc.Run(t.Context(), "up", "--setup"); got.Code != 0 {
		t.Fatalf("setup: %+v", got)
	}
	only(preflight(0, "--fix-mode", "--policy", fix), "admission", status.Well, "The API server accepts an annotation of ")

	got := sc.Run(t.Context(), "preflight", "--fix-mode", "--policy", fix)
	fits(t, got.Out)
	if got.Code != 0 || !strings.HasPrefix(got.Out, "ok       kubernetes   The API server answers.\n") ||
		!strings.HasSuffix(got.Out, "All checks are ok. Nothing was written.\n") {
		t.Errorf("it says %+v", got)
	}

	only(preflight(command.CodeFailed, "--fix-mode"), "policy", status.Problem, "lets nothing be fixed")
	only(preflight(command.CodeFailed, "--policy", operator.Write(t, "bad.yaml", "mode: fixx\n")), "policy", status.Problem, `"fixx" is not a mode`)
	maps, named := sc.Kube.Client().CoreV1().ConfigMaps(sc.Namespace), []string{"--policy", "configmap:" + sc.Namespace + "/p"}
	only(preflight(command.CodeFailed, named...), "policy", status.Problem, "ConfigMap "+sc.Namespace+"/p: get ConfigMap "+sc.Namespace+"/p: not found")
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Data: map[string]string{"policy.yaml": "mode: fixx\n"}}
	if _, err := maps.Create(t.Context(), m, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	only(preflight(command.CodeFailed, named...), "policy", status.Problem, "line 1: mode: \"fixx\" is not a mode")
	m.Data["policy.yaml"] = "mode: fix\n"
	if _, err := maps.Update(t.Context(), m, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	only(preflight(0, append(named, "--fix-mode")...), "policy", status.Well, "fix: plans up to low risk are applied")
	none := sc.As(t, "reads-none", nil)
	if got := none.Run(t.Context(), append([]string{"preflight"}, named...)...); got.Code != command.CodeFailed ||
		!strings.Contains(strings.Join(strings.Fields(got.Out), " "), "get ConfigMap "+sc.Namespace+"/p: not allowed") {
		t.Errorf("without the right to read it: %+v", got)
	}
	unused := policy.InForce{Wrong: "ConfigMap a/b: not found", Source: "ConfigMap a/b", Since: time.Now()}
	if err := unused.Put(t.Context(), s, "c-cli"); err != nil {
		t.Fatal(err)
	}
	only(preflight(command.CodeFailed), "policy", status.Problem, "the policy cannot be used: ConfigMap a/b: not found")
	operator.PutInForce(t, s, "c-cli", "mode: observe\n")
	before := holds(t, s)
	allow(sc, "Describe*", "List*")
	only(preflight(command.CodeFailed), "ram", status.Problem, "The RAM role lbremedy lacks ")
	allow(sc, "*")
	reset := sc.Cloud.Fault(sim.Fault{Action: "ListProductQuotas", Code: "Forbidden.RAM", Status: http.StatusForbidden})
	only(preflight(command.CodeFailed), "quotas", status.Unknown, "How much room the limits leave")
	reset()
	slow := sc.Program(io.Discard, io.Discard)
	var out strings.Builder
	slow.Out, slow.Now = &out, func() time.Time { return time.Now().Add(-2 * time.Minute) }
	if code := root.Run(t.Context(), slow, []string{"preflight"}); code != command.CodeFailed ||
		!strings.Contains(strings.Join(strings.Fields(out.String()), " "), "The clock here is 2m behind that of") {
		t.Errorf("with a clock that is late: code %d: %s", code, out.String())
	}
	admin := sc.Cloud.Admin()
	key, secret := sc.Env[operator.KeyID], sc.Env[operator.KeySecret]
	sc.Env[operator.KeyID], sc.Env[operator.KeySecret] = admin.AccessKeyID, admin.Secret
	only(preflight(command.CodeFailed), "ram", status.Unknown, "only the policies of a RAM role can be read")
	sc.Env[operator.KeyID], sc.Env[operator.KeySecret] = "LTAI-stranger", "wrong"
	if all := preflight(command.CodeFailed); all["cloud"].Result != status.Problem || !strings.Contains(all["cloud"].Text, "refuses the access key") {
		t.Errorf("with a key that nobody knows: %+v", all["cloud"])
	}
	sc.Env[operator.KeyID], sc.Env[operator.KeySecret] = key, secret
	if all := preflight(command.CodeFailed, "--cloud-endpoint", "127.0.0.1:1"); all["cloud"].Result != status.Problem ||
		!strings.Contains(all["cloud"].Text, "do not answer: ") || all["controller"].Result != status.Unknown {
		t.Errorf("without a way to the cloud: %+v", all)
	}
	only(preflight(command.CodeFailed, "--nats", limited(t, 64<<20)), "streams", status.Problem,
		"has 64 MiB of storage left, and the streams FAILED, CASES, DEAD, ")
	if all := preflight(command.CodeFailed, "--nats", "nats://127.0.0.1:1"); all["nats"].Result != status.Problem {
		t.Errorf("without NATS: %+v", all)
	}
	if all := preflight(command.CodeFailed, "--cluster", "c-other"); !strings.Contains(all["cloud"].Text, `no ACK cluster "c-other"`) {
		t.Errorf("another cluster: %+v", all)
	}
	if got := sc.Run(t.Context(), "preflight", "--region", ""); got.Code != 0 && got.Code != command.CodeWrong {
		t.Errorf("without a region: %+v", got)
	}

	few := sc.Kube.As(t, sc.Namespace+"-few", []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"services"}, Verbs: []string{"get", "list"}},
		{APIGroups: []string{"apps"}, Resources: []string{"daemonsets"}, Verbs: []string{"list"}},
	})
	sc.Env["LBREMEDY_KUBECONFIG"] = log.through(t, few)
	all := preflight(command.CodeFailed, "--fix-mode", "--policy", fix)
	if c := all["rights"]; c.Result != status.Problem || !strings.Contains(c.Text, "rights in Kubernetes are missing: ") ||
		!strings.Contains(c.Do, "lbremedy-up") {
		t.Errorf("with few rights: %+v", c)
	}
	if c := all["admission"]; c.Result != status.Problem || !strings.Contains(c.Text, "refuses a dry run of an annotation") {
		t.Errorf("with few rights: %+v", c)
	}

	if diff := cmp.Diff(before, holds(t, s)); diff != "" {
		t.Errorf("NATS has changed:\n%s", diff)
	}
	for _, call := range sc.Cloud.CallsOf("preflight") {
		if !slices.ContainsFunc([]string{"Describe", "List", "Get", "Query"}, func(begin string) bool { return strings.HasPrefix(call.Action, begin) }) {
			t.Errorf("it called %s", call.Action)
		}
	}
	asked, tried := log.counts(t)
	if asked == 0 || tried == 0 {
		t.Errorf("%d reviews and %d dry runs reached the API server", asked, tried)
	}
	svcs, err := sc.Kube.Client().CoreV1().Services("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if slices.ContainsFunc(svcs.Items, func(svc corev1.Service) bool { return svc.Annotations[ccm.Resync] == "dry-run" }) {
		t.Error("a Service has the annotation that was to be tried")
	}
}

// With one Pod, installed as the page says, all checks pass, even without the doctor's actions in the RAM role.
func TestPreflightOfPod(t *testing.T) {
	t.Parallel()
	sc := operator.NewTestbed(t)
	if err := identity.Admit(t.Context(), sc.Kube); err != nil {
		t.Fatal(err)
	}
	up, err := identity.Of("up")
	if err != nil {
		t.Fatal(err)
	}
	sc.Cloud.Edit(func(s *sim.State) {
		s.Roles["lbremedy"] = &sim.Role{Name: "lbremedy", Policies: []string{"lbremedy-all"}}
		s.Policies["lbremedy-all"] = &sim.Policy{Name: "lbremedy-all", Versions: []sim.PolicyVersion{
			{ID: "v1", Document: string(up.Policy.JSON()), Default: true},
		}}
	})
	sc.Env[operator.KeyID], sc.Env[operator.KeySecret] = member(sc)
	pod := sc.As(t, identity.User("up"), up.Rules)
	got := pod.Run(t.Context(), "preflight", "--fix-mode", "--policy", operator.Write(t, "fix.yaml", "mode: fix\n"))
	says := strings.Join(strings.Fields(got.Out), " ")
	for _, want := range []string{
		"All checks are ok.", "The API server accepts an annotation of ",
		"The RAM role lbremedy allows all ",
		" actions of the classes. The doctor needs 2 more: cs:DescribeResourcesDeleteProtection, ecs:DescribeSecurityGroupAttribute.",
		" rights of the classes in Kubernetes are there. The doctor needs 1 more: get deployments.apps.",
		"To run the doctor, too, bind the ClusterRole lbremedy-doctor as well.",
		"To run the doctor, too, run infra/ram/roles.sh with --class up --doctor.",
	} {
		if !strings.Contains(says, want) {
			t.Errorf("it does not say %q", want)
		}
	}
	if got.Code != 0 || t.Failed() {
		t.Errorf("code %d: %s%s", got.Code, got.Out, got.Err)
	}
}

func member(sc *operator.Testbed) (id, secret string) {
	k := &sim.Caller{Name: "preflight", Role: "lbremedy", Allow: []string{"*"}}
	k.Fill()
	sc.Cloud.Edit(func(s *sim.State) { s.Callers[k.AccessKeyID] = k })
	return k.AccessKeyID, k.Secret
}

func allow(sc *operator.Testbed, patterns ...string) {
	var actions []string
	for _, p := range patterns {
		if p == "*" {
			actions = append(actions, `"*"`)
			continue
		}
		for _, product := range []string{"slb", "nlb", "vpc", "ecs", "cs", "ram", "quotas"} {
			actions = append(actions, fmt.Sprintf("%q", product+":"+p))
		}
	}
	document := fmt.Sprintf(`{"Version":"1","Statement":[{"Effect":"Allow","Action":[%s],"Resource":"*"}]}`, strings.Join(actions, ","))
	sc.Cloud.Edit(func(s *sim.State) {
		s.Policies["lbremedy-all"] = &sim.Policy{Name: "lbremedy-all", Versions: []sim.PolicyVersion{{ID: "v1", Document: document, Default: true}}}
	})
}

// limited returns the address of a NATS whose account may store that many bytes.
func limited(t *testing.T, bytes int64) string {
	t.Helper()
	a := server.NewAccount("small")
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: -1, NoLog: true, NoSigs: true, JetStream: true, StoreDir: t.TempDir(),
		Accounts: []*server.Account{a}, Users: []*server.User{{Username: "u", Password: "p", Account: a}}, NoAuthUser: "u",
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(20 * time.Second) {
		t.Fatal("the server is not ready")
	}
	if a, err = s.LookupAccount("small"); err != nil {
		t.Fatal(err)
	}
	limits := server.JetStreamAccountLimits{MaxMemory: -1, MaxStore: bytes, MaxStreams: -1, MaxConsumers: -1}
	if err := a.EnableJetStream(map[string]server.JetStreamAccountLimits{"": limits}, nil); err != nil {
		t.Fatal(err)
	}
	return s.ClientURL()
}

func holds(t *testing.T, s *stream.Stream) map[string]uint64 {
	t.Helper()
	room, err := s.Storage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]uint64{}
	for _, f := range room.Fills {
		all[f.Stream] = f.Messages
	}
	return all
}

type writes struct {
	mu  sync.Mutex
	all []string
}

func (w *writes) through(t *testing.T, to *rest.Config) string {
	t.Helper()
	target, err := url.Parse(to.Host)
	if err != nil {
		t.Fatal(err)
	}
	carry, err := rest.TransportFor(to)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.Transport = carry
	server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			w.mu.Lock()
			w.all = append(w.all, r.Method+" "+r.URL.Path+"?"+r.URL.RawQuery)
			w.mu.Unlock()
		}
		proxy.ServeHTTP(out, r)
	}))
	t.Cleanup(server.Close)
	return operator.Write(t, "kubeconfig", fmt.Sprintf(
		`{kind: Config, clusters: [{name: a, cluster: {server: %q}}], contexts: [{name: a, context: {cluster: a}}], current-context: a}`, server.URL))
}

// counts returns how many rights were checked and writes dry-run, and fails on any other request that is not a read.
func (w *writes) counts(t *testing.T) (asked, tried int) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, one := range w.all {
		switch {
		case strings.HasPrefix(one, "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews?"):
			asked++
		case strings.HasPrefix(one, "PATCH ") && strings.Contains(one, "dryRun=All"):
			tried++
		default:
			t.Errorf("it wrote: %s", one)
		}
	}
	return asked, tried
}

// helm test fails unless the lbremedy that it asks is ready and knows its state, and people can approve.
func TestRunning(t *testing.T) {
	t.Parallel()
	sc := operator.NewTestbedOn(t, cluster.Alone(t)) // tests beside it serve Approvals in the shared cluster
	var why error
	metrics := ""
	server := httptest.NewServer(observe.Health(func(context.Context) error { return why },
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, metrics) })))
	defer server.Close()
	says := func(code int, says string, args ...string) {
		t.Helper()
		got := sc.Run(t.Context(), append([]string{"preflight", "--running", server.URL}, args...)...)
		if text := strings.Join(strings.Fields(got.Out+got.Err), " "); got.Code != code || !strings.Contains(text, says) {
			t.Errorf("%v: code %d, %s; want %d and %q", args, got.Code, text, code, says)
		}
	}
	well := "lbremedy_exporter_ready{cluster=\"c1\"} 1\nlbremedy_state_known{cluster=\"c1\"} 1\n"
	for _, tt := range []struct {
		why           error
		metrics, says string
	}{
		{errors.New("NATS does not answer"), well, "NATS does not answer"},
		{nil, strings.Replace(well, "ready{cluster=\"c1\"} 1", "ready{cluster=\"c1\"} 0", 1), "lbremedy_exporter_ready"},
		{nil, strings.Replace(well, "known", "unknown", 1), "lbremedy_state_known"},
	} {
		why, metrics = tt.why, tt.metrics
		says(command.CodeFailed, tt.says)
	}
	why, metrics = nil, well
	says(0, "reaches NATS")
	says(command.CodeFailed, "problem approvals The cluster has no approvals.lbremedy.io", "--approvals")
	says(command.CodeWrong, "is not a URL", "--running", "lbremedy-up:8080")
	server.Close()
	says(command.CodeFailed, "connection refused")
}
