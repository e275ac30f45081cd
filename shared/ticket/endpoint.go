package ticket

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/lbremedy/lbremedy/shared/chat"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/policy"
)

// An endpoint is a URL that things are posted to, with its secrets by reference: they are
// read for each post, so that a changed one counts at once and none stays in memory.
type endpoint struct {
	sink policy.Sink
	wire http.RoundTripper
	now  func() time.Time
}

const (
	answerIn   = 15 * time.Second // of a server of mail, to the end of the answer
	answerSaid = 200              // as much of an answer is in an error
	postSize   = 512 << 10
)

func newEndpoint(s policy.Sink, c Config) endpoint { return endpoint{s, c.wire, c.Now} }

// address returns the URL to post to.
func (d endpoint) address() (*url.URL, error) {
	text := d.sink.URL
	if text == "" {
		var err error
		if text, err = d.sink.URLFrom.Read(); err != nil {
			return nil, err // the secret may be there the next time
		}
	}
	if err := policy.CheckURL(d.sink.Kind, text); err != nil {
		return nil, fmt.Errorf("%w: what %s holds can't be used: %w", ErrRefused, d.sink.URLFrom, err)
	}
	u, err := url.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%w: the address is no URL", ErrRefused)
	}
	return u, nil
}

// post sends a body and returns the answer of a good status. The errors hold neither
// the address nor a secret; those that trying again soon can't help are ErrRefused.
func (d endpoint) post(ctx context.Context, u *url.URL, header http.Header, body []byte) ([]byte, error) {
	if len(body) > postSize {
		return nil, fmt.Errorf("%w: the body has %d KiB, more than %d", ErrRefused, len(body)>>10, postSize>>10)
	}
	said, err := chat.Post(ctx, d.wire, d.now(), "post to "+u.Host, http.MethodPost, u.String(), header, body)
	if fail, ok := errors.AsType[*chat.Error](err); ok {
		fail.Err = fmt.Errorf("%w%s", fail.Err, quote(fail.Said))
	}
	return said, sinkError(err)
}

// postJSON is post of a value.
func (d endpoint) postJSON(ctx context.Context, u *url.URL, value any) ([]byte, error) {
	body, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("%w: encode the message: %w", ErrRefused, err)
	}
	return d.post(ctx, u, http.Header{"Content-Type": {"application/json; charset=utf-8"}}, body)
}

// quote returns the beginning of an answer for an error.
func quote(said []byte) string {
	text := strings.Join(strings.Fields(strings.ToValidUTF8(string(said), "?")), " ")
	if text == "" {
		return ""
	}
	return fmt.Sprintf(": %q", clip(event.Redact(text), answerSaid))
}
