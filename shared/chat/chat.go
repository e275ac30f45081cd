// Package chat sends cards with buttons to groups of a chat, and hears who clicks them. It knows
// nothing of what the cards are about.
//
// An [App] is an app of the organization at a platform. It opens a connection to the platform, on
// which clicks come back: no public address is needed. What comes in is what a client of the platform
// sent. The platform proves who clicked, and nothing else: the rest may be forged.
//
// # Why not the platforms' own SDK
//
// The SDK of DingTalk (dingtalk-stream-sdk-go v0.9.1) logs the secret of the app with its debug level and
// the ticket of each connection at all levels, to one logger for the whole process, and hides from its caller
// when it is connected. That of Feishu (oapi-sdk-go v3.12.0) brings the calls of all its products, and
// github.com/gogo/protobuf, which nobody keeps any more. What is used of both is small: a call for the
// address, frames of JSON or of protocol buffers, and three calls for cards. The websocket is that of
// github.com/gorilla/websocket, which client-go brings anyway.
package chat

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/retry"
)

// A Card is what one message of a chat shows. It can be changed afterwards.
type Card struct {
	Title   string
	Text    string   // Markdown
	Said    []string // what became of the clicks, one line each
	Value   string   // what a click on this card brings back with it
	Buttons []Button
	Labels  map[Button]string // what the buttons say
	Over    bool              // what it is about has ended
}

// A Button is one that a card has.
type Button string

// The buttons.
const (
	Approve Button = "approve"
	Reject  Button = "reject"
	Mute    Button = "mute"
)

// A Click is what somebody has clicked, as the platform says. The platform may say it twice.
type Click struct {
	ID     string // that the platform gave it
	User   string // who clicked, as the platform knows them
	Card   string // ID of the card
	Button Button
	Value  string // of the card, as the one who clicked had it before them
}

// A Reply is what one who has clicked gets to see.
type Reply struct {
	Card *Card  // in place of what it was; nil: it stays as it is
	Text string // one line for the one who clicked, where the platform shows such
}

// An App is an app of a chat, with the group that its cards go to.
type App interface {
	// Send sends a card to the group and returns the ID under which it is known. The key stays the same
	// for a try that is made again.
	Send(ctx context.Context, key string, c Card) (id string, err error)
	// Change shows something else in the place of a card.
	Change(ctx context.Context, id string, c Card) error
	// Hear calls take with each click until ctx ends, many at once. Where it is not connected, it connects
	// again.
	Hear(ctx context.Context, take func(context.Context, Click) Reply)
}

// A Config is what an app needs.
type Config struct {
	URL    string                 // of the platform; empty: the public one
	App    string                 // ID of the app
	Secret func() (string, error) // of the app; it is read for each connection and token
	Group  string                 // that the cards go to
	Card   string                 // template of the cards, for DingTalk
	Now    func() time.Time
	Log    *slog.Logger
	Wire   http.RoundTripper // what leads there; nil: the net
}

// An Error is why a platform did not do what it was asked for. It holds no secret.
type Error struct {
	Doing   string
	Code    string        // the platform's word; empty: it gave none
	Refused bool          // to ask again won't help
	After   time.Duration // when to ask again, if it says so
	Said    []byte        // the answer of a status that is not good
	Err     error
}

// Error says what was being done and why it failed.
func (e *Error) Error() string { return e.Doing + ": " + e.Err.Error() }

// Unwrap returns why.
func (e *Error) Unwrap() error { return e.Err }

const (
	answerIn    = 10 * time.Second // of one call
	answerSize  = 256 << 10
	longestWait = time.Hour // that a platform may ask for
)

// Post sends a body and returns the answer of a good status. Its error is an [Error] that holds neither the address nor a
// secret. It posts to the given address alone: a redirect would carry what is signed for one place to another.
func Post(ctx context.Context, wire http.RoundTripper, now time.Time, doing, method, address string, header http.Header,
	body []byte) ([]byte, error) {
	fail := &Error{Doing: doing}
	r, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		fail.Err, fail.Refused = errors.New("the address is no URL"), true
		return nil, fail
	}
	maps.Copy(r.Header, header)
	r.Header.Set("User-Agent", "lbremedy")
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	client := &http.Client{Timeout: answerIn, Transport: wire, CheckRedirect: stay}
	answer, err := client.Do(r)
	if err != nil {
		fail.Err = bare(err)
		return nil, fail
	}
	defer answer.Body.Close()
	said, err := io.ReadAll(io.LimitReader(answer.Body, answerSize))
	if err != nil {
		fail.Err = fmt.Errorf("read the answer: %w", bare(err))
		return nil, fail
	}
	code := answer.StatusCode
	if code/100 == 2 {
		return said, nil
	}
	fail.Err, fail.Said = fmt.Errorf("status %d", code), said
	fail.Refused = code < 500 && code != http.StatusRequestTimeout && code != http.StatusTooEarly && code != http.StatusTooManyRequests
	fail.After, _ = retry.After(answer.Header, now, longestWait)
	return nil, fail
}

// call sends a value as JSON and reads the answer of a good status into another one; failed reads what an
// answer of another status says.
func (c Config) call(ctx context.Context, doing, method, address string, header http.Header, body, into any, failed func([]byte, *Error)) error {
	data, err := json.Marshal(body)
	if err != nil {
		return &Error{Doing: doing, Refused: true, Err: err}
	}
	header = header.Clone()
	if header == nil {
		header = http.Header{}
	}
	header.Set("Content-Type", "application/json; charset=utf-8")
	said, err := Post(ctx, c.Wire, c.Now(), doing, method, address, header, data)
	if fail, ok := errors.AsType[*Error](err); ok {
		failed(fail.Said, fail)
		return fail
	}
	if err := json.Unmarshal(said, into); err != nil {
		return &Error{Doing: doing, Err: errors.New("the answer is not JSON")}
	}
	return nil
}

// bare returns the error without the URL that Go's client puts before it, which may hold a ticket.
func bare(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}

// quote returns what a platform says for an error.
func quote(text string) string { return fmt.Sprintf("%q", event.Line(text, 200)) }

// A token is the one that calls are made with, until it expires.
type token struct {
	mu    sync.Mutex
	value string
	until time.Time
}

type login func() (value string, lasts time.Duration, err error)

// early is how long before it expires a token is not used any more.
const early = 5 * time.Minute

// get returns the token, by fetch a new one if none exists.
func (t *token) get(now time.Time, fetch login) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.value != "" && now.Before(t.until) {
		return t.value, nil
	}
	value, lasts, err := fetch()
	if err != nil {
		return "", err
	}
	t.value, t.until = value, now.Add(lasts-early)
	return value, nil
}

// use makes a call with the token. One that the platform doesn't take, as the code of the error says, is replaced once.
func (t *token) use(now time.Time, fetch login, call func(value string) error, stale func(code string) bool) error {
	for try := 0; ; try++ {
		value, err := t.get(now, fetch)
		if err != nil {
			return err
		}
		err = call(value)
		if fail, ok := errors.AsType[*Error](err); !ok || try > 0 || !stale(fail.Code) {
			return err
		}
		t.drop(value)
	}
}

// drop forgets a token that the platform doesn't take.
func (t *token) drop(value string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.value == value {
		t.value = ""
	}
}
