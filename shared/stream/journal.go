package stream

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/regex"
)

// A Journal is the memory of one Service and class, and the lock of the whole
// Service: of all who want to append for one Service, whatever the class, the
// one who has seen the last record wins.
//
// A Journal belongs to one run and is not for several goroutines.
type Journal struct {
	stream  *Stream
	subject string   // of this class's records
	all     string   // of all records of the Service
	last    uint64   // sequence of the last record of the Service that this run knows
	other   *Message // that record, if it is another class's
	bad     error    // the names make no subject
}

// tokens of a case's subject must hold nothing that a subject gives a meaning to.
var caseToken = regex.New(`^[A-Za-z0-9_-]{1,128}$`)

// Journal returns the journal of a Service and class. What can't stand in a
// subject is an error of Load and Append.
func (s *Stream) Journal(cluster, serviceUID, class string) *Journal {
	j := &Journal{
		stream:  s,
		subject: event.CaseSubject(cluster, serviceUID, class),
		all:     event.CaseFilter(cluster, serviceUID),
	}
	for _, t := range []string{cluster, serviceUID, class} {
		if !caseToken().MatchString(t) {
			j.bad = fmt.Errorf("name a journal: %q must match %s", t, caseToken())
		}
	}
	return j
}

// Load returns the last record of the class, nil if there is none, and remembers
// which record of the Service was the last one.
func (j *Journal) Load(ctx context.Context) (*Message, error) { return j.LoadSince(ctx, 0) }

// LoadSince is Load for who knows that the class has a record of this sequence. A node of NATS that is behind the others, and
// does not know of it, is asked again until it has caught up, or another one answers; ErrUnavailable if that takes longer than
// a request may.
func (j *Journal) LoadSince(ctx context.Context, known uint64) (*Message, error) {
	until, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	for try := 0; ; try++ {
		mine, err := j.load(ctx)
		if err != nil || known == 0 || mine != nil && mine.Sequence >= known {
			return mine, err
		}
		if err := pause(until, try); err != nil {
			return nil, fmt.Errorf("load the journal: %w", behind(err))
		}
	}
}

// Last returns the sequence of the last record of the Service that this journal knows.
func (j *Journal) Last() uint64 { return j.last }

func (j *Journal) load(ctx context.Context) (*Message, error) {
	if j.bad != nil {
		return nil, j.bad
	}
	// One view of all classes: read one after the other, a replica that lags could
	// hide a record of this class behind a newer one of another.
	records, err := j.stream.Lasts(ctx, Cases, j.all)
	if err != nil {
		return nil, fmt.Errorf("load the journal: %w", err)
	}
	j.last, j.other = 0, nil
	var mine *Message
	for _, r := range records { // the oldest first
		if j.last, j.other = r.Sequence, &r; r.Subject == j.subject {
			mine, j.other = &r, nil
		}
	}
	return mine, nil
}

// Other returns the last record of the Service if it is another class's, as Load saw it; nil
// if it is this class's own or there is none.
func (j *Journal) Other() *Message { return j.other }

// Append stores a record if nobody has appended for the Service since this
// journal's Load or last Append; without a Load, if the Service has no record.
// ErrConflict: somebody has, and nothing is stored. ErrUnavailable: it may or may
// not be stored, and the journal must be loaded again. In both cases the run
// must not write.
//
// The stored ID is msgID and a random end: which of two appends was first is for
// the sequence to decide, and the end tells a writer its own record.
func (j *Journal) Append(ctx context.Context, msgID string, header map[string][]string, data []byte) error {
	if j.bad != nil {
		return j.bad
	}
	m := outgoing(j.subject, header, data)
	m.Header.Set(jetstream.MsgIDHeader, msgID+"."+rand.Text())
	m.Header.Set(jetstream.ExpectedLastSubjSeqSubjHeader, j.all)
	last, err := j.stream.once(ctx, Cases, m, &j.last)
	if err != nil {
		return fmt.Errorf("append to the journal: %w", err)
	}
	j.last = last
	return nil
}

// Snapshot stores how the load balancers of a Service stood before a write of a class.
// It lies beside the journal and locks nobody out. What can't stand in a subject is an error.
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
