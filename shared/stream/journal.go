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

// tokens of a case's subject must hold nothing that a subject gives a meaning to.
var caseToken = regex.New(`^[A-Za-z0-9_-]{1,128}$`)

func validCase(tokens ...string) error {
	for _, t := range tokens {
		if !caseToken().MatchString(t) {
			return fmt.Errorf("name a case: %q must match %s", t, caseToken())
		}
	}
	return nil
}

// Audit appends a record of an object and class to CASES, whose message has this ID, and returns its sequence there. Last is
// that of the newest record that the caller knows of. A record that CASES holds behind that one is not appended again, so
// that records which are audited in their order, however often, are in CASES in their order, each once.
// ErrUnavailable: it may or may not be stored, and the same call may be made again.
func (s *Stream) Audit(ctx context.Context, cluster, uid, class, id string, header map[string][]string, data []byte, last uint64) (uint64, error) {
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

// after returns the sequence of a message behind another one, 0 if it is not there, and that of the newest message.
// One that a node which is behind the others does not know yet keeps the next append from being stored.
func (s *Stream) after(ctx context.Context, subject string, last uint64, id string) (known, newest uint64, err error) {
	err = s.EachAfter(ctx, Cases, subject, last, func(m Message) error {
		if newest = m.Sequence; m.ID() == id {
			known = m.Sequence
		}
		return nil
	})
	return known, newest, err
}

// Snapshot stores how the load balancers of a Service stood before a write of a class.
// It lies beside the records. What can't stand in a subject is an error.
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
