package stream

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lbremedy/lbremedy/shared/event"
)

// The bucket is an ordinary NATS key-value bucket, so that its tools can read
// it. It is written here as the stream that it is: one kind of write, one kind of
// error, and no lookup of the bucket before the first key.
//
// It allows no roll-up: by that a user who may write one key could remove all of them. So a key is removed by a mark that
// takes its place, since the stream holds one message of each, and that is gone after a minute. A key whose time is over
// leaves no mark.
//
// A message that has a header which only the server may write, or headers that can't be read, is a key all the same. Its
// value is one that nobody can read: a run that can't tell whether all is paused must not write.
const (
	bucketStream = "KV_lbremedy"
	bucketPrefix = "$KV.lbremedy."
	markerTTL    = time.Minute // how long a key that was removed leaves a mark
)

// Get returns the value of a key; ErrNotFound if it has none. A value may lag a
// few milliseconds behind on a replica, and as long as a node is cut off from the others on that one.
//
// A key may be any text without empty parts between its dots.
func (s *Stream) Get(ctx context.Context, key string) ([]byte, error) {
	e, err := s.Entry(ctx, key)
	return e.Value, err
}

// Put sets the value of a key.
func (s *Stream) Put(ctx context.Context, key string, value []byte) error {
	return s.PutFor(ctx, key, value, 0)
}

// PutFor is Put; with a TTL the key is gone after it, unless it is written again.
func (s *Stream) PutFor(ctx context.Context, key string, value []byte, ttl time.Duration) error {
	if _, err := s.set(ctx, key, value, "", nil, ttl); err != nil {
		return fmt.Errorf("put key %s: %w", key, err)
	}
	return nil
}

// Delete removes a key; it is no error if none exists.
func (s *Stream) Delete(ctx context.Context, key string) error {
	if _, err := s.set(ctx, key, nil, "PURGE", nil, markerTTL); err != nil {
		return fmt.Errorf("delete key %s: %w", key, err)
	}
	return nil
}

// Keys returns the keys that match a filter, in the order of their last change.
// In a filter, "*" stands for one part of a key and a last ">" for all that follows.
func (s *Stream) Keys(ctx context.Context, filter string) ([]string, error) {
	var keys []string
	err := s.EachEntry(ctx, filter, func(e Entry) { keys = append(keys, e.Key) })
	if err != nil {
		return nil, fmt.Errorf("list keys %s: %w", filter, err)
	}
	return keys, nil
}

// An Entry is a key with its value.
type Entry struct {
	Key   string
	Value []byte
	// Revision grows with each write in the bucket, whatever the key: of two entries
	// the one with the higher revision was written later.
	Revision uint64
	Time     time.Time // when the server stored it
}

// Entry returns a key with its value; ErrNotFound if it has none. The Revision is
// good for Swap in both cases: of a removed key it is that of the mark that it left, 0 if it left none.
func (s *Stream) Entry(ctx context.Context, key string) (Entry, error) {
	e := Entry{Key: key}
	subject, err := subjectOf(key)
	var m Message
	if err == nil {
		m, err = s.Last(ctx, bucketStream, subject)
	}
	if err == nil && m.Sequence == 0 { // its headers, which hold the sequence, can't be read
		found, lastErr := s.Lasts(ctx, bucketStream, subject)
		if err = lastErr; len(found) > 0 {
			m = found[0]
		} else if err == nil {
			err = ErrNotFound
		}
	}
	if e.Revision, e.Time = m.Sequence, m.Time; err == nil && !live(m) {
		err = ErrNotFound
	}
	if err != nil {
		return e, fmt.Errorf("get key %s: %w", key, err)
	}
	e.Value = s.value(m)
	return e, nil
}

// Entries returns the keys that match a filter, as Keys has it, with their values.
// One that is written meanwhile may be missing; its Revision will be higher than all
// of those returned.
func (s *Stream) Entries(ctx context.Context, filter string) ([]Entry, error) {
	var found []Entry
	err := s.EachEntry(ctx, filter, func(e Entry) { found = append(found, e) })
	if err != nil {
		return nil, fmt.Errorf("read keys %s: %w", filter, err)
	}
	return found, nil
}

// A View is what some keys held at one moment, by key. What had no value is not in it.
type View map[string]Entry

// View returns what these keys hold, and those that match these filters, all at one moment
// and in one round trip; at most 1,024 of them.
func (s *Stream) View(ctx context.Context, filters ...string) (View, error) {
	subjects := make([]string, len(filters))
	for i, f := range filters {
		if subjects[i] = bucketPrefix + f; strings.ContainsAny(f, "*>") {
			continue
		}
		var err error
		if subjects[i], err = subjectOf(f); err != nil {
			return nil, fmt.Errorf("read keys: %w", err)
		}
	}
	found, err := s.held(ctx, subjects...)
	if err != nil {
		return nil, fmt.Errorf("read keys: %w", err)
	}
	view := View{}
	for _, m := range found {
		if m.Subject == "" { // it would seem not to be there
			return nil, fmt.Errorf("read keys: message %d of the bucket can't be read", m.Sequence)
		}
		if live(m) {
			key := keyOf(m.Subject)
			view[key] = Entry{Key: key, Value: s.value(m), Revision: m.Sequence, Time: m.Time}
		}
	}
	return view, nil
}

// A mark is a revision that a key has had, by the subject of the key.
type mark struct {
	subject  string
	revision uint64
}

// Since returns a context in which View answers with what held when a key was given this revision, or with what is newer: a
// write that was acknowledged before that one is in it. Any node of NATS answers who reads, also one that is behind the
// others. Such a one is asked again until it has caught up, or another one answers; ErrUnavailable if that takes longer than
// a request may. The View holds that key, too.
func Since(ctx context.Context, key string, revision uint64) context.Context {
	subject, err := subjectOf(key)
	if err != nil {
		panic(err) // a key that has a revision is one
	}
	return context.WithValue(ctx, mark{}, mark{subject, revision})
}

// held returns the newest message of each of these subjects of the bucket as Since wants it, and that of the key of Since.
func (s *Stream) held(ctx context.Context, subjects ...string) ([]Message, error) {
	since, ok := ctx.Value(mark{}).(mark)
	if !ok {
		return s.Lasts(ctx, bucketStream, subjects...)
	}
	if !slices.Contains(subjects, since.subject) {
		subjects = append(slices.Clone(subjects), since.subject)
	}
	until, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	for try := 0; ; try++ {
		found, err := s.Lasts(until, bucketStream, subjects...)
		if err != nil && (try == 0 || until.Err() == nil) {
			return nil, err // it is not that a node is behind
		}
		if slices.ContainsFunc(found, func(m Message) bool { return m.Subject == since.subject && m.Sequence >= since.revision }) {
			return found, nil
		}
		if err := pause(until, try); err != nil {
			return nil, behind(err)
		}
	}
}

// behind says that what was read stayed older than what is known.
func behind(err error) error {
	return fmt.Errorf("%w: the node of NATS that answers is behind the others: %w", ErrUnavailable, err)
}

// Swap sets the value of a key that still has a revision, and returns the new one;
// ErrConflict if it has been written since. With a TTL the key is gone after it,
// unless it is written again; without, it stays.
func (s *Stream) Swap(ctx context.Context, key string, value []byte, revision uint64, ttl time.Duration) (uint64, error) {
	revision, err := s.set(ctx, key, value, "", &revision, ttl)
	if err != nil {
		return 0, fmt.Errorf("swap key %s: %w", key, err)
	}
	return revision, nil
}

// EachEntry calls f for what Entries returns, and keeps nothing of it. It leaves out a message that hides which key it is of.
func (s *Stream) EachEntry(ctx context.Context, filter string, f func(Entry)) error {
	return s.Each(ctx, bucketStream, bucketPrefix+filter, time.Time{}, func(m Message) error {
		switch {
		case m.Subject == "":
			s.log.Error("a message of the bucket hides which key it is of, and is left out", "sequence", m.Sequence)
		case live(m):
			f(Entry{Key: keyOf(m.Subject), Value: s.value(m), Revision: m.Sequence, Time: m.Time})
		}
		return nil
	})
}

// live reports whether a message of the bucket is a value, not the mark of a removed key.
func live(m Message) bool {
	return refused(m) != "" || nats.Header(m.Header).Get("KV-Operation") == ""
}

// value returns what a message of the bucket holds; nothing if it is refused.
func (s *Stream) value(m Message) []byte {
	why := refused(m)
	if why == "" {
		return m.Data
	}
	s.log.Error("a key is taken for one that can't be read", "subject", m.Subject, "sequence", m.Sequence, "reason", why)
	return nil
}

// refused returns why a message of the bucket is taken for one that can't be read; empty if it isn't.
func refused(m Message) string {
	if m.Time.IsZero() {
		return "its headers can't be read"
	}
	if name := event.Forged(m.Header, jetstream.MsgTTLHeader); name != "" {
		return fmt.Sprintf("it was stored with the header %.80q, which only NATS itself may write", name)
	}
	return ""
}

// set writes a key, with expect only if its revision is that one, or a mark of an operation on it. It returns the new revision. The server
// counts the life of a key in seconds, from one.
func (s *Stream) set(ctx context.Context, key string, value []byte, operation string, expect *uint64, ttl time.Duration) (uint64, error) {
	subject, err := subjectOf(key)
	if err != nil {
		return 0, err
	}
	m := &nats.Msg{Subject: subject, Header: nats.Header{jetstream.MsgIDHeader: {rand.Text()}}, Data: value}
	if operation != "" {
		m.Header.Set("KV-Operation", operation)
	}
	if ttl > 0 {
		m.Header.Set(jetstream.MsgTTLHeader, (ttl + time.Second - 1).Truncate(time.Second).String())
	}
	return s.once(ctx, bucketStream, m, expect)
}

// A byte that a subject or the tools of NATS can't take is written as "=" and two hex digits, as URLs do with "%".
var escapes = strings.NewReplacer("~", "=7E", "+", "=20", "%", "=")

// subjectOf returns the subject of a key.
func subjectOf(key string) (string, error) {
	if slices.Contains(strings.Split(key, "."), "") {
		return "", fmt.Errorf("the key %q has an empty part", key)
	}
	return bucketPrefix + escapes.Replace(url.QueryEscape(key)), nil
}

// keyOf returns the key of a subject.
func keyOf(subject string) string {
	text := strings.TrimPrefix(subject, bucketPrefix)
	if key, err := url.PathUnescape(strings.ReplaceAll(text, "=", "%")); err == nil {
		return key
	}
	return text
}
