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

// A Journal is what CASES holds of one object and class. It belongs to one writer and is not for several goroutines.
type Journal struct {
	stream  *Stream
	subject string
	last    uint64 // sequence of the newest record that the writer knows of
	bad     error  // the names make no subject
}

// tokens of a case's subject must hold nothing that a subject gives a meaning to.
var caseToken = regex.New(`^[A-Za-z0-9_-]{1,128}$`)

// Journal returns the journal of an object and class. What can't stand in a
// subject is an error of Load and Append.
func (s *Stream) Journal(cluster, uid, class string) *Journal {
	j := &Journal{stream: s, subject: event.CaseSubject(cluster, uid, class)}
	for _, t := range []string{cluster, uid, class} {
		if !caseToken().MatchString(t) {
			j.bad = fmt.Errorf("name a journal: %q must match %s", t, caseToken())
		}
	}
	return j
}

// Load returns the newest record, nil if there is none, and remembers its sequence.
func (j *Journal) Load(ctx context.Context) (*Message, error) {
	if j.bad != nil {
		return nil, j.bad
	}
	m, err := j.stream.Last(ctx, Cases, j.subject)
	if errors.Is(err, ErrNotFound) {
		j.last = 0
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("load the journal: %w", err)
	}
	j.last = m.Sequence
	return &m, nil
}

// Append stores a record if nobody has appended one since this journal's Load or last Append; without a Load, if there is none.
// ErrConflict: somebody has, and nothing is stored. ErrUnavailable: it may or may not be stored.
//
// The stored ID is msgID and a random end: which of two appends was first is for
// the sequence to decide, and the end tells a writer its own record.
func (j *Journal) Append(ctx context.Context, msgID string, header map[string][]string, data []byte) error {
	return j.append(ctx, msgID+"."+rand.Text(), header, data)
}

func (j *Journal) append(ctx context.Context, id string, header map[string][]string, data []byte) error {
	if j.bad != nil {
		return j.bad
	}
	m := outgoing(j.subject, header, data)
	m.Header.Set(jetstream.MsgIDHeader, id)
	last, err := j.stream.once(ctx, Cases, m, &j.last)
	if err != nil {
		return fmt.Errorf("append to the journal: %w", err)
	}
	j.last = last
	return nil
}

// Audit appends a record of an object and class to CASES, whose message has this ID, and returns its sequence there. Last is
// that of the newest record that the caller knows of. A record that CASES holds behind that one is not appended again, so
// that records which are audited in their order, however often, stand there in their order, each once.
// ErrUnavailable: it may or may not be stored, and the same call may be made again.
func (s *Stream) Audit(ctx context.Context, cluster, uid, class, id string, header map[string][]string, data []byte, last uint64) (uint64, error) {
	j := s.Journal(cluster, uid, class)
	j.last = last
	for try := 0; ; try++ {
		err := j.append(ctx, id, header, data)
		if !errors.Is(err, ErrConflict) {
			return j.last, err
		}
		known, err := j.after(ctx, last, id)
		if err == nil && j.last == 0 { // CASES was emptied since, or restored from a copy
			known, err = j.after(ctx, 0, id)
		}
		if err != nil || known != 0 {
			return known, err
		}
		if err := pause(ctx, try); err != nil {
			return last, err
		}
	}
}

// after returns where a message stands behind a sequence; 0 if it does not. It remembers the newest message that it has met.
// One that a node which is behind the others does not know yet keeps the next append from being stored.
func (j *Journal) after(ctx context.Context, last uint64, id string) (known uint64, err error) {
	j.last = 0
	err = j.stream.EachAfter(ctx, Cases, j.subject, last, func(m Message) error {
		if j.last = m.Sequence; m.ID() == id {
			known = m.Sequence
		}
		return nil
	})
	return known, err
}

// Snapshot stores how the load balancers of a Service stood before a write of a class.
// It lies beside the records. What can't stand in a subject is an error.
func (s *Stream) Snapshot(ctx context.Context, cluster, serviceUID, class string, header map[string][]string, data []byte) error {
	if j := s.Journal(cluster, serviceUID, class); j.bad != nil {
		return j.bad
	}
	m := outgoing(event.KeptSubject(cluster, serviceUID, class), header, data)
	m.Header.Set(jetstream.MsgIDHeader, rand.Text())
	if _, err := s.once(ctx, Cases, m, nil); err != nil {
		return fmt.Errorf("store a snapshot: %w", err)
	}
	return nil
}
