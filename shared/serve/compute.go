package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aliyun/fc-runtime-go-sdk/fc"
	"github.com/aliyun/fc-runtime-go-sdk/fccontext"

	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/hand"
)

// margin leaves time for the answer before Function Compute ends an invocation.
const margin = 2 * time.Second

// context takes the credentials of the function's role, the ID and the deadline from the headers under Function Compute.
func (d *Endpoint) context(r *http.Request) (context.Context, context.CancelFunc) {
	ctx, h := r.Context(), r.Header
	if !d.FC {
		return ctx, func() {}
	}
	if id := h.Get("x-fc-access-key-id"); id != "" {
		ctx = context.WithValue(ctx, keyOf{}, cloud.Key{ID: id, Secret: h.Get("x-fc-access-key-secret"), Token: h.Get("x-fc-security-token")})
	}
	if id := h.Get("x-fc-request-id"); id != "" {
		ctx = context.WithValue(ctx, requestOf{}, id)
	}
	var end time.Time
	if s, err := strconv.ParseInt(h.Get("x-fc-function-timeout"), 10, 32); err == nil && s > 0 {
		end = time.Now().Add(time.Duration(s) * time.Second)
	}
	if ms, err := strconv.ParseInt(h.Get("x-fc-function-deadline"), 10, 64); err == nil && ms > 0 {
		if at := time.UnixMilli(ms); end.IsZero() || at.Before(end) {
			end = at
		}
	}
	if end.IsZero() {
		return ctx, func() {}
	}
	return context.WithDeadline(ctx, end.Add(-min(margin, time.Until(end)/4)))
}

// Invoke answers one invocation of Function Compute's Go runtime. An HTTP trigger's invocation is a request, and the answer contains
// the status; any other is a call. Invoke returns no error: the platform would replace the hand's answer by it.
func (d *Endpoint) Invoke(ctx context.Context, payload []byte) (json.RawMessage, error) {
	r, err := trigger(payload)
	if err != nil {
		status, text := refusal(http.StatusBadRequest, hand.ErrInvalid, err.Error())
		d.log(ctx, status, text)
		return text, nil
	}
	if r == nil {
		return d.invoked(ctx, request(http.MethodPost, "/invoke", payload)).body.Bytes(), nil
	}
	a := d.invoked(ctx, r)
	headers := map[string]string{}
	for name := range a.header {
		headers[name] = a.header.Get(name)
	}
	return json.Marshal(map[string]any{"statusCode": a.status, "headers": headers, "isBase64Encoded": false, "body": a.body.String()})
}

// invoked handles an invocation of the Go runtime like a request of the custom runtime, with the same headers.
func (d *Endpoint) invoked(ctx context.Context, r *http.Request) *recorder {
	if fcc, ok := fccontext.FromContext(ctx); ok {
		r.Header.Set("x-fc-request-id", fcc.RequestID)
		r.Header.Set("x-fc-access-key-id", fcc.Credentials.AccessKeyId)
		r.Header.Set("x-fc-access-key-secret", fcc.Credentials.AccessKeySecret)
		r.Header.Set("x-fc-security-token", fcc.Credentials.SecurityToken)
	}
	if end, ok := ctx.Deadline(); ok {
		r.Header.Set("x-fc-function-deadline", strconv.FormatInt(end.UnixMilli(), 10))
	}
	a := &recorder{header: http.Header{}, status: http.StatusOK}
	d.Handler().ServeHTTP(a, r.WithContext(ctx))
	return a
}

type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *recorder) Header() http.Header { return a.header }

func (a *recorder) WriteHeader(status int) { a.status = status }

func (a *recorder) Write(b []byte) (int, error) { return a.body.Write(b) }

// goRuntime answers invocations until ctx ends, then lets those in hand finish. The SDK's loop ignores SIGTERM and goes on until the process ends.
func (d *Endpoint) goRuntime(ctx context.Context, api string) error {
	correct(api, &d.inHand)
	fc.RegisterInitializerFunction(d.initialize)
	fc.RegisterPreStopFunction(d.inHand.wait)
	go fc.Start(d.Invoke)
	if d.Log != nil {
		d.Log.Info("function is ready", "address", api)
	}
	<-ctx.Done()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer cancel()
	d.inHand.close(last)
	return nil
}

// correct works around the SDK (v0.3.1), which leaves an invocation without a deadline or a timeout unanswered, and asks an
// unavailable API again without a pause. The SDK uses the default client, so its requests pass through here. An invocation is in hand
// until its answer has arrived, not only until its call has ended.
func correct(api string, in *inHand) {
	transport := http.DefaultTransport.(*http.Transport)
	transport.RegisterProtocol("http", &corrected{api: api, to: transport.Clone(), in: in})
}

type corrected struct {
	api  string
	to   *http.Transport
	in   *inHand
	held sync.Map // by ID of the request: invocations in hand, without hooks
}

const again = time.Second

const assumed = time.Minute

func (m *corrected) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Host != m.api {
		return nil, http.ErrSkipAltProtocol
	}
	a, err := m.to.RoundTrip(r)
	if !strings.HasSuffix(r.URL.Path, "/next") {
		id := path.Base(path.Dir(r.URL.Path)) // …/<ID>/response, or …/<ID>/error
		if _, ok := m.held.LoadAndDelete(id); ok {
			m.in.end()
		}
		return a, err
	}
	if err != nil || a.StatusCode != http.StatusOK {
		select {
		case <-time.After(again):
		case <-r.Context().Done():
		}
		return a, err
	}
	s, err := strconv.Atoi(a.Header.Get("x-fc-function-timeout"))
	if err != nil || s <= 0 {
		s = int(assumed.Seconds())
		a.Header.Set("x-fc-function-timeout", strconv.Itoa(s))
	}
	if _, err := strconv.ParseInt(a.Header.Get("x-fc-function-deadline"), 10, 64); err != nil {
		a.Header.Set("x-fc-function-deadline", strconv.FormatInt(time.Now().Add(time.Duration(s)*time.Second).UnixMilli(), 10))
	}
	// A hook waits for calls in hand, not for itself.
	if kind := a.Header.Get("x-fc-function-type"); kind == "" || kind == "0" {
		m.held.Store(a.Header.Get("x-fc-request-id"), true)
		m.in.hold()
	}
	return a, nil
}

// initialize checks that calls can be answered. An initializer fails by a panic, whose text the SDK reports.
func (d *Endpoint) initialize(ctx context.Context) {
	if a := d.invoked(ctx, request(http.MethodPost, "/initialize", nil)); a.status != http.StatusOK {
		panic(strings.TrimSpace(a.body.String()))
	}
}

type keyOf struct{}

type requestOf struct{}

// Key returns the request's credentials, if any, or those of next. A nil next is the SDK's default chain.
func Key(next cloud.Credentials) cloud.Credentials {
	if next == nil {
		next = cloud.DefaultChain()
	}
	return func(ctx context.Context) (cloud.Key, error) {
		if k, ok := ctx.Value(keyOf{}).(cloud.Key); ok {
			return k, nil
		}
		return next(ctx)
	}
}
