package console_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/test/operator"
)

func (x *console) tools(token string, code int, change func(*http.Request)) string {
	x.t.Helper()
	return x.do(&http.Client{}, http.MethodPost, "/mcp", code, func(r *http.Request) {
		body := `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		if change != nil {
			change(r)
		}
	})
}

// An agent is admitted only with the key of the address; the key in a header opens no pages.
func TestAgentKey(t *testing.T) {
	c, _ := operator.Embed(t)
	x := start(t, c)
	if got := x.tools(x.key, http.StatusOK, nil); !strings.Contains(got, `"name":"propose"`) {
		t.Errorf("the tools are %s", got)
	}
	for _, token := range []string{"", "x", strings.ToLower(x.key)} {
		if got := x.tools(token, http.StatusUnauthorized, nil); strings.Contains(got, "propose") {
			t.Errorf("%q gets %s", token, got)
		}
	}
	x.tools(x.key, http.StatusMisdirectedRequest, func(r *http.Request) { r.Host = "evil.example:80" })
	x.tools(x.key, http.StatusForbidden, func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") })
	x.tools(x.key, http.StatusRequestEntityTooLarge, func(r *http.Request) {
		large := bytes.Repeat([]byte(" "), 2<<20)
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(large)), int64(len(large))
	})
	x.do(&http.Client{}, http.MethodGet, "/cases", http.StatusUnauthorized, func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+x.key) })
	x.do(&http.Client{}, http.MethodGet, "/mcp", http.StatusMethodNotAllowed, func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+x.key) })
}

// A team's agent sends its person's token, which opens a session under the rules of a login, and a new one when that has ended.
func TestAgentLogin(t *testing.T) {
	sc := operator.NewTestbed(t)
	sc.Embed(t)
	var ahead atomic.Int64
	call := sc.As(t, "console", nil)
	call.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	x := &team{sc, start(t, call, "--login")}
	ann, eve := x.account("ann", looks), x.account("eve")
	for range 2 {
		if got := x.tools(ann, http.StatusOK, nil); !strings.Contains(got, `"name":"propose"`) {
			t.Errorf("ann gets %s", got)
		}
		ahead.Add(int64(2 * time.Hour)) // a login has ended by then
	}
	if got := x.tools(eve, http.StatusForbidden, nil); !strings.Contains(got, "does not allow") || strings.Contains(got, "<html") {
		t.Errorf("eve gets %s", got)
	}
	for _, token := range []string{"", "x", ann + "x", strings.Repeat("a", 20<<10)} {
		if got := x.tools(token, http.StatusUnauthorized, nil); strings.Contains(got, "propose") || strings.Contains(got, "<html") {
			t.Errorf("%.20q gets %s", token, got)
		}
	}
	x.do(&http.Client{}, http.MethodGet, "/questions", http.StatusUnauthorized, func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+ann) })
	x.Kube.As(t, "system:serviceaccount:"+x.Namespace+":ann", nil)
	ahead.Add(int64(time.Minute)) // ann's right to look is checked again
	if got := x.tools(ann, http.StatusForbidden, nil); strings.Contains(got, "propose") {
		t.Errorf("ann still gets %s", got)
	}
}

func TestAgentTerminal(t *testing.T) {
	got := operator.Call{Env: operator.Home(t), Types: true}.Run(t.Context(), "mcp")
	if got.Code != command.CodeWrong || !strings.Contains(got.Err, "have an agent start it") || got.Out != "" {
		t.Errorf("it is %+v", got)
	}
}
