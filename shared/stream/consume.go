package stream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
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
	drainWait     = 2 * time.Second // for the server to confirm that no more will come
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
	in, cancel, err := s.within(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	_, err = s.js.Consumer(in, from, name)
	cancel()
	if errors.Is(err, jetstream.ErrConsumerNotFound) || errors.Is(err, jetstream.ErrStreamNotFound) {
		return fmt.Errorf("%s: stream %s has no such consumer; run the setup: %w", doing, from, ErrNotFound)
	}
	if err != nil {
		return s.fault(ctx, in, doing, err)
	}
	hctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	c := &consumer{
		stream:   s,
		from:     from,
		name:     name,
		workers:  max(workers, 1),
		handle:   handle,
		slots:    slots,
		hctx:     hctx,
		stop:     stop,
		arrived:  make(chan *nats.Msg, inboxSize(workers)),
		finished: make(chan *job, inboxSize(workers)),
		jobs:     map[*job]struct{}{},
	}
	if err := c.run(ctx); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return nil
}

// inboxSize leaves room for what a request still brings that a reconnect made us forget.
func inboxSize(workers int) int { return 4*max(workers, 1) + 64 }

// A consumer pulls the messages of one class in one cluster, or of one follower of the journal. One
// goroutine, that of run, owns its fields.
type consumer struct {
	stream  *Stream
	from    string // name of the stream
	name    string // of the consumer there
	workers int
	handle  func(context.Context, Message) Reply
	slots   chan struct{}   // one for each handler of any class; nil: no limit
	hctx    context.Context // of the handlers: outlives Consume's by the grace
	stop    context.CancelFunc

	sub      *nats.Subscription
	arrived  chan *nats.Msg
	finished chan *job
	jobs     map[*job]struct{} // in hand: waiting for a slot of the limit, or running
	waiting  []*job            // of those, the ones that wait, oldest first
	asked    int               // messages that the server may still send for the last request
	heard    time.Time         // when the server last gave a sign of life
	retry    <-chan time.Time  // set: don't ask before
	refused  string            // the status of the last request, if the server refused it
	pause    time.Duration     // after that
}

// A job is one message in hand.
type job struct {
	msg  *nats.Msg
	got  Message
	late time.Time // when its handler should have ended; zero: it has not begun
	mu   sync.Mutex
	done bool // the server has been told the end: a sign of life after that would undo a delay
}

// beat tells the server that the message is still worked on.
func (j *job) beat() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.done {
		_ = j.msg.Respond([]byte("+WPI")) // without a connection nobody listens; it is delivered again
	}
}

// end tells the server what becomes of the message.
func (j *job) end(verdict string) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.done = true
	return j.msg.Respond([]byte(verdict))
}

const (
	ack  = "+ACK"
	nak  = "-NAK"
	term = "+TERM"
)

func nakAfter(d time.Duration) string { return fmt.Sprintf(`-NAK {"delay": %d}`, d.Nanoseconds()) }

func (c *consumer) run(ctx context.Context) error {
	s := c.stream
	inbox := s.nc.NewInbox()
	var err error
	if c.sub, err = s.nc.ChanSubscribe(inbox, c.arrived); err != nil {
		return fmt.Errorf("subscribe: %w: %w", ErrUnavailable, err)
	}
	closed := make(chan struct{})
	c.sub.SetClosedHandler(func(string) { close(closed) })
	beat := time.NewTicker(s.beat)
	defer beat.Stop()
	watch := time.NewTicker(pullBeat)
	defer watch.Stop()
	l := s.link.Load()
	for {
		c.pull(inbox)
		var slot chan<- struct{}
		if len(c.waiting) > 0 {
			slot = c.slots
		}
		select {
		case <-ctx.Done():
			return c.drain(closed, beat.C)
		case m := <-c.arrived:
			c.take(m)
		case slot <- struct{}{}:
			c.start(c.waiting[0])
			c.waiting = c.waiting[1:]
		case j := <-c.finished:
			delete(c.jobs, j)
		case <-beat.C:
			c.beat()
		case <-l.restored:
			l = s.link.Load()
			c.asked, c.retry, c.pause = 0, nil, 0 // the server has forgotten the request
		case <-c.retry:
			c.retry = nil
		case <-watch.C:
			// Two signs of life missed: the request is lost, however the connection looks.
			if c.asked > 0 && l.alive.Err() == nil && time.Since(c.heard) > 3*pullBeat {
				c.asked = 0
			}
		}
	}
}

// pull asks for as many messages as there are hands free, unless a request stands
// already or a message waits for the limit: then others shall have the next ones.
func (c *consumer) pull(inbox string) {
	room := c.workers - len(c.jobs)
	if c.asked > 0 || c.retry != nil || len(c.waiting) > 0 || room <= 0 {
		return
	}
	if c.slots != nil {
		room = min(room, max(cap(c.slots)-len(c.slots), 1))
	}
	body, err := json.Marshal(map[string]any{
		"batch": room, "expires": pullExpiry.Nanoseconds(), "idle_heartbeat": pullBeat.Nanoseconds(),
	})
	if err == nil {
		err = c.stream.nc.PublishRequest("$JS.API.CONSUMER.MSG.NEXT."+c.from+"."+c.name, inbox, body)
	}
	if err != nil { // without a connection; link.restored ends the pause
		c.retry = time.After(pullPause)
		return
	}
	c.asked, c.heard = room, time.Now()
}

// take sorts what came to the inbox: a message, or what the server says about the request.
func (c *consumer) take(m *nats.Msg) {
	c.heard = time.Now()
	meta, err := m.Metadata()
	if err != nil { // not a stored message, which comes with where it stands: nobody waits for an answer
		if status := lastOf(m.Header, "Status"); status != "" {
			c.status(status, lastOf(m.Header, "Description"))
			return
		}
		c.stream.log.Warn("a message without metadata came to a worker", "consumer", c.name, "error", err)
		return
	}
	c.asked, c.refused, c.pause = max(c.asked-1, 0), "", 0
	j := &job{msg: m, got: message(m.Subject, m.Header, m.Data, meta.Sequence.Stream, meta.Timestamp, meta.NumDelivered)}
	c.jobs[j] = struct{}{}
	if c.slots != nil {
		c.waiting = append(c.waiting, j)
		return
	}
	c.start(j)
}

// status takes what the server says about a pull request. What it refuses again for the same reason is told once.
func (c *consumer) status(status, description string) {
	switch status {
	case "100": // a sign of life
		c.refused, c.pause = "", 0
	case "404", "408": // the request has ended
		c.asked, c.refused, c.pause = 0, "", 0
	default:
		c.asked = 0
		if c.retry == nil {
			c.pause = min(max(2*c.pause, pullPause), pullLongest)
			c.retry = time.After(c.pause)
		}
		tell := c.stream.log.Warn
		if c.refused == status {
			tell = c.stream.log.Debug
		}
		c.refused = status
		tell("NATS refuses to hand out messages", "consumer", c.name, "status", status, "reason", description)
	}
}

// start runs the handler of a job; with a limit, its slot is taken.
func (c *consumer) start(j *job) {
	j.late = time.Now().Add(c.stream.longest)
	go func() {
		reply := c.handle(c.hctx, j.got)
		if c.slots != nil {
			<-c.slots
		}
		c.settle(j, reply)
		c.finished <- j
	}()
}

// settle does what a reply says. A verdict that doesn't reach the server costs a
// second delivery, which the journal answers.
func (c *consumer) settle(j *job, reply Reply) {
	verdict := ack
	switch {
	case reply.Dead != "":
		verdict = term + " " + cut(reply.Dead, 200)
		if err := c.stream.Dead(c.hctx, reply.Dead, j.got.Subject, j.got.Header, j.got.Data); err != nil {
			c.stream.log.Warn("a message can't be put into DEAD; it will be delivered again", "consumer", c.name, "error", err)
			verdict = nakAfter(redeliverSoon)
		}
	case reply.Retry > 0:
		verdict = nakAfter(reply.Retry)
	}
	if err := j.end(verdict); err != nil {
		c.stream.log.Warn("a message could not be acknowledged; it will be delivered again", "consumer", c.name, "error", err)
	}
}

// beat keeps what is in hand, but for a message whose handler has not ended for longer than any may take: it hangs, and
// somebody else shall have it.
func (c *consumer) beat() {
	now := time.Now()
	for j := range c.jobs {
		if j.late.IsZero() || now.Before(j.late) {
			j.beat()
		}
	}
}

// drain ends the pulling, gives back what no handler has begun, and waits for the handlers.
func (c *consumer) drain(closed <-chan struct{}, beat <-chan time.Time) error {
	s := c.stream
	if err := c.sub.Drain(); err != nil { // there is no connection: nothing will come
		_ = c.sub.Unsubscribe()
	}
	for _, j := range c.waiting {
		delete(c.jobs, j)
		_ = j.end(nak) // without a connection it is delivered again anyway
	}
	giveBack := func(m *nats.Msg) {
		if m.Reply != "" { // the server's word has none
			_ = m.Respond([]byte(nak))
		}
	}
	grace := time.After(s.grace)
	confirm := time.After(drainWait)
	words := (<-chan time.Time)(nil)
	for closed != nil || len(c.jobs) > 0 {
		select {
		case m := <-c.arrived:
			giveBack(m)
		case <-closed:
			closed = nil
		case <-confirm:
			closed = nil
		case j := <-c.finished:
			delete(c.jobs, j)
		case <-beat:
			c.beat()
		case <-grace:
			if n := len(c.jobs); n > 0 {
				s.cut.Add(int64(n))
				s.log.Warn("what is in hand does not end in time and is cut off; it will come again", "consumer", c.name)
			}
			c.stop()
			words = time.After(s.words)
		case <-words:
			return fmt.Errorf("%d handlers still run %s after they were cancelled", len(c.jobs), s.words)
		}
	}
	for {
		select {
		case m := <-c.arrived:
			giveBack(m)
		default:
			in, cancel := context.WithTimeout(c.hctx, drainWait)
			defer cancel()
			if err := s.nc.FlushWithContext(in); err != nil && !errors.Is(err, context.Canceled) {
				s.log.Warn("the last answers may not have reached NATS; their messages will come again", "consumer", c.name, "error", err)
			}
			return nil
		}
	}
}
