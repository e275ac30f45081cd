// Demo breaks LoadBalancer Services on a real kube-apiserver and shows how
// lbremedy heals them.
//
// The Kubernetes API and JetStream are real; the cloud and the controller are
// those of test/sim. The exporter, the worker and the classes are the ones that
// run in production, with the rights that they declare and no others.
//
// CLASSES=a,b shows all that can go wrong of these classes, and CLASSES=all of
// every class, in as many acts as it takes different clusters and accounts.
// CCM_BIN names a real controller, which takes the place of the simulated one,
// and CCM_VERSION its release.
// TABLE=1 prints at the end, in Markdown, one row for each class that was shown.
// KEEP=1 leaves the last act running until Ctrl-C and says how to look around.
// The exit code is 0 only if every Service ended as it should have, 2 for a
// mistake in CLASSES, 130 after Ctrl-C, else 1.
package main

import (
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
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/host"
	"github.com/lbremedy/lbremedy/shared/policy"
	"github.com/lbremedy/lbremedy/shared/policy/policyfile"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/shared/stream/embedded"
	"github.com/lbremedy/lbremedy/test/cluster"
	"github.com/lbremedy/lbremedy/test/scene"
	"github.com/lbremedy/lbremedy/test/sim/controller"
)

const (
	policyFile = "test/demo/policy.yaml"

	oldVersion = "v2.11.2" // of the controller
	newVersion = "v2.12.1"

	patience = 3 * time.Minute // for all Services of an act to end
	handlers = 16              // of one class at once
)

//go:embed policy.yaml
var policyText []byte

func main() {
	// What client-go says of the simulated controller's connections is for nobody here.
	klog.SetSlogLogger(slog.New(slog.DiscardHandler))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	s := newScreen(os.Stdout)
	code, err := run(ctx, s, os.Getenv("CLASSES"), set("TABLE"), set("KEEP"))
	if ctx.Err() != nil {
		if err != nil {
			code, err = 130, nil // what ended it is the signal
		}
		s.say("\nStopped, and cleaned up.")
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", event.Redact(err.Error()))
	}
	os.Exit(code)
}

// set reports whether a variable of the environment asks for something.
func set(name string) bool { return os.Getenv(name) != "" && os.Getenv(name) != "0" }

// An act is what is shown on one stage.
type act struct {
	setting scene.Setting
	roles   []scene.Role
	cluster *cluster.Cluster // nil: one is started
}

// usual is the act that is shown unless somebody chooses. The first three of a
// vSwitch find a place in the zone that they asked for, the others in the other one.
func usual() act {
	return act{setting: scene.Setting{Version: oldVersion, Upgrade: newVersion}, roles: []scene.Role{
		scene.FullVSwitch(scene.FullVSwitchH).As("cart"),
		scene.FullVSwitch(scene.FullVSwitchH).As("catalog"),
		scene.FullVSwitch(scene.FullVSwitchI).As("checkout"),
		scene.FullVSwitch(scene.FullVSwitchI).As("invoices"),
		scene.AnyVSwitch().As("search"),
		scene.FixedAddress().As("ledger"),
		scene.LostTag().As("web"),
		scene.LostTagFullSync().As("api"),
		scene.Gone().As("images"),
		scene.Unbound().As("partners"),
		scene.NamesNone().As("mail"),
		scene.NoListener().As("dns"),
		scene.NoListener().As("metrics"),
		scene.NoTagging().As("login"),
		scene.Unheard().As("reports"),
	}}
}

// program returns the acts for these classes, which commas separate; empty: the
// usual one.
func program(classes string) ([]act, error) {
	if classes == "" {
		return []act{usual()}, nil
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
	var acts []act
	for _, roles := range scene.Casts(scene.Of(chosen...)) {
		acts = append(acts, act{setting: roles[0].On, roles: roles})
	}
	return acts, nil
}

// playable returns the acts with what the controller that there is can play.
func playable(acts []act) ([]act, error) {
	for i := range acts {
		acts[i].roles = slices.DeleteFunc(acts[i].roles, func(r scene.Role) bool { return !r.Playable() })
	}
	acts = slices.DeleteFunc(acts, func(a act) bool { return len(a.roles) == 0 })
	if len(acts) == 0 {
		bin, version := controller.Real()
		return nil, fmt.Errorf("the controller %s, a %s, fails in none of these ways: choose other CLASSES", bin, version)
	}
	return acts, nil
}

// run is the demonstration from its start to its end.
func run(ctx context.Context, s *screen, classes string, rows, keep bool) (code int, err error) {
	acts, err := program(classes)
	if err == nil {
		acts, err = playable(acts)
	}
	if err != nil {
		return 2, err
	}
	s.title("lbremedy heals LoadBalancer Services whose syncs fail")
	began := time.Now()
	var sum total
	for i, a := range acts {
		if len(acts) > 1 {
			s.section("Act %d of %d", i+1, len(acts))
		}
		last := func() {}
		if i == len(acts)-1 {
			last = func() {
				s.verdict(&sum, time.Since(began))
				if rows {
					s.say("\n" + markdown(functions.All, sum.outcomes))
				}
			}
		}
		if err := perform(ctx, s, a, &sum, last, keep); err != nil {
			return 1, err
		}
	}
	if len(sum.wrong) > 0 {
		return 1, nil
	}
	return 0, nil
}

// perform shows an act and adds to the sum how it ended. The last act is followed
// by what is said at the end, and then by what is left running.
func perform(ctx context.Context, s *screen, a act, sum *total, last func(), keep bool) error {
	dir, err := os.MkdirTemp("", "lbremedy-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	began := time.Now()
	stage, err := scene.Start(ctx, scene.Options{Setting: a.setting, Cluster: a.cluster, RAMDelay: time.Second})
	if err != nil {
		return err
	}
	defer stage.Close()
	version, err := stage.Cluster.Client().Discovery().ServerVersion()
	if err != nil {
		return fmt.Errorf("ask for the version of Kubernetes: %w", err)
	}
	s.fact("Kubernetes", "%s: a real kube-apiserver and etcd, up in %.1f s", version.GitVersion, time.Since(began).Seconds())
	s.fact("Cloud", "simulated OpenAPI at %s, where RAM decides who may do what", stage.Cloud.Addr())
	kind := "simulated CCM " + stage.Version()
	if bin, version := controller.Real(); bin != "" {
		kind = fmt.Sprintf("%s, taken for CCM %s", bin, version)
	}
	s.fact("Controller", "%s, under the RAM role of the masters, with its back-off of 5 s to 300 s", kind)

	token := rand.Text()
	server, err := embedded.Start(embedded.Options{Dir: filepath.Join(dir, "nats"), Port: -1, Token: token, Sync: true})
	if err != nil {
		return err
	}
	defer server.Close()
	s.fact("NATS", "JetStream at %s, each message on disk (fsync) before it counts", server.URL())

	h, end, err := lbremedy(ctx, s, stage, server.URL(), token)
	if err != nil {
		return err
	}
	defer end()

	if err := stage.Prepare(ctx, a.roles...); err != nil {
		return err
	}
	s.fit(a.roles)
	s.section("%d Services. What goes wrong:", len(a.roles))
	for _, r := range a.roles {
		s.story(r)
	}
	s.section("How it goes on:")
	p := newPlay(s, stage, a.roles)
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
	if err := stage.Spoil(ctx, a.roles...); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := stage.Until(limited, p.ended); err != nil && limited.Err() == nil {
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	p.table(sum)
	sum.wrong = append(sum.wrong, leftovers(ctx, stage, h.Env.Stream, a.roles)...)
	last()
	if keep {
		if err := s.guide(dir, a.roles[0].Service, stage, server.URL(), token); err != nil {
			return err
		}
		<-ctx.Done()
	}
	return nil
}

// lbremedy starts the exporter and the worker. end ends them.
func lbremedy(ctx context.Context, s *screen, stage *scene.Stage, url, token string) (_ *host.Host, end func(), err error) {
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
	if _, err := st.Setup(ctx, h.Classes(), stream.Settings{Clusters: []string{scene.ClusterID}}); err != nil {
		return nil, nil, err
	}
	rules, err := policyfile.Parse(policyText, h.Classes(), remedy.Sections(h.Remedies...)...)
	if err != nil {
		return nil, nil, fmt.Errorf("policy file %s: %w", policyFile, err)
	}
	if err := policy.Publish(ctx, st, scene.ClusterID, rules); err != nil {
		return nil, nil, err
	}
	s.fact("Policy", "%s: %s", policyFile, summary(rules))
	if h.Env, err = stage.Env(ctx, st, "up"); err != nil {
		return nil, nil, err
	}
	e, err := stage.Exporter(ctx, st)
	if err != nil {
		return nil, nil, err
	}
	s.fact("lbremedy", "exporter and worker in fix mode, with the rights that %d classes declare", len(h.Remedies))

	running, cancel := context.WithCancel(ctx)
	var wait sync.WaitGroup
	for name, run := range map[string]func(context.Context) error{
		"exporter": e.Run,
		"worker":   func(ctx context.Context) error { return h.Work(ctx, handlers) },
	} {
		wait.Go(func() {
			if err := run(running); err != nil && running.Err() == nil {
				s.trouble("the %s has ended: %v", name, err)
			}
		})
	}
	return h, func() { cancel(); wait.Wait(); st.Close() }, nil
}

// summary says in a few words what a policy allows.
func summary(p remedy.Policy) string {
	text := fmt.Sprintf("%s up to %s risk", p.Mode, p.Risk)
	for _, r := range functions.All {
		if c, ok := p.Classes[r.Class]; ok && c.Risk != nil {
			text += fmt.Sprintf(", %s up to %s", r.Class, *c.Risk)
		}
	}
	return text
}

// leftovers returns what went wrong beside the Services.
func leftovers(ctx context.Context, stage *scene.Stage, st *stream.Stream, roles []scene.Role) []string {
	var wrong []string
	denied := slices.ContainsFunc(roles, func(r scene.Role) bool { return r.Class == "ram-permission" && r.Ends == event.Fixed })
	if n := stage.WorkerCalls("CreatePolicyVersion"); denied && n != 1 {
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
