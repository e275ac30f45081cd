package stream

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
)

// ErrDenied means that the NATS user may not do what was tried.
var ErrDenied = errors.New("this user of NATS may not do that")

// denials end requests that the server refuses: it says so on the connection and not on the request, which would wait until its deadline.
type denials struct{ all sync.Map }

type denial struct {
	subject string // prefix of the request's subject
	cancel  context.CancelCauseFunc
}

// within returns a context of a request, which ends with ErrDenied as its cause if the server refuses.
func (d *denials) within(ctx context.Context, subject string) (context.Context, func()) {
	in, cancel := context.WithCancelCause(ctx)
	own := &denial{subject, cancel}
	d.all.Store(own, nil)
	return in, func() {
		d.all.Delete(own)
		cancel(nil)
	}
}

func (d *denials) met(err error) (ends bool) {
	if !errors.Is(err, nats.ErrPermissionViolation) {
		return false
	}
	d.all.Range(func(key, _ any) bool {
		if own := key.(*denial); strings.Contains(err.Error(), `"`+own.subject) {
			own.cancel(ErrDenied)
			ends = true
		}
		return true
	})
	return ends
}

func denied(in context.Context) bool { return errors.Is(context.Cause(in), ErrDenied) }
