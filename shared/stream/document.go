package stream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// MostDocument is how many bytes a document has at most. NATS takes 1 MiB with the headers.
const MostDocument = 1<<20 - 16<<10

// ErrTooLarge says that a document would be larger than MostDocument.
var ErrTooLarge = errors.New("the document would be too large")

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
// The changes that this process wants to a document are made one after the other, so that only processes contend for it.
func ChangeDocument[T any](ctx context.Context, s *Stream, key string, ttl time.Duration, read func(value []byte) T,
	do func(doc T, now time.Time) (bool, error)) error {
	until, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err := ErrConflict
	turn := s.turns[int(crc32.ChecksumIEEE([]byte(key)))%len(s.turns)]
	select {
	case turn <- struct{}{}:
		defer func() { <-turn }()
		for try := 0; errors.Is(err, ErrConflict); try++ {
			if err = pause(until, try); err == nil {
				err = changeOnce(until, s, key, ttl, read, do)
			}
		}
	case <-until.Done():
		err = until.Err()
	}
	if err != nil {
		if ctx.Err() == nil && until.Err() != nil {
			err = behind(until.Err())
		}
		return fmt.Errorf("change key %s: %w", key, err)
	}
	return nil
}

func changeOnce[T any](ctx context.Context, s *Stream, key string, ttl time.Duration, read func(value []byte) T,
	do func(doc T, now time.Time) (bool, error)) error {
	e, now, err := s.document(ctx, key)
	if err != nil {
		return err
	}
	doc := read(e.Value)
	changed, err := do(doc, now)
	if err != nil || !changed {
		return err
	}
	value, err := json.Marshal(doc)
	if err != nil {
		return err
	}
	if len(value) > MostDocument {
		return fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, len(value), MostDocument)
	}
	_, err = s.Swap(ctx, key, value, e.Revision, ttl)
	return err
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
