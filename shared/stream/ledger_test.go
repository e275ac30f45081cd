package stream

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lbremedy/lbremedy/shared/event"
)

// Books that go on from what they have read say the same as those that read all, whatever was stored, replaced and
// removed in between, and read what is new alone.
func TestBooks(t *testing.T) {
	s := fresh(t, class)
	ctx, now := t.Context(), time.Now()
	const cluster, many = "c1", 200
	books := s.Books(cluster)
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
		_, _, err = s.PublishNewer(ctx, event.FailedSubject(cluster, class, uid(i)), event.MessageID(e), header, data, func(Message) bool { return true })
		must(err)
	}
	document := func(i int, c event.Case) []byte {
		t.Helper()
		data, err := json.Marshal(event.Document{V: event.DocumentVersion, Cases: map[string]*event.Case{class: &c}})
		must(err)
		must(s.Put(ctx, event.StateKey(cluster, uid(i)), data))
		return data
	}
	var ahead time.Duration // of the clock of who settles
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
		document(i, event.Case{Record: rec, Last: rec.At, Event: rec.Event, Seen: 1})
	}
	var last Ledger
	same := func(what string) {
		t.Helper()
		whole, err := s.Ledger(ctx, cluster, now.Add(time.Minute), time.Hour)
		must(err)
		last, err = books.Ledger(ctx, now.Add(time.Minute), time.Hour)
		must(err)
		if diff := cmp.Diff(whole, last); diff != "" {
			t.Errorf("%s (-all +what is new):\n%s", what, diff)
		}
	}

	same("nothing")
	for i := range many {
		fails(i, 1)
	}
	same("new failures")
	for i := range many / 2 {
		settles(i, 1, event.Asked)
	}
	same("half of them settled")
	if a := last.Classes[0]; a.Published != many || a.Settled != many/2 || a.Queued != many/2 {
		t.Errorf("it is %+v", a)
	}

	// One more failure takes no more than a few messages, of two hundred.
	fails(0, 2)
	before := s.nc.Stats().InMsgs
	_, err := books.Ledger(ctx, now, time.Hour)
	must(err)
	if read := s.nc.Stats().InMsgs - before; read > many/4 {
		t.Errorf("one new failure of %d took %d messages", many, read)
	}
	same("one has failed again")
	if a := last.Classes[0]; a.Settled != many/2-1 {
		t.Errorf("it is %+v", a)
	}

	// A run that ended as the last record says leaves no record.
	document(0, event.Case{Record: record(0, 1, event.Asked), Last: now.Add(time.Second), Event: failed(0, 2).ID()})
	same("answered as before")
	if a := last.Classes[0]; a.Settled != many/2 {
		t.Errorf("it is %+v", a)
	}
	// One that ended as the record says may have a clock that is behind that of the one that wrote it.
	document(0, event.Case{Record: record(0, 1, event.Asked), Last: now.Add(-10 * time.Minute), Event: failed(0, 2).ID(), Seen: 2})
	same("answered as before, by a clock that is behind")
	if a := last.Classes[0]; a.Settled != many/2 {
		t.Errorf("it is %+v", a)
	}
	// One that was held up is answered after those that came later.
	running := document(0, event.Case{Record: record(0, 2, event.Asked), Last: now.Add(time.Second), Event: failed(0, 1).ID(), Seen: 2})
	same("an older one was answered last")
	if a := last.Classes[0]; a.Settled != many/2 {
		t.Errorf("it is %+v", a)
	}
	must(s.Delete(ctx, event.StateKey(cluster, uid(0))))
	same("the key is gone")
	if a := last.Classes[0]; a.Settled != many/2-1 {
		t.Errorf("it is %+v", a)
	}

	// What had failed before a fix is over, also when a person has taken the fix back since.
	settles(0, 1, event.Fixed)
	fails(0, -1) // a version later, and seen before the fix
	same("failed before the fix")
	if a := last.Classes[0]; a.Settled != many/2 {
		t.Errorf("it is %+v", a)
	}
	settles(0, 1, event.Undone)
	same("the fix was taken back")
	if a := last.Classes[0]; a.Settled != many/2 {
		t.Errorf("it is %+v", a)
	}
	fails(0, 300) // five minutes later, however long this test takes
	same("it fails since")
	if a := last.Classes[0]; a.Settled != many/2-1 {
		t.Errorf("it is %+v", a)
	}
	ahead = 10 * time.Minute
	settles(0, 1, event.Fixed)
	same("it fails since a fix by a clock that is ahead")
	if a := last.Classes[0]; a.Settled != many/2-1 {
		t.Errorf("it is %+v", a)
	}

	// A dead letter counts until it is dropped.
	m, err := s.Last(ctx, Failed, event.FailedSubject(cluster, class, uid(many-1)))
	must(err)
	must(s.Dead(ctx, "no reason", m.Subject, m.Header, m.Data))
	same("a dead letter")
	if a := last.Classes[0]; a.Dead != 1 {
		t.Errorf("it is %+v", a)
	}
	letter, err := s.Last(ctx, Dead, "lbremedy.dead.>")
	must(err)
	stored, err := s.js.Stream(ctx, Dead)
	must(err)
	must(stored.DeleteMsg(ctx, letter.Sequence))
	same("the dead letter was dropped")

	// What can't be read is said as long as it is there.
	must(s.Put(ctx, event.StateKey(cluster, uid(1)), []byte("{")))
	same("a key that can't be read")
	if len(last.Problems) != 2 { // and there is no exporter
		t.Errorf("the problems are %q", last.Problems)
	}
	must(s.Put(ctx, event.StateKey(cluster, uid(1)), running))
	same("it can be read again")

	// What the stream holds no more is forgotten.
	stored, err = s.js.Stream(ctx, Failed)
	must(err)
	must(stored.Purge(ctx))
	fails(3, 3)
	same("all failures but one are gone")
	if a := last.Classes[0]; a.Published != 1 {
		t.Errorf("it is %+v", a)
	}
	// Another stream by the same name is read from its beginning.
	must(s.js.DeleteStream(ctx, Failed))
	_, err = s.Setup(ctx, []string{class}, Settings{Clusters: []string{cluster}})
	must(err)
	fails(4, 1)
	same("another stream")
}
