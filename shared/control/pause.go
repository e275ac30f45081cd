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

// A Pause stops every step that has not started.
type Pause struct {
	Cluster  string    `json:"cluster,omitempty"` // empty: all clusters
	By       string    `json:"by"`
	At       time.Time `json:"at"`
	Why      string    `json:"why,omitempty"`
	Identity string    `json:"identity,omitempty"` // of the person, in the cluster, if one could be asked
	Host     string    `json:"host,omitempty"`     // the machine on which they paused
}

// String returns the pause as a sentence.
func (p Pause) String() string { return p.Text().String() }

// Text returns the pause as a message.
func (p Pause) Text() say.Text {
	at := p.At.Format(time.RFC3339)
	switch {
	case p.At.IsZero() && p.Why == "":
		return say.F("Paused by %s.", p.By)
	case p.At.IsZero():
		return say.F("Paused by %s: %s.", p.By, p.Why)
	case p.Why == "":
		return say.F("Paused by %s at %s.", p.By, at)
	}
	return say.F("Paused by %s at %s: %s.", p.By, at, p.Why)
}

// SetPause puts a pause in force; replace overrides an existing one, which otherwise stays.
func SetPause(ctx context.Context, s *stream.Stream, p Pause, replace bool) error {
	return update(ctx, s, p.Cluster, func(d *Doc, _ time.Time) error {
		if replace || d.pause(p.Cluster) == nil {
			d.Pause, d.broken = &p, nil
		}
		return nil
	})
}

// Resume ends the pause of a cluster, or that of all (""), and returns it, or nil. It replaces an unreadable document by an empty one.
func Resume(ctx context.Context, s *stream.Stream, cluster string) (*Pause, error) {
	var was *Pause
	err := update(ctx, s, cluster, func(d *Doc, _ time.Time) error {
		was = d.pause(cluster)
		d.Pause, d.broken = nil, nil
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("resume: %w", err)
	}
	return was, nil
}

// Pauses returns all pauses in force, that of all clusters first.
func Pauses(ctx context.Context, s *stream.Stream) ([]Pause, error) {
	found := []Pause{}
	err := every(ctx, s, func(cluster string, d *Doc) {
		if p := d.pause(cluster); p != nil {
			found = append(found, *p)
		}
	})
	return found, err
}

// PausesIn returns the pauses in force in a cluster: its own and that of all clusters. The empty ID means every cluster.
func PausesIn(ctx context.Context, s *stream.Stream, cluster string) ([]Pause, error) {
	found, err := Pauses(ctx, s)
	return slices.DeleteFunc(found, func(p Pause) bool { return cluster != "" && p.Cluster != "" && p.Cluster != cluster }), err
}

// Paused returns the pause in force in a cluster, or nil. After an error, nothing may be written.
func Paused(ctx context.Context, s *stream.Stream, cluster string) (*Pause, error) {
	view, err := s.View(ctx, Keys(cluster)...)
	if err != nil {
		return nil, fmt.Errorf("read whether all is paused: %w", err)
	}
	return PauseIn(view, cluster), nil
}

// PauseIn is Paused for a view of Keys.
func PauseIn(view stream.View, cluster string) *Pause {
	if p := in(view, all).pause(""); p != nil {
		return p
	}
	return in(view, Key(cluster)).pause(cluster)
}

// pause returns the pause in the document; an unreadable document counts as one.
func (d *Doc) pause(cluster string) *Pause {
	switch {
	case d.broken != nil:
		return &Pause{Cluster: cluster, By: "somebody", Why: "the document with pause, breakers and policy can't be read; resume replaces it"}
	case d.Pause != nil:
		d.Pause.Cluster = cluster
	}
	return d.Pause
}

// A Breaker is open after fixes of a class did not work: the class asks until a person closes it.
type Breaker struct {
	Cluster string    `json:"cluster"`
	Class   string    `json:"class"`
	At      time.Time `json:"at"`
	Why     say.Text  `json:"why"` // a sentence
}

// Text returns a sentence that the breaker is open, and why.
func (b *Breaker) Text() say.Text {
	t := say.F("The breaker of the class %s has been open since %s.", b.Class, b.At.Format(time.RFC3339))
	if b.At.IsZero() {
		t = say.F("The breaker of the class %s is open.", b.Class)
	}
	return t.Then(b.Why)
}

// In returns the breaker with its sentence fixed in a language; nil is English.
func (b Breaker) In(l *say.Language) Breaker {
	b.Why = say.Literal(b.Why.In(l))
	return b
}

// AnyClass means all classes, whose breakers are open while the document can't be read.
const AnyClass = "*"

// Breakers returns the open breakers of a cluster, or of all ("").
func Breakers(ctx context.Context, s *stream.Stream, cluster string) ([]Breaker, error) {
	var open []Breaker
	err := every(ctx, s, func(of string, d *Doc) {
		if of == "" || cluster != "" && of != cluster {
			return
		}
		for _, class := range slices.Sorted(maps.Keys(d.Breakers)) {
			open = append(open, *d.breaker(of, class))
		}
		if d.broken != nil {
			open = append(open, *d.breaker(of, AnyClass))
		}
	})
	return open, err
}

// BreakerIn returns the open breaker of a class from a view of Keys, or nil. An unreadable document counts as a pause, so nobody is asked.
func BreakerIn(view stream.View, cluster, class string) *Breaker {
	d := in(view, Key(cluster))
	if d.broken != nil {
		return nil
	}
	return d.breaker(cluster, class)
}

func (d *Doc) breaker(cluster, class string) *Breaker {
	b, open := d.Breakers[class]
	if d.broken != nil {
		b.Why = say.F("The record of what opened it is unreadable.")
	} else if !open {
		return nil
	}
	b.Cluster, b.Class = cluster, class
	return &b
}

// CloseBreaker closes the breaker of a class and reports whether it was open. The fixes that opened it no longer count.
func CloseBreaker(ctx context.Context, s *stream.Stream, cluster, class string) (was bool, err error) {
	err = Update(ctx, s, cluster, func(d *Doc, _ time.Time) error {
		_, was = d.Breakers[class]
		delete(d.Breakers, class)
		delete(d.Failed, class)
		return nil
	})
	return err == nil && was, err
}

// Window is how long fixes that did not work count.
const Window = 10 * time.Minute

// RecordFailedFix counts an attempt that did not work, once. When the number within Window reaches most, it opens a closed breaker and returns it.
func RecordFailedFix(ctx context.Context, s *stream.Stream, cluster, class, attempt string, most int, why say.Text) (*Breaker, error) {
	var opened *Breaker
	err := Update(ctx, s, cluster, func(d *Doc, now time.Time) error {
		opened = nil
		failed := map[string]time.Time{attempt: now}
		for other, at := range d.Failed[class] {
			if at.Add(Window).After(now) {
				failed[other] = at
			}
		}
		d.Failed = with(d.Failed, class, failed)
		if _, open := d.Breakers[class]; !open && len(failed) >= most {
			opened = &Breaker{Cluster: cluster, Class: class, At: now, Why: why}
			d.Breakers = with(d.Breakers, class, *opened)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("count a fix that did not work: %w", err)
	}
	return opened, nil
}

func with[V any](m map[string]V, key string, value V) map[string]V {
	if m == nil {
		m = map[string]V{}
	}
	m[key] = value
	return m
}
