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

// The kinds of errors, for errors.Is. An error is of one kind at most.
var (
	ErrDenied      = errors.New("denied")      // the cluster or the cloud refused it to the class
	ErrThrottled   = errors.New("throttled")   // too many calls
	ErrNotFound    = errors.New("not-found")   // what it is about does not exist
	ErrMoved       = errors.New("moved")       // what was to be changed has changed since it was read
	ErrBlocked     = errors.New("blocked")     // what stands there forbids the write
	ErrUnavailable = errors.New("unavailable") // there was no answer, or none that can be used
	ErrUnsure      = errors.New("unsure")      // an order may have been carried out: no answer came; or a dry run is impossible
	ErrOutdated    = errors.New("outdated")    // engine and hand have different declarations of the class
	ErrClock       = errors.New("clock")       // the call has expired by the hand's clock, or expires too late
	ErrInvalid     = errors.New("invalid")     // it will never be accepted
)

// kinds are the kinds, each with the errors that are of it. The first that fits counts.
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

// An Error says why a hand could not do what it was asked for. It survives JSON, in which it has the form of a problem
// (RFC 9457). In the hand's own process it unwraps to its cause.
type Error struct {
	Kind string `json:"type,omitempty"` // text of one of the kinds; empty: none of them
	Text string `json:"detail"`
	Late bool   `json:"late,omitempty"` // the time for it was over, or too short for another call

	cause error
}

// Error returns the text.
func (e *Error) Error() string { return e.Text }

// Is reports whether the error is of that kind.
func (e *Error) Is(kind error) bool { return kind != nil && kindOf(e.Kind) == kind }

// kindOf returns the kind with that text, or nil.
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

// problem returns an error as an Error; nil for nil.
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

// Caught returns the error of what a class does, and a panic as one: it must not take the other classes down. The stack
// goes to the log.
func Caught(class string, log *slog.Logger, do func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = Panicked(p, class, log)
		}
	}()
	return do()
}

// Panicked returns a class's panic as an error. The stack goes to the log.
func Panicked(p any, class string, log *slog.Logger) error {
	log.Error("class panicked", "panic", event.Redact(fmt.Sprint(p)), "stack", string(debug.Stack()))
	return fmt.Errorf("class %s panicked: %v", class, p)
}
