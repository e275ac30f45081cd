package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/ledger"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/shared/ticket"
	"github.com/lbremedy/lbremedy/test/shell"
	"github.com/lbremedy/lbremedy/test/sim"
)

func scaled(b *testing.B, usual int) int {
	b.Helper()
	text := os.Getenv("LBREMEDY_BENCH_SCALE")
	if text == "" {
		return usual
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 10 {
		b.Fatalf("LBREMEDY_BENCH_SCALE: %q is not a number of Services from 10 on", text)
	}
	return n
}

const owing = "arrearage"

func accountOf(l ledger.Ledger) ledger.Account {
	for _, a := range l.Classes {
		if a.Class == owing {
			return a
		}
	}
	return ledger.Account{}
}

// room is a part's memory limit: that of the chart's Pod.
const room = 256 << 20

// scale measures memory, CPU and the number of tickets when the account's debt hits all Services of a cluster with 200 nodes and
// 500 load balancers: first "lbremedy up" (everything in one process), then exporter, worker, notifier and ledger separately with
// the same failures. A part has the collector's memory limit that the chart sets, and may take no more than the Pod's.
func (r *rig) scale(b *testing.B) {
	n := scaled(b, 1000)
	account := sim.New(b, debtors(500))
	env := r.environ(b, account)
	services := r.debtors(b, n, 200)
	told := newSink(b)

	state, address := b.TempDir(), "127.0.0.1:"+shell.Port(b)
	alone := append(env, told.env, "XDG_CONFIG_HOME="+state, "LBREMEDY_NATS=", "LBREMEDY_NATS_TOKEN=", "GOMEMLIMIT=200MiB")
	all := guarded(b, r.program(b, "functions/cmd/lbremedy"), alone,
		"up", "--policy", told.policy, "--listen", address, "--state-dir", state, "--workers", "32", "--runs", "64")
	await(b, time.Minute, func() error { return all.asked("http://" + address + "/readyz") })
	data, err := os.ReadFile(filepath.Join(state, "nats.json"))
	if err != nil {
		b.Fatal(err)
	}
	var at struct{ URL, Token string }
	if err := json.Unmarshal(data, &at); err != nil {
		b.Fatal(err)
	}
	own := &nats{url: at.URL, token: at.Token}
	outcomes := r.outcomes(b, own)
	began := time.Now()
	if err := alike(16, n, func(i int) error { return r.owe(b.Context(), services[i]) }); err != nil {
		b.Fatal(err)
	}
	r.note(b, "Services", "", float64(n))
	r.note(b, "Events created", "s", time.Since(began).Seconds())
	outcomes.wait(b, 10*time.Minute, uidsOf(services)...)
	r.atMost(b, "until all have an outcome", "s", time.Since(began).Seconds(), 300)
	told.wait(b, n)
	r.atMost(b, "tickets", "", float64(told.tickets()), 1)
	r.note(b, "notifications", "", float64(told.count()))
	r.taken(b, "up", all)
	all.end()

	told = newSink(b)
	shared := r.startNATS(b)
	env = append(env, told.env, "LBREMEDY_NATS="+shared.url, "LBREMEDY_NATS_TOKEN="+shared.token, "XDG_CONFIG_HOME="+state)
	outcomes = r.outcomes(b, shared)
	began = time.Now()
	exporter := guarded(b, r.program(b, "events/cmd/exporter"), append(env, "GOMEMLIMIT="), "--listen", "127.0.0.1:"+shell.Port(b))
	worker := guarded(b, r.program(b, "functions/cmd/lbremedy"), append(env, "GOMEMLIMIT=200MiB"),
		"up", "--parts", "worker", "--policy", told.policy, "--workers", "32", "--runs", "64")
	notifier := guarded(b, r.program(b, "functions/cmd/lbremedy"), append(env, "GOMEMLIMIT=150MiB"),
		"up", "--parts", "notifier", "--policy", told.policy, "--listen", "127.0.0.1:"+shell.Port(b))
	outcomes.wait(b, 10*time.Minute, uidsOf(services)...)
	r.note(b, "apart, until all have an outcome", "s", time.Since(began).Seconds())
	told.wait(b, n)
	r.atMost(b, "apart, tickets", "", float64(told.tickets()), 1)
	for name, p := range map[string]*process{"exporter": exporter, "worker": worker, "notifier": notifier} {
		r.taken(b, name, p)
	}

	status := exec.Command(r.program(b, "functions/cmd/lbremedy"), "status", "-o", "json")
	status.Env = append(append(os.Environ(), env...), "GOMEMLIMIT=200MiB")
	began = time.Now()
	out, err := status.Output()
	if ended, ok := errors.AsType[*exec.ExitError](err); err != nil && (!ok || ended.ExitCode() != cli.CodeOpen) {
		b.Fatalf("lbremedy status: %v: %s", err, out)
	}
	took := time.Since(began)
	usage, ok := status.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		b.Fatal("the system does not say what a process took")
	}
	r.atMost(b, "status, most memory", "MB", float64(usage.Maxrss)*1024/1e6, room/1e6)
	r.note(b, "status, time", "s", took.Seconds())
	var st struct {
		Backlog struct{ Classes []ledger.Account }
	}
	if err := json.Unmarshal(out, &st); err != nil {
		b.Fatal(err)
	}
	if a := accountOf(ledger.Ledger{Classes: st.Backlog.Classes}); a.Settled != n || a.Lost > 0 {
		b.Errorf("the ledger has %+v of %d failures", a, n)
	}
}

// taken reports a part's use of resources. Exceeding the room is an error, because the Pod would be killed.
func (r *rig) taken(b *testing.B, name string, p *process) {
	b.Helper()
	most := p.memory(b, "VmHWM")
	if most > room/1e6 {
		b.Errorf("%s took %.0f MB, more than the Pod has", name, most)
	}
	r.atMost(b, name+", most memory", "MB", most, room/1e6)
	r.note(b, name+", CPU", "s", p.cpu(b).Seconds())
}

func debtors(balancers int) *sim.World {
	w := &sim.World{
		Cluster: sim.Cluster{ID: clusterID, VPC: "vpc-1", VSwitches: []string{"vsw-1"}},
		VPCs:    []sim.VPC{{ID: "vpc-1"}}, VSwitches: []sim.VSwitch{{ID: "vsw-1", VPC: "vpc-1", Free: new(4000)}},
	}
	w.Account.Balance, w.Account.Arrearage = "-1,234.56", true
	for i := range balancers {
		w.LoadBalancers = append(w.LoadBalancers, sim.LoadBalancer{ID: fmt.Sprintf("lb-%04d", i), Name: fmt.Sprintf("shop %d", i), ChargeType: "PayByCLCU"})
	}
	return w
}

func (r *rig) environ(b *testing.B, account *sim.Cloud) []string {
	b.Helper()
	key := account.Admin()
	return []string{
		"LBREMEDY_CLUSTER=" + clusterID, "LBREMEDY_REGION=" + account.Region(), "LBREMEDY_KUBECONFIG=" + r.cluster(b).Kubeconfig,
		"LBREMEDY_CLOUD_ENDPOINT=" + account.Addr(), "LBREMEDY_CLOUD_SCHEME=HTTP",
		"ALIBABA_CLOUD_ACCESS_KEY_ID=" + key.AccessKeyID, "ALIBABA_CLOUD_ACCESS_KEY_SECRET=" + key.Secret,
	}
}

// debtors creates nodes and n Services without load balancers, fifty in each namespace, because the exporter limits its rate.
func (r *rig) debtors(b *testing.B, n, nodes int) []*corev1.Service {
	b.Helper()
	client := r.client(b).CoreV1()
	var namespaces []string
	for range n/50 + 1 {
		namespaces = append(namespaces, r.namespace(b, "scale"))
	}
	made := make([]*corev1.Service, n)
	err := alike(16, n, func(i int) (err error) {
		made[i], err = client.Services(namespaces[i/50]).Create(b.Context(), &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("web-%05d", i), Annotations: map[string]string{"shop.example/team": strings.Repeat("network ", 16)}},
			Spec: corev1.ServiceSpec{
				Type: corev1.ServiceTypeLoadBalancer, AllocateLoadBalancerNodePorts: new(false), Ports: []corev1.ServicePort{{Port: 80}},
			},
		}, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	for i := range nodes {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{GenerateName: "scale-"}, Spec: corev1.NodeSpec{ProviderID: fmt.Sprintf("cn-hangzhou.i-scale-%d", i)}}
		made, err := client.Nodes().Create(b.Context(), node, metav1.CreateOptions{})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			_ = client.Nodes().Delete(context.WithoutCancel(b.Context()), made.Name, metav1.DeleteOptions{})
		}) // the cluster is a sandbox
	}
	return made
}

func (r *rig) owe(ctx context.Context, svc *corev1.Service) error {
	e := failure(svc.Namespace, svc.Name, string(svc.UID))
	e.Message = "Error syncing load balancer []: Message: The account is arrearage."
	_, err := r.shared.Client().CoreV1().Events(svc.Namespace).Create(ctx, e, metav1.CreateOptions{})
	return err
}

func uidsOf(services []*corev1.Service) []string {
	ids := make([]string, len(services))
	for i, svc := range services {
		ids[i] = string(svc.UID)
	}
	return ids
}

func (r *rig) outcomes(b *testing.B, n *nats) *sightings {
	b.Helper()
	seen, st := newSightings(), n.connect(b)
	ctx, cancel := context.WithCancel(b.Context())
	var following sync.WaitGroup
	following.Go(func() {
		if err := st.Tail(ctx, stream.Cases, event.CaseFilter(clusterID, "*"), 0, func(m stream.Message) error {
			rec, err := event.DecodeRecord(m.Subject, m.Header, m.Data)
			if err == nil && rec.Phase == event.Settled && rec.Result == event.Asked {
				seen.see(rec.Service.UID)
			}
			return err
		}); err != nil && ctx.Err() == nil {
			b.Errorf("follow the journal: %v", err)
		}
	})
	b.Cleanup(func() { cancel(); following.Wait() })
	return seen
}

type sink struct {
	policy, env string

	mu      sync.Mutex
	failing map[string]int // by ticket: number of failing Services
	sent    int
}

func newSink(b *testing.B) *sink {
	b.Helper()
	d := &sink{env: "SINK_KEY=whsec_" + strings.Repeat("A", 32), failing: map[string]int{}}
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		var body struct{ Data ticket.Notice }
		err := json.NewDecoder(req.Body).Decode(&body)
		d.mu.Lock()
		defer d.mu.Unlock()
		if err != nil {
			b.Errorf("a notification can't be read: %v", err)
		}
		if body.Data.Class == owing { // other benchmarks left failures with other causes
			d.sent++
			d.failing[body.Data.Key] = body.Data.Failing
		}
	}))
	b.Cleanup(server.Close)
	d.policy = filepath.Join(b.TempDir(), "policy.yaml")
	text := fmt.Sprintf("mode: observe\ntell:\n- {name: bench, kind: webhook, url: %q, secretFrom: {env: SINK_KEY}}\n", server.URL)
	if err := os.WriteFile(d.policy, []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
	return d
}

func (d *sink) wait(b *testing.B, n int) {
	b.Helper()
	await(b, 5*time.Minute, func() error {
		d.mu.Lock()
		defer d.mu.Unlock()
		for _, failing := range d.failing {
			if failing == n {
				return nil
			}
		}
		return fmt.Errorf("the tickets are about %v, want one about %d", d.failing, n)
	})
}

func (d *sink) tickets() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.failing)
}

func (d *sink) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.sent
}
