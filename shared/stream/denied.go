package stream

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
)

// ErrDenied says that the user of NATS may not do what was tried.
var ErrDenied = errors.New("this user of NATS may not do that")

// denials end requests that the server refuses. It answers those who may not publish to
// a subject on the connection and not on the request, which would wait in vain.
type denials struct {
	mu  sync.Mutex
	all map[*denial]struct{}
}

type denial struct {
	subject string // beginning of the request's
	cancel  context.CancelCauseFunc
}

// within returns a context of a request to a subject that ends with ErrDenied as its
// cause when the server refuses it.
func (d *denials) within(ctx context.Context, subject string) (context.Context, func()) {
	in, cancel := context.WithCancelCause(ctx)
	own := &denial{subject, cancel}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.all == nil {
		d.all = map[*denial]struct{}{}
	}
	d.all[own] = struct{}{}
	return in, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.all, own)
		cancel(nil)
	}
}

// met takes in what the server says on the connection, and reports whether a request
// ends by it.
func (d *denials) met(err error) (ends bool) {
	if !errors.Is(err, nats.ErrPermissionViolation) {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for own := range d.all {
		if strings.Contains(err.Error(), `"`+own.subject) {
			own.cancel(ErrDenied)
			ends = true
		}
	}
	return ends
}

// denied reports whether a request with this context was refused.
func denied(in context.Context) bool { return errors.Is(context.Cause(in), ErrDenied) }
