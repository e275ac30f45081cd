package stream

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
)

// A Queue is what waits for the workers of a class in one cluster.
type Queue struct {
	Class       string
	Undelivered uint64 // messages that no worker has been given
	InHand      uint64 // that a worker has, or that are to be delivered again
}

// Queues returns the queue of each class that has a consumer in a cluster, by class.
func (s *Stream) Queues(ctx context.Context, cluster string) ([]Queue, error) {
	var all []Queue
	err := s.classConsumers(ctx, func(class, of string, c *jetstream.ConsumerInfo) {
		if of == cluster {
			all = append(all, Queue{class, c.NumPending, uint64(c.NumAckPending)})
		}
	})
	slices.SortFunc(all, func(a, b Queue) int { return cmp.Compare(a.Class, b.Class) })
	return all, err
}

// classConsumers calls see for the consumers that classes have, not for those that follow the stream for a while.
func (s *Stream) classConsumers(ctx context.Context, see func(class, cluster string, c *jetstream.ConsumerInfo)) error {
	const doing = "look at the consumers"
	in, cancel, err := s.within(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	defer cancel()
	failed, err := s.js.Stream(in, Failed)
	if err != nil {
		return s.fault(ctx, in, doing, err)
	}
	list := failed.ListConsumers(in)
	for c := range list.Info() {
		if class, cluster, ok := strings.Cut(c.Name, "_"); ok && c.Config.Durable != "" {
			see(class, cluster, c)
		}
	}
	if err := list.Err(); err != nil {
		return s.fault(ctx, in, doing, err)
	}
	return nil
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
		info, err := s.info(ctx, name)
		if err != nil {
			return nil, err
		}
		all = append(all, fillOf(info))
	}
	return all, nil
}

func fillOf(i *jetstream.StreamInfo) Fill {
	return Fill{i.Config.Name, i.State.Msgs, i.State.Bytes, uint64(max(0, i.Config.MaxBytes))}
}
