// Package chat sends cards with buttons to chat groups and receives the clicks. It knows nothing about the subject of the cards.
//
// An [App] is an organization's app on a platform. It receives clicks on a connection that it opens, so it needs no public address. The
// platform guarantees only who clicked; everything else may be forged. Begin with [App] and [Config].
//
// The platforms' SDKs are not used. DingTalk's (dingtalk-stream-sdk-go v0.9.1) logs the app's secret at debug level and each connection's
// ticket at all levels, and doesn't report when it is connected. Feishu's (oapi-sdk-go v3.12.0) contains the calls of all products, and the
// unmaintained github.com/gogo/protobuf. Both APIs need little: a call for the address, frames of JSON or protocol buffers, and three calls
// for cards. client-go depends on github.com/gorilla/websocket anyway.
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

// A Card is the content of a chat message that can be changed later.
type Card struct {
	Title   string
	Text    string   // Markdown
	Said    []string // results of clicks, one line each
	Value   string   // returned with each click on this card
	Buttons []Button
	Labels  map[Button]string // labels of the buttons
	Over    bool              // its subject has ended
}

// A Button is a button of a card.
type Button string

// The buttons of cards.
const (
	Approve Button = "approve"
	Reject  Button = "reject"
	Mute    Button = "mute"
)

// A Click is a click as reported by the platform, which may report it twice.
type Click struct {
	ID     string // assigned by the platform
	User   string // the platform's ID of the person
	Card   string // ID of the card
	Button Button
	Value  string // of the card when it was clicked
}

// A Reply is the response to a click.
type Reply struct {
	Card *Card  // replaces the card; nil: it stays as it is
	Text string // one line for the person, if the platform shows one
}

// An App is a chat app and the group that it sends cards to.
type App interface {
	// Send sends a card to the group and returns its ID. Retries use the same key.
	Send(ctx context.Context, key string, c Card) (id string, err error)
	// Change replaces the content of a card.
	Change(ctx context.Context, id string, c Card) error
	// Hear calls take for each click until ctx ends, concurrently. It reconnects when necessary.
	Hear(ctx context.Context, take func(context.Context, Click) Reply)
}

// A Config configures an app.
type Config struct {
	URL    string                 // of the platform; empty: the public one
	App    string                 // ID of the app
	Secret func() (string, error) // of the app; read for each connection and token
	Group  string                 // that receives the cards
	Card   string                 // template of the cards, for DingTalk
	Now    func() time.Time
	Log    *slog.Logger
	Wire   http.RoundTripper // transport to the platform; nil: the network
}

// An Error is a platform's refusal or failure. It contains no secret.
type Error struct {
	Doing   string
	Code    string        // the platform's error code; may be empty
	Refused bool          // a retry won't help
	After   time.Duration // when to retry, if the platform says so
	Said    []byte        // body of an answer with an error status
	Err     error
}

// Error returns what was attempted and why it failed.
func (e *Error) Error() string { return e.Doing + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

const (
	answerIn    = 10 * time.Second // timeout of one call
	answerSize  = 256 << 10
	longestWait = time.Hour // longest delay that a platform may ask for
)

// Post sends a body and returns a good answer. Its [Error] has no address or secret. It follows no redirects, which would carry a signature along.
func Post(ctx context.Context, wire http.RoundTripper, now time.Time, doing, method, address string, header http.Header,
	body []byte) ([]byte, error) {
	fail := &Error{Doing: doing}
	r, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		fail.Err, fail.Refused = errors.New("the address is not a URL"), true
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

// call sends a value as JSON and decodes a good answer; failed decodes an answer with an error status.
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

// bare removes the URL that Go's client puts before an error, because it may contain a ticket.
func bare(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}

func quote(text string) string { return fmt.Sprintf("%q", event.Line(text, 200)) }

type token struct {
	mu    sync.Mutex
	value string
	until time.Time
}

type login func() (value string, lasts time.Duration, err error)

const early = 5 * time.Minute

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

// use makes a call with the token, which it replaces once if the error's code says that it is invalid.
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

func (t *token) drop(value string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.value == value {
		t.value = ""
	}
}
