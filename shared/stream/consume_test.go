package stream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/stream/embedded"
)

const class = "tag-missing"

func fail(t testing.TB, s *Stream, class string, n int) {
	t.Helper()
	var all errgroup.Group
	all.SetLimit(64)
	for i := range n {
		all.Go(func() error {
			_, _, err := s.PublishNewer(t.Context(), fmt.Sprintf("lbremedy.failed.c1.%s.u%d", class, i), fmt.Sprintf("%s.%d", class, i), nil,
				[]byte(fmt.Sprint(i)), func(Message) bool { return true })
			return err
		})
	}
	if err := all.Wait(); err != nil {
		t.Fatal(err)
	}
}

func consuming(t testing.TB, s *Stream, class string, workers int, handle func(context.Context, Message) Reply) (end func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Consume(ctx, "c1", class, workers, handle) }()
	var once sync.Once
	var err error
	end = func() error {
		once.Do(func() { cancel(); err = <-done })
		return err
	}
	t.Cleanup(func() { _ = end() })
	return end
}

// patience shortens the time until a message goes to another worker.
func patience(t testing.TB, s *Stream, d time.Duration) {
	t.Helper()
	found, err := s.js.Consumer(t.Context(), Failed, ConsumerOf("c1", class))
	if err != nil {
		t.Fatal(err)
	}
	c := found.CachedInfo().Config
	c.AckWait = d
	if _, err := s.js.UpdateConsumer(t.Context(), Failed, c); err != nil {
		t.Fatal(err)
	}
}

func settledAll(t testing.TB, s *Stream) {
	t.Helper()
	// The consumer learns of a message later than the stream.
	last, err := s.Last(t.Context(), Failed, event.FailedOf("*", class))
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "all messages to be settled", func() bool {
		found, err := s.js.Consumer(t.Context(), Failed, ConsumerOf("c1", class))
		if err != nil {
			return false
		}
		info := found.CachedInfo()
		return info.Delivered.Stream >= last.Sequence && info.NumPending == 0 && info.NumAckPending == 0
	})
}

type tally struct {
	mu   sync.Mutex
	seen map[string]int
}

func (y *tally) add(m Message) int {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.seen == nil {
		y.seen = map[string]int{}
	}
	y.seen[m.Subject]++
	return y.seen[m.Subject]
}

func (y *tally) len() int {
	y.mu.Lock()
	defer y.mu.Unlock()
	return len(y.seen)
}

func TestConsumeRunsUpToItsWorkers(t *testing.T) {
	const workers, n = 8, 200
	s := fresh(t, class, "other")
	fail(t, s, class, n)
	fail(t, s, "other", 3) // none of these may arrive
	var running, most atomic.Int64
	var seen tally
	full := make(chan struct{})
	var once sync.Once
	end := consuming(t, s, class, workers, func(_ context.Context, m Message) Reply {
		now := running.Add(1)
		defer running.Add(-1)
		for {
			was := most.Load()
			if now <= was || most.CompareAndSwap(was, now) {
				break
			}
		}
		if now == workers {
			once.Do(func() { close(full) })
		}
		<-full // all places are needed before any is free
		if !strings.HasPrefix(m.Subject, "lbremedy.failed.c1.tag-missing.u") || m.Deliveries != 1 || m.ID() == "" || m.Time.IsZero() || m.Sequence == 0 {
			t.Errorf("got %+v", m)
		}
		seen.add(m)
		return Reply{}
	})
	settledAll(t, s)
	if err := end(); err != nil {
		t.Error(err)
	}
	if most.Load() != workers || seen.len() != n {
		t.Errorf("at most %d ran at once, %d were seen", most.Load(), seen.len())
	}
	for subject, times := range seen.seen {
		if times != 1 {
			t.Errorf("%s came %d times", subject, times)
		}
	}
}

func TestConsumeLimitsAllClassesTogether(t *testing.T) {
	const limit, n = 5, 30
	url := serve(t, embedded.Options{}).URL()
	s := connect(t, Config{URL: url, Handlers: limit})
	classes := []string{"a", "b", "c", "d"}
	setup(t, s, classes...)
	for _, c := range classes {
		fail(t, s, c, n)
	}
	var running, most atomic.Int64
	var seen tally
	gate := make(chan struct{})
	for _, c := range classes {
		consuming(t, s, c, 4, func(_ context.Context, m Message) Reply {
			now := running.Add(1)
			defer running.Add(-1)
			for was := most.Load(); now > was && !most.CompareAndSwap(was, now); was = most.Load() {
			}
			<-gate
			seen.add(m)
			return Reply{}
		})
	}
	eventually(t, "the limit to be reached", func() bool { return running.Load() == limit })
	// Messages that wait for the limit stay with the server: at most one of each class is in hand.
	inHand := 0
	for _, c := range classes {
		found, err := s.js.Consumer(t.Context(), Failed, ConsumerOf("c1", c))
		if err != nil {
			t.Fatal(err)
		}
		inHand += found.CachedInfo().NumAckPending
	}
	if most := limit + 4*len(classes); inHand > most {
		t.Errorf("%d are in hand, want at most %d", inHand, most)
	}
	close(gate)
	eventually(t, "all messages", func() bool { return seen.len() == n*len(classes) })
	if most.Load() != limit {
		t.Errorf("%d ran at once, want %d", most.Load(), limit)
	}
}

func TestReplies(t *testing.T) {
	s := fresh(t, class)
	fail(t, s, class, 3)
	var seen tally
	var mu sync.Mutex
	came := map[string][]time.Time{}
	const delay = 300 * time.Millisecond
	consuming(t, s, class, 4, func(_ context.Context, m Message) Reply {
		mu.Lock()
		came[string(m.Data)] = append(came[string(m.Data)], time.Now())
		mu.Unlock()
		times := seen.add(m)
		if int(m.Deliveries) != times {
			t.Errorf("%s: delivery %d says it is %d", m.Subject, times, m.Deliveries)
		}
		switch string(m.Data) {
		case "0":
			return Reply{}
		case "1":
			if times < 3 {
				return Reply{Retry: delay}
			}
			return Reply{}
		}
		return Reply{Dead: "the payload is broken", Retry: time.Second}
	})
	settledAll(t, s)
	mu.Lock()
	defer mu.Unlock()
	if len(came["0"]) != 1 || len(came["1"]) != 3 || len(came["2"]) != 1 {
		t.Fatalf("came %d, %d and %d times", len(came["0"]), len(came["1"]), len(came["2"]))
	}
	for i := range 2 {
		if gap := came["1"][i+1].Sub(came["1"][i]); gap < delay {
			t.Errorf("came again after %s", gap)
		}
	}
	dead, err := s.Last(t.Context(), Dead, "lbremedy.dead.>")
	if err != nil {
		t.Fatal(err)
	}
	if dead.Subject != "lbremedy.dead.failed.c1.tag-missing.u2" || dead.Header[HeaderReason][0] != "the payload is broken" || string(dead.Data) != "2" {
		t.Errorf("got %+v", dead)
	}
}

func TestMessagesInHandStayInHand(t *testing.T) {
	s := fresh(t, class)
	patience(t, s, time.Second)
	s.beat = 100 * time.Millisecond
	fail(t, s, class, 1)
	var deliveries atomic.Int64
	hold := make(chan struct{})
	consuming(t, s, class, 4, func(_ context.Context, m Message) Reply {
		deliveries.Add(1)
		<-hold
		return Reply{}
	})
	// The message is held longer than the server's AckWait, by its clock: meanwhile a message without heartbeats comes three times.
	other, err := s.js.CreateConsumer(t.Context(), Failed, jetstream.ConsumerConfig{AckPolicy: jetstream.AckExplicitPolicy, AckWait: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		b, err := other.Fetch(1, jetstream.FetchMaxWait(10*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		if m := <-b.Messages(); m == nil {
			t.Fatal("it does not come again")
		}
	}
	if deliveries.Load() != 1 {
		t.Errorf("the message in hand was delivered %d times", deliveries.Load())
	}
	close(hold)
	settledAll(t, s)
}

func TestHandlerHangs(t *testing.T) {
	t.Parallel()
	s := fresh(t, class)
	patience(t, s, 500*time.Millisecond)
	s.beat, s.longest = 50*time.Millisecond, time.Second
	fail(t, s, class, 1)
	hold := make(chan struct{})
	var deliveries atomic.Int64
	consuming(t, s, class, 4, func(_ context.Context, m Message) Reply {
		if deliveries.Add(1) == 1 {
			<-hold
		}
		return Reply{}
	})
	settledAll(t, s)
	if n := deliveries.Load(); n != 2 {
		t.Errorf("it was delivered %d times", n)
	}
	close(hold)
}

func TestDrain(t *testing.T) {
	s := fresh(t, class)
	fail(t, s, class, 20)
	began, finish := make(chan struct{}, 20), make(chan struct{})
	var finished atomic.Int64
	var cancelled atomic.Bool
	end := consuming(t, s, class, 3, func(ctx context.Context, m Message) Reply {
		began <- struct{}{}
		<-finish
		if ctx.Err() != nil {
			cancelled.Store(true)
		}
		finished.Add(1)
		return Reply{}
	})
	for range 3 {
		<-began
	}
	subscriptions := s.nc.NumSubscriptions()
	ended := make(chan error, 1)
	go func() { ended <- end() }()
	eventually(t, "the subscription to end", func() bool { return s.nc.NumSubscriptions() == subscriptions-1 })
	select {
	case err := <-ended:
		t.Fatalf("it does not wait for its handlers: %v", err)
	default:
	}
	close(finish)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if finished.Load() != 3 || cancelled.Load() {
		t.Errorf("%d handlers finished, cancelled: %t", finished.Load(), cancelled.Load())
	}
	eventually(t, "17 messages to wait, and nothing in hand or asked for", func() bool {
		found, err := s.js.Consumer(t.Context(), Failed, ConsumerOf("c1", class))
		if err != nil {
			return false
		}
		i := found.CachedInfo()
		return i.NumAckPending == 0 && i.NumPending == 17 && i.NumWaiting == 0
	})
	var rest tally
	consuming(t, s, class, 3, func(_ context.Context, m Message) Reply { rest.add(m); return Reply{} })
	eventually(t, "the rest", func() bool { return rest.len() == 17 })
}

func TestDrainGivesBackWhatWaitsForTheLimit(t *testing.T) {
	s := connect(t, Config{URL: serve(t, embedded.Options{}).URL(), Handlers: 1})
	setup(t, s, class, "other")
	fail(t, s, "other", 1)
	fail(t, s, class, 3)
	began, finish := make(chan struct{}), make(chan struct{})
	consuming(t, s, "other", 1, func(context.Context, Message) Reply { close(began); <-finish; return Reply{} })
	<-began
	end := consuming(t, s, class, 4, func(context.Context, Message) Reply { t.Error("it runs beyond the limit"); return Reply{} })
	eventually(t, "a message to wait", func() bool {
		found, err := s.js.Consumer(t.Context(), Failed, ConsumerOf("c1", class))
		return err == nil && found.CachedInfo().NumAckPending == 1
	})
	if err := end(); err != nil {
		t.Error(err)
	}
	close(finish)
	free := connect(t, Config{URL: s.nc.ConnectedUrl()})
	var seen tally
	consuming(t, free, class, 4, func(_ context.Context, m Message) Reply { seen.add(m); return Reply{} })
	eventually(t, "what was given back", func() bool { return seen.len() == 3 })
}

func TestHandlersThatDoNotEnd(t *testing.T) {
	s := connect(t, Config{URL: serve(t, embedded.Options{}).URL(), Grace: 50 * time.Millisecond})
	setup(t, s, class)
	fail(t, s, class, 1)
	began := make(chan struct{})
	end := consuming(t, s, class, 1, func(ctx context.Context, _ Message) Reply {
		close(began)
		<-ctx.Done() // it ends when cancelled
		return Reply{Retry: time.Millisecond}
	})
	<-began
	if err := end(); err != nil || s.Cut() != 1 {
		t.Errorf("%v, and %d were cut off", err, s.Cut())
	}
	s.words = 50 * time.Millisecond
	began, finish := make(chan struct{}), make(chan struct{})
	defer close(finish)
	end = consuming(t, s, class, 1, func(context.Context, Message) Reply { close(began); <-finish; return Reply{} })
	<-began
	if err := end(); err == nil || !strings.Contains(err.Error(), "1 handlers still run") {
		t.Errorf("got %v", err)
	}
}

func TestConsumeGoesOnAfterNATSWasAway(t *testing.T) {
	server := serve(t, embedded.Options{})
	p := newProxy(t, server.URL())
	s := connect(t, Config{URL: p.url()})
	setup(t, s, class)
	// Messages sent before the server notices the cut come again after AckWait.
	patience(t, s, time.Second)
	var seen tally
	consuming(t, s, class, 4, func(_ context.Context, m Message) Reply { seen.add(m); return Reply{} })
	fail(t, s, class, 5)
	eventually(t, "the first messages", func() bool { return seen.len() == 5 })
	settledAll(t, s)
	p.cut(true)
	lost(t, s)
	fail(t, connect(t, Config{URL: server.URL()}), class, 10)
	p.up()
	eventually(t, "the messages of the meantime", func() bool { return seen.len() == 10 })
	settledAll(t, s)
}

func TestConsumeGoesOnWithANewConsumer(t *testing.T) {
	s := fresh(t, class)
	var seen tally
	consuming(t, s, class, 4, func(_ context.Context, m Message) Reply { seen.add(m); return Reply{} })
	fail(t, s, class, 1)
	eventually(t, "the first message", func() bool { return seen.len() == 1 })
	if err := s.js.DeleteConsumer(t.Context(), Failed, ConsumerOf("c1", class)); err != nil {
		t.Fatal(err)
	}
	setup(t, s, class)
	fail(t, s, class, 2)
	eventually(t, "the next message", func() bool { return seen.len() == 2 })
}

// A repeated refusal is logged once, and the request is repeated less and less often.
func TestRefusedAgain(t *testing.T) {
	t.Parallel()
	told := make(refusals, 100)
	c := &consumer{stream: &Stream{log: slog.New(told)}, name: "c"}
	warned, pauses := 0, []time.Duration{}
	for _, status := range []string{"503", "503", "503", "503", "409", "100", "409"} {
		c.status(status, "why")
		pauses = append(pauses, c.pause)
		if status == "100" {
			continue
		}
		if r := <-told; r.Level == slog.LevelWarn {
			warned++
		}
	}
	if warned != 3 { // the first 503, the first 409, and the one after a heartbeat
		t.Errorf("%d warnings", warned)
	}
	want := []time.Duration{pullPause, 2 * pullPause, 4 * pullPause, pullLongest, pullLongest, 0, pullPause}
	if !slices.Equal(pauses, want) {
		t.Errorf("pauses %s, want %s", pauses, want)
	}
}

type refusals chan slog.Record

func (r refusals) Enabled(context.Context, slog.Level) bool { return true }
func (r refusals) WithAttrs([]slog.Attr) slog.Handler       { return r }
func (r refusals) WithGroup(string) slog.Handler            { return r }
func (r refusals) Handle(_ context.Context, record slog.Record) error {
	if strings.Contains(record.Message, "refuses") {
		select {
		case r <- record:
		default:
		}
	}
	return nil
}

func TestConsumeWithoutSetup(t *testing.T) {
	s := fresh(t)
	err := s.Consume(t.Context(), "c1", class, 1, nil)
	if !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), "run the setup") {
		t.Errorf("got %v", err)
	}
}

// TestMessagesOfAKilledWorkerComeAgain cuts a worker off in the middle of its work; another one takes over.
func TestMessagesOfAKilledWorkerComeAgain(t *testing.T) {
	t.Parallel()
	const n = 6
	server := serve(t, embedded.Options{})
	s := connect(t, Config{URL: server.URL()})
	setup(t, s, class)
	patience(t, s, time.Second)
	fail(t, s, class, n)
	p := newProxy(t, server.URL())
	doomed := connect(t, Config{URL: p.url(), Grace: time.Millisecond})
	var began atomic.Int64
	killed := make(chan struct{})
	consuming(t, doomed, class, n, func(context.Context, Message) Reply {
		began.Add(1)
		<-killed
		return Reply{}
	})
	eventually(t, "the messages to be in hand", func() bool { return began.Load() == n })
	p.cut(true)
	close(killed)
	lost(t, doomed)
	var seen tally
	consuming(t, s, class, n, func(_ context.Context, m Message) Reply {
		if m.Deliveries < 2 {
			t.Errorf("%s: delivery %d", m.Subject, m.Deliveries)
		}
		seen.add(m)
		return Reply{}
	})
	eventually(t, "the messages to come again", func() bool { return seen.len() == n })
	settledAll(t, s)
}

// TestConsumeSurvivesKilledServers settles every message; one may come twice, but none may be lost.
func TestConsumeSurvivesKilledServers(t *testing.T) {
	t.Parallel()
	const n, kills = 120, 3
	dir := t.TempDir()
	server := crashable(t, dir)
	p := newProxy(t, server.url)
	s := connect(t, Config{URL: p.url()})
	setup(t, s, class)
	patience(t, s, time.Second)
	fail(t, s, class, n)
	var seen tally
	steps := make(chan struct{}) // lets handlers through between the kills
	consuming(t, s, class, 8, func(_ context.Context, m Message) Reply {
		<-steps
		if seen.add(m) == 1 && strings.HasSuffix(m.Subject, "7") {
			return Reply{Retry: 10 * time.Millisecond}
		}
		return Reply{}
	})
	for range kills {
		for range 20 {
			steps <- struct{}{}
		}
		server.kill()
		server = crashable(t, dir)
		p.turn(server.url)
	}
	close(steps)
	eventually(t, "all messages", func() bool { return seen.len() == n })
	settledAll(t, s)
}

func BenchmarkConsume(b *testing.B) {
	for _, workers := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
			s := connect(b, Config{URL: serve(b, embedded.Options{Sync: true}).URL()})
			setup(b, s, class)
			fail(b, s, class, b.N)
			b.ResetTimer()
			var got atomic.Int64
			done := make(chan struct{})
			end := consuming(b, s, class, workers, func(context.Context, Message) Reply {
				if got.Add(1) == int64(b.N) {
					close(done)
				}
				return Reply{}
			})
			<-done
			b.StopTimer()
			if err := end(); err != nil {
				b.Fatal(err)
			}
		})
	}
}

func BenchmarkDelivery(b *testing.B) {
	s := connect(b, Config{URL: serve(b, embedded.Options{Sync: true}).URL()})
	setup(b, s, class)
	arrived := make(chan struct{})
	end := consuming(b, s, class, 8, func(context.Context, Message) Reply { arrived <- struct{}{}; return Reply{} })
	i := 0
	for b.Loop() {
		i++
		if _, _, err := s.PublishNewer(b.Context(), fmt.Sprintf("lbremedy.failed.c1.tag-missing.u%d", i), fmt.Sprint(i), nil, make([]byte, 900),
			func(Message) bool { return true }); err != nil {
			b.Fatal(err)
		}
		<-arrived
	}
	b.StopTimer()
	if err := end(); err != nil {
		b.Fatal(err)
	}
}

// A new follower gets the state of each case and then each record; followers are independent.
func TestConsumeCases(t *testing.T) {
	s := fresh(t)
	ctx := t.Context()
	for i := range 3 {
		appendRecord(t, s, "c1", "u1", "busy", fmt.Sprint(i))
	}
	began := time.Now()
	since, err := s.SetupFollower(ctx, "tell-ops", "c1")
	if err != nil {
		t.Fatal(err)
	}
	if since.Before(began.Add(-time.Minute)) || since.After(time.Now().Add(time.Minute)) {
		t.Errorf("it exists since %s", since)
	}
	if again, err := s.SetupFollower(ctx, "tell-ops", "c1"); err != nil || !again.Equal(since) {
		t.Errorf("got %s, %v, want %s", again, err, since)
	}
	if _, err := s.SetupFollower(ctx, "no.name", ""); err == nil {
		t.Error("a name with a dot was taken")
	}
	if _, err := s.SetupFollower(ctx, "tell-ops", "c.1"); err == nil {
		t.Error("a cluster with a dot was taken")
	}
	appendRecord(t, s, "c2", "u2", "busy", "another cluster's")
	if err := s.ConsumeCases(ctx, "tell-nobody", 1, nil); !errors.Is(err, ErrNotFound) {
		t.Errorf("got %v", err)
	}
	appendRecord(t, s, "c1", "u1", "busy", "3")
	inner, stop := context.WithCancel(ctx)
	var got []string
	err = s.ConsumeCases(inner, "tell-ops", 1, func(_ context.Context, m Message) Reply {
		got = append(got, string(m.Data))
		if len(got) == 2 {
			stop()
		}
		return Reply{}
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"2", "3"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
