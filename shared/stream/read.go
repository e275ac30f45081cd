package stream

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// A Message is what a stream holds, or what waits for a function.
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

// Headers that say something about one reading of a message or one writing, and not about the message.
var transient = []string{
	jetstream.StreamHeader, jetstream.SubjectHeader, jetstream.SequenceHeader, jetstream.TimeStampHeaer,
	"Nats-Num-Pending", "Nats-Last-Sequence", "Nats-UpTo-Sequence",
	jetstream.ExpectedLastSubjSeqHeader, jetstream.ExpectedLastSubjSeqSubjHeader, jetstream.ExpectedStreamHeader,
}

// settled returns the headers that belong to the message.
func settled(h nats.Header) map[string][]string {
	own := maps.Clone(h)
	for _, k := range transient {
		delete(own, k)
	}
	return own
}

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
// may hold wildcards; ErrNotFound if there is none.
func (s *Stream) Last(ctx context.Context, stream, filter string) (Message, error) {
	return s.one(ctx, stream, "read the last message of "+filter, query{Last: filter})
}

// At returns the message of a stream that has this sequence; ErrNotFound if there is none.
func (s *Stream) At(ctx context.Context, stream string, seq uint64) (Message, error) {
	return s.one(ctx, stream, fmt.Sprintf("read message %d of %s", seq, stream), query{Seq: seq})
}

// one asks for one stored message.
func (s *Stream) one(ctx context.Context, stream, doing string, ask query) (Message, error) {
	in, cancel, err := s.within(ctx)
	if err != nil {
		return Message{}, fmt.Errorf("%s: %w", doing, err)
	}
	defer cancel()
	subject, body := getSubject(stream), []byte(nil)
	if ask.Last != "" {
		subject = lastSubject(stream, ask.Last) // which a user may be allowed alone
	} else if body, err = json.Marshal(ask); err != nil {
		return Message{}, fmt.Errorf("%s: %w", doing, err)
	}
	reply, err := s.nc.RequestWithContext(in, subject, body)
	if err != nil {
		return Message{}, s.fault(ctx, in, doing, err)
	}
	m, end, err := read(reply, false)
	if err != nil {
		return Message{}, fmt.Errorf("%s: %w", doing, err)
	}
	if end {
		return Message{}, fmt.Errorf("%s: %w", doing, ErrNotFound)
	}
	return m, nil
}

// Each calls f for the messages of a stream that match filter and were stored at
// or after since, in order, and returns when it has seen those that were there
// when it began. The zero time means all. An error of f ends it and is returned.
func (s *Stream) Each(ctx context.Context, stream, filter string, since time.Time, f func(Message) error) error {
	ask := query{Next: filter, Batch: pageMessages, Bytes: pageBytes}
	if since.IsZero() {
		ask.Seq = 1
	} else {
		ask.Since = &since
	}
	return s.each(ctx, stream, filter, ask, f)
}

// EachAfter is Each for what was stored behind a sequence of the stream. Unlike Tail it takes
// no consumer, so that who may only read can follow a stream by asking again.
func (s *Stream) EachAfter(ctx context.Context, stream, filter string, after uint64, f func(Message) error) error {
	return s.each(ctx, stream, filter, query{Next: filter, Batch: pageMessages, Bytes: pageBytes, Seq: after + 1}, f)
}

func (s *Stream) each(ctx context.Context, stream, filter string, ask query, f func(Message) error) error {
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
		ask.Seq, ask.Since = page[len(page)-1].Sequence+1, nil
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
				ask.Seq = page[len(page)-1].Sequence + 1
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
	doing := "list the subjects " + filter
	in, cancel, err := s.within(ctx)
	if err != nil {
		return nil, 0, fmt.Errorf("%s: %w", doing, err)
	}
	defer cancel()
	handle, err := s.js.Stream(in, stream)
	if err != nil {
		return nil, 0, s.fault(ctx, in, doing, err)
	}
	info, err := handle.Info(in, jetstream.WithSubjectFilter(filter))
	if err != nil {
		return nil, 0, s.fault(ctx, in, doing, err)
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
	pending int    // that are still to come
	upTo    uint64 // of an answer with the newest ones: the last sequence that the node had; 0: it has none of them
}

// page asks once for several messages.
func (s *Stream) page(ctx context.Context, stream string, ask query) ([]Message, ending, error) {
	in, cancel, err := s.within(ctx)
	if err != nil {
		return nil, ending{}, err
	}
	defer cancel()
	body, err := json.Marshal(ask)
	if err != nil {
		return nil, ending{}, err
	}
	inbox := s.nc.NewInbox()
	sub, err := s.nc.SubscribeSync(inbox)
	if err != nil {
		return nil, ending{}, s.fault(ctx, in, "subscribe", err)
	}
	defer func() { _ = sub.Unsubscribe() }() // fails only without a connection, and then there is nothing to end
	if err := s.nc.PublishRequest(getSubject(stream), inbox, body); err != nil {
		return nil, ending{}, s.fault(ctx, in, "ask stream "+stream, err)
	}
	var found []Message
	for {
		reply, err := sub.NextMsgWithContext(in)
		if err != nil {
			return nil, ending{}, s.fault(ctx, in, "ask stream "+stream, err)
		}
		m, end, err := read(reply, len(ask.Lasts) > 0)
		if errors.Is(err, nats.ErrNoResponders) {
			return nil, ending{}, s.fault(ctx, in, "ask stream "+stream, err)
		}
		if err != nil {
			return nil, ending{}, err
		}
		if end {
			pending, _ := strconv.Atoi(reply.Header.Get("Nats-Num-Pending")) // absent: none
			upTo, _ := strconv.ParseUint(reply.Header.Get("Nats-UpTo-Sequence"), 10, 64)
			return found, ending{pending, upTo}, nil
		}
		found = append(found, m)
	}
}

// getSubject returns where a stream is asked for any of its messages.
func getSubject(stream string) string { return "$JS.API.DIRECT.GET." + stream }

// lastSubject returns where a stream is asked for the newest message of a subject, or of
// those that match a filter. A user may be allowed some of these alone.
func lastSubject(stream, subject string) string { return getSubject(stream) + "." + subject }

// read makes a Message of an answer to a query, for one message or for several. End: it was
// the last, and is none itself.
func read(reply *nats.Msg, several bool) (m Message, end bool, err error) {
	h := reply.Header
	switch status := h.Get("Status"); status {
	case "":
	case "204", "404":
		if d := h.Get("Description"); d == "Message Not Found" && several {
			return Message{}, false, errors.New("the server can't read all that it holds") // or what is missing would seem not to be there
		}
		return Message{}, true, nil
	case "503":
		return Message{}, false, nats.ErrNoResponders
	default:
		return Message{}, false, fmt.Errorf("the server answers %s %s", status, h.Get("Description"))
	}
	m = Message{Subject: h.Get(jetstream.SubjectHeader), Data: reply.Data}
	if m.Sequence, err = strconv.ParseUint(h.Get(jetstream.SequenceHeader), 10, 64); err != nil {
		return Message{}, false, fmt.Errorf("read the sequence of a stored message: %w", err)
	}
	if m.Time, err = time.Parse(time.RFC3339Nano, h.Get(jetstream.TimeStampHeaer)); err != nil {
		return Message{}, false, fmt.Errorf("read the time of a stored message: %w", err)
	}
	m.Header = settled(h)
	return m, false, nil
}

// Follow calls f for the messages of a stream that match filter and are stored
// from now on, in order, until ctx ends; it returns nil then. An error of f ends
// it and is returned.
func (s *Stream) Follow(ctx context.Context, stream, filter string, f func(Message) error) error {
	return s.tail(ctx, stream, filter, jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverNewPolicy}, f)
}

// FollowSince is Follow that begins with what was stored since a time; the zero time
// means now.
func (s *Stream) FollowSince(ctx context.Context, stream, filter string, since time.Time, f func(Message) error) error {
	if since.IsZero() {
		return s.Follow(ctx, stream, filter, f)
	}
	return s.tail(ctx, stream, filter, jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverByStartTimePolicy, OptStartTime: &since}, f)
}

// Tail is Follow that begins right behind a sequence of the stream: none is missed
// between a reading and Tail. After 0 it begins with all that is kept.
func (s *Stream) Tail(ctx context.Context, stream, filter string, after uint64, f func(Message) error) error {
	return s.tail(ctx, stream, filter, jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: after + 1,
	}, f)
}

func (s *Stream) tail(ctx context.Context, stream, filter string, from jetstream.OrderedConsumerConfig, f func(Message) error) error {
	doing := "follow " + filter
	in, cancel, err := s.within(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	defer cancel()
	from.FilterSubjects = []string{filter}
	ordered, err := s.js.OrderedConsumer(in, stream, from)
	if err != nil {
		return s.fault(ctx, in, doing, err)
	}
	messages, err := ordered.Messages()
	if err != nil {
		return s.fault(ctx, in, doing, err)
	}
	defer messages.Stop()
	for {
		m, err := messages.Next(jetstream.NextContext(ctx))
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return s.fault(ctx, ctx, doing, err)
		}
		s.touch()
		meta, err := m.Metadata()
		if err != nil {
			return fmt.Errorf("%s: %w", doing, err)
		}
		if err := f(message(m.Subject(), m.Headers(), m.Data(), meta.Sequence.Stream, meta.Timestamp, 0)); err != nil {
			return err
		}
	}
}

func message(subject string, h nats.Header, data []byte, seq uint64, at time.Time, deliveries uint64) Message {
	return Message{Subject: subject, Header: settled(h), Data: data, Sequence: seq, Time: at, Deliveries: deliveries}
}

// outgoing makes a message to be stored. Headers of NATS itself are not taken
// over: they say how another message was to be stored, and would be obeyed.
func outgoing(subject string, header map[string][]string, data []byte) *nats.Msg {
	m := &nats.Msg{Subject: subject, Header: make(nats.Header, len(header)+3), Data: data}
	for k, v := range header {
		if len(k) < 5 || !strings.EqualFold(k[:5], "Nats-") {
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
