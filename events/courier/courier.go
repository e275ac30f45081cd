// Package courier brings the failures that wait in NATS to functions that run outside:
// on Knative, on Function Compute, or anywhere that HTTP reaches.
//
// Each class has a lane of its own: its consumer, its connections, its limits. One
// that is slow, dead or wrong holds up no other. A lane takes from the stream as many
// messages as it has hands free and posts each as a CloudEvent in structured mode. The
// answer decides, see judge; what comes again stays away for as long as the function
// asks, or else for longer each time.
//
// A courier keeps nothing. Whatever kills it, NATS hands its messages out again after
// 30 s, and the function's journal answers what was done already. So several may run
// side by side, and each may be replaced at any time.
//
// What runs outside is counted here: functions stay small and know no metrics, and
// their records in the journal tell all. Couriers share one follower, so that each
// record is counted once.
package courier

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/lbremedy/lbremedy/events/courier/invoke"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/observe"
	"github.com/lbremedy/lbremedy/shared/stream"
)

// A Config is what a courier works with.
type Config struct {
	Cluster string           // whose failures it delivers
	Stream  *stream.Stream   // its Config.Grace is how long what is in hand may take at the end
	Log     *slog.Logger     // nil: nothing is logged
	Metrics *observe.Courier // nil: nothing is counted
	Keys    invoke.Keys      // for what is signed for Function Compute; nil: Alibaba's default chain
}

// A Courier delivers. Its methods may be called side by side.
type Courier struct {
	cluster string
	stream  *stream.Stream
	log     *slog.Logger
	metrics *observe.Courier
	keys    invoke.Keys
	again   time.Duration // until a lane that could not begin is tried again

	mu    sync.Mutex
	wrong map[string]fault // by class: why its route does not work
}

// A fault is why a route does not work, and when that was seen last.
type fault struct {
	text string
	at   time.Time
}

// stale is when a fault counts no more that nobody has seen again: what waits comes
// back sooner.
const stale = 3 * longestPause

// New returns a courier.
func New(c Config) *Courier {
	x := &Courier{cluster: c.Cluster, stream: c.Stream, log: c.Log, metrics: c.Metrics, keys: c.Keys, again: 10 * time.Second, wrong: map[string]fault{}}
	if x.log == nil {
		x.log = slog.New(slog.DiscardHandler)
	}
	if x.keys == nil {
		x.keys = invoke.DefaultChain()
	}
	return x
}

// Ready returns what a person has to put right: routes that refuse the courier or can't
// be used. nil: there is none. That a function is away is no reason: it comes back.
func (c *Courier) Ready() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []string
	for class, f := range c.wrong {
		if time.Since(f.at) < stale {
			all = append(all, class+": "+f.text)
		}
	}
	if len(all) == 0 {
		return nil
	}
	slices.Sort(all)
	return errors.New(strings.Join(all, "; "))
}

// blame notes why the route of a class does not work; an empty text: it does.
func (c *Courier) blame(class, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if text == "" {
		delete(c.wrong, class)
	} else {
		c.wrong[class] = fault{text, time.Now()}
	}
}

// A lane is the delivery of one class by one route.
type lane struct {
	*Courier
	class  string
	target target
	limit  *rate.Limiter   // nil: none
	done   context.Context // ends when the lane takes no more
	stop   context.CancelFunc
	ended  chan struct{} // closed when nothing is in hand any more
}

// Run delivers by these routes, and by each that comes after them, until ctx ends.
// Then it lets what is in hand finish for as long as the stream's grace, and gives the
// rest back at once. A class whose route changes is held up until what is in hand is
// finished; the others don't notice.
func (c *Courier) Run(ctx context.Context, first Routes, changed <-chan Routes) error {
	lanes := map[string]*lane{}
	var ending sync.WaitGroup
	set := func(routes Routes) {
		for class, l := range lanes {
			if t, ok := routes[class]; !ok || !reflect.DeepEqual(t, l.target) {
				l.stop()
			}
		}
		for _, class := range slices.Sorted(maps.Keys(routes)) {
			before := lanes[class]
			if before != nil && before.done.Err() == nil {
				continue
			}
			l := c.lane(ctx, class, routes[class])
			lanes[class] = l
			ending.Go(func() {
				if before != nil {
					<-before.ended
				}
				l.run()
			})
		}
	}
	set(first)
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case routes := <-changed:
			set(routes)
		}
	}
	ending.Wait()
	return nil
}

// lane returns a lane that is not running.
func (c *Courier) lane(ctx context.Context, class string, t target) *lane {
	l := &lane{Courier: c, class: class, target: t, ended: make(chan struct{})}
	l.done, l.stop = context.WithCancel(ctx)
	if t.rate > 0 {
		l.limit = rate.NewLimiter(rate.Limit(t.rate), t.burst)
	}
	return l
}

// run delivers until the lane is stopped. What keeps it from beginning is tried again:
// another program sets up the consumer, and NATS comes back.
func (l *lane) run() {
	defer close(l.ended)
	defer l.stop()
	defer l.blame(l.class, "")
	defer l.metrics.NoRoute(l.class)
	told := ""
	for l.done.Err() == nil {
		err := l.consume()
		if l.done.Err() != nil {
			if err != nil && !errors.Is(err, context.Canceled) {
				l.log.Warn("a lane did not end in time; what it had in hand comes again", "class", l.class, "error", err)
			}
			return
		}
		if err != nil {
			l.blame(l.class, err.Error())
			l.metrics.Route(l.class, false)
			if err.Error() != told {
				told = err.Error()
				l.log.Error("a class can't be delivered; trying again", "class", l.class, "error", err, "again", l.again)
			}
		}
		timer := time.NewTimer(l.again)
		select {
		case <-l.done.Done():
		case <-timer.C:
		}
		timer.Stop()
	}
}

// consume opens the endpoint and hands out what the stream has.
func (l *lane) consume() error {
	d, err := newEndpoint(l.target, l.keys)
	if err != nil {
		return err
	}
	defer d.close()
	l.blame(l.class, "")
	l.metrics.Route(l.class, true)
	return l.stream.Consume(l.done, l.cluster, l.class, d.workers, func(ctx context.Context, m stream.Message) stream.Reply {
		l.metrics.Took(l.class)
		got, reply := l.deliver(ctx, d, m)
		l.metrics.Ended(l.class, string(got))
		return reply
	})
}

// deliver posts one message, and says what becomes of it.
func (l *lane) deliver(ctx context.Context, d *endpoint, m stream.Message) (end, stream.Reply) {
	giveBack := stream.Reply{Retry: atOnce}
	e, err := event.DecodeNATS(m.Header, m.Data)
	var body []byte
	if err == nil {
		body, err = event.EncodeJSON(e)
	}
	if err != nil {
		l.log.Error("event is dead", "class", l.class, "subject", m.Subject, "reason", err.Error())
		return dead, stream.Reply{Dead: err.Error()}
	}
	if !l.turn(ctx) {
		return returned, giveBack
	}
	log := l.log.With("class", l.class, "event", e.ID())
	a := d.post(ctx, body, event.TraceParent(e))
	if ctx.Err() != nil && a.status == 0 { // the grace is over
		return returned, giveBack
	}
	l.metrics.Posted(l.class, a.status, a.took)
	l.metrics.Route(l.class, a.status > 0 && a.end != refused)
	if a.end == refused {
		l.blame(l.class, a.text)
	} else if a.status > 0 {
		l.blame(l.class, "")
	}
	switch a.end {
	case acked:
		log.Info("event delivered", "status", a.status)
		return acked, stream.Reply{}
	case dead:
		log.Error("event is dead", "status", a.status, "reason", a.text)
		return dead, stream.Reply{Dead: fmt.Sprintf("class %s: %s", l.class, a.text)}
	case refused:
		wait := pause(firstRefusal, m.Deliveries)
		log.Error("the route of a class does not work; the event comes again", "status", a.status, "error", a.text, "again", wait)
		return refused, stream.Reply{Retry: wait}
	}
	wait, ok := asked(a.header, time.Now())
	if !ok {
		wait = pause(firstPause, m.Deliveries)
	}
	log.Info("event comes again", "status", a.status, "reason", a.text, "again", wait)
	return later, stream.Reply{Retry: wait}
}

// turn waits until the limit lets a request through, and reports whether it does
// before the lane ends.
func (l *lane) turn(ctx context.Context) bool {
	if l.done.Err() != nil {
		return false
	}
	if l.limit == nil {
		return true
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(l.done, cancel)()
	return l.limit.Wait(ctx) == nil
}
