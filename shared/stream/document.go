package stream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// MostDocument is the largest document in bytes: NATS takes 1 MiB with headers.
const MostDocument = 1<<20 - 16<<10

// ErrTooLarge means that a document would be larger than MostDocument.
var ErrTooLarge = errors.New("the document would be too large")

// ReadDocument returns the document under a key, and the server's time.
func ReadDocument[T any](ctx context.Context, s *Stream, key string, read func(value []byte) T) (doc T, now time.Time, err error) {
	e, now, err := s.document(ctx, key)
	if err == nil {
		doc = read(e.Value)
	}
	return doc, now, err
}

// ChangeDocument changes the document under a key by compare-and-set. read makes it from the key's value, nil if the key has none; do
// changes it and reports whether to store it. If another process was faster, both are called again. An error of do is returned and
// leaves the document as it was. A ttl removes the key that long after its last change: no decision may depend on it.
//
// All changes to a document that wait in this process share one read and one write. If ctx ends first, the change may still be made:
// use values that do sets only if ChangeDocument returns no error.
func ChangeDocument[T any](ctx context.Context, s *Stream, key string, ttl time.Duration, read func(value []byte) T,
	do func(doc T, now time.Time) (bool, error)) error {
	until, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	mine := &change{until, func(doc any, now time.Time) (bool, error) { return do(doc.(T), now) }, make(chan error, 1)}
	c := &s.changes[crc32.ChecksumIEEE([]byte(key))%uint32(len(s.changes))]
	c.add(key, mine)
	defer c.drop(key, mine)
	var err error
	select {
	case c.turn <- struct{}{}:
		s.change(c, key, ttl, func(value []byte) any { return read(value) })
		err = <-mine.done
	case err = <-mine.done:
	case <-until.Done():
		if err = ctx.Err(); err == nil {
			err = behind(until.Err())
		}
	}
	if err != nil {
		return fmt.Errorf("change key %s: %w", key, err)
	}
	return nil
}

type change struct {
	ctx  context.Context // if it has ended, the change is not begun
	do   func(doc any, now time.Time) (bool, error)
	done chan error // takes one answer
}

// try makes a panic fail only this change: its caller gets an error.
func (c *change) try(doc any, now time.Time) (did bool, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the change panicked: %v\n%s", p, debug.Stack())
		}
	}()
	return c.do(doc, now)
}

// changes are waiting, by the key of their document. The holder of the turn makes all changes of one document.
type changes struct {
	turn    chan struct{}
	mu      sync.Mutex
	waiting map[string][]*change
}

func (c *changes) add(key string, one *change) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting[key] = append(c.waiting[key], one)
}

func (c *changes) take(key string) []*change {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.waiting[key]
	delete(c.waiting, key)
	return all
}

func (c *changes) drop(key string, one *change) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting[key] = slices.DeleteFunc(c.waiting[key], func(other *change) bool { return other == one })
	if len(c.waiting[key]) == 0 {
		delete(c.waiting, key)
	}
}

// change makes all waiting changes of a document and releases the turn. If another process was faster, it starts over.
func (s *Stream) change(c *changes, key string, ttl time.Duration, read func(value []byte) any) {
	defer func() { <-c.turn }()
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout) // independent of the callers' contexts
	defer cancel()
	all, err := c.take(key), ErrConflict
	for try := 0; len(all) > 0 && errors.Is(err, ErrConflict); try++ {
		if err = pause(ctx, try); err == nil {
			all, err = s.changeOnce(ctx, key, ttl, all, read)
		}
	}
	if err != nil && ctx.Err() != nil {
		err = behind(ctx.Err())
	}
	for _, one := range all {
		one.done <- err
	}
}

// changeOnce returns the changes that did not fail on their own. A panic of read fails them all.
func (s *Stream) changeOnce(ctx context.Context, key string, ttl time.Duration, all []*change, read func(value []byte) any) (rest []*change, err error) {
	defer func() {
		if p := recover(); p != nil {
			rest, err = all, fmt.Errorf("the read of the document panicked: %v\n%s", p, debug.Stack())
		}
	}()
	e, now, err := s.document(ctx, key)
	if err != nil {
		return all, err
	}
again:
	doc, changed := read(e.Value), false
	for i, one := range all {
		did, err := false, one.ctx.Err()
		if err == nil {
			did, err = one.try(doc, now)
		}
		if err != nil { // it may have changed half of the document
			one.done <- err
			all = slices.Delete(all, i, i+1)
			goto again
		}
		changed = changed || did
	}
	if !changed {
		return all, nil
	}
	value, err := json.Marshal(doc)
	if err == nil && len(value) > MostDocument {
		err = fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, len(value), MostDocument)
	}
	if err == nil {
		_, err = s.Swap(ctx, key, value, e.Revision, ttl)
	}
	return all, err
}

func (s *Stream) document(ctx context.Context, key string) (e Entry, now time.Time, err error) {
	var info *jetstream.StreamInfo
	var untold error
	var asked sync.WaitGroup
	asked.Go(func() { info, untold = s.info(ctx, bucketStream) })
	e, err = s.Entry(ctx, key)
	asked.Wait()
	switch {
	case err != nil && !errors.Is(err, ErrNotFound):
		return e, now, err
	case untold != nil:
		return e, now, fmt.Errorf("ask NATS for the time: %w", untold)
	case err == nil && e.Value == nil: // a refused message is an unreadable value
		e.Value = []byte{}
	}
	if now = info.TimeStamp; e.Time.After(now) { // another node's clock has dated it
		now = e.Time
	}
	return e, now, nil
}
