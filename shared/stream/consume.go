package stream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// A Reply says what becomes of a consumed message. The zero Reply acknowledges it.
type Reply struct {
	Retry time.Duration // positive: delivered again after this long
	Dead  string        // a reason: the message goes to DEAD and is not delivered again
}

const (
	pullExpiry    = 30 * time.Second       // of one pull request
	pullBeat      = 5 * time.Second        // between the server's signs of life while a request waits
	pullPause     = 500 * time.Millisecond // after a refused request, twice as long after the next one
	pullLongest   = 2 * time.Second
	redeliverSoon = 5 * time.Second // of a message whose way to DEAD is blocked
	drainWait     = 2 * time.Second // for the server to confirm that the last answers have come
)

// Consume hands the messages of a class in a cluster to handle, up to workers of them at once,
// and returns nil after ctx has ended: it takes no more messages, gives back those
// that no handler has begun, and lets running handlers finish for Config.Grace.
// Handlers that take longer are cancelled, and if that doesn't end them either,
// Consume returns an error.
//
// A message is handled by one worker at a time as long as the connection stands:
// a sign of life goes out every 10 s. A message whose worker or connection died is
// delivered again after 30 s. While NATS is away Consume waits, for ever if need be.
//
// With Config.Handlers, the handlers of all classes count together.
// ErrNotFound: the class has no consumer, since Setup never ran for it and the cluster.
func (s *Stream) Consume(ctx context.Context, cluster, class string, workers int, handle func(context.Context, Message) Reply) error {
	return s.consume(ctx, Failed, ConsumerOf(cluster, class), workers, s.slots, handle)
}

// ConsumeCases is Consume for the journal and a follower that SetupFollower has
// set up. Its handlers don't count towards Config.Handlers: who notifies people must
// not wait for those who work.
func (s *Stream) ConsumeCases(ctx context.Context, follower string, workers int, handle func(context.Context, Message) Reply) error {
	return s.consume(ctx, Cases, follower, workers, nil, handle)
}

// Cut returns how many handlers were cancelled because they did not end within Config.Grace.
func (s *Stream) Cut() int { return int(s.cut.Load()) }

// InHand returns how many handlers run now, if Config.Handlers limits them.
func (s *Stream) InHand() int { return len(s.slots) }

// Crowded reports whether handlers hold more than half of the places that Config.Handlers gives them.
func (s *Stream) Crowded() bool { return s.slots != nil && len(s.slots) > cap(s.slots)/2 }

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

// A consumer takes the messages of one class in one cluster, or of one follower of the journal, one after the other: it asks for
// the next one only when a worker is free for it, which leaves the rest to other processes.
type consumer struct {
	stream *Stream
	from   string // name of the stream
	name   string // of the consumer there
	handle func(context.Context, Message) Reply
	hctx   context.Context // of the handlers: outlives Consume's by the grace
	places chan struct{}   // one for each worker
	slots  chan struct{}   // one for each handler of any class; nil: no limit

	workers sync.WaitGroup
	arrived chan *nats.Msg
	link    *link
	asked   bool          // the server has a request for a message
	refused string        // the status of the last request, if the server refused it
	pause   time.Duration // after that
}

const (
	ack     = "+ACK"
	nak     = "-NAK"
	term    = "+TERM"
	working = "+WPI"
)

func nakAfter(d time.Duration) string { return fmt.Sprintf(`-NAK {"delay": %d}`, d.Nanoseconds()) }

// say tells the server what becomes of a message. Without a connection nobody listens, and the message is delivered again.
func (c *consumer) say(m *nats.Msg, verdict string) error {
	return c.stream.nc.Publish(m.Reply, []byte(verdict))
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
	_ = sub.Unsubscribe() // fails only without a connection, and then nothing will come
	for len(c.arrived) > 0 {
		if m := <-c.arrived; m.Reply != "" { // what the server says of a request has none
			_ = c.say(m, nak)
		}
	}
	return c.drain(stop)
}

// next asks for a message and waits for it; nil if ctx has ended, or the server has to be asked again.
func (c *consumer) next(ctx context.Context, inbox string) (*nats.Msg, Message) {
	if !c.asked {
		body, err := json.Marshal(map[string]any{"batch": 1, "expires": pullExpiry.Nanoseconds(), "idle_heartbeat": pullBeat.Nanoseconds()})
		if err == nil {
			err = c.stream.nc.PublishRequest("$JS.API.CONSUMER.MSG.NEXT."+c.from+"."+c.name, inbox, body)
		}
		if err != nil { // without a connection
			c.stream.Rest(ctx, pullPause)
			return nil, Message{}
		}
		c.asked = true
	}
	silent := time.NewTimer(3 * pullBeat) // two signs of life missed: the request is lost, however the connection looks
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
		// It is not a stored message, which comes with where it stands: the server says something about the request.
		if c.status(lastOf(m.Header, "Status"), lastOf(m.Header, "Description")); c.pause > 0 {
			c.stream.Rest(ctx, c.pause)
		}
	}
	return nil, Message{}
}

// status takes what the server says about a request. What it refuses again for the same reason is logged once.
func (c *consumer) status(status, description string) {
	switch status {
	case "100": // a sign of life
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

// enter waits until the limit of all classes has room for one more handler, and keeps the message in hand meanwhile. If ctx ends
// first, the message is given back.
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
			_ = c.say(m, working)
		case <-ctx.Done():
			_ = c.say(m, nak)
			return false
		}
	}
}

// work runs the handler of a message and keeps the message in hand, but no longer than any handler may take: one that has not
// ended by then hangs, and somebody else shall have its message.
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
			_ = c.say(m, working)
		case <-late:
			beat.Stop()
		}
	}
}

// settle does what a reply says. A verdict that doesn't reach the server costs a
// second delivery, which the document of the object answers.
func (c *consumer) settle(m *nats.Msg, got Message, reply Reply) {
	verdict := ack
	switch {
	case reply.Dead != "":
		verdict = term
		if err := c.stream.Dead(c.hctx, reply.Dead, got.Subject, got.Header, got.Data); err != nil {
			c.stream.log.Warn("a message can't be put into DEAD; it will be delivered again", "consumer", c.name, "error", err)
			verdict = nakAfter(redeliverSoon)
		}
	case reply.Retry > 0:
		verdict = nakAfter(reply.Retry)
	}
	if err := c.say(m, verdict); err != nil {
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
