// Package program is the frame of a program that moves events: how it ends, the flags of a
// cluster, of NATS and of the log, the table of classes, and the listener for health and
// metrics.
//
// The standard flags do for programs without commands. Those with commands are built
// with shared/command.
package program

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
	"syscall"
	"time"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/event/table"
	"github.com/lbremedy/lbremedy/shared/stream"
)

// A Mistake is an error in the flags, or in what they name.
type Mistake struct{ error }

// Wrong returns an error as a mistake.
func Wrong(err error) error { return Mistake{err} }

// Unwrap returns the error itself.
func (m Mistake) Unwrap() error { return m.error }

// A Run is a program: it works until ctx ends, with its arguments and environment.
type Run func(ctx context.Context, args []string, env func(string) string, out, errs io.Writer) error

// Main runs a program until SIGINT or SIGTERM and returns its exit code: 0 after the
// signal or when only help was asked for, 2 for a Mistake, 1 for every other error,
// which it writes to standard error. A second signal ends the program at once.
func Main(name string, run Run) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	err := run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr)
	stop()
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return 0
	}
	fmt.Fprintln(os.Stderr, name+":", event.Redact(err.Error()))
	if errors.As(err, new(Mistake)) {
		return 2
	}
	return 1
}

// Flags are the flags that the programs share.
type Flags struct {
	Cluster, Table, Listen string

	nats, token, creds, nkey, ca, level string
	env                                 func(string) string
	set                                 *flag.FlagSet
	version                             string
	shown                               *bool
}

// New returns the shared flags of a program. A flag that isn't given takes its
// LBREMEDY_ variable.
func New(name, version string, env func(string) string) *Flags {
	f := &Flags{env: env, set: flag.NewFlagSet(name, flag.ContinueOnError), version: version}
	f.set.SetOutput(io.Discard)
	f.Text(&f.Cluster, "cluster", "LBREMEDY_CLUSTER", "", "`ID` of the cluster on Alibaba Cloud; required")
	f.Text(&f.nats, "nats", "LBREMEDY_NATS", "nats://127.0.0.1:4222", "`URL` of NATS; several separated by commas")
	f.Text(&f.creds, "nats-creds", "LBREMEDY_NATS_CREDS", "", "`file` with credentials for NATS")
	f.Text(&f.nkey, "nats-nkey", "LBREMEDY_NATS_NKEY", "", "`file` with the seed of a user of NATS")
	f.Text(&f.ca, "nats-ca", "LBREMEDY_NATS_CA", "", "`file` with the root certificates of NATS")
	f.Text(&f.Table, "table", "LBREMEDY_TABLE", "", "JSON `file` with another table of classes than the built-in one")
	f.Text(&f.Listen, "listen", "LBREMEDY_LISTEN", "", "`address` for /healthz, /readyz and /metrics, such as :8080; without it none is opened")
	f.Text(&f.level, "log", "LBREMEDY_LOG", "info", "lowest `level` that is logged: debug, info, warn or error")
	f.shown = f.set.Bool("version", false, "print the version and end")
	// A flag would show the token to everyone who may list processes.
	f.token = env("LBREMEDY_NATS_TOKEN")
	return f
}

// Text adds a flag with a variable. What it holds without both is otherwise.
func (f *Flags) Text(p *string, name, variable, otherwise, usage string) {
	if v := f.env(variable); v != "" {
		otherwise = v
	}
	f.set.StringVar(p, name, otherwise, usage+" [$"+variable+"]")
}

// Set returns the flags themselves, for those that have no variable.
func (f *Flags) Set() *flag.FlagSet { return f.set }

// Parse reads the arguments. Where help or the version is asked for, it writes that
// to out and returns flag.ErrHelp; help begins with the page. Other errors are mistakes.
func (f *Flags) Parse(args []string, out io.Writer, page string) error {
	err := f.set.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprintln(out, page)
		f.set.SetOutput(out)
		f.set.PrintDefaults()
		return flag.ErrHelp
	case err != nil:
		return Wrong(fmt.Errorf("%w; see --help", err))
	case *f.shown:
		fmt.Fprintln(out, f.version)
		return flag.ErrHelp
	case f.set.NArg() > 0:
		return Wrong(fmt.Errorf("%q is no flag; see --help", f.set.Arg(0)))
	}
	return nil
}

// ValidCluster returns what is wrong with the name of the cluster, or nil.
func (f *Flags) ValidCluster() error {
	if f.Cluster == "" {
		return Wrong(errors.New("name the cluster with --cluster or LBREMEDY_CLUSTER"))
	}
	if err := event.ValidCluster(f.Cluster); err != nil {
		return Wrong(fmt.Errorf("--cluster: %w", err))
	}
	return nil
}

// Stream returns how to reach NATS, under the name of the program and the cluster.
func (f *Flags) Stream(log *slog.Logger) stream.Config {
	return stream.Config{
		URL: f.nats, Token: f.token, Creds: f.creds, NKey: f.nkey, CA: f.ca,
		Name: "lbremedy " + f.set.Name() + " " + f.Cluster, Log: log,
	}
}

// Logger returns a logger that writes JSON from the level on that the flag names.
func (f *Flags) Logger(out io.Writer) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(f.level)); err != nil {
		return nil, Wrong(fmt.Errorf("--log: %q is no level: use debug, info, warn or error", f.level))
	}
	return slog.New(slog.NewJSONHandler(out, &slog.HandlerOptions{Level: l})), nil
}

// Rows returns the table of classes: the built-in one, or that of the flag's file.
func (f *Flags) Rows() ([]event.Row, error) {
	if f.Table == "" {
		return table.Table(), nil
	}
	file, err := os.Open(f.Table)
	if err != nil {
		return nil, Wrong(fmt.Errorf("--table: %w", err))
	}
	defer file.Close()
	var rows []event.Row
	dec := json.NewDecoder(file)
	dec.DisallowUnknownFields()
	if err := dec.Decode(&rows); err != nil {
		return nil, Wrong(fmt.Errorf("--table: read %s: %w", f.Table, err))
	}
	if err := event.CheckRows(rows); err != nil {
		return nil, Wrong(fmt.Errorf("--table: %s: %w", f.Table, err))
	}
	return rows, nil
}

// Classes returns the IDs of the table's classes and that of failures without one.
func Classes(rows []event.Row) []string {
	ids := []string{event.Unclassified}
	for _, r := range rows {
		if r.Class != event.Unclassified {
			ids = append(ids, r.Class)
		}
	}
	return ids
}

// Listener opens the address of the flag --listen; nil without one.
func (f *Flags) Listener() (net.Listener, error) {
	if f.Listen == "" {
		return nil, nil
	}
	l, err := net.Listen("tcp", f.Listen)
	if err != nil {
		return nil, Wrong(fmt.Errorf("--listen: %w", err))
	}
	return l, nil
}

// Open serves /healthz, which says that the process lives, /readyz, which says what
// ready says, and /metrics. It returns what closes them. Without a listener it does nothing.
func Open(listener net.Listener, ready func(context.Context) error, metrics http.Handler, log *slog.Logger) func() {
	if listener == nil {
		return func() {}
	}
	server := &http.Server{Handler: Health(ready, metrics), ReadHeaderTimeout: hearing, ReadTimeout: hearing, WriteTimeout: answering,
		IdleTimeout: 30 * time.Second, MaxHeaderBytes: 8 << 10}
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.Error("the health endpoints are gone", "error", err)
		}
	}()
	return func() { _ = server.Close() }
}

const (
	hearing   = 5 * time.Second  // how long a request may take to come; net/http waits for a body, too, that nobody reads
	answering = 30 * time.Second // how long an answer may take to go
)

// Health answers /healthz with 200, /readyz with what ready says within two seconds,
// and /metrics. A request with a body is refused.
func Health(ready func(context.Context) error, metrics http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", metrics)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
		defer cancel()
		if err := ready(ctx); err != nil {
			http.Error(w, event.Redact(err.Error()), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			w.Header().Set("Connection", "close")
			http.Error(w, "send no body", http.StatusRequestEntityTooLarge)
			return
		}
		mux.ServeHTTP(w, r)
	})
}
