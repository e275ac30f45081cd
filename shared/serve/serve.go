// Package serve is the program of a function: one class's hand, called over HTTP, as by Knative and Function Compute's custom runtime,
// or in Function Compute's own Go runtime. Begin with [Main] and [Endpoint].
//
// A call's own signature authenticates it (package hand), so it does not matter who can reach the function, which headers a platform
// passes on, or what it uses Authorization for. The function reads nothing before the signature is verified, except the API server's
// version, at most every 2 s, to answer whether it is ready. It keeps no state between calls and holds no secret.
//
// The answer to every call is a hand.Answer in JSON, even to a refused one. The status tells proxies and people the same: 200 the hand
// was asked; 400 and 413 the call can't be read; 401 its signature is not valid here; 409 the engine has another release; 412 one of
// the clocks is wrong; 408 and 503 the call was not taken; 500 the program is broken. Function Compute replaces an answer that the
// header x-fc-status calls failed, so it reports success below 500.
//
// Under Function Compute, a call has the credentials of its request and ends shortly before the platform would end it. FC_RUNTIME_API
// names the API of the Go runtime; without it, the function serves HTTP on FC_CUSTOM_LISTEN_PORT or PORT, by default 9000 under
// Function Compute and 8080 elsewhere.
package serve

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"github.com/lbremedy/lbremedy/shared/connect"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/hand"
	"github.com/lbremedy/lbremedy/shared/remedy"
)

// An Endpoint answers the calls of one hand.
type Endpoint struct {
	Hand  *hand.Served
	Ready func(context.Context) error // nil error: calls can be answered; nil: always ready
	Log   *slog.Logger                // nil: discarded
	FC    bool                        // Function Compute sends the requests: the credentials in their headers are the function's own

	inHand inHand
	newest readiness
}

// Handler returns the endpoint's HTTP handler.
func (d *Endpoint) Handler() http.Handler {
	mux := http.NewServeMux()
	ok := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }
	mux.HandleFunc("POST /{$}", d.call)
	mux.HandleFunc("POST /invoke", d.call)
	mux.HandleFunc("POST /initialize", d.ready)
	mux.HandleFunc("GET /pre-stop", func(w http.ResponseWriter, r *http.Request) {
		d.inHand.wait(r.Context())
		ok(w, r)
	})
	for _, live := range []string{"/healthz", "/health/liveness"} {
		mux.HandleFunc("GET "+live, ok)
	}
	for _, ready := range []string{"/readyz", "/health/readiness"} {
		mux.HandleFunc("GET "+ready, d.ready)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { mux.ServeHTTP(&answer{ResponseWriter: w}, r) })
}

// An answer adds the header by which Function Compute tells success from failure.
type answer struct {
	http.ResponseWriter
	said bool
}

func (a *answer) WriteHeader(status int) {
	if !a.said && status >= 200 {
		a.said = true
		verdict := "200"
		if status >= 500 || status >= 400 && a.Header().Get("Content-Type") != media {
			verdict = "404"
		}
		a.Header().Set("x-fc-status", verdict)
	}
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) Write(b []byte) (int, error) {
	if !a.said {
		a.WriteHeader(http.StatusOK)
	}
	return a.ResponseWriter.Write(b)
}

func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

const media = "application/json"

func (d *Endpoint) ready(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := d.context(r)
	defer cancel()
	if err := d.newest.ask(ctx, d.Ready); err != nil {
		text := event.Redact(err.Error())
		if d.Log != nil && r.Method == http.MethodPost { // an initializer, and not one of many probes
			d.Log.Warn("function is not ready", "error", text)
		}
		http.Error(w, text, http.StatusServiceUnavailable)
		return
	}
	w.WriteHeader(http.StatusOK)
}

const (
	asking    = 5 * time.Second // limits the API server's answer that shows a function ready
	sharedFor = 2 * time.Second // how old that answer may be
)

// A readiness is the newest answer whether a function is ready. All requests share it: they need no signature.
type readiness struct {
	sync.Mutex
	at  time.Time
	err error
}

func (a *readiness) ask(ctx context.Context, ready func(context.Context) error) error {
	a.Lock()
	defer a.Unlock()
	if ready == nil || time.Since(a.at) < sharedFor {
		return a.err
	}
	ctx, end := context.WithTimeout(context.WithoutCancel(ctx), asking) // the answer is not only this caller's
	defer end()
	a.err, a.at = ready(ctx), time.Now()
	return a.err
}

func (d *Endpoint) call(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := d.context(r)
	defer cancel()
	body := &counted{Reader: http.MaxBytesReader(w, r.Body, hand.MaxCall), in: &d.inHand}
	defer body.giveBack()
	call, err := io.ReadAll(body)
	var status int
	var text []byte
	if err == nil {
		status, text = d.answer(ctx, call)
	} else {
		_, large := errors.AsType[*http.MaxBytesError](err)
		switch {
		case large:
			status, text = refusal(http.StatusRequestEntityTooLarge, hand.ErrInvalid, fmt.Sprintf("the call has more than %d bytes", hand.MaxCall))
		case errors.Is(err, errFull):
			status, text = refusal(http.StatusServiceUnavailable, hand.ErrUnavailable, err.Error())
		default:
			status, text = refusal(http.StatusRequestTimeout, hand.ErrUnavailable, "the call broke off, or came too slowly")
		}
		d.log(ctx, status, text)
	}
	w.Header().Set("Content-Type", media)
	w.WriteHeader(status)
	_, _ = w.Write(text) // a caller that is gone gets no answer
}

// answer turns a panic into a problem: it ends neither the program nor another call.
func (d *Endpoint) answer(ctx context.Context, call []byte) (status int, text []byte) {
	defer func() {
		if p := recover(); p != nil {
			if d.Log != nil {
				d.Log.Error("function panicked", "panic", event.Redact(fmt.Sprint(p)), "stack", string(debug.Stack()))
			}
			status, text = refusal(http.StatusInternalServerError, hand.ErrUnsure, "the function panicked")
		}
		d.log(ctx, status, text)
	}()
	if !d.inHand.begin() {
		return refusal(http.StatusServiceUnavailable, hand.ErrUnavailable, "the function ends and takes no more calls")
	}
	defer d.inHand.end()
	return d.Hand.Answer(ctx, call)
}

func refusal(status int, kind error, text string) (int, []byte) {
	data, err := json.Marshal(hand.Answer{Problem: &hand.Error{Kind: kind.Error(), Text: event.Redact(text)}})
	if err != nil {
		panic(err) // it holds two texts
	}
	return status, data
}

func (d *Endpoint) log(ctx context.Context, status int, text []byte) {
	if d.Log == nil {
		return
	}
	log := d.Log.With("status", status)
	if id, ok := ctx.Value(requestOf{}).(string); ok {
		log = log.With("request", id)
	}
	var a hand.Answer
	if err := json.Unmarshal(text, &a); err != nil {
		log.Error("answer is not JSON", "error", err.Error())
		return
	}
	if a.ID != "" {
		log = log.With("call", a.ID, "uid", a.UID)
	}
	switch {
	case a.Problem == nil:
		log.Info("call answered")
	case a.ID == "":
		log.Warn("call refused", "error", a.Problem.Text)
	default:
		log.Warn("call failed", "error", a.Problem.Text)
	}
}

// Main is the main function of a program that serves one class. connect.Config and LBREMEDY_ENGINE_KEYS, the engine's public keys,
// configure it. It ends on SIGTERM, after the calls in hand.
func Main(r *remedy.Remedy) {
	log := slog.New(slog.NewJSONHandler(os.Stderr, nil)).With("class", r.Class)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx, r, log); err != nil {
		log.Error("function ends", "error", event.Redact(err.Error()))
		os.Exit(1)
	}
}

func run(ctx context.Context, r *remedy.Remedy, log *slog.Logger) error {
	d, err := endpoint(r, log)
	if err != nil {
		return err
	}
	if api := os.Getenv("FC_RUNTIME_API"); api != "" {
		return d.goRuntime(ctx, api)
	}
	return d.listen(ctx, os.Getenv)
}

func endpoint(r *remedy.Remedy, log *slog.Logger) (*Endpoint, error) {
	config := connect.FromEnv()
	config.Credentials, config.Log = Key(nil), log
	keys, err := hand.ParsePublicKeys(os.Getenv("LBREMEDY_ENGINE_KEYS"))
	if err != nil {
		err = fmt.Errorf("%w: set LBREMEDY_ENGINE_KEYS to the public key that \"lbremedy keys FILE\" prints", err)
	}
	if err := errors.Join(r.Validate(), config.Validate(), err); err != nil {
		return nil, err
	}
	clients, err := config.Clients(r.Decode)
	if err != nil {
		return nil, err
	}
	return &Endpoint{
		Hand: &hand.Served{Hand: clients.Hand(r), Cluster: config.Cluster, Class: r.Class, Declares: r.Declaration().Digest(), Keys: keys},
		Ready: func(ctx context.Context) error {
			_, err := clients.Kube.Version(ctx)
			return err
		},
		Log: log, FC: os.Getenv("FC_RUNTIME_API") != "" || os.Getenv("FC_FUNCTION_NAME") != "",
	}, nil
}

func (d *Endpoint) listen(ctx context.Context, getenv func(string) string) error {
	port := cmp.Or(getenv("FC_CUSTOM_LISTEN_PORT"), getenv("PORT"))
	if port == "" && getenv("FC_FUNCTION_NAME") != "" {
		port = "9000" // Function Compute's default for a custom runtime
	}
	port = cmp.Or(port, "8080")
	listener, err := net.Listen("tcp", ":"+port)
	if err != nil {
		return fmt.Errorf("listen on :%s: %w", port, err)
	}
	d.Log.Info("function is ready", "address", listener.Addr().String())
	return Serve(ctx, listener, d.Handler())
}
