package stream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lbremedy/lbremedy/shared/stream/embedded"
)

func load(t testing.TB, j *Journal) string {
	t.Helper()
	m, err := j.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if m == nil {
		return ""
	}
	return string(m.Data)
}

func TestJournal(t *testing.T) {
	s := fresh(t)
	ctx := t.Context()
	a := s.Journal("c1", "u1", "tag-missing")
	if got := load(t, a); got != "" {
		t.Errorf("an empty journal holds %q", got)
	}
	for _, record := range []string{"intent", "step", "settled"} {
		if err := a.Append(ctx, record, map[string][]string{"ce-type": {"t"}}, []byte(record)); err != nil {
			t.Fatal(err)
		}
	}
	again := s.Journal("c1", "u1", "tag-missing")
	if got := load(t, again); got != "settled" {
		t.Errorf("got %q", got)
	}
	m, err := s.Last(ctx, Cases, "lbremedy.case.c1.u1.tag-missing")
	if err != nil {
		t.Fatal(err)
	}
	if h := nats.Header(m.Header); h.Get("ce-type") != "t" || len(h) != 2 {
		t.Errorf("the record has headers %v", h)
	}

	// Another writer of the same object and class.
	b := s.Journal("c1", "u1", "tag-missing")
	if got := load(t, b); got != "settled" {
		t.Errorf("the other writer sees %q", got)
	}
	if err := b.Append(ctx, "1", nil, []byte("b")); err != nil {
		t.Fatal(err)
	}
	if err := again.Append(ctx, "2", nil, []byte("late")); !errors.Is(err, ErrConflict) {
		t.Errorf("got %v, want %v", err, ErrConflict)
	}
	if err := s.Journal("c1", "u1", "tag-missing").Append(ctx, "3", nil, nil); !errors.Is(err, ErrConflict) {
		t.Errorf("without a Load: got %v, want %v", err, ErrConflict)
	}
	if got := load(t, again); got != "b" {
		t.Errorf("got %q", got)
	}
	if err := again.Append(ctx, "4", nil, []byte("now")); err != nil {
		t.Error(err)
	}
	// Others are not in the way: another class, another Service, another cluster, a UID that begins alike.
	for _, free := range []*Journal{s.Journal("c1", "u1", "x"), s.Journal("c1", "u2", "x"), s.Journal("c2", "u1", "x"), s.Journal("c1", "u11", "x")} {
		if err := free.Append(ctx, "5", nil, nil); err != nil {
			t.Error(err)
		}
	}
}

func TestJournalRefusesHostileNames(t *testing.T) {
	s := fresh(t)
	for _, bad := range []string{"", "*", ">", "a.b", "a b", "a\r\n", "é"} {
		for _, j := range []*Journal{s.Journal(bad, "u", "c"), s.Journal("c", bad, "c"), s.Journal("c", "u", bad)} {
			if _, err := j.Load(t.Context()); err == nil {
				t.Errorf("%q is loaded", bad)
			}
			if err := j.Append(t.Context(), "1", nil, nil); err == nil {
				t.Errorf("%q is appended to", bad)
			}
		}
	}
}

func TestOneWriterOfManyWins(t *testing.T) {
	const writers, rounds = 50, 5
	s := fresh(t)
	for round := range rounds {
		var won, lost atomic.Int64
		var ready, all sync.WaitGroup
		ready.Add(writers)
		for w := range writers {
			all.Go(func() {
				j := s.Journal("c1", "u1", "class")
				_, err := j.Load(t.Context())
				ready.Done()
				if err != nil {
					t.Error(err)
					return
				}
				ready.Wait()
				switch err := j.Append(t.Context(), "same-id", nil, []byte(strconv.Itoa(w))); {
				case err == nil:
					won.Add(1)
				case errors.Is(err, ErrConflict):
					lost.Add(1)
				default:
					t.Error(err)
				}
			})
		}
		all.Wait()
		if won.Load() != 1 || lost.Load() != writers-1 {
			t.Errorf("round %d: %d won, %d lost", round, won.Load(), lost.Load())
		}
	}
	n := 0
	if err := s.Each(t.Context(), Cases, "lbremedy.case.>", time.Time{}, func(Message) error { n++; return nil }); err != nil || n != rounds {
		t.Errorf("%d records, %v", n, err)
	}
}

// A record of the audit is appended once, whatever the caller knows, and whoever has appended before it.
func TestAudit(t *testing.T) {
	s := fresh(t)
	ctx := t.Context()
	audit := func(id string, last uint64) uint64 {
		t.Helper()
		sequence, err := s.Audit(ctx, "c1", "u1", "tag-missing", id, nil, []byte(id), last)
		if err != nil {
			t.Fatal(err)
		}
		return sequence
	}
	first := audit("a", 0)
	if again := audit("a", 0); again != first {
		t.Errorf("the same record is %d, and %d the second time", first, again)
	}
	if err := func() error {
		j := s.Journal("c1", "u1", "tag-missing")
		load(t, j)
		return j.Append(ctx, "another", nil, nil)
	}(); err != nil {
		t.Fatal(err)
	}
	second := audit("b", first)
	if audit("b", 99) != second {
		t.Error("the record is appended again")
	}
	n := 0
	if err := s.Each(ctx, Cases, "lbremedy.case.>", time.Time{}, func(Message) error { n++; return nil }); err != nil || n != 3 {
		t.Errorf("%d records, %v", n, err)
	}
	if _, err := s.Audit(ctx, "c1", "a.b", "tag-missing", "c", nil, nil, 0); err == nil {
		t.Error("a UID with a dot is taken")
	}
}

// Records that are appended again, in their order, are not there twice, also when NATS has forgotten their IDs; and whatever
// became of CASES, they go behind what it holds.
func TestAuditAgain(t *testing.T) {
	s := fresh(t)
	ctx := t.Context()
	of, err := s.js.Stream(ctx, Cases)
	if err != nil {
		t.Fatal(err)
	}
	config := of.CachedInfo().Config
	config.Duplicates = 100 * time.Millisecond
	if _, err := s.js.UpdateStream(ctx, config); err != nil {
		t.Fatal(err)
	}
	all := func(known uint64, ids ...string) (held string) {
		t.Helper()
		for _, id := range ids {
			if known, err = s.Audit(ctx, "c1", "u1", "tag-missing", id, nil, []byte(id), known); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Each(ctx, Cases, "lbremedy.case.>", time.Time{}, func(m Message) error { held += m.ID(); return nil }); err != nil {
			t.Fatal(err)
		}
		return held
	}
	all(0, "a", "b")
	for until := time.Now().Add(400 * time.Millisecond); time.Now().Before(until); { // as NATS forgets
		if held := all(0, "a", "b"); held != "ab" {
			t.Fatalf("CASES holds %q", held)
		}
	}
	if held := all(1, "b", "c"); held != "abc" {
		t.Errorf("CASES holds %q", held)
	}
	if err := of.Purge(ctx); err != nil {
		t.Fatal(err)
	}
	if held := all(3, "d", "e"); held != "de" {
		t.Errorf("after it was emptied CASES holds %q", held)
	}
	if held := all(99, "d", "e"); held != "de" {
		t.Errorf("to one who knows of a later record CASES holds %q", held)
	}
}

// TestLostAcknowledgementOfAnAppend cuts the connection between a stored record and its
// acknowledgement; the writer must learn that it has won, or that another came before it.
func TestLostAcknowledgementOfAnAppend(t *testing.T) {
	for _, c := range []struct {
		name     string
		another  bool // another writer appends before ours is sent again
		before   bool // another writer is first: ours is refused, and the refusal gets lost
		conflict bool
	}{
		{name: "ours is stored"},
		{name: "ours is stored, and another writer went on", another: true, conflict: true},
		{name: "another was first", before: true, conflict: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := serve(t, embedded.Options{})
			p := newProxy(t, server.URL())
			s := connect(t, Config{URL: p.url()})
			setup(t, s)
			direct := connect(t, Config{URL: server.URL()})
			j := s.Journal("c1", "u1", "tag-missing")
			load(t, j)
			other := direct.Journal("c1", "u1", "tag-missing")
			appendOther := func() {
				load(t, other)
				if err := other.Append(t.Context(), "other", nil, []byte("other")); err != nil {
					t.Fatal(err)
				}
			}
			if c.before {
				appendOther()
			}
			p.silence()
			sent := s.nc.Stats().OutMsgs
			got := make(chan error)
			go func() { got <- j.Append(t.Context(), "1", nil, []byte("mine")) }()
			if c.before {
				eventually(t, "the record to be sent", func() bool { return s.nc.Stats().OutMsgs > sent })
			} else {
				eventually(t, "the record", func() bool { _, err := direct.Last(t.Context(), Cases, j.subject); return err == nil })
			}
			if c.another {
				appendOther()
			}
			p.cut(true)
			p.up()
			err := <-got
			if errors.Is(err, ErrConflict) != c.conflict || (err != nil) != c.conflict {
				t.Errorf("got %v, want a conflict: %t", err, c.conflict)
			}
			n := 0
			if err := direct.Each(t.Context(), Cases, j.subject, time.Time{}, func(Message) error { n++; return nil }); err != nil {
				t.Fatal(err)
			}
			want := 1
			if c.another {
				want = 2
			}
			if n != want {
				t.Errorf("%d records, want %d", n, want)
			}
			err = j.Append(t.Context(), "2", nil, []byte("next"))
			if c.another || c.before {
				if !errors.Is(err, ErrConflict) {
					t.Errorf("the next append: got %v, want %v", err, ErrConflict)
				}
			} else if err != nil {
				t.Errorf("the next append: %v", err)
			}
		})
	}
}

// TestAcknowledgedRecordsSurviveAKill kills the server again and again while writers
// append; whatever was acknowledged must be there, once, and in order.
func TestAcknowledgedRecordsSurviveAKill(t *testing.T) {
	const writers, kills, least = 4, 3, 10
	dir := t.TempDir()
	server := crashable(t, dir)
	s := connect(t, Config{URL: server.url})
	setup(t, s)
	p := newProxy(t, server.url)
	s = connect(t, Config{URL: p.url()})

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	acknowledged := make([][]string, writers)
	var counts [writers]atomic.Int64
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			j := s.Journal("c1", "u"+strconv.Itoa(w), "tag-missing")
			for i := 0; ctx.Err() == nil; i++ {
				record := fmt.Sprintf("%d-%d", w, i)
				switch err := j.Append(ctx, record, nil, []byte(record)); {
				case err == nil:
					acknowledged[w] = append(acknowledged[w], record)
					counts[w].Add(1)
				case errors.Is(err, ErrUnavailable), errors.Is(err, ErrConflict):
					for ctx.Err() == nil {
						if _, err := j.Load(ctx); err == nil {
							break
						}
					}
				case ctx.Err() == nil:
					t.Error(err)
					return
				}
			}
		})
	}
	for range kills {
		for w := range writers {
			from := counts[w].Load()
			eventually(t, "records", func() bool { return counts[w].Load() >= from+least })
		}
		server.kill()
		server = crashable(t, dir)
		p.turn(server.url)
	}
	found(t, s)
	cancel()
	all.Wait()
	for w := range writers {
		var kept []string
		err := s.Each(t.Context(), Cases, fmt.Sprintf("lbremedy.case.c1.u%d.>", w), time.Time{}, func(m Message) error {
			kept = append(kept, string(m.Data))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		i := 0
		for _, k := range kept { // kept may hold records whose acknowledgement never came
			if i < len(acknowledged[w]) && k == acknowledged[w][i] {
				i++
			}
		}
		if i != len(acknowledged[w]) {
			t.Errorf("writer %d: record %s was acknowledged and is lost, doubled or out of order", w, acknowledged[w][i])
		}
		t.Logf("writer %d: %d acknowledged, %d kept", w, len(acknowledged[w]), len(kept))
	}
}

func BenchmarkAppend(b *testing.B) {
	for _, sync := range []bool{true, false} {
		b.Run(fmt.Sprintf("fsync=%t", sync), func(b *testing.B) {
			s := connect(b, Config{URL: serve(b, embedded.Options{Sync: sync}).URL()})
			setup(b, s)
			data := bytes.Repeat([]byte("x"), 3000)
			j := s.Journal("c1", "u1", "tag-missing")
			for b.Loop() {
				if err := j.Append(b.Context(), "1", nil, data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkLoad(b *testing.B) {
	s := connect(b, Config{URL: serve(b, embedded.Options{}).URL()})
	setup(b, s)
	data := bytes.Repeat([]byte("x"), 3000)
	if err := s.Journal("c1", "old", "class-4").Append(b.Context(), "1", nil, data); err != nil {
		b.Fatal(err)
	}
	for i := range 5000 {
		j := s.Journal("c1", "u"+strconv.Itoa(i%1000), "class-"+strconv.Itoa(i/1000))
		if i >= 1000 {
			if _, err := j.Load(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
		if err := j.Append(b.Context(), "1", nil, data); err != nil {
			b.Fatal(err)
		}
	}
	// The server keeps the newest 8 MiB at hand and reads what is older from its files.
	for name, uid := range map[string]string{"none": "u1000", "recent": "u999", "old": "old"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if m, err := s.Journal("c1", uid, "class-4").Load(b.Context()); err != nil || (m == nil) != (name == "none") {
					b.Fatal(m, err)
				}
			}
		})
	}
}
