// Exporter watches a cluster for failed load-balancer syncs and stores each
// occurrence, classified, in the stream FAILED of NATS.
//
// It sets up what it needs in NATS by itself, where its user may; where it may not, it
// uses what "lbremedy setup" has made. It needs the rights of exporter.Grants. Several may run side by side.
//
// Exit codes: 0 after SIGINT or SIGTERM, 1 when NATS or the cluster can't be
// reached or refuses, 2 when the flags or what they name can't be right.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"runtime/debug"
	"strconv"

	"github.com/lbremedy/lbremedy/events/exporter"
	"github.com/lbremedy/lbremedy/events/program"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/observe"
	"github.com/lbremedy/lbremedy/shared/stream"
)

// version is set by the build.
var version = "dev"

func main() {
	frugal()
	os.Exit(program.Main("exporter", run))
}

// frugal keeps the heap small when there is much to do: one exporter stands beside every
// cluster. What waits in the lanes is some 20 MB at the most. With a limit of that size the
// collector has no room, and takes most of the time of a start on many stored failures. The
// environment has the last word.
func frugal() {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(48 << 20)
	}
}

// options are the flags.
type options struct {
	*program.Flags
	kubeconfig, context string
	replicas            int
	rate                float64
	burst               int
}

const page = `Exporter stores the failed load-balancer syncs of a cluster, classified, in NATS.

Usage: exporter --cluster ID [flags]

The token for NATS is read from $LBREMEDY_NATS_TOKEN.
`

// parse reads the flags.
func parse(args []string, env func(string) string, out io.Writer) (options, error) {
	o := options{Flags: program.New("exporter", version, env)}
	o.Text(&o.kubeconfig, "kubeconfig", "LBREMEDY_KUBECONFIG", "",
		"kubeconfig `file`; without it this pod's cluster, $KUBECONFIG or the one in the home directory")
	o.Text(&o.context, "context", "LBREMEDY_CONTEXT", "", "`name` of the context in the kubeconfig")
	var rate, burst string
	o.Text(&rate, "namespace-rate", "LBREMEDY_NAMESPACE_RATE", strconv.Itoa(exporter.DefaultRate),
		"failures of one namespace that are published in a `second`; what comes faster waits, the newest of each Service and class")
	o.Text(&burst, "namespace-burst", "LBREMEDY_NAMESPACE_BURST", strconv.Itoa(exporter.DefaultBurst), "failures of one namespace that are published at `once`")
	o.Set().IntVar(&o.replicas, "replicas", 0, "copies that NATS keeps of new streams; 0: one, and what is there stays")
	if err := o.Parse(args, out, page); err != nil {
		return o, err
	}
	var err error
	if o.rate, err = strconv.ParseFloat(rate, 64); err != nil || !(o.rate > 0) || math.IsInf(o.rate, 0) {
		return o, program.Wrong(fmt.Errorf("--namespace-rate: %q is no number above 0", rate))
	}
	if o.burst, err = strconv.Atoi(burst); err != nil || o.burst < 1 {
		return o, program.Wrong(fmt.Errorf("--namespace-burst: %q is no number from 1 on", burst))
	}
	return o, o.ValidCluster()
}

// run runs the exporter until ctx ends.
func run(ctx context.Context, args []string, env func(string) string, out, errs io.Writer) error {
	o, err := parse(args, env, out)
	if err != nil {
		return err
	}
	log, err := o.Logger(errs)
	if err != nil {
		return err
	}
	rows, err := o.Rows()
	if err != nil {
		return err
	}
	config, err := kube.Load(o.kubeconfig, o.context)
	if err != nil {
		return program.Wrong(err)
	}
	cluster, err := kube.New(config)
	if err != nil {
		return program.Wrong(err)
	}
	// What can fail is tried before anything is served.
	s, err := stream.Connect(ctx, o.Stream(log))
	if err != nil {
		return err
	}
	defer s.Close()
	done, lacking, err := s.SetupOrUse(ctx, program.Classes(rows), stream.Settings{Replicas: o.replicas, Clusters: []string{o.Cluster}})
	for _, said := range done {
		log.Info("NATS was set up", "change", said)
	}
	for _, said := range lacking {
		log.Warn("NATS is used as it is", "change", said)
	}
	if err != nil {
		return err
	}
	e, err := exporter.New(exporter.Config{Cluster: o.Cluster, Kube: cluster, Stream: s, Classifier: event.NewClassifier(rows), Rate: o.rate,
		Burst: o.burst, Log: log})
	if err != nil {
		return err
	}
	metrics := observe.New(version, o.Cluster)
	metrics.Exporter(e.Export)
	metrics.Full(s.Full)
	listener, err := o.Listener()
	if err != nil {
		return err
	}
	ready := func(context.Context) error {
		if !e.Ready() {
			return errors.New("the cluster's Events don't get through")
		}
		return s.Room()
	}
	defer program.Open(listener, ready, metrics.Handler(), log)()
	log.Info("the exporter begins", "version", version, "cluster", o.Cluster)
	if err := e.Run(ctx); err != nil {
		return err
	}
	log.Info("the exporter has ended", "published", e.Stats().Published.Load())
	return nil
}
