package hand

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/remedy"
)

// A Remote hand is a function, called with signed calls. It may be compromised: its answers are checked, and the Service is the engine's own read.
type Remote struct {
	Class  *remedy.Remedy
	Key    Key
	Decode func(kind string, data []byte) (remedy.Step, error)
	Known  func(format string) bool // reports whether a format is one of the program's sentences

	// Send posts a call once and returns the body of the answer. Its error is an ErrUnavailable if the call cannot have reached the
	// hand, and otherwise an ErrUnsure.
	Send func(ctx context.Context, call []byte) ([]byte, error)
	// Read uses the engine's own rights.
	Read func(ctx context.Context, namespace, name string) (*corev1.Service, error)
	Now  func() time.Time // nil: time.Now

	// Pause waits until an unanswered order has expired. nil: time.Sleep.
	Pause func(time.Duration)
	// Called is called after each call; result is answered, refused, unavailable or unsure, and problem the kind of the problem in the
	// answer. May be nil.
	Called func(class, result, problem string, took time.Duration)
	// Did is called with the reads and writes that a usable answer names. May be nil.
	Did func(class string, reads []event.Read, writes []event.Call)
}

const (
	callTimeout = 75 * time.Second // of a look
	leastLife   = 2 * time.Second  // of an order: a shorter one would hardly arrive
	skew        = 5 * time.Second  // by which a hand's clock may be behind: a hand that is further behind refuses the call
)

func (r *Remote) now() time.Time { return now(r.Now) }

// Reaches returns nil if the function accepts calls of this engine, by a call that reads nothing.
func (r *Remote) Reaches(ctx context.Context, cluster string) error {
	_, err := r.Look(ctx, LookRequest{About: r.nothing(cluster), For: Nothing})
	return err
}

// nothing is about a Service that does not exist.
func (r *Remote) nothing(cluster string) About {
	none := &corev1.Service{}
	none.UID = "none"
	return About{Class: r.Class.Class, Case: "none", Attempt: 1, Service: none, Now: r.now(), Failure: event.Failure{
		Cluster: cluster, Class: r.Class.Class, Service: event.Service{UID: string(none.UID)},
	}}
}

// Look asks the function.
func (r *Remote) Look(ctx context.Context, q LookRequest) (a LookAnswer, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	now := r.now()
	said, err := r.call(ctx, call{Type: TypeLook, Made: now, Expires: now.Add(callLife)}, q.About, q)
	if errors.Is(err, ErrUnsure) {
		err = fmt.Errorf("%w: %s", ErrUnavailable, err) // a look changes nothing
	}
	if said == nil {
		return a, problem(err)
	}
	if wrong := r.checkLook(q, said, &a); wrong != nil {
		return LookAnswer{}, problem(wrong)
	}
	r.did(a.Reads, nil)
	return a, problem(err)
}

// Apply has the function make a step. The order expires when at most half of the run's remaining time has passed: other runs wait for
// the rest. Without a usable answer the state is Lost, and Apply returns when no hand accepts the order any more.
func (r *Remote) Apply(ctx context.Context, o Order) (a ApplyAnswer, err error) {
	began, now, life := time.Now(), r.now(), callLife
	if end, ok := ctx.Deadline(); ok {
		left := end.Sub(began)
		if life = min(life, left/2); left-life < skew {
			life = 0
		}
	}
	if !o.Expires.IsZero() {
		life = min(life, o.Expires.Sub(o.Now))
	}
	defer func() {
		if a.State == Lost {
			r.pause(life + skew - time.Since(began))
		}
		err = problem(err)
	}()
	if life < leastLife {
		return a, fmt.Errorf("send the order: the time of this run is nearly over: %w", context.DeadlineExceeded)
	}
	ctx, cancel := context.WithTimeout(ctx, life+skew)
	defer cancel()
	said, err := r.call(ctx, call{ID: o.ID, Type: TypeApply, Made: now, Expires: now.Add(life)}, o.About, o)
	if said == nil {
		if errors.Is(err, ErrClock) && r.now().Sub(now) > skew {
			err = fmt.Errorf("the order may have come before: %s: %w", err, ErrUnsure)
		}
		if errors.Is(err, ErrUnsure) && !o.Dry {
			a.State = Lost
		}
		return a, err
	}
	if wrong := r.checkApply(o, said, &a); wrong != nil {
		return ApplyAnswer{State: Lost}, fmt.Errorf("%w: %w", ErrUnsure, wrong)
	}
	r.did(nil, a.Calls)
	if err == nil && !slices.Contains([]State{Done, Found, Moved}, a.State) {
		return ApplyAnswer{State: Lost, Calls: a.Calls}, fmt.Errorf("the answer of the function does not say whether the step is made: %w", ErrUnsure)
	}
	if a.Service != nil && !o.Dry {
		own, wrong := r.own(ctx, a.Service)
		if wrong != nil {
			return ApplyAnswer{State: Lost, Calls: a.Calls}, fmt.Errorf("%w: %w", ErrUnsure, wrong)
		}
		a.Service = own
	}
	return a, err
}

func (r *Remote) did(reads []event.Read, writes []event.Call) {
	if r.Did != nil {
		r.Did(r.Class.Class, reads, writes)
	}
}

func (r *Remote) pause(d time.Duration) {
	if r.Pause == nil {
		time.Sleep(d)
	} else {
		r.Pause(d)
	}
}

// own returns the Service as the engine itself reads it after the function's write. If somebody has changed it since, annotations,
// spec and resource version are those that the function reports, so the engine sees the change and a write conflicts. If the Service
// is gone, the returned one shows no sync: the next read finds that it is gone.
func (r *Remote) own(ctx context.Context, said *corev1.Service) (*corev1.Service, error) {
	own, err := r.Read(ctx, said.Namespace, said.Name)
	if errors.Is(problem(err), ErrNotFound) {
		said = said.DeepCopy()
		said.Labels, said.Status = nil, corev1.ServiceStatus{}
		return said, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the Service after the step: %w", err)
	}
	if own.UID != said.UID || own.ResourceVersion == said.ResourceVersion {
		return own, nil
	}
	own = own.DeepCopy()
	own.Annotations, own.Spec, own.ResourceVersion = said.Annotations, said.Spec, said.ResourceVersion
	return own, nil
}

func (r *Remote) call(ctx context.Context, h call, about About, data any) (json.RawMessage, error) {
	h.ID = cmp.Or(h.ID, rand.Text())
	h.Cluster, h.Class, h.Declares = about.Failure.Cluster, r.Class.Class, r.Class.Declaration().Digest()
	sealed, err := r.Key.seal(h, data)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, ErrInvalid)
	}
	began := time.Now()
	body, err := r.Send(ctx, sealed)
	a, err := r.read(h, about, body, err)
	if r.Called != nil {
		kind := ""
		if a.Problem != nil {
			kind = cmp.Or(a.Problem.Kind, "other")
		}
		r.Called(h.Class, resultOf(a, err), kind, time.Since(began))
	}
	return a.Answer, err
}

func resultOf(a Answer, err error) string {
	switch {
	case a.ID != "":
		return "answered"
	case errors.Is(err, ErrUnavailable):
		return "unavailable"
	case errors.Is(err, ErrUnsure):
		return "unsure"
	}
	return "refused"
}

// read returns no ID if the function has not accepted the call or the answer is unusable.
func (r *Remote) read(h call, about About, body []byte, err error) (a Answer, _ error) {
	if err != nil {
		return Answer{}, err
	}
	if len(body) > MaxAnswer {
		return Answer{}, fmt.Errorf("the answer of the function has more than %d bytes: %w", MaxAnswer, ErrUnsure)
	}
	if err := event.DecodeStrict(body, &a); err != nil {
		return Answer{}, fmt.Errorf("the answer of the function is not in the form of one: %w", ErrUnsure)
	}
	refused := a.ID == "" && a.Problem != nil
	if !refused && (a.ID != h.ID || a.Cluster != h.Cluster || a.Class != h.Class || a.UID != about.Failure.Service.UID || a.Attempt != about.Attempt) {
		return Answer{}, fmt.Errorf("the answer of the function is to another call: %w", ErrUnsure)
	}
	switch {
	case a.Problem != nil:
	case a.Answer == nil:
		return Answer{}, fmt.Errorf("the answer of the function holds neither what it has found nor a problem: %w", ErrUnsure)
	default:
		return a, nil
	}
	a.Problem.Text = oneLine(a.Problem.Text)
	if kindOf(a.Problem.Kind) == nil {
		a.Problem.Kind = ""
	}
	return a, a.Problem
}
