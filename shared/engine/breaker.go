package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/stream"
)

// A Breaker is open when fixes of a class did not work: from then on the class asks,
// until a person closes it.
type Breaker struct {
	Cluster string    `json:"cluster"`
	Class   string    `json:"class"`
	At      time.Time `json:"at"`
	Why     string    `json:"why"` // as a sentence
	Said    say.Text  `json:"said,omitempty"`
}

const (
	bears    = 3                // fixes of low or medium risk that did not work open a breaker,
	bearsFor = 10 * time.Minute // if they end within this time of each other
)

// because sets why the breaker is open.
func (b *Breaker) because(t say.Text) { b.Why, b.Said = t.String(), t }

// text returns that the breaker is open, and why.
func (b *Breaker) text() say.Text {
	t := say.F("The breaker of the class %s has been open since %s.", b.Class, b.At.Format(time.RFC3339))
	if b.At.IsZero() {
		t = say.F("The breaker of the class %s is open.", b.Class)
	}
	if b.Said.String() != b.Why {
		return t.Then(say.Literal(b.Why))
	}
	return t.Then(b.Said)
}

func breakerKey(cluster, class string) string { return "breaker." + cluster + "." + class }

// Breakers returns the open breakers of a cluster, or of all ("*").
func Breakers(ctx context.Context, s *stream.Stream, cluster string) ([]Breaker, error) {
	keys, err := s.Keys(ctx, "breaker."+cluster+".*")
	if err != nil {
		return nil, err
	}
	var all []Breaker
	for _, k := range keys {
		parts := strings.SplitN(k, ".", 3)
		b, err := breaker(ctx, s, parts[1], parts[2])
		if err != nil {
			return nil, err
		}
		if b != nil {
			all = append(all, *b)
		}
	}
	return all, nil
}

// CloseBreaker lets a class write again, and reports whether its breaker was open.
// The fixes that opened it count no more.
func CloseBreaker(ctx context.Context, s *stream.Stream, cluster, class string) (bool, error) {
	b, err := breaker(ctx, s, cluster, class)
	if err != nil {
		return false, err
	}
	if b == nil { // or a node has answered that does not know of it yet
		_, err := s.Take(ctx, breakerKey(cluster, class))
		if errors.Is(err, stream.ErrNotFound) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
	keys, err := s.Keys(ctx, "claim."+unsettledKey(cluster, class)+".*")
	if err != nil {
		return false, err
	}
	for _, k := range append(keys, breakerKey(cluster, class)) {
		if err := s.Delete(ctx, k); err != nil {
			return false, err
		}
	}
	return true, nil
}

// breaker returns the breaker of a class if it is open, else nil. One that can't be
// read is open.
func breaker(ctx context.Context, s *stream.Stream, cluster, class string) (*Breaker, error) {
	data, err := s.Get(ctx, breakerKey(cluster, class))
	if errors.Is(err, stream.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the breaker: %w", err)
	}
	return readBreaker(data, cluster, class), nil
}

func readBreaker(data []byte, cluster, class string) *Breaker {
	var b Breaker
	if json.Unmarshal(data, &b) != nil || b.Class != class {
		b = Breaker{Cluster: cluster, Class: class}
		b.because(say.F("The record of what opened it is unreadable."))
	}
	return &b
}

func unsettledKey(cluster, class string) string { return "unsettled." + cluster + "." + class }

// bore returns the risk of a fix that is written. What the class or the comparison found
// before it shows no more, so that the record counts, too: it opens a breaker, and allows
// nothing.
func bore(rec event.Record, steps []remedy.Step) remedy.Risk {
	said := remedy.High // of a record that doesn't say
	if err := said.UnmarshalText([]byte(rec.Risk)); err != nil {
		return remedy.High
	}
	return remedy.Plan{Risk: said, Steps: steps}.Highest()
}

// trip counts a fix of this risk that did not work, and opens the breaker of the class where it
// has borne enough: one of high risk, or three in ten minutes.
func (e *Env) trip(ctx context.Context, class string, rec event.Record, risk remedy.Risk, log *slog.Logger) error {
	why := say.F("A fix of high risk did not work: case %s.", rec.Case)
	if risk < remedy.High {
		// Who asks twice for one attempt holds one place.
		key := unsettledKey(e.Cluster, class)
		if _, err := e.Stream.Claim(ctx, key, bears, fmt.Sprintf("%s.%d", rec.Case, rec.Attempt), bearsFor); err != nil {
			return fmt.Errorf("count a fix that did not work: %w", err)
		}
		taken, err := e.Stream.Keys(ctx, "claim."+key+".*")
		if err != nil {
			return fmt.Errorf("count the fixes that did not work: %w", err)
		}
		if len(taken) < bears {
			return nil
		}
		why = say.F("%d fixes did not work within %d minutes, the last one in case %s.", bears, int(bearsFor.Minutes()), rec.Case)
	}
	return e.openBreaker(ctx, class, why, log)
}

// openBreaker opens the breaker of a class, unless it is open.
func (e *Env) openBreaker(ctx context.Context, class string, why say.Text, log *slog.Logger) error {
	b := Breaker{Cluster: e.Cluster, Class: class, At: e.now()}
	b.because(why)
	data, err := json.Marshal(b)
	if err != nil {
		return fmt.Errorf("encode the breaker: %w", err)
	}
	opened, err := e.Stream.Create(ctx, breakerKey(b.Cluster, b.Class), data, 0)
	if err != nil {
		return fmt.Errorf("open the breaker: %w", err)
	}
	if opened {
		log.Error("breaker opened", "reason", b.Why)
	}
	return nil
}
