package observe

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lbremedy/lbremedy/shared/ledger"
	"github.com/lbremedy/lbremedy/shared/stream"
)

// A State is the state of the stream and its limits, for all its users.
type State struct {
	Classes     []string       // all classes
	Open        []string       // classes with an open breaker
	Paused      time.Time      // start of the pause of all writes; zero: not paused
	Left        map[string]int // Services that may still be written, in the budget of a class
	ClusterLeft int            // the same in the budget of the cluster
	Queues      []stream.Queue
	Fills       []stream.Fill
	Ledger      ledger.Ledger
}

const (
	patience = 20 * time.Second // with one read of the state
	stateLag = 30 * time.Second // from one read to the next
)

// Follow reads the state twice a minute until ctx ends, and publishes it. While it can't be read, only that is published: the last one
// would look healthy. A failure is reported once, until it changes.
func (m *Metrics) Follow(ctx context.Context, read func(context.Context) (State, error), tell func(error)) error {
	return m.follow(ctx, stateLag, read, tell)
}

func (m *Metrics) follow(ctx context.Context, every time.Duration, read func(context.Context) (State, error), tell func(error)) error {
	s := newState()
	if err := m.ours.Register(s); err != nil {
		return fmt.Errorf("register the metrics of the state: %w", err)
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	lastError := ""
	for {
		in, cancel := context.WithTimeout(ctx, patience)
		now, err := read(in)
		cancel()
		if ctx.Err() != nil {
			return nil
		}
		s.set(now, err)
		switch {
		case err == nil:
			lastError = ""
		case err.Error() != lastError && !errors.Is(err, context.Canceled):
			lastError = err.Error()
			tell(err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

type state struct {
	known, paused, breaker, leftOfClass, leftOfCluster, waiting, messages, bytes, limit, lost, problems *prometheus.Desc

	mu  sync.Mutex
	now *State // nil: unknown
}

func newState() *state {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	return &state{
		known: desc("lbremedy_state_known", "Whether the state of the stream could be read, 1 or 0. Without it there is none of the metrics that "+
			"follow from it."),
		paused: desc("lbremedy_paused_timestamp_seconds", "Since when all writes are paused, in seconds since 1970; 0 if they are not."),
		breaker: desc("lbremedy_breaker_open", "Whether the breaker of a class is open, 1 or 0: its fixes did not work, and it asks until a "+
			"person closes it.", "class"),
		leftOfClass:   desc("lbremedy_class_budget_left", "Services that may still be written to for a class in 10 minutes.", "class"),
		leftOfCluster: desc("lbremedy_cluster_budget_left", "Services that may still be written to in the cluster in an hour."),
		waiting: desc("lbremedy_waiting_messages", "Messages that wait for a worker: undelivered, or in hand, which are run or will be delivered again.",
			"class", "state"),
		messages: desc("lbremedy_stream_messages", "Messages in a stream.", "stream"),
		bytes:    desc("lbremedy_stream_bytes", "Bytes in a stream.", "stream"),
		limit:    desc("lbremedy_stream_limit_bytes", "Most bytes that a stream takes; a stream without a limit is not there.", "stream"),
		lost:     desc("lbremedy_ledger_lost", "Failures that were published and that nobody has settled in time.", "class"),
		problems: desc("lbremedy_ledger_problems", "What else in the ledger does not balance."),
	}
}

func (s *state) set(now State, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now = &now; err != nil {
		s.now = nil
	}
}

func (s *state) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		s.known, s.paused, s.breaker, s.leftOfClass, s.leftOfCluster, s.waiting, s.messages, s.bytes, s.limit, s.lost, s.problems,
	} {
		to <- d
	}
}

func (s *state) Collect(to chan<- prometheus.Metric) {
	say := func(d *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	s.mu.Lock()
	now := s.now
	s.mu.Unlock()
	say(s.known, number(now != nil))
	if now == nil {
		return
	}
	say(s.paused, unix(now.Paused))
	say(s.leftOfCluster, float64(now.ClusterLeft))
	open, lost := map[string]bool{}, map[string]int{}
	for _, c := range now.Open {
		open[c] = true
	}
	for _, a := range now.Ledger.Classes {
		lost[a.Class] = a.Lost
	}
	for _, c := range now.Classes {
		say(s.breaker, number(open[c]), c)
		say(s.leftOfClass, float64(now.Left[c]), c)
		say(s.lost, float64(lost[c]), c)
	}
	for _, q := range now.Queues {
		say(s.waiting, float64(q.Undelivered), q.Class, "undelivered")
		say(s.waiting, float64(q.InHand), q.Class, "in hand")
	}
	for _, f := range now.Fills {
		say(s.messages, float64(f.Messages), f.Stream)
		say(s.bytes, float64(f.Bytes), f.Stream)
		if f.Limit > 0 {
			say(s.limit, float64(f.Limit), f.Stream)
		}
	}
	say(s.problems, float64(len(now.Ledger.Problems)))
}
