package stream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// MostDocument is how many bytes a document has at most. NATS takes 1 MiB with the headers.
const MostDocument = 1<<20 - 16<<10

// ErrTooLarge says that a document would be larger than MostDocument.
var ErrTooLarge = errors.New("the document would be too large")

// changes are the changes of documents that wait for their turn.
type changes struct {
	mu  sync.Mutex
	all map[string][]*change // by key; a key is in it as long as a goroutine serves it
}

// A change is one call of ChangeDocument.
type change struct {
	ctx  context.Context // of the caller: when it ends, the change is not begun
	do   func(doc any, now time.Time) (bool, error)
	done chan error // takes one answer
}

// ReadDocument returns the document under a key, and the time of the server, which no clock of a client can shift.
func ReadDocument[T any](ctx context.Context, s *Stream, key string, read func(value []byte) T) (doc T, now time.Time, err error) {
	e, now, err := s.document(ctx, key)
	if err == nil {
		doc = read(e.Value)
	}
	return doc, now, err
}

// ChangeDocument changes the document under a key by compare-and-set. read makes it of the value of the key, which is nil if
// the key has none; change changes it and reports whether it is to be stored. Where another process was faster, both are called
// again. An error of change is returned, and leaves the document as it was. With a TTL the key is gone so long after its last
// change; nothing that decides may depend on it.
//
// One goroutine per key does all changes that this process wants at once with one read and one write, so that the number of
// those who contend for a document is that of the processes. If ctx ends first, the change may still be made: what change sets
// may be used only if there is no error.
func ChangeDocument[T any](ctx context.Context, s *Stream, key string, ttl time.Duration, read func(value []byte) T,
	do func(doc T, now time.Time) (bool, error)) error {
	until, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	mine := &change{until, func(doc any, now time.Time) (bool, error) { return do(doc.(T), now) }, make(chan error, 1)}
	if !s.changes.put(key, mine) {
		go s.serveChanges(key, ttl, func(value []byte) any { return read(value) })
	}
	err := error(nil)
	select {
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

// put adds changes that wait, and reports whether the key is served.
func (c *changes) put(key string, more ...*change) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = map[string][]*change{}
	}
	waiting, served := c.all[key]
	c.all[key] = append(waiting, more...)
	return served
}

// take returns the changes of a key whose callers still wait. If there are none, the key is not served any more.
func (c *changes) take(key string) []*change {
	c.mu.Lock()
	defer c.mu.Unlock()
	batch := slices.DeleteFunc(c.all[key], func(one *change) bool { return one.ctx.Err() != nil })
	if c.all[key] = nil; len(batch) == 0 {
		delete(c.all, key)
	}
	return batch
}

// serveChanges does all changes of a key that wait, and those that come meanwhile.
func (s *Stream) serveChanges(key string, ttl time.Duration, read func([]byte) any) {
	for try := 0; ; try++ {
		batch := s.changes.take(key)
		if len(batch) == 0 {
			return
		}
		batch, err := s.changeAtOnce(key, ttl, batch, read)
		if errors.Is(err, ErrConflict) {
			s.changes.put(key, batch...)
			_ = pause(context.Background(), try)
			continue
		}
		try = 0
		for _, c := range batch {
			c.done <- err
		}
	}
}

// changeAtOnce makes changes with one read and one write, and returns those that are not answered yet.
func (s *Stream) changeAtOnce(key string, ttl time.Duration, batch []*change, read func([]byte) any) ([]*change, error) {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	e, now, err := s.document(ctx, key)
	if err != nil {
		return batch, err
	}
	for {
		doc, changed := read(e.Value), false
		refused := slices.IndexFunc(batch, func(c *change) bool {
			did, err := c.do(doc, now)
			if err != nil {
				c.done <- err
			}
			changed = changed || did
			return err != nil
		})
		if refused >= 0 { // it may have changed the document by half
			batch = slices.Delete(batch, refused, refused+1)
			continue
		}
		if !changed {
			return batch, nil
		}
		value, err := json.Marshal(doc)
		if err == nil && len(value) > MostDocument {
			err = fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, len(value), MostDocument)
		}
		if err == nil {
			_, err = s.Swap(ctx, key, value, e.Revision, ttl)
		}
		return batch, err
	}
}

// document returns what a key holds, and what time it is by the server's clock.
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
	case err == nil && e.Value == nil: // a message that is refused is a value that nobody can read
		e.Value = []byte{}
	}
	if now = info.TimeStamp; e.Time.After(now) { // another node's clock has dated it
		now = e.Time
	}
	return e, now, nil
}
