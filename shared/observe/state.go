package observe

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

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
func (m *Metrics) Follow(ctx context.Context, read func(context.Context) (State, error), tell func(error)) {
	m.follow(ctx, stateLag, read, tell)
}

func (m *Metrics) follow(ctx context.Context, every time.Duration, read func(context.Context) (State, error), tell func(error)) {
	var known atomic.Pointer[State]
	m.ours.MustRegister(scraped(func(to emit) { known.Load().emit(to) }))
	tick := time.NewTicker(every)
	defer tick.Stop()
	lastError := ""
	for {
		in, cancel := context.WithTimeout(ctx, patience)
		now, err := read(in)
		cancel()
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			known.Store(&now)
			lastError = ""
		} else {
			known.Store(nil)
			if said := err.Error(); said != lastError && !errors.Is(err, context.Canceled) {
				lastError = said
				tell(err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (s *State) emit(to emit) {
	to(number(s != nil), "lbremedy_state_known", "Whether the state of the stream could be read, 1 or 0. Without it, the metrics that follow "+
		"from it are missing.")
	if s == nil {
		return
	}
	to(unix(s.Paused), "lbremedy_paused_timestamp_seconds", "Unix time since which all writes are paused; 0 if they are not.")
	to(float64(s.ClusterLeft), "lbremedy_cluster_budget_left", "Services that the budget of the cluster still allows to be written to; a place is "+
		"free again after an hour.")
	lost := map[string]int{}
	for _, a := range s.Ledger.Classes {
		lost[a.Class] = a.Lost
	}
	for _, c := range s.Classes {
		to(number(slices.Contains(s.Open, c)), "lbremedy_breaker_open", "Whether the breaker of a class is open, 1 or 0: its fixes did not work, and it asks "+
			"until a person closes it.", "class", c)
		to(float64(s.Left[c]), "lbremedy_class_budget_left", "Services that the budget of a class still allows to be written to; a place is free again "+
			"after 10 minutes.", "class", c)
		to(float64(lost[c]), "lbremedy_ledger_lost", "Failures that were published and not settled in time.", "class", c)
	}
	for _, q := range s.Queues {
		for state, n := range map[string]uint64{"undelivered": q.Undelivered, "in hand": q.InHand} {
			to(float64(n), "lbremedy_waiting_messages", "Messages that wait for a worker: undelivered, or in hand, which are run or will be delivered again.",
				"class", q.Class, "state", state)
		}
	}
	for _, f := range s.Fills {
		to(float64(f.Messages), "lbremedy_stream_messages", "Messages in a stream.", "stream", f.Stream)
		to(float64(f.Bytes), "lbremedy_stream_bytes", "Bytes in a stream.", "stream", f.Stream)
		if f.Limit > 0 {
			to(float64(f.Limit), "lbremedy_stream_limit_bytes", "Size limit of a stream, in bytes; absent without a limit.", "stream", f.Stream)
		}
	}
	to(float64(len(s.Ledger.Problems)), "lbremedy_ledger_problems", "Other inconsistencies in the ledger.")
}
