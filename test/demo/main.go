// Demo breaks LoadBalancer Services on a real kube-apiserver and shows how lbremedy repairs them. JetStream is real, too; cloud
// and controller are those of test/sim. Exporter, worker and classes are those of production, with only their declared rights.
//
// CLASSES=a,b shows all failures of these classes, CLASSES=all those of every class, on as many testbeds as they need. CCM_BIN
// names a real controller that replaces the simulated one, and CCM_VERSION its release. TABLE=1 finally prints a Markdown row for
// each class. KEEP=1 leaves the last testbed running until Ctrl-C and prints how to inspect it. The exit code is 0 only if every
// Service ended as expected, 2 for a mistake in CLASSES, 130 after Ctrl-C, else 1.
package main

import (
	"cmp"
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"k8s.io/klog/v2"

	"github.com/lbremedy/lbremedy/functions"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/approval"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/host"
	"github.com/lbremedy/lbremedy/shared/policy"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/shared/stream/embedded"
	"github.com/lbremedy/lbremedy/test/cluster"
	"github.com/lbremedy/lbremedy/test/identity"
	"github.com/lbremedy/lbremedy/test/operator"
	"github.com/lbremedy/lbremedy/test/sim/controller"
	"github.com/lbremedy/lbremedy/test/testbed"
)

const (
	policyFile = "test/demo/policy.yaml"

	oldVersion = "v2.11.2" // of the controller
	newVersion = "v2.12.1"

	quiet    = 45 * time.Second // maximum idle time of a controller that is to break Services
	patience = 3 * time.Minute  // for all Services of a testbed to work first, and then to fail and to end
	handlers = 16               // for each class
)

//go:embed policy.yaml
var policyText []byte

func main() {
	if serveFunction() {
		return
	}
	// client-go's messages about the simulated controller's connections are not useful here.
	klog.SetSlogLogger(slog.New(slog.DiscardHandler))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	s := newScreen(os.Stdout)
	code, err := run(ctx, s, os.Getenv("CLASSES"), set("TABLE"), set("KEEP"))
	if ctx.Err() != nil {
		if err != nil {
			code, err = 130, nil // ended by the signal
		}
		s.say("\nStopped, and cleaned up.")
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", event.Redact(err.Error()))
	}
	os.Exit(code)
}

func set(name string) bool { return os.Getenv(name) != "" && os.Getenv(name) != "0" }

type group struct {
	config   testbed.Config
	fixtures []testbed.Fixture
	cluster  *cluster.Cluster // nil: start one
	quiet    time.Duration    // zero: the default
}

func called(g group) string {
	if bin, version := controller.Real(); bin != "" {
		return fmt.Sprintf("%s, taken for CCM %s", bin, version)
	}
	version := cmp.Or(g.config.Version, testbed.DefaultVersion)
	if g.config.Upgrade == "" {
		return "simulated CCM " + version
	}
	return fmt.Sprintf("simulated CCM %s (%s at first)", g.config.Upgrade, version)
}

// usual is the default group. The first three Services of a vSwitch find room in the requested zone, the others in the other zone.
func usual() group {
	return group{config: testbed.Config{Version: oldVersion, Upgrade: newVersion}, fixtures: []testbed.Fixture{
		testbed.FullVSwitch(testbed.FullVSwitchH).As("cart"),
		testbed.FullVSwitch(testbed.FullVSwitchH).As("catalog"),
		testbed.FullVSwitch(testbed.FullVSwitchI).As("checkout"),
		testbed.FullVSwitch(testbed.FullVSwitchI).As("invoices"),
		testbed.AnyVSwitch().As("search"),
		testbed.FixedAddress().As("ledger"),
		testbed.LostTag().As("web"),
		testbed.LostTagFullSync().As("api"),
		testbed.Gone().As("images"),
		testbed.Unbound().As("partners"),
		testbed.NamesNone().As("mail"),
		testbed.NoListener().As("dns"),
		testbed.NoListener().As("metrics"),
		testbed.NoTagging().As("login"),
		testbed.Unheard().As("reports"),
	}}
}

func choose(classes string) ([]group, error) {
	if classes == "" {
		return []group{usual()}, nil
	}
	known := (&host.Host{Remedies: functions.All}).Classes()
	var chosen []string
	for class := range strings.SplitSeq(classes, ",") {
		switch class = strings.TrimSpace(class); {
		case class == "all":
			chosen = known
		case !slices.Contains(known, class):
			return nil, fmt.Errorf("CLASSES names %q, and there is no such class; there are %s, and all", class, strings.Join(known, ", "))
		default:
			chosen = append(chosen, class)
		}
	}
	var groups []group
	for _, fixtures := range testbed.ByConfig(testbed.Of(chosen...)) {
		groups = append(groups, group{config: fixtures[0].Config, fixtures: fixtures})
	}
	return groups, nil
}

func supported(groups []group) ([]group, error) {
	for i := range groups {
		groups[i].fixtures = slices.DeleteFunc(groups[i].fixtures, func(f testbed.Fixture) bool { return !f.Supported() })
	}
	groups = slices.DeleteFunc(groups, func(g group) bool { return len(g.fixtures) == 0 })
	if len(groups) == 0 {
		bin, version := controller.Real()
		return nil, fmt.Errorf("the controller %s, a %s, fails in none of these ways: choose other CLASSES", bin, version)
	}
	return groups, nil
}

func run(ctx context.Context, s *screen, classes string, rows, keep bool) (code int, err error) {
	groups, err := choose(classes)
	if err == nil {
		groups, err = supported(groups)
	}
	if err != nil {
		return 2, err
	}
	s.title("lbremedy heals LoadBalancer Services whose syncs fail")
	began := time.Now()
	var sum total
	for i, g := range groups {
		if len(groups) > 1 {
			s.section("Testbed %d of %d", i+1, len(groups))
		}
		last := func() {}
		if i == len(groups)-1 {
			last = func() {
				s.verdict(&sum, time.Since(began))
				if rows {
					s.say("\n" + markdown(functions.All, sum.outcomes))
				}
			}
		}
		if err := show(ctx, s, g, &sum, last, keep); err != nil {
			return 1, err
		}
	}
	if len(sum.wrong) > 0 {
		return 1, nil
	}
	return 0, nil
}

// show shows a group and adds its results to the sum. After the last group it calls last, and keep leaves the group running.
func show(ctx context.Context, s *screen, g group, sum *total, last func(), keep bool) error {
	dir, err := os.MkdirTemp("", "lbremedy-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	began := time.Now()
	tb, err := testbed.Start(ctx, testbed.Options{Config: g.config, Cluster: g.cluster, RAMDelay: time.Second})
	if err != nil {
		return err
	}
	defer tb.Close()
	version, err := tb.Cluster.Client().Discovery().ServerVersion()
	if err != nil {
		return fmt.Errorf("ask for the version of Kubernetes: %w", err)
	}
	s.fact("Kubernetes", "%s: a real kube-apiserver and etcd, up in %.1f s", version.GitVersion, time.Since(began).Seconds())
	s.fact("Cloud", "simulated OpenAPI at %s, where RAM decides who may do what", tb.Cloud.Addr())
	s.fact("Controller", "%s, under the RAM role of the masters, with its back-off of 5 s to 300 s", called(g))

	token := rand.Text()
	server, err := embedded.Start(embedded.Options{Dir: filepath.Join(dir, "nats"), Port: -1, Token: token, Sync: true})
	if err != nil {
		return err
	}
	defer server.Close()
	s.fact("NATS", "JetStream at %s, each message on disk (fsync) before it counts", server.URL())

	h, end, err := lbremedy(ctx, s, tb, dir, server.URL(), token)
	if err != nil {
		return err
	}
	defer end()

	preparing, prepared := context.WithTimeout(ctx, patience)
	defer prepared()
	guarded, unguard := context.WithCancel(ctx)
	var guard sync.WaitGroup
	guard.Go(func() { tb.Guard(guarded, cmp.Or(g.quiet, quiet)) })
	heard := func() { unguard(); guard.Wait() }
	defer heard()
	if err := tb.Prepare(preparing, g.fixtures...); err != nil {
		return err
	}
	s.fit(g.fixtures)
	s.section("%d Services. What goes wrong:", len(g.fixtures))
	for _, f := range g.fixtures {
		s.story(f)
	}
	s.section("How it goes on:")
	p := newProgress(s, tb, g.fixtures)
	following, quiet := context.WithCancel(ctx)
	var wait sync.WaitGroup
	defer wait.Wait()
	defer quiet()
	for _, f := range []struct {
		stream, subjects string
		see              func(stream.Message) error
	}{{stream.Failed, event.FailedSubjects, p.failure}, {stream.Cases, event.CaseSubjects, p.record}} {
		wait.Go(func() {
			if err := h.Env.Stream.Tail(following, f.stream, f.subjects, 0, f.see); err != nil && following.Err() == nil {
				p.broke(fmt.Errorf("follow the stream %s: %w", f.stream, err))
			}
		})
	}
	s.begin()
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := tb.Inject(limited, g.fixtures...); err != nil {
		return err
	}
	heard()
	if err := tb.Until(limited, p.ended); err != nil && limited.Err() == nil {
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	p.table(sum)
	sum.wrong = append(sum.wrong, leftovers(ctx, tb, h.Env.Stream, g.fixtures)...)
	last()
	if keep {
		if err := identity.Proves(ctx, tb.Cluster); err != nil { // answers before that do not count
			return err
		}
		address, ended, err := console(ctx, dir, tb, server.URL(), token)
		if err != nil {
			return err
		}
		if err := s.guide(dir, tb.About(g.fixtures[0]), address, tb, server.URL(), token); err != nil {
			return err
		}
		<-ctx.Done()
		ended()
	}
	return nil
}

func console(ctx context.Context, dir string, tb *testbed.Testbed, url, token string) (address string, ended func() int, err error) {
	environ := map[string]string{"HOME": dir}
	for _, v := range tb.Environ(url, token) {
		name, value, _ := strings.Cut(v, "=")
		environ[name] = value
	}
	return operator.Call{Env: environ}.Console(ctx)
}

func lbremedy(ctx context.Context, s *screen, tb *testbed.Testbed, dir, url, token string) (_ *host.Host, end func(), err error) {
	st, err := stream.Connect(ctx, stream.Config{URL: url, Token: token, Name: "lbremedy demo", Grace: time.Second})
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			st.Close()
		}
	}()
	h := &host.Host{Remedies: functions.All}
	if err := h.Validate(); err != nil {
		return nil, nil, err
	}
	if _, err := st.Setup(ctx, h.Classes(), stream.Settings{Clusters: []string{testbed.ClusterID}}); err != nil {
		return nil, nil, err
	}
	v, err := new(cli.Program).ParsePolicy(policyText)
	if err != nil {
		return nil, nil, fmt.Errorf("policy file %s: %w", policyFile, err)
	}
	if err := tb.Allow(ctx, v.Text); err != nil {
		return nil, nil, err
	}
	// No "lbremedy up" runs here that would store it for the console.
	told := policy.InForce{Version: v.Digest, Text: v.Text, Source: "a ConfigMap with " + policyFile, Since: time.Now()}
	if err := told.Put(ctx, st, testbed.ClusterID); err != nil {
		return nil, nil, err
	}
	s.fact("Policy", "%s: %s", policyFile, summary(v.Policy))
	if h.Env, err = tb.Env(ctx, st, "up", new(cli.Program).ParsePolicy); err != nil {
		return nil, nil, err
	}
	if _, err := identity.Approve(ctx, tb.Cluster); err != nil {
		return nil, nil, fmt.Errorf("install Approvals: %w", err)
	}
	endFunction, err := function(ctx, s, tb, h.Env, dir)
	if err != nil {
		return nil, nil, err
	}
	e, err := tb.Exporter(ctx, st)
	if err != nil {
		endFunction()
		return nil, nil, err
	}
	s.fact("lbremedy", "exporter and worker in fix mode, with the rights that %d classes declare", len(h.Remedies))

	running, cancel := context.WithCancel(ctx)
	var wait sync.WaitGroup
	answers := &approval.Redeliverer{Cluster: tb.ID, Kube: h.Env.Kube, Stream: st, Now: time.Now, Log: slog.New(slog.DiscardHandler), Said: func(say.Text) {}}
	for name, run := range map[string]func(context.Context) error{
		"exporter":    e.Run,
		"redeliverer": answers.Run,
		"worker":      func(ctx context.Context) error { return h.Work(ctx, handlers) },
	} {
		wait.Go(func() {
			if err := run(running); err != nil && running.Err() == nil {
				s.trouble("the %s has ended: %v", name, err)
			}
		})
	}
	return h, func() { cancel(); wait.Wait(); st.Close(); endFunction() }, nil
}

func summary(p remedy.Policy) string {
	text := fmt.Sprintf("%s up to %s risk", p.Mode, p.Risk)
	for _, r := range functions.All {
		if c, ok := p.Classes[r.Class]; ok && c.Risk != nil {
			text += fmt.Sprintf(", %s up to %s", r.Class, *c.Risk)
		}
	}
	return text
}

func leftovers(ctx context.Context, tb *testbed.Testbed, st *stream.Stream, fixtures []testbed.Fixture) []string {
	var wrong []string
	denied := slices.ContainsFunc(fixtures, func(f testbed.Fixture) bool { return f.Class == "ram-permission" && f.Ends == event.Fixed })
	if n := tb.WorkerCalls("CreatePolicyVersion"); denied && n != 1 {
		wrong = append(wrong, fmt.Sprintf("The RAM policy got %d new versions; the Services that lack the same right need one.", n))
	}
	switch _, err := st.Last(ctx, stream.Dead, "lbremedy.dead.>"); {
	case err == nil:
		wrong = append(wrong, "A message went to the stream DEAD: something could not be handled.")
	case !errors.Is(err, stream.ErrNotFound):
		wrong = append(wrong, "Whether a message went to the stream DEAD can't be told: "+err.Error()+".")
	}
	return wrong
}
