package stream

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
)

// A Queue holds how many messages wait for the workers of a class in one cluster.
type Queue struct {
	Class       string
	Undelivered uint64 // messages not yet given to a worker
	InHand      uint64 // messages that a worker has, or that will be delivered again
}

// Queues returns the queue of each class that has a consumer in a cluster, by class.
func (s *Stream) Queues(ctx context.Context, cluster string) ([]Queue, error) {
	var all []Queue
	err := s.classConsumers(ctx, func(class, of string, c *jetstream.ConsumerInfo) {
		if of == cluster {
			all = append(all, queueOf(class, c))
		}
	})
	slices.SortFunc(all, func(a, b Queue) int { return cmp.Compare(a.Class, b.Class) })
	return all, err
}

// Queue returns the queue of a class in a cluster; ErrNotFound if it has no consumer. It asks by name: a list omits consumers without an answering leader.
func (s *Stream) Queue(ctx context.Context, cluster, class string) (q Queue, err error) {
	err = s.call(ctx, "look at consumer "+class, "", func(in context.Context) error {
		c, err := s.js.Consumer(in, Failed, ConsumerOf(cluster, class))
		if err == nil {
			q = queueOf(class, c.CachedInfo())
		}
		return err
	})
	return q, err
}

func queueOf(class string, c *jetstream.ConsumerInfo) Queue {
	return Queue{class, c.NumPending, uint64(c.NumAckPending)}
}

// classConsumers skips temporary followers of the stream.
func (s *Stream) classConsumers(ctx context.Context, see func(class, cluster string, c *jetstream.ConsumerInfo)) error {
	return s.call(ctx, "look at the consumers", "", func(in context.Context) error {
		failed, err := s.js.Stream(in, Failed)
		if err != nil {
			return err
		}
		list := failed.ListConsumers(in)
		for c := range list.Info() {
			if class, cluster, ok := strings.Cut(c.Name, "_"); ok && c.Config.Durable != "" {
				see(class, cluster, c)
			}
		}
		return list.Err()
	})
}

// A Fill says how full a stream is.
type Fill struct {
	Stream          string
	Messages, Bytes uint64
	Limit           uint64 // most bytes; 0 if absent
}

// Fills returns how full FAILED, CASES, DEAD and the bucket are; ErrNotFound if one is missing.
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
