// Package serve puts a host behind an endpoint: HTTP, as Knative and Function
// Compute's custom runtime speak it, or Function Compute's own Go runtime.
//
// One answer for every endpoint: 204 the event is settled; 503 with Retry-After it
// must come again; 422 it can never be handled; 421 it is another cluster's; 401 the
// caller is not known.
// Function Compute counts an invocation as failed only by the header x-fc-status,
// so that it is set too.
//
// Callers show a bearer token: one of LBREMEDY_ENDPOINT_TOKEN or
// LBREMEDY_ENDPOINT_TOKEN_FILE, or a JSON Web Token as NewVerifier says, such as the
// token of a Kubernetes service account that is projected for the audience of the
// endpoint. Everybody who may create Pods in a cluster can have such a token for any
// audience, so that there LBREMEDY_ENDPOINT_JWT_SUBJECT should name who may call.
// Tokens are of use to HTTP callers: the event invocations of Function Compute
// bring no headers of the caller's, and RAM decides who may invoke.
//
// The keys of an issuer are read here and not by github.com/MicahParks/keyfunc (v3.9.1,
// with jwkset v0.11.4). It renews them by a ticker, which stands still in a frozen instance.
// Keys whose source is away stay good for ever; here they do for a day. It reads answers of
// any size. A token with an unknown key ID waits for a limiter, by default up to a minute;
// here it is refused at once. It would be two more modules in each function.
//
// An endpoint that asks for no token says so at the start. It is open where a platform
// stands before it, which is Function Compute (FC_FUNCTION_NAME) or Knative
// (K_SERVICE), and where LBREMEDY_ENDPOINT_OPEN is true; everywhere else it listens to
// its own machine alone. An event that a stranger sends can make a function look at a
// Service, which costs time; it can't make it write anything that the cluster itself
// does not ask for.
//
// An event comes as a CloudEvent in structured or binary mode, in a batch, or inside
// what EventBridge makes of an HTTP request. /invoke brings it as
// application/octet-stream, because Function Compute passes on the body of an event
// invocation and not its headers. A batch is answered as the worst of its events, so
// that none is lost: event streams of EventBridge know one answer for all of them, and
// those that were settled are answered from the journal when they come again. An HTTP
// trigger of Function Compute's Go runtime is a payload, too; its answer says the
// status that a caller by HTTP would have got.
//
// A run under Function Compute has the credentials that came with its request, and
// ends a moment before the platform would end it. The runtime is chosen by the
// environment, of one program: FC_RUNTIME_API names the API of the Go runtime, else it
// is HTTP on FC_CUSTOM_LISTEN_PORT or PORT, on 9000 under Function Compute and on 8080
// elsewhere. An instance that was frozen wakes with a dead connection to NATS, so that
// the connection is made anew before a run if nothing used it for a while.
package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime/debug"
	"strconv"
	"sync"
	"syscall"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2/event"

	"github.com/lbremedy/lbremedy/shared/engine"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/host"
	"github.com/lbremedy/lbremedy/shared/remedy"
)

// MaxBody is how many bytes of a request are read. A failure is cut to less than
// a quarter of it before it is published.
const MaxBody = 256 << 10

// An Endpoint answers requests with a host.
type Endpoint struct {
	Handle func(context.Context, cloudevents.Event) host.Reply
	Ready  func(context.Context) error // nil error: requests can be answered; nil: always ready
	Log    *slog.Logger                // nil: discarded
	Tokens func() ([]string, error)    // what callers must show as a bearer token, asked for each request; nil: none of them
	JWT    *Verifier                   // or a JSON Web Token that it finds good; nil: none
	FC     bool                        // Function Compute sends the requests: the credentials in their headers are the function's own

	hands hands
}

// Handler returns the endpoint's HTTP handler.
func (d *Endpoint) Handler() http.Handler {
	mux := http.NewServeMux()
	ok := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }
	mux.HandleFunc("POST /{$}", d.event)
	mux.HandleFunc("POST /invoke", d.event)
	mux.HandleFunc("POST /initialize", func(w http.ResponseWriter, r *http.Request) {
		if err := d.prepared(r.Context()); err != nil {
			d.refuse(w, r, http.StatusServiceUnavailable, "not initialised", err.Error())
			return
		}
		ok(w, r)
	})
	mux.HandleFunc("GET /pre-stop", func(w http.ResponseWriter, r *http.Request) {
		d.hands.wait(r.Context())
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

// An answer has the header by which Function Compute tells success from failure.
type answer struct {
	http.ResponseWriter
	said bool
}

// WriteHeader sends the status, and what Function Compute wants to know beside it.
func (a *answer) WriteHeader(status int) {
	if !a.said && status >= 200 {
		a.said = true
		verdict := "200"
		if status >= 400 {
			verdict = "404"
		}
		a.Header().Set("x-fc-status", verdict)
	}
	a.ResponseWriter.WriteHeader(status)
}

// Write writes the body of an answer, with the status 200 if none was sent.
func (a *answer) Write(b []byte) (int, error) {
	if !a.said {
		a.WriteHeader(http.StatusOK)
	}
	return a.ResponseWriter.Write(b)
}

// Unwrap returns what stands behind, for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// ready answers whether an event would find all it needs.
func (d *Endpoint) ready(w http.ResponseWriter, r *http.Request) {
	if err := d.prepared(r.Context()); err != nil {
		http.Error(w, event.Redact(err.Error()), http.StatusServiceUnavailable)
		return
	}
	w.WriteHeader(http.StatusOK)
}

// ready returns a function that answers whether NATS answers and the policy in force can
// be read: without it nothing is written.
func ready(env *engine.Env) func(context.Context) error {
	return func(ctx context.Context) error {
		err := env.Stream.Wake(ctx)
		if err == nil {
			_, err = env.Policy(ctx)
		}
		return err
	}
}

// prepared returns what keeps events from being answered, or nil. The program has
// connected before it listens, so that asking twice does no harm.
func (d *Endpoint) prepared(ctx context.Context) error {
	if d.Ready == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	return d.Ready(ctx)
}

// event answers one event, or a batch of them.
func (d *Endpoint) event(w http.ResponseWriter, r *http.Request) {
	const unsettled = "event not settled"
	if status, err := d.admit(r); err != nil {
		switch status {
		case http.StatusUnauthorized:
			w.Header().Set("WWW-Authenticate", "Bearer")
		case http.StatusServiceUnavailable:
			w.Header().Set("Retry-After", seconds(between))
		}
		d.refuse(w, r, status, unsettled, err.Error())
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBody))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		d.refuse(w, r, http.StatusUnprocessableEntity, unsettled, fmt.Sprintf("the request has more than %d bytes", MaxBody))
		return
	case err != nil:
		d.refuse(w, r, http.StatusServiceUnavailable, unsettled, "the request broke off")
		return
	}
	list, err := decode(r.Header, body)
	if err != nil {
		d.refuse(w, r, http.StatusUnprocessableEntity, unsettled, err.Error())
		return
	}
	ctx, cancel := d.context(r)
	defer cancel()
	reply := d.handle(ctx, list)
	switch {
	case errors.Is(reply.Err, engine.ErrForeign):
		d.refuse(w, r, http.StatusMisdirectedRequest, unsettled, reply.Dead)
	case reply.Dead != "":
		d.refuse(w, r, http.StatusUnprocessableEntity, unsettled, reply.Dead)
	case reply.Retry > 0:
		w.Header().Set("Retry-After", seconds(reply.Retry))
		if reply.Record.Class != "" { // the host has logged the run
			http.Error(w, event.Redact(because(reply)), http.StatusServiceUnavailable)
			return
		}
		d.refuse(w, r, http.StatusServiceUnavailable, unsettled, because(reply))
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}

func seconds(d time.Duration) string { return strconv.Itoa(int(math.Ceil(d.Seconds()))) }

// because says why an event must come again.
func because(r host.Reply) string {
	if r.Err != nil {
		return r.Err.Error()
	}
	return fmt.Sprintf("the case is not settled yet: again in %s", r.Retry)
}

// atOnce is how many events of a batch run at once.
const atOnce = 8

// handle answers the events of a request as one: with the worst of its replies. That
// is the one that must come again, because the sender sends all of them again, and
// what was settled before is told by the journal at once.
func (d *Endpoint) handle(ctx context.Context, list []cloudevents.Event) host.Reply {
	if !d.hands.begin() {
		return host.Reply{Retry: time.Second, Err: errors.New("the function ends, and takes nothing more")}
	}
	defer d.hands.end()
	replies := make([]host.Reply, len(list))
	slots := make(chan struct{}, atOnce)
	var all sync.WaitGroup
	for i, e := range list {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			replies[i] = d.one(ctx, e)
		})
	}
	all.Wait()
	worst := replies[0]
	for _, r := range replies[1:] {
		if r.Retry > worst.Retry || worst.Retry == 0 && worst.Dead == "" && r.Dead != "" {
			worst = r
		}
	}
	return worst
}

// one answers one event. A panic is the run's and not the endpoint's: the event comes again.
func (d *Endpoint) one(ctx context.Context, e cloudevents.Event) (r host.Reply) {
	defer func() {
		if v := recover(); v != nil {
			if d.Log != nil {
				d.Log.Error("run panicked", "event", e.ID(), "panic", event.Redact(fmt.Sprint(v)), "stack", string(debug.Stack()))
			}
			r = host.Reply{Retry: time.Second, Err: errors.New("the run panicked")}
		}
	}()
	return d.Handle(ctx, e)
}

// refuse answers with a status and one sentence.
func (d *Endpoint) refuse(w http.ResponseWriter, r *http.Request, status int, what, text string) {
	text = event.Redact(text)
	if d.Log != nil {
		log := d.Log
		if id := r.Header.Get("x-fc-request-id"); d.FC && id != "" {
			log = log.With("request", id)
		}
		log.Warn(what, "status", status, "error", text)
	}
	http.Error(w, text, status)
}

// Main is the main function of a program that serves one class. It is configured
// by the environment (see host.Config), listens on FC_CUSTOM_LISTEN_PORT, PORT or
// 8080, and runs under Function Compute's Go runtime where FC_RUNTIME_API is set.
// It ends with SIGTERM, after the requests in hand.
func Main(r *remedy.Remedy) {
	log := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx, r, log); err != nil {
		log.Error("function ends", "class", r.Class, "error", event.Redact(err.Error()))
		os.Exit(1)
	}
}

// whileCallerWaits is how long a run watches for success while a caller waits. What
// takes longer comes back through the stream.
const whileCallerWaits = 10 * time.Second

func run(ctx context.Context, r *remedy.Remedy, log *slog.Logger) error {
	config := host.FromEnv()
	config.Who, config.Watch, config.Log = "http", whileCallerWaits, log
	log = log.With("class", r.Class) // a run names its class itself
	inFC := os.Getenv("FC_RUNTIME_API") != ""
	if inFC || os.Getenv("FC_FUNCTION_NAME") != "" {
		config.Who = "fc"
	}
	config.Credentials = Key(nil)
	env, err := host.Connect(ctx, config)
	if err != nil {
		return err
	}
	defer env.Stream.Close()
	h := &host.Host{Env: env.Env, Remedies: []*remedy.Remedy{r}}
	if err := h.Validate(); err != nil {
		return err
	}
	d := &Endpoint{Log: log, Tokens: Tokens(os.Getenv), FC: config.Who == "fc", Ready: ready(env.Env)}
	d.Handle = func(ctx context.Context, e cloudevents.Event) host.Reply {
		// An instance that was frozen wakes with a dead connection.
		if err := env.Stream.Wake(ctx); err != nil {
			return host.Reply{Retry: time.Second, Err: err}
		}
		return h.Handle(ctx, e)
	}
	if d.JWT, err = NewVerifier(ctx, os.Getenv); err != nil {
		return err
	}
	if inFC {
		return d.goRuntime(ctx, os.Getenv("FC_RUNTIME_API"))
	}
	return d.listen(ctx, os.Getenv, d.Handler())
}

// listen serves the handler at the endpoint's address until ctx ends.
func (d *Endpoint) listen(ctx context.Context, getenv func(string) string, handler http.Handler) error {
	address, warning := address(getenv, d.guarded())
	if warning != "" {
		d.Log.Warn(warning, "address", address)
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", address, err)
	}
	d.Log.Info("function is ready", "address", listener.Addr().String())
	return Serve(ctx, listener, handler)
}

// address returns where to listen, and what to warn of. An endpoint that asks for no token
// is open to whoever reaches it: it listens to this machine alone, unless a platform
// stands before it or a person says so.
func address(getenv func(string) string, guarded bool) (address, warning string) {
	port := cmp.Or(getenv("FC_CUSTOM_LISTEN_PORT"), getenv("PORT"))
	if port == "" && getenv("FC_FUNCTION_NAME") != "" {
		port = "9000" // what Function Compute asks a custom runtime for that says nothing else
	}
	port = cmp.Or(port, "8080")
	switch {
	case guarded:
		return ":" + port, ""
	case getenv("FC_FUNCTION_NAME") != "":
		return ":" + port, "the endpoint asks for no token: the triggers of the function decide who may call"
	case getenv("K_SERVICE") != "":
		return ":" + port, "the endpoint asks for no token: whoever reaches the Knative Service may call"
	case getenv("LBREMEDY_ENDPOINT_OPEN") == "true":
		return ":" + port, "the endpoint asks for no token: LBREMEDY_ENDPOINT_OPEN lets whoever reaches it call"
	}
	return "127.0.0.1:" + port, "the endpoint asks for no token and listens to this machine alone: set LBREMEDY_ENDPOINT_TOKEN, " +
		"LBREMEDY_ENDPOINT_TOKEN_FILE or LBREMEDY_ENDPOINT_JWT_KEYS, or LBREMEDY_ENDPOINT_OPEN=true"
}

// idle is how long a connection without requests is kept: longer than platforms keep
// theirs, so that none sends a request on a connection that ends just then.
const idle = 15 * time.Minute

// drain is how long requests in hand may take after the end was asked for: a run
// ends within two minutes.
const drain = 2 * time.Minute

// sending is how long a caller may take to send the body of its request.
const sending = 30 * time.Second

// Timed limits the time in which a body comes, whether the handler reads it or not: before it answers,
// net/http reads what is left of one, and would wait for ever for what never comes. The limit ends with
// the body, as a run may take longer than its request.
func Timed(h http.Handler, sending time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := http.NewResponseController(w)
		if r.Body != nil && r.Body != http.NoBody && c.SetReadDeadline(time.Now().Add(sending)) == nil {
			r.Body = &timedBody{r.Body, func() { _ = c.SetReadDeadline(time.Time{}) }}
		}
		h.ServeHTTP(w, r)
	})
}

// A timedBody calls whole when all of it has been read.
type timedBody struct {
	io.ReadCloser
	whole func()
}

// Read reads the body.
func (b *timedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		b.whole()
	}
	return n, err
}

// Serve answers on the listener until ctx ends, then lets the requests in hand finish.
func Serve(ctx context.Context, l net.Listener, h http.Handler) error {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{Handler: Timed(h, sending), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: idle, MaxHeaderBytes: 32 << 10, Protocols: protocols}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer cancel()
	return server.Shutdown(last)
}
