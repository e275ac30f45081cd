// Exporter watches a cluster for failed load-balancer syncs and stores each
// occurrence, classified, in the stream FAILED of NATS.
//
// It sets up what it needs in NATS by itself. It needs the rights of
// exporter.Grants. Several may run side by side.
//
// Exit codes: 0 after SIGINT or SIGTERM, 1 when NATS or the cluster can't be
// reached or refuses, 2 when the flags or what they name can't be right.
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
	"runtime/debug"
	"syscall"
	"time"

	"github.com/lbremedy/lbremedy/events"
	"github.com/lbremedy/lbremedy/events/exporter"
	"github.com/lbremedy/lbremedy/events/table"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/observe"
	"github.com/lbremedy/lbremedy/shared/stream"
)

// version is set by the build.
var version = "dev"

func main() {
	frugal()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr)
	stop()
	var wrong usageError
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
	case errors.As(err, &wrong):
		fmt.Fprintln(os.Stderr, "exporter:", err)
		os.Exit(2)
	default:
		fmt.Fprintln(os.Stderr, "exporter:", err)
		os.Exit(1)
	}
}

// frugal keeps the heap small when there is much to do: one exporter stands beside
// every cluster. The environment has the last word.
func frugal() {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(20 << 20)
	}
}

// A usageError is a mistake in the flags, or in what they name.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// options are the flags.
type options struct {
	kubeconfig, context, cluster string
	nats, token, creds, ca       string
	nkey, inbox                  string
	replicas                     int
	table, listen, level         string
}

// parse reads the flags. A flag that isn't given takes its LBREMEDY_ variable.
func parse(args []string, env func(string) string, out io.Writer) (options, error) {
	var o options
	f := flag.NewFlagSet("exporter", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	text := func(p *string, name, variable, otherwise, usage string) {
		if v := env(variable); v != "" {
			otherwise = v
		}
		f.StringVar(p, name, otherwise, usage+" [$"+variable+"]")
	}
	text(&o.cluster, "cluster", "LBREMEDY_CLUSTER", "", "`ID` of the cluster on Alibaba Cloud; required")
	text(&o.kubeconfig, "kubeconfig", "LBREMEDY_KUBECONFIG", "", "kubeconfig `file`; without it this pod's cluster, $KUBECONFIG or the one in the home directory")
	text(&o.context, "context", "LBREMEDY_CONTEXT", "", "`name` of the context in the kubeconfig")
	text(&o.nats, "nats", "LBREMEDY_NATS", "nats://127.0.0.1:4222", "`URL` of NATS; several separated by commas")
	text(&o.creds, "nats-creds", "LBREMEDY_NATS_CREDS", "", "`file` with credentials for NATS")
	text(&o.nkey, "nats-nkey", "LBREMEDY_NATS_NKEY", "", "`file` with the seed of a user of NATS")
	text(&o.inbox, "nats-inbox", "LBREMEDY_NATS_INBOX", "", "`beginning` of the subjects of answers, where the user may not use _INBOX")
	text(&o.ca, "nats-ca", "LBREMEDY_NATS_CA", "", "`file` with the root certificates of NATS")
	text(&o.table, "table", "LBREMEDY_TABLE", "", "JSON `file` with another table of classes than the built-in one")
	text(&o.listen, "listen", "LBREMEDY_LISTEN", "", "`address` for /healthz, /readyz and /metrics, such as :8080; without it none is opened")
	text(&o.level, "log", "LBREMEDY_LOG", "info", "lowest `level` that is logged: debug, info, warn or error")
	f.IntVar(&o.replicas, "replicas", 0, "copies that NATS keeps of new streams; 0: one, and what is there stays")
	shown := f.Bool("version", false, "print the version and end")
	// A flag would show the token to everyone who may list processes.
	o.token = env("LBREMEDY_NATS_TOKEN")
	err := f.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprintf(out, "Exporter stores the failed load-balancer syncs of a cluster, classified, in NATS.\n\nUsage: exporter --cluster ID [flags]\n\nThe token for NATS is read from $LBREMEDY_NATS_TOKEN.\n\n")
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
	case o.cluster == "":
		return o, usageError{errors.New("name the cluster with --cluster or LBREMEDY_CLUSTER")}
	}
	if err := events.ValidCluster(o.cluster); err != nil {
		return o, usageError{fmt.Errorf("--cluster: %w", err)}
	}
	return o, nil
}

// run runs the exporter until ctx ends.
func run(ctx context.Context, args []string, env func(string) string, out, errs io.Writer) error {
	o, err := parse(args, env, out)
	if err != nil {
		return err
	}
	log, err := logger(errs, o.level)
	if err != nil {
		return usageError{err}
	}
	rows, err := rows(o.table)
	if err != nil {
		return usageError{err}
	}
	config, err := kube.Load(o.kubeconfig, o.context)
	if err != nil {
		return usageError{err}
	}
	cluster, err := kube.New(config)
	if err != nil {
		return usageError{err}
	}
	// What can fail is tried before anything is served.
	s, err := stream.Connect(ctx, stream.Config{URL: o.nats, Token: o.token, Creds: o.creds, NKey: o.nkey, Inbox: o.inbox, CA: o.ca, Name: "lbremedy exporter " + o.cluster, Log: log})
	if err != nil {
		return err
	}
	defer s.Close()
	done, err := s.Setup(ctx, classes(rows), stream.Settings{Replicas: o.replicas})
	for _, said := range done {
		log.Info("NATS was set up", "change", said)
	}
	if err != nil {
		return err
	}
	e, err := exporter.New(exporter.Config{Cluster: o.cluster, Kube: cluster, Stream: s, Classifier: events.NewClassifier(rows), Log: log})
	if err != nil {
		return err
	}
	metrics := observe.New(version, o.cluster)
	metrics.Exporter(e.Export)
	closeDoor, err := open(o.listen, e, metrics, log)
	if err != nil {
		return usageError{err}
	}
	defer closeDoor()
	log.Info("the exporter begins", "version", version, "cluster", o.cluster)
	if err := e.Run(ctx); err != nil {
		return err
	}
	log.Info("the exporter has ended", "published", e.Stats().Published.Load())
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

// rows returns the table of classes: the built-in one, or that of a file.
func rows(file string) ([]events.Row, error) {
	if file == "" {
		return table.Table(), nil
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("--table: %w", err)
	}
	defer f.Close()
	var rows []events.Row
	dec := json.NewDecoder(f)
	dec.DisallowUnknownFields()
	if err := dec.Decode(&rows); err != nil {
		return nil, fmt.Errorf("--table: read %s: %w", file, err)
	}
	if err := events.CheckRows(rows); err != nil {
		return nil, fmt.Errorf("--table: %s: %w", file, err)
	}
	return rows, nil
}

// classes returns the IDs of the table's classes and that of failures without one.
func classes(rows []events.Row) []string {
	ids := []string{events.Unclassified}
	for _, r := range rows {
		if r.Class != events.Unclassified {
			ids = append(ids, r.Class)
		}
	}
	return ids
}

// open serves /healthz, which says that the process lives, /readyz, which says that
// Events get through, and /metrics. It does nothing without an address.
func open(address string, e *exporter.Exporter, metrics *observe.Metrics, log *slog.Logger) (func(), error) {
	if address == "" {
		return func() {}, nil
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("--listen: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", metrics.Handler())
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !e.Ready() {
			http.Error(w, "Events don't get through", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 30 * time.Second, MaxHeaderBytes: 8 << 10}
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.Error("the health endpoints are gone", "error", err)
		}
	}()
	return func() { _ = server.Close() }, nil
}
