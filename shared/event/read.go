package event

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lbremedy/lbremedy/shared/regex"
)

// A Read is one query on which a run's finding is based, as the cluster or the cloud answered it.
type Read struct {
	Action string        `json:"action"`           // such as "get Service shop/web" or "slb:DescribeLoadBalancers"
	Answer string        `json:"answer,omitempty"` // its beginning, or its kind
	Error  string        `json:"error,omitempty"`  // why no answer came
	Took   time.Duration `json:"took,omitempty"`   // nanoseconds
}

const (
	// MostReads is how many reads a record keeps: the first ones.
	MostReads = 24

	mostAnswer = 300 // bytes that are kept of an answer
)

type readsKey struct{}

// WithReads returns a context whose reads of cluster and cloud are passed to tell once answered, from any goroutine.
func WithReads(ctx context.Context, tell func(Read)) context.Context {
	return context.WithValue(ctx, readsKey{}, tell)
}

// A ReadList holds the first MostReads reads, each query with its answer once. It is safe for concurrent use.
type ReadList struct {
	mu    sync.Mutex
	all   []Read
	ended bool
}

// Tell adds a read.
func (a *ReadList) Tell(one Read) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.ended && len(a.all) < MostReads && !slices.ContainsFunc(a.all, func(have Read) bool {
		return have.Action == one.Action && have.Answer == one.Answer && have.Error == one.Error
	}) {
		a.all = append(a.all, one)
	}
}

// End returns the reads and takes no more.
func (a *ReadList) End() []Read {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = true
	return a.all
}

// TellRead passes a read, made by NewRead, to the context's listener if it has one.
func TellRead(ctx context.Context, action string, began time.Time, answer []byte, failed error) {
	if tell, ok := ctx.Value(readsKey{}).(func(Read)); ok {
		tell(NewRead(action, began, answer, failed))
	}
}

// NewRead returns a read that has just been answered, with the beginning of its answer (JSON or text).
func NewRead(action string, began time.Time, answer []byte, failed error) Read {
	r := Read{Action: action, Answer: shorten(answer), Took: time.Since(began)}
	if failed != nil {
		r.Error = clip(failed.Error())
	}
	return r
}

// TellAgain reports a read that another context has already reported.
func TellAgain(ctx context.Context, r Read) {
	if tell, ok := ctx.Value(readsKey{}).(func(Read)); ok {
		tell(r)
	}
}

// known matches the parts of an answer without information for people.
var known = regex.New(`"(RequestId|request_id)"\s*:\s*"[^"]*"\s*,?\s*`)

func shorten(answer []byte) string {
	text := known().ReplaceAll(bytes.TrimSpace(answer[:min(len(answer), 4*mostAnswer)]), nil)
	text = bytes.Join(bytes.Fields(text), []byte(" "))
	if len(text) <= mostAnswer && len(answer) <= 4*mostAnswer {
		return string(text)
	}
	return strings.ToValidUTF8(string(text[:min(len(text), mostAnswer)]), "") + " …"
}

func (r *Record) redactReads() {
	r.Reads = slices.Clone(r.Reads[:min(len(r.Reads), MostReads)])
	for i := range r.Reads {
		for _, text := range []*string{&r.Reads[i].Action, &r.Reads[i].Answer, &r.Reads[i].Error} {
			*text = strings.ToValidUTF8(Redact(*text), "?")
		}
	}
}
