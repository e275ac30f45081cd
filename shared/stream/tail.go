package stream

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Follow calls f for the messages of a stream that match filter and are stored
// from now on, in order, until ctx ends; it returns nil then. An error of f ends
// it and is returned.
func (s *Stream) Follow(ctx context.Context, stream, filter string, f func(Message) error) error {
	return s.tail(ctx, stream, filter, jetstream.ConsumerConfig{DeliverPolicy: jetstream.DeliverNewPolicy}, f)
}

// FollowSince is Follow that begins with what was stored since a time; the zero time
// means now.
func (s *Stream) FollowSince(ctx context.Context, stream, filter string, since time.Time, f func(Message) error) error {
	if since.IsZero() {
		return s.Follow(ctx, stream, filter, f)
	}
	return s.tail(ctx, stream, filter, jetstream.ConsumerConfig{DeliverPolicy: jetstream.DeliverByStartTimePolicy, OptStartTime: &since}, f)
}

// Tail is Follow that begins right behind a sequence of the stream: none is missed
// between a reading and Tail. After 0 it begins with all that is kept.
func (s *Stream) Tail(ctx context.Context, stream, filter string, after uint64, f func(Message) error) error {
	return s.tail(ctx, stream, filter, behindSequence(after), f)
}

func behindSequence(last uint64) jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: last + 1}
}

const (
	tailBatch = 256
	tailIdle  = time.Minute // then the server forgets a consumer that nobody asks
)

// A tail is one consumer of its own after the other: where one is lost, the next begins behind what was seen. The client
// has a helper for that, which takes a stored message with a status and no data for the server's word, and begins anew at
// it for ever.
func (s *Stream) tail(ctx context.Context, stream, filter string, from jetstream.ConsumerConfig, f func(Message) error) error {
	doing := "follow " + filter
	for first := true; ; first = false {
		l := s.link.Load()
		c, err := s.tailConsumer(ctx, stream, filter, from)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil && first {
			return fmt.Errorf("%s: %w", doing, err)
		}
		if err == nil {
			last, err := s.pullAll(ctx, l, stream, c, f)
			if ctx.Err() != nil {
				return nil
			}
			if err != nil {
				return err
			}
			if last > 0 {
				from = behindSequence(last)
			}
		}
		if !s.Rest(ctx, pullPause) {
			return nil
		}
	}
}

// tailConsumer creates a consumer for who follows a stream, and returns its name.
func (s *Stream) tailConsumer(ctx context.Context, stream, filter string, from jetstream.ConsumerConfig) (string, error) {
	in, cancel, err := s.within(ctx)
	if err != nil {
		return "", err
	}
	defer cancel()
	from.FilterSubject, from.AckPolicy, from.MemoryStorage, from.Replicas, from.InactiveThreshold = filter, jetstream.AckNonePolicy, true, 1, tailIdle
	c, err := s.js.CreateConsumer(in, stream, from)
	if err != nil {
		return "", s.fault(ctx, in, "create a consumer", err)
	}
	return c.CachedInfo().Name, nil
}

// pullAll calls f for what a consumer brings, until it is lost. It returns the sequence of the last message, 0 if there
// was none, and the error of f.
func (s *Stream) pullAll(ctx context.Context, l *link, stream, consumer string, f func(Message) error) (last uint64, err error) {
	inbox, arrived := s.nc.NewInbox(), make(chan *nats.Msg, 2*tailBatch)
	sub, err := s.nc.ChanSubscribe(inbox, arrived)
	if err != nil {
		return 0, nil // without a connection
	}
	defer func() { _ = sub.Unsubscribe() }()
	body, err := json.Marshal(map[string]any{"batch": tailBatch, "expires": pullExpiry.Nanoseconds(), "idle_heartbeat": pullBeat.Nanoseconds()})
	if err != nil {
		return 0, err
	}
	silent := time.NewTimer(3 * pullBeat)
	defer silent.Stop()
	left, count := 0, uint64(0)
	for {
		if left == 0 {
			if s.nc.PublishRequest("$JS.API.CONSUMER.MSG.NEXT."+stream+"."+consumer, inbox, body) != nil {
				return last, nil
			}
			left = tailBatch
		}
		select {
		case <-ctx.Done():
			return last, nil
		case <-l.alive.Done():
			return last, nil
		case <-silent.C:
			return last, nil
		case m := <-arrived:
			silent.Reset(3 * pullBeat)
			meta, err := m.Metadata()
			if err != nil { // the server's word: what is stored comes with where it stands
				switch lastOf(m.Header, "Status") {
				case "100": // a sign of life
				case "404", "408":
					left = 0
				default:
					return last, nil
				}
				continue
			}
			if count++; meta.Sequence.Consumer != count {
				return last, nil // one in between was lost
			}
			left--
			if err := f(message(m.Subject, m.Header, m.Data, meta.Sequence.Stream, meta.Timestamp, 0)); err != nil {
				return last, err
			}
			last = meta.Sequence.Stream
		}
	}
}
