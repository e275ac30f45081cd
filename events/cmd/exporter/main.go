// Exporter watches a cluster for failed load-balancer syncs and stores each occurrence, classified, in the stream FAILED of NATS.
// It sets NATS up if its user may; otherwise run "lbremedy up --setup" first. It needs the permissions in exporter.Grants. Several
// exporters may run side by side.
//
// Exit codes: 0 after SIGINT or SIGTERM, 1 if NATS or the cluster can't be reached or refuses, 2 if the flags or what they name are wrong.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/lbremedy/lbremedy/events/exporter"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/event/table"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/observe"
	"github.com/lbremedy/lbremedy/shared/stream"
)

var version = "dev"

func main() {
	frugal()
	command.Main(func(ctx context.Context, args []string) int {
		return command.Run(ctx, program(os.Getenv), args, "exporter:")
	})
}

// frugal keeps every cluster's exporter small. A memory limit near the queues' 20 MB would keep the collector busy. GOMEMLIMIT overrides it.
func frugal() {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(48 << 20)
	}
}

type options struct {
	stream.Config
	cluster, kubeconfig, context string
	listen, level                string
	replicas, burst              int
	rate                         float64
	posts                        exporter.Posts
}

func program(env func(string) string) *cobra.Command {
	o := &options{}
	cmd := command.Alone(&cobra.Command{
		Use:   "exporter",
		Short: "Store the failed load-balancer syncs of a cluster, classified, in NATS",
		Long: `Exporter stores the failed load-balancer syncs of a cluster, classified, in NATS.

Every flag can also be set by a variable: --nats-ca by LBREMEDY_NATS_CA. The token for NATS
is read from LBREMEDY_NATS_TOKEN.`,
		Version: version,
		Args:    command.Exactly(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := command.Variables(cmd.Flags(), env); err != nil {
				return err
			}
			o.Token, o.posts.Token = env("LBREMEDY_NATS_TOKEN"), env(exporter.PostsToken) // a flag would show the token to everyone who may list processes
			return o.run(cmd.Context(), cmd.ErrOrStderr())
		},
	})
	f := cmd.Flags()
	f.StringVar(&o.cluster, "cluster", "", "`ID` of the cluster on Alibaba Cloud; required")
	f.StringVar(&o.URL, "nats", "nats://127.0.0.1:4222", "`URL` of NATS; several separated by commas")
	f.StringVar(&o.Creds, "nats-creds", "", "`file` with credentials for NATS")
	f.StringVar(&o.NKey, "nats-nkey", "", "`file` with the seed of a user of NATS")
	f.StringVar(&o.CA, "nats-ca", "", "`file` with the root certificates of NATS")
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig `file`; without it this pod's cluster, $KUBECONFIG or the one in the home directory")
	f.StringVar(&o.context, "context", "", "`name` of the context in the kubeconfig")
	f.StringVar(&o.listen, "listen", "", "`address` for /healthz, /readyz and /metrics, such as :8080; without it none is opened")
	f.StringVar(&o.level, "log", "info", "lowest `level` that is logged: debug, info, warn or error")
	f.Float64Var(&o.rate, "namespace-rate", exporter.DefaultRate,
		"`number` of failures of one namespace that are published in a second; what comes faster waits, the newest of each Service and class")
	f.IntVar(&o.burst, "namespace-burst", exporter.DefaultBurst, "`number` of failures of one namespace that are published at once")
	o.posts.Flags(f.StringVar)
	f.IntVar(&o.replicas, "replicas", 0, "copies that NATS keeps of new streams; 0: one, and what is there stays")
	return cmd
}

func wrong(format string, args ...any) error {
	return command.Mistake{Err: fmt.Errorf(format, args...)}
}

func (o *options) check() error {
	switch {
	case o.cluster == "":
		return wrong("name the cluster with --cluster or LBREMEDY_CLUSTER")
	case !(o.rate > 0) || math.IsInf(o.rate, 0):
		return wrong("--namespace-rate: %g is not above 0", o.rate)
	case o.burst < 1:
		return wrong("--namespace-burst: %d is less than 1", o.burst)
	}
	if err := event.ValidCluster(o.cluster); err != nil {
		return wrong("--cluster: %w", err)
	}
	return nil
}

func (o *options) run(ctx context.Context, errs io.Writer) error {
	if err := o.check(); err != nil {
		return err
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(o.level)); err != nil {
		return wrong("--log: %q is not a level: use debug, info, warn or error", o.level)
	}
	log := slog.New(slog.NewJSONHandler(errs, &slog.HandlerOptions{Level: level}))
	config, err := kube.Load(o.kubeconfig, o.context)
	if err != nil {
		return command.Mistake{Err: err}
	}
	cluster, err := kube.New(config)
	if err != nil {
		return command.Mistake{Err: err}
	}
	posts, err := o.posts.Listen()
	if err != nil {
		return command.Mistake{Err: err}
	}
	// Everything that can fail is tried before anything is served.
	o.Name, o.Log = "lbremedy exporter "+o.cluster, log
	s, err := stream.Connect(ctx, o.Config)
	if err != nil {
		return err
	}
	defer s.Close()
	rows := table.Table()
	classes := []string{event.Unclassified}
	for _, r := range rows {
		if r.Class != event.Unclassified {
			classes = append(classes, r.Class)
		}
	}
	done, lacking, err := s.SetupOrUse(ctx, classes, stream.Settings{Replicas: o.replicas, Clusters: []string{o.cluster}})
	for _, said := range done {
		log.Info("NATS was set up", "change", said)
	}
	for _, said := range lacking {
		log.Warn("NATS is used as it is", "change", said)
	}
	if err != nil {
		return err
	}
	c := exporter.Config{Cluster: o.cluster, Kube: cluster, Stream: s, Classifier: event.NewClassifier(rows), Rate: o.rate, Burst: o.burst, Log: log}
	if posts != nil {
		c.Posts = &o.posts
	}
	e, err := exporter.New(c)
	if err != nil {
		return err
	}
	metrics := observe.New(version, o.cluster)
	metrics.Exporter(e.Export)
	metrics.Full(s.Full)
	var listener net.Listener
	if o.listen != "" {
		if listener, err = net.Listen("tcp", o.listen); err != nil {
			return wrong("--listen: %w", err)
		}
	}
	ready := func(context.Context) error {
		if !e.Ready() {
			return errors.New("the cluster's Events don't get through")
		}
		return s.Room()
	}
	defer observe.Open(listener, ready, metrics.Handler(), log)()
	log.Info("the exporter begins", "version", version, "cluster", o.cluster)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return e.Run(ctx) })
	if posts != nil {
		log.Info("EventBridge tells of Events", "address", posts.Addr().String())
		g.Go(func() error { return e.Serve(ctx, posts) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	log.Info("the exporter has ended", "published", e.Stats().Published.Load())
	return nil
}
