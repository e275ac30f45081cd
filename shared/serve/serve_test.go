package serve

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aliyun/fc-runtime-go-sdk/fccontext"
	cloudevents "github.com/cloudevents/sdk-go/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/engine"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/host"
	"github.com/lbremedy/lbremedy/shared/policy"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/shared/stream/embedded"
	"github.com/lbremedy/lbremedy/test/cluster"
	"github.com/lbremedy/lbremedy/test/nats"
	"github.com/lbremedy/lbremedy/test/sim"
)

// asks is a class that asks who it is in the cloud, so that a test can see with
// whose credentials it does.
var asks = &remedy.Remedy{
	Class: "asks", Doc: "# Asks", Reads: []grant.Grant{grant.GetCallerIdentity},
	Diagnose: func(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
		_, err := c.Cloud.STS.Identity(ctx)
		return remedy.Plan{Finding: say.F("f"), Ask: say.F("a")}, err
	},
}

// TestMain runs the function's program instead of the tests where a test has
// started this binary for it.
func TestMain(m *testing.M) {
	if os.Getenv("SERVE_MAIN") != "" {
		Main(asks)
		return
	}
	os.Exit(m.Run())
}

func failure(svc *corev1.Service) cloudevents.Event {
	e, err := event.NewFailed(event.Failure{
		Cluster: "c-1", Class: "asks", Reason: "SyncLoadBalancerFailed", Type: "Warning", Component: "service-controller", Message: "no",
		Service: event.Service{Namespace: svc.Namespace, Name: svc.Name, UID: string(svc.UID)},
		Event:   event.Reference{Name: "web.1", UID: "11111111-1111-1111-1111-111111111111", ResourceVersion: "7"},
		Count:   1, First: time.Now(), Last: time.Now(),
	})
	if err != nil {
		panic(err)
	}
	return e
}

var someService = &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "22222222-2222-2222-2222-222222222222"}}

func marshal(t testing.TB, e cloudevents.Event) string {
	t.Helper()
	data, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// One answer for every way in.
func TestEndpoint(t *testing.T) {
	t.Parallel()
	e := failure(someService)
	structured := marshal(t, e)
	binary := map[string]string{"Content-Type": "application/json", "Ce-Specversion": "1.0", "Ce-Id": e.ID(), "Ce-Source": e.Source(), "Ce-Type": e.Type(),
		"Ce-Subject": e.Subject()}
	secret := "https://slb.aliyuncs.com/?AccessKeyId=LTAI4FakeFakeFake1234&Signature=c2VjcmV0c2VjcmV0c2Vj%3D"
	settled := host.Reply{}
	for _, tt := range []struct {
		name    string
		method  string // POST if empty
		path    string // / if empty
		headers map[string]string
		body    string
		reply   host.Reply
		status  int
		fc      string
		after   string // Retry-After
		says    string
	}{
		{name: "structured", headers: map[string]string{"Content-Type": "application/cloudevents+json; charset=utf-8"}, body: structured, reply: settled,
			status: 204, fc: "200"},
		{name: "structured, with the binary mode's headers too", headers: map[string]string{"Content-Type": "application/cloudevents+json",
			"Ce-Specversion": "1.0"}, body: structured, status: 204, fc: "200"},
		{name: "as JSON", headers: map[string]string{"Content-Type": "application/json"}, body: structured, status: 204, fc: "200"},
		{name: "without a content type", body: structured, status: 204, fc: "200"},
		{name: "binary", headers: binary, body: string(e.Data()), status: 204, fc: "200"},
		{name: "an invocation", path: "/invoke", headers: map[string]string{"Content-Type": "application/octet-stream"}, body: structured, status: 204, fc: "200"},
		{name: "later", body: structured, reply: host.Reply{Retry: 90*time.Second + 1}, status: 503, fc: "404", after: "91", says: "not settled yet"},
		{name: "an error", body: structured, reply: host.Reply{Retry: time.Second, Err: errors.New("read " + secret)}, status: 503, fc: "404", after: "1",
			says: "read https://slb.aliyuncs.com/"},
		{name: "failed for good", body: structured, reply: host.Reply{Err: errors.New("no")}, status: 204, fc: "200"},
		{name: "dead", body: structured, reply: host.Reply{Dead: "nobody knows " + secret}, status: 422, fc: "404", says: "nobody knows"},
		{name: "of another cluster", body: structured, reply: host.Reply{Dead: "not for this host", Err: fmt.Errorf("%w: it is of c2", engine.ErrForeign)},
			status: 421, fc: "404", says: "not for this host"},
		{name: "text", headers: map[string]string{"Content-Type": "text/plain"}, body: structured, status: 422, fc: "404", says: `content type "text/plain"`},
		{name: "a batch of one", headers: map[string]string{"Content-Type": "application/cloudevents-batch+json"}, body: "[" + structured + "]",
			status: 204, fc: "200"},
		{name: "a batch of none", headers: map[string]string{"Content-Type": "application/cloudevents-batch+json"}, body: "[]", status: 422, fc: "404",
			says: "the batch has 0 events"},
		{name: "a batch of too many", body: "[" + strings.Repeat("1,", mostEvents) + "1]", status: 422, fc: "404", says: "the batch has 101 events: send 1 to 100"},
		{name: "a broken batch", body: "[" + structured, status: 422, fc: "404", says: "the batch is no JSON"},
		{name: "a batch with something else in it", body: "[" + structured + ",7]", status: 422, fc: "404", says: "event 2 of the batch: invalid event"},
		{name: "a rule of EventBridge", body: strings.Replace(structured, "{",
			`{"aliyunaccountid":"1","aliyunpublishtime":"2026-11-21T10:00:00Z","aliyunpublishaddr":"10.0.0.1","aliyuneventbusname":"b",`, 1), status: 204, fc: "200"},
		{name: "an HTTP source of EventBridge", body: wrapped(t, nil, structured), status: 204, fc: "200"},
		{name: "an HTTP source of EventBridge, as an object", body: wrapped(t, nil, json.RawMessage(structured)), status: 204, fc: "200"},
		{name: "an HTTP source of EventBridge, in binary mode", body: wrapped(t, binary, string(e.Data())), status: 204, fc: "200"},
		{name: "an HTTP source of EventBridge, in a batch", body: "[" + wrapped(t, nil, structured) + "]", status: 204, fc: "200"},
		{name: "an HTTP source with a batch", body: wrapped(t, nil, "["+structured+","+structured+"]"), status: 422, fc: "404", says: "its body is a batch"},
		{name: "an HTTP source with something else", body: wrapped(t, nil, "x"), status: 422, fc: "404", says: "EventBridge's of an HTTP request: invalid event"},
		{name: "an HTTP source without a request", body: strings.Replace(wrapped(t, nil, ""), `"data":{`, `"data":7,"x":{`, 1), status: 422, fc: "404",
			says: "invalid event"},
		{name: "broken JSON", body: structured[:40], status: 422, fc: "404", says: "invalid event"},
		{name: "nothing", status: 422, fc: "404", says: "invalid event"},
		{name: "no event", body: `{"specversion":"1.0"}`, status: 422, fc: "404", says: "invalid event"},
		{name: "an event without a source", body: `{"specversion":"1.0","id":"1","type":"t","source":""}`, status: 422, fc: "404", says: "invalid event"},
		{name: "binary without an ID", headers: map[string]string{"Content-Type": "application/json", "Ce-Specversion": "1.0", "Ce-Type": "t"}, body: "{}",
			status: 422, fc: "404", says: "invalid event"},
		{name: "binary of another version", headers: map[string]string{"Content-Type": "application/json", "Ce-Specversion": "9.9"}, body: "{}", status: 422,
			fc: "404", says: "invalid event"},
		{name: "too large", body: strings.Repeat(" ", MaxBody) + structured, status: 422, fc: "404", says: "more than"},
		{name: "as large as it may be", body: strings.Repeat(" ", MaxBody-len(structured)) + structured, status: 204, fc: "200"},
		{name: "a reader", method: "GET", status: 405, fc: "404"},
		{name: "another path", path: "/other", body: structured, status: 404, fc: "404"},
		{name: "live", method: "GET", path: "/healthz", status: 200, fc: "200"},
		{name: "live on Knative", method: "GET", path: "/health/liveness", status: 200, fc: "200"},
		{name: "ready", method: "GET", path: "/readyz", status: 503, fc: "404", says: "NATS is away"},
		{name: "ready on Knative", method: "GET", path: "/health/readiness", status: 503, fc: "404", says: "NATS is away"},
		{name: "initialised by FC, without NATS", path: "/initialize", status: 503, fc: "404", says: "NATS is away"},
		{name: "stopped by FC", method: "GET", path: "/pre-stop", status: 200, fc: "200"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			handled := 0
			var log bytes.Buffer
			d := &Endpoint{
				Handle: func(_ context.Context, got cloudevents.Event) host.Reply {
					if handled++; got.ID() != e.ID() || string(got.Data()) != string(e.Data()) {
						t.Errorf("the event became %s", got)
					}
					return tt.reply
				},
				Ready: func(context.Context) error { return errors.New("NATS is away: " + secret) },
				Log:   slog.New(slog.NewTextHandler(&log, nil)),
			}
			q := httptest.NewRequest(cmp.Or(tt.method, "POST"), cmp.Or(tt.path, "/"), strings.NewReader(tt.body))
			for k, v := range tt.headers {
				q.Header.Set(k, v)
			}
			a := httptest.NewRecorder()
			d.Handler().ServeHTTP(a, q)
			if a.Code != tt.status || a.Header().Get("x-fc-status") != tt.fc || a.Header().Get("Retry-After") != tt.after ||
				!strings.Contains(a.Body.String(), tt.says) {
				t.Errorf("got %d, x-fc-status %q, Retry-After %q: %s", a.Code, a.Header().Get("x-fc-status"), a.Header().Get("Retry-After"), a.Body)
			}
			if want := tt.status == 204 || tt.reply.Retry > 0 || tt.reply.Dead != ""; want != (handled == 1) {
				t.Errorf("handled %d times", handled)
			}
			if strings.Contains(a.Body.String()+log.String(), "c2VjcmV0") {
				t.Errorf("a secret stands in %s or in the log %s", a.Body, &log)
			}
			probe := tt.method == "GET" || tt.path == "/other"
			if logged := log.Len() > 0; logged != (tt.fc == "404" && !probe) {
				t.Errorf("the log is %q", &log)
			}
		})
	}

	// Nobody asks whether an endpoint without Ready is ready; without a log nothing is logged.
	d := &Endpoint{Handle: func(context.Context, cloudevents.Event) host.Reply { return host.Reply{Dead: "no"} }}
	for path, want := range map[string]int{"/readyz": 200, "/": 422} {
		method := "GET"
		if path == "/" {
			method = "POST"
		}
		a := httptest.NewRecorder()
		d.Handler().ServeHTTP(a, httptest.NewRequest(method, path, strings.NewReader(structured)))
		if a.Code != want {
			t.Errorf("%s: %d", path, a.Code)
		}
	}
}

// wrapped returns what EventBridge makes of a request to an HTTP event source.
func wrapped(t testing.TB, headers map[string]string, body any) string {
	t.Helper()
	text, err := json.Marshal(map[string]any{
		"specversion": "1.0", "id": "w-1", "source": "bus.http", "type": httpEvent, "datacontenttype": "application/json", "aliyunaccountid": "1",
		"data": map[string]any{"headers": headers, "path": "/webhook/putEvents", "httpMethod": "POST", "queryString": map[string]string{}, "body": body},
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A request that breaks off must come again: it says nothing of the event.
func TestBrokenOff(t *testing.T) {
	t.Parallel()
	a := httptest.NewRecorder()
	q := httptest.NewRequest("POST", "/", io.MultiReader(strings.NewReader("{"), broken{}))
	(&Endpoint{}).Handler().ServeHTTP(a, q)
	if a.Code != http.StatusServiceUnavailable || a.Header().Get("x-fc-status") != "404" {
		t.Errorf("got %d: %s", a.Code, a.Body)
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// Function Compute's own Go runtime gets the same answers as a value or an error.
func TestInvoke(t *testing.T) {
	t.Parallel()
	e := failure(someService)
	fixed := event.Record{Origin: event.Origin{Case: "22222222-1"}, Run: event.Run{Result: event.Fixed}}
	for _, tt := range []struct {
		name, body string
		reply      host.Reply
		want, err  string
	}{
		{name: "settled", body: marshal(t, e), reply: host.Reply{Record: fixed}, want: `{"case":"22222222-1","result":"fixed"}`},
		{name: "dead", body: marshal(t, e), reply: host.Reply{Dead: "nobody knows AccessKeyId=LTAI4FakeFakeFake1234"}, err: "nobody knows AccessKeyId=***"},
		{name: "an error", body: marshal(t, e), reply: host.Reply{Retry: time.Second, Err: errors.New("boom")}, err: "boom"},
		{name: "later", body: marshal(t, e), reply: host.Reply{Retry: 5 * time.Second}, err: "again in 5s"},
		{name: "garbage", body: "{", err: "invalid event"},
	} {
		d := &Endpoint{Handle: func(context.Context, cloudevents.Event) host.Reply { return tt.reply }}
		got, err := d.Invoke(t.Context(), []byte(tt.body))
		if string(got) != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: got %s, %v", tt.name, got, err)
		}
	}
}

// The credentials that Function Compute sends along are used where it is the one
// who sends them, and nowhere else: a stranger's account would show a world in
// which other things are wrong.
func TestKey(t *testing.T) {
	t.Parallel()
	var got cloud.Key
	endpoint := func(fc bool) *Endpoint {
		return &Endpoint{FC: fc, Handle: func(ctx context.Context, _ cloudevents.Event) host.Reply {
			got, _ = Key(cloud.Static(cloud.Key{ID: "own"}))(ctx)
			return host.Reply{}
		}}
	}
	sent := cloud.Key{ID: "id", Secret: "secret", Token: "token"}
	body := marshal(t, failure(someService))
	for _, tt := range []struct {
		fc   bool
		id   string
		want cloud.Key
	}{
		{true, "id", sent}, {true, "", cloud.Key{ID: "own"}}, {false, "id", cloud.Key{ID: "own"}},
	} {
		q := httptest.NewRequest("POST", "/invoke", strings.NewReader(body))
		if tt.id != "" {
			q.Header.Set("x-fc-access-key-id", tt.id)
		}
		q.Header.Set("x-fc-access-key-secret", "secret")
		q.Header.Set("x-fc-security-token", "token")
		endpoint(tt.fc).Handler().ServeHTTP(httptest.NewRecorder(), q)
		if got != tt.want {
			t.Errorf("in FC %t, with the ID %q sent: got %v", tt.fc, tt.id, got)
		}

		ctx := fccontext.NewContext(t.Context(), &fccontext.FcContext{Credentials: fccontext.Credentials{AccessKeyId: tt.id, AccessKeySecret: "secret",
			SecurityToken: "token"}})
		if _, err := endpoint(true).Invoke(ctx, []byte(body)); err != nil {
			t.Error(err)
		}
		if want := map[string]cloud.Key{"id": sent, "": {ID: "own"}}[tt.id]; got != want {
			t.Errorf("invoked with the ID %q: got %v", tt.id, got)
		}
	}
}

// Without credentials of its own or in the request, a program looks where the SDK does.
func TestKeyOfNobody(t *testing.T) {
	t.Setenv("ALIBABA_CLOUD_ACCESS_KEY_ID", "env")
	t.Setenv("ALIBABA_CLOUD_ACCESS_KEY_SECRET", "secret")
	if k, err := Key(nil)(t.Context()); err != nil || k.ID != "env" {
		t.Errorf("got %v, %v", k.ID, err)
	}
}

// An endpoint that is asked to end lets what it has in hand finish, and takes no more.
func TestDrain(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	begun, end := make(chan struct{}), make(chan struct{})
	d := &Endpoint{Handle: func(ctx context.Context, _ cloudevents.Event) host.Reply {
		close(begun)
		<-end
		if ctx.Err() != nil {
			t.Error("the request in hand was cut off")
		}
		return host.Reply{}
	}}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- Serve(ctx, l, d.Handler()) }()
	status := make(chan int, 1)
	go func() {
		a, err := http.Post("http://"+l.Addr().String(), "application/cloudevents+json", strings.NewReader(marshal(t, failure(someService))))
		if err != nil {
			t.Error(err)
			status <- 0
			return
		}
		a.Body.Close()
		status <- a.StatusCode
	}()
	<-begun
	cancel()
	for { // until it takes no more
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			break
		}
		c.Close()
	}
	close(end)
	if got := <-status; got != http.StatusNoContent {
		t.Errorf("the request in hand got %d", got)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
	if err := Serve(t.Context(), l, d.Handler()); err == nil {
		t.Error("a closed listener is no error")
	}
}

// A world is all that a function's program needs, set up in its environment.
type world struct {
	cloud *sim.Cloud
	key   sim.Credentials
	svc   *corev1.Service
	env   map[string]string
}

func build(t *testing.T) *world {
	t.Helper()
	server := nats.Start(t, embedded.Options{})
	s := nats.Connect(t, stream.Config{URL: server.URL()})
	if _, err := s.Setup(t.Context(), []string{"asks"}, stream.Settings{Clusters: []string{"c-1"}}); err != nil {
		t.Fatal(err)
	}
	w := &world{cloud: sim.New(t, nil)}
	w.key = w.cloud.Client("function", "sts:GetCallerIdentity")
	k := cluster.Join(t)
	var err error
	w.svc, err = k.Client().CoreV1().Services(k.Namespace(t)).Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.ServiceSpec{Type: "LoadBalancer", Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.env = map[string]string{
		"LBREMEDY_CLUSTER": "c-1", "LBREMEDY_REGION": w.cloud.Region(), "LBREMEDY_KUBECONFIG": k.Kubeconfig, "LBREMEDY_NATS": server.URL(),
		"LBREMEDY_CLOUD_ENDPOINT": w.cloud.Addr(), "LBREMEDY_CLOUD_SCHEME": "HTTP", "PORT": "0",
	}
	return w
}

// A lines hands each line of a log to a test.
type lines chan string

func (l lines) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}

// The whole program, as Function Compute's custom runtime starts it: an event in,
// its outcome in the journal, with the credentials that came along.
func TestProgram(t *testing.T) {
	w := build(t)
	w.env["FC_FUNCTION_NAME"] = "asks"
	for k, v := range w.env {
		t.Setenv(k, v)
	}
	log := make(lines, 100)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, asks, slog.New(slog.NewJSONHandler(log, nil))) }()
	var address string
	for address == "" {
		select {
		case err := <-ended:
			t.Fatal(err)
		case text := <-log:
			var line struct{ Msg, Address string }
			if json.Unmarshal([]byte(text), &line) == nil && line.Msg == "function is ready" {
				address = line.Address
			}
		}
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	url := "http://127.0.0.1:" + port
	if a, err := http.Get(url + "/readyz"); err != nil || a.StatusCode != 200 {
		t.Errorf("not ready: %v, %v", a, err)
	}
	q, err := http.NewRequest("POST", url+"/invoke", strings.NewReader(marshal(t, failure(w.svc))))
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("x-fc-access-key-id", w.key.AccessKeyID)
	q.Header.Set("x-fc-access-key-secret", w.key.Secret)
	a, err := http.DefaultClient.Do(q)
	if err != nil || a.StatusCode != http.StatusNoContent {
		t.Errorf("the event got %v, %v", a, err)
	}
	if got := len(w.cloud.CallsOf("function")); got != 1 {
		t.Errorf("%d calls came with the credentials of the request", got)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}

	// What keeps it from starting is said.
	t.Setenv("FC_CUSTOM_LISTEN_PORT", "99999")
	if err := run(t.Context(), asks, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "listen on :99999") {
		t.Errorf("got %v", err)
	}
	if err := run(t.Context(), &remedy.Remedy{Class: "empty"}, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "no Diagnose") {
		t.Errorf("got %v", err)
	}
	t.Setenv("LBREMEDY_CLUSTER", "")
	if err := run(t.Context(), asks, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "LBREMEDY_CLUSTER") {
		t.Errorf("got %v", err)
	}
}

// The same program under Function Compute's own Go runtime, whose API the test
// plays, and the real SDK in between.
func TestGoRuntime(t *testing.T) {
	t.Parallel()
	w := build(t)
	type answer struct{ path, body string }
	invocations, answers := make(chan string, 2), make(chan answer, 2)
	n := 0
	api := httptest.NewServer(http.HandlerFunc(func(a http.ResponseWriter, q *http.Request) {
		if q.Method == http.MethodPost {
			body, _ := io.ReadAll(q.Body)
			answers <- answer{q.URL.Path, string(body)}
			return
		}
		select {
		case body := <-invocations:
			n++
			for k, v := range map[string]string{
				"x-fc-request-id": fmt.Sprint("r", n), "x-fc-function-deadline": fmt.Sprint(time.Now().Add(time.Minute).UnixMilli()), "x-fc-function-timeout": "60",
				"x-fc-access-key-id": w.key.AccessKeyID, "x-fc-access-key-secret": w.key.Secret,
			} {
				a.Header().Set(k, v)
			}
			io.WriteString(a, body)
		case <-q.Context().Done():
		}
	}))
	defer api.CloseClientConnections()
	program, stop := w.start(t, "FC_RUNTIME_API="+strings.TrimPrefix(api.URL, "http://"))
	defer stop()
	invocations <- marshal(t, failure(w.svc))
	got := <-answers
	if !strings.HasSuffix(got.path, "/r1/response") || !strings.Contains(got.body, `"result":"asked"`) {
		t.Errorf("got %s: %s\n%s", got.path, got.body, program.Stderr)
	}
	if got := len(w.cloud.CallsOf("function")); got != 1 {
		t.Errorf("%d calls came with the credentials of the request", got)
	}
	invocations <- "{"
	got = <-answers
	if !strings.HasSuffix(got.path, "/r2/error") || !strings.Contains(got.body, "invalid event") {
		t.Errorf("got %s: %s", got.path, got.body)
	}
}

// SIGTERM ends the program in good order; a configuration that is wrong does not.
func TestMainEnds(t *testing.T) {
	t.Parallel()
	w := build(t)
	program, stop := w.start(t)
	defer stop()
	for !strings.Contains(<-program.Stderr.(lines), "function is ready") {
	}
	program.Process.Signal(syscall.SIGTERM)
	if err := program.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
	w.env["LBREMEDY_REGION"] = ""
	program, stop = w.start(t)
	defer stop()
	if err := program.Wait(); err == nil || !strings.Contains(<-program.Stderr.(lines), "LBREMEDY_REGION") {
		t.Errorf("it ended with %v", err)
	}
}

// start starts this binary as a function's program.
func (w *world) start(t *testing.T, more ...string) (*exec.Cmd, func()) {
	t.Helper()
	program := exec.Command(os.Args[0])
	program.Env = append(os.Environ(), "SERVE_MAIN=1")
	for k, v := range w.env {
		program.Env = append(program.Env, k+"="+v)
	}
	program.Env = append(program.Env, more...)
	program.Stderr = make(lines, 1000)
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	return program, func() { program.Process.Kill(); program.Wait() }
}

// Without a policy that it can read a function is not ready: it would write nothing.
func TestNotReadyWithoutPolicy(t *testing.T) {
	t.Parallel()
	var reads error
	env := &engine.Env{Stream: nats.Streams(t), Policy: func(context.Context) (remedy.Policy, error) { return remedy.Policy{}, reads }}
	if err := ready(env)(t.Context()); err != nil {
		t.Error(err)
	}
	reads = policy.ErrNewer
	d := &Endpoint{Ready: ready(env)}
	w := httptest.NewRecorder()
	d.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/readyz", nil))
	if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "newer release") {
		t.Errorf("answered %d: %s", w.Code, w.Body)
	}
}
