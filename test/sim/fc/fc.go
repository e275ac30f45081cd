// Package fc simulates the runtime API of Function Compute's Go runtime, version 2020-11-11, as used by the SDK v0.3.1, to invoke
// a function's real program with the real SDK: a function requests its next invocation, and posts a response or an error. An
// Invocation can omit what the platform sometimes omits; its zero value invokes an event function that may take a minute. A
// [Gateway] simulates invocation through the API and HTTP triggers. Begin with [New].
package fc

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// A Kind is the purpose of an invocation.
type Kind int

// The kinds, with the platform's numbers.
const (
	Event Kind = iota
	Initializer
	PreStop
	PreFreeze
)

// An Invocation is the input of a function.
type Invocation struct {
	Kind               Kind
	Payload            []byte
	Key, Secret, Token string            // of the function's role; empty: none
	Timeout            time.Duration     // of the function; default: a minute
	Header             map[string]string // additional headers; an empty value removes a usual one
}

// An Answer is a function's result.
type Answer struct {
	ID      string // of the request
	Payload []byte
	Failure *Failure // nil: success
}

// A Failure is an error posted by a function.
type Failure struct {
	Message string            `json:"errorMessage"`
	Type    string            `json:"errorType"`
	Stack   []json.RawMessage `json:"stackTrace"`
}

// ErrTimeout means that a function did not answer in time. The platform then ends the instance.
var ErrTimeout = errors.New("the function did not answer in time")

// A Runtime is the platform of one function instance. Its methods may be called concurrently; the caller limits parallel invocations.
type Runtime struct {
	address string
	queue   chan delivery

	mu      sync.Mutex
	count   int
	polls   int
	away    bool
	waiting map[string]chan Answer // by request ID
	strange []string               // requests that the platform rejects
}

type delivery struct {
	id string
	Invocation
}

const path = "/2020-11-11/runtime/invocation/"

// New starts a platform that stops with the test.
func New(t testing.TB) *Runtime {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &Runtime{address: l.Addr().String(), queue: make(chan delivery), waiting: map[string]chan Answer{}}
	server := &http.Server{Handler: r}
	go server.Serve(l)
	t.Cleanup(func() {
		server.Close()
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, s := range r.strange {
			t.Errorf("the function does what Function Compute refuses: %s", s)
		}
	})
	return r
}

// Environ returns the variables that the platform sets for a function.
func (r *Runtime) Environ(function string) []string {
	return []string{"FC_RUNTIME_API=" + r.address, "FC_FUNCTION_NAME=" + function}
}

// Polls returns how often a function has requested its next invocation.
func (r *Runtime) Polls() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.polls
}

// Away makes the API return only errors until it is called with false.
func (r *Runtime) Away(away bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.away = away
}

// Invoke invokes the function and waits for its answer. The error is ErrTimeout, or that of ctx.
func (r *Runtime) Invoke(ctx context.Context, i Invocation) (Answer, error) {
	r.mu.Lock()
	r.count++
	id := fmt.Sprintf("request-%d", r.count)
	got := make(chan Answer, 1)
	r.waiting[id] = got
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.waiting, id)
	}()
	select {
	case r.queue <- delivery{id, i}:
	case <-ctx.Done():
		return Answer{ID: id}, ctx.Err()
	}
	late := time.NewTimer(cmp.Or(i.Timeout, time.Minute))
	defer late.Stop()
	select {
	case a := <-got:
		a.ID = id
		return a, nil
	case <-late.C:
		return Answer{ID: id}, ErrTimeout
	case <-ctx.Done():
		return Answer{ID: id}, ctx.Err()
	}
}

// ServeHTTP serves the function.
func (r *Runtime) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	r.mu.Lock()
	away := r.away
	if q.Method == http.MethodGet {
		r.polls++
	}
	r.mu.Unlock()
	rest, ok := strings.CutPrefix(q.URL.Path, path)
	id, verb, _ := strings.Cut(rest, "/")
	switch {
	case away:
		http.Error(w, "away", http.StatusInternalServerError)
	case ok && q.Method == http.MethodGet && rest == "next":
		r.next(w, q)
	case ok && q.Method == http.MethodPost && (verb == "response" || verb == "error"):
		r.answer(w, q, id, verb)
	default:
		r.refuse(w, "it asks for %s %s", q.Method, q.URL.Path)
	}
}

func (r *Runtime) next(w http.ResponseWriter, q *http.Request) {
	var d delivery
	select {
	case d = <-r.queue:
	case <-q.Context().Done():
		return
	}
	timeout := cmp.Or(d.Timeout, time.Minute)
	h := map[string]string{
		"x-fc-request-id": d.id, "x-fc-function-type": strconv.Itoa(int(d.Kind)),
		"x-fc-function-timeout":  strconv.Itoa(int(timeout.Seconds())),
		"x-fc-function-deadline": strconv.FormatInt(time.Now().Add(timeout).UnixMilli(), 10),
		"x-fc-access-key-id":     d.Key, "x-fc-access-key-secret": d.Secret, "x-fc-security-token": d.Token,
		"x-fc-function-handler": "main", "x-fc-function-memory": "128", "x-fc-region": "cn-hangzhou", "x-fc-account-id": "1",
	}
	for k, v := range d.Header {
		h[strings.ToLower(k)] = v
	}
	for k, v := range h {
		if v != "" {
			w.Header().Set(k, v)
		}
	}
	w.Write(d.Payload)
}

func (r *Runtime) answer(w http.ResponseWriter, q *http.Request, id, verb string) {
	body, err := io.ReadAll(q.Body)
	if err != nil {
		r.refuse(w, "the answer to %s breaks off", id)
		return
	}
	if media := q.Header.Get("Content-Type"); media != "application/json" {
		r.refuse(w, "the answer to %s has the content type %q", id, media)
		return
	}
	a := Answer{Payload: body}
	if verb == "error" {
		a.Failure = &Failure{}
		if err := json.Unmarshal(body, a.Failure); err != nil || a.Failure.Type == "" {
			r.refuse(w, "the error of %s is %s", id, body)
			return
		}
	}
	r.mu.Lock()
	got, ok := r.waiting[id]
	delete(r.waiting, id)
	r.mu.Unlock()
	if !ok { // already answered, or too late
		http.Error(w, "nobody waits for "+id, http.StatusNotFound)
		return
	}
	got <- a
	w.WriteHeader(http.StatusOK)
}

func (r *Runtime) refuse(w http.ResponseWriter, format string, args ...any) {
	said := fmt.Sprintf(format, args...)
	r.mu.Lock()
	r.strange = append(r.strange, said)
	r.mu.Unlock()
	http.Error(w, said, http.StatusBadRequest)
}
