package exporter

import (
	"bytes"
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2/event"
	"golang.org/x/time/rate"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/retry"
)

// Posts configures how EventBridge delivers a cluster's Events by POST. ACK puts them into EventBridge as CloudEvents of the types
// cs:k8s:ServiceRelatedEvent and so on (EventBridge documentation, "ACK events").
//
// A request needs EventBridge's signature and, because EventBridge signs for every account, the target's token. It only names an Event,
// which is then read from the API server under its own resource version. A list every half an hour finds what EventBridge doesn't deliver.
type Posts struct {
	Address string // where to listen; empty: Events are watched instead
	URL     string // of the target, as the rule in EventBridge has it
	Region  string // of EventBridge
	Token   string // of the target: the signature token

	limit *rate.Limiter
	wire  http.RoundTripper // transport for the certificate; nil: the network. Only tests set it
	mu    sync.Mutex
	key   certified
}

const (
	postSize    = 1 << 20 // of a request; an event of EventBridge has at most 64 KB (EventBridge documentation, "Limits")
	postRate    = 50      // requests in a second
	postBurst   = 200
	posted      = 1024             // Events that may wait to be read
	postReaders = 4                // concurrent reads
	postTries   = 5                // per Event; later the list finds it
	relistEvery = 30 * time.Minute // the API server keeps Events for an hour
	hearing     = 10 * time.Second // timeout of a request and of its answer
)

// PostsToken is the variable with the token; a flag would show it to everyone who may list processes.
const PostsToken = "LBREMEDY_FROM_HTTP_TOKEN"

// Flags adds the flags for the settings.
func (p *Posts) Flags(add func(at *string, name, value, usage string)) {
	add(&p.Address, "from-http", "", "`address` at which EventBridge posts Events, such as :8090; without it the exporter watches them")
	add(&p.URL, "from-http-url", "", "`URL` of the target in EventBridge, exactly as it is there; its token is read from "+PostsToken)
	add(&p.Region, "from-http-region", "", "`region` of EventBridge, such as cn-hangzhou")
}

// Listen returns the listener for requests; nil if Events are watched. Call it last, after all other settings are checked.
func (p *Posts) Listen() (net.Listener, error) {
	if p.Address == "" {
		if p.URL != "" || p.Region != "" {
			return nil, errors.New("--from-http-url and --from-http-region count only with --from-http")
		}
		return nil, nil
	}
	if err := p.check(); err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", p.Address)
	if err != nil {
		return nil, fmt.Errorf("--from-http: %w", err)
	}
	return l, nil
}

// Serve handles requests until ctx ends.
func (e *Exporter) Serve(ctx context.Context, l net.Listener) error {
	server := &http.Server{Handler: e, ReadHeaderTimeout: hearing, ReadTimeout: hearing, WriteTimeout: hearing, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("take requests of EventBridge: %w", err)
	}
	return nil
}

func (p *Posts) check() error {
	if p == nil {
		return nil
	}
	u, err := url.Parse(p.URL)
	switch {
	case err != nil, u.Scheme != "https", u.Host == "", u.User != nil, u.Fragment != "":
		return errors.New("--from-http-url: it is not a URL such as https://lbremedy.example.com/events")
	case p.Region == "" || strings.Trim(p.Region, "abcdefghijklmnopqrstuvwxyz0123456789-") != "":
		return fmt.Errorf("--from-http-region: %q is not a region such as cn-hangzhou", p.Region)
	case len(p.Token) < 16:
		return errors.New(PostsToken + ": the token of the target in EventBridge has less than 16 characters")
	}
	p.limit = rate.NewLimiter(postRate, postBurst)
	return nil
}

type refusal struct {
	status int
	says   string
}

func (r *refusal) Error() string { return r.says }

// ServeHTTP handles a request of EventBridge. 204 means that the named Events will be read, any other status that none will. EventBridge
// retries, and its rule's settings say what happens to undeliverable events.
func (e *Exporter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	err := e.receive(w, r)
	var no *refusal
	if err == nil {
		e.stats.Posted.Add(1)
		w.WriteHeader(http.StatusNoContent)
		return
	}
	if !errors.As(err, &no) {
		no = &refusal{http.StatusServiceUnavailable, err.Error()}
	}
	e.stats.Refused.Add(1)
	if e.logged.first("post " + no.says) {
		e.log.Warn("a request to the address for EventBridge is refused; more of this kind are only counted for an hour", "error", event.Redact(no.says))
	}
	if no.status == http.StatusTooManyRequests || no.status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "10")
	}
	http.Error(w, no.says, no.status)
}

// receive compares the token before reading the body, and verifies the signature before decoding it.
func (e *Exporter) receive(w http.ResponseWriter, r *http.Request) error {
	p := e.c.Posts
	target, _ := url.Parse(p.URL)
	switch {
	case r.URL.Path != target.Path:
		return &refusal{http.StatusNotFound, "nothing is at this path"}
	case r.Method != http.MethodPost:
		return &refusal{http.StatusMethodNotAllowed, "send a POST"}
	case subtle.ConstantTimeCompare([]byte(r.Header.Get(headerToken)), []byte(p.Token)) != 1:
		return &refusal{http.StatusUnauthorized, "the signature token is not that of the target"}
	case !p.limit.Allow(): // last: anybody can send requests without the token
		return &refusal{http.StatusTooManyRequests, "there are too many requests"}
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, postSize))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return &refusal{http.StatusRequestEntityTooLarge, "the body is larger than 1 MiB"}
	}
	if err != nil {
		return &refusal{http.StatusBadRequest, "the body ends too early"}
	}
	if err := p.verify(r.Context(), r.Header, body, e.c.Now()); err != nil {
		return err
	}
	all, err := named(r.Header, body)
	if err != nil {
		return &refusal{http.StatusBadRequest, err.Error()}
	}
	for _, which := range all {
		select {
		case e.posted <- which:
		default:
			return &refusal{http.StatusServiceUnavailable, "too many Events wait to be read"}
		}
	}
	return nil
}

// named returns the Events named in a request that may report failures. The request is one CloudEvent, structured or binary, or a batch.
func named(header http.Header, body []byte) ([]kube.Selection, error) {
	var data [][]byte
	media, _, _ := mime.ParseMediaType(header.Get("Content-Type"))
	switch body = bytes.TrimSpace(body); {
	case len(body) == 0:
		return nil, errors.New("it is not a CloudEvent: the body is empty")
	case media != cloudevents.ApplicationCloudEventsJSON && header.Get("Ce-Specversion") != "":
		if header.Get("Ce-Id") == "" || header.Get("Ce-Source") == "" || header.Get("Ce-Type") == "" {
			return nil, errors.New("it is not a CloudEvent: ce-id, ce-source or ce-type is missing")
		}
		data = [][]byte{body}
	default: // EventBridge may name it application/json
		var batch []cloudevents.Event
		if !bytes.HasPrefix(body, []byte("[")) {
			body = slices.Concat([]byte("["), body, []byte("]"))
		}
		if err := json.Unmarshal(body, &batch); err != nil {
			return nil, fmt.Errorf("it is not a CloudEvent: %.200s", err)
		}
		for _, e := range batch {
			if err := e.Validate(); err != nil {
				return nil, fmt.Errorf("it is not a CloudEvent: %.200s", err)
			}
			data = append(data, e.Data())
		}
	}
	var all []kube.Selection
	for _, d := range data {
		if which, ok := eventIn(d); ok {
			all = append(all, which)
		}
	}
	return all, nil
}

func eventIn(data []byte) (kube.Selection, bool) {
	var e struct {
		Metadata                  struct{ Namespace, Name string }
		InvolvedObject, Regarding struct{ Kind string }
		Reason                    string
	}
	if json.Unmarshal(event.Unwrap(data), &e) != nil || !kube.ValidName(e.Metadata.Namespace) || !kube.ValidName(e.Metadata.Name) {
		return kube.Selection{}, false
	}
	_, fails := event.FailureOf(e.Reason)
	about := e.InvolvedObject.Kind == "Service" || e.Regarding.Kind == "Service" || e.Metadata.Name == event.Precheck
	return kube.Selection{Namespace: e.Metadata.Namespace, Fields: "metadata.name=" + e.Metadata.Name}, fails || about
}

// readPosted reads the Events that requests name. It ignores deleted ones.
func (e *Exporter) readPosted(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case which := <-e.posted:
			backoff := retry.Backoff(firstWait, lastWait)
			var err error
			for range postTries {
				if _, err = e.c.Kube.ListEvents(ctx, which, e.see(ctx)); err == nil || ctx.Err() != nil {
					break
				}
				retry.Sleep(ctx, retry.Spread(backoff.Step()))
			}
			if err != nil && ctx.Err() == nil && e.logged.first("posted") {
				e.log.Warn("an Event that EventBridge tells of can't be read; a list of all Events, every half an hour, finds it", "kubeevent",
					which.Namespace+"/"+which.Fields, "error", err)
			}
		}
	}
}

func (e *Exporter) see(ctx context.Context) func(kube.Event) error {
	return func(ev kube.Event) error {
		if o, ok := e.classify(ev); ok {
			e.enter(o, true)
		}
		return ctx.Err()
	}
}

// lists periodically lists all Events: those from before the start, those lost by EventBridge, and those that NATS has lost.
func (e *Exporter) lists(ctx context.Context) {
	backoff := retry.Backoff(firstWait, lastWait)
	for ctx.Err() == nil {
		e.mu.Lock()
		present := e.present
		e.mu.Unlock()
		_, err := e.known(ctx, present)
		if err == nil {
			_, err = e.list(ctx)
		}
		for _, which := range others() {
			if err == nil {
				_, err = e.accept(e.c.Kube.ListEvents(ctx, which, e.see(ctx)))
			}
		}
		if err != nil {
			e.complain(ctx, err)
			retry.Sleep(ctx, retry.Spread(backoff.Step()))
			continue
		}
		e.reads()
		e.ready.Store(true)
		backoff = retry.Backoff(firstWait, lastWait)
		select {
		case <-ctx.Done():
		case <-e.anew:
		case <-time.After(relistEvery):
		}
	}
}
