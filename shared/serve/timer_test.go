package serve

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// Whatever a timer sends is a call: what Function Compute's trigger, a PingSource and a
// CronJob send is not looked at.
func TestOnTime(t *testing.T) {
	t.Parallel()
	calls, fails := 0, error(nil)
	d := &Endpoint{Tokens: func() ([]string, error) { return []string{"sesame"}, nil }}
	h := d.onTime(func(context.Context) error { calls++; return fails })
	for _, tt := range []struct {
		what, method, path, token, body string
		fails                           error
		status, calls                   int
	}{
		{"a timer trigger", "POST", "/invoke", "sesame", `{"triggerTime":"2026-05-04T12:00:00Z","triggerName":"hourly","payload":""}`, nil, 204, 1},
		{"a CronJob", "POST", "/", "sesame", "", nil, 204, 1},
		{"it fails", "POST", "/", "sesame", "", errors.New("no answer"), 503, 1},
		{"a stranger", "POST", "/", "guess", "", nil, 401, 0},
		{"a look", "GET", "/healthz", "", "", nil, 200, 0},
		{"another path", "POST", "/else", "sesame", "", nil, 404, 0},
	} {
		calls, fails = 0, tt.fails
		r := httptest.NewRequestWithContext(t.Context(), tt.method, tt.path, strings.NewReader(tt.body))
		r.Header.Set("Authorization", "Bearer "+tt.token)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != tt.status || calls != tt.calls {
			t.Errorf("%s: status %d after %d calls; want %d after %d: %s", tt.what, w.Code, calls, tt.status, tt.calls, w.Body)
		}
		if again := w.Header().Get("Retry-After"); (tt.status == http.StatusServiceUnavailable) != (again != "") {
			t.Errorf("%s: Retry-After is %q", tt.what, again)
		}
	}
}

// A panic is an error of one call, a deadline of the platform's is kept, the hook before
// the end waits for what is in hand, and a call that comes after is made again.
func TestOnTimeEnds(t *testing.T) {
	t.Parallel()
	d := &Endpoint{FC: true, Log: slog.New(slog.DiscardHandler)}
	call := func(h http.Handler, method, path string) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(t.Context(), method, path, nil)
		r.Header.Set("x-fc-function-timeout", "60")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	if w := call(d.onTime(func(context.Context) error { panic("no") }), "POST", "/invoke"); w.Code != 503 || !strings.Contains(w.Body.String(), "panicked") {
		t.Errorf("a panic: status %d: %s", w.Code, w.Body)
	}
	began, end := make(chan struct{}), make(chan struct{})
	h := d.onTime(func(ctx context.Context) error {
		if at, ok := ctx.Deadline(); !ok || time.Until(at) > time.Minute {
			t.Errorf("the deadline is %v, %v", at, ok)
		}
		close(began)
		<-end
		return nil
	})
	first, hook := make(chan int), make(chan int)
	go func() { first <- call(h, "POST", "/").Code }()
	<-began
	go func() { hook <- call(h, "GET", "/pre-stop").Code }()
	select {
	case <-hook:
		t.Error("the hook does not wait for the call in hand")
	case end <- struct{}{}:
	}
	if code := <-first; code != 204 {
		t.Errorf("the call in hand: status %d", code)
	}
	<-hook
	d.hands.close(t.Context())
	if w := call(h, "POST", "/"); w.Code != 503 || w.Header().Get("Retry-After") == "" {
		t.Errorf("after the end: status %d", w.Code)
	}
}
