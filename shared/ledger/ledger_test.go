package ledger_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/ledger"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/shared/stream/embedded"
	"github.com/lbremedy/lbremedy/test/nats"
)

const cluster, class = "c1", "tag-missing"

func set(t *testing.T, server *embedded.Server) *stream.Stream {
	t.Helper()
	s := nats.Connect(t, stream.Config{URL: server.URL()})
	if _, err := s.Setup(t.Context(), []string{class}, stream.Settings{Clusters: []string{cluster}}); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestLedger(t *testing.T) {
	s := set(t, nats.Start(t, embedded.Options{}))
	ctx, now := t.Context(), time.Now()
	const many = 200
	uid := func(i int) string { return fmt.Sprintf("55555555-0000-4000-8000-%012d", i) }
	failed := func(i, version int) event.Failure {
		return event.Failure{
			Cluster: cluster, Class: class, Service: event.Service{Namespace: "shop", Name: fmt.Sprintf("s%d", i), UID: uid(i)},
			Event: event.Reference{Name: "e", UID: uid(i), ResourceVersion: fmt.Sprint(version)}, Count: version, Last: now.Add(time.Duration(version) * time.Second),
		}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	fails := func(i, version int) {
		t.Helper()
		e, err := event.NewFailed(failed(i, version))
		must(err)
		header, data, err := event.EncodeNATS(e)
		must(err)
		_, _, err = s.PublishNewer(ctx, event.FailedSubject(cluster, class, uid(i)), event.MessageID(e), header, data, func(stream.Message) bool { return true })
		must(err)
	}
	document := func(i int, c event.Case) {
		t.Helper()
		data, err := json.Marshal(event.Document{V: event.DocumentVersion, Cases: map[string]*event.Case{class: &c}})
		must(err)
		must(s.Put(ctx, event.StateKey(cluster, uid(i)), data))
	}
	var ahead time.Duration // of the clock of the settling run
	record := func(i, version int, result event.Result) *event.Record {
		f := failed(i, version)
		return &event.Record{
			Origin: event.Origin{Case: uid(i)[:8] + "-20260102T150405", Cluster: cluster, Class: class, Service: f.Service, Event: f.ID(), EventTime: f.Last},
			Run:    event.Run{Phase: event.Settled, Result: result, At: now.Add(ahead), First: now, Attempts: []time.Time{}},
		}
	}
	settles := func(i, version int, result event.Result) {
		t.Helper()
		rec := record(i, version, result)
		document(i, event.Case{Record: rec, Last: rec.At, Event: rec.Event, Repeats: 1})
	}
	var last ledger.Ledger
	read := func(what string, settled int) {
		t.Helper()
		var err error
		last, err = ledger.Draw(ctx, s, cluster, now.Add(time.Minute), time.Hour)
		must(err)
		if a := last.Classes[0]; a.Published != many || a.Settled != settled || a.Settled+a.Queued+a.Waiting+a.Dead+a.Lost != many {
			t.Errorf("%s: it is %+v, and %d are settled", what, a, settled)
		}
	}

	for i := range many {
		fails(i, 1)
	}
	read("new failures", 0)
	for i := range many / 2 {
		settles(i, 1, event.Asked)
	}
	read("half of them settled", many/2)

	fails(0, 2)
	read("one has failed again", many/2-1)

	document(0, event.Case{Record: record(0, 1, event.Asked), Last: now.Add(time.Second), Event: failed(0, 2).ID()})
	read("answered as before", many/2)
	// The clock of such a run may be behind that of the record's writer.
	document(0, event.Case{Record: record(0, 1, event.Asked), Last: now.Add(-10 * time.Minute), Event: failed(0, 2).ID(), Repeats: 2})
	read("answered as before, by a clock that is behind", many/2)
	document(0, event.Case{Record: record(0, 2, event.Asked), Last: now.Add(time.Second), Event: failed(0, 1).ID(), Repeats: 2})
	read("an older one was answered last", many/2)
	must(s.Delete(ctx, event.StateKey(cluster, uid(0))))
	read("the key is gone", many/2-1)

	// Failures from before a fix are over, even if a person has undone the fix since.
	settles(0, 1, event.Fixed)
	fails(0, -1) // a version later, and seen before the fix
	read("failed before the fix", many/2)
	settles(0, 1, event.Undone)
	read("the fix was taken back", many/2)
	fails(0, 300) // five minutes later, however long this test takes
	read("it fails since", many/2-1)
	ahead = 10 * time.Minute
	settles(0, 1, event.Fixed)
	read("it fails since a fix by a clock that is ahead", many/2-1)

	// Nor does such a clock make a lost failure wait longer.
	rec := record(0, 1, event.Fixed)
	rec.Phase, rec.At = event.Intent, now.Add(24*time.Hour)
	document(0, event.Case{Record: rec, Last: rec.At, Event: rec.Event})
	late, err := ledger.Draw(ctx, s, cluster, now.Add(2*time.Hour), time.Hour)
	must(err)
	if a := late.Classes[0]; a.Waiting != 0 || a.Lost != many/2+1 {
		t.Errorf("a record dated a day ahead: %+v", a)
	}
	settles(0, 1, event.Fixed)

	m, err := s.Last(ctx, stream.Failed, event.FailedSubject(cluster, class, uid(many-1)))
	must(err)
	must(s.Dead(ctx, "no reason", m.Subject, m.Header, m.Data))
	read("a dead letter", many/2-1)
	if a := last.Classes[0]; a.Dead != 1 {
		t.Errorf("it is %+v", a)
	}
	letter, err := s.Last(ctx, stream.Dead, "lbremedy.dead.>")
	must(err)
	if there, err := s.Remove(ctx, stream.Dead, letter.Sequence); err != nil || !there {
		t.Fatal(there, err)
	}
	read("the dead letter was dropped", many/2-1)
	if a := last.Classes[0]; a.Dead != 0 {
		t.Errorf("it is %+v", a)
	}

	must(s.Put(ctx, event.StateKey(cluster, uid(1)), []byte("{")))
	read("a key that can't be read", many/2-2)
	if len(last.Problems) != 2 { // and the exporter is missing
		t.Errorf("the problems are %q", last.Problems)
	}
	settles(1, 1, event.Asked)
	read("it can be read again", many/2-1)
	if len(last.Problems) != 1 {
		t.Errorf("the problems are %q", last.Problems)
	}
}

// A lagging node's missing failures are reported the next time.
func TestLedgerOfANodeBehind(t *testing.T) {
	t.Parallel()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	server := nats.Start(t, embedded.Options{})
	s := set(t, server)
	ctx, now := t.Context(), time.Now()
	failed := func(i int) event.Failure {
		uid := fmt.Sprintf("55555555-0000-4000-8000-%012d", i)
		return event.Failure{
			Cluster: cluster, Class: class, Service: event.Service{Namespace: "shop", Name: fmt.Sprintf("s%d", i), UID: uid},
			Event: event.Reference{Name: "e", UID: uid, ResourceVersion: "1"}, Count: 1, Last: now,
		}
	}
	fails := func(f event.Failure) {
		t.Helper()
		e, err := event.NewFailed(f)
		must(err)
		header, data, err := event.EncodeNATS(e)
		must(err)
		_, _, err = s.PublishNewer(ctx, event.FailedSubject(cluster, class, f.Service.UID), event.MessageID(e), header, data,
			func(stream.Message) bool { return true })
		must(err)
	}
	settles := func(f event.Failure) {
		t.Helper()
		data, err := json.Marshal(event.Document{V: event.DocumentVersion, Cases: map[string]*event.Case{class: {Record: &event.Record{
			Origin: event.Origin{Case: f.Service.UID[:8] + "-20260102T150405", Cluster: cluster, Class: class, Service: f.Service, Event: f.ID(), EventTime: f.Last},
			Run:    event.Run{Phase: event.Settled, Result: event.Asked, At: now, First: now, Attempts: []time.Time{}},
		}}}})
		must(err)
		must(s.Put(ctx, event.StateKey(cluster, f.Service.UID), data))
	}
	settles(failed(0))
	fails(failed(1))
	nats.Behind(t, server.URL(), "KV_lbremedy")
	settles(failed(1))
	for try := 0; ; try++ { // the lagging node answers every other question, at random
		l, err := ledger.Draw(ctx, s, cluster, now, time.Hour)
		must(err)
		if l.Classes[0].Settled == 1 {
			break
		}
		if try == 50 {
			t.Fatal("the ledger never read the document")
		}
	}
}

func TestHeard(t *testing.T) {
	s := set(t, nats.Start(t, embedded.Options{}))
	ctx := t.Context()
	if at, err := ledger.ExporterSeen(ctx, s, "c1"); !errors.Is(err, stream.ErrNotFound) {
		t.Errorf("before there is one: %v, %v", at, err)
	}
	if err := s.Put(ctx, event.ProgressKey("c1"), []byte("7")); err != nil {
		t.Fatal(err)
	}
	first, err := ledger.ExporterSeen(ctx, s, "c1")
	if err != nil || time.Since(first) > time.Minute {
		t.Errorf("by its progress: %v, %v", first, err)
	}
	if err := (ledger.Page{Exporter: "a", At: time.Now()}).Save(ctx, s, "c1"); err != nil {
		t.Fatal(err)
	}
	if at, err := ledger.ExporterSeen(ctx, s, "c1"); err != nil || !at.After(first) {
		t.Errorf("by its page: %v after %v, %v", at, first, err)
	}
	if at, err := ledger.ExporterSeen(ctx, s, "c2"); !errors.Is(err, stream.ErrNotFound) {
		t.Errorf("of another cluster: %v, %v", at, err)
	}
}
