package control

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/stream"
)

// A Pause stops every step that has not started.
type Pause struct {
	Cluster  string    `json:"cluster,omitempty"` // empty: all clusters
	By       string    `json:"by"`
	At       time.Time `json:"at"`
	Why      string    `json:"why,omitempty"`
	Identity string    `json:"identity,omitempty"` // of who paused, in the cluster, where one could be asked
	Host     string    `json:"host,omitempty"`     // the machine on which they did
}

// String says who has paused what, as a sentence.
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

// SetPause puts a pause in force, unless its cluster has one; with replace, also then.
func SetPause(ctx context.Context, s *stream.Stream, p Pause, replace bool) error {
	err := update(ctx, s, p.Cluster, func(d *Doc, _ time.Time) error {
		switch {
		case d.pause() != nil && !replace:
			return nil
		case d.broken != nil:
			*d = *empty(p.Cluster)
		}
		d.Pause = &p
		return nil
	})
	if err != nil {
		return fmt.Errorf("pause: %w", err)
	}
	return nil
}

// Resume ends the pause of a cluster, or that of all (""), and returns it; nil if there was none. Where the document can't be
// read, it puts an empty one in its place.
func Resume(ctx context.Context, s *stream.Stream, cluster string) (*Pause, error) {
	var was *Pause
	err := update(ctx, s, cluster, func(d *Doc, _ time.Time) error {
		was = d.pause()
		if d.broken != nil {
			*d = *empty(cluster)
		}
		d.Pause = nil
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("resume: %w", err)
	}
	return was, nil
}

// Pauses returns all pauses that are in force, that of all clusters first.
func Pauses(ctx context.Context, s *stream.Stream) ([]Pause, error) {
	docs, err := every(ctx, s)
	if err != nil {
		return nil, err
	}
	found := []Pause{}
	for _, d := range docs {
		if p := d.pause(); p != nil {
			found = append(found, *p)
		}
	}
	return found, nil
}

// every returns the documents that there are, that of all clusters first.
func every(ctx context.Context, s *stream.Stream) ([]*Doc, error) {
	view, err := s.View(ctx, all, all+".*")
	if err != nil {
		return nil, fmt.Errorf("read what is permitted: %w", err)
	}
	var docs []*Doc
	for _, key := range slices.Sorted(maps.Keys(view)) {
		cluster := strings.TrimPrefix(strings.TrimPrefix(key, all), ".")
		if cluster == "" || event.ValidCluster(cluster) == nil {
			docs = append(docs, in(view, cluster))
		}
	}
	return docs, nil
}

// Paused returns the pause that is in force in a cluster; nil if there is none. An error leaves that open: without an answer
// nothing may be written.
func Paused(ctx context.Context, s *stream.Stream, cluster string) (*Pause, error) {
	view, err := s.View(ctx, Keys(cluster)...)
	if err != nil {
		return nil, fmt.Errorf("read whether all is paused: %w", err)
	}
	return PauseIn(view, cluster), nil
}

// Keys are the keys of the documents that hold for a cluster, that of all clusters first.
func Keys(cluster string) []string { return slices.Compact([]string{Key(""), Key(cluster)}) }

// PauseIn is Paused for what Keys held.
func PauseIn(view stream.View, cluster string) *Pause {
	if p := in(view, "").pause(); p != nil {
		return p
	}
	return in(view, cluster).pause()
}

// pause returns the pause that the document holds, or is.
func (d *Doc) pause() *Pause {
	if d.broken != nil {
		return &Pause{Cluster: d.Cluster, By: "somebody", Why: "the document with pause, breakers and policy can't be read; to resume starts a new one"}
	}
	return d.Pause
}
