package stream

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func TestSetup(t *testing.T) {
	s := fresh(t)
	ctx := t.Context()

	said, err := s.Setup(ctx, []string{"tag-missing", "ram-permission"}, Settings{Clusters: []string{"c1"}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"Created consumer ram-permission_c1.", "Created consumer tag-missing_c1."}, said); diff != "" {
		t.Error(diff)
	}
	if said, err = s.Setup(ctx, []string{"tag-missing", "ram-permission"}, Settings{Clusters: []string{"c1"}}); err != nil || said != nil {
		t.Errorf("the second time: %q, %v", said, err)
	}

	change := func(name string, f func(*jetstream.StreamConfig)) {
		t.Helper()
		found, err := s.js.Stream(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		c := found.CachedInfo().Config
		f(&c)
		if _, err := s.js.UpdateStream(ctx, c); err != nil {
			t.Fatal(err)
		}
	}
	change(Failed, func(c *jetstream.StreamConfig) {
		c.Duplicates, c.AllowDirect, c.MaxMsgsPerSubject = time.Hour, false, 5
		c.Metadata = map[string]string{"owner": "me"}
	})
	change(bucketStream, func(c *jetstream.StreamConfig) { c.Subjects = append(c.Subjects, "also.this") })
	old, err := s.js.Consumer(ctx, Failed, "tag-missing_c1")
	if err != nil {
		t.Fatal(err)
	}
	c := old.CachedInfo().Config
	c.MaxAckPending, c.MaxDeliver = 1000, 3
	if _, err := s.js.UpdateConsumer(ctx, Failed, c); err != nil {
		t.Fatal(err)
	}
	said, err = s.Setup(ctx, []string{"tag-missing"}, Settings{Clusters: []string{"c1"}, CasesBytes: 2 << 20})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"Changed stream FAILED: max_msgs_per_subject 1 (was 5), duplicate_window 2m0s (was 1h0m0s), allow_direct true (was false).",
		"Changed stream CASES: max_bytes 2097152 (was 1073741824).",
		"Changed stream KV_lbremedy: subjects [$KV.lbremedy.>] (was [$KV.lbremedy.> also.this]).",
		"Changed consumer tag-missing_c1: max_ack_pending 100000 (was 1000), max_deliver -1 (was 3).",
	}
	if diff := cmp.Diff(want, said); diff != "" {
		t.Error(diff)
	}
	found, err := s.js.Stream(ctx, Failed)
	if err != nil {
		t.Fatal(err)
	}
	if got := found.CachedInfo().Config; got.Duplicates != duplicates || got.Metadata["owner"] != "me" {
		t.Errorf("got %+v", got)
	}
	if said, err = s.Setup(ctx, []string{"tag-missing"}, Settings{Clusters: []string{"c1"}, CasesBytes: 2 << 20}); err != nil || said != nil {
		t.Errorf("after the change: %q, %v", said, err)
	}
}

func TestSetupKeepsWhatOperatorsSet(t *testing.T) {
	s := fresh(t)
	ctx := t.Context()
	setup := func(c Settings) []string {
		t.Helper()
		said, err := s.Setup(ctx, nil, c)
		if err != nil {
			t.Fatal(err)
		}
		return said
	}
	have := func(name string) (int64, time.Duration) {
		t.Helper()
		found, err := s.js.Stream(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		c := found.CachedInfo().Config
		return c.MaxBytes, c.MaxAge
	}
	setup(Settings{})
	for name, raise := range map[string]struct {
		bytes int64
		age   time.Duration
	}{Failed: {4 << 30, 90 * day}, Cases: {2 << 30, 0}, Dead: {1 << 30, 60 * day}} { // no age limit counts as the largest
		found, err := s.js.Stream(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		c := found.CachedInfo().Config
		c.MaxBytes, c.MaxAge = raise.bytes, raise.age
		if _, err := s.js.UpdateStream(ctx, c); err != nil {
			t.Fatal(err)
		}
		if said := setup(Settings{}); said != nil {
			t.Errorf("%s was raised, and setup said %q", name, said)
		}
		if bytes, age := have(name); bytes != raise.bytes || age != raise.age {
			t.Errorf("%s: %d bytes and %s are left of what was raised", name, bytes, age)
		}
	}
	set := Settings{CasesBytes: 64 << 20, CasesAge: 3 * day}
	want := []string{"Changed stream CASES: max_age 72h0m0s (was 0s), max_bytes 67108864 (was 2147483648)."}
	if diff := cmp.Diff(want, setup(set)); diff != "" {
		t.Error(diff)
	}
	for _, c := range []Settings{set, {}} {
		if said := setup(c); said != nil {
			t.Errorf("what was set on purpose was changed by %+v: %q", c, said)
		}
	}
	if bytes, age := have(Cases); bytes != 64<<20 || age != 3*day {
		t.Errorf("the journal takes %d bytes for %s", bytes, age)
	}
	if said := setup(Settings{CasesBytes: 128 << 20}); len(said) != 1 || !strings.Contains(said[0], "max_bytes 134217728 (was 67108864)") {
		t.Errorf("raised on purpose: %q", said)
	}
}

func TestSetupMakesWhatTheDesignSays(t *testing.T) {
	s := fresh(t, "tag-missing")
	for name, want := range map[string]jetstream.StreamConfig{
		Failed: {Subjects: []string{"lbremedy.failed.>"}, MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew, MaxAge: 7 * 24 * time.Hour},
		Cases:  {Subjects: []string{"lbremedy.case.>", "lbremedy.snapshot.>"}, MaxMsgsPerSubject: -1, Discard: jetstream.DiscardNew, MaxAge: 30 * 24 * time.Hour},
		Dead:   {Subjects: []string{"lbremedy.dead.>"}, MaxMsgsPerSubject: -1, Discard: jetstream.DiscardOld, MaxAge: 30 * 24 * time.Hour},
	} {
		found, err := s.js.Stream(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		have := found.CachedInfo().Config
		got := jetstream.StreamConfig{Subjects: have.Subjects, MaxMsgsPerSubject: have.MaxMsgsPerSubject, Discard: have.Discard, MaxAge: have.MaxAge}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if have.Retention != jetstream.LimitsPolicy || have.Storage != jetstream.FileStorage || !have.AllowDirect || have.MaxBytes <= 0 || have.Duplicates <= 0 ||
			have.Replicas != 1 {
			t.Errorf("%s: %+v", name, have)
		}
	}
	found, err := s.js.Consumer(t.Context(), Failed, "tag-missing_c1")
	if err != nil {
		t.Fatal(err)
	}
	c := found.CachedInfo().Config
	if c.FilterSubject != "lbremedy.failed.c1.tag-missing.>" || c.AckWait != 30*time.Second || c.MaxAckPending != 100_000 ||
		c.MaxDeliver != -1 || c.BackOff != nil || c.AckPolicy != jetstream.AckExplicitPolicy || c.Durable != "tag-missing_c1" || c.DeliverSubject != "" {
		t.Errorf("got %+v", c)
	}
	if err := s.Put(t.Context(), "policy", []byte("observe")); err != nil {
		t.Fatal(err)
	}
	bucket, err := s.js.KeyValue(t.Context(), "lbremedy")
	if err != nil {
		t.Fatal(err)
	}
	if e, err := bucket.Get(t.Context(), "policy"); err != nil || string(e.Value()) != "observe" {
		t.Errorf("got %v, %v", e, err)
	}
	if err := s.Delete(t.Context(), "policy"); err != nil {
		t.Fatal(err)
	}
	if _, err := bucket.Get(t.Context(), "policy"); !errors.Is(err, jetstream.ErrKeyNotFound) {
		t.Errorf("got %v", err)
	}
}

// No header of a writer empties a stream: no stream takes a roll-up, and a message under a user's own subject leaves all others. Each
// stream, and each message in it, has a size limit.
func TestNothingIsRolledUp(t *testing.T) {
	s := fresh(t)
	check := func() {
		t.Helper()
		for _, name := range []string{Failed, Cases, Dead, bucketStream} {
			found, err := s.js.Stream(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			if c := found.CachedInfo().Config; c.AllowRollup || c.SubjectDeleteMarkerTTL != 0 || c.MaxBytes <= 0 || c.MaxMsgSize <= 0 {
				t.Errorf("%s: %+v", name, c)
			}
		}
	}
	check()
	for name, subject := range map[string]string{
		Cases: "lbremedy.case.c1.u.x", Failed: "lbremedy.failed.c1.x.u", Dead: deadPrefix + "x", bucketStream: bucketPrefix + "run.c1.u.x",
	} {
		for _, of := range []string{"kept", "own"} {
			if _, err := s.js.Publish(t.Context(), subject+"."+of, []byte("a")); err != nil {
				t.Fatal(err)
			}
		}
		for _, header := range []nats.Header{{"Nats-Rollup": {"all"}}, {"Nats-Rollup": {"sub"}}, {"Nats-Rollup": {"all"}, "KV-Operation": {"PURGE"}}} {
			if _, err := s.js.PublishMsg(t.Context(), &nats.Msg{Subject: subject + ".own", Header: header}); err == nil {
				t.Errorf("a roll-up is stored under %s with %v", subject, header)
			}
		}
		if m, err := s.Last(t.Context(), name, subject+".kept"); err != nil || string(m.Data) != "a" {
			t.Errorf("%s holds %q, %v", subject, m.Data, err)
		}
	}
	bucket, err := s.js.Stream(t.Context(), bucketStream)
	if err != nil {
		t.Fatal(err)
	}
	c := bucket.CachedInfo().Config
	c.AllowRollup, c.SubjectDeleteMarkerTTL, c.MaxBytes, c.MaxMsgSize = true, time.Minute, -1, -1
	if _, err := s.js.UpdateStream(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	setup(t, s)
	check()
}

// A full FAILED refuses new messages: the writer learns of it, and waiting messages stay.
func TestFullFailuresRefuse(t *testing.T) {
	s := fresh(t)
	if _, err := s.Setup(t.Context(), nil, Settings{FailedBytes: 64 << 10}); err != nil {
		t.Fatal(err)
	}
	var err error
	stored := 0
	for ; err == nil; stored++ {
		_, _, err = s.PublishNewer(t.Context(), fmt.Sprintf("lbremedy.failed.c1.x.u%d", stored), "", nil, make([]byte, 8<<10), func(Message) bool { return true })
	}
	kept, lastErr := s.Subjects(t.Context(), Failed, ">")
	if !errors.Is(err, ErrFull) || lastErr != nil || len(kept) != stored-1 || !slices.Equal(s.Full(), []string{Failed}) {
		t.Errorf("%d are kept of %d, %v, %v; full are %v", len(kept), stored-1, err, lastErr, s.Full())
	}
	if _, _, err = s.PublishNewer(t.Context(), "lbremedy.failed.c1.x.big", "", nil, make([]byte, maxFailedMessage), nil); err == nil {
		t.Error("a message of any size is stored")
	}
}

func TestSetupOfManyProgramsAtOnce(t *testing.T) {
	one := fresh(t)
	var all sync.WaitGroup
	for range 8 {
		s := connect(t, Config{URL: one.nc.ConnectedUrl()})
		all.Go(func() {
			if _, err := s.Setup(t.Context(), []string{"a", "b", "c"}, Settings{Clusters: []string{"c1"}}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

func TestSetupSaysWhyNot(t *testing.T) {
	s := fresh(t)
	if _, err := s.Setup(t.Context(), []string{"tag.missing"}, Settings{}); err == nil || !strings.Contains(err.Error(), `class "tag.missing" is not`) {
		t.Errorf("got %v", err)
	}
	_, err := s.Setup(t.Context(), nil, Settings{CasesBytes: 1 << 60})
	if !errors.Is(err, ErrFull) || !strings.Contains(err.Error(), "give it more storage") {
		t.Errorf("got %v", err)
	}
	_, err = s.Setup(t.Context(), nil, Settings{Replicas: 3})
	if err == nil || !strings.Contains(err.Error(), "set up stream FAILED: change num_replicas 3 (was 1)") {
		t.Errorf("got %v", err)
	}
}

func TestFullJournalRefuses(t *testing.T) {
	s := connect(t, Config{URL: fresh(t).nc.ConnectedUrl()})
	if _, err := s.Setup(t.Context(), nil, Settings{CasesBytes: 4 << 10}); err != nil {
		t.Fatal(err)
	}
	var err error
	for i := range 10 {
		if _, err = s.AppendRecord(t.Context(), "c1", "u1", "tag-missing", fmt.Sprint(i), nil, make([]byte, 1<<10), 0); err != nil {
			break
		}
	}
	if !errors.Is(err, ErrFull) {
		t.Errorf("got %v, want %v", err, ErrFull)
	}
}

func TestServerWithoutJetStream(t *testing.T) {
	s := connect(t, Config{URL: plainServer(t)})
	_, err := s.Setup(t.Context(), nil, Settings{})
	if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "runs without JetStream") {
		t.Errorf("got %v", err)
	}
	if _, err := s.Last(t.Context(), Cases, ">"); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "run the setup") {
		t.Errorf("got %v", err)
	}
	if err := s.Each(t.Context(), Cases, ">", time.Time{}, nil); !errors.Is(err, ErrUnavailable) {
		t.Errorf("got %v", err)
	}
	if err := s.Dead(t.Context(), "why", "test", nil, nil); !errors.Is(err, ErrUnavailable) || errors.Is(err, nats.ErrNoResponders) {
		t.Errorf("got %v", err)
	}
}
