// Courier posts the failures that wait in NATS to the functions that handle them, as
// its routes file says, and acknowledges, delays or ends each by the answer.
//
// The exporter or "lbremedy setup" sets up what it needs in NATS. Several may run side
// by side. It keeps nothing: whatever ends it, what it had in hand comes again.
//
// It may serve several clusters that share one NATS. Each has a courier of its own in
// here, with its own connection, routes, traces and metrics, so that nothing of one
// cluster is in the way of another. One whose user NATS refuses is tried again, as long
// as it takes the others'.
//
// Exit codes: 0 after SIGINT or SIGTERM, 1 when NATS can't be reached or refuses, 2 when
// the flags or what they name can't be right.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lbremedy/lbremedy/events/courier"
	"github.com/lbremedy/lbremedy/events/program"
	"github.com/lbremedy/lbremedy/shared/observe"
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
	o.Text(&o.routes, "routes", "LBREMEDY_ROUTES", "",
		"YAML or JSON `file` that says where the messages of each class go; required, and read again when it changes")
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
	listener, err := o.Listener()
	if err != nil {
		return err
	}
	if listener != nil {
		defer listener.Close()
	}
	metrics := observe.New(version, clusters[0])
	var all []*served
	for i, cluster := range clusters {
		own := metrics
		if i > 0 {
			own = metrics.Of(cluster)
		}
		c, err := newServed(ctx, o, cluster, classes, own, log)
		if err != nil {
			return err
		}
		defer c.close()
		all = append(all, c)
		for _, class := range routes[cluster].Without(classes) {
			c.log.Warn("a class has no route: its messages stay", "class", class)
		}
	}
	if err := connect(ctx, all); err != nil {
		return err
	}
	ready := func(ctx context.Context) error {
		var errs []error
		for _, c := range all {
			errs = append(errs, c.ready(ctx))
		}
		return errors.Join(errs...)
	}
	defer program.Open(listener, ready, metrics.Handler(), log)()
	changed := courier.Watch(ctx, o.routes, text, clusters, classes, log)
	ends := make([]error, len(all))
	var running sync.WaitGroup
	for i, c := range all {
		running.Go(func() { ends[i] = c.run(ctx, routes[c.cluster], changed[c.cluster]) })
	}
	running.Wait()
	log.Info("the courier has ended")
	return errors.Join(ends...)
}

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
