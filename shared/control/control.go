// Package control holds the documents that limit what engines write: control.<cluster> with pause and breakers, budget.<cluster> with the
// places in the budgets, and claim.<resource> with the places of a resource. They are JSON values in the bucket, changed by compare-and-set.
// The NATS server's time decides. An unreadable document permits nothing: everything is paused, and every breaker is open. Begin with
// [Update], [PauseIn], [RecordFailedFix] and [Spend].
package control

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/stream"
)

// ErrUnreadable means that the key holds something other than a document of this program.
var ErrUnreadable = errors.New("the document can't be read")

// A Head begins each document.
type Head struct {
	V   int    `json:"v"`
	Key string `json:"key"` // of the document

	broken error // why it can't be read; the document is empty then
}

func (h *Head) head() *Head { return h }

const version = 1

// A Doc holds the pause and breakers of one cluster. The document of all clusters has only a pause.
type Doc struct {
	Head
	Pause    *Pause                          `json:"pause,omitempty"`
	Breakers map[string]Breaker              `json:"breakers,omitempty"` // open ones, by class
	Failed   map[string]map[string]time.Time `json:"failed,omitempty"`   // times of recent fixes that did not work, by class and attempt
}

// all is the key of the document of all clusters. Keys of single clusters have two parts.
const all = "control"

// Key returns the key of the document of a cluster, or that of all ("").
func Key(cluster string) string { return strings.TrimSuffix(all+"."+cluster, ".") }

// Keys returns the keys of the documents that apply to a cluster, that of all clusters first.
func Keys(cluster string) []string { return slices.Compact([]string{all, Key(cluster)}) }

// Update changes the document of a cluster, or that of all (""). change may be called again, never concurrently; now is the server's time.
// An error leaves the document as it was. The error is ErrUnreadable if the document can't be read; Resume makes a new one.
func Update(ctx context.Context, s *stream.Stream, cluster string, change func(d *Doc, now time.Time) error) error {
	return update(ctx, s, cluster, func(d *Doc, now time.Time) error {
		if d.broken != nil {
			return d.broken
		}
		return change(d, now)
	})
}

// update is Update that also gives change an unreadable document.
func update(ctx context.Context, s *stream.Stream, cluster string, change func(d *Doc, now time.Time) error) error {
	if err := event.ValidCluster(cluster); cluster != "" && err != nil {
		return err
	}
	return stream.ChangeDocument(ctx, s, Key(cluster), 0, reader[Doc](Key(cluster)), func(d *Doc, now time.Time) (bool, error) {
		err := change(d, now)
		return d.broken == nil, err // stored even without a change: a successful store proves that it was current
	})
}

func every(ctx context.Context, s *stream.Stream, f func(cluster string, d *Doc)) error {
	view, err := s.View(ctx, all, all+".*")
	if err != nil {
		return fmt.Errorf("read what is permitted: %w", err)
	}
	for _, key := range slices.Sorted(maps.Keys(view)) {
		f(strings.TrimPrefix(key[len(all):], "."), in(view, key))
	}
	return nil
}

func in(view stream.View, key string) *Doc {
	e, ok := view[key]
	if ok && e.Value == nil { // a refused message
		e.Value = []byte{}
	}
	return reader[Doc](key)(e.Value)
}

// reader returns a function that makes a document from the value of the key; nil means that the key has no value.
func reader[T any, P interface {
	*T
	head() *Head
}](key string) func(value []byte) P {
	empty := func(why error) P {
		d := P(new(T))
		*d.head() = Head{version, key, why}
		return d
	}
	return func(value []byte) P {
		if value == nil {
			return empty(nil)
		}
		d := P(new(T))
		if err := event.DecodeStrict(value, d); err != nil {
			return empty(fmt.Errorf("%w: key %s: %w", ErrUnreadable, key, err))
		}
		if h := d.head(); h.V != version || h.Key != key {
			return empty(fmt.Errorf("%w: key %s: it has version %d and is of key %.80q", ErrUnreadable, key, h.V, h.Key))
		}
		return d
	}
}
