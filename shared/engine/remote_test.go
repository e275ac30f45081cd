package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/lbremedy/lbremedy/shared/control"
	"github.com/lbremedy/lbremedy/shared/engine"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/hand"
	"github.com/lbremedy/lbremedy/shared/remedy"
)

type line struct {
	before, after func(order bool) error
	lie           func(answer []byte) []byte
	twice         bool // each order arrives twice, and the second answer comes back
}

// remote has a function handle the rig's class over signed calls, and returns the line to it.
func (r *rig) remote() *line {
	r.Helper()
	key, err := hand.NewKey()
	r.must(err)
	keys, err := hand.ParsePublicKeys(key.Public())
	r.must(err)
	on := &line{}
	local := r.clients.Hand
	r.env.Hand = func(of *remedy.Remedy) hand.Hand {
		function := &hand.Served{Hand: local(of), Cluster: r.env.Cluster, Class: of.Class, Declares: of.Declaration().Digest(), Keys: keys}
		orders := false
		return watched{&hand.Remote{
			Class: of, Key: key, Decode: r.decode, Known: func(string) bool { return true }, Read: r.env.Kube.Service,
			Pause: func(d time.Duration) { r.advance(d) },
			Send: func(ctx context.Context, call []byte) ([]byte, error) {
				if on.before != nil {
					if err := on.before(orders); err != nil {
						return nil, err
					}
				}
				_, answer := function.Answer(ctx, call)
				if on.twice && orders {
					_, answer = function.Answer(ctx, call)
				}
				if on.after != nil {
					if err := on.after(orders); err != nil {
						return nil, err
					}
				}
				if on.lie != nil {
					answer = on.lie(answer)
				}
				return answer, nil
			},
		}, &orders}
	}
	return on
}

type watched struct {
	hand.Hand
	orders *bool
}

func (w watched) Look(ctx context.Context, q hand.LookRequest) (hand.LookAnswer, error) {
	*w.orders = false
	return w.Hand.Look(ctx, q)
}

func (w watched) Apply(ctx context.Context, o hand.Order) (hand.ApplyAnswer, error) {
	*w.orders = true
	return w.Hand.Apply(ctx, o)
}

func TestRemote(t *testing.T) {
	t.Parallel()
	r := build(t)
	r.remote()
	r.ends(event.Waiting)
	r.wrote(1)
	r.sync("h2", "192.168.0.9")
	r.advance(10 * time.Second)
	r.ends(event.Fixed)
	r.wrote(1)
}

// After a lost answer nothing is sent until the order has expired and a minute has passed; then the step is checked, not repeated.
func TestLostAnswer(t *testing.T) {
	t.Parallel()
	for name, made := range map[string]bool{"the step was made": true, "the order was lost, too": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := build(t)
			on := r.remote()
			lose := func(order bool) error {
				if order {
					return fmt.Errorf("the connection broke: %w", hand.ErrUnsure)
				}
				return nil
			}
			if on.before = lose; made {
				on.before, on.after = nil, lose
			}
			began := r.now()
			rec := r.fails("the connection broke")
			if waited := r.now().Sub(began); rec.Wait < time.Minute-time.Second || waited < 25*time.Second {
				t.Errorf("it comes back after %s, and has waited %s for the order to expire", rec.Wait, waited)
			}
			if !rec.Steps[0].Unknown || rec.Next != 0 {
				t.Errorf("the record does not say that the step may have been made: %+v", rec.Steps[0])
			}
			on.before = func(bool) error { t.Error("a call is made while the order may be carried out"); return nil }
			on.after = nil
			if rec, err, _ := r.try(r.event); err != nil || rec.Result != event.Waiting {
				t.Errorf("meanwhile a run ends as %q: %v", rec.Result, err)
			}
			on.before = nil
			r.advance(rec.Wait)
			r.ends(event.Waiting)
			r.wrote(1)
			r.sync("h2", "192.168.0.9")
			r.advance(10 * time.Second)
			if rec := r.ends(event.Fixed); rec.Steps[0].Unknown {
				t.Error("it is still unknown whether the step was made")
			}
		})
	}
}

// If a gateway delivers an order twice, the answer to the second delivery leaves open whether the step was made. It is checked, not
// repeated, and can be undone.
func TestOrderTwice(t *testing.T) {
	t.Parallel()
	r := build(t)
	on := r.remote()
	on.twice = true
	rec := r.fails("this call came before")
	if rec.Wait < time.Minute-time.Second || !rec.Steps[0].Unknown {
		t.Errorf("it comes back after %s, and the record says of the step: %+v", rec.Wait, rec.Steps[0])
	}
	if d := r.document().State; d.Order == nil || d.Active != class {
		t.Error("other classes may write")
	}
	on.twice = false
	r.advance(rec.Wait)
	r.ends(event.Waiting)
	r.wrote(1)
	r.sync("h2", "192.168.0.9")
	r.advance(10 * time.Second)
	rec = r.ends(event.Fixed)
	if _, err := engine.Undo(t.Context(), r.env, r.class, []event.Record{rec}); err != nil {
		t.Errorf("the step is not undone: %v", err)
	}
	r.wrote(2)
}

func TestKilledAfterOrder(t *testing.T) {
	t.Parallel()
	for name, away := range map[string]time.Duration{"for 30 s": 30 * time.Second, "for 300 s": 300 * time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := build(t)
			on := r.remote()
			on.after = func(order bool) error {
				if order {
					return kill(t.Context())
				}
				return nil
			}
			r.dies()
			r.wrote(1)
			on.after = nil
			r.restart()
			r.advance(away)
			rec := r.run()
			if away < 2*time.Minute {
				if rec.Result != event.Waiting || rec.Wait <= 0 {
					t.Errorf("it ends as %q and comes back after %s, while the order may be carried out", rec.Result, rec.Wait)
				}
				r.advance(2 * time.Minute)
				r.run()
			}
			r.wrote(1)
			r.sync("h2", "192.168.0.9")
			r.advance(10 * time.Second)
			r.ends(event.Fixed)
			r.wrote(1)
		})
	}
}

func TestOrderNotSent(t *testing.T) {
	t.Parallel()
	r := build(t)
	on := r.remote()
	on.before = func(order bool) error {
		if order {
			return fmt.Errorf("connection refused: %w", hand.ErrUnavailable)
		}
		return nil
	}
	rec := r.fails("connection refused")
	if rec.Wait >= time.Minute || rec.Steps[0].Unknown {
		t.Errorf("it comes back after %s; the step may have been made: %t", rec.Wait, rec.Steps[0].Unknown)
	}
}

// A function that reports a call which its step does not declare opens the breaker of its class.
func TestUndeclaredCall(t *testing.T) {
	t.Parallel()
	r := build(t)
	on := r.remote()
	on.lie = func(answer []byte) []byte {
		var a hand.Answer
		var said hand.ApplyAnswer
		if json.Unmarshal(answer, &a) != nil || json.Unmarshal(a.Answer, &said) != nil || len(said.Calls) == 0 {
			return answer
		}
		said.Calls[0].Action = "ecs:DeleteInstance"
		a.Answer, _ = json.Marshal(said)
		answer, _ = json.Marshal(a)
		return answer
	}
	r.fails("does not declare")
	open, err := control.Breakers(t.Context(), r.env.Stream, r.env.Cluster)
	if err != nil || len(open) != 1 || open[0].Class != class {
		t.Errorf("the breakers are %v (%v)", open, err)
	}
}

func TestOutdated(t *testing.T) {
	t.Parallel()
	r := build(t)
	r.remote()
	old := r.env.Hand
	r.env.Hand = func(of *remedy.Remedy) hand.Hand {
		h := old(of)
		of.Texts = append(of.Texts, "a text that the function does not know")
		return h
	}
	rec, err, _ := r.try(r.event)
	if !errors.Is(err, hand.ErrOutdated) || rec.Result != event.Waiting || rec.Wait <= 0 {
		t.Errorf("it ends as %q and comes back after %s: %v", rec.Result, rec.Wait, err)
	}
	r.wrote(0)
}
