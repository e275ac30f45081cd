// Package chat simulates the platforms of chats at the wire, for tests: their calls and connections as they
// are published, with what real ones do besides. They ask for a new connection, cut one, ask whether it lives,
// deliver a click twice, and pass on whatever a client of theirs sends. A call that is not as published is
// refused as they refuse it.
//
// Sources: for DingTalk https://open.dingtalk.com/document/orgapp/stream,
// https://open.dingtalk.com/document/orgapp/create-and-deliver-cards,
// https://open.dingtalk.com/document/orgapp/interactive-card-update-interface and, for the frames,
// https://github.com/open-dingtalk/dingtalk-stream-sdk-go v0.9.1 with its card callback. For Feishu
// https://open.feishu.cn/document/server-docs/im-v1/message/create,
// https://open.feishu.cn/document/server-docs/im-v1/message-card/patch,
// https://open.feishu.cn/document/feishu-cards/card-callback-communication and, for the frames,
// https://github.com/larksuite/oapi-sdk-go (ws).
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

// A Group is a group of a chat with an app in it, whichever platform it is at.
type Group interface {
	// URL returns where the platform is.
	URL() string
	// Connected waits until the app has opened another connection.
	Connected()
	// Disconnect has the platform end the connection, and waits for another one.
	Disconnect()
	// Cut breaks all connections.
	Cut()
	// On returns the click of a user on a button of a message as it is now, counted from 0.
	On(message int, user, button string) Click
	// Click delivers a click, and shows what the app answers.
	Click(Click)
	// Count returns how many messages the group has.
	Count() int
	// Said returns what a message says of clicks.
	Said(message int) string
	// Say puts a line into the transcript.
	Say(format string, args ...any)
	// Transcript returns what the group saw and did until now.
	Transcript() string
}

// A Click is what a client sends of a click. Another client than the platform's own may send anything.
type Click struct {
	ID     string // of the delivery; empty: a new one
	User   string
	Card   string
	Button string
	Value  string
}

// A platform is what they have in common: calls that can fail, tokens, and connections.
type platform struct {
	testing.TB
	server *httptest.Server
	mu     sync.Mutex
	tokens map[string]bool // that are taken
	ticket map[string]bool // of connections that may be opened
	count  int             // of what is numbered
	opened chan struct{}   // gets one for each connection
	fail   []fault
	transcript
}

// A fault is how one of the next calls ends instead.
type fault struct {
	path   string
	status int
	body   string
}

// serve answers calls until the test ends.
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

// URL returns where its API is.
func (p *platform) URL() string { return p.server.URL }

// Fail lets the next call of a path end with this status and body.
func (p *platform) Fail(path string, status int, body string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fail = append(p.fail, fault{path, status, body})
}

// Expire makes all tokens worthless, as time does.
func (p *platform) Expire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.tokens)
}

// Connected waits until the app has opened another connection.
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

// number returns the ID of a delivery.
func (p *platform) number() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count++
	return fmt.Sprintf("delivery-%d", p.count)
}

// A transcript is what a group saw and did.
type transcript struct {
	text sync.Mutex
	log  strings.Builder
}

// Say puts a line into the transcript.
func (t *transcript) Say(format string, args ...any) {
	t.text.Lock()
	defer t.text.Unlock()
	fmt.Fprintf(&t.log, format+"\n", args...)
}

// Transcript returns what the group saw and did until now.
func (t *transcript) Transcript() string {
	t.text.Lock()
	defer t.text.Unlock()
	return t.log.String()
}

// shown puts a message into the transcript.
func (t *transcript) shown(n int, doing, title, text string, said, buttons []string) {
	t.Say("\n--- message %d %s ---\n%s\n\n%s", n+1, doing, title, text)
	if len(said) > 0 {
		t.Say("\n> %s", strings.Join(said, "\n> "))
	}
	if len(buttons) > 0 {
		t.Say("\n[%s]", strings.Join(buttons, "] ["))
	}
}
