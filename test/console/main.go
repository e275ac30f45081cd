// Console starts a world for the tests and pictures of lbremedy's console, and the console in it. Kubernetes API and JetStream
// are real, cloud and controller simulated. "go run ./test/console" breaks some Services of the demonstration, with a worker; "go
// run ./test/console big" has 5,000 working Services with a case each. Its first output line is the console's address. Each input
// line is an order, answered by a line: "done", a result, or an error. It ends with its input:
//
//	say TEXT     a case of the Service shop/said asks, with the text in all fields of others
//	settle TIME  the case of shop/said is fixed, with TIME in its finding
//	away, back   NATS stops; NATS is back with its data
//	work         "lbremedy up" starts to handle failures and answers
//	memory       returns the console's maximum resident memory, in MiB
//	team         starts a console with logins, and returns its address
//	account NAME creates a user who may answer, and returns a token
package main

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/lbremedy/lbremedy/functions"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/host"
	"github.com/lbremedy/lbremedy/shared/policy"
	"github.com/lbremedy/lbremedy/shared/policy/policyfile"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/shared/stream/embedded"
	"github.com/lbremedy/lbremedy/test/identity"
	"github.com/lbremedy/lbremedy/test/operator"
	"github.com/lbremedy/lbremedy/test/testbed"
)

const rules = "mode: fix\nrisk: low\nbudgets: {share: 100%, least: 100}\nrules:\n- {namespaces: [\"pay-*\"], mode: observe}\n"

func main() {
	operator.BeProgram()
	klog.SetSlogLogger(slog.New(slog.DiscardHandler))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, len(os.Args) > 1 && os.Args[1] == "big"); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "console:", event.Redact(err.Error()))
		os.Exit(1)
	}
}

type world struct {
	tb     *testbed.Testbed
	dir    string
	token  string
	server *embedded.Server
	port   int
	stream *stream.Stream
	began  time.Time // of the case of shop/said
	wait   sync.WaitGroup

	program string // runs the console; empty: this program
	process int    // of the first console
}

func run(ctx context.Context, big bool) error {
	dir, err := os.MkdirTemp("", "lbremedy-console-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	config, size := testbed.Config{Version: "v2.11.2", Upgrade: "v2.12.1"}, testbed.Size{}
	if big {
		config, size = testbed.Config{Terway: true}, testbed.Big()
	}
	tb, err := testbed.Start(ctx, testbed.Options{Config: config, Size: size})
	if err != nil {
		return err
	}
	defer tb.Close()
	w := &world{tb: tb, dir: dir, token: rand.Text(), port: -1}
	if err := w.back(ctx); err != nil {
		return err
	}
	defer func() { w.stream.Close(); w.server.Close() }()
	if _, err := identity.Approve(ctx, tb.Cluster); err != nil {
		return err
	}
	h := &host.Host{Remedies: functions.All}
	if _, err := w.stream.Setup(ctx, h.Classes(), stream.Settings{Clusters: []string{tb.ID}}); err != nil {
		return err
	}
	if err := tb.Allow(ctx, rules); err != nil {
		return err
	}
	// No "lbremedy up" runs here that would store it.
	told := policy.InForce{Version: policyfile.Digest([]byte(rules)), Text: rules, Source: "ConfigMap lbremedy/lbremedy-policy", Since: time.Now()}
	if err := told.Put(ctx, w.stream, tb.ID); err != nil {
		return err
	}
	if big {
		w.program = filepath.Join(dir, "lbremedy") // as shipped, because its memory is measured
		build := exec.CommandContext(ctx, "go", "build", "-ldflags=-s -w", "-o", w.program, "./functions/cmd/lbremedy")
		build.Stderr = os.Stderr
		if err := build.Run(); err != nil {
			return fmt.Errorf("build lbremedy: %w", err)
		}
		err = w.fill(ctx, size.Services)
	} else {
		err = w.fail(ctx, h)
	}
	if err != nil {
		return err
	}
	return w.show(ctx)
}

func (w *world) fail(ctx context.Context, h *host.Host) error {
	fixtures := []testbed.Fixture{
		testbed.FullVSwitch(testbed.FullVSwitchH).As("cart"), testbed.FullVSwitch(testbed.FullVSwitchI).As("checkout"), testbed.LostTag().As("web"),
		testbed.LostTag().As("api"), testbed.Gone().As("images"), testbed.NamesNone().As("mail"), testbed.NoListener().As("dns"),
		testbed.NoListener().As("metrics"),
	}
	var err error
	if h.Env, err = w.tb.Env(ctx, w.stream, "up", new(cli.Program).ParsePolicy); err != nil {
		return err
	}
	e, err := w.tb.Exporter(ctx, w.stream)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	var wait sync.WaitGroup
	defer wait.Wait()
	running, end := context.WithCancel(ctx)
	defer end()
	for _, part := range []func(context.Context) error{e.Run, func(ctx context.Context) error { return h.Work(ctx, 16) }} {
		wait.Go(func() {
			if err := part(running); err != nil && running.Err() == nil {
				fmt.Fprintln(os.Stderr, "console:", err)
			}
		})
	}
	if err := w.tb.Prepare(ctx, fixtures...); err != nil {
		return err
	}
	if err := w.tb.Inject(ctx, fixtures...); err != nil {
		return err
	}
	settled := map[string]bool{}
	following, enough := context.WithCancel(ctx)
	defer enough()
	return w.stream.Tail(following, stream.Cases, event.CaseSubjects, 0, func(m stream.Message) error {
		r, err := event.DecodeRecord(m.Subject, m.Header, m.Data)
		if err == nil && r.Phase == event.Settled && (r.Result.Worked() || r.Result == event.Asked || r.Result == event.Gone) {
			settled[r.Service.Name] = true
		}
		if len(settled) == len(fixtures) {
			enough()
		}
		return err
	})
}

func (w *world) fill(ctx context.Context, n int) error {
	kinds := operator.Lately()
	for i := range n {
		r := kinds[[]int{0, 2, 3}[i%3]]
		r.Cluster, r.Service.Namespace, r.Service.Name = w.tb.ID, w.tb.Namespace, fmt.Sprintf("ballast-%04d", i)
		r.Service.UID = operator.UID(i)
		if err := operator.Seed(ctx, w.stream, r); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) call() operator.Call {
	environ := map[string]string{"HOME": w.dir}
	for _, v := range w.tb.Environ(w.server.URL(), w.token) {
		name, value, _ := strings.Cut(v, "=")
		environ[name] = value
	}
	return operator.Call{Env: environ}
}

func (w *world) show(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer w.wait.Wait()
	defer cancel()
	address, err := w.console(ctx)
	if err != nil {
		return err
	}
	fmt.Println(address)
	orders := bufio.NewScanner(os.Stdin)
	for orders.Scan() {
		answer, err := w.obey(ctx, orders.Text())
		if err != nil {
			answer = "failed: " + strings.ReplaceAll(err.Error(), "\n", " ")
		}
		fmt.Println(cmp.Or(answer, "done"))
	}
	return orders.Err()
}

func (w *world) console(ctx context.Context, args ...string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	program := cmp.Or(w.program, self)
	cmd := exec.CommandContext(ctx, program, append([]string{"console", "--listen", "127.0.0.1:0"}, args...)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	cmd.Env = []string{operator.AsProgram + "=1"}
	for name, value := range w.call().Env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	w.wait.Go(func() { _ = cmd.Wait() }) // it ends with ctx
	w.process = cmp.Or(w.process, cmd.Process.Pid)
	line, err := bufio.NewReader(out).ReadString('\n')
	return strings.TrimSpace(line), err
}

func (w *world) memory() (string, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", w.process))
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		var kib float64
		if _, err := fmt.Sscanf(line, "VmHWM: %f kB", &kib); err == nil {
			return fmt.Sprintf("%.1f", kib/1024), nil
		}
	}
	return "", errors.New("the kernel does not say what is resident")
}

func (w *world) obey(ctx context.Context, order string) (answer string, err error) {
	verb, rest, _ := strings.Cut(order, " ")
	switch verb {
	case "say":
		return "", w.say(ctx, rest)
	case "settle":
		return "", w.settle(ctx, rest)
	case "away":
		w.stream.Close()
		w.server.Close()
		return "", nil
	case "back":
		return "", w.back(ctx)
	case "work":
		w.wait.Go(func() {
			if got := w.call().Run(ctx, "up", "--parts", "exporter,worker,notifier", "--policy", w.tb.PolicyFlag()); got.Code != 0 && ctx.Err() == nil {
				fmt.Fprintf(os.Stderr, "console: lbremedy up: %+v\n", got)
			}
		})
		return "", identity.Proves(ctx, w.tb.Cluster)
	case "memory":
		return w.memory()
	case "team":
		return w.console(ctx, "--login")
	case "account":
		return w.account(ctx, rest)
	}
	return "", fmt.Errorf("there is no order %q", order)
}

func (w *world) account(ctx context.Context, name string) (string, error) {
	accounts := w.tb.Cluster.Client().CoreV1().ServiceAccounts(w.tb.Namespace)
	if _, err := accounts.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		return "", err
	}
	if _, err := w.tb.Cluster.Impersonate(ctx, "system:serviceaccount:"+w.tb.Namespace+":"+name, []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"services"}, Verbs: []string{"list"}},
		{APIGroups: []string{"lbremedy.io"}, Resources: []string{"approvals"}, Verbs: []string{"create", "get", "list", "watch"}},
	}); err != nil {
		return "", err
	}
	token, err := accounts.CreateToken(ctx, name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	return token.Status.Token, nil
}

func (w *world) back(ctx context.Context) error {
	server, err := embedded.Start(embedded.Options{Dir: filepath.Join(w.dir, "nats"), Port: w.port, Token: w.token})
	if err != nil {
		return err
	}
	w.server = server
	if _, err := fmt.Sscanf(server.URL()[strings.LastIndexByte(server.URL(), ':')+1:], "%d", &w.port); err != nil {
		return err
	}
	w.stream, err = stream.Connect(ctx, stream.Config{URL: server.URL(), Token: w.token, Name: "lbremedy test", Grace: time.Second})
	return err
}

func (w *world) said() event.Record {
	if w.began.IsZero() {
		w.began = time.Now()
	}
	uid := "55555555-5555-4555-8555-555555555555"
	return event.Record{
		Origin: event.Origin{
			Case: uid[:8] + "-" + w.began.UTC().Format("20060102T150405"), Cluster: w.tb.ID, Class: "tag-missing",
			Service: event.Service{Namespace: "shop", Name: "said", UID: uid}, Event: "e.1", EventTime: w.began,
		},
		Run:      event.Run{At: time.Now(), Who: "worker", First: w.began, Attempts: []time.Time{}, Phase: event.Settled, Impact: event.NeverUp},
		Decision: event.Decision{Mode: "fix"},
	}
}

func (w *world) say(ctx context.Context, text string) error {
	r := w.said()
	r.Result, r.Message, r.Error = event.Asked, text, text
	r.Finding, r.Ask, r.Note, r.Rule = say.Literal(text), say.Literal(text), say.Literal(text), say.Literal(text)
	r.Risk, r.Digest = "high", "0123456789abcdef0123456789abcdef"
	step, err := json.Marshal(map[string]any{"set": map[string]string{text: text}, "was": map[string]string{text: text}})
	if err != nil {
		return err
	}
	r.Steps = []event.StepRecord{{Kind: "annotate", Text: say.Literal(text), Target: text, Risk: "high", Step: step}}
	return operator.Seed(ctx, w.stream, r)
}

func (w *world) settle(ctx context.Context, text string) error {
	r := w.said()
	r.Result, r.Finding = event.Fixed, say.Literal(text)
	return operator.Seed(ctx, w.stream, r)
}
