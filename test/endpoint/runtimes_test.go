package endpoint

import (
	"bytes"
	"compress/flate"
	"context"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lbremedy/lbremedy/functions"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/hand"
	"github.com/lbremedy/lbremedy/shared/hand/route"
	"github.com/lbremedy/lbremedy/test/shell"
	"github.com/lbremedy/lbremedy/test/sim"
	"github.com/lbremedy/lbremedy/test/sim/core"
	"github.com/lbremedy/lbremedy/test/sim/fc"
)

// TestGoRuntime runs the program in Function Compute's Go runtime, with the real SDK, and invokes it by the API like the engine.
func TestGoRuntime(t *testing.T) {
	t.Parallel()
	w, platform := build(t), fc.New(t)
	f := w.start(t, platform.Environ(class)...)
	role := fc.Invocation{Key: w.key.AccessKeyID, Secret: w.key.Secret, Token: w.key.Token}
	invoke := func(what string, i fc.Invocation) fc.Answer {
		t.Helper()
		a, err := platform.Invoke(t.Context(), i)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		return a
	}
	for range 2 {
		if a := invoke("initialize", fc.Invocation{Kind: fc.Initializer}); a.Failure != nil {
			t.Errorf("the initializer says %s", a.Payload)
		}
	}
	h := w.hand(remedyOf(t, class), w.gateway(t, platform, &role))
	if err := w.looks(t, h); err != nil {
		t.Error(err)
	}
	if len(w.cloud.CallsOf("function")) == 0 {
		t.Error("no call came with the credentials of the invocation")
	}
	f.logged(t, `"msg":"call answered".*"request":"request-3"`, 1)
	w.orders(t, h)
	role.Header = map[string]string{"x-fc-function-deadline": "", "x-fc-function-timeout": ""}
	if err := w.looks(t, h); err != nil {
		t.Errorf("without a deadline: %v", err)
	}
	role.Header = nil

	for what, payload := range map[string]string{"garbage": "{", "text": "hello", "too much": strings.Repeat(" ", 5<<20) + "."} {
		bad := role
		bad.Payload = []byte(payload)
		var said hand.Answer
		if a := invoke(what, bad); a.Failure != nil || json.Unmarshal(a.Payload, &said) != nil || !errors.Is(said.Problem, hand.ErrInvalid) {
			t.Errorf("%s got %s", what, a.Payload)
		}
	}
	trigger := w.hand(h.Class, func(ctx context.Context, call []byte) ([]byte, error) {
		request, err := json.Marshal(map[string]any{
			"version": "v1", "rawPath": "/", "body": string(call), "headers": map[string]string{"Content-Type": hand.MediaType},
			"requestContext": map[string]any{"http": map[string]string{"method": "POST", "path": "/"}},
		})
		if err != nil {
			return nil, err
		}
		of := role
		of.Payload = request
		a, err := platform.Invoke(ctx, of)
		var answer struct {
			StatusCode int
			Body       string
		}
		if err == nil {
			err = json.Unmarshal(a.Payload, &answer)
		}
		if err == nil && answer.StatusCode != 200 {
			err = fmt.Errorf("status %d", answer.StatusCode)
		}
		return []byte(answer.Body), err
	})
	if err := w.looks(t, trigger); err != nil {
		t.Errorf("by an HTTP trigger: %v", err)
	}

	// The engine gets precise errors for a role without rights and for an engine of another release.
	nobody, own := w.cloud.Client("nobody"), role
	role.Key, role.Secret, role.Token = nobody.AccessKeyID, nobody.Secret, ""
	if err := w.looks(t, h); !errors.Is(err, hand.ErrDenied) {
		t.Errorf("a role without permission got %v", err)
	}
	role = own
	newer := *h.Class
	newer.Creates = !newer.Creates
	if err := w.looks(t, w.hand(&newer, h.Send)); !errors.Is(err, hand.ErrOutdated) {
		t.Errorf("another release got %v", err)
	}

	// An unavailable API is polled with pauses.
	platform.Away(true)
	ended, cancel := context.WithCancel(t.Context())
	time.AfterFunc(1500*time.Millisecond, cancel)
	before := platform.Polls()
	if _, err := platform.Invoke(ended, role); err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if n := platform.Polls() - before; n > 4 {
		t.Errorf("an API that is away was asked %d times in 1.5 s", n)
	}
	platform.Away(false)

	// After SIGTERM the call in progress is finished and answered.
	w.hold(t)
	got := make(chan error, 1)
	go func() { got <- w.looks(t, h) }()
	w.held(t)
	stop(t, f)
	w.gate.open()
	if err := <-got; err != nil {
		t.Errorf("the call in hand: %v", err)
	}
	f.ends(t)
}

func (w *world) gateway(t *testing.T, platform *fc.Runtime, of *fc.Invocation) func(context.Context, []byte) ([]byte, error) {
	t.Helper()
	caller := core.Credentials{AccessKeyID: "engine", Secret: "secret"}
	gateway := httptest.NewServer(&fc.Gateway{Callers: []core.Credentials{caller}, Functions: map[string]func([]byte) (string, string){
		"lbremedy-" + class: func(body []byte) (kind, text string) {
			i := *of
			i.Payload = body
			a, err := platform.Invoke(t.Context(), i)
			switch {
			case err != nil:
				return "Timeout", err.Error()
			case a.Failure != nil:
				return a.Failure.Type, a.Failure.Message
			}
			return "", string(a.Payload)
		},
	}})
	t.Cleanup(gateway.Close)
	file := shell.File(t, "routes.yaml", `
routes:
  `+class+`: {invoke: {function: "lbremedy-{class}", account: "1234567890123456", region: cn-hangzhou, endpoint: "`+gateway.URL+`"}}
`)
	to, err := route.Load(file, "c-1", []string{class}, func(context.Context) (cloud.Key, error) {
		return cloud.Key{ID: caller.AccessKeyID, Secret: caller.Secret}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return to[class].Send
}

func (w *world) hold(t *testing.T) {
	t.Helper()
	w.gate.close()
	w.gate.cut() // open connections are not reused
}

func (w *world) held(t *testing.T) {
	t.Helper()
	select {
	case <-w.gate.arrived:
	case <-time.After(time.Minute):
		t.Fatal("no call to the cloud was made")
	}
}

func TestCustomRuntime(t *testing.T) {
	t.Parallel()
	w := build(t)
	f := w.start(t, "FC_FUNCTION_NAME="+class, "FC_CUSTOM_LISTEN_PORT=0")
	role := map[string]string{"x-fc-request-id": "r-1", "x-fc-function-timeout": "60", "x-fc-control-path": "/invoke", "Content-Type": "application/octet-stream"}
	be := func(key sim.Credentials) {
		role["x-fc-access-key-id"], role["x-fc-access-key-secret"], role["x-fc-security-token"] = key.AccessKeyID, key.Secret, key.Token
	}
	be(w.key)
	for range 2 {
		a, said, err := f.post(t.Context(), http.DefaultClient, "/initialize", nil, role)
		if err != nil || a.StatusCode != 200 || a.Header.Get("x-fc-status") != "200" {
			t.Errorf("initialized: %s, %v", said, err)
		}
	}
	h := w.hand(remedyOf(t, class), f.posts(http.DefaultClient, "/invoke", role))
	if err := w.looks(t, h); err != nil {
		t.Error(err)
	}
	if len(w.cloud.CallsOf("function")) == 0 {
		t.Error("the credentials of the request were not used")
	}
	w.orders(t, h)
	f.logged(t, `"msg":"call answered".*"request":"r-1"`, 2)
	for _, tt := range []struct {
		name   string
		body   string
		status int
	}{
		{"a payload over the limit", strings.Repeat(" ", 5<<20), 413},
		{"garbage", "{", 400},
	} {
		a, said, err := f.post(t.Context(), http.DefaultClient, "/invoke", []byte(tt.body), role)
		if err != nil || a.StatusCode != tt.status || a.Header.Get("x-fc-status") != "200" || !strings.Contains(string(said), hand.ErrInvalid.Error()) {
			t.Errorf("%s: %s, %v", tt.name, said, err)
		}
	}
	f.logged(t, `"msg":"call refused".*"request":"r-1"`, 2)
	be(w.cloud.Client("nobody"))
	if err := w.looks(t, h); !errors.Is(err, hand.ErrDenied) {
		t.Errorf("a role without permission got %v", err)
	}
	be(w.key)

	// The instance is frozen, and its peers close its connections.
	if err := f.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	w.gate.cut()
	if err := f.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if err := w.looks(t, h); err != nil {
		t.Errorf("after it was frozen: %v", err)
	}
	w.inHand(t, f, h)
}

func (w *world) inHand(t *testing.T, f *function, h *hand.Remote) {
	t.Helper()
	w.hold(t)
	got := make(chan error, 1)
	go func() { got <- w.looks(t, h) }()
	w.held(t)
	stop(t, f)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	f.refuses(ctx)
	w.gate.open()
	if err := <-got; err != nil {
		t.Errorf("the call in hand: %v", err)
	}
	f.ends(t)
}

// TestKnative runs the program as a Knative container: its port, HTTP/1 and h2c, and readiness.
func TestKnative(t *testing.T) {
	t.Parallel()
	w := build(t)
	f := w.start(t, append(w.own(), "K_SERVICE="+class, "PORT=0")...)
	h2c := &http.Transport{Protocols: new(http.Protocols)}
	h2c.Protocols.SetUnencryptedHTTP2(true)
	defer h2c.CloseIdleConnections()
	for i, client := range []*http.Client{http.DefaultClient, {Transport: h2c}} {
		a, err := client.Get(f.url + "/health/readiness")
		if err != nil {
			t.Fatal(err)
		}
		a.Body.Close()
		if a.StatusCode != 200 || a.ProtoMajor != i+1 {
			t.Errorf("ready: %d by %s", a.StatusCode, a.Proto)
		}
		h := w.hand(remedyOf(t, class), f.posts(client, "/", nil))
		if err := w.looks(t, h); err != nil {
			t.Errorf("%s: %v", a.Proto, err)
		}
		w.orders(t, h)
	}
	w.inHand(t, f, w.hand(remedyOf(t, class), f.posts(&http.Client{Transport: h2c}, "/", nil)))
}

// TestAnywhere: a function answers only the engine. Without a cluster it is not ready, and reports that to the engine, too.
func TestAnywhere(t *testing.T) {
	t.Parallel()
	w := build(t)
	f := w.start(t, append(w.own(), "PORT=0", away(t))...)
	f.logged(t, `"msg":"function is ready","class":"`+class+`","address":"\[::\]:`, 1)
	if a, err := http.Get(f.url + "/readyz"); err != nil || a.StatusCode != 503 {
		t.Errorf("without a cluster it is ready: %v", err)
	} else {
		a.Body.Close()
	}
	h := w.hand(remedyOf(t, class), f.posts(http.DefaultClient, "/", nil))
	if a, err := w.touches(t, h); !errors.Is(err, hand.ErrUnavailable) || a.State == hand.Done {
		t.Errorf("without a cluster: %+v, %v", a, err)
	}
	stranger := *h
	var err error
	if stranger.Key, err = hand.NewKey(); err != nil {
		t.Fatal(err)
	}
	if err := w.looks(t, &stranger); !errors.Is(err, hand.ErrDenied) {
		t.Errorf("a stranger: %v", err)
	}
	f.logged(t, `"status":401,"error":"the signature of the call is not accepted`, 1)
	stop(t, f)
	f.ends(t)
}

// TestEveryProgram: each class's program answers in both runtimes, with its configuration, endpoint, declaration and clients.
func TestEveryProgram(t *testing.T) {
	t.Parallel()
	w := build(t)
	dir, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	role := fc.Invocation{Key: w.key.AccessKeyID, Secret: w.key.Secret, Token: w.key.Token}
	header := map[string]string{"x-fc-access-key-id": role.Key, "x-fc-access-key-secret": role.Secret, "x-fc-security-token": role.Token}
	for _, r := range functions.All {
		t.Run(r.Class, func(t *testing.T) {
			platform := fc.New(t)
			f := w.startOf(t, r.Class, platform.Environ(r.Class)...)
			if err := w.looks(t, w.hand(r, func(ctx context.Context, call []byte) ([]byte, error) {
				of := role
				of.Payload = call
				a, err := platform.Invoke(ctx, of)
				return a.Payload, err
			})); err != nil {
				t.Errorf("in the Go runtime: %v", err)
			}
			stop(t, f)
			f.ends(t)

			f = w.startOf(t, r.Class, "FC_FUNCTION_NAME="+r.Class, "FC_CUSTOM_LISTEN_PORT=0")
			if err := w.looks(t, w.hand(r, f.posts(http.DefaultClient, "/invoke", header))); err != nil {
				t.Errorf("as a custom runtime: %v", err)
			}
			stop(t, f)
			f.ends(t)
		})
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != len(functions.All) {
		t.Errorf("%d programs for %d classes, %v", len(files), len(functions.All), err)
	}
}

// TestSize: the largest program is small enough to start quickly, stripped and as a ZIP archive.
func TestSize(t *testing.T) {
	t.Parallel()
	dir, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	largest, bytesOf := "", int64(0)
	for _, f := range files {
		built, err := buildinfo.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range built.Deps {
			for _, never := range []string{"github.com/nats-io/", "github.com/prometheus/", "go.opentelemetry.io/"} {
				if strings.HasPrefix(m.Path, never) {
					t.Errorf("%s has %s in it", f.Name(), m.Path)
				}
			}
		}
		if info, err := f.Info(); err != nil {
			t.Fatal(err)
		} else if info.Size() > bytesOf {
			largest, bytesOf = f.Name(), info.Size()
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, largest))
	if err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	z, err := flate.NewWriter(&packed, flate.DefaultCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := z.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%s is the largest program: %d bytes, %d packed", largest, bytesOf, packed.Len())
	if bytesOf > 18_000_000 || packed.Len() > 6_900_000 {
		t.Errorf("%s has %d bytes, %d of them packed: 18.0 and 6.9 million are allowed; go tool nm -size -sort size tells what is large", largest, bytesOf,
			packed.Len())
	}
}

func away(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, []byte(`{"apiVersion":"v1","kind":"Config","clusters":[{"name":"a","cluster":{"server":"https://127.0.0.1:1"}}],`+
		`"contexts":[{"name":"a","context":{"cluster":"a"}}],"current-context":"a"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	return "LBREMEDY_KUBECONFIG=" + file
}
