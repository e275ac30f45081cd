package route

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
	"sync"
	"time"

	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/hand"
)

// idleConnections is how many connections to one function are kept.
const idleConnections = 32

// An Endpoint is where the function of one class takes calls. It has its own connections: a slow function blocks only its class.
type Endpoint struct {
	target
	keys cloud.Credentials

	mu     sync.Mutex
	roots  []byte       // content of the file ca when the client was made
	client *http.Client // trusts these roots
}

// To returns the endpoint at a URL, such as that of a hand under test.
func To(address string) (*Endpoint, error) { return newEndpoint(target{url: address}, nil) }

func newEndpoint(t target, keys cloud.Credentials) (*Endpoint, error) {
	e := &Endpoint{target: t, keys: keys}
	return e, e.renew()
}

// Function returns the name of the function and its region on Alibaba Cloud. Of another platform's function, the name is its host.
func (e *Endpoint) Function() (name, region string) { return e.name, e.region }

// Alibaba reports whether the function is one of Function Compute.
func (e *Endpoint) Alibaba() bool { return e.api || e.sign }

// trusting returns a client that trusts the present root certificates: mounted ones change in place. If they can't be read, it trusts those read last.
func (e *Endpoint) trusting() *http.Client {
	e.mu.Lock()
	defer e.mu.Unlock()
	_ = e.renew() // if the last ones are wrong by now, the request says so
	return e.client
}

// renew makes the client unless it trusts the file's certificates already. The caller holds the lock.
func (e *Endpoint) renew() error {
	var text []byte
	if e.ca != "" {
		var err error
		if text, err = os.ReadFile(e.ca); err != nil {
			return fmt.Errorf("read the root certificates: %w", err)
		}
	}
	if e.client != nil && bytes.Equal(text, e.roots) {
		return nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if e.ca != "" {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return fmt.Errorf("read the root certificates: %s holds none", e.ca)
		}
	}
	if e.client != nil {
		e.client.CloseIdleConnections()
	}
	e.roots, e.client = text, &http.Client{
		Transport: &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			DialContext:            (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
			TLSHandshakeTimeout:    5 * time.Second,
			TLSClientConfig:        config,
			ForceAttemptHTTP2:      true,
			MaxIdleConnsPerHost:    idleConnections,
			IdleConnTimeout:        time.Minute,
			MaxResponseHeaderBytes: 64 << 10,
			DisableCompression:     true, // a small answer must not become a large one here
		},
		// A redirect leads to an address that nobody has chosen.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return nil
}

// Send posts a call, as hand.Remote requires, and returns the answer's body. hand.ErrUnavailable: not sent; hand.ErrUnsure: it may have arrived.
func (e *Endpoint) Send(ctx context.Context, call []byte) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url, bytes.NewReader(call))
	if err != nil {
		return nil, fmt.Errorf("the address of the function can't be used: %w", hand.ErrUnavailable)
	}
	r.GetBody = nil // otherwise net/http would repeat a call when a connection ends
	for name, value := range e.headers {
		r.Header.Set(name, value)
	}
	if host := e.headers["Host"]; host != "" {
		r.Host = host
	}
	r.Header.Set("User-Agent", "lbremedy")
	r.Header.Set("Content-Type", hand.MediaType)
	if err := e.signRequest(ctx, r, call); err != nil {
		return nil, fmt.Errorf("sign the request: %s: %w", event.Redact(err.Error()), hand.ErrUnavailable)
	}
	resp, err := e.trusting().Do(r)
	if err != nil {
		kind := hand.ErrUnsure
		if dial, ok := errors.AsType[*net.OpError](err); ok && dial.Op == "dial" || refusedByTLS(err) {
			kind = hand.ErrUnavailable
		}
		return nil, fmt.Errorf("call the function: %s: %w", why(ctx, err), kind)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, hand.MaxAnswer+1))
	if err != nil {
		return nil, fmt.Errorf("read the answer of the function: %s: %w", why(ctx, err), hand.ErrUnsure)
	}
	if text, ok := faultOf(resp.Header, body); ok {
		return nil, fmt.Errorf("the function ended with an error: %s: %w", line(text), hand.ErrUnsure)
	}
	if json := bytes.HasPrefix(bytes.TrimSpace(body), []byte("{")); !json || refused(body) {
		return nil, fmt.Errorf("%s answers %d: %s: %w", r.URL.Host, resp.StatusCode, line(string(body)), answered(resp.StatusCode, body))
	}
	return body, nil
}

// answered returns the kind of an answer that is not the function's: whether it shows that the request has not reached the function.
func answered(status int, body []byte) error {
	const clientClosed = 499 // of nginx: the client has gone, and the request may go on
	if status < 300 && !refused(body) || status >= 500 || status == http.StatusRequestTimeout || status == clientClosed {
		return hand.ErrUnsure
	}
	return hand.ErrUnavailable
}

func (e *Endpoint) signRequest(ctx context.Context, r *http.Request, body []byte) error {
	if !e.api && !e.sign {
		return nil
	}
	k, err := e.keys(ctx)
	if err != nil {
		return err
	}
	if e.api {
		signAPI(r, body, k, time.Now())
	} else {
		signTrigger(r, k, time.Now())
	}
	return nil
}

func refusedByTLS(err error) bool {
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	return errors.As(err, &unknown) || errors.As(err, &name) || errors.As(err, &invalid)
}

func why(ctx context.Context, err error) string {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return "no answer came in time"
	}
	if outer, ok := errors.AsType[*url.Error](err); ok {
		err = outer.Err
	}
	return event.Redact(err.Error())
}

func line(text string) string { return event.Line(text[:min(len(text), 4<<10)], 500) }
