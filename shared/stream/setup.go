package stream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lbremedy/lbremedy/shared/event"
)

// Settings are what may differ between installations. A zero value leaves an existing stream unchanged.
type Settings struct {
	Clusters    []string      // those that get a consumer for each class
	Replicas    int           // of streams and bucket; zero: 1 for new ones, unchanged for existing ones
	FailedBytes int64         // most bytes in FAILED; zero: 256 MiB
	CasesBytes  int64         // most bytes in CASES; zero: 1 GiB
	DeadBytes   int64         // most bytes in DEAD; zero: 128 MiB
	KeysBytes   int64         // most bytes in the bucket; zero: 512 MiB
	FailedAge   time.Duration // how long FAILED keeps a failure; zero: 7 days
	CasesAge    time.Duration // how long CASES keeps a record; zero: 30 days
	DeadAge     time.Duration // how long DEAD keeps a letter; zero: 30 days
}

// CasesAge is the default time that CASES keeps a record.
const CasesAge = 30 * day

const (
	day = 24 * time.Hour

	duplicates = 2 * time.Minute

	ackWait       = 30 * time.Second
	maxAckPending = 100_000 // each worker limits its own; delayed naks count here too, and the server's default of 1,000 would block a class
)

// Largest messages with headers; a server takes 1 MiB by default.
const (
	maxFailedMessage = 128 << 10 // twice event.MaxPayload
	maxDeadMessage   = maxDeadData + maxDeadHeader + 8<<10
	maxMessage       = 1 << 20
)

func (c Settings) orUsual() Settings {
	return Settings{
		Replicas:    cmp.Or(c.Replicas, 1),
		FailedBytes: cmp.Or(c.FailedBytes, 256<<20), CasesBytes: cmp.Or(c.CasesBytes, 1<<30), DeadBytes: cmp.Or(c.DeadBytes, 128<<20),
		KeysBytes: cmp.Or(c.KeysBytes, 512<<20),
		FailedAge: cmp.Or(c.FailedAge, 7*day), CasesAge: cmp.Or(c.CasesAge, CasesAge), DeadAge: cmp.Or(c.DeadAge, 30*day),
	}
}

// streams returns the configuration of the streams and the bucket. A full stream refuses new messages: dropping old ones silently
// would lose waiting work, the memory of writes, or a pause. Only DEAD drops its oldest. No stream allows a roll-up: with that header,
// a user who may store one message could remove all others.
func (c Settings) streams() []jetstream.StreamConfig {
	all := []jetstream.StreamConfig{{
		Name: Failed, Subjects: []string{event.FailedSubjects},
		Description:       "Failed syncs of LoadBalancer Services: the newest of each Service and class",
		MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew, MaxMsgSize: maxFailedMessage,
		MaxAge: c.FailedAge, MaxBytes: c.FailedBytes,
	}, {
		Name: Cases, Subjects: []string{event.CaseSubjects, event.KeptSubjects},
		Description:       "The journal of lbremedy: every intent, step and outcome",
		MaxMsgsPerSubject: -1, Discard: jetstream.DiscardNew, MaxMsgSize: maxMessage,
		MaxAge: c.CasesAge, MaxBytes: c.CasesBytes,
	}, {
		Name: Dead, Subjects: []string{deadPrefix + ">"},
		Description:       "What lbremedy can't handle, with the reason",
		MaxMsgsPerSubject: -1, Discard: jetstream.DiscardOld, MaxMsgSize: maxDeadMessage,
		MaxAge: c.DeadAge, MaxBytes: c.DeadBytes,
	}, {
		Name: bucketStream, Subjects: []string{bucketPrefix + ">"},
		Description:       "Keys of lbremedy: control, budgets, claims, progress",
		MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew, MaxMsgSize: maxMessage,
		MaxBytes:   c.KeysBytes,
		DenyDelete: true, AllowMsgTTL: true,
	}}
	for i := range all {
		all[i].Retention = jetstream.LimitsPolicy
		all[i].Storage = jetstream.FileStorage
		all[i].Replicas = c.Replicas
		all[i].Duplicates = duplicates
		all[i].AllowDirect = true
		all[i].MaxMsgs, all[i].MaxConsumers = -1, -1
	}
	return all
}

// Setup leaves other fields, such as placement or sources, to the operator.
var (
	streamFields = []string{"Description", "Subjects", "Retention", "Storage", "Replicas", "MaxMsgsPerSubject", "Discard", "MaxMsgs",
		"MaxMsgSize", "MaxAge", "MaxBytes", "Duplicates", "AllowDirect", "AllowRollup", "AllowMsgTTL", "SubjectDeleteMarkerTTL"}
	consumerFields = []string{"FilterSubject", "FilterSubjects", "AckPolicy", "AckWait", "MaxAckPending", "MaxDeliver", "BackOff"}
)

// needed are settings, as update names them, without which nothing works.
var needed = []string{"subjects ", "retention ", "max_msgs_per_subject ", "allow_direct ", "allow_msg_ttl "}

// update copies differing fields of want into have and returns the differences in NATS terms.
func update[C any](fields []string, have, want *C) []string {
	var changes []string
	is, should := reflect.ValueOf(have).Elem(), reflect.ValueOf(want).Elem()
	for _, name := range fields {
		was, now := fmt.Sprint(is.FieldByName(name)), fmt.Sprint(should.FieldByName(name))
		if was != now {
			field, _ := is.Type().FieldByName(name)
			word, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			changes = append(changes, fmt.Sprintf("%s %s (was %s)", word, now, was))
			is.FieldByName(name).Set(should.FieldByName(name))
		}
	}
	return changes
}

// Setup creates or updates the streams, the bucket and a consumer for each class in each cluster; any number of programs may call it
// at any time. It returns a sentence for each change. ErrDenied: the user may not make a necessary one.
func (s *Stream) Setup(ctx context.Context, classes []string, c Settings) ([]string, error) {
	done, lacking, err := s.SetupOrUse(ctx, classes, c)
	if err == nil && len(lacking) > 0 {
		err = fmt.Errorf("%w: %s", ErrDenied, strings.Join(lacking, " "))
	}
	return done, err
}

// SetupOrUse does what Setup does, or uses what works if it may not. lacking names each wrong setting. ErrDenied: a stream is missing or unusable.
func (s *Stream) SetupOrUse(ctx context.Context, classes []string, c Settings) (done, lacking []string, err error) {
	for _, class := range classes {
		if err := event.ValidClass(class); err != nil {
			return nil, nil, fmt.Errorf("set up a consumer: %w", err)
		}
	}
	for _, cluster := range c.Clusters {
		if err := event.ValidCluster(cluster); err != nil {
			return nil, nil, fmt.Errorf("set up a consumer: %w", err)
		}
	}
	usual := c.orUsual().streams()
	for i, want := range c.streams() {
		said, lacks, err := s.setupStream(ctx, want, usual[i])
		if err != nil {
			return done, lacking, err
		}
		done, lacking = append(done, said...), append(lacking, lacks...)
	}
	said, lacks, err := s.setupConsumers(ctx, classes, c.Clusters)
	return append(done, said...), append(lacking, lacks...), err
}

func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// SetupFollower creates, unless it exists, the consumer of a follower of a cluster's records in CASES, and returns since when it exists. A new
// follower gets the last record of each Service and class, the state of all cases, and then each record. The
// server forgets a follower that has not run for as long as CASES keeps records.
func (s *Stream) SetupFollower(ctx context.Context, name, cluster string) (since time.Time, err error) {
	if !caseToken().MatchString(name) {
		return time.Time{}, fmt.Errorf("set up follower %q: the name must match %s", name, caseToken())
	}
	if err := event.ValidCluster(cluster); err != nil {
		return time.Time{}, fmt.Errorf("set up follower %s: %w", name, err)
	}
	_, since, err = s.setupConsumer(ctx, Cases, jetstream.ConsumerConfig{
		Name:              name,
		FilterSubject:     strings.TrimSuffix(event.CaseSubjects, ">") + cluster + ".>",
		DeliverPolicy:     jetstream.DeliverLastPerSubjectPolicy,
		InactiveThreshold: CasesAge,
	})
	return since, err
}

func (s *Stream) setupStream(ctx context.Context, want, usual jetstream.StreamConfig) (said, lacks []string, err error) {
	err = s.call(ctx, "set up stream "+want.Name, "$JS.API.STREAM.", func(in context.Context) error {
		found, err := s.js.Stream(in, want.Name)
		if errors.Is(err, nats.ErrNoResponders) { // JetStream as a whole doesn't answer
			err = jetstream.ErrJetStreamNotEnabled
		}
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			_, err = s.js.CreateStream(in, usual)
			switch {
			case err == nil:
				said = []string{fmt.Sprintf("Created stream %s.", want.Name)}
				return nil
			case denied(in):
				return fmt.Errorf("it is not there, and %w; run lbremedy up --setup as a user who may create it", ErrDenied)
			case !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse):
				return noRoom(usual, err)
			}
			found, err = s.js.Stream(in, want.Name) // another program was faster, with other settings
		}
		if err != nil {
			return err
		}
		have := found.CachedInfo().Config
		want.MaxBytes, want.Replicas = cmp.Or(want.MaxBytes, have.MaxBytes), cmp.Or(want.Replicas, have.Replicas)
		if want.MaxBytes <= 0 { // each stream has a limit
			want.MaxBytes = max(usual.MaxBytes, 2*int64(found.CachedInfo().State.Bytes))
		}
		if usual.MaxAge > 0 { // the bucket's keys have no age limit
			want.MaxAge = cmp.Or(want.MaxAge, have.MaxAge)
		}
		changes := update(streamFields, &have, &want)
		if len(changes) == 0 {
			return nil
		}
		_, err = s.js.UpdateStream(in, have)
		switch {
		case denied(in):
			for _, change := range changes {
				if slices.ContainsFunc(needed, func(name string) bool { return strings.HasPrefix(change, name) }) {
					return fmt.Errorf("its settings do not fit: it needs %s, and %w; run lbremedy up --setup as a user who may change it", change, ErrDenied)
				}
			}
			lacks = []string{fmt.Sprintf("Stream %s should have %s, and this user of NATS may not change it; run lbremedy up --setup as a user who may.",
				want.Name, strings.Join(changes, ", "))}
			return nil
		case err != nil:
			return fmt.Errorf("change %s: %w", strings.Join(changes, ", "), noRoom(want, err))
		}
		said = []string{fmt.Sprintf("Changed stream %s: %s.", want.Name, strings.Join(changes, ", "))}
		return nil
	})
	return said, lacks, err
}

// noRoom adds the way out to a refusal that is common on small disks.
func noRoom(want jetstream.StreamConfig, err error) error {
	if api, ok := errors.AsType[*jetstream.APIError](err); ok && api.ErrorCode == codeNoStorage {
		return fmt.Errorf("the server has no room for the %d MiB that it may grow to; give it more storage, or the stream a smaller size: %w",
			want.MaxBytes>>20, ErrFull)
	}
	return err
}

// setupConsumer creates or updates a consumer with the common settings, and returns what it did and since when the consumer exists.
func (s *Stream) setupConsumer(ctx context.Context, from string, want jetstream.ConsumerConfig) (said []string, since time.Time, err error) {
	want.Durable = want.Name
	want.AckPolicy = jetstream.AckExplicitPolicy
	want.AckWait = ackWait
	want.MaxAckPending = maxAckPending
	want.MaxDeliver = -1
	err = s.call(ctx, "set up consumer "+want.Name, "$JS.API.CONSUMER.", func(in context.Context) error {
		found, err := s.js.Consumer(in, from, want.Name)
		if errors.Is(err, jetstream.ErrConsumerNotFound) {
			if found, err = s.js.CreateConsumer(in, from, want); err == nil {
				said, since = []string{fmt.Sprintf("Created consumer %s.", want.Name)}, found.CachedInfo().Created
				return nil
			}
			if errors.Is(err, jetstream.ErrConsumerExists) {
				found, err = s.js.Consumer(in, from, want.Name)
			}
		}
		if err != nil {
			return err
		}
		have := found.CachedInfo().Config
		since = found.CachedInfo().Created
		changes := strings.Join(update(consumerFields, &have, &want), ", ")
		if changes == "" {
			return nil
		}
		if _, err := s.js.UpdateConsumer(in, from, have); err != nil {
			return fmt.Errorf("change %s: %w", changes, err)
		}
		said = []string{fmt.Sprintf("Changed consumer %s: %s.", want.Name, changes)}
		return nil
	})
	return said, since, err
}
