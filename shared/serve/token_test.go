package serve

import (
	"context"
	"fmt"
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

// Who doesn't send what it says is answered, admitted or not, and holds no connection for longer.
func TestNoBody(t *testing.T) {
	t.Parallel()
	d := &Endpoint{
		Tokens: func() ([]string, error) { return []string{"sesame"}, nil },
		Handle: func(context.Context, cloudevents.Event) host.Reply {
			t.Error("half a request is handled")
			return host.Reply{}
		},
	}
	h := d.Handler()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: Timed(h, 100*time.Millisecond)}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	for _, tt := range []struct {
		path, token string
		status      int
	}{
		{"/", "guess", 401}, {"/", "sesame", 503}, {"/invoke", "", 401}, {"/initialize", "", 200}, {"/else", "", 404},
	} {
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
			t.Fatal(err)
		}
		_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: 10\r\n\r\n", tt.path, tt.token)
		if err != nil {
			t.Fatal(err)
		}
		all, err := io.ReadAll(conn) // to the end of the connection
		if err != nil || !strings.HasPrefix(string(all), fmt.Sprintf("HTTP/1.1 %d ", tt.status)) {
			t.Errorf("%s with the token %q: got %q, %v; want status %d and the end", tt.path, tt.token, all, err, tt.status)
		}
		conn.Close()
	}
}

// The limit on sending a request ends with the request: a run takes as long as it takes.
func TestReadDeadline(t *testing.T) {
	t.Parallel()
	const limit = 100 * time.Millisecond
	server := httptest.NewServer(Timed(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		select { // a deadline that still stood would end the context as soon as it is over
		case <-r.Context().Done():
			w.WriteHeader(http.StatusGatewayTimeout)
		case <-time.After(3 * limit):
			w.WriteHeader(http.StatusNoContent)
		}
	}), limit))
	defer server.Close()
	for _, body := range []string{"x", "", "x"} { // on the same connection
		a, err := http.Post(server.URL, "text/plain", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		a.Body.Close()
		if a.StatusCode != http.StatusNoContent {
			t.Errorf("status %d after the body %q", a.StatusCode, body)
		}
	}
}
