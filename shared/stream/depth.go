package stream

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
)

// A Queue is what waits for the workers of a class in one cluster.
type Queue struct {
	Class       string
	Undelivered uint64 // messages that no worker has been given
	InHand      uint64 // that a worker has, or that are to be delivered again
}

// Queues returns the queue of each class that has a consumer in a cluster, by class.
func (s *Stream) Queues(ctx context.Context, cluster string) ([]Queue, error) {
	const doing = "look at the consumers"
	in, cancel, err := s.within(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	defer cancel()
	failed, err := s.js.Stream(in, Failed)
	if err != nil {
		return nil, s.fault(ctx, in, doing, err)
	}
	var all []Queue
	list := failed.ListConsumers(in)
	for c := range list.Info() {
		class, of, _ := strings.Cut(c.Name, "_")
		if c.Config.Durable != "" && of == cluster { // what follows the stream for a while is nobody's queue
			all = append(all, Queue{class, c.NumPending, uint64(c.NumAckPending)})
		}
	}
	if err := list.Err(); err != nil {
		return nil, s.fault(ctx, in, doing, err)
	}
	slices.SortFunc(all, func(a, b Queue) int { return cmp.Compare(a.Class, b.Class) })
	return all, nil
}

// A Fill says how full a stream is.
type Fill struct {
	Stream          string
	Messages, Bytes uint64
	Limit           uint64 // most bytes; 0: there is none
}

// Fills returns how full FAILED, CASES, DEAD and the bucket are. One that is
// missing is an error of kind ErrNotFound.
func (s *Stream) Fills(ctx context.Context) ([]Fill, error) {
	var all []Fill
	for _, name := range []string{Failed, Cases, Dead, bucketStream} {
		doing := "look at stream " + name
		in, cancel, err := s.within(ctx)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", doing, err)
		}
		found, err := s.js.Stream(in, name)
		if err != nil {
			err = s.fault(ctx, in, doing, err)
			cancel()
			return nil, err
		}
		cancel()
		info := found.CachedInfo()
		all = append(all, Fill{name, info.State.Msgs, info.State.Bytes, uint64(max(0, info.Config.MaxBytes))})
	}
	return all, nil
}
