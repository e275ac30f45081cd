package stream

import (
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

// A Message is a stored message, or one that waits for a function. Headers that end too early or are malformed hide what the server
// says: such a message has no Header and no Data, a Subject only if the query named one, and may lack the Sequence and the Time.
type Message struct {
	Subject    string
	Header     map[string][]string // as stored, without the server's additions
	Data       []byte
	Sequence   uint64    // in its stream
	Time       time.Time // when the server stored it
	Deliveries uint64    // of a consumed message, from 1; a replacing message starts again
}

// ID returns the message's ID, Nats-Msg-Id; empty if absent.
func (m Message) ID() string { return nats.Header(m.Header).Get(jetstream.MsgIDHeader) }

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
	lagTries     = 20   // until a node answers that does not lag; pauses between them grow to 50 ms
)

// Last returns the newest message of a stream whose subject matches filter; ErrNotFound if none exists.
func (s *Stream) Last(ctx context.Context, stream, filter string) (Message, error) {
	return s.one(ctx, stream, "read the last message of "+filter, query{Last: filter})
}

// one returns the first message of an answer; ErrNotFound if it has none.
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

// Each calls f, in order, for the messages of a stream that match filter and were stored since; zero means all. It returns when it has
// passed all that existed when it began. An error of f ends it and is returned.
func (s *Stream) Each(ctx context.Context, stream, filter string, since time.Time, f func(Message) error) error {
	ask := query{Seq: 1}
	if !since.IsZero() {
		ask = query{Since: &since}
	}
	return s.each(ctx, stream, filter, ask, f)
}

// EachAfter is Each for messages after a sequence. It takes no consumer: a user with read access only can follow a stream.
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

// Lasts returns the newest message of each subject that matches a filter, as one consistent view, oldest first; at most 1,024. EachLast takes any number.
func (s *Stream) Lasts(ctx context.Context, stream string, filters ...string) ([]Message, error) {
	found, _, err := s.page(ctx, stream, query{Lasts: filters})
	if err != nil {
		return nil, fmt.Errorf("read the last messages of %s: %w", strings.Join(filters, ", "), err)
	}
	return found, nil
}

// EachLast calls f for the newest message of each subject that matches filter, of all that existed when it began; an error of f ends
// it and is returned. Its duration depends on the number of subjects alone. If a node lacks messages, it asks again until another one
// answers.
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
		return nil, end, nil // the subjects' messages were removed
	}
	return nil, end, fmt.Errorf("%w: its nodes are behind its leader", ErrUnavailable)
}

// Subjects returns the subjects of a stream that match filter and hold a message, sorted.
func (s *Stream) Subjects(ctx context.Context, stream, filter string) ([]string, error) {
	all, _, err := s.subjects(ctx, stream, filter)
	return all, err
}

func (s *Stream) subjects(ctx context.Context, stream, filter string) (all []string, last uint64, err error) {
	info, err := s.info(ctx, stream, filter)
	if err != nil {
		return nil, 0, fmt.Errorf("list the subjects %s: %w", filter, err)
	}
	return slices.Sorted(maps.Keys(info.State.Subjects)), info.State.LastSeq, nil
}

// First returns the sequence of a stream's oldest message, or of the next one if empty.
func (s *Stream) First(ctx context.Context, stream string) (uint64, error) {
	info, err := s.info(ctx, stream)
	if err != nil {
		return 0, err
	}
	return info.State.FirstSeq, nil
}

type ending struct {
	last    uint64 // sequence of the last message of the answer
	pending int    // messages still to come
	upTo    uint64 // of an answer with newest messages: the last sequence that the node had; 0: it has none of them
}

func (s *Stream) page(ctx context.Context, stream string, ask query) (found []Message, end ending, err error) {
	subject, most := getSubject(stream), lastsMost+1
	body, err := json.Marshal(ask)
	if err != nil {
		return nil, end, err
	}
	one := ask.Batch == 0 && len(ask.Lasts) == 0 // the server sends no end marker
	if one {
		most = 1
	}
	if ask.Last != "" {
		subject, body = lastSubject(stream, ask.Last), nil // a user's only permission may be this one
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
			before := numberIn(reply, "Nats-Last-Sequence") // sequence of the previous message, which may hide its own
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

func getSubject(stream string) string { return "$JS.API.DIRECT.GET." + stream }

// lastSubject is a subject of its own: a user may have permission for only some.
func lastSubject(stream, subject string) string { return getSubject(stream) + "." + subject }

// outgoing drops headers of NATS itself: the server would obey them.
func outgoing(subject string, header map[string][]string, data []byte) *nats.Msg {
	m := &nats.Msg{Subject: subject, Header: make(nats.Header, len(header)+3), Data: data}
	for k, v := range header {
		if !event.OfServer(k) {
			m.Header[k] = v
		}
	}
	return m
}
