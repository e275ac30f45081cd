package serve

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2"

	"github.com/lbremedy/lbremedy/shared/host"
)

// Who shows no token that is known gets no further, and the file of tokens is read
// anew for each request.
func TestTokens(t *testing.T) {
	file := t.TempDir() + "/tokens"
	put := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("old-one\nnew-one\n")
	env := map[string]string{"LBREMEDY_ENDPOINT_TOKEN": "fixed", "LBREMEDY_ENDPOINT_TOKEN_FILE": file}
	handled := 0
	d := &Endpoint{Tokens: Tokens(func(name string) string { return env[name] }), Handle: func(context.Context, cloudevents.Event) host.Reply {
		handled++
		return host.Reply{}
	}}
	call := func(authorization string, want int) string {
		t.Helper()
		q := httptest.NewRequest("POST", "/", strings.NewReader(marshal(t, failure(someService))))
		q.Header.Set("Content-Type", "application/cloudevents+json")
		if authorization != "" {
			q.Header.Set("Authorization", authorization)
		}
		a := httptest.NewRecorder()
		before := handled
		d.Handler().ServeHTTP(a, q)
		if a.Code != want || (handled > before) != (want == http.StatusNoContent) {
			t.Errorf("%q: status %d (%s), handled %t; want %d", authorization, a.Code, a.Body, handled > before, want)
		}
		if want == http.StatusUnauthorized && a.Header().Get("WWW-Authenticate") != "Bearer" {
			t.Errorf("%q: the answer does not say what is asked for", authorization)
		}
		return a.Body.String()
	}
	for _, good := range []string{"Bearer fixed", "bearer old-one", "Bearer  new-one "} {
		call(good, http.StatusNoContent)
	}
	for _, bad := range []string{"", "fixed", "Basic fixed", "Bearer", "Bearer fixe", "Bearer old-one\nnew-one"} {
		call(bad, http.StatusUnauthorized)
	}
	put("new-one")
	call("Bearer old-one", http.StatusUnauthorized)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	call("Bearer fixed", http.StatusServiceUnavailable)
	env["LBREMEDY_ENDPOINT_TOKEN"] = ""
	d.Tokens = Tokens(func(name string) string { return env[name] })
	put(" \n")
	if said := call("Bearer ", http.StatusServiceUnavailable); !strings.Contains(said, "holds none") {
		t.Errorf("it says %q", said)
	}
	if Tokens(func(string) string { return "" }) != nil {
		t.Error("tokens are asked for that nobody has set")
	}
}

// The limit on sending a request ends with the request: a run takes as long as it takes.
func TestReadDeadline(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var late error
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		read := within(w)
		_, _ = io.ReadAll(r.Body)
		read()
		// A deadline that still stood would end the context as soon as it is over.
		late = http.NewResponseController(w).SetReadDeadline(time.Time{})
		w.WriteHeader(http.StatusNoContent)
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, l, handler) }()
	for range 2 { // the second one on the same connection
		a, err := http.Post("http://"+l.Addr().String(), "text/plain", strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		a.Body.Close()
		if a.StatusCode != http.StatusNoContent || late != nil {
			t.Errorf("status %d, %v", a.StatusCode, late)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
