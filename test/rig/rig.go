// Package rig runs all of lbremedy for tests on a testbed of real parts: API server, JetStream, exporter, a worker in fix mode,
// ticket sinks, and the operator's program as a separate process. Cloud and controller are simulated. Begin with [New].
//
// Tests advance the clock of worker and sinks. Keys expire by the clock of the NATS server, which cannot be advanced; a test that
// needs the end of a budget's window removes the keys. Parallel tests share one API server, and a proxy limits each to its own
// namespace. A real controller (CCM_BIN) cannot be limited, so each gets an API server of its own.
package rig

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/lbremedy/lbremedy/events/exporter"
	"github.com/lbremedy/lbremedy/functions"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/approval"
	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/connect"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/event/table"
	"github.com/lbremedy/lbremedy/shared/host"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/policy"
	"github.com/lbremedy/lbremedy/shared/policy/policyfile"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/shared/stream/embedded"
	"github.com/lbremedy/lbremedy/shared/ticket"
	"github.com/lbremedy/lbremedy/test/cluster"
	"github.com/lbremedy/lbremedy/test/identity"
	"github.com/lbremedy/lbremedy/test/nats"
	"github.com/lbremedy/lbremedy/test/shell"
	"github.com/lbremedy/lbremedy/test/sim/controller"
	"github.com/lbremedy/lbremedy/test/testbed"
)

var built string

// Tests runs the tests of a package and ends the process.
func Tests(m *testing.M) {
	shell.Tests(m, &built)
}

var program = sync.OnceValues(func() (string, error) {
	return filepath.Join(built, "lbremedy"), shell.Build(built, []string{"./functions/cmd/lbremedy"})
})

const (
	token  = "safety"
	worker = "lbremedy-worker" // the worker's name in the simulated cloud
)

// Prefix is the prefix of the controller's annotations.
const Prefix = ccm.Prefix

// Full is the class of most failures, because its plan is a single write.
const Full = "vswitch-ip-exhausted"

// Careful is a policy that allows only plans that move no traffic and change nothing shared.
const Careful = "mode: fix\nramDelay: 1s\n"

// Bold is a policy that also allows the plans of the class with two steps.
const Bold = `mode: fix
ramDelay: 2s
classes: {ram-permission: {risk: medium}}
budgets: {class: 100, least: 100}
`

// A Rig is a testbed with all of lbremedy on it.
type Rig struct {
	*testing.T
	Ctx     context.Context
	Testbed *testbed.Testbed
	Stream  *stream.Stream
	Env     *host.Connection
	URL     string       // of NATS
	Rules   string       // path of the policy file
	ahead   atomic.Int64 // how far the clock of worker and sinks is ahead
	step    atomic.Int64 // last step of that clock
	file    string       // kubeconfig limited to one namespace
	proxy   string       // its API server
	inForce *policyfile.Source

	mu      sync.Mutex
	journal []event.Record
	read    map[string]int // by Service: position of Until
}

const limit = 6 * time.Minute

// New sets up the testbed with a policy in force, journal, exporter and worker.
func New(t *testing.T, on testbed.Config, rules string) *Rig {
	t.Helper()
	if _, err := program(); err != nil {
		t.Fatal(err)
	}
	share := cluster.Join
	if bin, _ := controller.Real(); bin != "" || on.Routes {
		share = cluster.Alone // it syncs all Services, or all nodes' routes
	}
	c := share(t)
	namespace := c.Namespace(t) // waits while another test uses the cluster exclusively
	ctx, cancel := context.WithTimeoutCause(t.Context(), limit, fmt.Errorf("the test takes more than %s", limit))
	t.Cleanup(cancel)
	r := &Rig{T: t, Ctx: ctx, read: map[string]int{}, Rules: filepath.Join(t.TempDir(), "policy.yaml")}
	r.inForce = policyfile.FromFile(r.Rules, new(cli.Program).ParsePolicy)
	r.file, r.proxy = narrow(t, c, namespace)
	var err error
	r.Testbed, err = testbed.Start(ctx, testbed.Options{Config: on, Cluster: c, Namespace: namespace, BackoffBase: time.Second, BackoffMax: 3 * time.Second})
	r.Must(err)
	t.Cleanup(r.Testbed.Close)
	r.URL = nats.Start(t, embedded.Options{Token: token}).URL()
	r.Stream = nats.Connect(t, stream.Config{URL: r.URL, Token: token, Grace: time.Second})
	_, err = r.Stream.Setup(ctx, (&host.Host{Remedies: functions.All}).Classes(), stream.Settings{Clusters: []string{testbed.ClusterID}})
	r.Must(err)
	r.Policy(rules)
	r.Env = r.worker()
	shell.Beside(r, r.Ctx, "the journal", func(ctx context.Context) error {
		return r.Stream.Tail(ctx, stream.Cases, event.CaseSubjects, 0, r.see)
	})
	return r
}

// Start starts exporter, worker and redeliverer. A test may have replaced what the worker reads with; exporter and redeliverer are still
// limited to the test's namespace. Otherwise the worker would fix the Services of other tests.
func (r *Rig) Start() *Rig {
	r.Helper()
	limited, err := kube.New(&rest.Config{Host: r.proxy})
	r.Must(err)
	x, err := exporter.New(exporter.Config{Cluster: testbed.ClusterID, Kube: limited, Stream: r.Stream, Classifier: event.NewClassifier(table.Table()),
		Rate: 100_000, Burst: 100_000, Now: r.Env.Now})
	r.Must(err)
	shell.Beside(r, r.Ctx, "the exporter", x.Run)
	shell.Beside(r, r.Ctx, "the worker", r.Work)
	rights, err := identity.Of("engine")
	r.Must(err)
	config, err := rights.Cluster(r.Ctx, r.Testbed.Cluster, "engine") // nobody else may say on an Approval what became of it
	r.Must(err)
	config.Host, config.TLSClientConfig = r.proxy, rest.TLSClientConfig{}
	engine, err := kube.New(config)
	r.Must(err)
	w := &approval.Redeliverer{
		Cluster: testbed.ClusterID, Kube: engine, Stream: r.Stream, Now: r.Env.Time, Log: slog.New(slog.DiscardHandler), Said: func(say.Text) {},
	}
	shell.Beside(r, r.Ctx, "the redeliverer", w.Run)
	return r
}

// Answerable enables answers by Approvals, and returns the user of the operator's program.
func (r *Rig) Answerable() string {
	r.Helper()
	identity.Answerable(r, r.Testbed.Cluster)
	return identity.Admin(r, r.Testbed.Cluster)
}

// Work answers failures until ctx ends.
func (r *Rig) Work(ctx context.Context) error {
	return (&host.Host{Env: r.Env.Env, Remedies: functions.All}).Work(ctx, 64)
}

// Tell starts the notifier for the sinks of the policy in force.
func (r *Rig) Tell() {
	r.Helper()
	v, err := r.inForce.Read(r.Ctx)
	r.Must(err)
	f, err := ticket.New(ticket.Config{
		Stream: r.Stream, Sinks: v.Sinks, Remedies: functions.All, Cluster: testbed.ClusterID, Kube: r.Env.Clients.KubeWriter,
		Cloud: r.Env.Clients.Cloud, CloudWriter: r.Env.Clients.CloudWriter, Now: r.Env.Now,
	})
	r.Must(err)
	shell.Beside(r, r.Ctx, "the sinks", func(ctx context.Context) error { f.Run(ctx); return nil })
}

func (r *Rig) worker() *host.Connection {
	r.Helper()
	key := r.Testbed.Cloud.Client(worker, "*")
	env, err := host.ConnectReads(host.Config{
		Config: connect.Config{
			Cluster: testbed.ClusterID, Region: r.Testbed.Cloud.Region(), Kubeconfig: r.file, Endpoint: r.Testbed.Cloud.Addr(), Scheme: "HTTP",
			Credentials: cloud.Static(cloud.Key{ID: key.AccessKeyID, Secret: key.Secret, Token: key.Token}),
		},
		Who: "worker", Watch: 4 * time.Second,
	})
	r.Must(err)
	env.Stream, env.Now = r.Stream, r.Now
	env.Policy = func(ctx context.Context) (remedy.Policy, error) {
		v, err := r.inForce.Read(ctx)
		return v.Policy, err
	}
	return env
}

// Now returns the time of the clock of worker and sinks.
func (r *Rig) Now() time.Time { return time.Now().Add(time.Duration(r.ahead.Load())) }

// Advance puts that clock forward.
func (r *Rig) Advance(d time.Duration) {
	r.step.Store(int64(d))
	r.ahead.Add(int64(d))
}

// Must fails the test on an error.
func (r *Rig) Must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// Step returns the last step of the clock.
func (r *Rig) Step() time.Duration { return time.Duration(r.step.Load()) }

func (r *Rig) see(m stream.Message) error {
	rec, err := event.DecodeRecord(m.Subject, m.Header, m.Data)
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.journal = append(r.journal, rec)
	r.mu.Unlock()
	r.Testbed.Wake()
	return nil
}

// Journal returns the journal's records, oldest first.
func (r *Rig) Journal() []event.Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.journal)
}

// Touched returns the Services that have been written to.
func (r *Rig) Touched(fixtures []testbed.Fixture) []string {
	journal := r.Journal()
	var all []string
	for _, f := range fixtures {
		if slices.ContainsFunc(journal, func(rec event.Record) bool { return rec.Service.Name == f.Service && rec.Done() }) {
			all = append(all, f.Service)
		}
	}
	return all
}

// Records returns a Service's records, oldest first.
func (r *Rig) Records(service string) []event.Record {
	return slices.DeleteFunc(r.Journal(), func(rec event.Record) bool { return rec.Service.Name != service })
}

// Until waits for the next matching record of a Service, after the one that it returned before.
func (r *Rig) Until(service, what string, wanted func(event.Record) bool) event.Record {
	r.Helper()
	var found, last event.Record
	err := r.Testbed.Until(r.Ctx, func() bool {
		all := r.Records(service)
		for ; r.read[service] < len(all); r.read[service]++ {
			if last = all[r.read[service]]; wanted(last) {
				found = last
				r.read[service]++
				return true
			}
		}
		return false
	})
	if err != nil {
		for _, rec := range r.Records(service) {
			r.Logf("%s %s %s, plan %s, %s %s; steps %+v; what the sync changes: %+v", rec.At.Format(time.TimeOnly), rec.Phase, rec.Result, rec.Digest, rec.Note,
				rec.Error, rec.Steps, rec.Changes)
		}
		r.Fatalf("%s is not %s: %v; the last record is of phase %q, result %q, held %q: %s %s %s %s",
			service, what, err, last.Phase, last.Result, last.Held, last.Finding, last.Rule, last.Note, last.Error)
	}
	return found
}

// Ends waits for the next record of a Service that ends a run with this result.
func (r *Rig) Ends(service string, result event.Result) event.Record {
	r.Helper()
	return r.Until(service, string(result), func(rec event.Record) bool { return rec.Phase == event.Settled && rec.Result == result })
}

// Held waits for the next record of a Service that is held for this reason.
func (r *Rig) Held(service string, by event.Hold) event.Record {
	r.Helper()
	return r.Until(service, "held by "+string(by), func(rec event.Record) bool { return rec.Phase == event.Settled && rec.Held == by })
}

// Service returns the current Service.
func (r *Rig) Service(name string) *corev1.Service {
	r.Helper()
	svc, err := r.Testbed.Cluster.Client().CoreV1().Services(r.Testbed.Namespace).Get(r.Ctx, name, metav1.GetOptions{})
	r.Must(err)
	return svc
}

// VSwitch returns the vSwitch that a Service requests.
func (r *Rig) VSwitch(service string) string {
	r.Helper()
	return r.Service(service).Annotations[Prefix+"vswitch-id"]
}

// Create creates a Service that requests an address in the full vSwitch. The Service has the controller's finalizer: a
// controller whose cache is a second behind writes the finalizer twice, and reports the conflict as a failure of another
// class. That failure can end the case before its fix is proven.
func (r *Rig) Create(name string, change func(*corev1.Service)) {
	r.Helper()
	svc := Bare(name)
	svc.Finalizers = []string{ccm.CLBFinalizer}
	if change != nil {
		change(svc)
	}
	_, err := r.Testbed.Cluster.Client().CoreV1().Services(r.Testbed.Namespace).Create(r.Ctx, svc, metav1.CreateOptions{})
	r.Must(err)
}

// Bare returns a Service in the full vSwitch with nodes as backends.
func Bare(name string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{Prefix + "address-type": "intranet", Prefix + "vswitch-id": testbed.FullVSwitchH}},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80, Protocol: corev1.ProtocolTCP}}},
	}
}

// Policy puts a policy file in force, like an operator.
func (r *Rig) Policy(text string) {
	r.Helper()
	r.Must(os.WriteFile(r.Rules+".new", []byte(text), 0o600))
	r.Must(os.Rename(r.Rules+".new", r.Rules))
	// No "lbremedy up" runs here that would store it.
	told := policy.InForce{Version: policyfile.Digest([]byte(text)), Text: text, Source: "policy.yaml", Since: time.Now()}
	r.Must(told.Put(r.Ctx, r.Stream, testbed.ClusterID))
}

// Said is the result of a run of the operator's program.
type Said struct {
	Code     int
	Out, Err string
}

// Call runs the operator's program.
func (r *Rig) Call(args ...string) Said {
	r.Helper()
	var out, errs bytes.Buffer
	cmd := r.Command(args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		r.Fatal(err)
	}
	return Said{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
}

// Command returns a run of the operator's program as on another machine.
func (r *Rig) Command(args ...string) *exec.Cmd {
	r.Helper()
	file, err := program()
	r.Must(err)
	cmd := exec.CommandContext(r.Ctx, file, args...)
	cmd.Env = append(r.Testbed.Environ(r.URL, token), "HOME="+r.TempDir(), "LBREMEDY_KUBECONFIG="+r.file, "PATH="+os.Getenv("PATH"), "TZ=UTC", "COLUMNS=80")
	return cmd
}

// Says runs the operator's program and checks the exit code and parts of the output.
func (r *Rig) Says(code int, out, errs string, args ...string) Said {
	r.Helper()
	got := r.Call(args...)
	if got.Code != code || !strings.Contains(got.Out, out) || !strings.Contains(got.Err, errs) {
		r.Errorf("%v: code %d, %q, %q; want %d with %q and %q", args, got.Code, got.Out, got.Err, code, out, errs)
	}
	if got.Code == command.CodeWrong && strings.Count(strings.TrimSpace(got.Err), "\n") > 1 {
		r.Errorf("%v: more than a sentence: %q", args, got.Err)
	}
	return got
}

// Shelf returns a folder for pasted commands: bin has the program and kubectl, and files are stored by name.
func (r *Rig) Shelf(files map[string]string) string {
	r.Helper()
	file, err := program()
	r.Must(err)
	dir := r.TempDir()
	r.Must(os.Mkdir(filepath.Join(dir, "bin"), 0o755))
	r.Must(os.Symlink(file, filepath.Join(dir, "bin", "lbremedy")))
	r.Must(os.Symlink(r.Testbed.Cluster.Kubectl(), filepath.Join(dir, "bin", "kubectl")))
	for name, text := range files {
		r.Must(os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	return dir
}

// Paste runs a shell command in a folder of Shelf, like a person who copies it.
func (r *Rig) Paste(dir, text string) Said {
	r.Helper()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(r.Ctx, "sh", "-c", text)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &errs
	cmd.Env = append(r.Command().Env, "LBREMEDY_NATS="+r.URL, "KUBECONFIG="+r.file, "PATH="+filepath.Join(dir, "bin")+":"+os.Getenv("PATH"))
	if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		r.Fatal(err)
	}
	return Said{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
}

// narrow returns a kubeconfig limited to one testbed, and the address of its API server: lists and watches of Services, Events and
// Approvals over all namespaces return only its namespace, and nodes only its own. Otherwise plans could depend on the nodes of other
// tests, and two redeliverers would contradict each other on each Approval.
func narrow(t *testing.T, c *cluster.Cluster, namespace string) (file, address string) {
	t.Helper()
	to, err := url.Parse(c.Config.Host)
	if err != nil {
		t.Fatal(err)
	}
	transport, err := rest.TransportFor(rest.CopyConfig(c.Config))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(to)
			if p.Out.URL.Path == "/api/v1/nodes" {
				query := p.Out.URL.Query()
				query.Set("labelSelector", testbed.NodesOf(namespace))
				p.Out.URL.RawQuery = query.Encode()
			}
			for _, all := range []string{"/api/v1/services", "/api/v1/events", "/apis/lbremedy.io/" + kube.ApprovalVersion + "/approvals"} {
				if p.Out.URL.Path == all {
					group, kind := path.Split(all)
					p.Out.URL.Path = group + "namespaces/" + namespace + "/" + kind
				}
			}
		},
		Transport: transport, FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0),
	})
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	file = filepath.Join(t.TempDir(), "kubeconfig")
	config := clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"testbed": {Server: server.URL}}, AuthInfos: map[string]*clientcmdapi.AuthInfo{"all": {}},
		Contexts: map[string]*clientcmdapi.Context{"testbed": {Cluster: "testbed", AuthInfo: "all"}}, CurrentContext: "testbed",
	}
	if err := clientcmd.WriteToFile(config, file); err != nil {
		t.Fatal(err)
	}
	return file, server.URL
}
