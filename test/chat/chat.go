// Package chat simulates chat platforms on the wire: their published calls and connections, and how real ones behave. They request a new
// connection, cut one, check whether it lives, deliver a click twice, and pass on anything that a client sends. They reject a call that
// differs from the published form with their own errors.
//
// Sources: for DingTalk https://open.dingtalk.com/document/orgapp/stream,
// https://open.dingtalk.com/document/orgapp/create-and-deliver-cards,
// https://open.dingtalk.com/document/orgapp/interactive-card-update-interface and, for the frames,
// https://github.com/open-dingtalk/dingtalk-stream-sdk-go v0.9.1 with its card callback. For Feishu
// https://open.feishu.cn/document/server-docs/im-v1/message/create, https://open.feishu.cn/document/server-docs/im-v1/message-card/patch,
// https://open.feishu.cn/document/feishu-cards/card-callback-communication and, for the frames, https://github.com/larksuite/oapi-sdk-go
// (ws).
package chat

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// A Group is a group chat with an app, on any platform.
type Group interface {
	URL() string
	Connected()
	Disconnect()
	Cut()
	// On returns a user's click on a button of the current message, counted from 0.
	On(message int, user, button string) Click
	Click(Click)
	Count() int
	Said(message int) string
	Say(format string, args ...any)
	Transcript() string
}

// A Click is a client's message about a click. Other clients than the platform's own may send anything.
type Click struct {
	ID     string // of the delivery; empty: a new one
	User   string
	Card   string
	Button string
	Value  string
}

// A platform is the common part: calls that can fail, tokens, and connections.
type platform struct {
	testing.TB
	server *httptest.Server
	mu     sync.Mutex
	tokens map[string]bool // valid tokens
	ticket map[string]bool // connections that may be opened
	count  int             // last assigned number
	opened chan struct{}   // receives for each connection
	fail   []fault
	transcript
}

type fault struct {
	path   string
	status int
	body   string
}

func (p *platform) serve(t testing.TB, calls http.Handler, cut func()) {
	p.TB, p.tokens, p.ticket, p.opened = t, map[string]bool{}, map[string]bool{}, make(chan struct{}, 100)
	p.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		i := slices.IndexFunc(p.fail, func(f fault) bool { return strings.HasPrefix(r.URL.Path, f.path) })
		var f fault
		if i >= 0 {
			f = p.fail[i]
			p.fail = slices.Delete(p.fail, i, i+1)
		}
		p.mu.Unlock()
		if i >= 0 {
			w.WriteHeader(f.status)
			_, _ = io.WriteString(w, f.body)
			return
		}
		calls.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		cut()
		p.server.Close()
	})
}

func (p *platform) URL() string { return p.server.URL }

// Fail makes the next call of a path end with this status and body.
func (p *platform) Fail(path string, status int, body string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fail = append(p.fail, fault{path, status, body})
}

// Expire invalidates all tokens.
func (p *platform) Expire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.tokens)
}

func (p *platform) Connected() {
	p.Helper()
	p.await(p.opened, "connect")
}

func (p *platform) await(c chan struct{}, what string) {
	p.Helper()
	select {
	case <-c:
	case <-time.After(time.Minute):
		p.Fatalf("the app does not %s", what)
	}
}

func (p *platform) number() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count++
	return fmt.Sprintf("delivery-%d", p.count)
}

type transcript struct {
	text sync.Mutex
	log  strings.Builder
}

func (t *transcript) Say(format string, args ...any) {
	t.text.Lock()
	defer t.text.Unlock()
	fmt.Fprintf(&t.log, format+"\n", args...)
}

func (t *transcript) Transcript() string {
	t.text.Lock()
	defer t.text.Unlock()
	return t.log.String()
}

func (t *transcript) shown(n int, doing, title, text string, said, buttons []string) {
	t.Say("\n--- message %d %s ---\n%s\n\n%s", n+1, doing, title, text)
	if len(said) > 0 {
		t.Say("\n> %s", strings.Join(said, "\n> "))
	}
	if len(buttons) > 0 {
		t.Say("\n[%s]", strings.Join(buttons, "] ["))
	}
}
