package stream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lbremedy/lbremedy/shared/retry"
)

// store waits until the server has stored a message. expect, if not nil, is the last sequence that the subject must have.
func (s *Stream) store(ctx context.Context, stream string, m *nats.Msg, expect *uint64) (*jetstream.PubAck, error) {
	m.Header.Del(jetstream.ExpectedLastSubjSeqHeader) // left by the previous try
	if expect != nil {
		m.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(*expect, 10))
	}
	var ack *jetstream.PubAck
	err := s.call(ctx, "publish "+m.Subject, "", func(in context.Context) (err error) {
		ack, err = s.js.PublishMsg(in, m)
		return err
	})
	if err == nil || errors.Is(err, ErrFull) {
		s.fulls.Store(stream, err != nil)
	}
	return ack, err
}

// once stores a message with an ID exactly once: after a lost acknowledgement it sends the message again and reads back whose message
// the subject holds. While the server is still storing the first one, once keeps asking, as long as a request may take. It returns the
// message's sequence.
func (s *Stream) once(ctx context.Context, stream string, m *nats.Msg, expect *uint64) (uint64, error) {
	var until time.Time
	for try := 0; ; try++ {
		l := s.link.Load()
		ack, err := s.store(ctx, stream, m, expect)
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

// PublishNewer stores a message in FAILED unless the subject holds one that is not older; newer reports whether to replace it. So no
// number of exporters and no late message ever replaces a newer occurrence with an older one.
//
// It returns the sequence of the message that the subject holds now, and whether that is the new one. A message that the subject
// already holds, by msgID, is not stored again; a replay has to give it another ID.
//
// The message is on disk when PublishNewer returns nil. ErrUnavailable: it may or may not be stored, and the call may be repeated.
func (s *Stream) PublishNewer(ctx context.Context, subject, msgID string, header map[string][]string, data []byte,
	newer func(stored Message) bool) (seq uint64, stored bool, err error) {
	m := outgoing(subject, header, data)
	if msgID != "" {
		m.Header.Set(jetstream.MsgIDHeader, msgID)
	}
	last := new(uint64) // most failures are the first of their kind
	lost := false       // an earlier try of this call may have stored it
	for try := 0; ; try++ {
		if try > 0 {
			have, err := s.Last(ctx, Failed, subject)
			switch {
			case errors.Is(err, ErrNotFound):
				last = new(uint64)
			case err != nil:
				return 0, false, err
			case have.Sequence == 0: // an unreadable message hides its position and counts as older than anything
				last = nil
			case msgID != "" && have.ID() == msgID:
				return have.Sequence, lost, nil
			case !newer(have):
				return have.Sequence, false, nil
			default:
				last = &have.Sequence
			}
		}
		l := s.link.Load()
		ack, err := s.store(ctx, Failed, m, last)
		switch {
		case err == nil && !ack.Duplicate:
			return ack.Sequence, true, nil
		case err == nil:
			// The ID was stored in the last two minutes, perhaps under another subject, or removed since. The next read decides; if
			// the message is missing, only the sequence guards it.
			m.Header.Del(jetstream.MsgIDHeader)
		case errors.Is(err, ErrConflict), errors.Is(err, errFlying):
		case errors.Is(err, errLost) && !lost && s.sound(ctx, l):
			lost = true
		default:
			return 0, false, err
		}
		if err := pause(ctx, try); err != nil {
			return 0, false, fmt.Errorf("publish %s: %w", subject, err)
		}
	}
}

// sound reports whether the connection is up, after a short wait if it was just lost.
func (s *Stream) sound(ctx context.Context, l *link) bool {
	if ctx.Err() != nil {
		return false
	}
	if l.alive.Err() == nil {
		return true
	}
	return l.back(ctx, returnWait)
}

// pause lets other writers pass: nothing at first, then up to 50 ms. A lagging replica must not be asked in a hot loop.
func pause(ctx context.Context, try int) error {
	if try >= 3 {
		retry.Sleep(ctx, mathrand.N(min(time.Duration(try)*time.Millisecond, 50*time.Millisecond)))
	}
	return ctx.Err()
}
