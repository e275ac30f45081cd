// Courier posts the failures that wait in NATS to the functions that handle them, as
// its routes file says, and acknowledges, delays or ends each by the answer.
//
// The exporter or "lbremedy setup" sets up what it needs in NATS. Several may run side
// by side. It keeps nothing: whatever ends it, what it had in hand comes again.
//
// Exit codes: 0 after SIGINT or SIGTERM, 1 when NATS can't be reached or refuses, 2 when
// the flags or what they name can't be right.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
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

Usage: courier --cluster ID --routes FILE [flags]
       courier --check FILE

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
	return o, o.ValidCluster()
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
	if o.check != "" {
		return check(o.check, classes, out)
	}
	log, err := o.Logger(errs)
	if err != nil {
		return err
	}
	routes, text, err := courier.Load(o.routes, classes)
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
	config := o.Stream(log)
	config.Grace = o.drain
	s, err := stream.Connect(ctx, config)
	if err != nil {
		return err
	}
	defer s.Close()
	metrics := observe.New(version, o.Cluster)
	metrics.Runs(classes)
	traces, err := trace.New(ctx, version, o.Cluster, log)
	if err != nil {
		return program.Wrong(err)
	}
	metrics.Traces(func() observe.Spans { return observe.Spans(traces.Stats()) })
	c := courier.New(courier.Config{Cluster: o.Cluster, Stream: s, Log: log, Metrics: metrics.Courier(classes)})
	ready := func(ctx context.Context) error {
		if err := s.Ping(ctx); err != nil {
			return err
		}
		return c.Ready()
	}
	defer program.Open(door, ready, metrics.Handler(), log)()
	log.Info("the courier begins", "version", version, "cluster", o.Cluster)
	for _, class := range routes.Without(classes) {
		log.Warn("a class has no route: its messages stay", "class", class)
	}
	seen := func(r events.Record) {
		metrics.Seen(r, nil)
		traces.Seen(r)
	}
	var following sync.WaitGroup
	following.Go(func() { courier.Follow(ctx, s, o.Cluster, seen, log) })
	err = c.Run(ctx, routes, courier.Watch(ctx, o.routes, text, classes, log))
	following.Wait()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTraces)
	defer cancel()
	if err := traces.Shutdown(last); err != nil {
		log.Warn("the last traces are not sent", "error", err)
	}
	log.Info("the courier has ended")
	return err
}

// lastTraces is how long the collector may take for what waits at the end.
const lastTraces = 3 * time.Second

// check says whether a routes file is right.
func check(file string, classes []string, out io.Writer) error {
	routes, _, err := courier.Load(file, classes)
	if err != nil {
		return program.Wrong(err)
	}
	fmt.Fprintf(out, "%s is right: %d of %d classes have a route.\n", file, len(routes), len(classes))
	if without := routes.Without(classes); len(without) > 0 {
		fmt.Fprintf(out, "The messages of these stay: %s.\n", strings.Join(without, ", "))
	}
	return nil
}
