// Package up holds "up", which runs the parts of lbremedy in one process or prepares NATS, and "keys", which makes an engine's key. Begin
// with Commands.
package up

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/lbremedy/lbremedy/events/exporter"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/journal"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/permission"
	checks "github.com/lbremedy/lbremedy/functions/doctor"
	"github.com/lbremedy/lbremedy/shared/approval"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/control"
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/event/table"
	"github.com/lbremedy/lbremedy/shared/hand"
	"github.com/lbremedy/lbremedy/shared/host"
	"github.com/lbremedy/lbremedy/shared/ledger"
	"github.com/lbremedy/lbremedy/shared/observe"
	"github.com/lbremedy/lbremedy/shared/observe/trace"
	"github.com/lbremedy/lbremedy/shared/policy"
	"github.com/lbremedy/lbremedy/shared/policy/policyfile"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/retry"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/serve"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/shared/ticket"
)

// Commands returns the commands of this package.
func Commands(p *cli.Program) []*cobra.Command {
	return []*cobra.Command{upCommand(p), keysCommand(p)}
}

type upRun struct {
	*cli.Program
	policy, listen string
	routes, key    string // --routes, --engine-key
	functions      map[string]*hand.Remote
	source         *policyfile.Source // of the policy
	reported       policy.InForce     // last reported
	unreported     bool               // not reported to NATS yet
	chosen         string             // --parts
	parts          parts
	workers, runs  int
	probes         probes
	every          time.Duration // interval of scheduled runs; zero: none
	rate           float64       // budget of a namespace
	burst          int
	posts          exporter.Posts
	secrets        []string // with the secrets and templates that sinks may name
	streams        stream.Settings
	setup          bool // only set up NATS
	metrics        *observe.Metrics
	traces         *trace.Sender // nil: none are sent

	mu   sync.Mutex
	said map[string]string // last printed line by Service and class
}

func upCommand(p *cli.Program) *cobra.Command {
	u := &upRun{Program: p, said: map[string]string{}}
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Watch a cluster and handle its failures, all in one process",
		Long: `Watch a cluster for failed load-balancer syncs and handle each failure: find the cause,
show what would be done, and apply what the policy allows. Exporter, stream, a worker for
all classes and the notifier run in this one process until it is interrupted.

With --parts it runs only some of them, next to others on the NATS of --nats: the exporter
stores failures, the worker handles them, and the notifier opens tickets and exports the
metrics of the stream.

With --probe the notifier creates a harmless test Event for each class, about the Service
lbremedy-probe, which must exist, and measures how long its outcome takes.

Each class is handled in this process, or by a function where the file of --routes names
one. Calls of functions are signed with the key of --engine-key, which "lbremedy keys" makes.

The stream is an embedded NATS JetStream on loopback, with its data in the state directory.
With --nats an existing NATS is used instead.

Without --policy nothing is ever written. --policy names a file, or a ConfigMap in whose key
policy.yaml the policy is. It is read before each write: from disk, or from the API server.
While it is missing, unreadable or invalid, nothing is written; no older policy takes its
place. "lbremedy policy show" says what is in force.

With --setup it creates or updates what lbremedy needs in NATS, and exits. A stream that is
larger than the default stays so: only a flag for its size or age makes it smaller.

Standard output has one line for each change of a case, or the whole record with -o json.
Traces are sent to the OpenTelemetry collector in OTEL_EXPORTER_OTLP_ENDPOINT.`,
		Example: `  lbremedy up --cluster c1234 --region cn-hangzhou
  lbremedy up --cluster c1234 --region cn-hangzhou --policy fix.yaml --listen :8080
  lbremedy up --cluster c1234 --region cn-hangzhou --policy configmap:lbremedy/lbremedy-policy
  lbremedy up --cluster c1234 --region cn-hangzhou --nats tls://nats:4222 --parts notifier`,
		Args: command.Exactly(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if u.streams.Replicas < 0 {
				return command.Wrong("--replicas: %d is negative", u.streams.Replicas)
			}
			if u.setup {
				return u.setUp(cmd.Context())
			}
			return u.run(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&u.policy, "policy", "", "what may be done: a `file` or configmap:NAMESPACE/NAME; without it lbremedy observes")
	cmd.Flags().StringVar(&u.routes, "routes", "", "routes `file`: the functions that handle classes; without it all are handled in this process")
	cmd.Flags().StringVar(&u.key, "engine-key", "", "`file` with the private key that signs calls of functions, from lbremedy keys")
	cmd.Flags().StringVar(&u.listen, "listen", "", "`address` for /healthz, /readyz and /metrics, such as :8080; without it none is opened")
	cmd.Flags().StringVar(&u.chosen, "parts", allParts, "`parts` to run, separated by commas")
	cmd.Flags().IntVar(&u.workers, "workers", 128, "maximum failures of one class that are handled at once")
	cmd.Flags().IntVar(&u.runs, "runs", 256, "maximum failures that are handled at once, over all classes")
	cmd.Flags().Float64Var(&u.rate, "namespace-rate", exporter.DefaultRate,
		"`number` of failures of one namespace that are published per second; more wait, the newest of each Service and class")
	cmd.Flags().IntVar(&u.burst, "namespace-burst", exporter.DefaultBurst, "`number` of failures of one namespace that are published at once")
	u.posts.Flags(cmd.Flags().StringVar)
	p.SecretFlag(cmd, &u.secrets)
	cmd.Flags().BoolVar(&u.setup, "setup", false, "create or update what lbremedy needs in NATS, and exit")
	cmd.Flags().IntVar(&u.streams.Replicas, "replicas", 0, "replicas of new streams; 0: one, and existing streams keep theirs")
	sizeFlags(cmd, &u.streams)
	u.probes.flags(p, cmd)
	cmd.Flags().DurationVar(&u.every, "doctor", 0,
		"run the doctor on the whole cluster at this `interval`, such as 1h, and open and close cases for its findings (default: never)")
	return cmd
}

func (u *upRun) setUp(ctx context.Context) error {
	c := u.streams
	if c.Clusters = []string{u.Cluster}; u.Cluster == "" {
		c.Clusters = nil
		u.Note("No cluster is named with --cluster: consumers are not changed.")
	}
	s, err := u.Stream(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	done, err := s.Setup(ctx, u.Classes(), c)
	if err != nil {
		return err
	}
	return u.Print(append([]string{}, done...), func() {
		for _, said := range done {
			fmt.Fprintln(u.Out, said)
		}
		if len(done) == 0 {
			fmt.Fprintln(u.Out, u.Phrase("Everything is up to date."))
		}
	})
}

func (u *upRun) run(ctx context.Context) error {
	var err error
	if u.parts, err = readParts(u.chosen); err != nil {
		return err
	}
	config := u.Host()
	config.Who, config.Handlers = u.parts.who(), u.runs
	if err := config.Validate(); err != nil {
		return command.Mistake{Err: err}
	}
	switch {
	case u.NATS == "" && !(u.parts.exporter && u.parts.worker): // an embedded NATS holds what its exporter stores for its worker
		return command.Wrong("--parts: exporter and worker don't both run here: name the NATS that they share with --nats or LBREMEDY_NATS")
	case u.policy != "" && !u.parts.worker && !u.parts.notifier:
		return command.Wrong("--policy: an exporter alone does not apply a policy: leave it out, or add worker or notifier to --parts")
	case u.every != 0 && !u.parts.worker:
		return command.Wrong("--doctor: only the worker runs the doctor: leave it out, or add worker to --parts")
	case u.workers < 1:
		return command.Wrong("--workers: %d is less than one", u.workers)
	case u.runs < 1:
		return command.Wrong("--runs: %d is less than one", u.runs)
	case !(u.rate > 0) || math.IsInf(u.rate, 0) || u.burst < 1:
		return command.Wrong("--namespace-rate and --namespace-burst: %g and %d are not both above zero", u.rate, u.burst)
	case u.every != 0 && u.every < oftenest:
		return command.Wrong("--doctor: %s is less than %s: each run takes API calls from the controller", u.every, oftenest)
	case u.posts.Address != "" && !u.parts.exporter:
		return command.Wrong("--from-http: only the exporter reads Events: leave it out, or add exporter to --parts")
	}
	if err := u.probes.check(u.Program, u.parts); err != nil {
		return err
	}
	if err := u.choose(ctx); err != nil {
		return err
	}
	var listener net.Listener
	if u.listen != "" {
		if listener, err = net.Listen("tcp", u.listen); err != nil {
			return command.Wrong("--listen: %w", err)
		}
		defer listener.Close()
	}
	u.posts.Token = os.Getenv(exporter.PostsToken)
	posts, err := u.posts.Listen()
	if err != nil {
		return command.Mistake{Err: err}
	}
	if posts != nil {
		defer posts.Close()
	}
	if u.traces, err = trace.New(ctx, u.Version, u.Cluster, u.Log()); err != nil {
		return command.Mistake{Err: err}
	}
	defer u.endTraces(ctx)
	u.metrics = observe.New(u.Version, u.Cluster)
	if u.parts.worker {
		u.metrics.Runs(u.Classes(), table.Kinds())
	}
	count := u.metrics.Calls() // a notifier calls the cloud too: tickets are one of its products
	config.Meter = func(k cloud.Call) { count(k.Product, k.Action, k.Status, k.Throttled, k.Duration) }
	env, err := u.env(ctx, config)
	if err != nil {
		return err
	}
	if err := u.hands(env); err != nil {
		return err
	}
	if config.NATS == "" {
		server, err := u.Embed()
		if err != nil {
			return err
		}
		defer server.Close()
	}
	if err := u.Locate(&config); err != nil {
		return err
	}
	s, err := cli.Dial(ctx, config)
	if err != nil {
		return err
	}
	defer s.Close()
	env.Stream = s
	if err := u.begin(ctx, s); err != nil {
		return err
	}
	env.Policy = func(ctx context.Context) (remedy.Policy, error) {
		v, err := u.source.Read(ctx)
		return v.Policy, err
	}
	return u.work(ctx, env, listener, posts)
}

// env connects to the cluster and the cloud. A notifier alone uses them only to send to a sink of kind event or alibaba.
func (u *upRun) env(ctx context.Context, config host.Config) (*host.Connection, error) {
	if u.parts.notifier && !u.parts.exporter && !u.parts.worker {
		config.Credentials = u.Keys
		env, err := host.ConnectReads(config)
		if err != nil {
			return nil, command.Mistake{Err: err}
		}
		return env, nil
	}
	env, err := u.ConnectReads(ctx, config)
	if err != nil {
		return nil, err
	}
	if _, err := env.Kube.EventsVersion(ctx); err != nil {
		return nil, err
	}
	return env, nil
}

// endTraces sends the waiting traces. A collector that doesn't answer doesn't keep the program from ending.
func (u *upRun) endTraces(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := u.traces.Shutdown(ctx); err != nil {
		u.Log().Warn("the last traces were not sent", "error", event.Redact(err.Error()))
	}
}

// choose treats an unusable file as the caller's mistake; a ConfigMap may be repaired while up runs.
func (u *upRun) choose(ctx context.Context) (err error) {
	if u.policy == "" {
		u.source = policyfile.FromNothing(u.ParsePolicy)
		return nil
	}
	if u.source, err = u.PolicySource(u.policy); err != nil || cli.InConfigMap(u.policy) {
		return err
	}
	if _, err := u.source.Read(ctx); err != nil {
		return command.Mistake{Err: err}
	}
	return nil
}

// inForce prints a change of the policy, and reports the policy to NATS.
func (u *upRun) inForce(ctx context.Context, s *stream.Stream) {
	v, err := u.source.Read(ctx)
	if ctx.Err() != nil {
		return
	}
	now, before := policy.InForce{
		Version: v.Digest, Text: v.Text, Source: u.source.Name, Since: u.Now(), Declared: cli.IDs(u.Declared),
	}, u.reported
	if err != nil {
		now.Wrong = event.Redact(err.Error())
	}
	if now.Version != before.Version || now.Wrong != before.Wrong {
		u.reported, u.unreported = now, true
		switch {
		case err != nil:
			u.Log().Error("nothing is written: the policy cannot be used", "error", now.Wrong)
			u.Note("Mode: paused (%s).", strings.ReplaceAll(now.Wrong, "\n", "; "))
		case before.Version != "":
			u.Note("Mode: %s (%s has changed).", permission.Describe(v.Policy), now.Source)
		case u.policy == "":
			u.Note("Mode: %s (%s).", permission.Describe(v.Policy), say.F("no policy file"))
		default:
			u.Note("Mode: %s (%s).", permission.Describe(v.Policy), say.F("policy of %s", now.Source))
		}
	}
	if !u.unreported {
		return
	}
	if is, err := policy.Get(ctx, s, u.Cluster); err != nil || is.Version != u.reported.Version || is.Wrong != u.reported.Wrong ||
		is.Source != u.reported.Source || !slices.Equal(is.Declared, u.reported.Declared) {
		if err := u.reported.Put(ctx, s, u.Cluster); err != nil {
			u.Log().Warn("commands don't know the policy in force; trying again", "error", err)
			return
		}
	}
	u.unreported = false
}

func (u *upRun) begin(ctx context.Context, s *stream.Stream) error {
	c := u.streams
	c.Clusters = []string{u.Cluster}
	changed, lacking, err := s.SetupOrUse(ctx, u.Classes(), c)
	if err != nil {
		return err
	}
	for _, said := range changed {
		u.Log().Info("NATS was set up", "change", said)
	}
	for _, said := range lacking {
		u.Log().Warn("NATS is used as it is", "change", said)
	}
	switch {
	case u.parts.exporter:
		u.Note("Watching cluster %s in %s for %d classes.", u.Cluster, u.Region, len(u.All()))
	case u.parts.worker:
		u.Note("Handling failures of cluster %s in %s for %d classes.", u.Cluster, u.Region, len(u.All()))
	default:
		u.Note("Opening tickets for failures of cluster %s in %s.", u.Cluster, u.Region)
	}
	if u.parts.worker { // only the engine reports the policy
		u.inForce(ctx, s)
	}
	return nil
}

// work runs the parts until ctx ends. posts listens for EventBridge; nil: Events are watched.
func (u *upRun) work(ctx context.Context, env *host.Connection, listener, posts net.Listener) error {
	g, ctx := errgroup.WithContext(ctx)
	var begin []func() error // called once all parts are known to be valid
	var x *exporter.Exporter
	var err error
	if u.parts.exporter {
		c := exporter.Config{
			Cluster: u.Cluster, Kube: env.Kube, Stream: env.Stream, Classifier: u.Classifier(), Log: env.Log,
			Rate: u.rate, Burst: u.burst, Now: env.Now,
		}
		if posts != nil {
			c.Posts = &u.posts
			begin = append(begin, func() error { return x.Serve(ctx, posts) })
		}
		if x, err = exporter.New(c); err != nil {
			return err
		}
		begin = append(begin, func() error { return x.Run(ctx) })
	}
	if u.parts.worker {
		h := &host.Host{Env: env.Env, Remedies: u.All(), OnRun: u.seen}
		if err := h.Validate(); err != nil {
			return err
		}
		w := &approval.Redeliverer{
			Cluster: u.Cluster, Kube: env.Kube, Stream: env.Stream, Now: u.Now, Log: u.Log(), Said: func(text say.Text) { u.Note("%s", text) },
		}
		begin = append(begin,
			func() error { return h.Work(ctx, u.workers) },
			func() error {
				standing := func(ctx context.Context) ([]event.Record, error) {
					return ticket.OpenFailures(ctx, env.Stream, u.Cluster)
				}
				return (&host.Rechecker{Env: env.Env, Remedies: u.All(), OpenFailures: standing}).Run(ctx)
			},
			func() error { return w.Run(ctx) })
		if u.every > 0 {
			p := &doctor.ScheduledRun{Env: env.Env, Cloud: env.Clients.Cloud, Checks: checks.Checks()}
			said := u.metrics.Doctor(checkIDs(p.Checks), u.every)
			begin = append(begin, func() error { return u.scheduled(ctx, p, said) })
		}
	}
	var tickets *notifier
	if u.parts.notifier {
		if tickets, err = u.notifier(ctx, env); err != nil {
			return err
		}
		begin = append(begin, func() error { return tickets.run(ctx) })
		if u.probes.every > 0 {
			said := u.metrics.Probe(u.probes.classes, u.probes.every)
			begin = append(begin, func() error { return u.probing(ctx, env, said) })
		}
	}
	if u.parts.worker {
		begin = append(begin, func() error { return u.follow(ctx, env.Stream) })
	}
	if len(u.functions) > 0 && u.parts.worker {
		begin = append(begin, func() error { return u.reach(ctx) })
	}
	if listener != nil {
		u.Note("Health: http://%s/readyz", listener.Addr())
		begin = append(begin, u.measure(ctx, env.Stream, x, tickets)...)
		begin = append(begin, func() error {
			return serve.Serve(ctx, listener, observe.Health(ready(x, env.Stream, u.source), u.metrics.Handler()))
		})
	}
	for _, f := range begin {
		g.Go(f)
	}
	context.AfterFunc(ctx, func() {
		if n := env.Stream.InHand(); n > 0 {
			u.Note("Ending; %s may go on for up to %s. A second Ctrl-C cuts off what is in hand, and the next worker goes on with it.",
				say.Count(n, "run"), host.Grace)
		}
	})
	if err := g.Wait(); err != nil {
		return err
	}
	if n := env.Stream.Cut(); n > 0 {
		u.Note("Ended; %s in hand did not end within %s, and come again.", say.Count(n, "message"), host.Grace)
		return nil
	}
	if x != nil {
		u.Note("Ended; %d failures were stored, and in-flight work has finished.", x.Stats().Published.Load())
		return nil
	}
	u.Note("Ended; in-flight work has finished.")
	return nil
}

// measure returns functions that keep metrics current. Only the notifier measures the overall state, which several programs would count twice.
func (u *upRun) measure(ctx context.Context, s *stream.Stream, x *exporter.Exporter, tickets *notifier) []func() error {
	u.metrics.Full(s.Full)
	u.metrics.Traces(func() observe.Spans { return observe.Spans(u.traces.Stats()) })
	if x != nil {
		u.metrics.Exporter(x.Export)
	}
	if tickets == nil {
		return nil
	}
	return []func() error{func() error {
		u.metrics.Follow(ctx, func(ctx context.Context) (observe.State, error) { return u.readState(ctx, s) },
			func(err error) {
				u.Log().Warn("the state of the stream can't be read for the metrics; trying again", "error", err)
			})
		return nil
	}}
}

// oftenest is the shortest interval of scheduled runs: each makes some hundred calls from the limit that the account shares with the controller.
const oftenest = 5 * time.Minute

// scheduled first waits for a random time: programs that start together would spend the account's calls together. A failed run is retried
// at the next interval.
func (u *upRun) scheduled(ctx context.Context, p *doctor.ScheduledRun, said *observe.Doctor) error {
	last := func() {
		switch at, err := p.Ended(ctx); {
		case err == nil:
			said.Last(at)
		case ctx.Err() == nil:
			u.Log().Warn("when a scheduled run last ended well can't be read", "error", event.Redact(err.Error()))
		}
	}
	last() // a process that dies in its runs restarts repeatedly
	retry.Sleep(ctx, rand.N(min(u.every/10, startWithin)))
	wait.NonSlidingUntilWithContext(ctx, func(ctx context.Context) {
		r, err := p.Run(ctx)
		switch {
		case ctx.Err() != nil:
		case errors.Is(err, doctor.ErrElsewhere):
			last() // the other one may have died
			u.Log().Info("another process runs the doctor on the cluster now")
		case err != nil:
			said.Failed()
			u.Log().Error("the scheduled run failed; the next one tries again", "error", event.Redact(err.Error()))
		default:
			report(said, u.Now(), r.Result)
			u.Note("Scheduled run: %s opened, %d closed, %d still open, %d unknown. To see the findings: lbremedy doctor.",
				say.Count(r.Opened, "case"), r.Closed, r.StillOpen, len(r.Result.Unknown))
		}
	}, u.every)
	return nil
}

func checkIDs(checks []*doctor.Check) []string {
	var ids []string
	for _, c := range checks {
		ids = append(ids, c.ID)
	}
	return ids
}

const startWithin = time.Minute

func report(said *observe.Doctor, at time.Time, r doctor.Result) {
	findings, unknown := map[[2]string]int{}, map[string]int{}
	for _, f := range r.Findings {
		findings[[2]string{f.Check, f.Severity.String()}]++
	}
	for _, k := range r.Unknown {
		unknown[k.Check]++
	}
	said.Ended(at, r.Took, findings, unknown)
}

// reread is how often the policy is read for reports. It is also read before each write.
const reread = 2 * time.Second

func (u *upRun) follow(ctx context.Context, s *stream.Stream) error {
	tick := time.NewTicker(reread)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-u.source.Changed():
		}
		u.inForce(ctx, s)
	}
}

func (u *upRun) readState(ctx context.Context, s *stream.Stream) (observe.State, error) {
	now := observe.State{Classes: u.Classes()}
	v, _, err := u.InForce(ctx, s, u.Cluster)
	if err != nil {
		return now, err
	}
	left, err := control.PlacesLeft(ctx, s, u.Cluster, now.Classes, v.Policy.Budgets.OfClass(), v.Policy.Budgets.OfCluster)
	if err != nil {
		return now, err
	}
	now.Left, now.ClusterLeft = left.Class, left.Cluster
	open, err := control.Breakers(ctx, s, u.Cluster)
	if err != nil {
		return now, err
	}
	for _, b := range open {
		now.Open = append(now.Open, b.Class)
		if b.Class == control.AnyClass {
			now.Open = now.Classes
		}
	}
	paused, err := control.Paused(ctx, s, u.Cluster)
	if err != nil {
		return now, err
	}
	if paused != nil {
		// A pause that can't be decoded has no known beginning.
		if now.Paused = paused.At; now.Paused.IsZero() {
			now.Paused = time.Unix(1, 0)
		}
	}
	if now.Queues, err = s.Queues(ctx, u.Cluster); err != nil {
		return now, err
	}
	if now.Fills, err = s.Fills(ctx); err != nil {
		return now, err
	}
	now.Ledger, err = ledger.Draw(ctx, s, u.Cluster, u.Now(), ledger.Late)
	return now, err
}

func (u *upRun) seen(r event.Record, err error) {
	u.metrics.OnRun(r, err)
	u.traces.OnRun(r)
	if err != nil || r.Case == "" {
		return // logged already
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	key, word := r.Case+" "+r.Class, string(r.Status())+" "+r.Finding.String()+" "+string(r.Held)
	if u.said[key] == word {
		return
	}
	if len(u.said) > 10_000 { // a repeated line is better than growing memory
		clear(u.said)
	}
	u.said[key] = word
	if err := u.Line(journal.Printed(r), func() { journal.Live(u.Program, r) }); err != nil {
		u.Log().Error("outcome can't be printed", "error", err)
	}
}

// ready returns a check that NATS answers, the policy is usable and, with an exporter, failures get through.
func ready(x *exporter.Exporter, s *stream.Stream, source *policyfile.Source) func(context.Context) error {
	return func(ctx context.Context) error {
		err := s.Ping(ctx)
		if err == nil && x != nil && !x.Ready() {
			err = errors.New("the cluster's Events are not read")
		}
		if err == nil {
			err = s.Room()
		}
		if err == nil {
			_, err = source.Read(ctx)
		}
		return err
	}
}
