// Courier posts the failures that wait in NATS to the functions that handle them, as
// its routes file says, and acknowledges, delays or ends each by the answer.
//
// The exporter or "lbremedy setup" sets up what it needs in NATS. Several may run side
// by side. It keeps nothing: whatever ends it, what it had in hand comes again.
//
// It may serve several clusters that share one NATS. Each has a courier of its own in
// here, with its own connection, routes, traces and metrics, so that nothing of one
// cluster is in the way of another.
//
// Exit codes: 0 after SIGINT or SIGTERM, 1 when NATS can't be reached or refuses, 2 when
// the flags or what they name can't be right.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lbremedy/lbremedy/events"
	"github.com/lbremedy/lbremedy/events/courier"
	"github.com/lbremedy/lbremedy/events/program"
	"github.com/lbremedy/lbremedy/shared/observe"
	"github.com/lbremedy/lbremedy/shared/observe/trace"
	"github.com/lbremedy/lbremedy/shared/stream"
)

// version is set by the build.
var version = "dev"

func main() { os.Exit(program.Main("courier", run)) }

// options are the flags.
type options struct {
	*program.Flags
	routes, check string
	drain         time.Duration
}

const page = `Courier posts the failures that wait in NATS to the functions that handle them.

Usage: courier --cluster ID[,ID...] --routes FILE [flags]
       courier --check FILE [--cluster ID[,ID...]]

Several clusters that share one NATS are separated by commas. The routes file then names
each of them under "clusters", or has {cluster} in its addresses. {cluster} in
--nats-nkey and --nats-creds stands for the cluster, too: each has users of its own.

The token for NATS is read from $LBREMEDY_NATS_TOKEN. What is signed for Function
Compute is signed with the key of Alibaba's default chain.
`

// parse reads the flags.
func parse(args []string, env func(string) string, out io.Writer) (options, error) {
	o := options{Flags: program.New("courier", version, env)}
	o.Text(&o.routes, "routes", "LBREMEDY_ROUTES", "", "YAML or JSON `file` that says where the messages of each class go; required, and read again when it changes")
	o.Set().StringVar(&o.check, "check", "", "only say what is wrong with this routes `file`, and end")
	o.Set().DurationVar(&o.drain, "drain", 25*time.Second, "how long requests in hand may take at the end; a run takes at most 2m10s")
	err := o.Parse(args, out, page)
	switch {
	case err != nil:
		return o, err
	case o.drain <= 0:
		return o, program.Wrong(fmt.Errorf("--drain: %s is no time", o.drain))
	case o.check != "":
		return o, nil
	case o.routes == "":
		return o, program.Wrong(errors.New("name the routes file with --routes or LBREMEDY_ROUTES"))
	}
	return o, nil
}

// run runs the courier until ctx ends.
func run(ctx context.Context, args []string, env func(string) string, out, errs io.Writer) error {
	o, err := parse(args, env, out)
	if err != nil {
		return err
	}
	rows, err := o.Rows()
	if err != nil {
		return err
	}
	classes := program.Classes(rows)
	var clusters []string
	if o.check == "" || o.Cluster != "" {
		if clusters, err = o.Clusters(); err != nil {
			return err
		}
	}
	if o.check != "" {
		return check(o.check, clusters, classes, out)
	}
	log, err := o.Logger(errs)
	if err != nil {
		return err
	}
	routes, text, err := courier.Load(o.routes, clusters, classes)
	if err != nil {
		return program.Wrong(err)
	}
	door, err := o.Door()
	if err != nil {
		return err
	}
	if door != nil {
		defer door.Close()
	}
	var couriers []*served
	defer func() {
		for _, c := range couriers {
			c.stream.Close()
		}
	}()
	metrics := observe.New(version, clusters[0])
	for i, cluster := range clusters {
		own := metrics
		if i > 0 {
			own = metrics.Of(cluster)
		}
		c, err := prepare(ctx, o, cluster, classes, own, log)
		if err != nil {
			return err
		}
		couriers = append(couriers, c)
		for _, class := range routes[cluster].Without(classes) {
			c.log.Warn("a class has no route: its messages stay", "class", class)
		}
	}
	ready := func(ctx context.Context) error {
		var errs []error
		for _, c := range couriers {
			errs = append(errs, c.ready(ctx))
		}
		return errors.Join(errs...)
	}
	defer program.Open(door, ready, metrics.Handler(), log)()
	changed := courier.Watch(ctx, o.routes, text, clusters, classes, log)
	ends := make([]error, len(couriers))
	var running sync.WaitGroup
	for i, c := range couriers {
		running.Go(func() { ends[i] = c.run(ctx, routes[c.cluster], changed[c.cluster]) })
	}
	running.Wait()
	log.Info("the courier has ended")
	return errors.Join(ends...)
}

// A served is a cluster that is served, with all that is its own.
type served struct {
	cluster string
	log     *slog.Logger
	stream  *stream.Stream
	courier *courier.Courier
	traces  *trace.Sender
	seen    func(events.Record)
}

// prepare prepares to serve a cluster.
func prepare(ctx context.Context, o options, cluster string, classes []string, metrics *observe.Metrics, log *slog.Logger) (*served, error) {
	c := &served{cluster: cluster, log: log.With("cluster", cluster)}
	config := o.Stream(cluster, c.log)
	config.Grace = o.drain
	var err error
	if c.stream, err = stream.Connect(ctx, config); err != nil {
		return nil, fmt.Errorf("serve cluster %s: %w", cluster, err)
	}
	if c.traces, err = trace.New(ctx, version, cluster, c.log); err != nil {
		c.stream.Close()
		return nil, program.Wrong(err)
	}
	metrics.Runs(classes)
	metrics.Traces(func() observe.Spans { return observe.Spans(c.traces.Stats()) })
	c.courier = courier.New(courier.Config{Cluster: cluster, Stream: c.stream, Log: c.log, Metrics: metrics.Courier(classes)})
	c.seen = func(r events.Record) {
		metrics.Seen(r, nil)
		c.traces.Seen(r)
	}
	c.log.Info("the courier begins", "version", version)
	return c, nil
}

// ready returns why the cluster can't be served as it should be.
func (c *served) ready(ctx context.Context) error {
	err := c.stream.Ping(ctx)
	if err == nil {
		err = c.courier.Ready()
	}
	if err != nil {
		return fmt.Errorf("cluster %s: %w", c.cluster, err)
	}
	return nil
}

// run serves the cluster until ctx ends.
func (c *served) run(ctx context.Context, routes courier.Routes, changed <-chan courier.Routes) error {
	var following sync.WaitGroup
	following.Go(func() { courier.Follow(ctx, c.stream, c.cluster, c.seen, c.log) })
	err := c.courier.Run(ctx, routes, changed)
	following.Wait()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTraces)
	defer cancel()
	if err := c.traces.Shutdown(last); err != nil {
		c.log.Warn("the last traces are not sent", "error", err)
	}
	return err
}

// lastTraces is how long the collector may take for what waits at the end.
const lastTraces = 3 * time.Second

// check says whether a routes file is right.
func check(file string, clusters, classes []string, out io.Writer) error {
	all, _, err := courier.Load(file, clusters, classes)
	if err != nil {
		return program.Wrong(err)
	}
	fmt.Fprintf(out, "%s is right.\n", file)
	for _, cluster := range slices.Sorted(maps.Keys(all)) {
		routes, of := all[cluster], ""
		if len(all) > 1 {
			of = cluster + ": "
		}
		fmt.Fprintf(out, "%s%d of %d classes have a route.\n", of, len(routes), len(classes))
		if without := routes.Without(classes); len(without) > 0 {
			fmt.Fprintf(out, "%sThe messages of these stay: %s.\n", of, strings.Join(without, ", "))
		}
	}
	return nil
}
