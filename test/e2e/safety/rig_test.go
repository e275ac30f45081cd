// Package safety tries what limits lbremedy (policy, pause, freeze, budgets, breaker,
// approval) on testbeds with all that is real: an API server, JetStream, the exporter, a
// worker in fix mode, the ticket sinks, and the
// operator's program as a process of its own. Cloud and controller are simulated.
//
// The worker's clock is the test's: where a belt is about hours, the test puts it
// forward. Keys that run out do so by the clock of the NATS server, which goes its own
// way; a test that needs the end of a budget's window removes the keys as that would.
//
// Testbeds share one API server, and tests run side by side. A test sees its own namespace of
// it and no other, through a proxy that narrows what spans all namespaces. A real controller,
// which CCM_BIN names, can't be narrowed: each has an API server for itself.
package safety

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

// built is where the operator's program is built, once.
var built string

func TestMain(m *testing.M) {
	shell.Tests(m, &built)
}

// program builds the operator's program and returns its file.
var program = sync.OnceValues(func() (string, error) {
	return filepath.Join(built, "lbremedy"), shell.Build(built, []string{"./functions/cmd/lbremedy"})
})

const (
	token  = "safety"
	worker = "lbremedy-worker" // by that name the simulated cloud knows the worker's calls
	prefix = ccm.Prefix
)

// full is the class of most failures, since its plan is one write.
const full = "vswitch-ip-exhausted"

// A rig is a testbed with all of lbremedy on it.
type rig struct {
	*testing.T
	ctx     context.Context
	testbed *testbed.Testbed
	stream  *stream.Stream
	env     *host.Connection
	ahead   atomic.Int64 // how far the clock of worker and sinks is put forward
	step    atomic.Int64 // how far it was last put forward
	file    string       // of the kubeconfig that shows one namespace
	url     string       // of NATS
	rules   string       // the file with the policy
	inForce *policyfile.Source

	mu      sync.Mutex
	journal []event.Record
	read    map[string]int // by Service: how far until has looked
}

// limit is how long one test may take.
const limit = 6 * time.Minute

// newRig sets up the testbed with a policy in force, and journal, exporter and worker on it.
func newRig(t *testing.T, on testbed.Config, rules string) *rig {
	t.Helper()
	if _, err := program(); err != nil {
		t.Fatal(err)
	}
	share := cluster.Join
	if bin, _ := controller.Real(); bin != "" {
		share = cluster.Alone // it syncs all Services
	}
	c := share(t)
	namespace := c.Namespace(t) // while another test has the cluster for itself, this waits
	ctx, cancel := context.WithTimeoutCause(t.Context(), limit, fmt.Errorf("the test takes more than %s", limit))
	t.Cleanup(cancel)
	r := &rig{T: t, ctx: ctx, read: map[string]int{}, rules: filepath.Join(t.TempDir(), "policy.yaml")}
	r.inForce = policyfile.FromFile(r.rules, cli.ParsePolicy)
	r.file = narrow(t, c, namespace)
	var err error
	r.testbed, err = testbed.Start(ctx, testbed.Options{Config: on, Cluster: c, Namespace: namespace, BackoffBase: time.Second, BackoffMax: 3 * time.Second})
	r.must(err)
	t.Cleanup(r.testbed.Close)
	r.url = nats.Start(t, embedded.Options{Token: token}).URL()
	r.stream = nats.Connect(t, stream.Config{URL: r.url, Token: token, Grace: time.Second})
	_, err = r.stream.Setup(ctx, (&host.Host{Remedies: functions.All}).Classes(), stream.Settings{Clusters: []string{testbed.ClusterID}})
	r.must(err)
	r.policy(rules)
	r.env = r.worker()
	shell.Beside(r, r.ctx, "the journal", func(ctx context.Context) error {
		return r.stream.Tail(ctx, stream.Cases, event.CaseSubjects, 0, r.see)
	})
	return r
}

// start starts exporter and worker.
func (r *rig) start() *rig {
	r.Helper()
	x, err := exporter.New(exporter.Config{Cluster: testbed.ClusterID, Kube: r.env.Kube, Stream: r.stream, Classifier: event.NewClassifier(table.Table()),
		Rate: 100_000, Burst: 100_000, Now: r.env.Now})
	r.must(err)
	shell.Beside(r, r.ctx, "the exporter", x.Run)
	shell.Beside(r, r.ctx, "the worker", r.work)
	w := &approval.Waker{
		Cluster: testbed.ClusterID, Kube: r.env.Kube, Stream: r.stream, Now: r.env.Now, Log: slog.New(slog.DiscardHandler), Said: func(say.Text) {},
	}
	shell.Beside(r, r.ctx, "what wakes it", w.Run)
	return r
}

// answerable has people answer by Approvals, and returns the user as whom the operator's program does.
func (r *rig) answerable() string {
	r.Helper()
	identity.Answerable(r, r.testbed.Cluster)
	return identity.Admin(r, r.testbed.Cluster)
}

// work answers failures until ctx ends.
func (r *rig) work(ctx context.Context) error {
	return (&host.Host{Env: r.env.Env, Remedies: functions.All}).Work(ctx, 64)
}

// tell starts what tells the sinks of the policy in force.
func (r *rig) tell() {
	r.Helper()
	v, err := r.inForce.Read(r.ctx)
	r.must(err)
	f, err := ticket.New(ticket.Config{
		Stream: r.stream, Sinks: v.Sinks, Remedies: functions.All, Cluster: testbed.ClusterID, Kube: r.env.Clients.KubeWriter,
		Cloud: r.env.Clients.Cloud, CloudWriter: r.env.Clients.CloudWriter, Now: r.env.Now,
	})
	r.must(err)
	shell.Beside(r, r.ctx, "the sinks", func(ctx context.Context) error { f.Run(ctx); return nil })
}

// worker returns what a worker runs on.
func (r *rig) worker() *host.Connection {
	r.Helper()
	key := r.testbed.Cloud.Client(worker, "*")
	env, err := host.Look(host.Config{
		Config: connect.Config{
			Cluster: testbed.ClusterID, Region: r.testbed.Cloud.Region(), Kubeconfig: r.file, Endpoint: r.testbed.Cloud.Addr(), Scheme: "HTTP",
			Credentials: cloud.Static(cloud.Key{ID: key.AccessKeyID, Secret: key.Secret, Token: key.Token}),
		},
		Who: "worker", Watch: 4 * time.Second,
	})
	r.must(err)
	env.Stream, env.Now = r.stream, r.now
	env.Policy = func(ctx context.Context) (remedy.Policy, error) {
		v, err := r.inForce.Read(ctx)
		return v.Policy, err
	}
	return env
}

// now is the clock of worker and sinks.
func (r *rig) now() time.Time { return time.Now().Add(time.Duration(r.ahead.Load())) }

// advance puts that clock forward.
func (r *rig) advance(d time.Duration) {
	r.step.Store(int64(d))
	r.ahead.Add(int64(d))
}

func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// see takes in a record of the journal.
func (r *rig) see(m stream.Message) error {
	rec, err := event.DecodeRecord(m.Subject, m.Header, m.Data)
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.journal = append(r.journal, rec)
	r.mu.Unlock()
	r.testbed.Wake()
	return nil
}

// records returns what the journal says of a Service, the oldest record first.
func (r *rig) records(service string) []event.Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(r.journal), func(rec event.Record) bool { return rec.Service.Name != service })
}

// until returns the next record of a Service that is as wanted, after the one that it
// returned before.
func (r *rig) until(service, what string, wanted func(event.Record) bool) event.Record {
	r.Helper()
	var found, last event.Record
	err := r.testbed.Until(r.ctx, func() bool {
		all := r.records(service)
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
		for _, rec := range r.records(service) {
			r.Logf("%s %s %s, plan %s, %s %s; steps %+v; what the sync changes: %+v", rec.At.Format(time.TimeOnly), rec.Phase, rec.Result, rec.Digest, rec.Note,
				rec.Error, rec.Steps, rec.Changes)
		}
		r.Fatalf("%s is not %s: %v; the last record is of phase %q, result %q, held %q: %s %s %s %s",
			service, what, err, last.Phase, last.Result, last.Held, last.Finding, last.Rule, last.Note, last.Error)
	}
	return found
}

// ends returns the next record of a Service that ends a run with this result.
func (r *rig) ends(service string, result event.Result) event.Record {
	r.Helper()
	return r.until(service, string(result), func(rec event.Record) bool { return rec.Phase == event.Settled && rec.Result == result })
}

// held returns the next record of a Service that is held back by this.
func (r *rig) held(service string, by event.Hold) event.Record {
	r.Helper()
	return r.until(service, "held by "+string(by), func(rec event.Record) bool { return rec.Phase == event.Settled && rec.Held == by })
}

// service returns a Service as it is now.
func (r *rig) service(name string) *corev1.Service {
	r.Helper()
	svc, err := r.testbed.Cluster.Client().CoreV1().Services(r.testbed.Namespace).Get(r.ctx, name, metav1.GetOptions{})
	r.must(err)
	return svc
}

// vswitch returns which vSwitch a Service asks for.
func (r *rig) vswitch(service string) string {
	r.Helper()
	return r.service(service).Annotations[prefix+"vswitch-id"]
}

// create creates a Service that asks for an address in the full vSwitch.
func (r *rig) create(name string, change func(*corev1.Service)) {
	r.Helper()
	svc := bare(name)
	if change != nil {
		change(svc)
	}
	_, err := r.testbed.Cluster.Client().CoreV1().Services(r.testbed.Namespace).Create(r.ctx, svc, metav1.CreateOptions{})
	r.must(err)
}

// bare returns a Service in the full vSwitch whose backends are the nodes.
func bare(name string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{prefix + "address-type": "intranet", prefix + "vswitch-id": testbed.FullVSwitchH}},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80, Protocol: corev1.ProtocolTCP}}},
	}
}

// policy puts a policy file in force, as an operator does.
func (r *rig) policy(text string) {
	r.Helper()
	r.must(os.WriteFile(r.rules+".new", []byte(text), 0o600))
	r.must(os.Rename(r.rules+".new", r.rules))
	// No "lbremedy up" runs here that would tell it.
	told := policy.InForce{Version: policyfile.Digest([]byte(text)), Text: text, Source: "policy.yaml", Since: time.Now()}
	r.must(told.Put(r.ctx, r.stream, testbed.ClusterID))
}

// What a call of the operator's program came to.
type said struct {
	code     int
	out, err string
}

// call runs the operator's program.
func (r *rig) call(args ...string) said {
	r.Helper()
	var out, errs bytes.Buffer
	cmd := r.command(args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		r.Fatal(err)
	}
	return said{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
}

// command returns a call of the operator's program, as somebody on another machine makes it.
func (r *rig) command(args ...string) *exec.Cmd {
	r.Helper()
	file, err := program()
	r.must(err)
	cmd := exec.CommandContext(r.ctx, file, args...)
	cmd.Env = append(r.testbed.Environ(r.url, token), "HOME="+r.TempDir(), "LBREMEDY_KUBECONFIG="+r.file, "PATH="+os.Getenv("PATH"), "TZ=UTC", "COLUMNS=80")
	return cmd
}

// says runs the operator's program and wants this code, and these texts in what it prints.
func (r *rig) says(code int, out, errs string, args ...string) said {
	r.Helper()
	got := r.call(args...)
	if got.code != code || !strings.Contains(got.out, out) || !strings.Contains(got.err, errs) {
		r.Errorf("%v: code %d, %q, %q; want %d with %q and %q", args, got.code, got.out, got.err, code, out, errs)
	}
	if got.code == command.CodeWrong && strings.Count(strings.TrimSpace(got.err), "\n") > 1 {
		r.Errorf("%v: more than a sentence: %q", args, got.err)
	}
	return got
}

// narrow returns a kubeconfig for the cluster of which one testbed can be seen: lists and watches of Services
// and Events over all namespaces are of its namespace, and the nodes are its own: those of other tests are what a plan may depend on.
func narrow(t *testing.T, c *cluster.Cluster, namespace string) string {
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
			for _, kind := range []string{"services", "events"} {
				if p.Out.URL.Path == "/api/v1/"+kind {
					p.Out.URL.Path = "/api/v1/namespaces/" + namespace + "/" + kind
				}
			}
		},
		Transport: transport, FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0),
	})
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	file := filepath.Join(t.TempDir(), "kubeconfig")
	config := clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"testbed": {Server: server.URL}}, AuthInfos: map[string]*clientcmdapi.AuthInfo{"all": {}},
		Contexts: map[string]*clientcmdapi.Context{"testbed": {Cluster: "testbed", AuthInfo: "all"}}, CurrentContext: "testbed",
	}
	if err := clientcmd.WriteToFile(config, file); err != nil {
		t.Fatal(err)
	}
	return file
}
