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
	"testing"
	"testing/synctest"
	"time"

	"github.com/aliyun/fc-runtime-go-sdk/fccontext"
	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/hand"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/step"
)

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

// The caller's statements are never taken for the platform's.
func TestTrigger(t *testing.T) {
	t.Parallel()
	w := build(t)
	forged := map[string]string{"x-fc-access-key-id": "stranger", "X-Fc-Access-Key-Secret": "s"}
	plain := func() string { return string(w.call(t, same)) }
	for _, tt := range []struct {
		name    string
		payload []byte
		status  int
		says    string
	}{
		{"plain", fcTrigger(t, "POST", "/", nil, plain(), false), 200, "The account is"},
		{"in Base64", fcTrigger(t, "POST", "/?a=b", nil, base64.StdEncoding.EncodeToString([]byte(plain())), true), 200, "The account is"},
		{"forged headers", fcTrigger(t, "POST", "/", forged, plain(), false), 200, "The account is"},
		{"without a path", fcTrigger(t, "", ":", nil, plain(), false), 200, "The account is"},
		{"a call that is refused", fcTrigger(t, "POST", "/", nil, "x", false), 400, "JWS"},
		{"a reader", fcTrigger(t, "GET", "/", nil, "", false), 405, ""},
		{"live", fcTrigger(t, "GET", "/healthz", nil, "", false), 200, ""},
		{"the end of the platform", fcTrigger(t, "GET", "/pre-stop", nil, "", false), 404, ""},
		{"another path", fcTrigger(t, "POST", "/other", nil, plain(), false), 404, ""},
		{"too large", fcTrigger(t, "POST", "/", nil, strings.Repeat(" ", hand.MaxCall)+plain(), false), 413, "more than"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := w.endpoint(t, asks)
			d.FC = true
			ctx := fccontext.NewContext(t.Context(), &fccontext.FcContext{
				RequestID: "r-1", Credentials: fccontext.Credentials{AccessKeyId: w.key.AccessKeyID, AccessKeySecret: w.key.Secret},
			})
			text, err := d.Invoke(ctx, tt.payload)
			if err != nil {
				t.Fatal(err)
			}
			var got struct {
				StatusCode int
				Headers    map[string]string
				Body       string
			}
			if err := json.Unmarshal(text, &got); err != nil || got.StatusCode != tt.status || !strings.Contains(got.Body, tt.says) {
				t.Errorf("got %s, %v", text, err)
			}
		})
	}
	d := w.endpoint(t, asks)
	for _, payload := range []string{`{"version":"v2","requestContext":{}}`, `{"version":"v1","isBase64Encoded":true,"body":"%","requestContext":{}}`} {
		got, err := d.Invoke(t.Context(), []byte(payload))
		var said hand.Answer
		if err == nil {
			err = json.Unmarshal(got, &said)
		}
		if err != nil || said.Problem == nil || !strings.Contains(said.Problem.Text, "HTTP trigger") {
			t.Errorf("%s: got %s, %v", payload, got, err)
		}
	}
}

// A call ends shortly before its invocation; the log names the platform's request.
func TestInvocation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		var left time.Duration
		var log bytes.Buffer
		key := newKey(t)
		w := &world{engine: key, svc: &corev1.Service{}}
		d := bare(t, key, class(func(ctx context.Context, _ *remedy.Case) (remedy.Plan, error) {
			left = 0
			if end, ok := ctx.Deadline(); ok {
				left = time.Until(end)
			}
			return remedy.Plan{Finding: say.F("Ask."), Ask: say.F("Ask.")}, nil
		}))
		d.Log = slog.New(slog.NewTextHandler(&log, nil))
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
			q := httptest.NewRequest("POST", "/invoke", bytes.NewReader(w.call(t, same)))
			q.Header.Set("x-fc-request-id", "r-7")
			q.Header.Set("x-fc-function-timeout", tt.timeout)
			q.Header.Set("x-fc-function-deadline", tt.deadline)
			log.Reset()
			a := httptest.NewRecorder()
			d.Handler().ServeHTTP(a, q)
			if a.Code != 200 || left.Round(time.Second) != tt.want {
				t.Errorf("%+v: %s were left; it answers %s", tt, left, a.Body)
			}
			if strings.Contains(log.String(), "request=r-7") != tt.fc {
				t.Errorf("%+v: the log says %s", tt, &log)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		d.FC = true
		if _, err := d.Invoke(ctx, w.call(t, same)); err != nil || left != 18*time.Second {
			t.Errorf("invoked with 20 s: %s were left, %v", left, err)
		}
	})
}

func bare(t testing.TB, key hand.Key, r *remedy.Remedy) *Endpoint {
	t.Helper()
	keys, err := hand.ParsePublicKeys(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	local := (&hand.Clients{Decode: step.Decode}).Hand(r)
	return &Endpoint{Hand: &hand.Served{Hand: local, Cluster: "c-1", Class: r.Class, Declares: r.Declaration().Digest(), Keys: keys}}
}

func TestInHand(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		end := make(chan struct{})
		key := newKey(t)
		w := &world{engine: key, svc: &corev1.Service{}}
		d := bare(t, key, class(func(context.Context, *remedy.Case) (remedy.Plan, error) {
			<-end
			return remedy.Plan{Finding: say.F("Ask."), Ask: say.F("Ask.")}, nil
		}))
		ask := func(method, path string) (int, string) {
			a := httptest.NewRecorder()
			d.Handler().ServeHTTP(a, httptest.NewRequest(method, path, bytes.NewReader(w.call(t, same))))
			return a.Code, a.Body.String()
		}
		got, stopped := make(chan int, 1), make(chan int, 1)
		go func() { status, _ := ask("POST", "/"); got <- status }()
		synctest.Wait()
		go func() { status, _ := ask("GET", "/pre-stop"); stopped <- status }()
		ended := make(chan struct{})
		go func() { d.inHand.close(t.Context()); close(ended) }()
		synctest.Wait()
		select {
		case <-stopped:
			t.Error("it stopped with a call in hand")
		case <-ended:
			t.Error("it ended with a call in hand")
		default:
		}
		if status, said := ask("POST", "/"); status != http.StatusServiceUnavailable || !strings.Contains(said, hand.ErrUnavailable.Error()) {
			t.Errorf("while it ends a call got %d: %s", status, said)
		}
		close(end)
		if status := <-got; status != http.StatusOK {
			t.Errorf("the call in hand got %d", status)
		}
		if status := <-stopped; status != http.StatusOK {
			t.Errorf("the hook got %d", status)
		}
		<-ended
		soon, cancel := context.WithCancel(t.Context())
		cancel()
		d.inHand.held.Store(1)
		d.inHand.wait(soon) // gives up
	})
}

// Credentials in a request count only under Function Compute: in a stranger's account, other things would seem wrong.
func TestKey(t *testing.T) {
	t.Parallel()
	var got cloud.Key
	key := newKey(t)
	w := &world{engine: key, svc: &corev1.Service{}}
	d := bare(t, key, class(func(ctx context.Context, _ *remedy.Case) (remedy.Plan, error) {
		got, _ = Key(cloud.Static(cloud.Key{ID: "own"}))(ctx)
		return remedy.Plan{Finding: say.F("Ask."), Ask: say.F("Ask.")}, nil
	}))
	sent := cloud.Key{ID: "id", Secret: "secret", Token: "token"}
	for _, tt := range []struct {
		fc   bool
		id   string
		want cloud.Key
	}{
		{true, "id", sent}, {true, "", cloud.Key{ID: "own"}}, {false, "id", cloud.Key{ID: "own"}},
	} {
		q := httptest.NewRequest("POST", "/invoke", bytes.NewReader(w.call(t, same)))
		if tt.id != "" {
			q.Header.Set("x-fc-access-key-id", tt.id)
		}
		q.Header.Set("x-fc-access-key-secret", "secret")
		q.Header.Set("x-fc-security-token", "token")
		d.FC = tt.fc
		d.Handler().ServeHTTP(httptest.NewRecorder(), q)
		if got != tt.want {
			t.Errorf("in FC %t, with the ID %q sent: got %v", tt.fc, tt.id, got)
		}
		ctx := fccontext.NewContext(t.Context(), &fccontext.FcContext{Credentials: fccontext.Credentials{
			AccessKeyId: tt.id, AccessKeySecret: "secret", SecurityToken: "token",
		}})
		d.FC = true
		if _, err := d.Invoke(ctx, w.call(t, same)); err != nil {
			t.Error(err)
		}
		if want := map[string]cloud.Key{"id": sent, "": {ID: "own"}}[tt.id]; got != want {
			t.Errorf("invoked with the ID %q: got %v", tt.id, got)
		}
	}
}

func TestKeyOfTheEnvironment(t *testing.T) {
	t.Setenv("ALIBABA_CLOUD_ACCESS_KEY_ID", "env")
	t.Setenv("ALIBABA_CLOUD_ACCESS_KEY_SECRET", "secret")
	if k, err := Key(nil)(t.Context()); err != nil || k.ID != "env" {
		t.Errorf("got %v, %v", k.ID, err)
	}
}

// The SDK requires a panic.
func TestInitialize(t *testing.T) {
	t.Parallel()
	defer func() {
		if v := recover(); v != "the cluster is away" {
			t.Errorf("it panics with %v", v)
		}
	}()
	(&Endpoint{}).initialize(t.Context())
	(&Endpoint{Ready: func(context.Context) error { return errors.New("the cluster is away") }}).initialize(t.Context())
}

// Missing values are added, an unavailable API is asked again after a pause, and all other requests are passed on.
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
	m := &corrected{api: strings.TrimPrefix(api.URL, "http://"), to: &http.Transport{}, in: &inHand{}}
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

	for _, kind := range []string{"0", "1", "2", ""} {
		header = http.Header{}
		header.Set("x-fc-function-type", kind)
		header.Set("x-fc-request-id", "r"+kind)
		m.in.held.Store(0)
		if _, _, err := ask(t.Context(), api.URL+"/2020-11-11/runtime/invocation/next"); err != nil {
			t.Fatal(err)
		}
		if n := m.in.held.Load(); (n == 1) != (kind == "0" || kind == "") {
			t.Errorf("of kind %q %d are in hand", kind, n)
		}
		for range 2 {
			if _, _, err := ask(t.Context(), api.URL+"/2020-11-11/runtime/invocation/r"+kind+"/response"); err != nil {
				t.Fatal(err)
			}
		}
		if m.in.held.Load() != 0 {
			t.Errorf("of kind %q %d are in hand after the answer", kind, m.in.held.Load())
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
