package cloud

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/aliyun/alibaba-cloud-sdk-go/sdk"
	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/auth/credentials"
	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/requests"
	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/responses"
	"golang.org/x/time/rate"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/retry"
)

const (
	tries      = 3                // of one read
	patiently  = 12               // of a throttled read of a Limited reader: more than a minute
	tryTimeout = 10 * time.Second // from sending to the whole answer
	maxAnswer  = 32 << 20         // bytes; the longest page of a list is far below
	tooLate    = "no answer in time"
)

func pause(failed int) time.Duration {
	step := retry.Pause(200*time.Millisecond, 10*time.Second, uint64(failed))
	return step/2 + rand.N(step)
}

type client struct {
	Config
	products map[string]product
	base     *http.Transport
	limits   map[string]*rate.Limiter
	patience time.Duration             // limit of one try
	pause    func(n int) time.Duration // after the n-th failed try
	own      *memory                   // good answers of this look, which it reuses; nil: reuses none
	recent   *memory                   // answers that all looks share
	session  *session                  // the look, which shares answers with others; nil: shares none
	sharing  *sharing                  // of all looks that share
	atMost   int64                     // longest list, in items; 0: any length
	easing   *easing                   // nil: the rate stays as it is
	onWrite  func(event.Call)          // called for each write; may be nil
	dry      bool                      // nothing is written
}

// easing lowers the rate when the cloud throttles, which would also hit others of the account, such as the controller.
type easing struct {
	mu    sync.Mutex
	at    map[string]time.Time // when the rate of a product was last halved
	since map[string]time.Time // since when a product has refused all calls; missing: it answers
}

const (
	// eases is the least time between two halvings: the cloud counts by the minute, so it refuses for a while however few calls are made.
	eases = 30 * time.Second
	// enough is how long a product may refuse all calls before a read gives up early.
	enough = 90 * time.Second
)

// refused halves the rate of a product, and reports whether to try again.
func (e *easing) refused(product string, limit *rate.Limiter, now time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if at, ok := e.at[product]; !ok || now.Sub(at) >= eases {
		e.at[product] = now
		limit.SetBurst(1)
		limit.SetLimit(limit.Limit() / 2)
	}
	if _, ok := e.since[product]; !ok {
		e.since[product] = now
	}
	return now.Sub(e.since[product]) < enough
}

func (e *easing) answered(product string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.since, product)
}

// question returns a key that is the same for equal requests. The SDK later adds a time, a nonce and a signature.
func question(request requests.AcsRequest) (string, error) {
	if err := requests.InitParams(request); err != nil {
		return "", err
	}
	return fmt.Sprint(request.GetProduct(), " ", request.GetActionName(), " ", request.BuildQueries(), " ", request.GetFormParams()), nil
}

// A call is a request that can be repeated. Each try needs a new request, because the SDK writes into it.
type call[T any] struct {
	request func() requests.AcsRequest
	needs   needs
	check   func(T) error // what is wrong with an answer, or nil; may be nil. It is called for each caller
	gone    []string      // codes that mean that the object does not exist
	about   string        // what a write is about, for audits
	wide    bool          // a read about the cluster itself, which all looks share
	sharing bool          // a read that looks at many Services make alike, and share if there are many
	afresh  bool          // bypass the memory
}

// needs are arguments that must not be empty, since some actions take an empty one for everything, by what an error calls them.
type needs []struct{ name, value string }

func (n needs) missing(request func() requests.AcsRequest) error {
	for _, argument := range n {
		if argument.value == "" {
			r := request()
			return absent(strings.ToLower(r.GetProduct()), r.GetActionName(), argument.name)
		}
	}
	return nil
}

// An asking is a call whose answer has no type, which saves every function program 4 kB of code per type.
type asking struct {
	request func() requests.AcsRequest
	needs   needs
	into    func() any      // a pointer for the answer of the next try
	check   func(any) error // what is wrong with the answer behind the pointer, or nil
	gone    []string
	about   string
	wide    bool
	sharing bool
	afresh  bool
}

func (k call[T]) asking() asking {
	check := k.check // a closure over k would keep all of it
	return asking{
		request: k.request, needs: k.needs, gone: k.gone, about: k.about, wide: k.wide, sharing: k.sharing, afresh: k.afresh,
		into: func() any { return new(T) },
		check: func(answer any) error {
			if check == nil {
				return nil
			}
			return check(*answer.(*T))
		},
	}
}

// read makes the call, and repeats it where that may help. Callers share the answer and must not change it.
func read[T any](ctx context.Context, c *client, k call[T]) (T, error) {
	answer, err := c.read(ctx, k.asking())
	if err != nil {
		return *new(T), err
	}
	return *answer.(*T), nil
}

func (c *client) read(ctx context.Context, k asking) (any, error) {
	if err := k.needs.missing(k.request); err != nil {
		return nil, err
	}
	for n := 1; ; n++ {
		answer, err := c.try(ctx, k)
		if err == nil || n >= c.most(err) || !err.passing() || !sleep(ctx, c.pause(n)) {
			return answer.is, orNil(err)
		}
	}
}

func (c *client) most(err *Error) int {
	if c.easing != nil && err.refused() && c.easing.refused(err.Product, c.limits[err.Product], time.Now()) {
		return patiently
	}
	return tries
}

func write[T any](ctx context.Context, c *client, k call[T]) (T, error) {
	if err := k.needs.missing(k.request); err != nil || c.dry {
		return *new(T), err
	}
	answer, err := c.try(ctx, k.asking())
	if err != nil {
		return *new(T), err
	}
	return *answer.is.(*T), nil
}

// change makes a write whose answer contains only its success. about is the object, for audits; gone are the codes for a missing object.
func (c *client) change(ctx context.Context, needs needs, about string, gone []string, request requests.AcsRequest) error {
	_, err := write(ctx, c, call[none]{request: func() requests.AcsRequest { return request }, needs: needs, about: about, gone: gone})
	return err
}

// orNil keeps a nil *Error from becoming a non-nil error.
func orNil(err *Error) error {
	if err == nil {
		return nil
	}
	return err
}

// sleep waits, or reports false at once if the context would end before that.
func sleep(ctx context.Context, d time.Duration) bool {
	if end, ok := ctx.Deadline(); ok && time.Until(end) < d {
		return false
	}
	return retry.Sleep(ctx, d)
}

func (c *client) try(ctx context.Context, k asking) (said, *Error) {
	request := k.request()
	e := &Error{Product: strings.ToLower(request.GetProduct()), Action: request.GetActionName()}
	made := false
	ask := func() (said, *Error) {
		made = true
		return c.ask(ctx, k, request, e)
	}
	if c.own == nil {
		return ask()
	}
	asked, err := question(request)
	if err != nil {
		return said{}, e.ended(ctx, ErrUnavailable, codeNotSent, err.Error())
	}
	if k.afresh {
		c.own.drop(asked)
		c.recent.drop(asked)
	}
	from := ask
	if c.session != nil && (k.wide || k.sharing && c.session.shared(e.Product, c.sharing)) {
		from = func() (said, *Error) { return c.recent.recall(ctx, asked, e, ask) }
	}
	answer, failure := c.own.recall(ctx, asked, e, from)
	if failure == nil && reflect.TypeOf(answer.is) != reflect.TypeOf(k.into()) {
		return ask() // an equal request expected another type of answer
	}
	if made || failure != nil {
		return answer, failure
	}
	event.TellAgain(ctx, answer.read)
	e.Status = http.StatusOK
	return answer, check(answer.is, k.check, e)
}

func (c *client) ask(ctx context.Context, k asking, request requests.AcsRequest, e *Error) (said, *Error) {
	if err := c.limits[e.Product].Wait(ctx); err != nil {
		e = e.ended(ctx, ErrThrottled, codeNotSent, "the limit on our own calls leaves no time for this one")
		e.cause = cmp.Or(e.cause, context.DeadlineExceeded) // refused ahead of the deadline, which may come any moment
		return said{}, e
	}
	key, err := c.Credentials(ctx)
	switch {
	case err != nil:
		return said{}, e.ended(ctx, ErrUnavailable, codeNoKey, redactor{}.clean(err.Error()))
	case key.ID == "" || key.Secret == "":
		return said{}, e.ended(ctx, ErrUnavailable, codeNoKey, "the access key is empty")
	}
	began, answer := time.Now(), k.into()
	body, date, failure := c.exchange(ctx, key, request, e, k.gone)
	if failure == nil {
		failure = decode(body, request.GetStyle() == requests.RPC, answer, k.check, e)
	}
	read := event.NewRead(e.Product+":"+e.Action, began, body, orNil(failure))
	event.TellAgain(ctx, read)
	if c.Meter != nil {
		m := Call{Product: e.Product, Action: e.Action, Status: e.Status, Duration: time.Since(began), Date: date}
		if failure != nil {
			m.Code, m.Throttled = failure.Code, failure.kind == ErrThrottled
		}
		c.Meter(m)
	}
	if c.onWrite != nil && e.Code != codeNotSent {
		unsure := failure != nil && (failure.kind == ErrUnavailable || e.Status < http.StatusBadRequest || e.Status >= http.StatusInternalServerError)
		c.onWrite(event.Call{Action: e.Product + ":" + e.Action, Resource: k.about, Request: e.RequestID, Error: e.Code, Unsure: unsure})
	}
	if failure != nil {
		return said{}, failure
	}
	if c.easing != nil {
		c.easing.answered(e.Product)
	}
	return said{answer, read}, nil
}

// exchange sends the signed request and returns the body of a good answer and the cloud's time. It fills e, and returns it on failure.
func (c *client) exchange(ctx context.Context, key Key, request requests.AcsRequest, e *Error, gone []string) ([]byte, time.Time, *Error) {
	trying, cancel := context.WithTimeout(ctx, c.patience)
	defer cancel()
	t := c.transport(trying, e.Product)
	err := c.sign(key, request, t)
	clean := redactorOf(key, t.signature).clean
	switch {
	case !t.sent:
		return nil, t.date, e.ended(ctx, ErrUnavailable, codeNotSent, clean(fmt.Sprint(err)))
	case t.err != nil && ctx.Err() == nil && trying.Err() != nil:
		return nil, t.date, e.ended(ctx, ErrUnavailable, codeNoAnswer, tooLate)
	case t.err != nil && errors.Is(t.err, errTooLong):
		return nil, t.date, e.ended(ctx, ErrUnavailable, codeBadAnswer, errTooLong.Error())
	case t.err != nil:
		return nil, t.date, e.ended(ctx, ErrUnavailable, codeNoAnswer, clean(t.err.Error()))
	}
	e.Status = t.status
	if t.status >= 200 && t.status < 300 {
		return t.body, t.date, nil
	}
	var w wireError
	known := json.Unmarshal(t.body, &w) == nil && w.Code != ""
	e.Code, e.RequestID = clean(string(w.Code)), clean(string(w.RequestID+w.RequestIDSnake))
	e.Message, e.Refused = clean(string(w.Message)), clean(w.refused())
	e.kind = kindOf(string(w.Code), t.status, gone)
	if !known {
		e.Code, e.Message = codeBadAnswer, fmt.Sprintf("status %d with no error code", t.status)
		if e.kind == nil {
			e.kind = ErrUnavailable
		}
		if t.status >= http.StatusInternalServerError || t.status == http.StatusTooManyRequests {
			e.Code = codeNoAnswer // a gateway's answer; the API itself sent none
		}
	}
	return nil, t.date, e
}

// sign lets the SDK sign the request and send it over t. The error counts only if nothing was sent: t knows the rest better.
func (c *client) sign(key Key, request requests.AcsRequest, t *transport) (err error) {
	defer func() {
		if recover() != nil {
			err = errors.New("the SDK panicked on the request")
		}
	}()
	config := sdk.NewConfig().WithAutoRetry(false).WithScheme(requests.HTTPS).WithUserAgent("lbremedy")
	config.Transport = t
	var s sdk.Client
	p := c.products[t.product]
	s.SetEndpointRules(p.regions, p.kind, "public")
	if c.VPC && p.inVPC != onlyPublic {
		request.SetDomain(p.vpcHost(t.product, c.Region))
	}
	// A span's name would contain the signed address. Proxies are set because the SDK would parse those of the environment, and takes NO_PROXY
	// for regular expressions; t does not use them.
	s.SetCloseTrace(true)
	s.SetHttpsProxy("https://unused.invalid")
	s.SetNoProxy("unused")
	s.SetReadTimeout(c.patience + time.Minute) // t enforces the time limit
	credential := &credentials.StsTokenCredential{AccessKeyId: key.ID, AccessKeySecret: key.Secret, AccessKeyStsToken: key.Token}
	if err := s.InitWithOptions(c.Region, config, credential); err != nil {
		return err
	}
	return s.DoAction(request, responses.NewCommonResponse())
}

// ended fills in and returns e, with the given reason or the end of the caller's context.
func (e *Error) ended(ctx context.Context, kind error, code, message string) *Error {
	e.kind, e.Code, e.Message = kind, code, message
	if err := ctx.Err(); err != nil {
		e.cause, e.Message = err, err.Error()
		if code != codeNoAnswer {
			e.Code = codeNotSent
		}
		if e.kind == ErrThrottled {
			e.kind = ErrUnavailable
		}
	}
	return e
}

// A transport carries one request, on its context, to the configured host and keeps the answer. The SDK would change a type that it knows.
type transport struct {
	ctx          context.Context
	base         http.RoundTripper
	product      string
	scheme, host string // where to connect instead; empty: as in the request

	sent      bool
	signature string
	status    int
	date      time.Time // of the answer, according to itself; zero if it has none
	body      []byte
	err       error
}

func (c *client) transport(ctx context.Context, product string) *transport {
	return &transport{ctx: ctx, base: c.base, product: product, scheme: strings.ToLower(c.Scheme), host: c.Endpoint}
}

var errTooLong = fmt.Errorf("the answer is longer than %d MiB", maxAnswer>>20)

// RoundTrip sends the request and returns an empty answer, which leaves the SDK nothing to parse.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	out := r.Clone(t.ctx)
	if t.scheme != "" {
		out.URL.Scheme = t.scheme
	}
	if t.host != "" {
		out.URL.Host = t.host // the Host header stays as it is
	}
	t.sent = true
	t.signature = signatureOf(r)
	t.status, t.body, t.err = t.send(out)
	if t.err != nil {
		return nil, t.err
	}
	return &http.Response{
		Status:     "200 OK",
		StatusCode: http.StatusOK,
		Proto:      "HTTP/1.1",
		ProtoMajor: 1,
		ProtoMinor: 1,
		Header:     http.Header{},
		Body:       io.NopCloser(bytes.NewReader([]byte("{}"))),
		Request:    r,
	}, nil
}

func (t *transport) send(out *http.Request) (status int, body []byte, err error) {
	answer, err := t.base.RoundTrip(out)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	if at, err := http.ParseTime(answer.Header.Get("Date")); err == nil {
		t.date = at
	}
	body, err = io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	switch {
	case err != nil:
		return 0, nil, fmt.Errorf("read the answer: %w", err)
	case len(body) > maxAnswer:
		return 0, nil, errTooLong
	}
	return answer.StatusCode, body, nil
}

// signatureOf returns the signature: RPC calls have it in the query, others in a header.
func signatureOf(r *http.Request) string {
	if s := r.URL.Query().Get("Signature"); s != "" {
		return s
	}
	_, s, _ := strings.Cut(r.Header.Get("Authorization"), ":")
	return s
}
