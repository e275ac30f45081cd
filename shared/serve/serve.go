// Package serve puts a host behind a door: HTTP, as Knative and Function
// Compute's custom runtime speak it, or Function Compute's own Go runtime.
//
// One answer for every door: 204 the event is settled; 503 with Retry-After it
// must come again; 422 it can never be handled; 401 the caller is not known.
// Function Compute counts an invocation as failed only by the header x-fc-status,
// so that it is set too.
//
// Callers show a bearer token: one of LBREMEDY_DOOR_TOKEN or
// LBREMEDY_DOOR_TOKEN_FILE, or a JSON Web Token as NewVerifier says, such as the
// token of a Kubernetes service account that is projected for the audience of the
// door. Everybody who may create Pods in a cluster can have such a token for any
// audience, so that there LBREMEDY_DOOR_JWT_SUBJECT should name who may call.
// Tokens are of use to HTTP callers: the event invocations of Function Compute
// bring no headers of the caller's, and RAM decides who may invoke.
//
// A door that asks for no token says so at the start. It is open where a platform
// stands before it, which is Function Compute (FC_FUNCTION_NAME) or Knative
// (K_SERVICE), and where LBREMEDY_DOOR_OPEN is true; everywhere else it listens to
// its own machine alone. An event that a stranger sends can make a function look at a
// Service, which costs time; it can't make it write anything that the cluster itself
// does not ask for.
//
// An event comes as a CloudEvent in structured or binary mode. /invoke brings
// the structured form as application/octet-stream, because Function Compute
// passes on the body of an event invocation and not its headers.
package serve

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"mime"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/aliyun/fc-runtime-go-sdk/fc"
	"github.com/aliyun/fc-runtime-go-sdk/fccontext"
	cloudevents "github.com/cloudevents/sdk-go/v2"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"

	"github.com/lbremedy/lbremedy/events"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/host"
	"github.com/lbremedy/lbremedy/shared/remedy"
)

// MaxBody is how many bytes of a request are read. A failure is cut to less than
// a quarter of it before it is published.
const MaxBody = 256 << 10

// A Door answers requests with a host.
type Door struct {
	Handle func(context.Context, cloudevents.Event) host.Reply
	Ready  func(context.Context) error // nil error: requests can be answered; nil: always ready
	Log    *slog.Logger                // nil: discarded
	Tokens func() ([]string, error)    // what callers must show as a bearer token, asked for each request; nil: none of them
	JWT    *Verifier                   // or a JSON Web Token that it finds good; nil: none
	FC     bool                        // Function Compute sends the requests: the credentials in their headers are the function's own
}

// Handler returns the door's HTTP handler.
func (d *Door) Handler() http.Handler {
	mux := http.NewServeMux()
	ok := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }
	mux.HandleFunc("POST /{$}", d.event)
	mux.HandleFunc("POST /invoke", d.event)
	mux.HandleFunc("POST /initialize", ok)
	mux.HandleFunc("GET /pre-stop", ok)
	for _, live := range []string{"/healthz", "/health/liveness"} {
		mux.HandleFunc("GET "+live, ok)
	}
	for _, ready := range []string{"/readyz", "/health/readiness"} {
		mux.HandleFunc("GET "+ready, d.ready)
	}
	return mux
}

func (d *Door) ready(w http.ResponseWriter, r *http.Request) {
	if d.Ready != nil {
		ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
		defer cancel()
		if err := d.Ready(ctx); err != nil {
			http.Error(w, events.Redact(err.Error()), http.StatusServiceUnavailable)
			return
		}
	}
	w.WriteHeader(http.StatusOK)
}

// event answers one event.
func (d *Door) event(w http.ResponseWriter, r *http.Request) {
	if !d.admit(w, r) {
		return
	}
	read := within(w)
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBody))
	read()
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		d.refuse(w, http.StatusUnprocessableEntity, fmt.Sprintf("the request has more than %d bytes", MaxBody))
		return
	case err != nil:
		d.refuse(w, http.StatusServiceUnavailable, "the request broke off")
		return
	}
	e, err := decode(r.Header, body)
	if err != nil {
		d.refuse(w, http.StatusUnprocessableEntity, err.Error())
		return
	}
	ctx := r.Context()
	if d.FC {
		h := r.Header
		ctx = withKey(ctx, h.Get("x-fc-access-key-id"), h.Get("x-fc-access-key-secret"), h.Get("x-fc-security-token"))
	}
	reply := d.Handle(ctx, e)
	switch {
	case reply.Dead != "":
		d.refuse(w, http.StatusUnprocessableEntity, reply.Dead)
	case reply.Retry > 0:
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(reply.Retry.Seconds()))))
		text := "the case is not settled yet"
		if reply.Err != nil {
			text = reply.Err.Error()
		}
		d.refuse(w, http.StatusServiceUnavailable, text)
	default:
		w.Header().Set("x-fc-status", "200")
		w.WriteHeader(http.StatusNoContent)
	}
}

// refuse answers with a status and one sentence.
func (d *Door) refuse(w http.ResponseWriter, status int, text string) {
	text = events.Redact(text)
	if d.Log != nil {
		d.Log.Warn("event not settled", "status", status, "error", text)
	}
	w.Header().Set("x-fc-status", "404")
	http.Error(w, text, status)
}

// decode reads a CloudEvent from a request: binary mode if its headers say so,
// else the body's JSON, whatever content type it came under.
func decode(header http.Header, body []byte) (cloudevents.Event, error) {
	kind, _, _ := mime.ParseMediaType(header.Get("Content-Type"))
	if header.Get("Ce-Specversion") != "" && !strings.HasPrefix(kind, cloudevents.ApplicationCloudEventsJSON) {
		return decodeBinary(header, body)
	}
	switch kind {
	case cloudevents.ApplicationCloudEventsJSON, cloudevents.ApplicationJSON, "application/octet-stream", "":
	default:
		return cloudevents.Event{}, fmt.Errorf("the content type %q is not one of a CloudEvent: send application/cloudevents+json, or the ce- headers of the binary mode", kind)
	}
	return decodeJSON(body)
}

func decodeBinary(header http.Header, body []byte) (cloudevents.Event, error) {
	r := &http.Request{Header: header.Clone(), Body: io.NopCloser(strings.NewReader(string(body)))}
	e, err := cehttp.NewEventFromHTTPRequest(r)
	if err != nil {
		return cloudevents.Event{}, fmt.Errorf("the request is no CloudEvent in binary mode: %w", err)
	}
	if err := e.Validate(); err != nil {
		return cloudevents.Event{}, fmt.Errorf("the CloudEvent is not valid: %w", err)
	}
	return *e, nil
}

func decodeJSON(body []byte) (cloudevents.Event, error) {
	var e cloudevents.Event
	if err := json.Unmarshal(body, &e); err != nil {
		return cloudevents.Event{}, fmt.Errorf("the body is no CloudEvent in JSON: %w", err)
	}
	if err := e.Validate(); err != nil {
		return cloudevents.Event{}, fmt.Errorf("the CloudEvent is not valid: %w", err)
	}
	return e, nil
}

// Dead is the error of an invocation whose event can never be handled. Function
// Compute's Go runtime passes on the name of an error's type, and the courier knows it
// by this one.
type Dead string

// Error says why.
func (d Dead) Error() string { return string(d) }

// Invoke answers one invocation of Function Compute's Go runtime. An error makes
// the platform count the invocation as failed; a Dead one is for good.
func (d *Door) Invoke(ctx context.Context, payload []byte) (json.RawMessage, error) {
	e, err := decodeJSON(payload)
	if err != nil {
		return nil, Dead(events.Redact(err.Error()))
	}
	if fcc, ok := fccontext.FromContext(ctx); ok {
		c := fcc.Credentials
		ctx = withKey(ctx, c.AccessKeyId, c.AccessKeySecret, c.SecurityToken)
	}
	reply := d.Handle(ctx, e)
	switch {
	case reply.Dead != "":
		return nil, Dead(events.Redact(reply.Dead))
	case reply.Retry > 0 && reply.Err != nil:
		return nil, errors.New(events.Redact(reply.Err.Error()))
	case reply.Retry > 0:
		return nil, fmt.Errorf("the case is not settled yet: again in %s", reply.Retry)
	}
	return json.RawMessage(fmt.Sprintf(`{"case":%q,"result":%q}`, reply.Record.Case, reply.Record.Result)), nil
}

// keyOf is where the function's own credentials lie in a request's context.
type keyOf struct{}

// withKey keeps the credentials that Function Compute sends with each request to
// a function that has a role.
func withKey(ctx context.Context, id, secret, token string) context.Context {
	if id == "" {
		return ctx
	}
	return context.WithValue(ctx, keyOf{}, cloud.Key{ID: id, Secret: secret, Token: token})
}

// Key returns the credentials that came with the request, if any did; else those
// of next. A nil next is the SDK's default chain.
func Key(next cloud.Credentials) cloud.Credentials {
	if next == nil {
		next = cloud.DefaultChain()
	}
	return func(ctx context.Context) (cloud.Key, error) {
		if k, ok := ctx.Value(keyOf{}).(cloud.Key); ok {
			return k, nil
		}
		return next(ctx)
	}
}

// Main is the main function of a program that serves one class. It is configured
// by the environment (see host.Config), listens on FC_CUSTOM_LISTEN_PORT, PORT or
// 8080, and runs under Function Compute's Go runtime where FC_RUNTIME_API is set.
// It ends with SIGTERM, after the requests in hand.
func Main(r *remedy.Remedy) {
	log := slog.New(slog.NewJSONHandler(os.Stderr, nil)).With("class", r.Class)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx, r, log); err != nil {
		log.Error("function ends", "error", events.Redact(err.Error()))
		os.Exit(1)
	}
}

// behindDoor is how long a run watches for success while a caller waits. What
// takes longer comes back through the stream.
const behindDoor = 10 * time.Second

func run(ctx context.Context, r *remedy.Remedy, log *slog.Logger) error {
	config := host.FromEnv()
	config.Who, config.Watch, config.Log = "http", behindDoor, log
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
	h := &host.Host{Env: env, Remedies: []*remedy.Remedy{r}}
	if err := h.Validate(); err != nil {
		return err
	}
	d := &Door{Log: log, Tokens: Tokens(os.Getenv), FC: config.Who == "fc", Ready: env.Stream.Ping, Handle: func(ctx context.Context, e cloudevents.Event) host.Reply {
		// An instance that was frozen wakes with a dead connection.
		if err := env.Stream.Wake(ctx); err != nil {
			return host.Reply{Retry: time.Second, Err: err}
		}
		return h.Handle(ctx, e)
	}}
	if inFC {
		fc.Start(d.Invoke) // never returns
		return nil
	}
	if d.JWT, err = NewVerifier(os.Getenv); err != nil {
		return err
	}
	address, warning := address(os.Getenv, d.guarded())
	if warning != "" {
		log.Warn(warning, "address", address)
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", address, err)
	}
	log.Info("function is ready", "address", listener.Addr().String())
	return Serve(ctx, listener, d.Handler())
}

// address returns where to listen, and what to warn of. A door that asks for no token
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
		return ":" + port, "the door asks for no token: the triggers of the function decide who may call"
	case getenv("K_SERVICE") != "":
		return ":" + port, "the door asks for no token: whoever reaches the Knative Service may call"
	case getenv("LBREMEDY_DOOR_OPEN") == "true":
		return ":" + port, "the door asks for no token: LBREMEDY_DOOR_OPEN lets whoever reaches it call"
	}
	return "127.0.0.1:" + port, "the door asks for no token and listens to this machine alone: set LBREMEDY_DOOR_TOKEN, LBREMEDY_DOOR_TOKEN_FILE or LBREMEDY_DOOR_JWT_KEYS, or LBREMEDY_DOOR_OPEN=true"
}

// drain is how long requests in hand may take after the end was asked for: a run
// ends within two minutes.
const drain = 2 * time.Minute

// Serve answers on the listener until ctx ends, then lets the requests in hand finish.
func Serve(ctx context.Context, l net.Listener, h http.Handler) error {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 32 << 10, Protocols: protocols}
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
