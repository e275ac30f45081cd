package hand

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"

	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/remedy"
)

// The kinds of errors, for errors.Is. An error has at most one.
var (
	ErrDenied      = errors.New("denied")      // the class has no permission in the cluster or the cloud
	ErrThrottled   = errors.New("throttled")   // too many calls
	ErrNotFound    = errors.New("not-found")   // its object does not exist
	ErrMoved       = errors.New("moved")       // its target has changed since it was read
	ErrBlocked     = errors.New("blocked")     // the present state forbids the write
	ErrUnavailable = errors.New("unavailable") // no usable answer came
	ErrUnsure      = errors.New("unsure")      // an order may have been carried out: no answer came; or a dry run is impossible
	ErrOutdated    = errors.New("outdated")    // engine and hand have different declarations of the class
	ErrClock       = errors.New("clock")       // the call has expired by the hand's clock, or expires too late
	ErrInvalid     = errors.New("invalid")     // it will never be accepted
)

// kinds are tried in this order.
var kinds = []struct {
	kind error
	of   []error
}{
	{ErrUnsure, []error{kube.ErrNoDryRun}},
	{ErrMoved, []error{remedy.ErrMoved, kube.ErrConflict}},
	{ErrDenied, []error{kube.ErrDenied, cloud.ErrDenied}},
	{ErrThrottled, []error{cloud.ErrThrottled}},
	{ErrNotFound, []error{kube.ErrNotFound, cloud.ErrNotFound}},
	{ErrBlocked, []error{cloud.ErrConflict}},
	{ErrUnavailable, []error{kube.ErrUnavailable, kube.ErrGone, cloud.ErrUnavailable}},
	{ErrOutdated, nil},
	{ErrClock, nil},
	{ErrInvalid, []error{kube.ErrInvalid, remedy.ErrUndeclared}},
}

// An Error says why a hand could not do what was requested. It survives JSON, where it has the form of a problem (RFC 9457). In the
// hand's own process it unwraps to its cause.
type Error struct {
	Kind string `json:"type,omitempty"` // text of one of the kinds; empty: no kind
	Text string `json:"detail"`
	Late bool   `json:"late,omitempty"` // its time was over, or too short for another call

	cause error
}

// Error returns the text.
func (e *Error) Error() string { return e.Text }

// Is reports whether the error is of that kind.
func (e *Error) Is(kind error) bool { return kind != nil && kindOf(e.Kind) == kind }

func kindOf(text string) error {
	for _, k := range kinds {
		if k.kind.Error() == text {
			return k.kind
		}
	}
	return nil
}

// Unwrap returns the cause; nil if the error was read from JSON.
func (e *Error) Unwrap() error { return e.cause }

func problem(err error) error {
	if err == nil {
		return nil
	}
	p := &Error{Text: err.Error(), Late: Late(err) || errors.Is(err, context.DeadlineExceeded), cause: err}
	for _, k := range kinds {
		if p.Kind == "" && (errors.Is(err, k.kind) || slices.ContainsFunc(k.of, func(of error) bool { return errors.Is(err, of) })) {
			p.Kind = k.kind.Error()
		}
	}
	return p
}

// Late reports whether the time for a call was over, or too short for another one.
func Late(err error) bool {
	p, ok := errors.AsType[*Error](err)
	return ok && p.Late
}

// Caught returns the error of a class's code. A panic becomes an error, since it must not affect other classes, and its stack is logged.
func Caught(class string, log *slog.Logger, do func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = Panicked(p, class, log)
		}
	}()
	return do()
}

// Panicked returns a class's panic as an error and logs the stack.
func Panicked(p any, class string, log *slog.Logger) error {
	log.Error("class panicked", "panic", event.Redact(fmt.Sprint(p)), "stack", string(debug.Stack()))
	return fmt.Errorf("class %s panicked: %v", class, p)
}
