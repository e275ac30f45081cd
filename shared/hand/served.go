package hand

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/lbremedy/lbremedy/shared/event"
)

// A Served hand answers the signed calls of one cluster's engine for one class. It is safe for concurrent use.
type Served struct {
	Hand     Hand
	Cluster  string
	Class    string
	Declares string     // digest of the class's declaration
	Keys     PublicKeys // of the engine
	Now      func() time.Time

	mu   sync.Mutex
	seen map[string]time.Time // expiry of received calls, by ID
}

// Answer answers a call. It never fails: the answer contains the error. status is an HTTP status, for platforms that use one: 200 if
// the hand was asked, even if it ends with a problem.
func (s *Served) Answer(ctx context.Context, sealed []byte) (status int, answer []byte) {
	a, err := s.answer(ctx, sealed)
	if answer = a.encode(err); len(answer) > MaxAnswer {
		a.Answer = nil // for an order, it would have said what was written
		answer = a.encode(fmt.Errorf("the answer has %d bytes, more than %d: %w", len(answer), MaxAnswer, ErrUnsure))
	}
	if a.ID != "" {
		return http.StatusOK, answer
	}
	for kind, status := range statuses {
		if errors.Is(err, kind) {
			return status, answer
		}
	}
	return http.StatusBadRequest, answer
}

func (a Answer) encode(err error) []byte {
	if p, ok := errors.AsType[*Error](problem(err)); ok {
		p.Text = event.Redact(p.Text)
		a.Problem = p
	}
	text, err := json.Marshal(a)
	if err != nil {
		panic(fmt.Sprintf("hand: an answer that was encoded does not encode: %v", err))
	}
	return text
}

// stale is the age from which an order's step is always checked: the order waited for this hand to start.
const stale = 5 * time.Second

// statuses are for calls that are not accepted.
var statuses = map[error]int{
	ErrDenied: http.StatusUnauthorized, ErrOutdated: http.StatusConflict, ErrClock: http.StatusPreconditionFailed,
}

// answer asks the hand. Without an ID in the answer, the call was not accepted and nothing was read.
func (s *Served) answer(ctx context.Context, sealed []byte) (a Answer, err error) {
	h, err := s.Keys.unseal(sealed)
	if err == nil {
		err = s.accepts(h)
	}
	if err != nil {
		return a, err
	}
	var about About
	var ask func(context.Context) (any, error)
	switch h.Type {
	case TypeLook:
		var q LookRequest
		if err = json.Unmarshal(h.Data, &q); err == nil {
			about, ask = q.About, func(ctx context.Context) (any, error) { return s.Hand.Look(ctx, q) }
		}
	case TypeApply:
		var o Order
		if err = json.Unmarshal(h.Data, &o); err == nil {
			o.Fresh = o.Fresh && s.now().Sub(h.Made) <= stale
			about, ask = o.About, func(ctx context.Context) (any, error) { return s.Hand.Apply(ctx, o) }
		}
	default:
		err = fmt.Errorf("calls of type %.60q are unknown", h.Type)
	}
	switch {
	case err != nil:
	case about.Service == nil:
		err = errors.New("the call holds no Service")
	case about.Class != h.Class || about.Failure.Cluster != h.Cluster || about.Failure.Class != h.Class:
		err = errors.New("the data of the call are about another class or cluster than the call")
	case string(about.Service.UID) != about.Failure.Service.UID:
		err = errors.New("the Service of the call is not that of its failure")
	}
	if err != nil {
		return a, fmt.Errorf("%w: %w", err, ErrInvalid)
	}
	if !s.first(h) {
		kind := ErrDenied
		if h.Type == TypeApply {
			kind = ErrUnsure // the order that came before may be carried out, and its answer may not reach the engine
		}
		return a, fmt.Errorf("this call came before: %w", kind)
	}
	if h.Type == TypeApply {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, h.Expires.Sub(s.now())) // by the clock that accepted it
		defer cancel()
	}
	a = Answer{ID: h.ID, Cluster: h.Cluster, Class: h.Class, UID: about.Failure.Service.UID, Attempt: about.Attempt}
	said, err := ask(ctx)
	text, failed := json.Marshal(said)
	if failed != nil {
		return a, fmt.Errorf("encode the answer: %w: %w", failed, ErrInvalid)
	}
	a.Answer = text
	return a, err
}

func (s *Served) now() time.Time { return now(s.Now) }

func now(clock func() time.Time) time.Time {
	if clock != nil {
		return clock()
	}
	return time.Now()
}

func (s *Served) accepts(h call) error {
	left := h.Expires.Sub(s.now())
	switch {
	case h.ID == "":
		return fmt.Errorf("the call has no ID: %w", ErrInvalid)
	case h.Cluster != s.Cluster:
		return fmt.Errorf("the call is of cluster %.60q, and this hand is of %q: %w", h.Cluster, s.Cluster, ErrDenied)
	case h.Class != s.Class:
		return fmt.Errorf("the call is for class %.60q, and this hand is of %q: %w", h.Class, s.Class, ErrDenied)
	case left <= 0:
		return fmt.Errorf("the call expired %s ago by the clock of this hand: %w", -left, ErrClock)
	case h.Made.Sub(s.now()) > skew:
		return fmt.Errorf("the call was made %s from now by the clock of this hand: %w", h.Made.Sub(s.now()), ErrClock)
	case left > farthest:
		return fmt.Errorf("the call expires in %s by the clock of this hand, later than in %s: %w", left, farthest, ErrClock)
	case h.Declares != s.Declares:
		return fmt.Errorf("engine and hand have different declarations of class %s: deploy the same release of both: %w", s.Class, ErrOutdated)
	}
	return nil
}

// first reports whether this instance sees a call for the first time. If another instance had it, the object is still safe: a hand
// finds a step that was made, and a write only succeeds on the version in the order.
func (s *Served) first(h call) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	maps.DeleteFunc(s.seen, func(_ string, expires time.Time) bool { return expires.Before(now) })
	if _, ok := s.seen[h.ID]; ok {
		return false
	}
	if s.seen == nil {
		s.seen = map[string]time.Time{}
	}
	s.seen[h.ID] = h.Expires
	return true
}
