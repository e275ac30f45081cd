package ticket

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/policy"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/shared/stream/embedded"
	"github.com/lbremedy/lbremedy/test/nats"
	"github.com/lbremedy/lbremedy/test/shell"
)

var remedies = []*remedy.Remedy{
	{Class: "vswitch-ip-exhausted", Doc: "# The vSwitch is full"},
	{Class: "arrearage", Doc: "# The account is in arrears", Scope: remedy.Account},
	{Class: "throttling", Doc: "# An API is throttled", Scope: remedy.Cluster},
	{Class: "busy", Doc: "# Busy"},
	{Class: "doctor-room", Doc: "# Room", Scope: remedy.Cluster},
}

type world struct {
	testing.TB
	ctx   context.Context
	nats  *embedded.Server
	dir   string
	s     *stream.Stream
	mu    sync.Mutex
	clock time.Time
	log   shell.Log
}

func newWorld(t testing.TB) *world {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	w := &world{TB: t, ctx: ctx, dir: t.TempDir(), clock: time.Now().Round(time.Second)}
	w.start()
	t.Cleanup(func() { w.nats.Close() })
	if _, err := w.s.Setup(ctx, nil, stream.Settings{}); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) start() {
	w.Helper()
	var err error
	if w.nats, err = embedded.Start(embedded.Options{Dir: w.dir, Port: -1}); err != nil {
		w.Fatal(err)
	}
	w.s = w.connect()
}

func (w *world) connect() *stream.Stream {
	w.Helper()
	return nats.Connect(w, stream.Config{URL: w.nats.URL()})
}

func (w *world) now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.clock
}

func (w *world) follower(change func(*Config), sinks ...policy.Sink) *Follower {
	w.Helper()
	c := Config{Stream: w.s, Sinks: sinks, Remedies: remedies, Cluster: "c1", Now: w.now,
		Log: slog.New(slog.NewTextHandler(io.MultiWriter(&w.log, w.Output()), nil))}
	tally := new(sync.Map)
	c.Count = func(_, kind string, n float64) {
		all, _ := tally.LoadOrStore(kind, new(atomic.Int64))
		all.(*atomic.Int64).Add(int64(n))
	}
	if change != nil {
		change(&c)
	}
	f, err := New(c)
	if err != nil {
		w.Fatal(err)
	}
	tallies.Store(f, tally)
	return f
}

func uid(n int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", n) }

func (w *world) record(n int, class string, result event.Result, change ...func(*event.Record)) event.Record {
	r := event.Record{
		Origin: event.Origin{
			Case: uid(n)[:8] + "-20260102T150405", Cluster: "c1", Class: class,
			Service: event.Service{Namespace: "shop", Name: fmt.Sprintf("web-%d", n), UID: uid(n)}, Event: "e.1.1",
			Message: "Error syncing load balancer []: Message: it is full.", EventTime: w.now(),
		},
		Run:      event.Run{Phase: event.Settled, Result: result, At: w.now(), First: w.now(), Who: "worker", Impact: event.NeverUp},
		Decision: event.Decision{Rule: say.Literal("Observe mode.")},
		Plan:     event.Plan{Risk: "low", Finding: say.Literal("The vSwitch is full."), Cause: "vsw-1"},
		Outcome:  event.Outcome{Digest: hash(fmt.Sprint(n)) + hash(""), Ask: say.Literal("Add a vSwitch.")},
	}
	if result == event.Gone || result == event.Superseded { // such a record has no plan and no question
		r.Plan, r.Outcome = event.Plan{Finding: say.Literal("It was freed.")}, event.Outcome{}
	}
	for _, f := range change {
		f(&r)
	}
	return r
}

func cause(id string) func(*event.Record) {
	return func(r *event.Record) { r.Cause, r.Finding = id, say.Literal("The vSwitch "+id+" is full.") }
}

func (w *world) write(r event.Record) stream.Message {
	w.Helper()
	return w.writeAs(event.CaseSubject(r.Cluster, r.Service.UID, r.Class), r)
}

func (w *world) writeAs(subject string, r event.Record) stream.Message {
	w.Helper()
	e, err := event.NewRecord(r)
	if err != nil {
		w.Fatal(err)
	}
	header, data, err := event.EncodeNATS(e)
	if err != nil {
		w.Fatal(err)
	}
	part := strings.Split(subject, ".")
	if _, err := w.s.AppendRecord(w.ctx, part[2], part[3], part[4], event.MessageID(e)+"."+rand.Text(), header, data, 0); err != nil {
		w.Fatal(err)
	}
	m, err := w.s.Last(w.ctx, stream.Cases, subject)
	if err != nil {
		w.Fatal(err)
	}
	return m
}

func (w *world) lasts(key string) string {
	w.Helper()
	m, err := w.s.Last(w.ctx, "KV_lbremedy", "$KV.lbremedy."+key)
	if err != nil {
		w.Fatal(err)
	}
	return strings.Join(m.Header["Nats-TTL"], " ")
}

// A queue delivers messages as a sink's consumer would, by the world's clock.
type queue struct {
	w       *world
	o       *outlet
	waiting []waiting
}

type waiting struct {
	m   stream.Message
	due time.Time
}

func (w *world) queue(f *Follower, sink int) *queue { return &queue{w: w, o: f.outlets[sink]} }

func (q *queue) put(ms ...stream.Message) {
	for _, m := range ms {
		q.waiting = append(q.waiting, waiting{m, q.w.now()})
	}
	q.run()
}

func (q *queue) run() {
	for {
		now := q.w.now()
		i := slices.IndexFunc(q.waiting, func(w waiting) bool { return !w.due.After(now) })
		if i < 0 {
			return
		}
		m := q.waiting[i].m
		q.waiting = slices.Delete(q.waiting, i, i+1)
		m.Deliveries++
		if reply := q.o.handle(q.w.ctx, m); reply.Retry > 0 {
			q.waiting = append(q.waiting, waiting{m, q.w.now().Add(reply.Retry)})
		}
	}
}

func (q *queue) pass(d time.Duration) {
	end := q.w.now().Add(d)
	for {
		next := end
		for _, w := range q.waiting {
			if w.due.Before(next) {
				next = w.due
			}
		}
		q.w.mu.Lock()
		q.w.clock = next
		q.w.mu.Unlock()
		q.run()
		if !next.Before(end) {
			return
		}
	}
}

func (q *queue) empty() {
	q.w.Helper()
	if len(q.waiting) != 0 {
		q.w.Errorf("%d messages wait still; the first until %s", len(q.waiting), q.waiting[0].due.Sub(q.w.now()))
	}
}

type hook struct {
	testing.TB
	server *httptest.Server
	mu     sync.Mutex
	posts  []post
	answer func(n int, p post) (status int, header http.Header, body string)
	came   chan post
}

type post struct {
	url    string
	header http.Header
	body   string
}

func (p post) notice(t testing.TB) (kind string, n Notice) {
	t.Helper()
	var e struct {
		Type string
		Data json.RawMessage
	}
	if err := errors.Join(json.Unmarshal([]byte(p.body), &e), json.Unmarshal(e.Data, &n)); err != nil {
		t.Fatalf("read the post %s: %v", p.body, err)
	}
	return strings.TrimSuffix(strings.TrimPrefix(e.Type, "io.lbremedy.ticket."), ".v1"), n
}

func newHook(t testing.TB) *hook {
	h := &hook{TB: t, came: make(chan post, 1000)}
	h.server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		p := post{r.URL.String(), r.Header, string(body)}
		h.mu.Lock()
		h.posts = append(h.posts, p)
		n, answer := len(h.posts), h.answer
		h.mu.Unlock()
		status, text := 200, "ok"
		if answer != nil {
			var header http.Header
			status, header, text = answer(n, p)
			maps.Copy(rw.Header(), header)
		}
		if status > 0 {
			rw.WriteHeader(status)
			_, _ = io.WriteString(rw, text)
		}
		h.came <- p
		if status == 0 { // cut the connection
			panic(http.ErrAbortHandler)
		}
	}))
	h.server.Config.ErrorLog = nil
	t.Cleanup(h.server.Close)
	return h
}

func (h *hook) answers(f func(n int, p post) (int, http.Header, string)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answer = f
}

func (h *hook) take() []post {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := h.posts
	h.posts = nil
	return all
}

func (h *hook) told() []string {
	h.Helper()
	var out []string
	for _, p := range h.take() {
		kind, n := p.notice(h)
		text := fmt.Sprintf("%s %s: %d fail, %d over", kind, n.Cause, n.Failing, n.Over)
		if n.Reopened {
			text += ", again"
		}
		out = append(out, text)
	}
	return out
}

const key = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="

type wire string

func (w wire) RoundTrip(r *http.Request) (*http.Response, error) {
	to, err := url.Parse(string(w))
	if err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	r.URL.Scheme, r.URL.Host, r.Host = to.Scheme, to.Host, ""
	return http.DefaultTransport.RoundTrip(r)
}

func (h *hook) wired(c *Config) { c.wire = wire(h.server.URL) }

func secret(t testing.TB, text string) policy.Reference {
	t.Helper()
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte(text+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return policy.Reference{File: file}
}

func (h *hook) sink(name string) policy.Sink {
	return policy.Sink{Name: name, Kind: policy.Webhook, URL: h.server.URL + "/hook", SecretFrom: secret(h, key)}
}

type counts struct{ Opened, Updated, Refused, Retries int }

// tallies are the counts by follower, of those that follower made.
var tallies sync.Map

func stats(f *Follower) counts {
	tally, _ := tallies.Load(f)
	n := func(kind string) int {
		all, _ := tally.(*sync.Map).Load(kind)
		if all == nil {
			return 0
		}
		return int(all.(*atomic.Int64).Load())
	}
	return counts{n(Opened), n(Updated), n(Refused), n(Retried)}
}
