package stream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// store sends a message and waits until the server has stored it. A non-nil
// expect is the last sequence that the subject must have.
func (s *Stream) store(ctx context.Context, m *nats.Msg, expect *uint64) (*jetstream.PubAck, error) {
	doing := "publish " + m.Subject
	in, cancel, err := s.within(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	defer cancel()
	m.Header.Del(jetstream.ExpectedLastSubjSeqHeader) // of the try before
	if expect != nil {
		m.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(*expect, 10))
	}
	ack, err := s.js.PublishMsg(in, m)
	if err != nil {
		err = s.fault(ctx, in, doing, err)
	}
	s.fulls.note(m.Subject, err)
	return ack, err
}

// once stores a message that carries an ID of its own, exactly once: if an
// acknowledgement gets lost it sends the message again, and reads back whose
// message stands in the way. While the server has the first one in hand it asks on, as
// long as a request may take. It returns the message's sequence.
func (s *Stream) once(ctx context.Context, stream string, m *nats.Msg, expect *uint64) (uint64, error) {
	var until time.Time
	for try := 0; ; try++ {
		l := s.link.Load()
		ack, err := s.store(ctx, m, expect)
		switch {
		case err == nil:
			return ack.Sequence, nil
		case errors.Is(err, ErrConflict) && try > 0:
			last, lastErr := s.Last(ctx, stream, m.Subject)
			if lastErr == nil && last.ID() == m.Header.Get(jetstream.MsgIDHeader) {
				return last.Sequence, nil
			}
			if lastErr != nil && !errors.Is(lastErr, ErrNotFound) {
				return 0, lastErr
			}
			return 0, err
		case errors.Is(err, errLost) && try < 2 && s.sound(ctx, l):
		case errors.Is(err, errFlying):
			until = cmp.Or(until, time.Now().Add(callTimeout))
			if time.Now().After(until) || pause(ctx, try) != nil {
				return 0, err
			}
		default:
			return 0, err
		}
	}
}

// PublishNewer stores a message in FAILED unless the subject holds one that is
// not older. newer reports whether ours must replace the stored one. It is the
// order between any number of exporters: two of them, or a message that comes
// late, never put an old occurrence in the place of a newer one.
//
// It returns the sequence of what the subject holds now, and whether that is
// ours. A message that the subject holds already, by msgID, is not stored again;
// who wants that, such as a replay, gives it another ID.
//
// The message is on disk when it returns without an error. ErrUnavailable: it may
// or may not be stored, and the same call may be made again without harm.
func (s *Stream) PublishNewer(ctx context.Context, subject, msgID string, header map[string][]string, data []byte,
	newer func(stored Message) bool) (seq uint64, stored bool, err error) {
	m := outgoing(subject, header, data)
	if msgID != "" {
		m.Header.Set(jetstream.MsgIDHeader, msgID)
	}
	last := new(uint64)
	lost := false // an earlier try of this call may have stored it
	have, ok := s.known.get(subject)
	if ok {
		*last = have.Sequence
	}
	// What this process remembers is enough to try, not to give up: the server may have lost it.
	look := ok && !newer(have)
	for try := 0; ; try++ {
		if look {
			have, err := s.Last(ctx, Failed, subject)
			switch {
			case errors.Is(err, ErrNotFound):
				last = new(uint64)
			case err != nil:
				return 0, false, err
			case have.Sequence == 0: // what can't be read does not tell where it stands, and is older than anything
				last = nil
			case msgID != "" && have.ID() == msgID:
				s.known.put(have)
				return have.Sequence, lost, nil
			case !newer(have):
				s.known.put(have)
				return have.Sequence, false, nil
			default:
				last = &have.Sequence
			}
		}
		l := s.link.Load()
		ack, err := s.store(ctx, m, last)
		switch {
		case err == nil && !ack.Duplicate:
			s.known.put(Message{Subject: subject, Header: settled(m.Header), Data: data, Sequence: ack.Sequence, Time: time.Now()})
			return ack.Sequence, true, nil
		case err == nil:
			// The ID was stored in the last two minutes, perhaps under another subject or since removed.
			// The next look decides; if ours is missing, only the sequence guards it.
			m.Header.Del(jetstream.MsgIDHeader)
		case errors.Is(err, ErrConflict), errors.Is(err, errFlying):
		case errors.Is(err, errLost) && !lost && s.sound(ctx, l):
			lost = true
		default:
			s.known.drop(subject)
			return 0, false, err
		}
		look = true
		if err := pause(ctx, try); err != nil {
			return 0, false, fmt.Errorf("publish %s: %w", subject, err)
		}
	}
}

// sound reports whether the connection stands, after a short wait if it has just been lost.
func (s *Stream) sound(ctx context.Context, l *link) bool {
	if ctx.Err() != nil {
		return false
	}
	if l.alive.Err() == nil {
		return true
	}
	return l.back(ctx, returnWait)
}

// pause lets other writers pass: nothing at first, then up to 50 ms. A lagging
// replica may answer with what is no longer so, and would be asked in a hot loop.
func pause(ctx context.Context, try int) error {
	if try < 3 {
		return ctx.Err()
	}
	timer := time.NewTimer(mathrand.N(min(time.Duration(try)*time.Millisecond, 50*time.Millisecond)))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// memoryBytes bounds what a process remembers of the messages that it has published:
// some 600 of them. More than that fail together only in a burst, in which each fails
// once, and to remember them would cost more than the reading that it saves.
const memoryBytes = 1 << 20

// A memory holds the last message of subjects, as far as this process knows. It
// saves the reading before a write; what it says is never more than a guess.
type memory struct {
	mu    sync.Mutex
	last  map[string]Message
	bytes int
}

func (y *memory) get(subject string) (Message, bool) {
	y.mu.Lock()
	defer y.mu.Unlock()
	m, ok := y.last[subject]
	return m, ok
}

func (y *memory) put(m Message) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.forget(m.Subject)
	if y.last == nil {
		y.last = map[string]Message{}
	}
	y.last[m.Subject] = m
	y.bytes += size(m)
	for subject := range y.last { // any of them: the map's order is as good as another
		if y.bytes <= memoryBytes {
			return
		}
		y.forget(subject)
	}
}

func (y *memory) drop(subject string) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.forget(subject)
}

// forget removes a subject; the caller holds the lock.
func (y *memory) forget(subject string) {
	if m, ok := y.last[subject]; ok {
		y.bytes -= size(m)
		delete(y.last, subject)
	}
}

// size is roughly what a message takes in memory.
func size(m Message) int {
	n := 256 + len(m.Subject) + len(m.Data)
	for k, vs := range m.Header {
		n += 64 + len(k)
		for _, v := range vs {
			n += 16 + len(v)
		}
	}
	return n
}

// A Pipe publishes many messages at once: different subjects side by side, the
// messages of one subject one after the other in the order of the calls.
type Pipe struct {
	stream *Stream
	slots  chan struct{}
	all    sync.WaitGroup
	mu     sync.Mutex
	tail   map[string]chan struct{} // closed when the last message of the subject is through
}

// Pipe returns a Pipe with at most width messages in flight. The server syncs them
// one by one, and some hundreds in flight keep it at that; a few are no faster
// than one, since the server and its client then wait for each other in turn.
func (s *Stream) Pipe(width int) *Pipe {
	return &Pipe{stream: s, slots: make(chan struct{}, max(width, 1)), tail: map[string]chan struct{}{}}
}

// Publish begins what PublishNewer does and calls done once with its results,
// from another goroutine. It blocks while the pipe is full; an error means that ctx
// ended before the message was taken, and that done is never called.
func (p *Pipe) Publish(ctx context.Context, subject, msgID string, header map[string][]string, data []byte, newer func(stored Message) bool,
	done func(seq uint64, stored bool, err error)) error {
	select {
	case p.slots <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("publish %s: %w", subject, ctx.Err())
	}
	mine := make(chan struct{})
	p.mu.Lock()
	before := p.tail[subject]
	p.tail[subject] = mine
	p.mu.Unlock()
	p.all.Go(func() {
		if before != nil {
			<-before
		}
		done(p.stream.PublishNewer(ctx, subject, msgID, header, data, newer))
		close(mine)
		p.mu.Lock()
		if p.tail[subject] == mine {
			delete(p.tail, subject)
		}
		p.mu.Unlock()
		<-p.slots
	})
	return nil
}

// Wait returns when done has been called for all messages taken so far.
func (p *Pipe) Wait() { p.all.Wait() }
