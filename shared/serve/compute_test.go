package serve

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aliyun/fc-runtime-go-sdk/fccontext"
	cloudevents "github.com/cloudevents/sdk-go/v2/event"

	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/engine"
	"github.com/lbremedy/lbremedy/shared/host"
)

// fcTrigger returns what an HTTP trigger hands to the Go runtime.
func fcTrigger(t testing.TB, method, path string, headers map[string]string, body string, encoded bool) []byte {
	t.Helper()
	text, err := json.Marshal(map[string]any{
		"version": "v1", "rawPath": path, "body": body, "isBase64Encoded": encoded, "headers": headers, "queryParameters": map[string]string{},
		"requestContext": map[string]any{"accountId": "1", "http": map[string]string{"method": method, "path": path, "protocol": "HTTP/1.1",
			"sourceIp": "1.2.3.4"}, "requestId": "r"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// The requests of an HTTP trigger are answered as the endpoint answers any, and what the
// caller says is never taken for what the platform says.
func TestTrigger(t *testing.T) {
	t.Parallel()
	e := failure(someService)
	structured := marshal(t, e)
	json64 := base64.StdEncoding.EncodeToString([]byte(structured))
	media := map[string]string{"content-type": "application/cloudevents+json", "authorization": "Bearer sesame"}
	binary := map[string]string{"content-type": "application/json", "authorization": "bearer sesame", "ce-specversion": "1.0", "ce-id": e.ID(),
		"ce-source": e.Source(), "ce-type": e.Type()}
	forged := map[string]string{"authorization": "Bearer sesame", "x-fc-access-key-id": "stranger", "X-Fc-Access-Key-Secret": "s"}
	for _, tt := range []struct {
		name    string
		payload []byte
		reply   host.Reply
		status  int
		after   string
		says    string
	}{
		{"structured", fcTrigger(t, "POST", "/", media, structured, false), host.Reply{}, 204, "", ""},
		{"in Base64", fcTrigger(t, "POST", "/", media, json64, true), host.Reply{}, 204, "", ""},
		{"binary", fcTrigger(t, "POST", "/?a=b", binary, string(e.Data()), false), host.Reply{}, 204, "", ""},
		{"forged headers", fcTrigger(t, "POST", "/", forged, structured, false), host.Reply{}, 204, "", ""},
		{"later", fcTrigger(t, "POST", "/", media, structured, false), host.Reply{Retry: 7 * time.Second}, 503, "7", "again in 7s"},
		{"dead", fcTrigger(t, "POST", "/", media, structured, false), host.Reply{Dead: "nobody knows"}, 422, "", "nobody knows"},
		{"of another cluster", fcTrigger(t, "POST", "/", media, structured, false), host.Reply{Dead: "not for this host", Err: engine.ErrForeign}, 421, "",
			"not for this host"},
		{"no token", fcTrigger(t, "POST", "/", nil, structured, false), host.Reply{}, 401, "", "shows none"},
		{"a reader", fcTrigger(t, "GET", "/", media, "", false), host.Reply{}, 405, "", ""},
		{"live", fcTrigger(t, "GET", "/healthz", nil, "", false), host.Reply{}, 200, "", ""},
		{"another path", fcTrigger(t, "POST", "/other", media, structured, false), host.Reply{}, 404, "", ""},
		{"no path", fcTrigger(t, "", ":", media, structured, false), host.Reply{}, 204, "", ""},
		{"too large", fcTrigger(t, "POST", "/", media, strings.Repeat(" ", MaxBody)+structured, false), host.Reply{}, 422, "", "more than"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := &Endpoint{FC: true, Tokens: func() ([]string, error) { return []string{"sesame"}, nil },
				Handle: func(ctx context.Context, got cloudevents.Event) host.Reply {
					if got.ID() != e.ID() || !bytes.Equal(got.Data(), e.Data()) {
						t.Errorf("the event became %s", got)
					}
					if k, _ := Key(cloud.Static(cloud.Key{}))(ctx); k.ID != "own" {
						t.Errorf("the run has the credentials of %q", k.ID)
					}
					return tt.reply
				}}
			ctx := fccontext.NewContext(t.Context(), &fccontext.FcContext{RequestID: "r-1", Credentials: fccontext.Credentials{AccessKeyId: "own"}})
			text, err := d.Invoke(ctx, tt.payload)
			if err != nil {
				t.Fatal(err)
			}
			var got struct {
				StatusCode int
				Headers    map[string]string
				Body       string
			}
			if err := json.Unmarshal(text, &got); err != nil || got.StatusCode != tt.status || got.Headers["Retry-After"] != tt.after ||
				!strings.Contains(got.Body, tt.says) {
				t.Errorf("got %s, %v", text, err)
			}
		})
	}
	d := &Endpoint{}
	for _, payload := range []string{`{"version":"v2","requestContext":{}}`, `{"version":"v1","isBase64Encoded":true,"body":"%","requestContext":{}}`} {
		if got, err := d.Invoke(t.Context(), []byte(payload)); err == nil || !strings.Contains(err.Error(), "HTTP trigger") {
			t.Errorf("%s: got %s, %v", payload, got, err)
		}
	}
	if _, err := d.Invoke(t.Context(), bytes.Repeat([]byte(" "), MaxBody+1)); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("too large: %v", err)
	}
}

// A batch is answered as the worst of its events, and each is handled.
func TestBatch(t *testing.T) {
	t.Parallel()
	dead, later, soon := host.Reply{Dead: "no"}, host.Reply{Retry: 9 * time.Second}, host.Reply{Retry: time.Second, Err: errors.New("boom")}
	for _, tt := range []struct {
		replies []host.Reply
		status  int
		after   string
	}{
		{[]host.Reply{{}, {}, {}}, 204, ""},
		{[]host.Reply{{}, dead, {}}, 422, ""},
		{[]host.Reply{dead, soon, {}}, 503, "1"},
		{[]host.Reply{soon, dead, later}, 503, "9"},
		{[]host.Reply{{}, soon}, 503, "1"},
	} {
		parts := make([]string, len(tt.replies))
		for i := range parts {
			e := failure(someService)
			e.SetID(fmt.Sprint(i))
			parts[i] = marshal(t, e)
		}
		var handled atomic.Int64
		d := &Endpoint{Handle: func(_ context.Context, e cloudevents.Event) host.Reply {
			handled.Add(1)
			var i int
			fmt.Sscan(e.ID(), &i)
			return tt.replies[i]
		}}
		a := httptest.NewRecorder()
		d.Handler().ServeHTTP(a, httptest.NewRequest("POST", "/", strings.NewReader("["+strings.Join(parts, ",")+"]")))
		if a.Code != tt.status || a.Header().Get("Retry-After") != tt.after || int(handled.Load()) != len(parts) {
			t.Errorf("%v: got %d, Retry-After %q, %d handled", tt.replies, a.Code, a.Header().Get("Retry-After"), handled.Load())
		}
	}
}

// A panic of a run ends neither the endpoint nor the other events of a batch.
func TestPanic(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	d := &Endpoint{Log: slog.New(slog.NewTextHandler(&log, nil)),
		Handle: func(context.Context, cloudevents.Event) host.Reply { panic("oh AccessKeyId=LTAI4FakeFakeFake1234") }}
	text := marshal(t, failure(someService))
	a := httptest.NewRecorder()
	d.Handler().ServeHTTP(a, httptest.NewRequest("POST", "/", strings.NewReader("["+text+","+text+"]")))
	if a.Code != http.StatusServiceUnavailable || strings.Contains(log.String(), "LTAI4") || !strings.Contains(log.String(), "run panicked") {
		t.Errorf("got %d: %s, %s", a.Code, a.Body, &log)
	}
}

// A run ends a moment before the platform ends its invocation, and names it in the log.
func TestInvocation(t *testing.T) {
	t.Parallel()
	body := marshal(t, failure(someService))
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		var left time.Duration
		var log bytes.Buffer
		d := &Endpoint{FC: true, Log: slog.New(slog.NewTextHandler(&log, nil)), Handle: func(ctx context.Context, _ cloudevents.Event) host.Reply {
			left = 0
			if end, ok := ctx.Deadline(); ok {
				left = time.Until(end)
			}
			return host.Reply{Dead: "no"}
		}}
		for _, tt := range []struct {
			timeout, deadline string
			fc                bool
			want              time.Duration
		}{
			{"", "", true, 0},
			{"60", "", true, 58 * time.Second},
			{"60", fmt.Sprint(now.Add(30 * time.Second).UnixMilli()), true, 28 * time.Second},
			{"", fmt.Sprint(now.Add(30 * time.Second).UnixMilli()), true, 28 * time.Second},
			{"4", "", true, 3 * time.Second},
			{"-1", "soon", true, 0},
			{"60", "", false, 0},
		} {
			d.FC = tt.fc
			q := httptest.NewRequest("POST", "/invoke", strings.NewReader(body))
			q.Header.Set("x-fc-request-id", "r-7")
			q.Header.Set("x-fc-function-timeout", tt.timeout)
			q.Header.Set("x-fc-function-deadline", tt.deadline)
			log.Reset()
			d.Handler().ServeHTTP(httptest.NewRecorder(), q)
			if left.Round(time.Second) != tt.want {
				t.Errorf("%+v: %s were left", tt, left)
			}
			if strings.Contains(log.String(), "request=r-7") != tt.fc {
				t.Errorf("%+v: the log says %s", tt, &log)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		if _, err := d.Invoke(ctx, []byte(body)); err == nil || left != 18*time.Second {
			t.Errorf("invoked with 20 s: %s were left, %v", left, err)
		}
	})
}

// Who stops waits for what is in hand, and takes nothing more.
func TestHands(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		end := make(chan struct{})
		d := &Endpoint{Handle: func(context.Context, cloudevents.Event) host.Reply { <-end; return host.Reply{} }}
		body := marshal(t, failure(someService))
		post := func(method, path string) int {
			a := httptest.NewRecorder()
			d.Handler().ServeHTTP(a, httptest.NewRequest(method, path, strings.NewReader(body)))
			return a.Code
		}
		got, stopped := make(chan int, 1), make(chan int, 1)
		go func() { got <- post("POST", "/") }()
		synctest.Wait()
		go func() { stopped <- post("GET", "/pre-stop") }()
		ended := make(chan struct{})
		go func() { d.hands.close(t.Context()); close(ended) }()
		synctest.Wait()
		select {
		case <-stopped:
			t.Error("it stopped with an event in hand")
		case <-ended:
			t.Error("it ended with an event in hand")
		default:
		}
		if status := post("POST", "/"); status != http.StatusServiceUnavailable {
			t.Errorf("while it ends an event got %d", status)
		}
		close(end)
		if status := <-got; status != http.StatusNoContent {
			t.Errorf("the event in hand got %d", status)
		}
		if status := <-stopped; status != http.StatusOK {
			t.Errorf("the hook got %d", status)
		}
		<-ended
		soon, cancel := context.WithCancel(t.Context())
		cancel()
		d.hands.held = 1
		d.hands.wait(soon) // gives up
	})
}

// The initializer of the Go runtime fails by a panic, which is how the SDK wants it.
func TestInitialize(t *testing.T) {
	t.Parallel()
	defer func() {
		if v := recover(); v != "NATS is away" {
			t.Errorf("it panics with %v", v)
		}
	}()
	(&Endpoint{}).initialize(t.Context())
	(&Endpoint{Ready: func(context.Context) error { return errors.New("NATS is away") }}).initialize(t.Context())
}

// What the platform leaves out is added, an API that is away is asked after a pause,
// and all other requests go their way.
func TestCorrected(t *testing.T) {
	t.Parallel()
	status, header := http.StatusOK, http.Header{}
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for k := range header {
			w.Header().Set(k, header.Get(k))
		}
		w.WriteHeader(status)
	}))
	defer api.Close()
	m := &corrected{api: strings.TrimPrefix(api.URL, "http://"), to: &http.Transport{}, hands: &hands{}}
	defer m.to.CloseIdleConnections()
	ask := func(ctx context.Context, url string) (*http.Response, time.Duration, error) {
		t.Helper()
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		a, err := m.RoundTrip(r)
		if err == nil {
			a.Body.Close()
		}
		return a, time.Since(began), err
	}
	if _, _, err := ask(t.Context(), "http://example.com/next"); !errors.Is(err, http.ErrSkipAltProtocol) {
		t.Errorf("another host: %v", err)
	}
	for _, tt := range []struct{ timeout, deadline, wantTimeout string }{
		{"", "", "60"}, {"9", "", "9"}, {"x", "1234", "60"}, {"9", "1234", "9"},
	} {
		header = http.Header{}
		header.Set("x-fc-function-timeout", tt.timeout)
		header.Set("x-fc-function-deadline", tt.deadline)
		a, _, err := ask(t.Context(), api.URL+"/2020-11-11/runtime/invocation/next")
		if err != nil {
			t.Fatal(err)
		}
		deadline := a.Header.Get("x-fc-function-deadline")
		if a.Header.Get("x-fc-function-timeout") != tt.wantTimeout || tt.deadline != "" && deadline != tt.deadline || len(deadline) < len(tt.deadline) ||
			deadline == "" {
			t.Errorf("%+v became %v", tt, a.Header)
		}
	}

	// An event is in hand until its answer has arrived; a hook is not.
	for _, kind := range []string{"0", "1", "2", ""} {
		header = http.Header{}
		header.Set("x-fc-function-type", kind)
		header.Set("x-fc-request-id", "r"+kind)
		m.hands.held = 0
		if _, _, err := ask(t.Context(), api.URL+"/2020-11-11/runtime/invocation/next"); err != nil {
			t.Fatal(err)
		}
		if n := m.hands.held; (n == 1) != (kind == "0" || kind == "") {
			t.Errorf("of kind %q %d are in hand", kind, n)
		}
		for range 2 {
			if _, _, err := ask(t.Context(), api.URL+"/2020-11-11/runtime/invocation/r"+kind+"/response"); err != nil {
				t.Fatal(err)
			}
		}
		if m.hands.held != 0 {
			t.Errorf("of kind %q %d are in hand after the answer", kind, m.hands.held)
		}
	}
	status = http.StatusInternalServerError
	if _, took, _ := ask(t.Context(), api.URL+"/x/next"); took < again {
		t.Errorf("after a failure it comes back after %s", took)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := ask(ctx, api.URL+"/x/next"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if a, _, err := ask(t.Context(), api.URL+"/x/response"); err != nil || a.StatusCode != status {
		t.Errorf("an answer got %v, %v", a, err)
	}
}
