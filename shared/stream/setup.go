package stream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lbremedy/lbremedy/events"
)

// Settings are what may differ from one installation to the next. Zero values
// take the defaults.
type Settings struct {
	Replicas    int   // of streams and bucket; zero: 1 for new ones, and what is there stays
	FailedBytes int64 // most bytes in FAILED; zero: 256 MiB
	CasesBytes  int64 // most bytes in CASES; zero: 1 GiB
	DeadBytes   int64 // most bytes in DEAD; zero: 128 MiB
}

// CasesAge is how long the journal keeps a record.
const CasesAge = 30 * day

const (
	day = 24 * time.Hour

	failedAge  = 7 * day
	deadAge    = 30 * day
	duplicates = 2 * time.Minute

	ackWait       = 30 * time.Second
	maxAckPending = 100_000 // how many run at once is the worker's; delayed naks count here too, and with the server's 1,000 they would stop a class
)

// streams returns the streams and the bucket as they should be.
func (c Settings) streams() []jetstream.StreamConfig {
	all := []jetstream.StreamConfig{{
		Name: Failed, Subjects: []string{events.FailedSubjects},
		Description:       "Failed syncs of LoadBalancer Services: the newest of each Service and class",
		MaxMsgsPerSubject: 1, Discard: jetstream.DiscardOld,
		MaxAge: failedAge, MaxBytes: cmp.Or(c.FailedBytes, 256<<20),
	}, {
		// A full journal refuses records, and with them writes: losing old ones silently would
		// lose the memory of what was written.
		Name: Cases, Subjects: []string{events.CaseSubjects, events.KeptSubjects},
		Description:       "The journal of lbremedy: every intent, step and outcome",
		MaxMsgsPerSubject: -1, Discard: jetstream.DiscardNew,
		MaxAge: CasesAge, MaxBytes: cmp.Or(c.CasesBytes, 1<<30),
	}, {
		Name: Dead, Subjects: []string{deadPrefix + ">"},
		Description:       "What lbremedy can't handle, with the reason",
		MaxMsgsPerSubject: -1, Discard: jetstream.DiscardOld,
		MaxAge: deadAge, MaxBytes: cmp.Or(c.DeadBytes, 128<<20),
	}, {
		Name: bucketStream, Subjects: []string{bucketPrefix + ">"},
		Description:       "Keys of lbremedy: policy, pause, budgets, locks, progress",
		MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew, MaxBytes: -1,
		AllowRollup: true, DenyDelete: true, AllowMsgTTL: true, SubjectDeleteMarkerTTL: markerTTL,
	}}
	for i := range all {
		all[i].Retention = jetstream.LimitsPolicy
		all[i].Storage = jetstream.FileStorage
		all[i].Replicas = c.Replicas
		all[i].Duplicates = duplicates
		all[i].AllowDirect = true
		all[i].MaxMsgs, all[i].MaxConsumers, all[i].MaxMsgSize = -1, -1, -1
	}
	return all
}

// A setting is one thing that Setup keeps as it should be; what it doesn't name,
// such as placement or sources, is the operator's.
type setting[C any] struct {
	name string
	get  func(*C) any
	set  func(to, from *C)
}

func settingOf[C, T any](name string, field func(*C) *T) setting[C] {
	return setting[C]{
		name: name,
		get:  func(c *C) any { return *field(c) },
		set:  func(to, from *C) { *field(to) = *field(from) },
	}
}

var streamSettings = []setting[jetstream.StreamConfig]{
	settingOf("description", func(c *jetstream.StreamConfig) *string { return &c.Description }),
	settingOf("subjects", func(c *jetstream.StreamConfig) *[]string { return &c.Subjects }),
	settingOf("retention", func(c *jetstream.StreamConfig) *jetstream.RetentionPolicy { return &c.Retention }),
	settingOf("storage", func(c *jetstream.StreamConfig) *jetstream.StorageType { return &c.Storage }),
	settingOf("replicas", func(c *jetstream.StreamConfig) *int { return &c.Replicas }),
	settingOf("messages per subject", func(c *jetstream.StreamConfig) *int64 { return &c.MaxMsgsPerSubject }),
	settingOf("discard", func(c *jetstream.StreamConfig) *jetstream.DiscardPolicy { return &c.Discard }),
	settingOf("most messages", func(c *jetstream.StreamConfig) *int64 { return &c.MaxMsgs }),
	settingOf("largest message", func(c *jetstream.StreamConfig) *int32 { return &c.MaxMsgSize }),
	settingOf("age", func(c *jetstream.StreamConfig) *time.Duration { return &c.MaxAge }),
	settingOf("bytes", func(c *jetstream.StreamConfig) *int64 { return &c.MaxBytes }),
	settingOf("duplicates window", func(c *jetstream.StreamConfig) *time.Duration { return &c.Duplicates }),
	settingOf("direct gets", func(c *jetstream.StreamConfig) *bool { return &c.AllowDirect }),
	settingOf("rollups", func(c *jetstream.StreamConfig) *bool { return &c.AllowRollup }),
	settingOf("message TTLs", func(c *jetstream.StreamConfig) *bool { return &c.AllowMsgTTL }),
	settingOf("delete marker TTL", func(c *jetstream.StreamConfig) *time.Duration { return &c.SubjectDeleteMarkerTTL }),
}

var consumerSettings = []setting[jetstream.ConsumerConfig]{
	settingOf("filter", func(c *jetstream.ConsumerConfig) *string { return &c.FilterSubject }),
	settingOf("filters", func(c *jetstream.ConsumerConfig) *[]string { return &c.FilterSubjects }),
	settingOf("ack policy", func(c *jetstream.ConsumerConfig) *jetstream.AckPolicy { return &c.AckPolicy }),
	settingOf("ack wait", func(c *jetstream.ConsumerConfig) *time.Duration { return &c.AckWait }),
	settingOf("pending acks", func(c *jetstream.ConsumerConfig) *int { return &c.MaxAckPending }),
	settingOf("deliveries", func(c *jetstream.ConsumerConfig) *int { return &c.MaxDeliver }),
	settingOf("back-off", func(c *jetstream.ConsumerConfig) *[]time.Duration { return &c.BackOff }),
}

// update sets in have what differs from want, and returns the differences as words.
func update[C any](settings []setting[C], have, want *C) []string {
	var changes []string
	for _, f := range settings {
		is, should := fmt.Sprint(f.get(have)), fmt.Sprint(f.get(want))
		if is != should {
			changes = append(changes, fmt.Sprintf("%s %s (was %s)", f.name, should, is))
			f.set(have, want)
		}
	}
	return changes
}

// Setup creates the streams, the bucket and a consumer for each class, and brings
// the settings of those that exist up to date. It may be called at any time, by
// any number of programs at once. It returns what it created and changed, one sentence each.
func (s *Stream) Setup(ctx context.Context, classes []string, c Settings) ([]string, error) {
	for _, class := range classes {
		if err := events.ValidClass(class); err != nil {
			return nil, fmt.Errorf("set up a consumer: %w", err)
		}
	}
	var done []string
	for _, want := range c.streams() {
		said, err := s.setupStream(ctx, want)
		if err != nil {
			return done, err
		}
		done = append(done, said...)
	}
	for _, class := range slices.Sorted(slices.Values(classes)) {
		said, _, err := s.setupConsumer(ctx, Failed, jetstream.ConsumerConfig{
			Name:          class,
			FilterSubject: events.FailedFilter(class),
			DeliverPolicy: jetstream.DeliverAllPolicy,
		})
		if err != nil {
			return done, err
		}
		done = append(done, said...)
	}
	return done, nil
}

// SetupFollower creates the consumer of a follower of the journal, of one cluster or,
// if that is empty, of all, unless it exists, and returns since when it does. A new one begins with the last record of each
// Service and class, which tells how all cases stand, and then gets each record.
// The server forgets a follower that nobody has run for as long as the journal keeps
// its records.
func (s *Stream) SetupFollower(ctx context.Context, name, cluster string) (since time.Time, err error) {
	if !caseToken.MatchString(name) {
		return time.Time{}, fmt.Errorf("set up follower %q: the name must match %s", name, caseToken)
	}
	filter := events.CaseSubjects
	if cluster != "" {
		if err := events.ValidCluster(cluster); err != nil {
			return time.Time{}, fmt.Errorf("set up follower %s: %w", name, err)
		}
		filter = strings.TrimSuffix(events.CaseSubjects, ">") + cluster + ".>"
	}
	_, since, err = s.setupConsumer(ctx, Cases, jetstream.ConsumerConfig{
		Name:              name,
		FilterSubject:     filter,
		DeliverPolicy:     jetstream.DeliverLastPerSubjectPolicy,
		InactiveThreshold: CasesAge,
	})
	return since, err
}

func (s *Stream) setupStream(ctx context.Context, want jetstream.StreamConfig) ([]string, error) {
	doing := "set up stream " + want.Name
	in, cancel, err := s.within(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	defer cancel()
	found, err := s.js.Stream(in, want.Name)
	if errors.Is(err, nats.ErrNoResponders) { // JetStream itself doesn't answer, whichever stream is meant
		err = jetstream.ErrJetStreamNotEnabled
	}
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		first := want
		first.Replicas = cmp.Or(want.Replicas, 1)
		_, err = s.js.CreateStream(in, first)
		if err == nil {
			return []string{fmt.Sprintf("Created stream %s.", want.Name)}, nil
		}
		if !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			return nil, s.refusedStream(ctx, in, doing, want, err)
		}
		found, err = s.js.Stream(in, want.Name) // another program was faster, with other settings
	}
	if err != nil {
		return nil, s.fault(ctx, in, doing, err)
	}
	have := found.CachedInfo().Config
	want.Replicas = cmp.Or(want.Replicas, have.Replicas)
	changes := update(streamSettings, &have, &want)
	if len(changes) == 0 {
		return nil, nil
	}
	if _, err := s.js.UpdateStream(in, have); err != nil {
		return nil, s.refusedStream(ctx, in, doing+": change "+strings.Join(changes, ", "), want, err)
	}
	return []string{fmt.Sprintf("Changed stream %s: %s.", want.Name, strings.Join(changes, ", "))}, nil
}

// refusedStream adds the way out to the one refusal that a small disk makes common.
func (s *Stream) refusedStream(ctx, in context.Context, doing string, want jetstream.StreamConfig, err error) error {
	var api *jetstream.APIError
	if errors.As(err, &api) && api.ErrorCode == codeNoStorage {
		return fmt.Errorf("%s: the server has no room for the %d MiB that it may grow to; give it more storage, or the stream a smaller size: %w", doing, want.MaxBytes>>20, ErrFull)
	}
	return s.fault(ctx, in, doing, err)
}

// setupConsumer creates a consumer with the settings that all of ours share, or brings
// it up to date, and returns what it did and since when the consumer exists.
func (s *Stream) setupConsumer(ctx context.Context, from string, want jetstream.ConsumerConfig) ([]string, time.Time, error) {
	doing := "set up consumer " + want.Name
	in, cancel, err := s.within(ctx)
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("%s: %w", doing, err)
	}
	defer cancel()
	want.Durable = want.Name
	want.AckPolicy = jetstream.AckExplicitPolicy
	want.AckWait = ackWait
	want.MaxAckPending = maxAckPending
	want.MaxDeliver = -1
	found, err := s.js.Consumer(in, from, want.Name)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		found, err = s.js.CreateConsumer(in, from, want)
		if err == nil {
			return []string{fmt.Sprintf("Created consumer %s.", want.Name)}, found.CachedInfo().Created, nil
		}
		if !errors.Is(err, jetstream.ErrConsumerExists) {
			return nil, time.Time{}, s.fault(ctx, in, doing, err)
		}
		found, err = s.js.Consumer(in, from, want.Name)
	}
	if err != nil {
		return nil, time.Time{}, s.fault(ctx, in, doing, err)
	}
	have, since := found.CachedInfo().Config, found.CachedInfo().Created
	changes := update(consumerSettings, &have, &want)
	if len(changes) == 0 {
		return nil, since, nil
	}
	if _, err := s.js.UpdateConsumer(in, from, have); err != nil {
		return nil, time.Time{}, s.fault(ctx, in, doing+": change "+strings.Join(changes, ", "), err)
	}
	return []string{fmt.Sprintf("Changed consumer %s: %s.", want.Name, strings.Join(changes, ", "))}, since, nil
}
