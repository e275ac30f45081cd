package serve

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/connect"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/hand"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/step"
	"github.com/lbremedy/lbremedy/test/sim"
	"github.com/lbremedy/lbremedy/test/sim/fc"
)

const vswitch = ccm.Prefix + "vswitch-id"

func class(diagnose func(context.Context, *remedy.Case) (remedy.Plan, error)) *remedy.Remedy {
	return &remedy.Remedy{
		Class: "asks", Doc: "# Asks", Reads: []grant.Grant{grant.GetCallerIdentity}, Steps: []remedy.Step{step.Annotate{}}, Annotations: []string{"vswitch-id"},
		Formats: []string{"The account is %s.", "Ask."}, Diagnose: diagnose,
		StillFails: func(context.Context, *remedy.Case) (remedy.Verdict, error) { return remedy.Yes, nil },
	}
}

// asks reads its identity in the cloud, which shows the credentials used.
var asks = class(func(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
	id, err := c.Cloud.STS.Identity(ctx)
	return remedy.Plan{Finding: say.F("The account is %s.", id.Account), Ask: say.F("Ask.")}, err
})

// TestMain runs the function's program if a test has started this binary for it.
func TestMain(m *testing.M) {
	if os.Getenv("SERVE_MAIN") != "" {
		Main(asks)
		return
	}
	os.Exit(m.Run())
}

// A world is an API server with one Service, and a cloud at the same address, which counts requests.
type world struct {
	*httptest.Server
	requests atomic.Int64
	cloud    *sim.Cloud
	key      sim.Credentials // of the function
	engine   hand.Key
	env      map[string]string

	mu  sync.Mutex
	svc *corev1.Service
}

func build(t testing.TB) *world {
	t.Helper()
	w := &world{cloud: sim.New(t, nil), engine: newKey(t), svc: &corev1.Service{}}
	w.key = w.cloud.Client("function", "sts:GetCallerIdentity")
	w.svc.Namespace, w.svc.Name, w.svc.UID, w.svc.ResourceVersion = "shop", "web", "3f9a12bc-0000-4000-8000-000000000001", "7"
	behind := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(&url.URL{Scheme: "http", Host: w.cloud.Addr()})
		r.Out.Host = r.In.Host // the signature covers it
	}}
	w.Server = httptest.NewServer(http.HandlerFunc(func(a http.ResponseWriter, r *http.Request) {
		w.requests.Add(1)
		if strings.HasPrefix(r.URL.Path, "/api/") || r.URL.Path == "/version" {
			w.apiServer(a, r)
			return
		}
		behind.ServeHTTP(a, r)
	}))
	t.Cleanup(w.Close)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	text := `{"apiVersion":"v1","kind":"Config","clusters":[{"name":"a","cluster":{"server":"` + w.URL + `"}}],` +
		`"contexts":[{"name":"a","context":{"cluster":"a"}}],"current-context":"a"}`
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	w.env = map[string]string{
		"LBREMEDY_CLUSTER": "c-1", "LBREMEDY_REGION": w.cloud.Region(), "LBREMEDY_KUBECONFIG": kubeconfig, "LBREMEDY_ENGINE_KEYS": w.engine.Public(),
		"LBREMEDY_CLOUD_ENDPOINT": strings.TrimPrefix(w.URL, "http://"), "LBREMEDY_CLOUD_SCHEME": "HTTP", "PORT": "0",
		"ALIBABA_CLOUD_ACCESS_KEY_ID": w.key.AccessKeyID, "ALIBABA_CLOUD_ACCESS_KEY_SECRET": w.key.Secret,
	}
	return w
}

func newKey(t testing.TB) hand.Key {
	t.Helper()
	k, err := hand.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func (w *world) apiServer(a http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a.Header().Set("Content-Type", "application/json")
	var answer any = w.svc
	switch {
	case r.URL.Path == "/version":
		answer = map[string]string{"gitVersion": "v1.36.1"}
	case r.URL.Path != "/api/v1/namespaces/shop/services/web":
		a.WriteHeader(http.StatusNotFound)
		answer = map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}
	case r.Method == http.MethodPatch:
		patched := w.svc.DeepCopy()
		if err := json.NewDecoder(r.Body).Decode(patched); err != nil || patched.ResourceVersion != w.svc.ResourceVersion {
			a.WriteHeader(http.StatusConflict)
			answer = map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Conflict", "code": 409}
			break
		}
		patched.ResourceVersion += "1"
		w.svc, answer = patched, patched
	}
	_ = json.NewEncoder(a).Encode(answer)
}

func (w *world) service() *corev1.Service {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.svc.DeepCopy()
}

func (w *world) endpoint(t testing.TB, r *remedy.Remedy) *Endpoint {
	t.Helper()
	config := connect.Config{
		Cluster: "c-1", Region: w.cloud.Region(), Kubeconfig: w.env["LBREMEDY_KUBECONFIG"], Endpoint: w.env["LBREMEDY_CLOUD_ENDPOINT"], Scheme: "HTTP",
		Credentials: Key(cloud.Static(cloud.Key{ID: w.key.AccessKeyID, Secret: w.key.Secret})),
	}
	clients, err := config.Clients(step.Decode)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := hand.ParsePublicKeys(w.engine.Public())
	if err != nil {
		t.Fatal(err)
	}
	return &Endpoint{Hand: &hand.Served{Hand: clients.Hand(r), Cluster: "c-1", Class: r.Class, Declares: r.Declaration().Digest(), Keys: keys}}
}

func (w *world) about() hand.About {
	svc := w.service()
	return hand.About{
		Class: "asks", Case: "3f9a12bc-1", Attempt: 1, Service: svc, Now: time.Now(),
		Failure: event.Failure{Cluster: "c-1", Class: "asks", Service: event.Service{Namespace: svc.Namespace, Name: svc.Name, UID: string(svc.UID)}},
	}
}

func (w *world) remote(send func(context.Context, []byte) ([]byte, error)) *hand.Remote {
	return &hand.Remote{
		Class: asks, Key: w.engine, Decode: step.Decode, Known: func(string) bool { return false }, Send: send,
		Read: func(context.Context, string, string) (*corev1.Service, error) { return w.service(), nil },
	}
}

type call struct {
	header, event map[string]any
	data          map[string]any
	key           ed25519.PrivateKey
	seal          func(signed []byte) []byte // nil: Ed25519 with key
}

func (w *world) call(t testing.TB, change func(*call)) []byte {
	t.Helper()
	c := &call{key: private(t, w.engine)}
	c.header = map[string]any{"alg": "EdDSA", "kid": w.engine.Public()}
	c.event = map[string]any{
		"specversion": "1.0", "id": rand.Text(), "type": hand.TypeLook, "source": "c-1", "subject": "asks", "datacontenttype": "application/json",
		"expires": time.Now().Add(20 * time.Second).Format(time.RFC3339Nano), "declares": asks.Declaration().Digest(),
	}
	data(t, hand.LookRequest{About: w.about(), For: hand.Diagnose}, &c.data)
	change(c)
	c.event["data"] = c.data
	part := func(v any) string {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return base64.RawURLEncoding.EncodeToString(text)
	}
	signed := []byte(part(c.header) + "." + part(c.event))
	if c.seal == nil {
		c.seal = func(signed []byte) []byte { return ed25519.Sign(c.key, signed) }
	}
	return fmt.Appendf(nil, "%s.%s", signed, base64.RawURLEncoding.EncodeToString(c.seal(signed)))
}

func sign(t testing.TB, k hand.Key, signed string) []byte {
	t.Helper()
	return []byte(signed + "." + base64.RawURLEncoding.EncodeToString(ed25519.Sign(private(t, k), []byte(signed))))
}

func data(t testing.TB, from, into any) {
	t.Helper()
	text, err := json.Marshal(from)
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func private(t testing.TB, k hand.Key) ed25519.PrivateKey {
	t.Helper()
	block, _ := pem.Decode(k.PEM())
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return key.(ed25519.PrivateKey)
}

func post(t testing.TB, url string, body []byte, header map[string]string) (*http.Response, hand.Answer) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range header {
		r.Header.Set(k, v)
	}
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err != nil {
		t.Fatal(err)
	}
	var said hand.Answer
	if err := json.Unmarshal(text, &said); err != nil || a.Header.Get("Content-Type") != media || len(text) > hand.MaxAnswer {
		t.Errorf("the answer is %.500s, of type %s: %v", text, a.Header.Get("Content-Type"), err)
	}
	return a, said
}

func same(*call) {}

// A stranger, or a copied call, is refused with a problem and a status, without a read or write.
func TestHostileCallers(t *testing.T) {
	w := build(t)
	d := w.endpoint(t, asks)
	server := httptest.NewServer(Timed(d.Handler(), 10*time.Second))
	defer server.Close()
	in := func(life time.Duration) func(*call) {
		return func(c *call) { c.event["expires"] = time.Now().Add(life).Format(time.RFC3339Nano) }
	}
	old, order := newKey(t), hand.Order{About: w.about(), Step: hand.Step{Kind: "resync", Step: json.RawMessage("{}")}}
	good := string(w.call(t, same))
	parts := strings.Split(good, ".")
	for _, tt := range []struct {
		name   string
		call   func(*call) // nil: body
		body   string
		status int
		kind   error
		says   string
	}{
		{name: "nothing", status: 400, kind: hand.ErrInvalid, says: "JWS"},
		{name: "garbage", body: "\x00\xff.{}.%", status: 400, kind: hand.ErrInvalid, says: "JWS"},
		{name: "a CloudEvent without a signature", body: `{"specversion":"1.0","id":"1","type":"` + hand.TypeLook + `","source":"c-1"}`, status: 400,
			kind: hand.ErrInvalid, says: "JWS"},
		{name: "a failure, as functions were sent before", body: `{"specversion":"1.0","id":"1","type":"io.lbremedy.service.failed.v1","source":"/clusters/c-1"}`,
			status: 400, kind: hand.ErrInvalid, says: "JWS"},
		{name: "no signature", body: parts[0] + "." + parts[1] + ".", status: 401, kind: hand.ErrDenied, says: "signature"},
		{name: "the signature of another call", body: parts[0] + "." + strings.Split(string(w.call(t, same)), ".")[1] + "." + parts[2], status: 401,
			kind: hand.ErrDenied, says: "signature"},
		{name: "two calls", body: good + good, status: 400, kind: hand.ErrInvalid},
		{name: "a cut call", body: good[:len(good)-1], status: 400, kind: hand.ErrInvalid},
		{name: "a JWT with alg none", call: func(c *call) {
			c.header["alg"] = "none"
			c.seal = func([]byte) []byte { return nil }
		}, status: 401, kind: hand.ErrDenied},
		{name: "a JWT with HS256 and the public key as secret", call: func(c *call) {
			c.header["alg"] = "HS256"
			c.seal = func(signed []byte) []byte {
				mac := hmac.New(sha256.New, []byte(w.engine.Public()))
				mac.Write(signed)
				return mac.Sum(nil)
			}
		}, status: 401, kind: hand.ErrDenied},
		{name: "an old key", call: func(c *call) { c.header["kid"], c.key = old.Public(), private(t, old) }, status: 401, kind: hand.ErrDenied, says: "unknown"},
		{name: "an old key under the name of the new one", call: func(c *call) { c.key = private(t, old) }, status: 401, kind: hand.ErrDenied},
		{name: "no name of a key", call: func(c *call) { delete(c.header, "kid") }, status: 401, kind: hand.ErrDenied},
		{name: "a key in the header", call: func(c *call) {
			public := private(t, old).Public().(ed25519.PublicKey)
			c.header["jwk"] = map[string]string{"kty": "OKP", "crv": "Ed25519", "x": base64.RawURLEncoding.EncodeToString(public)}
			c.key = private(t, old)
		}, status: 401, kind: hand.ErrDenied},
		{name: "extensions that must be understood", call: func(c *call) { c.header["crit"] = []string{"b64"} }, status: 401, kind: hand.ErrDenied},
		{name: "another class's", call: func(c *call) { c.event["subject"] = "quota" }, status: 401, kind: hand.ErrDenied, says: "quota"},
		{name: "data of another class", call: func(c *call) { c.data["class"] = "quota" }, status: 400, kind: hand.ErrInvalid},
		{name: "another cluster's", call: func(c *call) { c.event["source"] = "c-2" }, status: 401, kind: hand.ErrDenied, says: "c-2"},
		{name: "data of another cluster", call: func(c *call) { c.data["failure"].(map[string]any)["cluster"] = "c-2" }, status: 400, kind: hand.ErrInvalid},
		{name: "another Service than the failure's", call: func(c *call) {
			c.data["service"].(map[string]any)["metadata"].(map[string]any)["uid"] = "3f9a12bc-0000-4000-8000-000000000002"
		}, status: 400, kind: hand.ErrInvalid},
		{name: "no Service", call: func(c *call) { delete(c.data, "service") }, status: 400, kind: hand.ErrInvalid},
		{name: "expired", call: in(-time.Second), status: 412, kind: hand.ErrClock, says: "expired"},
		{name: "40 s ahead", call: in(40 * time.Second), status: 412, kind: hand.ErrClock, says: "later than"},
		{name: "a year ahead", call: in(365 * 24 * time.Hour), status: 412, kind: hand.ErrClock},
		{name: "without an expiry", call: func(c *call) { delete(c.event, "expires") }, status: 400, kind: hand.ErrInvalid, says: "expiry"},
		{name: "without an ID", call: func(c *call) { delete(c.event, "id") }, status: 400, kind: hand.ErrInvalid},
		{name: "an unknown type", call: func(c *call) { c.event["type"] = "io.lbremedy.erase.v1" }, status: 400, kind: hand.ErrInvalid, says: "erase"},
		{name: "data that are no object", call: func(c *call) { c.data = nil }, status: 400, kind: hand.ErrInvalid},
		{name: "another declaration", call: func(c *call) { c.event["declares"] = strings.Repeat("0", 32) }, status: 409, kind: hand.ErrOutdated, says: "release"},
		{name: "no declaration", call: func(c *call) { delete(c.event, "declares") }, status: 409, kind: hand.ErrOutdated},
		{name: "10 MiB", body: strings.Repeat("x", 10<<20), status: 413, kind: hand.ErrInvalid, says: "more than"},
		{name: "10 MiB before a good call", body: strings.Repeat(" ", 10<<20) + good, status: 413, kind: hand.ErrInvalid},
		{name: "an order for a step that the class does not declare", call: func(c *call) {
			c.event["type"] = hand.TypeApply
			c.data = nil
			data(t, order, &c.data)
		}, status: 200, kind: hand.ErrInvalid},
	} {
		t.Run(tt.name, func(t *testing.T) {
			body := []byte(tt.body)
			if tt.call != nil {
				body = w.call(t, tt.call)
			}
			for _, path := range []string{"/", "/invoke"} {
				if path == "/invoke" && tt.status == 200 {
					continue // it would be a replay
				}
				a, said := post(t, server.URL+path, body, map[string]string{"Content-Type": hand.MediaType})
				if a.StatusCode != tt.status || a.Header.Get("x-fc-status") != "200" || said.Problem == nil || !errors.Is(said.Problem, tt.kind) ||
					!strings.Contains(said.Problem.Text, tt.says) || said.Answer != nil && tt.status != 200 {
					t.Errorf("got %d, x-fc-status %s: %+v", a.StatusCode, a.Header.Get("x-fc-status"), said.Problem)
				}
			}
		})
	}
	t.Run("a slow body", func(t *testing.T) {
		slow := httptest.NewServer(Timed(d.Handler(), 50*time.Millisecond))
		defer slow.Close()
		c, err := net.Dial("tcp", slow.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", len(good), good[:100])
		refused(t, c, http.StatusRequestTimeout)
	})
	t.Run("a body that breaks off", func(t *testing.T) {
		c, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", len(good), good[:100])
		if err := c.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		refused(t, c, http.StatusRequestTimeout)
	})
	t.Run("more than the function has memory for", func(t *testing.T) {
		d.inHand.add(most)
		defer d.inHand.add(-most)
		a, said := post(t, server.URL, []byte(good), nil)
		if a.StatusCode != http.StatusServiceUnavailable || !errors.Is(said.Problem, hand.ErrUnavailable) {
			t.Errorf("got %d: %+v", a.StatusCode, said.Problem)
		}
	})
	if n := w.requests.Load(); n != 0 {
		t.Errorf("%d requests went to the cluster or the cloud", n)
	}
	t.Run("a replay", func(t *testing.T) {
		if a, said := post(t, server.URL, []byte(good), nil); a.StatusCode != 200 || said.Problem != nil {
			t.Fatalf("the call itself got %d: %+v", a.StatusCode, said.Problem)
		}
		before := w.requests.Load()
		if before == 0 {
			t.Error("a good call reads nothing: the test proves nothing")
		}
		for range 2 {
			if a, said := post(t, server.URL, []byte(good+"\n"), nil); a.StatusCode != 401 || !errors.Is(said.Problem, hand.ErrDenied) || said.Answer != nil {
				t.Errorf("got %d: %+v", a.StatusCode, said)
			}
		}
		if n := w.requests.Load(); n != before {
			t.Errorf("%d requests were made for it", n-before)
		}
	})
	if d.inHand.bytes.Load() != 0 || d.inHand.held.Load() != 0 {
		t.Errorf("%d bytes and %d calls are still in hand", d.inHand.bytes.Load(), d.inHand.held.Load())
	}
}

func refused(t *testing.T, c net.Conn, status int) {
	t.Helper()
	a, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	var said hand.Answer
	if err := json.NewDecoder(a.Body).Decode(&said); err != nil || a.StatusCode != status || said.Problem == nil {
		t.Errorf("got %d: %+v, %v", a.StatusCode, said.Problem, err)
	}
}

func TestPaths(t *testing.T) {
	t.Parallel()
	d := &Endpoint{Ready: func(context.Context) error {
		return errors.New("away: https://a/?AccessKeyId=LTAI4FakeFakeFake1234&Signature=c2VjcmV0c2VjcmV0c2Vj")
	}}
	for _, tt := range []struct {
		method, path string
		status       int
		fc           string
	}{
		{"GET", "/", 405, "404"},
		{"PUT", "/invoke", 405, "404"},
		{"POST", "/other", 404, "404"},
		{"GET", "/healthz", 200, "200"},
		{"GET", "/health/liveness", 200, "200"},
		{"GET", "/readyz", 503, "404"},
		{"GET", "/health/readiness", 503, "404"},
		{"POST", "/initialize", 503, "404"},
		{"GET", "/pre-stop", 200, "200"},
	} {
		var log bytes.Buffer
		d.Log = slog.New(slog.NewTextHandler(&log, nil))
		a := httptest.NewRecorder()
		d.Handler().ServeHTTP(a, httptest.NewRequest(tt.method, tt.path, nil))
		if a.Code != tt.status || a.Header().Get("x-fc-status") != tt.fc {
			t.Errorf("%s %s: got %d, x-fc-status %s", tt.method, tt.path, a.Code, a.Header().Get("x-fc-status"))
		}
		if strings.Contains(a.Body.String()+log.String(), "c2VjcmV0") || (log.Len() > 0) != (tt.path == "/initialize") {
			t.Errorf("%s %s: it says %s, and the log %q", tt.method, tt.path, a.Body, &log)
		}
	}
	a := httptest.NewRecorder()
	(&Endpoint{}).Handler().ServeHTTP(a, httptest.NewRequest("GET", "/readyz", nil))
	if a.Code != 200 {
		t.Errorf("without Ready: %d", a.Code)
	}
}

func TestReady(t *testing.T) {
	w := build(t)
	for k, v := range w.env {
		t.Setenv(k, v)
	}
	d, err := endpoint(asks, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Ready(t.Context()); err != nil || w.requests.Load() != 1 {
		t.Errorf("got %v after %d requests", err, w.requests.Load())
	}
	// Anybody may ask.
	var wait sync.WaitGroup
	for i := range 50 {
		wait.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if i%2 == 0 {
				cancel() // a caller that leaves decides nothing for the others
			}
			d.Handler().ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, "GET", "/readyz", nil))
		})
	}
	wait.Wait()
	a := httptest.NewRecorder()
	d.Handler().ServeHTTP(a, httptest.NewRequest("POST", "/initialize", nil))
	if n := w.requests.Load() - 1; a.Code != 200 || n != 1 {
		t.Errorf("got %d, and %d requests reached the API server for 51 about readiness, want 1", a.Code, n)
	}
	w.Close()
	if err := d.Ready(t.Context()); err == nil {
		t.Error("without an API server it is ready")
	}
}

func TestPanic(t *testing.T) {
	t.Parallel()
	w := build(t)
	panics := class(func(context.Context, *remedy.Case) (remedy.Plan, error) {
		panic("oh AccessKeyId=LTAI4FakeFakeFake1234")
	})
	broken := w.endpoint(t, panics)
	broken.Hand.Hand = nil
	for name, tt := range map[string]struct {
		d      *Endpoint
		status int
	}{"of the class": {w.endpoint(t, panics), 200}, "of the program": {broken, 500}} {
		var log bytes.Buffer
		tt.d.Log = slog.New(slog.NewTextHandler(&log, nil))
		for range 2 {
			a := httptest.NewRecorder()
			tt.d.Handler().ServeHTTP(a, httptest.NewRequest("POST", "/", bytes.NewReader(w.call(t, same))))
			var said hand.Answer
			if err := json.Unmarshal(a.Body.Bytes(), &said); err != nil || a.Code != tt.status || said.Problem == nil ||
				!strings.Contains(said.Problem.Text, "panicked") {
				t.Errorf("%s: got %d: %s", name, a.Code, a.Body)
			}
			if a.Code == 500 && (!errors.Is(said.Problem, hand.ErrUnsure) || a.Header().Get("x-fc-status") != "404") {
				t.Errorf("%s: x-fc-status %s, %+v", name, a.Header().Get("x-fc-status"), said.Problem)
			}
			if strings.Contains(a.Body.String()+log.String(), "LTAI4") {
				t.Errorf("%s: a key stands in %s or in %s", name, a.Body, &log)
			}
		}
	}
}

// Every transport carries a look with the function's credentials, and an order.
func TestCalls(t *testing.T) {
	t.Parallel()
	type way struct {
		env    map[string]string
		own    bool // credentials are in the environment
		header map[string]string
		path   string
	}
	stranger := map[string]string{"x-fc-access-key-id": "stranger", "x-fc-access-key-secret": "s"}
	for name, tt := range map[string]way{
		"HTTP":                         {own: true, header: stranger, path: "/"},
		"custom runtime":               {env: map[string]string{"FC_FUNCTION_NAME": "asks", "FC_CUSTOM_LISTEN_PORT": "0"}, path: "/invoke"},
		"HTTP trigger":                 {env: map[string]string{"FC_FUNCTION_NAME": "asks", "FC_CUSTOM_LISTEN_PORT": "0"}, path: "/"},
		"Go runtime":                   {},
		"HTTP trigger of a Go runtime": {header: stranger, path: "/"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := build(t)
			if !tt.own {
				delete(w.env, "ALIBABA_CLOUD_ACCESS_KEY_ID")
				delete(w.env, "ALIBABA_CLOUD_ACCESS_KEY_SECRET")
			}
			maps.Copy(w.env, tt.env)
			var send func(context.Context, []byte) ([]byte, error)
			if strings.Contains(name, "Go runtime") {
				platform := fc.New(t)
				for _, pair := range platform.Environ("asks") {
					k, v, _ := strings.Cut(pair, "=")
					w.env[k] = v
				}
				w.start(t)
				if a, err := platform.Invoke(t.Context(), fc.Invocation{Kind: fc.Initializer}); err != nil || a.Failure != nil {
					t.Errorf("initialize: %s, %v", a.Payload, err)
				}
				send = func(ctx context.Context, call []byte) ([]byte, error) {
					if tt.path != "" {
						call = fcTrigger(t, "POST", tt.path, tt.header, string(call), false)
					}
					a, err := platform.Invoke(ctx, fc.Invocation{Payload: call, Key: w.key.AccessKeyID, Secret: w.key.Secret})
					if err != nil || a.Failure != nil {
						return nil, fmt.Errorf("%s: %w", a.Payload, cmp.Or(err, hand.ErrUnsure))
					}
					if tt.path == "" {
						return a.Payload, nil
					}
					var http struct {
						StatusCode int
						Headers    map[string]string
						Body       string
					}
					if err := json.Unmarshal(a.Payload, &http); err != nil || http.StatusCode != 200 || http.Headers["Content-Type"] != media {
						t.Errorf("the trigger answers %s, %v", a.Payload, err)
					}
					return []byte(http.Body), nil
				}
			} else {
				f := w.start(t)
				header := map[string]string{"x-fc-request-id": "r-1"}
				if !tt.own {
					header["x-fc-access-key-id"], header["x-fc-access-key-secret"] = w.key.AccessKeyID, w.key.Secret
				}
				maps.Copy(header, tt.header)
				send = func(_ context.Context, call []byte) ([]byte, error) {
					a, said := post(t, f.url+tt.path, call, header)
					if a.StatusCode != 200 || a.Header.Get("x-fc-status") != "200" {
						t.Errorf("got %d, x-fc-status %s", a.StatusCode, a.Header.Get("x-fc-status"))
					}
					return json.Marshal(said)
				}
			}
			h := w.remote(send)
			look, err := h.Look(t.Context(), hand.LookRequest{About: w.about(), For: hand.Diagnose})
			if err != nil || look.Plan == nil || look.Verdict != remedy.Yes {
				t.Fatalf("the look: %+v, %v", look, err)
			}
			if got := len(w.cloud.CallsOf("function")); got != 1 {
				t.Errorf("%d calls came with the credentials of the function", got)
			}
			steps, err := hand.Steps([]remedy.Step{step.Annotate{Set: map[string]string{vswitch: "vsw-b"}}})
			if err != nil {
				t.Fatal(err)
			}
			o, err := h.Apply(t.Context(), hand.Order{About: w.about(), Step: steps[0]})
			if err != nil || o.State != hand.Done || len(o.Calls) != 1 || o.Service == nil || w.service().Annotations[vswitch] != "vsw-b" {
				t.Errorf("the order: %+v, %v", o, err)
			}
			// On the earlier version, the step is found made, and nothing is written.
			version := w.service().ResourceVersion
			if o, err = h.Apply(t.Context(), hand.Order{About: w.about(), Step: steps[0]}); err != nil || o.State != hand.Found || len(o.Calls) != 0 ||
				w.service().ResourceVersion != version {
				t.Errorf("the order again: %+v, %v", o, err)
			}
			if name != "Go runtime" {
				return // a refusal has another status
			}
			h.Key = newKey(t)
			if _, err := h.Look(t.Context(), hand.LookRequest{About: w.about(), For: hand.Diagnose}); !errors.Is(err, hand.ErrDenied) {
				t.Errorf("with another key: %v", err)
			}
		})
	}
}

type program struct {
	*exec.Cmd
	url   string // empty in the Go runtime
	lines chan string
}

func (p *program) Write(b []byte) (int, error) {
	p.lines <- string(b)
	return len(b), nil
}

func (w *world) program(t *testing.T) *program {
	t.Helper()
	p := &program{Cmd: exec.Command(os.Args[0]), lines: make(chan string, 1000)}
	p.Env = append(os.Environ(), "SERVE_MAIN=1")
	for k, v := range w.env {
		p.Env = append(p.Env, k+"="+v)
	}
	p.Stderr = p
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Process.Kill() }) // it may have ended
	return p
}

func (w *world) start(t *testing.T) *program {
	t.Helper()
	p := w.program(t)
	ended := make(chan error, 1)
	go func() { ended <- p.Wait() }()
	for {
		select {
		case err := <-ended:
			t.Fatalf("it ended: %v: %s", err, <-p.lines)
		case text := <-p.lines:
			var line struct{ Msg, Address string }
			if json.Unmarshal([]byte(text), &line) != nil || line.Msg != "function is ready" {
				continue
			}
			if _, port, err := net.SplitHostPort(line.Address); err == nil {
				p.url = "http://127.0.0.1:" + port
			}
			return p
		}
	}
}

// An incomplete configuration is named. SIGTERM ends a program in good order.
func TestMainEnds(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change map[string]string
		says   []string
	}{
		"no keys":      {map[string]string{"LBREMEDY_ENGINE_KEYS": ""}, []string{"LBREMEDY_ENGINE_KEYS", "lbremedy keys FILE"}},
		"wrong keys":   {map[string]string{"LBREMEDY_ENGINE_KEYS": "secret"}, []string{"LBREMEDY_ENGINE_KEYS", "Ed25519"}},
		"no region":    {map[string]string{"LBREMEDY_REGION": ""}, []string{"LBREMEDY_REGION"}},
		"nothing":      {map[string]string{"LBREMEDY_REGION": "", "LBREMEDY_CLUSTER": "", "LBREMEDY_ENGINE_KEYS": ""}, []string{"REGION", "CLUSTER", "ENGINE_KEYS"}},
		"a wrong port": {map[string]string{"PORT": "99999"}, []string{"listen on :99999"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := build(t)
			maps.Copy(w.env, tt.change)
			p := w.program(t)
			if err := p.Wait(); err == nil {
				t.Error("it ends without an error")
			}
			text := <-p.lines
			for _, want := range tt.says {
				if !strings.Contains(text, want) {
					t.Errorf("it says %s, and not %s", text, want)
				}
			}
		})
	}
	t.Run("SIGTERM", func(t *testing.T) {
		t.Parallel()
		w := build(t)
		p := w.program(t)
		for !strings.Contains(<-p.lines, "function is ready") {
		}
		if err := p.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if err := p.Wait(); err != nil {
			t.Errorf("it ended with %v", err)
		}
	})
}

func TestDrain(t *testing.T) {
	t.Parallel()
	w := build(t)
	begun, end := make(chan struct{}), make(chan struct{})
	d := w.endpoint(t, class(func(ctx context.Context, _ *remedy.Case) (remedy.Plan, error) {
		close(begun)
		<-end
		return remedy.Plan{Finding: say.F("Ask."), Ask: say.F("Ask.")}, ctx.Err()
	}))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- Serve(ctx, l, d.Handler()) }()
	body := w.call(t, same)
	got := make(chan hand.Answer, 1)
	go func() {
		_, said := post(t, "http://"+l.Addr().String(), body, nil)
		got <- said
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
	if said := <-got; said.Problem != nil || said.Answer == nil {
		t.Errorf("the call in hand got %+v", said.Problem)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
	if err := Serve(t.Context(), l, d.Handler()); err == nil {
		t.Error("a closed listener is no error")
	}
}
