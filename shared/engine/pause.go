package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
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

func pauseKey(cluster string) string {
	if cluster == "" {
		return "pause"
	}
	return "pause." + cluster
}

// SetPause puts a pause in force. Another one of the same cluster stays as it is.
func SetPause(ctx context.Context, s *stream.Stream, p Pause) error {
	data, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("encode the pause: %w", err)
	}
	if _, err := s.Create(ctx, pauseKey(p.Cluster), data, 0); err != nil {
		return fmt.Errorf("pause: %w", err)
	}
	return nil
}

// ReplacePause puts a pause in force, in place of the one of the same cluster.
func ReplacePause(ctx context.Context, s *stream.Stream, p Pause) error {
	data, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("encode the pause: %w", err)
	}
	if err := s.Put(ctx, pauseKey(p.Cluster), data); err != nil {
		return fmt.Errorf("pause: %w", err)
	}
	return nil
}

// Resume ends the pause of a cluster, or that of all (""), and returns it; nil if
// there was none.
func Resume(ctx context.Context, s *stream.Stream, cluster string) (*Pause, error) {
	was, err := s.Take(ctx, pauseKey(cluster))
	if errors.Is(err, stream.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("resume: %w", err)
	}
	return readPause(was, cluster), nil
}

// Pauses returns all pauses that are in force, that of all clusters first.
func Pauses(ctx context.Context, s *stream.Stream) ([]Pause, error) {
	keys, err := s.Keys(ctx, "pause.*")
	if err != nil {
		return nil, err
	}
	slices.Sort(keys)
	all := []Pause{}
	for _, k := range append([]string{"pause"}, keys...) {
		p, err := pauseOf(ctx, s, strings.TrimPrefix(strings.TrimPrefix(k, "pause"), "."))
		if err != nil {
			return nil, err
		}
		if p != nil {
			all = append(all, *p)
		}
	}
	return all, nil
}

// Paused returns the pause that is in force in a cluster; nil if there is none. One
// that can't be decoded is one all the same, and an error leaves it open: who can't
// tell must not write.
func Paused(ctx context.Context, s *stream.Stream, cluster string) (*Pause, error) {
	view, err := s.View(ctx, pauseKeys(cluster)...)
	if err != nil {
		return nil, fmt.Errorf("read whether all is paused: %w", err)
	}
	return pauseIn(view, cluster), nil
}

// pauseKeys are the keys of the pauses that hold in a cluster, that of all clusters first.
func pauseKeys(cluster string) []string {
	if cluster == "" {
		return []string{pauseKey("")}
	}
	return []string{pauseKey(""), pauseKey(cluster)}
}

// pauseIn is Paused for what the keys held.
func pauseIn(view stream.View, cluster string) *Pause {
	for i, key := range pauseKeys(cluster) {
		if e, ok := view[key]; ok {
			return readPause(e.Value, []string{"", cluster}[i])
		}
	}
	return nil
}

func pauseOf(ctx context.Context, s *stream.Stream, cluster string) (*Pause, error) {
	data, err := s.Get(ctx, pauseKey(cluster))
	if errors.Is(err, stream.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read whether all is paused: %w", err)
	}
	return readPause(data, cluster), nil
}

func readPause(data []byte, cluster string) *Pause {
	var p Pause
	if json.Unmarshal(data, &p) != nil || p.By == "" || p.Cluster != cluster {
		p = Pause{Cluster: cluster, By: "somebody", Why: "who and why can't be read"}
	}
	return &p
}
