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
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/lbremedy/lbremedy/events"
	"github.com/lbremedy/lbremedy/events/courier"
	"github.com/lbremedy/lbremedy/events/table"
	"github.com/lbremedy/lbremedy/shared/observe"
	"github.com/lbremedy/lbremedy/shared/observe/trace"
	"github.com/lbremedy/lbremedy/shared/stream"
)

// version is set by the build.
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends it at once
	err := run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr)
	stop()
	var wrong usageError
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
	case errors.As(err, &wrong):
		fmt.Fprintln(os.Stderr, "courier:", events.Redact(err.Error()))
		os.Exit(2)
	default:
		fmt.Fprintln(os.Stderr, "courier:", events.Redact(err.Error()))
		os.Exit(1)
	}
}

// A usageError is a mistake in the flags, or in what they name.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// options are the flags.
type options struct {
	routes, check, cluster              string
	nats, token, creds, nkey, inbox, ca string
	table, listen, level                string
	drain                               time.Duration
}

// parse reads the flags. A flag that isn't given takes its LBREMEDY_ variable.
func parse(args []string, env func(string) string, out io.Writer) (options, error) {
	var o options
	f := flag.NewFlagSet("courier", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	text := func(p *string, name, variable, otherwise, usage string) {
		if v := env(variable); v != "" {
			otherwise = v
		}
		f.StringVar(p, name, otherwise, usage+" [$"+variable+"]")
	}
	text(&o.routes, "routes", "LBREMEDY_ROUTES", "", "YAML or JSON `file` that says where the messages of each class go; required, and read again when it changes")
	text(&o.cluster, "cluster", "LBREMEDY_CLUSTER", "", "`ID` of the cluster on Alibaba Cloud; required")
	text(&o.nats, "nats", "LBREMEDY_NATS", "nats://127.0.0.1:4222", "`URL` of NATS; several separated by commas")
	text(&o.creds, "nats-creds", "LBREMEDY_NATS_CREDS", "", "`file` with credentials for NATS")
	text(&o.nkey, "nats-nkey", "LBREMEDY_NATS_NKEY", "", "`file` with the seed of a user of NATS")
	text(&o.inbox, "nats-inbox", "LBREMEDY_NATS_INBOX", "", "`beginning` of the subjects of answers, where the user may not use _INBOX")
	text(&o.ca, "nats-ca", "LBREMEDY_NATS_CA", "", "`file` with the root certificates of NATS")
	text(&o.table, "table", "LBREMEDY_TABLE", "", "JSON `file` with another table of classes than the built-in one")
	text(&o.listen, "listen", "LBREMEDY_LISTEN", "", "`address` for /healthz, /readyz and /metrics, such as :8080; without it none is opened")
	text(&o.level, "log", "LBREMEDY_LOG", "info", "lowest `level` that is logged: debug, info, warn or error")
	f.StringVar(&o.check, "check", "", "only say what is wrong with this routes `file`, and end")
	f.DurationVar(&o.drain, "drain", 25*time.Second, "how long requests in hand may take at the end; a run takes at most 2m10s")
	shown := f.Bool("version", false, "print the version and end")
	// A flag would show the token to everyone who may list processes.
	o.token = env("LBREMEDY_NATS_TOKEN")
	err := f.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprintf(out, "Courier posts the failures that wait in NATS to the functions that handle them.\n\nUsage: courier --cluster ID --routes FILE [flags]\n       courier --check FILE\n\nThe token for NATS is read from $LBREMEDY_NATS_TOKEN. What is signed for Function\nCompute is signed with the key of Alibaba's default chain.\n\n")
		f.SetOutput(out)
		f.PrintDefaults()
		return o, flag.ErrHelp
	case err != nil:
		return o, usageError{fmt.Errorf("%w; see --help", err)}
	case *shown:
		fmt.Fprintln(out, version)
		return o, flag.ErrHelp
	case f.NArg() > 0:
		return o, usageError{fmt.Errorf("%q is no flag; see --help", f.Arg(0))}
	case o.drain <= 0:
		return o, usageError{fmt.Errorf("--drain: %s is no time", o.drain)}
	case o.check != "":
		return o, nil
	case o.routes == "":
		return o, usageError{errors.New("name the routes file with --routes or LBREMEDY_ROUTES")}
	case o.cluster == "":
		return o, usageError{errors.New("name the cluster with --cluster or LBREMEDY_CLUSTER")}
	}
	if err := events.ValidCluster(o.cluster); err != nil {
		return o, usageError{fmt.Errorf("--cluster: %w", err)}
	}
	return o, nil
}

// run runs the courier until ctx ends.
func run(ctx context.Context, args []string, env func(string) string, out, errs io.Writer) error {
	o, err := parse(args, env, out)
	if err != nil {
		return err
	}
	classes, err := classes(o.table)
	if err != nil {
		return usageError{err}
	}
	if o.check != "" {
		return check(o.check, classes, out)
	}
	log, err := logger(errs, o.level)
	if err != nil {
		return usageError{err}
	}
	routes, text, err := courier.Load(o.routes, classes)
	if err != nil {
		return usageError{err}
	}
	var door net.Listener
	if o.listen != "" {
		if door, err = net.Listen("tcp", o.listen); err != nil {
			return usageError{fmt.Errorf("--listen: %w", err)}
		}
		defer door.Close()
	}
	s, err := stream.Connect(ctx, stream.Config{
		URL: o.nats, Token: o.token, Creds: o.creds, NKey: o.nkey, Inbox: o.inbox, CA: o.ca, Name: "lbremedy courier " + o.cluster, Grace: o.drain, Log: log,
	})
	if err != nil {
		return err
	}
	defer s.Close()
	metrics := observe.New(version, o.cluster)
	metrics.Runs(classes)
	traces, err := trace.New(ctx, version, o.cluster, log)
	if err != nil {
		return usageError{err}
	}
	metrics.Traces(func() observe.Spans { return observe.Spans(traces.Stats()) })
	c := courier.New(courier.Config{Stream: s, Log: log, Metrics: metrics.Courier(classes)})
	if door != nil {
		defer open(door, s, c, metrics, log)()
	}
	log.Info("the courier begins", "version", version, "cluster", o.cluster)
	for _, class := range routes.Without(classes) {
		log.Warn("a class has no route: its messages stay", "class", class)
	}
	seen := func(r events.Record) {
		metrics.Seen(r, nil)
		traces.Seen(r)
	}
	var following sync.WaitGroup
	following.Go(func() { courier.Follow(ctx, s, o.cluster, seen, log) })
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
		return usageError{err}
	}
	fmt.Fprintf(out, "%s is right: %d of %d classes have a route.\n", file, len(routes), len(classes))
	if without := routes.Without(classes); len(without) > 0 {
		fmt.Fprintf(out, "The messages of these stay: %s.\n", strings.Join(without, ", "))
	}
	return nil
}

// logger returns a logger that writes JSON from a level on.
func logger(out io.Writer, level string) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("--log: %q is no level: use debug, info, warn or error", level)
	}
	return slog.New(slog.NewJSONHandler(out, &slog.HandlerOptions{Level: l})), nil
}

// classes returns the IDs of the classes, of the built-in table or that of a file, and
// that of failures without one.
func classes(file string) ([]string, error) {
	rows := table.Table()
	if file != "" {
		f, err := os.Open(file)
		if err != nil {
			return nil, fmt.Errorf("--table: %w", err)
		}
		defer f.Close()
		rows = nil // the decoder would keep what stands in its places
		dec := json.NewDecoder(f)
		dec.DisallowUnknownFields()
		if err := dec.Decode(&rows); err != nil {
			return nil, fmt.Errorf("--table: read %s: %w", file, err)
		}
		if err := events.CheckRows(rows); err != nil {
			return nil, fmt.Errorf("--table: %s: %w", file, err)
		}
	}
	ids := []string{events.Unclassified}
	for _, r := range rows {
		if r.Class != events.Unclassified {
			ids = append(ids, r.Class)
		}
	}
	return ids, nil
}

// open serves /healthz, which says that the process lives, /readyz, which says that
// NATS is there and no route is wrong, and /metrics. It returns what closes them.
func open(door net.Listener, s *stream.Stream, c *courier.Courier, metrics *observe.Metrics, log *slog.Logger) func() {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", metrics.Handler())
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
		defer cancel()
		err := s.Ping(ctx)
		if err == nil {
			err = c.Ready()
		}
		if err != nil {
			http.Error(w, events.Redact(err.Error()), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 30 * time.Second, MaxHeaderBytes: 8 << 10}
	go func() {
		if err := server.Serve(door); !errors.Is(err, http.ErrServerClosed) {
			log.Error("the health endpoints are gone", "error", err)
		}
	}()
	return func() { _ = server.Close() }
}
