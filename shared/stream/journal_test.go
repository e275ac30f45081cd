package stream

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lbremedy/lbremedy/shared/stream/embedded"
)

func appendRecord(t testing.TB, s *Stream, cluster, uid, class, data string) uint64 {
	t.Helper()
	sequence, err := s.AppendRecord(t.Context(), cluster, uid, class, rand.Text(), nil, []byte(data), 0)
	if err != nil {
		t.Fatal(err)
	}
	return sequence
}

func TestAuditIsKept(t *testing.T) {
	s := fresh(t)
	ctx := t.Context()
	appendRecord(t, s, "c1", "u1", "tag-missing", "intent")
	if _, err := s.AppendRecord(ctx, "c1", "u1", "tag-missing", "2", map[string][]string{"ce-type": {"t"}}, []byte("settled"), 0); err != nil {
		t.Fatal(err)
	}
	for _, of := range [][3]string{{"c1", "u1", "x"}, {"c1", "u2", "x"}, {"c2", "u1", "x"}, {"c1", "u11", "x"}} {
		appendRecord(t, s, of[0], of[1], of[2], "other")
	}
	m, err := s.Last(ctx, Cases, "lbremedy.case.c1.u1.tag-missing")
	if err != nil || string(m.Data) != "settled" {
		t.Fatalf("got %q, %v", m.Data, err)
	}
	if h := nats.Header(m.Header); h.Get("ce-type") != "t" || len(h) != 2 {
		t.Errorf("the record has headers %v", h)
	}
}

func TestAuditRefusesHostileNames(t *testing.T) {
	s := fresh(t)
	for _, bad := range []string{"", "*", ">", "a.b", "a b", "a\r\n", "é"} {
		for _, of := range [][3]string{{bad, "u", "c"}, {"c", bad, "c"}, {"c", "u", bad}} {
			if _, err := s.AppendRecord(t.Context(), of[0], of[1], of[2], "1", nil, nil, 0); err == nil {
				t.Errorf("%q is appended to", of)
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
				e, err := s.Entry(t.Context(), "k")
				ready.Done()
				if err != nil && !errors.Is(err, ErrNotFound) {
					t.Error(err)
					return
				}
				ready.Wait()
				switch _, err := s.Swap(t.Context(), "k", []byte(strconv.Itoa(w)), e.Revision, 0); {
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
			t.Errorf("round %d: %d writers won, %d lost", round, won.Load(), lost.Load())
		}
	}
}

// A record is appended once, whatever the caller knows, and whoever has appended before it.
func TestAudit(t *testing.T) {
	s := fresh(t)
	ctx := t.Context()
	again := func(id string, last uint64) uint64 {
		t.Helper()
		sequence, err := s.AppendRecord(ctx, "c1", "u1", "tag-missing", id, nil, []byte(id), last)
		if err != nil {
			t.Fatal(err)
		}
		return sequence
	}
	first := again("a", 0)
	if second := again("a", 0); second != first {
		t.Errorf("the same record is %d, and %d the second time", first, second)
	}
	appendRecord(t, s, "c1", "u1", "tag-missing", "another")
	second := again("b", first)
	if again("b", 99) != second {
		t.Error("the record is appended again")
	}
	n := 0
	if err := s.Each(ctx, Cases, "lbremedy.case.>", time.Time{}, func(Message) error { n++; return nil }); err != nil || n != 3 {
		t.Errorf("%d records, %v", n, err)
	}
	if _, err := s.AppendRecord(ctx, "c1", "a.b", "tag-missing", "c", nil, nil, 0); err == nil {
		t.Error("a UID with a dot is taken")
	}
}

// Records appended again in order are not duplicated, even when NATS has forgotten their IDs; whatever happened to CASES, they are appended at its end.
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
			if known, err = s.AppendRecord(ctx, "c1", "u1", "tag-missing", id, nil, []byte(id), known); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Each(ctx, Cases, "lbremedy.case.>", time.Time{}, func(m Message) error { held += m.ID(); return nil }); err != nil {
			t.Fatal(err)
		}
		return held
	}
	all(0, "a", "b")
	for until := time.Now().Add(400 * time.Millisecond); time.Now().Before(until); { // until NATS forgets the ID
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

// TestLostAcknowledgement cuts the connection before the acknowledgement: the writer must learn whether it has won.
func TestLostAcknowledgement(t *testing.T) {
	for _, c := range []struct {
		name     string
		another  bool // another writer writes before ours is sent again
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
			other := func() {
				if err := direct.Put(t.Context(), "k", []byte("other")); err != nil {
					t.Fatal(err)
				}
			}
			if c.before {
				other()
			}
			p.silence()
			sent := s.nc.Stats().OutMsgs
			type written struct {
				revision uint64
				err      error
			}
			got := make(chan written)
			go func() {
				revision, err := s.Swap(t.Context(), "k", []byte("mine"), 0, 0)
				got <- written{revision, err}
			}()
			if c.before {
				eventually(t, "the write to be sent", func() bool { return s.nc.Stats().OutMsgs > sent })
			} else {
				eventually(t, "the write", func() bool { _, err := direct.Get(t.Context(), "k"); return err == nil })
			}
			if c.another {
				other()
			}
			p.cut(true)
			p.up()
			w := <-got
			if errors.Is(w.err, ErrConflict) != c.conflict || (w.err != nil) != c.conflict {
				t.Errorf("got %v, want a conflict: %t", w.err, c.conflict)
			}
			want := "mine"
			if c.conflict {
				want = "other"
			}
			e, err := direct.Entry(t.Context(), "k")
			if err != nil || string(e.Value) != want || !c.conflict && e.Revision != w.revision {
				t.Errorf("it holds %+v, %v; the write says revision %d", e, err, w.revision)
			}
		})
	}
}

func TestLostAcknowledgementOfARecord(t *testing.T) {
	for name, before := range map[string]bool{"ours is stored": false, "another was first": true} {
		t.Run(name, func(t *testing.T) {
			server := serve(t, embedded.Options{})
			p := newProxy(t, server.URL())
			s := connect(t, Config{URL: p.url()})
			setup(t, s)
			direct := connect(t, Config{URL: server.URL()})
			want := "mine other"
			if before {
				appendRecord(t, direct, "c1", "u1", "tag-missing", "other")
				want = "other mine"
			}
			p.silence()
			sent := s.nc.Stats().OutMsgs
			got := make(chan error)
			go func() {
				_, err := s.AppendRecord(t.Context(), "c1", "u1", "tag-missing", "1", nil, []byte("mine"), 0)
				got <- err
			}()
			if before {
				eventually(t, "the record to be sent", func() bool { return s.nc.Stats().OutMsgs > sent })
			} else {
				eventually(t, "the record", func() bool { _, err := direct.Last(t.Context(), Cases, "lbremedy.case.>"); return err == nil })
				appendRecord(t, direct, "c1", "u1", "tag-missing", "other")
			}
			p.cut(true)
			p.up()
			if err := <-got; err != nil {
				t.Error(err)
			}
			var kept []string
			if err := direct.Each(t.Context(), Cases, "lbremedy.case.>", time.Time{}, func(m Message) error {
				kept = append(kept, string(m.Data))
				return nil
			}); err != nil || strings.Join(kept, " ") != want {
				t.Errorf("CASES holds %q, %v; want %s", kept, err, want)
			}
		})
	}
}

// TestAcknowledgedRecordsSurviveAKill kills the server while writers append: each acknowledged record is there once, in order.
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
			last := uint64(0)
			for i := 0; ctx.Err() == nil; i++ {
				record := fmt.Sprintf("%d-%d", w, i)
				next, err := s.AppendRecord(ctx, "c1", "u"+strconv.Itoa(w), "tag-missing", record, nil, []byte(record), last)
				switch {
				case err == nil:
					last = next
					acknowledged[w] = append(acknowledged[w], record)
					counts[w].Add(1)
				case !errors.Is(err, ErrUnavailable) && ctx.Err() == nil:
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
		for _, k := range kept { // may include records without an acknowledgement
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

func BenchmarkAudit(b *testing.B) {
	for _, sync := range []bool{true, false} {
		b.Run(fmt.Sprintf("fsync=%t", sync), func(b *testing.B) {
			s := connect(b, Config{URL: serve(b, embedded.Options{Sync: sync}).URL()})
			setup(b, s)
			data, last := bytes.Repeat([]byte("x"), 3000), uint64(0)
			for b.Loop() {
				var err error
				if last, err = s.AppendRecord(b.Context(), "c1", "u1", "tag-missing", rand.Text(), nil, data, last); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
