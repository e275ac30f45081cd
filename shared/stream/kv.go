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

// The bucket is an ordinary NATS key-value bucket, so its tools can read it. This package writes it as a plain stream: one kind of
// write, one kind of error, and no lookup of the bucket before the first key.
//
// It allows no roll-up: a user who may write one key could remove all others with it. So a removed key is replaced by a mark, which
// expires after a minute. An expired key leaves no mark.
//
// A message with unreadable headers, or one that only the server may write, counts as a key with an unreadable value: a run that can't
// tell whether everything is paused must not write.
const (
	bucketStream = "KV_lbremedy"
	bucketPrefix = "$KV.lbremedy."
	markerTTL    = time.Minute // how long a removed key leaves a mark
)

// Get returns the value of a key, any text without empty parts between dots; ErrNotFound if it has none. A replica lags a few
// milliseconds, or longer while it is cut off.
func (s *Stream) Get(ctx context.Context, key string) ([]byte, error) {
	e, err := s.Entry(ctx, key)
	return e.Value, err
}

// Put sets the value of a key.
func (s *Stream) Put(ctx context.Context, key string, value []byte) error {
	return s.PutFor(ctx, key, value, 0)
}

// PutFor is Put with a TTL, after which the key is removed unless it is written again.
func (s *Stream) PutFor(ctx context.Context, key string, value []byte, ttl time.Duration) error {
	if _, err := s.set(ctx, key, value, "", nil, ttl); err != nil {
		return fmt.Errorf("put key %s: %w", key, err)
	}
	return nil
}

// Delete removes a key. A missing key is not an error.
func (s *Stream) Delete(ctx context.Context, key string) error {
	if _, err := s.set(ctx, key, nil, "PURGE", nil, markerTTL); err != nil {
		return fmt.Errorf("delete key %s: %w", key, err)
	}
	return nil
}

// An Entry is a key with its value.
type Entry struct {
	Key   string
	Value []byte
	// Revision grows with each write in the bucket, whatever the key.
	Revision uint64
	Time     time.Time // when the server stored it
}

// Entry returns a key with its value; ErrNotFound if it has none. Even then Swap takes the Revision: that of a removed key's mark, or 0.
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

// Entries returns the keys that match a filter, with their values, in the order of their last change. In a filter, "*" matches one part
// and a final ">" all following parts. A key written meanwhile may be missing; its Revision is higher.
func (s *Stream) Entries(ctx context.Context, filter string) ([]Entry, error) {
	var found []Entry
	err := s.EachEntry(ctx, filter, func(e Entry) { found = append(found, e) })
	if err != nil {
		return nil, fmt.Errorf("read keys %s: %w", filter, err)
	}
	return found, nil
}

// A View is what some keys held at one moment, without keys that have no value.
type View map[string]Entry

// View returns the values of at most 1,024 keys or filters, at one moment and in one round trip.
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
		if m.Subject == "" { // otherwise the key would seem absent
			return nil, fmt.Errorf("read keys: message %d of the bucket can't be read", m.Sequence)
		}
		if live(m) {
			key := keyOf(m.Subject)
			view[key] = Entry{Key: key, Value: s.value(m), Revision: m.Sequence, Time: m.Time}
		}
	}
	return view, nil
}

type mark struct {
	subject  string
	revision uint64
}

// Since returns a context in which View answers with the state since a key had this revision, and holds that key. While the answering
// node lags, View asks again; ErrUnavailable if that takes longer than a request may.
func Since(ctx context.Context, key string, revision uint64) context.Context {
	subject, err := subjectOf(key)
	if err != nil {
		panic(err) // a key with a revision is valid
	}
	return context.WithValue(ctx, mark{}, mark{subject, revision})
}

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
			return nil, err // the cause is not a lagging node
		}
		if slices.ContainsFunc(found, func(m Message) bool { return m.Subject == since.subject && m.Sequence >= since.revision }) {
			return found, nil
		}
		if err := pause(until, try); err != nil {
			return nil, behind(err)
		}
	}
}

func behind(err error) error {
	return fmt.Errorf("%w: the node of NATS that answers is behind the others: %w", ErrUnavailable, err)
}

// Swap sets the value of a key that still has this revision, and returns the new one; ErrConflict if it has been written since. A ttl is as in PutFor.
func (s *Stream) Swap(ctx context.Context, key string, value []byte, revision uint64, ttl time.Duration) (uint64, error) {
	revision, err := s.set(ctx, key, value, "", &revision, ttl)
	if err != nil {
		return 0, fmt.Errorf("swap key %s: %w", key, err)
	}
	return revision, nil
}

// EachEntry calls f for each entry of Entries. It skips a message that hides its key.
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

func live(m Message) bool {
	return refused(m) != "" || nats.Header(m.Header).Get("KV-Operation") == ""
}

func (s *Stream) value(m Message) []byte {
	why := refused(m)
	if why == "" {
		return m.Data
	}
	s.log.Error("a key is taken for one that can't be read", "subject", m.Subject, "sequence", m.Sequence, "reason", why)
	return nil
}

// refused returns why a message of the bucket is unreadable; empty if it is not.
func refused(m Message) string {
	if m.Time.IsZero() {
		return "its headers can't be read"
	}
	if name := event.Forged(m.Header, jetstream.MsgTTLHeader); name != "" {
		return fmt.Sprintf("it was stored with the header %.80q, which only NATS itself may write", name)
	}
	return ""
}

// set writes a key, or a mark of an operation on it, and returns the new revision; with expect, only if the key has that revision. The
// server counts a TTL in seconds, at least one.
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

// A byte that a subject or NATS's tools can't take becomes "=" and two hex digits, as "%" in URLs.
var escapes = strings.NewReplacer("~", "=7E", "+", "=20", "%", "=")

func subjectOf(key string) (string, error) {
	if slices.Contains(strings.Split(key, "."), "") {
		return "", fmt.Errorf("the key %q has an empty part", key)
	}
	return bucketPrefix + escapes.Replace(url.QueryEscape(key)), nil
}

func keyOf(subject string) string {
	text := strings.TrimPrefix(subject, bucketPrefix)
	if key, err := url.PathUnescape(strings.ReplaceAll(text, "=", "%")); err == nil {
		return key
	}
	return text
}
