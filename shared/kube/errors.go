package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The kinds of errors, for errors.Is.
var (
	ErrNotFound    = errors.New("not found")                        // the object does not exist
	ErrConflict    = errors.New("changed by someone else")          // the object has changed since it was read
	ErrDenied      = errors.New("not allowed")                      // unknown or insufficient credentials
	ErrInvalid     = errors.New("refused as invalid")               // the API server will never accept this request
	ErrUnavailable = errors.New("the API server can't answer")      // no connection, a timeout, overload
	ErrGone        = errors.New("the resource version is too old")  // list again
	ErrIncomplete  = errors.New("the list was not read to its end") // the list exceeds its bounds
)

// An Error is a call that the API server, or the connection to it, failed. It unwraps to its kind. Its text names objects, and has no
// URL, credential or body.
type Error struct {
	Doing   string // the operation: "get Service shop/web"
	Kind    error  // ErrNotFound, …; nil: none of them
	Status  int    // HTTP status; 0 without an answer of the API server
	Reason  string // Kubernetes' own word for the cause; may be empty
	Message string // a sentence of the API server, or of the network
}

// Error returns the operation and why it failed.
func (e *Error) Error() string {
	if e.Kind == nil {
		return e.Doing + ": " + e.Message
	}
	return e.Doing + ": " + e.Kind.Error() + ": " + e.Message
}

// Unwrap returns the kind.
func (e *Error) Unwrap() error { return e.Kind }

func noName(doing, what, name string) error {
	return &Error{Doing: doing, Kind: ErrNotFound, Message: fmt.Sprintf("no object can have the %s %.100q", what, name)}
}

func explain(ctx context.Context, doing string, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", doing, ctx.Err())
	}
	if errors.As(err, new(*Error)) {
		return err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return &Error{Doing: doing, Kind: ErrUnavailable, Message: "no answer in time"}
	}
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return explainStatus(doing, status.Status())
	}
	return &Error{Doing: doing, Kind: ErrUnavailable, Message: hide(err).Error()}
}

func explainStatus(doing string, s metav1.Status) *Error {
	e := &Error{Doing: doing, Status: int(s.Code), Reason: string(s.Reason), Message: s.Message}
	if e.Message == "" {
		e.Message = http.StatusText(e.Status)
	}
	switch {
	case s.Reason == metav1.StatusReasonExpired, s.Reason == metav1.StatusReasonGone, e.Status == http.StatusGone:
		e.Kind = ErrGone
	case e.Status == http.StatusNotFound:
		e.Kind = ErrNotFound
	case e.Status == http.StatusConflict:
		e.Kind = ErrConflict
	case e.Status == http.StatusUnauthorized, e.Status == http.StatusForbidden:
		e.Kind = ErrDenied
	case e.Status == http.StatusBadRequest, e.Status == http.StatusUnprocessableEntity,
		e.Status == http.StatusRequestEntityTooLarge, e.Status == http.StatusMethodNotAllowed:
		e.Kind = ErrInvalid
	default:
		e.Kind = ErrUnavailable
	}
	return e
}

// hide removes the URL that Go's HTTP client puts before an error: a kubeconfig's server or proxy may contain credentials.
func hide(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}
