package stream

import (
	"context"
	"fmt"
	"time"
)

const tailEach = 250 * time.Millisecond

// FollowSince is Tail from a time; the zero time means now.
func (s *Stream) FollowSince(ctx context.Context, stream, filter string, since time.Time, f func(Message) error) error {
	if !since.IsZero() {
		return s.tail(ctx, stream, filter, query{Since: &since}, f)
	}
	info, err := s.info(ctx, stream)
	if err != nil {
		return err
	}
	return s.Tail(ctx, stream, filter, info.State.LastSeq, f)
}

// Tail calls f, in order, for the messages of a stream that match filter and follow a sequence, and misses none. It returns nil when
// ctx ends. An error of f ends it and is returned. It polls, so a NATS user with read access only can follow a stream.
func (s *Stream) Tail(ctx context.Context, stream, filter string, after uint64, f func(Message) error) error {
	return s.tail(ctx, stream, filter, query{Seq: after + 1}, f)
}

func (s *Stream) tail(ctx context.Context, stream, filter string, ask query, f func(Message) error) error {
	for first := true; ; first = false {
		var own error
		err := s.each(ctx, stream, filter, ask, func(m Message) error {
			if own = f(m); own == nil && m.Sequence > 0 {
				ask.Seq, ask.Since = m.Sequence+1, nil
			}
			return own
		})
		switch {
		case ctx.Err() != nil:
			return nil
		case own != nil:
			return own
		case err != nil && first:
			return fmt.Errorf("follow %s: %w", filter, err)
		}
		if !s.Rest(ctx, tailEach) {
			return nil
		}
	}
}
