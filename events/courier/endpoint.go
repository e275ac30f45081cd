package courier

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/lbremedy/lbremedy/events/courier/invoke"
	"github.com/lbremedy/lbremedy/shared/event"
)

const (
	mostText    = 4 << 10  // of an answer's body that is read; one sentence is what a function says
	mostDiscard = 64 << 10 // that is thrown away so that the connection can be used again
)

// An endpoint is where the messages of one class are posted. Each has connections of its
// own, so that a slow function holds no other's.
type endpoint struct {
	target
	keys invoke.Keys

	mu     sync.Mutex
	roots  []byte       // what target.ca held when the client was made
	client *http.Client // that trusts them
}

func newEndpoint(t target, keys invoke.Keys) (*endpoint, error) {
	d := &endpoint{target: t, keys: keys}
	if err := d.renew(); err != nil {
		return nil, err
	}
	return d, nil
}

// fresh returns a client that trusts the root certificates as they are now, since mounted ones change in place; while they
// can't be read, those that were read last.
func (d *endpoint) fresh() *http.Client {
	d.mu.Lock()
	defer d.mu.Unlock()
	_ = d.renew() // if the last ones are wrong by now, the request says so
	return d.client
}

// renew makes the client, unless there is one that trusts what the file holds. The caller holds the lock.
func (d *endpoint) renew() error {
	var text []byte
	if d.ca != "" {
		var err error
		if text, err = os.ReadFile(d.ca); err != nil {
			return fmt.Errorf("read the root certificates: %w", err)
		}
	}
	if d.client != nil && bytes.Equal(text, d.roots) {
		return nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if d.ca != "" {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return fmt.Errorf("read the root certificates: %s holds none", d.ca)
		}
	}
	if d.client != nil {
		d.client.CloseIdleConnections()
	}
	d.roots, d.client = text, &http.Client{
		Transport: &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			DialContext:            (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
			TLSHandshakeTimeout:    5 * time.Second,
			TLSClientConfig:        config,
			ForceAttemptHTTP2:      true,
			MaxIdleConnsPerHost:    d.workers,
			IdleConnTimeout:        time.Minute,
			MaxResponseHeaderBytes: 64 << 10,
			DisableCompression:     true, // a small answer must not become a large one here
		},
		// What the courier shows of itself is for this address and no other.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return nil
}

func (d *endpoint) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.client.CloseIdleConnections()
}

// An answer is what a function said to a request.
type answer struct {
	status int // of HTTP; 0: there was no answer
	end    end
	header http.Header
	text   string // why, without secrets; empty for a success
	took   time.Duration
}

// post sends an event. It never fails: what went wrong is in the answer.
func (d *endpoint) post(ctx context.Context, body []byte, trace string) answer {
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, d.url, bytes.NewReader(body))
	if err != nil {
		return answer{end: refused, text: "the address can't be used"}
	}
	for name, value := range d.headers {
		r.Header.Set(name, value)
	}
	if host := d.headers["Host"]; host != "" {
		r.Host = host
	}
	r.Header.Set("User-Agent", "lbremedy-courier")
	r.Header.Set("Content-Type", "application/cloudevents+json; charset=utf-8")
	if trace != "" {
		r.Header.Set("Traceparent", trace)
	}
	began := time.Now()
	if err := d.sign(ctx, r, body, d.keys, began); err != nil {
		return answer{end: refused, text: event.Redact(err.Error())}
	}
	resp, err := d.fresh().Do(r)
	if err != nil {
		return answer{end: d.failed(err), text: d.why(ctx, err), took: time.Since(began)}
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, mostText))
	if err == nil {
		_, _ = io.CopyN(io.Discard, resp.Body, mostDiscard)
	}
	a := answer{status: resp.StatusCode, end: judge(resp.StatusCode), header: resp.Header, took: time.Since(began)}
	if d.api || d.auth.FC {
		a.end = platform(a, text)
	}
	if a.end != acked {
		a.text = said(resp.StatusCode, string(text))
	}
	return a
}

// platform judges an answer that came through Function Compute. What it answers itself
// speaks of the route or of its own state, even where it takes the request for a bad one.
// A function behind the API that ends with an error is answered for with 200.
func platform(a answer, text []byte) end {
	if fault, failed := invoke.FaultOf(a.header, text); failed && a.end == acked {
		switch fault.Kind {
		case unhandled:
			return dead
		case misdirected:
			return refused
		}
		return later
	}
	if a.end == dead && a.status != http.StatusRequestEntityTooLarge && invoke.Refused(text) {
		return refused
	}
	return a.end
}

// unhandled is the kind of error with which a function of ours in Function Compute's
// own Go runtime says that it can never handle an event: the name of serve.Dead.
const unhandled = "Dead"

// misdirected is the kind of error with which it says that an event is another cluster's:
// the name of serve.Misdirected.
const misdirected = "Misdirected"

// failed judges a request that got no answer. A name or a certificate that is wrong
// needs a person; all else may pass by itself.
func (d *endpoint) failed(err error) end {
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	if errors.As(err, &unknown) || errors.As(err, &name) || errors.As(err, &invalid) {
		return refused
	}
	return later
}

// why says why there is no answer, without what the URL may hold besides the address.
func (d *endpoint) why(ctx context.Context, err error) string {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Sprintf("no answer came within %s", d.timeout)
	}
	if outer, ok := errors.AsType[*url.Error](err); ok {
		err = outer.Err
	}
	return event.Redact(err.Error())
}

// said is what a function answered, as one line.
func said(status int, text string) string {
	text = strings.Join(strings.Fields(event.Redact(strings.ToValidUTF8(text, "?"))), " ")
	if len(text) > 500 {
		text = strings.ToValidUTF8(text[:500], "") + "…"
	}
	if text == "" {
		text = http.StatusText(status)
	}
	return fmt.Sprintf("the function answers %d: %s", status, text)
}
