package stream

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// A Reply says what happens to a consumed message. The zero Reply acknowledges it.
type Reply struct {
	Retry time.Duration // positive: delivered again after this long
	Dead  string        // a reason: the message goes to DEAD and is not delivered again
}

const (
	pullExpiry    = 30 * time.Second       // of one pull request
	pullBeat      = 5 * time.Second        // between the server's heartbeats while a request waits
	pullPause     = 500 * time.Millisecond // after a refused request; doubled after each further one
	pullLongest   = 2 * time.Second
	redeliverSoon = 5 * time.Second // of a message that could not be stored in DEAD
	drainWait     = 2 * time.Second // for the server to confirm that the last answers have arrived
)

// Consume hands the messages of a class in a cluster to handle, up to workers of them at once. When ctx ends, it gives back messages
// that no handler has begun and lets running handlers finish for Config.Grace. It cancels longer ones, and returns nil unless that
// doesn't end them.
//
// Only one worker handles a message at a time while the connection lasts: it sends a heartbeat every 10 s. A message whose worker or
// connection died is delivered again after 30 s. While NATS is away Consume waits, without limit.
//
// With Config.Handlers, the handlers of all classes share one limit. ErrNotFound: Setup never ran for the class and the cluster.
func (s *Stream) Consume(ctx context.Context, cluster, class string, workers int, handle func(context.Context, Message) Reply) error {
	return s.consume(ctx, Failed, ConsumerOf(cluster, class), workers, s.slots, handle)
}

// ConsumeCases is Consume for CASES and a follower of SetupFollower. Config.Handlers does not count its handlers: notifications must not wait for work.
func (s *Stream) ConsumeCases(ctx context.Context, follower string, workers int, handle func(context.Context, Message) Reply) error {
	return s.consume(ctx, Cases, follower, workers, nil, handle)
}

// Cut returns how many handlers were cancelled after Config.Grace.
func (s *Stream) Cut() int { return int(s.cut.Load()) }

// InHand returns how many handlers are running, if Config.Handlers limits them.
func (s *Stream) InHand() int { return len(s.slots) }

// Busy reports whether handlers hold more than half of the Config.Handlers places.
func (s *Stream) Busy() bool { return s.slots != nil && len(s.slots) > cap(s.slots)/2 }

func (s *Stream) consume(ctx context.Context, from, name string, workers int, slots chan struct{}, handle func(context.Context, Message) Reply) error {
	doing := "consume " + name
	err := s.call(ctx, doing, "", func(in context.Context) error {
		_, err := s.js.Consumer(in, from, name)
		return err
	})
	if errors.Is(err, ErrNotFound) {
		return fmt.Errorf("%s: stream %s has no such consumer; run the setup: %w", doing, from, ErrNotFound)
	}
	if err != nil {
		return err
	}
	hctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	c := &consumer{
		stream: s, from: from, name: name, handle: handle, hctx: hctx, slots: slots,
		places: make(chan struct{}, max(workers, 1)), arrived: make(chan *nats.Msg, 64), link: s.link.Load(),
	}
	if err := c.run(ctx, stop); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return nil
}

// A consumer takes the messages of one class in one cluster, or of one follower of CASES. It asks for one only when a worker is free,
// which leaves the rest to other processes.
type consumer struct {
	stream *Stream
	from   string // name of the stream
	name   string // of the consumer there
	handle func(context.Context, Message) Reply
	hctx   context.Context // of the handlers: outlives Consume's context by the grace
	places chan struct{}   // one for each worker
	slots  chan struct{}   // one for each handler of any class; nil: no limit

	workers sync.WaitGroup
	arrived chan *nats.Msg
	link    *link
	asked   bool          // the server has a request for a message
	refused string        // the status of the last request, if the server refused it
	pause   time.Duration // after a refusal
}

func (c *consumer) run(ctx context.Context, stop context.CancelFunc) error {
	inbox := c.stream.nc.NewInbox()
	sub, err := c.stream.nc.ChanSubscribe(inbox, c.arrived)
	if err != nil {
		return fmt.Errorf("subscribe: %w: %w", ErrUnavailable, err)
	}
	for ctx.Err() == nil {
		select {
		case c.places <- struct{}{}:
		case <-ctx.Done():
			continue
		}
		m, got := c.next(ctx, inbox)
		if m == nil || !c.enter(ctx, m) {
			<-c.places
			continue
		}
		c.workers.Go(func() { c.work(m, got) })
	}
	_ = sub.Unsubscribe() // fails only without a connection, and then nothing arrives
	for len(c.arrived) > 0 {
		_ = (<-c.arrived).Nak() // fails for a status of a request, which has no reply subject
	}
	return c.drain(stop)
}

// next asks for a message and waits for it; nil if ctx has ended or it has to ask again.
func (c *consumer) next(ctx context.Context, inbox string) (*nats.Msg, Message) {
	if !c.asked {
		body := fmt.Appendf(nil, `{"batch":1,"expires":%d,"idle_heartbeat":%d}`, pullExpiry, pullBeat)
		if err := c.stream.nc.PublishRequest("$JS.API.CONSUMER.MSG.NEXT."+c.from+"."+c.name, inbox, body); err != nil { // without a connection
			c.stream.Rest(ctx, pullPause)
			return nil, Message{}
		}
		c.asked = true
	}
	silent := time.NewTimer(3 * pullBeat) // two heartbeats missed: the request is lost, whatever the state of the connection
	defer silent.Stop()
	select {
	case <-ctx.Done():
	case <-c.link.restored:
		c.link, c.asked = c.stream.link.Load(), false // the server has forgotten the request
	case <-silent.C:
		c.asked = false
	case m := <-c.arrived:
		meta, err := m.Metadata()
		if err == nil {
			c.asked, c.refused, c.pause = false, "", 0
			return m, Message{
				Subject: m.Subject, Header: settled(m.Header), Data: m.Data, Sequence: meta.Sequence.Stream, Time: meta.Timestamp,
				Deliveries: meta.NumDelivered,
			}
		}
		// Only a stored message comes with its position.
		if c.status(lastOf(m.Header, "Status"), lastOf(m.Header, "Description")); c.pause > 0 {
			c.stream.Rest(ctx, c.pause)
		}
	}
	return nil, Message{}
}

// status handles a server's status for a request. A repeated refusal is logged once.
func (c *consumer) status(status, description string) {
	switch status {
	case "100": // a heartbeat
		c.refused, c.pause = "", 0
	case "404", "408": // the request has ended
		c.asked, c.refused, c.pause = false, "", 0
	default:
		c.asked, c.pause = false, min(max(2*c.pause, pullPause), pullLongest)
		log := c.stream.log.Warn
		if c.refused == status {
			log = c.stream.log.Debug
		}
		c.refused = status
		log("NATS refuses to hand out messages", "consumer", c.name, "status", status, "reason", description)
	}
}

// enter waits, with the message in hand, until the limit of all classes has room. If ctx ends first, it gives the message back.
func (c *consumer) enter(ctx context.Context, m *nats.Msg) bool {
	if c.slots == nil {
		return true
	}
	beat := time.NewTicker(c.stream.beat)
	defer beat.Stop()
	for {
		select {
		case c.slots <- struct{}{}:
			return true
		case <-beat.C:
			_ = m.InProgress()
		case <-ctx.Done():
			_ = m.Nak()
			return false
		}
	}
}

// work runs a handler and keeps its message in hand, but no longer than any handler may take: a hanging handler's message goes to another worker.
func (c *consumer) work(m *nats.Msg, got Message) {
	replied := make(chan Reply, 1)
	go func() { replied <- c.handle(c.hctx, got) }()
	beat, late := time.NewTicker(c.stream.beat), time.After(c.stream.longest)
	defer beat.Stop()
	for {
		select {
		case reply := <-replied:
			if c.slots != nil {
				<-c.slots
			}
			c.settle(m, got, reply)
			<-c.places
			return
		case <-beat.C:
			_ = m.InProgress()
		case <-late:
			beat.Stop()
		}
	}
}

// settle carries out a reply. If it doesn't reach the server, the message comes again, and the object's document answers it.
func (c *consumer) settle(m *nats.Msg, got Message, reply Reply) {
	answer, again := m.Ack, reply.Retry
	if reply.Dead != "" {
		answer, again = m.Term, 0
		if err := c.stream.Dead(c.hctx, reply.Dead, got.Subject, got.Header, got.Data); err != nil {
			c.stream.log.Warn("a message can't be put into DEAD; it will be delivered again", "consumer", c.name, "error", err)
			again = redeliverSoon
		}
	}
	if again > 0 {
		answer = func(...nats.AckOpt) error { return m.NakWithDelay(again) }
	}
	if err := answer(); err != nil {
		c.stream.log.Warn("a message could not be acknowledged; it will be delivered again", "consumer", c.name, "error", err)
	}
}

// drain waits for the handlers, and cancels those that take longer than the grace.
func (c *consumer) drain(stop context.CancelFunc) error {
	s := c.stream
	ended := make(chan struct{})
	go func() { c.workers.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(s.grace):
		s.cut.Add(int64(len(c.places)))
		s.log.Warn("what is in hand does not end in time and is cut off; it will come again", "consumer", c.name)
		stop()
		select {
		case <-ended:
		case <-time.After(s.words):
			return fmt.Errorf("%d handlers still run %s after they were cancelled", len(c.places), s.words)
		}
	}
	in, cancel := context.WithTimeout(context.WithoutCancel(c.hctx), drainWait)
	defer cancel()
	if err := s.nc.FlushWithContext(in); err != nil {
		s.log.Warn("the last answers may not have reached NATS; their messages will come again", "consumer", c.name, "error", err)
	}
	return nil
}
