package stream

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lbremedy/lbremedy/shared/event"
)

// A Message is what a stream holds, or what waits for a function.
//
// A stored one whose headers end too early or make no sense hides what the server says of it. It has no Header and
// no Data, so that nothing can be read of it; it has a Subject only if one was asked for by name, and may lack the
// Sequence and the Time.
type Message struct {
	Subject    string
	Header     map[string][]string // as stored, without what the server adds for one reading
	Data       []byte
	Sequence   uint64    // in its stream
	Time       time.Time // when the server stored it
	Deliveries uint64    // of a consumed message, from 1; a message that replaces another starts again
}

// ID returns the message's ID, Nats-Msg-Id; empty if it has none.
func (m Message) ID() string { return nats.Header(m.Header).Get(jetstream.MsgIDHeader) }

// A query is a request for stored messages, as the server reads it.
type query struct {
	Last  string     `json:"last_by_subj,omitempty"`
	Lasts []string   `json:"multi_last,omitempty"`
	Next  string     `json:"next_by_subj,omitempty"`
	Seq   uint64     `json:"seq,omitempty"`
	Since *time.Time `json:"start_time,omitempty"`
	Batch int        `json:"batch,omitempty"`
	Bytes int        `json:"max_bytes,omitempty"`
}

const (
	pageMessages = 512
	pageBytes    = 1 << 20
	lastsMost    = 1024 // subjects that the server lists for one query
	lagTries     = 20   // until a node answers that is not behind; pauses between them grow to 50 ms
)

// Last returns the newest message of a stream whose subject matches filter, which
// may hold wildcards; ErrNotFound if none exists.
func (s *Stream) Last(ctx context.Context, stream, filter string) (Message, error) {
	return s.one(ctx, stream, "read the last message of "+filter, query{Last: filter})
}

// At returns the message of a stream that has this sequence; ErrNotFound if none exists.
func (s *Stream) At(ctx context.Context, stream string, seq uint64) (Message, error) {
	return s.one(ctx, stream, fmt.Sprintf("read message %d of %s", seq, stream), query{Seq: seq})
}

// one asks for one stored message.
func (s *Stream) one(ctx context.Context, stream, doing string, ask query) (Message, error) {
	found, _, err := s.page(ctx, stream, ask)
	if err == nil && len(found) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return Message{}, fmt.Errorf("%s: %w", doing, err)
	}
	return found[0], nil
}

// Each calls f for the messages of a stream that match filter and were stored at
// or after since, in order, and returns when it has seen those that were there
// when it began. The zero time means all. An error of f ends it and is returned.
func (s *Stream) Each(ctx context.Context, stream, filter string, since time.Time, f func(Message) error) error {
	ask := query{Seq: 1}
	if !since.IsZero() {
		ask = query{Since: &since}
	}
	return s.each(ctx, stream, filter, ask, f)
}

// EachAfter is Each for what was stored behind a sequence of the stream. Unlike Tail it takes
// no consumer, so that who may only read can follow a stream by asking again.
func (s *Stream) EachAfter(ctx context.Context, stream, filter string, after uint64, f func(Message) error) error {
	return s.each(ctx, stream, filter, query{Seq: after + 1}, f)
}

func (s *Stream) each(ctx context.Context, stream, filter string, ask query, f func(Message) error) error {
	ask.Next, ask.Batch, ask.Bytes = filter, pageMessages, pageBytes
	left := -1 // unknown until the first answer
	for {
		page, end, err := s.page(ctx, stream, ask)
		if err != nil {
			return fmt.Errorf("read %s: %w", filter, err)
		}
		if left < 0 {
			left = len(page) + end.pending
		}
		for _, m := range page {
			if left == 0 {
				return nil
			}
			left--
			if err := f(m); err != nil {
				return err
			}
		}
		if end.pending == 0 || left == 0 || len(page) == 0 {
			return nil
		}
		ask.Seq, ask.Since = end.last+1, nil
	}
}

// Lasts returns the newest message of each subject that matches one of the filters, as one
// consistent view, oldest first. It serves filters of at most 1,024 subjects, such as the
// classes of one Service; EachLast serves any.
func (s *Stream) Lasts(ctx context.Context, stream string, filters ...string) ([]Message, error) {
	found, _, err := s.page(ctx, stream, query{Lasts: filters})
	if err != nil {
		return nil, fmt.Errorf("read the last messages of %s: %w", strings.Join(filters, ", "), err)
	}
	return found, nil
}

// EachLast calls f for the newest message of each subject that matches filter, of any
// number of subjects, and returns when it has seen those that were there when it
// began. An error of f ends it and is returned. It reads nothing of what is older, so
// that it takes as long as there are subjects, however much each holds. A node that has not
// got all of that yet is asked again, until another one answers.
func (s *Stream) EachLast(ctx context.Context, stream, filter string, f func(Message) error) error {
	subjects, last, err := s.subjects(ctx, stream, filter)
	if err != nil {
		return err
	}
	for some := range slices.Chunk(subjects, lastsMost/2) {
		ask := query{Lasts: some}
		for more := true; more; {
			page, end, err := s.upTo(ctx, stream, ask, last)
			if err != nil {
				return fmt.Errorf("read the last messages of %s: %w", filter, err)
			}
			for _, m := range page {
				if err := f(m); err != nil {
					return err
				}
			}
			if more = end.pending > 0 && len(page) > 0; more {
				ask.Seq = end.last + 1
			}
		}
	}
	return nil
}

// upTo is page for newest messages, of a node that has the stream up to this sequence.
func (s *Stream) upTo(ctx context.Context, stream string, ask query, last uint64) (page []Message, end ending, err error) {
	for try := range lagTries {
		if err := pause(ctx, try); err != nil {
			return nil, end, err
		}
		if page, end, err = s.page(ctx, stream, ask); err != nil || end.upTo >= last {
			return page, end, err
		}
	}
	if end.upTo == 0 {
		return nil, end, nil // what the subjects held is gone
	}
	return nil, end, fmt.Errorf("%w: its nodes are behind its leader", ErrUnavailable)
}

// Subjects returns the subjects of a stream that match filter and hold a message, sorted.
func (s *Stream) Subjects(ctx context.Context, stream, filter string) ([]string, error) {
	all, _, err := s.subjects(ctx, stream, filter)
	return all, err
}

// subjects is Subjects, with the sequence of the stream's last message.
func (s *Stream) subjects(ctx context.Context, stream, filter string) (all []string, last uint64, err error) {
	info, err := s.info(ctx, stream, filter)
	if err != nil {
		return nil, 0, fmt.Errorf("list the subjects %s: %w", filter, err)
	}
	return slices.Sorted(maps.Keys(info.State.Subjects)), info.State.LastSeq, nil
}

// First returns the sequence of the oldest message that a stream holds; if it holds none, that of the next one.
func (s *Stream) First(ctx context.Context, stream string) (uint64, error) {
	info, err := s.info(ctx, stream)
	if err != nil {
		return 0, err
	}
	return info.State.FirstSeq, nil
}

// An ending is what the server says behind the messages of an answer.
type ending struct {
	last    uint64 // sequence of the last message of the answer
	pending int    // that are still to come
	upTo    uint64 // of an answer with the newest ones: the last sequence that the node had; 0: it has none of them
}

// page asks once for messages, several or one.
func (s *Stream) page(ctx context.Context, stream string, ask query) (found []Message, end ending, err error) {
	subject, most := getSubject(stream), lastsMost+1
	body, err := json.Marshal(ask)
	if err != nil {
		return nil, end, err
	}
	one := ask.Batch == 0 && len(ask.Lasts) == 0 // the server does not say that nothing follows
	if one {
		most = 1
	}
	if ask.Last != "" {
		subject, body = lastSubject(stream, ask.Last), nil // which a user may be allowed alone
	}
	err = s.call(ctx, "ask stream "+stream, "", func(in context.Context) error {
		answers, done, err := s.requestAll(subject, body, most)
		if err != nil {
			return err
		}
		defer done()
		for over := false; !over; {
			var reply *nats.Msg
			select {
			case reply = <-answers:
			case <-in.Done():
				return in.Err()
			}
			var m Message
			if m, over, err = read(reply, ask); err != nil {
				return err
			}
			before := numberIn(reply, "Nats-Last-Sequence") // of the message before this one, which may not tell it itself
			if n := len(found); n > 0 && found[n-1].Sequence == 0 && (over || m.Sequence > 0) {
				found[n-1].Sequence = before
			}
			if over {
				end = ending{before, int(numberIn(reply, "Nats-Num-Pending")), numberIn(reply, "Nats-UpTo-Sequence")}
			} else {
				found, over = append(found, m), one
			}
		}
		return nil
	})
	if err != nil {
		return nil, ending{}, err
	}
	return found, end, nil
}

// getSubject returns where a stream is asked for any of its messages.
func getSubject(stream string) string { return "$JS.API.DIRECT.GET." + stream }

// lastSubject returns where a stream is asked for the newest message of a subject, or of
// those that match a filter. A user may be allowed some of these alone.
func lastSubject(stream, subject string) string { return getSubject(stream) + "." + subject }

// outgoing makes a message to be stored. Headers of NATS itself are not taken
// over: they say how another message was to be stored, and would be obeyed.
func outgoing(subject string, header map[string][]string, data []byte) *nats.Msg {
	m := &nats.Msg{Subject: subject, Header: make(nats.Header, len(header)+3), Data: data}
	for k, v := range header {
		if !event.OfServer(k) {
			m.Header[k] = v
		}
	}
	return m
}

// token replaces what a subject's token can't hold.
func token(s string) string {
	return cmp.Or(strings.Map(func(r rune) rune {
		switch {
		case r >= '0' && r <= '9', r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r == '-', r == '_':
			return r
		}
		return '_'
	}, s), "_")
}
