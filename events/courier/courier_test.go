package courier

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/observe"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/shared/stream/embedded"
	"github.com/lbremedy/lbremedy/test/nats"
	"github.com/lbremedy/lbremedy/test/shell"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A place is a NATS server with the streams for some classes, and a connection to it.
type place struct {
	*stream.Stream
	server *embedded.Server
	js     jetstream.JetStream
}

func newPlace(t testing.TB, grace time.Duration, classes ...string) *place {
	t.Helper()
	p := &place{server: nats.Start(t, embedded.Options{})}
	p.Stream, p.js = p.connect(t, grace), nats.JetStream(t, p.server.URL())
	if _, err := p.Setup(t.Context(), classes, stream.Settings{Clusters: []string{"c1"}}); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *place) connect(t testing.TB, grace time.Duration) *stream.Stream {
	t.Helper()
	return nats.Connect(t, stream.Config{URL: p.server.URL(), Grace: grace})
}

func uid(i int) string { return fmt.Sprintf("00000000-0000-0000-0000-%012d", i) }

// fail stores n failures of a class, of Services from the number first on.
func (p *place) fail(t testing.TB, class string, first, n int) {
	t.Helper()
	p.failAll(t, []string{class}, first, n)
}

// failAll does so for several classes, in turns.
func (p *place) failAll(t testing.TB, classes []string, first, n int) {
	t.Helper()
	pipe := p.Pipe(64)
	for i := range n * len(classes) {
		class, i := classes[i%len(classes)], first+i/len(classes)
		e, err := event.NewFailed(event.Failure{
			Cluster: "c1", Class: class, Reason: "SyncLoadBalancerFailed", Type: "Warning", Message: "no",
			Service: event.Service{Namespace: "shop", Name: "web", UID: uid(i)},
			Event:   event.Reference{Name: "web.1", UID: uid(i), ResourceVersion: "7"}, Count: 1, First: time.Now(), Last: time.Now(),
			Trace: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		})
		if err != nil {
			t.Fatal(err)
		}
		header, data, err := event.EncodeNATS(e)
		if err != nil {
			t.Fatal(err)
		}
		err = pipe.Publish(t.Context(), event.FailedSubject("c1", class, uid(i)), event.MessageID(e), header, data,
			func(stream.Message) bool { return true },
			func(_ uint64, _ bool, err error) {
				if err != nil {
					t.Error(err)
				}
			})
		if err != nil {
			t.Fatal(err)
		}
	}
	pipe.Wait()
}

// A post is one request that a function got.
type post struct {
	class string
	event string
	body  []byte
	http.Header
	host string
	at   time.Time
}

// A function answers requests and remembers them. Its path is the class.
type function struct {
	*httptest.Server
	answer func(w http.ResponseWriter, r *http.Request, n int)

	mu    sync.Mutex
	posts []post
	now   int // requests in hand
	most  int // of them at once
}

// newFunction starts a function. n is the number of the request, from 1; a nil answer is 204.
func newFunction(t testing.TB, answer func(w http.ResponseWriter, r *http.Request, n int)) *function {
	t.Helper()
	return started(t, answer, (*httptest.Server).Start)
}

func started(t testing.TB, answer func(w http.ResponseWriter, r *http.Request, n int), start func(*httptest.Server)) *function {
	t.Helper()
	f := &function{answer: answer}
	f.Server = httptest.NewUnstartedServer(f)
	f.Config.ErrorLog = log.New(io.Discard, "", 0) // that some callers break off is wanted
	start(f.Server)
	t.Cleanup(f.Close)
	return f
}

func (f *function) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	e, err := event.DecodeJSON(body)
	id := e.ID()
	if err != nil {
		id = "no event: " + err.Error()
	}
	f.mu.Lock()
	f.posts = append(f.posts, post{strings.Trim(r.URL.Path, "/"), id, body, r.Header.Clone(), r.Host, time.Now()})
	n := len(f.posts)
	f.now++
	f.most = max(f.most, f.now)
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		f.now--
		f.mu.Unlock()
	}()
	if f.answer != nil {
		f.answer(w, r, n)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (f *function) all() []post {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.posts)
}

// running runs a courier by a routes file's text until the test or the returned function
// ends it.
func running(t testing.TB, s *stream.Stream, classes []string, text string, log io.Writer) (*Courier, func()) {
	t.Helper()
	return runningRoutes(t, Config{Cluster: "c1", Stream: s, Log: slog.New(slog.NewJSONHandler(log, nil)), Metrics: observe.New("v1", "c1").Courier(classes)},
		parsed(t, text, classes), nil)
}

// parsed returns the routes of cluster c1.
func parsed(t testing.TB, text string, classes []string) Routes {
	t.Helper()
	routes, err := Parse([]byte(text), []string{"c1"}, classes)
	if err != nil {
		t.Fatal(err)
	}
	return routes["c1"]
}

func runningRoutes(t testing.TB, config Config, routes Routes, changed <-chan Routes) (*Courier, func()) {
	t.Helper()
	c := New(config)
	c.again = 20 * time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx, routes, changed) }()
	end := sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(end)
	return c, end
}

// open returns how many failures of a class are not settled. The server counts what a
// consumer has to deliver a moment after it has stored it, so that a count of none is held
// against what is stored.
func (p *place) open(t testing.TB, class string) uint64 {
	t.Helper()
	failed, err := p.js.Stream(t.Context(), stream.Failed)
	if err != nil {
		t.Fatal(err)
	}
	c, err := failed.Consumer(t.Context(), stream.ConsumerOf("c1", class))
	if err != nil {
		t.Fatalf("there is no consumer %s: %v", class, err)
	}
	info := c.CachedInfo()
	if n := info.NumPending + uint64(info.NumAckPending); n > 0 {
		return n
	}
	last, err := failed.GetLastMsgForSubject(t.Context(), "lbremedy.failed.c1."+class+".>")
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return 0
	case err != nil:
		t.Fatal(err)
	case last.Sequence > info.Delivered.Stream:
		return 1
	}
	return 0
}

func (p *place) dead(t testing.TB) []stream.Message {
	t.Helper()
	var all []stream.Message
	if err := p.Each(t.Context(), stream.Dead, stream.DeadSubjects, time.Time{}, func(m stream.Message) error { all = append(all, m); return nil }); err != nil {
		t.Fatal(err)
	}
	return all
}

// What each answer does to the message, to readiness and to the log.
func TestAnswers(t *testing.T) {
	t.Parallel()
	const secret = "https://slb.aliyuncs.com/?AccessKeyId=LTAI4FakeFakeFake1234&Signature=c2VjcmV0c2VjcmV0c2Vj%3D"
	for _, tt := range []struct {
		name   string
		answer func(w http.ResponseWriter, r *http.Request, n int)
		end    end
		status string // in the log
		says   string // in the log, and in DEAD
	}{
		{"settled", nil, acked, `"status":204`, "event delivered"},
		{"accepted", status(202, ""), acked, `"status":202`, "event delivered"},
		{"not yet", status(503, "the case is not settled yet\n"), later, `"status":503`, "the function answers 503: the case is not settled yet"},
		{"too many", status(429, ""), later, `"status":429`, "Too Many Requests"},
		{"broken off", func(http.ResponseWriter, *http.Request, int) { panic(http.ErrAbortHandler) }, later, `"status":0`, "EOF"},
		{"can't be", status(422, "nobody knows "+secret+"\nsecond line"), dead, `"status":422`, "the function answers 422: nobody knows https://slb.aliyuncs.com/"},
		{"nothing said", status(415, ""), dead, `"status":415`, "Unsupported Media Type"},
		{"not known", status(401, "who are you"), refused, `"status":401`, "the function answers 401: who are you"},
		{"nobody there", status(404, "404 page not found"), refused, `"status":404`, "page not found"},
		{"elsewhere", func(w http.ResponseWriter, r *http.Request, _ int) {
			http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusTemporaryRedirect)
		}, refused, `"status":307`, "the function answers 307"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t, time.Second, "busy")
			f := newFunction(t, tt.answer)
			p.fail(t, "busy", 1, 1)
			var log shell.Log
			c, end := running(t, p.Stream, known, "routes: {busy: {url: '"+f.URL+"/busy'}}", &log)
			shell.Until(t, "the answer is in the log", func() bool { return strings.Contains(log.String(), tt.status) })
			ready := c.Ready()
			if (ready != nil) != (tt.end == refused) {
				t.Errorf("ready: %v", ready)
			}
			if gone := tt.end == acked || tt.end == dead; gone {
				shell.Until(t, "nothing waits", func() bool { return p.open(t, "busy") == 0 })
			} else if n := p.open(t, "busy"); n != 1 {
				t.Errorf("%d messages wait, want 1", n)
			}
			end()
			if !strings.Contains(log.String(), tt.says) || strings.Contains(log.String(), "c2VjcmV0") {
				t.Errorf("the log is %s", log.String())
			}
			letters := p.dead(t)
			if (len(letters) == 1) != (tt.end == dead) {
				t.Fatalf("%d dead letters", len(letters))
			}
			if tt.end == dead {
				origin, reason, _ := letters[0].Origin()
				if origin != event.FailedSubject("c1", "busy", uid(1)) || !strings.HasPrefix(reason, "class busy: ") || !strings.Contains(reason, tt.says) ||
					strings.Contains(reason, "c2VjcmV0") {
					t.Errorf("the dead letter is of %s, because %s", origin, reason)
				}
			}
			got := f.all()[0]
			if got.Get("Content-Type") != "application/cloudevents+json; charset=utf-8" || got.event != uid(1)+".1.7" ||
				got.Get("Traceparent") != "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01" || !bytes.Contains(got.body, []byte(`"specversion":"1.0"`)) {
				t.Errorf("the function got %s with %v", got.body, got.Header)
			}
		})
	}
}

func status(code int, text string) func(http.ResponseWriter, *http.Request, int) {
	return func(w http.ResponseWriter, _ *http.Request, _ int) {
		w.WriteHeader(code)
		_, _ = io.WriteString(w, text)
	}
}

// A message that is no event is dead without having been sent.
func TestNoEvent(t *testing.T) {
	t.Parallel()
	p := newPlace(t, time.Second, "busy")
	f := newFunction(t, nil)
	_, _, err := p.PublishNewer(t.Context(), event.FailedSubject("c1", "busy", uid(1)), "x", nil, []byte("no event"), func(stream.Message) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	running(t, p.Stream, known, "routes: {busy: {url: '"+f.URL+"'}}", io.Discard)
	shell.Until(t, "it is dead", func() bool { return len(p.dead(t)) == 1 && p.open(t, "busy") == 0 })
	if n := len(f.all()); n > 0 {
		t.Errorf("the function got %d requests", n)
	}
}

// The function says how long a message stays away; else it comes again sooner than that.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	p := newPlace(t, time.Second, "busy")
	f := newFunction(t, func(w http.ResponseWriter, _ *http.Request, n int) {
		switch n {
		case 1:
			w.Header().Set("Retry-After", "2")
			w.WriteHeader(http.StatusServiceUnavailable)
		case 2:
			w.Header().Set("Retry-After", time.Now().Add(3*time.Second).UTC().Format(http.TimeFormat))
			w.WriteHeader(http.StatusTooManyRequests)
		default:
			w.WriteHeader(http.StatusNoContent)
		}
	})
	p.fail(t, "busy", 1, 1)
	running(t, p.Stream, known, "routes: {busy: {url: '"+f.URL+"'}}", io.Discard)
	shell.Until(t, "it is settled", func() bool { return len(f.all()) == 3 && p.open(t, "busy") == 0 })
	got := f.all()
	if d := got[1].at.Sub(got[0].at); d < 2*time.Second {
		t.Errorf("asked for 2 s, it came again after %s", d)
	}
	if d := got[2].at.Sub(got[1].at); d < 2*time.Second { // a date has whole seconds
		t.Errorf("asked for 2 to 3 s by a date, it came again after %s", d)
	}
}

// Of 1,000 that wait, each is delivered once, never more at once than the route allows,
// and no faster.
func TestThousand(t *testing.T) {
	t.Parallel()
	const n = 1000
	for _, tt := range []struct {
		name    string
		workers int
		rate    int           // a second; 0: no limit
		run     time.Duration // of the function
	}{
		{"as many as hands", 10, 0, 5 * time.Millisecond},
		{"as fast as the limit", 10, 400, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t, time.Second, "busy")
			all := make(chan struct{}) // as many as may be have come at once
			f := newFunction(t, func(w http.ResponseWriter, r *http.Request, i int) {
				if i == tt.workers {
					close(all)
				}
				if tt.rate == 0 {
					select {
					case <-all:
					case <-r.Context().Done():
					}
				}
				run := time.NewTimer(tt.run)
				<-run.C
				w.WriteHeader(http.StatusNoContent)
			})
			p.fail(t, "busy", 1, n)
			began := time.Now()
			running(t, p.Stream, known, fmt.Sprintf("routes: {busy: {url: '%s', concurrency: %d, rate: %d}}", f.URL, tt.workers, tt.rate), io.Discard)
			shell.Until(t, "all are delivered", func() bool { return p.open(t, "busy") == 0 })
			took := time.Since(began)
			seen := map[string]int{}
			for _, got := range f.all() {
				seen[got.event]++
			}
			if len(seen) != n || len(f.all()) != n {
				t.Errorf("%d events in %d requests, want %d", len(seen), len(f.all()), n)
			}
			if f.most > tt.workers || tt.rate == 0 && f.most < tt.workers {
				t.Errorf("%d at once, want %d", f.most, tt.workers)
			}
			if tt.rate > 0 && took < time.Duration(n-tt.workers)*time.Second/time.Duration(tt.rate) {
				t.Errorf("%s for %d requests is faster than %d a second", took, n, tt.rate)
			}
			t.Logf("%d in %s, at most %d at once", n, took.Round(time.Millisecond), f.most)
		})
	}
}

// One function hangs, and one is not there: the 34 others don't notice.
func TestHanging(t *testing.T) {
	t.Parallel()
	const others = 34
	classes := []string{"hangs", "away"}
	for i := range others {
		classes = append(classes, fmt.Sprintf("flows-%d", i))
	}
	p := newPlace(t, 100*time.Millisecond, classes...)
	var hanging atomic.Int64
	f := newFunction(t, func(w http.ResponseWriter, r *http.Request, _ int) {
		if r.URL.Path == "/hangs" {
			hanging.Add(1)
			<-r.Context().Done()
		}
		w.WriteHeader(http.StatusNoContent)
	})
	_, end := running(t, p.Stream, classes, "default: {url: '"+f.URL+"/{class}'}\nroutes: {away: {url: 'http://127.0.0.1:1'}}", io.Discard)
	// Time from the publish of some messages of each class until the last is delivered.
	const each = 5
	flowing := func() int {
		n := 0
		for _, got := range f.all() {
			if got.class != "hangs" {
				n++
			}
		}
		return n
	}
	round := func(first int) time.Duration {
		before, began := flowing(), time.Now()
		p.failAll(t, classes[2:], first, each)
		shell.Until(t, "all others are delivered", func() bool { return flowing()-before == each*others })
		return time.Since(began)
	}
	round(1)
	var healthy, held []time.Duration
	for i := range 3 {
		healthy = append(healthy, round(1000*(i+1)))
	}
	p.fail(t, "hangs", 1, 100)
	p.fail(t, "away", 1, 20)
	shell.Until(t, "all hands of one class hang", func() bool { return hanging.Load() == defaultWorkers })
	for i := range 3 {
		held = append(held, round(1000*(i+10)))
	}
	slices.Sort(healthy)
	slices.Sort(held)
	t.Logf("%d messages for each of %d classes: %s; while one class hangs and one is away: %s", each, others, healthy[1], held[1])
	if held[1] > 4*healthy[1]+time.Second {
		t.Errorf("the others took %s, and %s without the one that hangs", held[1], healthy[1])
	}
	end()
	if n := p.open(t, "hangs"); n != 100 {
		t.Errorf("%d messages of the class that hangs wait, want 100", n)
	}
}

// At the end, what is in hand is finished, what waits is given back at once, and what
// takes longer than the grace comes again soon. Nothing is lost, nothing is done twice.
func TestDrain(t *testing.T) {
	t.Parallel()
	p := newPlace(t, 2*time.Second, "busy", "quota")
	release := make(chan struct{})
	begun := make(chan string, 100)
	f := newFunction(t, func(w http.ResponseWriter, r *http.Request, n int) {
		begun <- r.URL.Path
		switch {
		case r.URL.Path == "/quota" && n < 100:
			<-r.Context().Done() // hangs until the courier lets go
		case r.URL.Path == "/busy":
			<-release
		}
		w.WriteHeader(http.StatusNoContent)
	})
	p.fail(t, "busy", 1, 20)
	p.fail(t, "quota", 1, 1)
	_, end := running(t, p.Stream, known, "default: {url: '"+f.URL+"/{class}'}\nroutes: {busy: {concurrency: 5, rate: 0.001, burst: 2}}", io.Discard)
	for range 3 { // two of busy, for which the limit is open, and the one of quota
		<-begun
	}
	ended := make(chan struct{})
	go func() { end(); close(ended) }()
	close(release)
	<-ended
	if n := p.open(t, "busy"); n != 18 {
		t.Errorf("%d of busy wait, want 18", n)
	}
	if n := p.open(t, "quota"); n != 1 {
		t.Errorf("%d of quota wait, want 1", n)
	}
	// Another one gets them well before the 30 s after which NATS takes a message for lost.
	next := newFunction(t, nil)
	began := time.Now()
	running(t, p.connect(t, time.Second), known, "default: {url: '"+next.URL+"/{class}'}", io.Discard)
	shell.Until(t, "the next courier has delivered the rest", func() bool { return p.open(t, "busy")+p.open(t, "quota") == 0 })
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("what was given back came after %s", took)
	}
	if n := len(next.all()); n != 19 {
		t.Errorf("the next courier delivered %d, want 19", n)
	}
}

// A run that takes longer than NATS waits for a sign of life keeps its message: it is not
// handed out again meanwhile.
func TestLongRun(t *testing.T) {
	t.Parallel()
	p := newPlace(t, time.Second, "busy")
	nats.Patience(t, p.server.URL(), "c1", "busy", 15*time.Second) // the courier gives a sign every 10 s
	f := newFunction(t, func(w http.ResponseWriter, r *http.Request, _ int) {
		run := time.NewTimer(18 * time.Second)
		defer run.Stop()
		select {
		case <-run.C:
		case <-r.Context().Done():
		}
		w.WriteHeader(http.StatusNoContent)
	})
	p.fail(t, "busy", 1, 1)
	running(t, p.Stream, known, "routes: {busy: {url: '"+f.URL+"'}}", io.Discard)
	shell.Until(t, "it is delivered", func() bool { return len(f.all()) > 0 && p.open(t, "busy") == 0 })
	if n := len(f.all()); n != 1 {
		t.Errorf("it was delivered %d times", n)
	}
}

// A function that doesn't answer is given up, and the message comes again.
func TestTimeout(t *testing.T) {
	t.Parallel()
	p := newPlace(t, time.Second, "busy")
	f := newFunction(t, func(w http.ResponseWriter, r *http.Request, n int) {
		if n == 1 {
			<-r.Context().Done()
		}
		w.WriteHeader(http.StatusNoContent)
	})
	p.fail(t, "busy", 1, 1)
	var log shell.Log
	running(t, p.Stream, known, "routes: {busy: {url: '"+f.URL+"', timeout: 1s}}", &log)
	shell.Until(t, "it is delivered in the end", func() bool { return p.open(t, "busy") == 0 })
	if len(f.all()) != 2 || !strings.Contains(log.String(), "no answer came within 1s") {
		t.Errorf("%d requests; the log is %s", len(f.all()), log.String())
	}
}

// TLS with an authority of one's own, and without knowing it.
func TestTLS(t *testing.T) {
	t.Parallel()
	p := newPlace(t, time.Second, "busy", "quota")
	f := started(t, nil, (*httptest.Server).StartTLS)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: f.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	p.fail(t, "busy", 1, 1)
	p.fail(t, "quota", 1, 1)
	c, _ := running(t, p.Stream, known, fmt.Sprintf("routes: {busy: {url: '%s', ca: '%s'}, quota: {url: '%s'}}", f.URL, ca, f.URL), io.Discard)
	shell.Until(t, "the one that knows the authority delivers", func() bool { return p.open(t, "busy") == 0 })
	shell.Until(t, "the other one is told of", func() bool { return c.Ready() != nil })
	if err := c.Ready(); !strings.Contains(err.Error(), "quota: ") || strings.Contains(err.Error(), "busy") || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("ready: %v", err)
	}
	if p.open(t, "quota") != 1 {
		t.Error("a message went to a server that nobody knows")
	}
}

// The root certificates change in place, as mounted ones do, and those that were read hold while the file can't be read.
func TestTLSWithNewRoots(t *testing.T) {
	t.Parallel()
	p := newPlace(t, time.Second, "busy")
	shown := make(chan tls.Certificate, 1)
	f := started(t, nil, func(s *httptest.Server) {
		s.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			c := <-shown
			shown <- c
			return &tls.Config{Certificates: []tls.Certificate{c}}, nil
		}}
		s.StartTLS()
	})
	ca := filepath.Join(t.TempDir(), "ca.pem")
	roots := func(text []byte) {
		if err := os.WriteFile(ca, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	certificate, text := selfSigned(t)
	shown <- certificate
	roots(text)
	p.fail(t, "busy", 1, 1)
	c, _ := running(t, p.Stream, known, fmt.Sprintf("routes: {busy: {url: '%s', ca: '%s'}}", f.URL, ca), io.Discard)
	shell.Until(t, "the first is delivered", func() bool { return p.open(t, "busy") == 0 })
	certificate, text = selfSigned(t)
	for i, file := range [][]byte{text, nil, []byte("no certificate")} {
		roots(file)
		f.CloseClientConnections()
		<-shown
		shown <- certificate
		p.fail(t, "busy", 2+i, 1)
		shell.Until(t, fmt.Sprintf("one is delivered after change %d of the file", i+1), func() bool { return c.Ready() != nil || p.open(t, "busy") == 0 })
		if err := c.Ready(); err != nil {
			t.Fatal(err)
		}
	}
}

// selfSigned returns a certificate of a server on this machine, and as text what its clients have to trust.
func selfSigned(t testing.TB) (tls.Certificate, []byte) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	about := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, about, about, public, private)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// What cannot begin is told, tried again, and holds up nobody.
func TestCannotBegin(t *testing.T) {
	t.Parallel()
	p := newPlace(t, time.Second, "busy", "tag-missing") // quota has no consumer yet
	f := newFunction(t, nil)
	p.fail(t, "busy", 1, 1)
	p.fail(t, "quota", 1, 1)
	var log shell.Log
	ca := filepath.Join(t.TempDir(), "ca.pem")
	c, _ := running(t, p.Stream, known, fmt.Sprintf("default: {url: '%s'}\nroutes: {tag-missing: {url: 'https://a', ca: '%s'}}", f.URL, ca), &log)
	shell.Until(t, "busy is delivered", func() bool { return p.open(t, "busy") == 0 })
	shell.Until(t, "the others are told of", func() bool {
		err := c.Ready()
		return err != nil && strings.Contains(err.Error(), "quota: ") && strings.Contains(err.Error(), "tag-missing: ")
	})
	if _, err := p.Setup(t.Context(), []string{"quota"}, stream.Settings{Clusters: []string{"c1"}}); err != nil {
		t.Fatal(err)
	}
	shell.Until(t, "quota is delivered once it has a consumer", func() bool { return p.open(t, "quota") == 0 })
	if err := os.WriteFile(ca, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	shell.Until(t, "what is wrong now is told", func() bool { return strings.Contains(log.String(), "holds none") })
	if n := strings.Count(log.String(), "stream FAILED has no such consumer"); n != 1 {
		t.Errorf("the same was told %d times", n)
	}
}

// No credential goes where a redirect points to.
func TestRedirect(t *testing.T) {
	t.Parallel()
	p := newPlace(t, time.Second, "busy")
	thief := newFunction(t, nil)
	f := newFunction(t, func(w http.ResponseWriter, r *http.Request, _ int) {
		http.Redirect(w, r, thief.URL, http.StatusPermanentRedirect)
	})
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("t0ken\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.fail(t, "busy", 1, 1)
	c, _ := running(t, p.Stream, known, fmt.Sprintf("routes: {busy: {url: '%s', auth: {bearer: '%s'}}}", f.URL, token), io.Discard)
	shell.Until(t, "the route is told to be wrong", func() bool { return c.Ready() != nil })
	if got := f.all()[0].Get("Authorization"); got != "Bearer t0ken" {
		t.Errorf("the function was shown %q", got)
	}
	if n := len(thief.all()); n > 0 {
		t.Errorf("another host got %d requests: %v", n, thief.all()[0].Header)
	}
}

// An answer without an end costs no more than a small one.
func TestEndless(t *testing.T) {
	t.Parallel()
	p := newPlace(t, time.Second, "busy")
	var wrote atomic.Int64
	f := newFunction(t, func(w http.ResponseWriter, r *http.Request, _ int) {
		w.WriteHeader(http.StatusUnprocessableEntity)
		for line := bytes.Repeat([]byte("no "), 10_000); r.Context().Err() == nil; {
			n, err := w.Write(line)
			if wrote.Add(int64(n)); err != nil {
				return
			}
		}
	})
	p.fail(t, "busy", 1, 1)
	running(t, p.Stream, known, "routes: {busy: {url: '"+f.URL+"'}}", io.Discard)
	shell.Until(t, "it is dead", func() bool { return len(p.dead(t)) == 1 })
	if _, reason, _ := p.dead(t)[0].Origin(); len(reason) > 600 {
		t.Errorf("the reason has %d bytes", len(reason))
	}
	if n := wrote.Load(); n > 64<<20 {
		t.Errorf("%d bytes were taken", n)
	}
}

// Routes change while messages flow: a new class begins, another ends, one moves to
// another address, and a file that is wrong changes nothing.
func TestReload(t *testing.T) {
	t.Parallel()
	p := newPlace(t, time.Second, known...)
	first, second := newFunction(t, nil), newFunction(t, nil)
	file := filepath.Join(t.TempDir(), "routes.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("routes: {busy: {url: '" + first.URL + "'}, quota: {url: '" + first.URL + "'}}")
	routes, text, err := Load(file, []string{"c1"}, known)
	if err != nil {
		t.Fatal(err)
	}
	var said shell.Log
	log := slog.New(slog.NewJSONHandler(&said, nil))
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	runningRoutes(t, Config{Cluster: "c1", Stream: p.Stream, Log: log}, routes["c1"], Watch(ctx, file, text, []string{"c1"}, known, log)["c1"])
	for _, class := range known {
		p.fail(t, class, 1, 1)
	}
	shell.Until(t, "two classes are delivered", func() bool { return p.open(t, "busy")+p.open(t, "quota") == 0 })
	write("routes: {busy: {url: nowhere}}")
	shell.Until(t, "the wrong file is told of", func() bool { return strings.Contains(said.String(), "the last good one stays in force") })
	p.fail(t, "busy", 2, 1)
	shell.Until(t, "the last good one is in force", func() bool { return p.open(t, "busy") == 0 })
	write("routes: {busy: {url: '" + second.URL + "/busy'}, tag-missing: {url: '" + second.URL + "/tag-missing'}}")
	shell.Until(t, "the new class is delivered", func() bool { return p.open(t, "tag-missing") == 0 })
	p.fail(t, "busy", 3, 1)
	p.fail(t, "quota", 3, 1)
	shell.Until(t, "the class that moved is delivered", func() bool { return p.open(t, "busy") == 0 })
	shell.Until(t, "the one of the class that has no route any more waits", func() bool { return p.open(t, "quota") == 1 })
	if a, b := len(first.all()), len(second.all()); a != 3 || b != 2 {
		t.Errorf("the functions got %d and %d requests, want 3 and 2", a, b)
	}
	write("routes: {quota: {url: '" + second.URL + "/quota'}}")
	shell.Until(t, "the class that came back is delivered", func() bool { return p.open(t, "quota") == 0 })
}

// A faulty route is forgotten when nobody has seen the fault again for long.
func TestReadyForgets(t *testing.T) {
	t.Parallel()
	c := New(Config{})
	c.blame("busy", "no")
	if err := c.Ready(); err == nil || err.Error() != "busy: no" {
		t.Errorf("got %v", err)
	}
	c.wrong["busy"] = fault{"no", time.Now().Add(-stale - time.Second)}
	if err := c.Ready(); err != nil {
		t.Errorf("got %v", err)
	}
}

// The records of runs outside are handed on, each once, over two couriers; those of
// workers and other clusters are not.
func TestFollow(t *testing.T) {
	t.Parallel()
	p := newPlace(t, time.Second)
	at := time.Now()
	own := ""
	record := func(class, who, cluster string, phase event.Phase) {
		t.Helper()
		r := event.Record{
			Origin: event.Origin{
				Case: "aaaaaaaa-20260102T150405", Cluster: cluster, Class: class, Service: event.Service{Namespace: "shop", Name: "web", UID: uid(1)}, Event: "e",
				Message: "m", EventTime: at,
			},
			Run: event.Run{Phase: phase, At: at, First: at, Who: who},
		}
		if phase == event.Settled {
			r.Result = event.Fixed
		}
		e, err := event.NewRecord(r)
		if err != nil {
			t.Fatal(err)
		}
		header, data, err := event.EncodeNATS(e)
		if err != nil {
			t.Fatal(err)
		}
		j := p.Journal(cluster, uid(1), cmp.Or(own, class))
		if _, err := j.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := j.Append(t.Context(), event.MessageID(e), header, data); err != nil {
			t.Fatal(err)
		}
	}
	record("busy", "http", "c1", event.Settled)
	record("quota", "fc", "c1", event.Settled)
	record("throttling", "worker", "c1", event.Settled)
	record("other", "http", "c2", event.Settled)
	record("tag-missing", "http", "c1", event.Intent)
	own = "rogue" // who writes what it says is another's
	record("arrearage", "http", "c1", event.Settled)
	own = ""
	var log shell.Log
	var mu sync.Mutex
	var seen []string
	ctx, cancel := context.WithCancel(t.Context())
	var wait sync.WaitGroup
	for range 2 {
		s := p.connect(t, time.Second)
		wait.Go(func() {
			Follow(ctx, s, "c1", func(r event.Record) {
				mu.Lock()
				defer mu.Unlock()
				seen = append(seen, r.Class)
			}, slog.New(slog.NewTextHandler(&log, nil)))
		})
	}
	shell.Until(t, "all records of runs outside are seen", func() bool { mu.Lock(); defer mu.Unlock(); return len(seen) >= 2 })
	record("tag-missing", "http", "c1", event.Settled)
	shell.Until(t, "the next one is seen", func() bool { mu.Lock(); defer mu.Unlock(); return len(seen) >= 3 })
	cancel()
	wait.Wait()
	slices.Sort(seen)
	if !slices.Equal(seen, []string{"busy", "quota", "tag-missing"}) {
		t.Errorf("seen are %v", seen)
	}
	if strings.Count(log.String(), "can't be read and is not counted") != 1 {
		t.Errorf("logged %s", log.String())
	}
}

// A courier that may do what PermitCourier says delivers, and may not do more.
func TestPermit(t *testing.T) {
	t.Parallel()
	may := stream.PermitCourier("c1", known)
	server := nats.Start(t, embedded.Options{Users: []embedded.User{
		{Name: "courier", Password: "p", Publish: may.Publish, Subscribe: may.Subscribe}, {Name: "admin", Password: "p"},
	}})
	as := func(user, inbox string) *stream.Stream {
		return nats.Connect(t, stream.Config{URL: server.URL(), User: user, Password: "p", Inbox: inbox, Cluster: "c1", Grace: time.Second})
	}
	p := &place{Stream: as("admin", ""), server: server, js: nats.JetStream(t, server.URL(), natsgo.UserInfo("admin", "p"))}
	if _, err := p.Setup(t.Context(), known, stream.Settings{Clusters: []string{"c1"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := p.SetupFollower(t.Context(), stream.CourierFollower("c1"), "c1"); err != nil {
		t.Fatal(err)
	}
	f := newFunction(t, func(w http.ResponseWriter, r *http.Request, n int) {
		switch {
		case r.URL.Path == "/quota":
			w.WriteHeader(http.StatusUnprocessableEntity)
		case n <= 2:
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			w.WriteHeader(http.StatusNoContent)
		}
	})
	p.fail(t, "busy", 1, 3)
	p.fail(t, "quota", 1, 1)
	s := as("courier", stream.InboxOf("courier"))
	running(t, s, known, "default: {url: '"+f.URL+"/{class}'}", io.Discard)
	shell.Until(t, "all is delivered", func() bool { return p.open(t, "busy")+p.open(t, "quota") == 0 })
	if n := len(p.dead(t)); n != 1 {
		t.Errorf("%d dead letters, want 1", n)
	}
	following, stop := context.WithTimeout(t.Context(), time.Second)
	defer stop()
	if err := s.ConsumeCases(following, stream.CourierFollower("c1"), 1,
		func(context.Context, stream.Message) stream.Reply { return stream.Reply{} }); err != nil {
		t.Errorf("follow the journal: %v", err)
	}
	other := as("courier", "")
	nats.Refused(t, map[string]func(context.Context) error{
		"publish a failure": func(ctx context.Context) error {
			_, _, err := s.PublishNewer(ctx, event.FailedSubject("c1", "busy", uid(9)), "x", nil, []byte("{}"), func(stream.Message) bool { return true })
			return err
		},
		"append to the journal": func(ctx context.Context) error {
			return s.Journal("c1", uid(9), "busy").Append(ctx, "1", nil, []byte("{}"))
		},
		"read the journal": func(ctx context.Context) error { _, err := s.Last(ctx, stream.Cases, event.CaseSubjects); return err },
		"write a key":      func(ctx context.Context) error { return s.Put(ctx, "policy", []byte("{}")) },
		"read a key":       func(ctx context.Context) error { _, err := s.Get(ctx, "policy"); return notFound(err) },
		"set the streams up": func(ctx context.Context) error {
			_, err := s.Setup(ctx, known, stream.Settings{Clusters: []string{"c1"}})
			return err
		},
		"make a consumer":  func(ctx context.Context) error { _, err := s.SetupFollower(ctx, "other", ""); return err },
		"remove a message": func(ctx context.Context) error { _, err := s.Remove(ctx, stream.Failed, 1); return err },
		"put a letter of others into DEAD": func(ctx context.Context) error {
			return s.Dead(ctx, "no", "exporter", nil, []byte("x"))
		},
		"listen to all answers": func(ctx context.Context) error {
			_, err := other.Last(ctx, stream.Dead, stream.DeadSubjects)
			return notFound(err)
		},
	})
	if _, err := p.Last(t.Context(), stream.Failed, event.FailedSubject("c1", "busy", uid(9))); !errors.Is(err, stream.ErrNotFound) {
		t.Errorf("a failure was published: %v", err)
	}
}

// notFound takes an answer that something is not there for an answer.
func notFound(err error) error {
	if errors.Is(err, stream.ErrNotFound) {
		return nil
	}
	return err
}
