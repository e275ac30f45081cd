package control

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

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

// Text returns that the breaker is open, and why.
func (b *Breaker) Text() say.Text {
	t := say.F("The breaker of the class %s has been open since %s.", b.Class, b.At.Format(time.RFC3339))
	if b.At.IsZero() {
		t = say.F("The breaker of the class %s is open.", b.Class)
	}
	if b.Said.String() != b.Why {
		return t.Then(say.Literal(b.Why))
	}
	return t.Then(b.Said)
}

// AnyClass stands for all classes, whose breakers are open where the document can't be read.
const AnyClass = "*"

// Breakers returns the open breakers of a cluster, or of all ("").
func Breakers(ctx context.Context, s *stream.Stream, cluster string) ([]Breaker, error) {
	docs, err := every(ctx, s)
	if err != nil {
		return nil, err
	}
	var open []Breaker
	for _, d := range docs {
		if d.Cluster == "" || cluster != "" && d.Cluster != cluster {
			continue
		}
		for _, class := range slices.Sorted(maps.Keys(d.Breakers)) {
			open = append(open, *d.Breakers[class])
		}
		if d.broken != nil {
			open = append(open, *d.Breaker(AnyClass))
		}
	}
	return open, nil
}

// BreakerIn returns the breaker of a class if it is open, else nil, of what Keys held.
func BreakerIn(view stream.View, cluster, class string) *Breaker {
	return in(view, cluster).Breaker(class)
}

// Breaker returns the breaker of a class if it is open, else nil.
func (d *Doc) Breaker(class string) *Breaker {
	if d.broken == nil {
		return d.Breakers[class]
	}
	b := &Breaker{Cluster: d.Cluster, Class: class}
	b.because(say.F("The record of what opened it is unreadable."))
	return b
}

// CloseBreaker lets a class write again, and reports whether its breaker was open. The fixes that opened it count no more.
func CloseBreaker(ctx context.Context, s *stream.Stream, cluster, class string) (bool, error) {
	var open bool
	err := Update(ctx, s, cluster, func(d *Doc, _ time.Time) error {
		open = d.Breakers[class] != nil
		delete(d.Breakers, class)
		delete(d.Failed, class)
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("close the breaker of class %s: %w", class, err)
	}
	return open, nil
}

// OpenBreaker opens the breaker of a class, unless it is open, and returns it then.
func OpenBreaker(ctx context.Context, s *stream.Stream, cluster, class string, why say.Text) (opened *Breaker, err error) {
	return open(ctx, s, cluster, class, func(*Doc, time.Time) say.Text { return why })
}

// Count counts a fix that did not work, once for each attempt. It opens the breaker of the class where there were
// too many lately, unless it is open, and returns it then.
func Count(ctx context.Context, s *stream.Stream, cluster, class, id string, attempt int) (opened *Breaker, err error) {
	name := fmt.Sprintf("%s.%d", id, attempt)
	return open(ctx, s, cluster, class, func(d *Doc, now time.Time) say.Text {
		failed := slices.DeleteFunc(d.Failed[class], func(f Failed) bool { return !f.At.Add(bearsFor).After(now) })
		if !slices.ContainsFunc(failed, func(f Failed) bool { return f.Attempt == name }) {
			failed = append(failed, Failed{name, now})
		}
		if d.Failed == nil {
			d.Failed = map[string][]Failed{}
		}
		d.Failed[class] = failed[max(0, len(failed)-bears):]
		if len(failed) < bears {
			return nil
		}
		return say.F("%d fixes did not work within %d minutes, the last one in case %s.", bears, int(bearsFor.Minutes()), id)
	})
}

// open opens the breaker of a class for a reason, if there is one.
func open(ctx context.Context, s *stream.Stream, cluster, class string, because func(*Doc, time.Time) say.Text) (opened *Breaker, err error) {
	err = Update(ctx, s, cluster, func(d *Doc, now time.Time) error {
		opened = nil
		why := because(d, now)
		if len(why) == 0 || d.Breakers[class] != nil {
			return nil
		}
		if d.Breakers == nil {
			d.Breakers = map[string]*Breaker{}
		}
		opened = &Breaker{Cluster: cluster, Class: class, At: now}
		opened.because(why)
		d.Breakers[class] = opened
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("open the breaker of class %s: %w", class, err)
	}
	return opened, nil
}
