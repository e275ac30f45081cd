package ticket

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/lbremedy/lbremedy/shared/chat"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/policy"
)

// An endpoint is a URL to post JSON to. Its secrets are read for each post, so a changed one applies at once and none stays in memory.
type endpoint struct {
	sink    policy.Sink
	cluster string
	wire    http.RoundTripper
	now     func() time.Time
}

const postSize = 512 << 10

func newEndpoint(s policy.Sink, c Config) endpoint { return endpoint{s, c.Cluster, c.wire, c.Now} }

// read returns the address, and the secret if the sink has one. An error may be over at the next try, once the variable or file exists.
func (d endpoint) read() (u *url.URL, secret string, err error) {
	text := d.sink.URL
	if text == "" {
		if text, err = d.sink.URLFrom.Read(); err != nil {
			return nil, "", err
		}
	}
	if err := d.sink.CheckURL(text); err != nil {
		return nil, "", fmt.Errorf("%w: the value of %s can't be used: %w", ErrRefused, d.sink.URLFrom, err)
	}
	u, _ = url.Parse(text) // CheckURL has done so
	if d.sink.SecretFrom != (policy.Reference{}) {
		secret, err = d.sink.SecretFrom.Read()
	}
	return u, secret, err
}

// post sends JSON. Its errors contain neither address nor secret, even if an answer repeats it, and are ErrRefused if a prompt retry can't help.
func (d endpoint) post(ctx context.Context, u *url.URL, header http.Header, body []byte, secret string) error {
	if len(body) > postSize {
		return fmt.Errorf("%w: the body has %d KiB, more than %d", ErrRefused, len(body)>>10, postSize>>10)
	}
	_, err := chat.Post(ctx, d.wire, d.now(), "post to "+u.Host, http.MethodPost, u.String(), header, body)
	if fail, ok := errors.AsType[*chat.Error](err); ok && secret != "" {
		fail.Said = bytes.ReplaceAll(fail.Said, []byte(secret), []byte("***"))
	}
	return posted(err)
}

// postJSON posts a value as JSON, as post does.
func (d endpoint) postJSON(ctx context.Context, u *url.URL, header http.Header, value any, secret string) error {
	body, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("%w: encode the message: %w", ErrRefused, err)
	}
	header.Set("Content-Type", "application/json")
	return d.post(ctx, u, header, body, secret)
}

type robot struct {
	endpoint
	chat.Robot
}

func (r *robot) Send(ctx context.Context, t Ticket) (string, error) {
	u, secret, err := r.read()
	if err != nil {
		return "", err
	}
	return "", posted(r.Robot.Send(ctx, r.wire, r.now(), u, secret, t.Title, t.Text))
}

func posted(err error) error {
	if fail, ok := errors.AsType[*chat.Error](err); ok {
		fail.Err = fmt.Errorf("%w%s", fail.Err, event.Quote(fail.Said))
	}
	return sinkError(err)
}
