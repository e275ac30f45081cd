package ticket

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/policy"
	"github.com/lbremedy/lbremedy/shared/retry"
)

// An endpoint is a URL that things are posted to, with its secrets by reference: they are
// read for each post, so that a changed one counts at once and none stays in memory.
type endpoint struct {
	sink   policy.Sink
	client *http.Client
	now    func() time.Time
}

const (
	answerIn   = 15 * time.Second // of a post, to the end of the answer
	answerSize = 64 << 10         // as much of an answer is read
	answerSaid = 200              // as much of it stands in an error
	postSize   = 512 << 10
)

func newEndpoint(s policy.Sink, c Config) endpoint {
	if c.Now == nil {
		c.Now = time.Now
	}
	return endpoint{sink: s, now: c.Now, client: &http.Client{
		Timeout: answerIn, Transport: c.wire,
		// A redirect would carry what is signed for one place to another.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

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
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("%w: the address is no URL", ErrRefused)
	}
	r.Header = header
	r.Header.Set("User-Agent", "lbremedy")
	answer, err := d.client.Do(r)
	if err != nil {
		return nil, fmt.Errorf("post to %s: %w", u.Host, bare(err))
	}
	defer answer.Body.Close()
	said, err := io.ReadAll(io.LimitReader(answer.Body, answerSize))
	if answer.StatusCode >= 200 && answer.StatusCode < 300 {
		if err != nil {
			return nil, fmt.Errorf("post to %s: read the answer: %w", u.Host, bare(err))
		}
		return said, nil
	}
	err = fmt.Errorf("post to %s: status %d%s", u.Host, answer.StatusCode, quote(said))
	switch code := answer.StatusCode; {
	case code == http.StatusRequestTimeout, code == http.StatusTooEarly, code == http.StatusTooManyRequests, code >= 500:
		if after, ok := retry.After(answer.Header, d.now(), longestAsked); ok {
			err = &RetryError{After: after, Err: err}
		}
		return nil, err
	}
	return nil, fmt.Errorf("%w: %w", ErrRefused, err)
}

// postJSON is post of a value.
func (d endpoint) postJSON(ctx context.Context, u *url.URL, value any) ([]byte, error) {
	body, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("%w: encode the message: %w", ErrRefused, err)
	}
	return d.post(ctx, u, http.Header{"Content-Type": {"application/json; charset=utf-8"}}, body)
}

// bare returns the error without the URL that Go's client puts before it, which may
// be a secret.
func bare(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}

// quote returns the beginning of an answer for an error.
func quote(said []byte) string {
	text := strings.Join(strings.Fields(strings.ToValidUTF8(string(said), "?")), " ")
	if text == "" {
		return ""
	}
	return fmt.Sprintf(": %q", clip(event.Redact(text), answerSaid))
}
