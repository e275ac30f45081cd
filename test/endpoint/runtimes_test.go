package endpoint

import (
	"bytes"
	"compress/flate"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lbremedy/lbremedy/functions"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/test/sim"
	"github.com/lbremedy/lbremedy/test/sim/fc"
)

// The program under Function Compute's Go runtime, with the real SDK in it.
func TestGoRuntime(t *testing.T) {
	t.Parallel()
	w, platform := build(t), fc.New(t)
	f := w.start(t, platform.Environ(class)...)
	role := func(payload []byte) fc.Invocation {
		return fc.Invocation{Payload: payload, Key: w.key.AccessKeyID, Secret: w.key.Secret, Token: w.key.Token}
	}
	invoke := func(what string, i fc.Invocation) fc.Answer {
		t.Helper()
		a, err := platform.Invoke(t.Context(), i)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		return a
	}
	for range 2 {
		if a := invoke("initialise", fc.Invocation{Kind: fc.Initializer}); a.Failure != nil {
			t.Errorf("the initializer says %s", a.Payload)
		}
	}
	if a := invoke("an event", role(w.event(t, "1"))); a.Failure != nil || !strings.Contains(string(a.Payload), `"result":`) {
		t.Errorf("an event got %s", a.Payload)
	}
	w.isSettled(t, "1")
	if len(w.cloud.CallsOf("function")) == 0 {
		t.Error("no call came with the credentials of the invocation")
	}
	f.logged(t, `"msg":"run ended".*"request":"request-3"`, 1)

	later := role(w.event(t, "2"))
	later.Header = map[string]string{"x-fc-function-deadline": "", "x-fc-function-timeout": ""}
	if a := invoke("without a deadline", later); a.Failure != nil {
		t.Errorf("without a deadline it got %s", a.Payload)
	}
	for what, payload := range map[string]string{"garbage": "{", "text": "hello", "too much": strings.Repeat(" ", 300<<10)} {
		if a := invoke(what, role([]byte(payload))); a.Failure == nil || a.Failure.Type != "Dead" {
			t.Errorf("%s got %s", what, a.Payload)
		}
	}
	request, err := json.Marshal(map[string]any{
		"version": "v1", "rawPath": "/", "body": string(w.event(t, "3")), "headers": map[string]string{"Content-Type": structured},
		"requestContext": map[string]any{"http": map[string]string{"method": "POST", "path": "/"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if a := invoke("an HTTP trigger", role(request)); a.Failure != nil || !strings.Contains(string(a.Payload), `"statusCode":204`) {
		t.Errorf("an HTTP trigger got %s", a.Payload)
	}
	w.isSettled(t, "3")

	// A role that may do nothing: the event comes again.
	nobody := w.cloud.Client("nobody")
	a := invoke("a role without permission", fc.Invocation{Payload: w.event(t, "4"), Key: nobody.AccessKeyID, Secret: nobody.Secret})
	if a.Failure == nil || a.Failure.Type == "Dead" || !strings.Contains(a.Failure.Message, "NoPermission") && !strings.Contains(a.Failure.Message, "Forbidden") {
		t.Errorf("a role without permission got %s", a.Payload)
	}

	// An API that is away is not asked without a pause.
	platform.Away(true)
	ended, cancel := context.WithCancel(t.Context())
	time.AfterFunc(1500*time.Millisecond, cancel)
	before := platform.Polls()
	if _, err := platform.Invoke(ended, role(w.event(t, "5"))); err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if n := platform.Polls() - before; n > 4 {
		t.Errorf("an API that is away was asked %d times in 1.5 s", n)
	}
	platform.Away(false)

	// With SIGTERM in mid-run the event in hand is finished and answered.
	w.hold(t)
	got := make(chan fc.Answer, 1)
	go func() {
		a, err := platform.Invoke(t.Context(), role(w.event(t, "6")))
		if err != nil {
			t.Error(err)
		}
		got <- a
	}()
	w.held(t)
	stop(t, f)
	w.gate.open()
	if a := <-got; a.Failure != nil {
		t.Errorf("the event in hand got %s", a.Payload)
	}
	f.ends(t)
	w.isSettled(t, "6")
}

// hold keeps the next call to the cloud until the gate opens.
func (w *world) hold(t *testing.T) {
	t.Helper()
	w.gate.close()
	w.gate.cut() // what is open already is not used again
}

// held waits until a call is kept.
func (w *world) held(t *testing.T) {
	t.Helper()
	select {
	case <-w.gate.arrived:
	case <-time.After(time.Minute):
		t.Fatal("no call to the cloud was made")
	}
}

// The program as a custom runtime of Function Compute.
func TestCustomRuntime(t *testing.T) {
	t.Parallel()
	w := build(t)
	f := w.start(t, "FC_FUNCTION_NAME="+class, "FC_CUSTOM_LISTEN_PORT=0")
	role := map[string]string{
		"x-fc-request-id": "r-1", "x-fc-function-timeout": "60", "x-fc-control-path": "/invoke",
		"x-fc-access-key-id": w.key.AccessKeyID, "x-fc-access-key-secret": w.key.Secret, "x-fc-security-token": w.key.Token,
	}
	for range 2 {
		if a, said := f.post(t, http.DefaultClient, "/initialize", "", nil, role); a.StatusCode != 200 || a.Header.Get("x-fc-status") != "200" {
			t.Errorf("initialised: %d, %s", a.StatusCode, said)
		}
	}
	a, said := f.post(t, http.DefaultClient, "/invoke", "application/octet-stream", w.event(t, "1"), role)
	if a.StatusCode != 204 || a.Header.Get("x-fc-status") != "200" {
		t.Errorf("an event: %d, x-fc-status %s: %s", a.StatusCode, a.Header.Get("x-fc-status"), said)
	}
	w.isSettled(t, "1")
	if len(w.cloud.CallsOf("function")) == 0 {
		t.Error("the credentials of the request were not used")
	}
	f.logged(t, `"msg":"run ended".*"request":"r-1"`, 1)
	nobody := w.cloud.Client("nobody")
	const line = `"msg":"(event not settled|run failed)".*"request":"r-1"`
	bad := []struct {
		name, media string
		body        []byte
		key         sim.Credentials
		status      int
		says        string
	}{
		{"a payload over the limit", "application/octet-stream", append([]byte(strings.Repeat(" ", 300<<10)), w.event(t, "2")...), w.key, 422, "more than"},
		{"a wrong content type", "text/plain", w.event(t, "2"), w.key, 422, "content type"},
		{"garbage", "application/octet-stream", []byte("{"), w.key, 422, "invalid event"},
		{"a role without permission", "application/octet-stream", w.event(t, "2"), nobody, 503, ""},
	}
	for i, tt := range bad {
		role["x-fc-access-key-id"], role["x-fc-access-key-secret"], role["x-fc-security-token"] = tt.key.AccessKeyID, tt.key.Secret, tt.key.Token
		a, said := f.post(t, http.DefaultClient, "/invoke", tt.media, tt.body, role)
		again := a.Header.Get("Retry-After") != ""
		if a.StatusCode != tt.status || a.Header.Get("x-fc-status") != "404" || again != (tt.status == 503) || tt.status == 422 && !strings.Contains(said, tt.says) {
			t.Errorf("%s: %d, x-fc-status %s: %s", tt.name, a.StatusCode, a.Header.Get("x-fc-status"), said)
		}
		f.logged(t, line, i+1)
	}
	role["x-fc-access-key-id"], role["x-fc-access-key-secret"], role["x-fc-security-token"] = w.key.AccessKeyID, w.key.Secret, w.key.Token

	// The instance is frozen for longer than a connection is trusted, and its peers
	// give it up. What it is frozen for is what is tested: no signal stands for it.
	if err := f.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	w.nats.deaden()
	<-time.After(21 * time.Second)
	if err := f.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if a, said := f.post(t, http.DefaultClient, "/invoke", "application/octet-stream", w.event(t, "3"), role); a.StatusCode != 204 {
		t.Errorf("after it was frozen: %d, %s", a.StatusCode, said)
	}
	w.isSettled(t, "3")
	f.logged(t, `"msg":"run ended".*"event":"[^"]*\.3"`, 1)
	if n := len(regexp.MustCompile(line).FindAllString(f.log(), -1)); n != len(bad) {
		t.Errorf("%d lines in the log for %d refusals", n, len(bad))
	}

	// SIGTERM in mid-run.
	w.inHand(t, f, http.DefaultClient, "/invoke", "4", role)
}

// inHand sends SIGTERM while an event is in hand, which is settled all the same.
func (w *world) inHand(t *testing.T, f *function, client *http.Client, path, version string, header map[string]string) {
	t.Helper()
	w.hold(t)
	got := make(chan int, 1)
	body := w.event(t, version)
	go func() {
		a, said := f.post(t, client, path, structured, body, header)
		if a.StatusCode != 204 {
			t.Errorf("the event in hand: %d, %s", a.StatusCode, said)
		}
		got <- a.StatusCode
	}()
	w.held(t)
	stop(t, f)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	f.refuses(ctx)
	w.gate.open()
	<-got
	f.ends(t)
	w.isSettled(t, version)
}

// The program as a container of Knative: the port that it names, HTTP/1 and h2c, and a
// readiness that says what is missing.
func TestKnative(t *testing.T) {
	t.Parallel()
	w := build(t)
	f := w.start(t, append(w.own(), "K_SERVICE="+class, "PORT=0")...)
	h2c := &http.Transport{Protocols: new(http.Protocols)}
	h2c.Protocols.SetUnencryptedHTTP2(true)
	defer h2c.CloseIdleConnections()
	ready := func(client *http.Client) int {
		t.Helper()
		a, err := client.Get(f.url + "/health/readiness")
		if err != nil {
			t.Fatal(err)
		}
		a.Body.Close()
		return a.StatusCode
	}
	for i, client := range []*http.Client{http.DefaultClient, {Transport: h2c}} {
		version := []string{"1", "2"}[i]
		if status := ready(client); status != 200 {
			t.Errorf("ready: %d", status)
		}
		a, said := f.post(t, client, "/", structured, w.event(t, version), nil)
		if a.StatusCode != 204 || a.ProtoMajor != i+1 {
			t.Errorf("%s: %d, %s", a.Proto, a.StatusCode, said)
		}
		w.isSettled(t, version)
	}
	f.logged(t, "the endpoint asks for no token: whoever reaches the Knative Service may call", 1)

	// NATS is away: not ready, and the event comes again.
	w.nats.close()
	w.nats.deaden()
	if status := ready(http.DefaultClient); status != 503 {
		t.Errorf("without NATS it is ready: %d", status)
	}
	if a, said := f.post(t, http.DefaultClient, "/", structured, w.event(t, "3"), nil); a.StatusCode != 503 || a.Header.Get("Retry-After") == "" {
		t.Errorf("without NATS: %d, %s", a.StatusCode, said)
	}
	w.nats.open()

	f = w.start(t, append(w.own(), "K_SERVICE="+class, "PORT=0")...)
	w.inHand(t, f, &http.Client{Transport: h2c}, "/", "4", nil)
}

// Without a platform before it an endpoint that asks for no token listens to its own machine;
// with a token it refuses strangers; and a cluster that is away brings the event back.
func TestBareEndpoint(t *testing.T) {
	t.Parallel()
	w := build(t)
	f := w.start(t, append(w.own(), "PORT=0", away(t))...)
	f.logged(t, `listens to this machine alone.*"address":"127\.0\.0\.1:`, 1)
	a, said := f.post(t, http.DefaultClient, "/", structured, w.event(t, "1"), nil)
	if a.StatusCode != 503 || a.Header.Get("Retry-After") == "" {
		t.Errorf("without a cluster: %d, %s", a.StatusCode, said)
	}
	stop(t, f)
	f.ends(t)

	f = w.start(t, append(w.own(), "PORT=0", "LBREMEDY_ENDPOINT_TOKEN=sesame")...)
	for token, want := range map[string]int{"": 401, "Bearer other": 401, "Bearer sesame": 204} {
		if a, said := f.post(t, http.DefaultClient, "/", structured, w.event(t, "2"), map[string]string{"Authorization": token}); a.StatusCode != want {
			t.Errorf("%q: %d, %s", token, a.StatusCode, said)
		}
	}
	f.logged(t, `"status":401,"error":"the caller's token is not good here`, 2)
	if strings.Contains(f.log(), "Bearer") || strings.Contains(f.log(), "sesame") {
		t.Error("a token stands in the log")
	}
}

// Each class's program answers under both runtimes, and settles an event on a Service
// that is gone: configuration, endpoint, journal and cluster are in order.
func TestEveryProgram(t *testing.T) {
	t.Parallel()
	w := build(t)
	dir, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	role := fc.Invocation{Key: w.key.AccessKeyID, Secret: w.key.Secret, Token: w.key.Token}
	header := map[string]string{"x-fc-access-key-id": role.Key, "x-fc-access-key-secret": role.Secret, "x-fc-security-token": role.Token}
	for i, r := range functions.All {
		t.Run(r.Class, func(t *testing.T) {
			uid := fmt.Sprintf("00000000-0000-4000-8000-%012d", i)
			settled := func(version string) {
				t.Helper()
				if rec := w.last(t, r.Class, uid); rec.Result != event.Gone || !strings.HasSuffix(rec.Event, "."+version) {
					t.Errorf("version %s: it is settled as %s of %q", version, rec.Result, rec.Event)
				}
			}
			platform := fc.New(t)
			f := w.startOf(t, r.Class, platform.Environ(r.Class)...)
			role.Payload = failure(t, r.Class, "1", w.svc.Namespace, "gone", uid)
			if a, err := platform.Invoke(t.Context(), role); err != nil || a.Failure != nil {
				t.Errorf("under the Go runtime: %s, %v", a.Payload, err)
			}
			settled("1")
			stop(t, f)
			f.ends(t)

			f = w.startOf(t, r.Class, "FC_FUNCTION_NAME="+r.Class, "FC_CUSTOM_LISTEN_PORT=0")
			body := failure(t, r.Class, "2", w.svc.Namespace, "gone", uid)
			if a, said := f.post(t, http.DefaultClient, "/invoke", "application/octet-stream", body, header); a.StatusCode != 204 ||
				a.Header.Get("x-fc-status") != "200" {
				t.Errorf("as a custom runtime: %d, %s", a.StatusCode, said)
			}
			settled("2")
			stop(t, f)
			f.ends(t)
		})
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != len(functions.All) {
		t.Errorf("%d programs for %d classes, %v", len(files), len(functions.All), err)
	}
}

// The largest program is small enough to start quickly, stripped and in its ZIP archive.
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
	if bytesOf > 20_250_000 || packed.Len() > 7_400_000 {
		t.Errorf("%s has %d bytes, %d of them packed: 20.25 and 7.4 million are allowed; go tool nm -size -sort size tells what is large", largest, bytesOf,
			packed.Len())
	}
}

// away returns the environment in which no cluster answers.
func away(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, []byte(`{"apiVersion":"v1","kind":"Config","clusters":[{"name":"a","cluster":{"server":"https://127.0.0.1:1"}}],`+
		`"contexts":[{"name":"a","context":{"cluster":"a"}}],"current-context":"a"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	return "LBREMEDY_KUBECONFIG=" + file
}
