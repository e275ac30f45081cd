package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"syscall"
	"time"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/host"
)

// Timer is the main function of a program that does one thing whenever a timer calls:
// a timer trigger of Function Compute with a custom runtime, or a PingSource of Knative.
// It is configured, listens and asks for tokens as Main does. What the timer sends is
// not looked at: a call is all that it says.
//
// With the argument --once it does the thing once and ends, as a CronJob wants it: with
// the exit code 0 when the thing is done, and 1 when it is not.
func Timer(ctx context.Context, name string, do func(context.Context, *host.Connection) error) {
	log := slog.New(slog.NewJSONHandler(os.Stderr, nil)).With("class", name)
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := runTimer(ctx, os.Args[1:], do, log); err != nil {
		log.Error("function ends", "error", event.Redact(err.Error()))
		os.Exit(1)
	}
}

// errGoRuntime says that a timer's program is no program for that runtime.
var errGoRuntime = errors.New("FC_RUNTIME_API is set: a function on a timer needs a custom runtime, which calls it over HTTP")

func runTimer(ctx context.Context, args []string, do func(context.Context, *host.Connection) error, log *slog.Logger) error {
	once := slices.Equal(args, []string{"--once"})
	switch {
	case len(args) > 0 && !once:
		return fmt.Errorf("%q is no argument that it takes: --once, or none", args)
	case os.Getenv("FC_RUNTIME_API") != "":
		return errGoRuntime
	}
	config := host.FromEnv()
	config.Who, config.Log, config.Credentials = "http", log, Key(nil)
	if os.Getenv("FC_FUNCTION_NAME") != "" {
		config.Who = "fc"
	}
	env, err := host.Connect(ctx, config)
	if err != nil {
		return err
	}
	defer env.Stream.Close()
	if once {
		return do(ctx, env)
	}
	getenv := renamed(os.Getenv, log)
	d := &Endpoint{Log: log, Tokens: Tokens(getenv), FC: config.Who == "fc", Ready: env.Stream.Wake}
	if d.JWT, err = NewVerifier(ctx, getenv); err != nil {
		return err
	}
	return d.listen(ctx, getenv, d.onTime(func(ctx context.Context) error { return do(ctx, env) }))
}

// onTime returns a handler that answers a call with 204 when the thing is done, and with
// 503 when it must be done again. All else is answered as any endpoint does.
func (d *Endpoint) onTime(do func(context.Context) error) http.Handler {
	call := func(w http.ResponseWriter, r *http.Request) {
		w = &answer{ResponseWriter: w}
		if status, err := d.admit(r); err != nil {
			d.refuse(w, r, status, "caller not admitted", err.Error())
			return
		}
		again := func(err error) {
			w.Header().Set("Retry-After", seconds(time.Minute))
			d.refuse(w, r, http.StatusServiceUnavailable, "call not answered", err.Error())
		}
		if !d.hands.begin() { // a hook that comes before the end waits for what is in hand
			again(errors.New("the function ends, and takes nothing more"))
			return
		}
		defer d.hands.end()
		ctx, cancel := d.context(r)
		defer cancel()
		err := d.prepared(ctx)
		if err == nil {
			err = d.done(ctx, do)
		}
		if err != nil {
			again(err)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /{$}", call)
	mux.HandleFunc("POST /invoke", call)
	mux.Handle("/", d.Handler())
	return mux
}

// done does the thing. Its panic is an error of this call.
func (d *Endpoint) done(ctx context.Context, do func(context.Context) error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			if d.Log != nil {
				d.Log.Error("call panicked", "panic", event.Redact(fmt.Sprint(v)), "stack", string(debug.Stack()))
			}
			err = errors.New("the call panicked")
		}
	}()
	return do(ctx)
}
