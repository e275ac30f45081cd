package stream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// MostDocument is how many bytes a document has at most. NATS takes 1 MiB with the headers.
const MostDocument = 768 << 10

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
	if err != nil {
		return doc, now, err
	}
	return read(e.Value), now, nil
}

// ChangeDocument changes the document under a key by compare-and-set. read makes it of the value of the key, which is nil if
// the key has none; change changes it and reports whether it is to be stored. Where another process was faster, both are called
// again. An error of change is returned, and leaves the document as it was.
//
// One goroutine per key does all changes that this process wants at once with one read and one write, so that the number of
// those who contend for a document is that of the processes. With a TTL the key is gone so long after its last change; nothing
// that decides may depend on it. If ctx ends first, the change may still be made, so what change
// sets may be used only if there is no error.
func ChangeDocument[T any](ctx context.Context, s *Stream, key string, ttl time.Duration, read func(value []byte) T,
	change func(doc T, now time.Time) (bool, error)) error {
	return s.change(ctx, key, ttl,
		func(value []byte) any { return read(value) },
		func(doc any, now time.Time) (bool, error) { return change(doc.(T), now) })
}

func (s *Stream) change(ctx context.Context, key string, ttl time.Duration, read func([]byte) any, do func(any, time.Time) (bool, error)) error {
	until, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	mine := &change{until, do, make(chan error, 1)}
	s.changes.mu.Lock()
	if s.changes.all == nil {
		s.changes.all = map[string][]*change{}
	}
	waiting, served := s.changes.all[key]
	s.changes.all[key] = append(waiting, mine)
	s.changes.mu.Unlock()
	if !served {
		go s.serveChanges(key, ttl, read)
	}
	select {
	case err := <-mine.done:
		return err
	case <-until.Done():
		if ctx.Err() != nil {
			return fmt.Errorf("change key %s: %w", key, ctx.Err())
		}
		return fmt.Errorf("change key %s: %w", key, behind(until.Err()))
	}
}

// serveChanges does all changes of a key that wait, and those that come meanwhile.
func (s *Stream) serveChanges(key string, ttl time.Duration, read func([]byte) any) {
	for try := 0; ; try++ {
		s.changes.mu.Lock()
		batch := slices.DeleteFunc(s.changes.all[key], func(c *change) bool { return c.ctx.Err() != nil })
		if len(batch) == 0 {
			delete(s.changes.all, key)
			s.changes.mu.Unlock()
			return
		}
		s.changes.all[key] = nil
		s.changes.mu.Unlock()

		batch, err := s.changeOnce(key, ttl, batch, read)
		if err == nil {
			try = -1
		}
		if errors.Is(err, ErrConflict) { // of those who still want it, and those who have come, all try again
			_ = pause(context.Background(), try)
			s.changes.mu.Lock()
			s.changes.all[key] = append(batch, s.changes.all[key]...)
			s.changes.mu.Unlock()
			continue
		}
		answer(batch, err)
	}
}

func answer(batch []*change, err error) {
	for _, c := range batch {
		c.done <- err
	}
}

// changeOnce makes changes with one read and one write, and returns those that are not answered yet.
func (s *Stream) changeOnce(key string, ttl time.Duration, batch []*change, read func([]byte) any) ([]*change, error) {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	e, now, err := s.document(ctx, key)
	if err != nil {
		return batch, err
	}
	for {
		doc, changed, refused := read(e.Value), false, -1
		for i, c := range batch {
			did, err := c.do(doc, now)
			if err != nil {
				c.done <- err
				refused = i
				break
			}
			changed = changed || did
		}
		if refused >= 0 { // it may have changed the document by half
			batch = slices.Delete(batch, refused, refused+1)
			continue
		}
		if !changed {
			return batch, nil
		}
		value, err := json.Marshal(doc)
		switch {
		case err != nil:
			return batch, fmt.Errorf("encode key %s: %w", key, err)
		case len(value) > MostDocument && len(batch) > 1: // one by one shows which of them makes it so
			var again []*change
			for _, c := range batch {
				one, err := s.changeOnce(key, ttl, []*change{c}, read)
				if errors.Is(err, ErrConflict) {
					again = append(again, one...)
					continue
				}
				answer(one, err)
			}
			if again != nil {
				err = ErrConflict
			}
			return again, err
		case len(value) > MostDocument:
			return batch, fmt.Errorf("change key %s: %w: %d bytes, at most %d", key, ErrTooLarge, len(value), MostDocument)
		}
		_, err = s.Swap(ctx, key, value, e.Revision, ttl)
		return batch, err
	}
}

// document returns what a key holds and what time it is by the server's clock.
func (s *Stream) document(ctx context.Context, key string) (e Entry, now time.Time, err error) {
	type clock struct {
		now time.Time
		err error
	}
	told := make(chan clock, 1)
	go func() {
		info, err := s.info(ctx, bucketStream)
		if err != nil {
			told <- clock{err: err}
			return
		}
		told <- clock{now: info.TimeStamp}
	}()
	e, err = s.Entry(ctx, key)
	c := <-told
	switch {
	case err != nil && !errors.Is(err, ErrNotFound):
		return e, now, err
	case c.err != nil:
		return e, now, fmt.Errorf("ask NATS for the time: %w", c.err)
	case e.Time.After(c.now): // another node's clock has dated it
		c.now = e.Time
	}
	if err == nil && e.Value == nil { // a message that is refused is a value that nobody can read
		e.Value = []byte{}
	}
	return e, c.now, nil
}
