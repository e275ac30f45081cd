package hand

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

// A Recorded case is the Service of a failure and a class's expected result.
type Recorded struct {
	Name    string          `json:"name"`
	Message string          `json:"message,omitempty"` // of the failure
	Service *corev1.Service `json:"service"`
	Want    Wanted          `json:"want"`
}

// Wanted is the result of a class, with sentences in English.
type Wanted struct {
	Verdict remedy.Verdict `json:"verdict"`
	Finding string         `json:"finding,omitempty"`
	Ask     string         `json:"ask,omitempty"`
	Steps   []Step         `json:"steps,omitempty"`
}

// Conform checks whether a hand keeps the contract, whatever its programming language: it accepts what the engine signs, refuses
// everything else, and answers recorded cases as the class should. It calls see with each check; a nil error means that the check
// passed. A hand that keeps the contract writes nothing.
func Conform(ctx context.Context, r *Remote, cluster string, cases []Recorded, see func(check say.Text, err error)) {
	see(say.F("It accepts a call of the engine, and answers in the right form."), r.Reaches(ctx, cluster))
	other, err := NewKey()
	if err != nil {
		see(say.F("It refuses a call with the signature of another key."), err)
		return
	}
	c := conformance{r, cluster}
	good := c.sealed(r.Key, func(*call) {})
	with := func(change func(*call)) []byte { return c.sealed(r.Key, change) }
	signed := good[:bytes.LastIndexByte(good, '.')]
	head, another := signed[:bytes.IndexByte(signed, '.')+1], with(func(*call) {})
	for _, check := range []struct {
		name say.Text
		call []byte
		kind error
	}{
		{say.F("It refuses a call without content."), nil, ErrInvalid},
		{say.F("It refuses a call that is not signed."), []byte(`{"specversion":"1.0"}`), ErrInvalid},
		{say.F("It refuses a call whose signature is missing."), append(bytes.Clone(signed), '.'), ErrDenied},
		{say.F("It refuses a call with the signature of another key."),
			part.AppendEncode(append(bytes.Clone(signed), '.'), ed25519.Sign(other.private, signed)), ErrDenied},
		{say.F("It refuses a call of a key that it does not know."), c.sealed(other, func(*call) {}), ErrDenied},
		{say.F("It refuses a call whose content is that of another call."),
			append(append(append(bytes.Clone(head), bytes.Split(another, []byte("."))[1]...), '.'), good[len(signed)+1:]...), ErrDenied},
		{say.F("It refuses a call with the algorithm none."),
			append(append(part.AppendEncode(nil, []byte(`{"alg":"none","kid":"`+r.Key.Public()+`"}`)), signed[len(head)-1:]...), '.'), ErrDenied},
		{say.F("It refuses a call for another class."), with(func(h *call) { h.Class = "another" }), ErrDenied},
		{say.F("It refuses a call of another cluster."), with(func(h *call) { h.Cluster = "another" }), ErrDenied},
		{say.F("It refuses a call that has expired."), with(func(h *call) { h.Expires = r.now().Add(-time.Second) }), ErrClock},
		{say.F("It refuses a call that expires more than half a minute from now."), with(func(h *call) { h.Expires = r.now().Add(time.Minute) }), ErrClock},
		{say.F("It refuses a call for another declaration of the class."), with(func(h *call) { h.Declares = "0123" }), ErrOutdated},
	} {
		see(check.name, c.refused(ctx, check.call, check.kind))
	}
	if _, err := r.Send(ctx, good); err != nil {
		see(say.F("It refuses a call that came before."), err)
	} else {
		see(say.F("It refuses a call that came before."), c.refused(ctx, good, ErrDenied))
	}
	see(say.F("It refuses a step that the class does not declare."), c.undeclared(ctx))
	see(say.F("It leaves open what became of an order that came before."), c.repeated(ctx))
	for i, one := range cases {
		see(say.F("It finds out what is recorded: %s.", cmp.Or(one.Name, fmt.Sprint(i+1))), c.finds(ctx, one))
	}
}

type conformance struct {
	*Remote
	cluster string
}

func (c conformance) sealed(key Key, change func(*call)) []byte {
	now := c.now()
	h := call{
		ID: rand.Text(), Type: TypeLook, Cluster: c.cluster, Class: c.Class.Class, Made: now, Expires: now.Add(callLife), Declares: c.Class.Declaration().Digest(),
	}
	change(&h)
	sealed, err := key.seal(h, LookRequest{About: c.nothing(c.cluster), For: Nothing})
	if err != nil {
		panic(fmt.Sprintf("hand: a small call does not encode: %v", err))
	}
	return sealed
}

func (c conformance) refused(ctx context.Context, sealed []byte, kind error) error {
	body, err := c.Send(ctx, sealed)
	if err != nil {
		return err
	}
	var a Answer
	switch err := event.DecodeStrict(body, &a); {
	case err != nil:
		return errors.New("the answer is not in the form of one")
	case a.Problem == nil || a.ID != "" || a.Answer != nil:
		return errors.New("it accepts the call")
	case !a.Problem.Is(kind):
		return fmt.Errorf("it says %.60q and not %q: %s", a.Problem.Kind, kind, oneLine(a.Problem.Text))
	}
	return nil
}

// order sends an order of a step that no class declares.
func (c conformance) order(ctx context.Context) (json.RawMessage, error) {
	now := c.now()
	o := Order{About: c.nothing(c.cluster), Dry: true, Step: Step{Kind: "annotate", Step: json.RawMessage(`{"set":{"lbremedy.io/conformance":"no"}}`)}}
	return c.call(ctx, call{Type: TypeApply, Made: now, Expires: now.Add(callLife)}, o.About, o)
}

func (c conformance) repeated(ctx context.Context) error {
	twice := *c.Remote
	twice.Send = func(ctx context.Context, order []byte) ([]byte, error) {
		if body, err := c.Send(ctx, order); err != nil {
			return body, err
		}
		return c.Send(ctx, order)
	}
	_, err := conformance{&twice, c.cluster}.order(ctx)
	if err == nil {
		return errors.New("it accepts the order")
	}
	if p, refuses := errors.AsType[*Error](err); !refuses || !p.Is(ErrUnsure) {
		return fmt.Errorf("it does not say %q: %w", ErrUnsure, err)
	}
	return nil
}

func (c conformance) undeclared(ctx context.Context) error {
	said, err := c.order(ctx)
	var a ApplyAnswer
	if said != nil && json.Unmarshal(said, &a) != nil {
		return errors.New("the answer is not that to an order")
	}
	if _, refuses := errors.AsType[*Error](err); !refuses || a.State == Done || a.State == Found {
		return errors.New("it does not refuse the step")
	}
	return nil
}

func (c conformance) finds(ctx context.Context, one Recorded) error {
	if one.Service == nil || one.Service.Name == "" || one.Service.Namespace == "" {
		return errors.New("the record has no Service with a namespace and a name")
	}
	s := one.Service.DeepCopy()
	s.UID, s.ResourceVersion = "00000000-0000-4000-8000-000000000000", "1"
	about := c.nothing(c.cluster)
	about.Service, about.Failure.Message = s, one.Message
	about.Failure.Service = event.Service{Namespace: s.Namespace, Name: s.Name, UID: string(s.UID)}
	a, err := c.Look(ctx, LookRequest{About: about, For: Diagnose})
	if err != nil {
		return err
	}
	got := Wanted{Verdict: a.Verdict}
	if a.Plan != nil {
		got.Finding, got.Ask, got.Steps = a.Plan.Finding.String(), a.Plan.Ask.String(), a.Plan.Steps
	}
	is, was := canonical(got), canonical(one.Want)
	if is != was {
		return fmt.Errorf("the hand answers %s, but the recorded case expects %s", is, was)
	}
	if len(got.Steps) == 0 {
		return nil
	}
	stands, err := c.Look(ctx, LookRequest{About: about, For: Check, Steps: got.Steps})
	if err == nil && stands.State != Todo {
		err = fmt.Errorf("a check of the first step returns %q, want %q", stands.State, Todo)
	}
	return err
}

func canonical(w Wanted) string {
	var v any
	text, err := json.Marshal(w)
	if err == nil {
		err = json.Unmarshal(text, &v)
	}
	if err == nil {
		text, err = json.Marshal(v)
	}
	if err != nil {
		return err.Error()
	}
	return string(text)
}
