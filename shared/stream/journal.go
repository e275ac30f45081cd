package stream

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/regex"
)

// caseToken excludes characters with a meaning in subjects.
var caseToken = regex.New(`^[A-Za-z0-9_-]{1,128}$`)

func validCase(tokens ...string) error {
	for _, t := range tokens {
		if !caseToken().MatchString(t) {
			return fmt.Errorf("name a case: %q must match %s", t, caseToken())
		}
	}
	return nil
}

// AppendRecord appends a record of an object and class to CASES, with id as the ID of its message, and returns its sequence. last is the
// sequence of the newest record that the caller knows. A record that CASES holds after last is not appended again: if records are
// always journaled in order, CASES holds each once, in that order. ErrUnavailable: it may or may not be stored, and the call may be
// repeated.
func (s *Stream) AppendRecord(ctx context.Context, cluster, uid, class, id string, header map[string][]string, data []byte, last uint64) (uint64, error) {
	if err := validCase(cluster, uid, class); err != nil {
		return last, err
	}
	m := outgoing(event.CaseSubject(cluster, uid, class), header, data)
	m.Header.Set(jetstream.MsgIDHeader, id)
	newest := last
	for try := 0; ; try++ {
		stored, err := s.once(ctx, Cases, m, &newest)
		if !errors.Is(err, ErrConflict) {
			if err != nil {
				return newest, fmt.Errorf("append a record: %w", err)
			}
			return stored, nil
		}
		known := uint64(0)
		known, newest, err = s.after(ctx, m.Subject, last, id)
		if err == nil && newest == 0 { // CASES was emptied since, or restored from a copy
			known, newest, err = s.after(ctx, m.Subject, 0, id)
		}
		if err != nil || known != 0 {
			return known, err
		}
		if err := pause(ctx, try); err != nil {
			return last, err
		}
	}
}

// after returns the sequence of the message with this ID behind last, 0 if absent, and that of the newest message. If a lagging node
// does not know a message yet, the server refuses the next append.
func (s *Stream) after(ctx context.Context, subject string, last uint64, id string) (known, newest uint64, err error) {
	err = s.EachAfter(ctx, Cases, subject, last, func(m Message) error {
		if newest = m.Sequence; m.ID() == id {
			known = m.Sequence
		}
		return nil
	})
	return known, newest, err
}

// Snapshot stores the state of a Service's load balancers before a write of a class. It fails on an ID that can't be part of a subject.
func (s *Stream) Snapshot(ctx context.Context, cluster, serviceUID, class string, header map[string][]string, data []byte) error {
	if err := validCase(cluster, serviceUID, class); err != nil {
		return err
	}
	m := outgoing(event.KeptSubject(cluster, serviceUID, class), header, data)
	m.Header.Set(jetstream.MsgIDHeader, rand.Text())
	if _, err := s.once(ctx, Cases, m, nil); err != nil {
		return fmt.Errorf("store a snapshot: %w", err)
	}
	return nil
}
