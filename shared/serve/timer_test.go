package serve

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// Whatever a timer sends is a call: what Function Compute's trigger, a PingSource and a
// CronJob send is not looked at.
func TestOnTime(t *testing.T) {
	t.Parallel()
	calls, fails := 0, error(nil)
	d := &Door{Tokens: func() ([]string, error) { return []string{"sesame"}, nil }}
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
