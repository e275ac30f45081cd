package stream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/lbremedy/lbremedy/shared/stream/embedded"
)

func plainServer(t *testing.T) string { return serverOf(t, &server.Options{}) }

func serverOf(t *testing.T, o *server.Options) string {
	t.Helper()
	o.Host, o.Port, o.NoLog, o.NoSigs = "127.0.0.1", -1, true, true
	s, err := server.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("the server does not start")
	}
	return s.ClientURL()
}

func version(m Message) int {
	n, err := strconv.Atoi(string(m.Data))
	if err != nil {
		return -1
	}
	return n
}

func publish(ctx context.Context, s *Stream, subject string, v int) (uint64, bool, error) {
	return s.PublishNewer(ctx, subject, fmt.Sprintf("%s.%d", subject, v), map[string][]string{"ce-id": {strconv.Itoa(v)}},
		[]byte(strconv.Itoa(v)), func(stored Message) bool { return version(stored) < v })
}

func TestPublishNewer(t *testing.T) {
	s := fresh(t)
	other := connect(t, Config{URL: s.nc.ConnectedUrl()})
	const subject = "lbremedy.failed.c1.tag-missing.u1"
	for i, c := range []struct {
		by      *Stream
		version int
		stored  bool
		last    int
	}{
		{s, 5, true, 5},
		{s, 5, false, 5},
		{s, 3, false, 5},
		{other, 4, false, 5},
		{other, 7, true, 7},
		{s, 6, false, 7}, // the memory of s is older than the stored message
		{s, 8, true, 8},
		{other, 8, false, 8},
		{other, 9, true, 9},
		{other, 10, true, 10},
	} {
		seq, stored, err := publish(t.Context(), c.by, subject, c.version)
		if err != nil {
			t.Fatal(err)
		}
		last, err := s.Last(t.Context(), Failed, subject)
		if err != nil {
			t.Fatal(err)
		}
		if stored != c.stored || version(last) != c.last || seq != last.Sequence {
			t.Errorf("%d: got stored %t, last %d, sequence %d of %d", i, stored, version(last), seq, last.Sequence)
		}
		if want := fmt.Sprint(c.last); nats.Header(last.Header).Get("ce-id") != want || last.ID() != subject+"."+want {
			t.Errorf("%d: headers are %v", i, last.Header)
		}
	}
}

func TestPublishNewerIgnoresWhatTheServerHasLost(t *testing.T) {
	s := fresh(t)
	const subject = "lbremedy.failed.c1.tag-missing.u1"
	if _, _, err := publish(t.Context(), s, subject, 5); err != nil {
		t.Fatal(err)
	}
	found, err := s.js.Stream(t.Context(), Failed)
	if err != nil {
		t.Fatal(err)
	}
	if err := found.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	// The server knows the ID and would drop the message.
	if _, stored, err := publish(t.Context(), s, subject, 5); err != nil || !stored {
		t.Errorf("got %t, %v", stored, err)
	}
	if last, err := s.Last(t.Context(), Failed, subject); err != nil || version(last) != 5 {
		t.Errorf("got %v, %v", last, err)
	}
}

func TestPublishNewerUnderAnotherSubject(t *testing.T) {
	s := fresh(t)
	for _, subject := range []string{"lbremedy.failed.c1.unclassified.u1", "lbremedy.failed.c1.tag-missing.u1"} {
		_, stored, err := s.PublishNewer(t.Context(), subject, "event.1", nil, []byte("1"), func(Message) bool { return false })
		if err != nil || !stored {
			t.Errorf("%s: got %t, %v", subject, stored, err)
		}
	}
}

func TestPublishNewerKeepsOrderUnderManyWriters(t *testing.T) {
	const writers, versions, subjects = 20, 10, 3
	one := fresh(t)
	var all sync.WaitGroup
	for w := range writers {
		s := one
		if w%4 == 0 { // some of another process
			s = connect(t, Config{URL: one.nc.ConnectedUrl()})
		}
		all.Go(func() {
			for _, v := range rand.Perm(versions) {
				for i := range subjects {
					if _, _, err := publish(t.Context(), s, fmt.Sprintf("lbremedy.failed.c1.tag-missing.u%d", i), v+1); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	watched := make(chan error)
	ctx, cancel := context.WithCancel(t.Context())
	seen := map[string]int{}
	go func() {
		watched <- one.Tail(ctx, Failed, "lbremedy.failed.>", 0, func(m Message) error {
			if version(m) <= seen[m.Subject] {
				return fmt.Errorf("%s: %d after %d", m.Subject, version(m), seen[m.Subject])
			}
			seen[m.Subject] = version(m)
			return nil
		})
	}()
	all.Wait()
	for i := range subjects {
		last, err := one.Last(t.Context(), Failed, fmt.Sprintf("lbremedy.failed.c1.tag-missing.u%d", i))
		if err != nil || version(last) != versions {
			t.Errorf("subject %d ends with %d, %v", i, version(last), err)
		}
	}
	cancel()
	if err := <-watched; err != nil {
		t.Error(err)
	}
}

func TestPublishNewerSurvivesALostAcknowledgement(t *testing.T) {
	p := newProxy(t, serve(t, embedded.Options{}).URL())
	s := connect(t, Config{URL: p.url()})
	setup(t, s)
	direct := connect(t, Config{URL: "nats://" + p.to})
	const subject = "lbremedy.failed.c1.tag-missing.u1"
	p.silence()
	type result struct {
		stored bool
		err    error
	}
	got := make(chan result)
	go func() { _, stored, err := publish(t.Context(), s, subject, 5); got <- result{stored, err} }()
	eventually(t, "the message to be stored", func() bool { _, err := direct.Last(t.Context(), Failed, subject); return err == nil })
	p.cut(false)
	if r := <-got; r.err != nil || !r.stored {
		t.Errorf("got %+v", r)
	}
}

// A clustered server refuses a message whose ID it is still storing. This is not a conflict: the message is sent again until the server knows.
func TestInHand(t *testing.T) {
	const (
		lost   = ""
		inHand = `{"error":{"code":409,"err_code":10158,"description":"duplicate message id is in process"},"stream":"S","seq":0}`
		wrong  = `{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 6"},"stream":"S","seq":0}`
		before = `{"stream":"S","seq":7,"duplicate":true}`
		now    = `{"stream":"S","seq":7}`
	)
	const subject = "lbremedy.failed.c1.tag-missing.u1"
	writes := map[string]func(context.Context, *Stream) (uint64, error){
		"put":    func(ctx context.Context, s *Stream) (uint64, error) { return 7, s.Put(ctx, "k", nil) },
		"delete": func(ctx context.Context, s *Stream) (uint64, error) { return 7, s.Delete(ctx, "k") },
		"swap":   func(ctx context.Context, s *Stream) (uint64, error) { return s.Swap(ctx, "k", nil, 5, 0) },
		"append": func(ctx context.Context, s *Stream) (uint64, error) {
			return s.AppendRecord(ctx, "c1", "u1", "tag-missing", "1", nil, nil, 5)
		},
		"publish": func(ctx context.Context, s *Stream) (uint64, error) {
			seq, _, err := publish(ctx, s, subject, 5)
			return seq, err
		},
	}
	for name, tt := range map[string]struct {
		of      string   // the writes, by name
		answers []string // to successive tries; the last one to all that follow
		want    error
	}{
		"stored":          {"put delete swap append", []string{lost, inHand, inHand, before}, nil},
		"stored late":     {"put swap append", slices.Concat([]string{lost}, slices.Repeat([]string{inHand}, 20), []string{before}), nil},
		"dropped":         {"put delete swap append publish", []string{lost, inHand, now}, nil},
		"another's":       {"put publish", []string{inHand, now}, nil},
		"another first":   {"swap", []string{lost, inHand, wrong}, ErrConflict},
		"nobody knows":    {"swap append", []string{lost, inHand}, ErrUnavailable},
		"refused at once": {"swap", []string{wrong}, ErrConflict},
	} {
		for of := range strings.FieldsSeq(tt.of) {
			t.Run(name+", "+of, func(t *testing.T) {
				t.Parallel()
				url := plainServer(t)
				p := newProxy(t, url)
				server, err := nats.Connect(url)
				if err != nil {
					t.Fatal(err)
				}
				defer server.Close()
				tries, ids := 0, map[string]bool{}
				for _, subjects := range []string{"lbremedy.>", bucketPrefix + ">"} {
					_, err := server.Subscribe(subjects, func(m *nats.Msg) { // one goroutine: all tries have one subject
						answer := tt.answers[min(tries, len(tt.answers)-1)]
						tries++
						ids[m.Header.Get(nats.MsgIdHdr)] = true
						if answer == lost {
							p.cut(false)
							return
						}
						_ = m.Respond([]byte(answer))
					})
					if err != nil {
						t.Fatal(err)
					}
				}
				_, err = server.Subscribe(getSubject(">"), func(m *nats.Msg) {
					_ = m.RespondMsg(&nats.Msg{Header: nats.Header{"Status": {"404"}, "Description": {"Message Not Found"}}})
				})
				if err != nil {
					t.Fatal(err)
				}
				if err := server.Flush(); err != nil {
					t.Fatal(err)
				}
				seq, err := writes[of](t.Context(), connect(t, Config{URL: p.url()}))
				if !errors.Is(err, tt.want) || tt.want == ErrUnavailable && errors.Is(err, ErrConflict) {
					t.Errorf("got %v, want %v", err, tt.want)
				}
				if tt.want != nil {
					return
				}
				if seq != 7 {
					t.Errorf("it is message %d", seq)
				}
				if err := server.Drain(); err != nil {
					t.Fatal(err)
				}
				eventually(t, "the server to end", server.IsClosed)
				if tries != len(tt.answers) || len(ids) != 1 {
					t.Errorf("%d tries by %d IDs", tries, len(ids))
				}
			})
		}
	}
}

func TestDead(t *testing.T) {
	s := fresh(t)
	huge := bytes.Repeat([]byte("x"), 2<<20)
	many := map[string][]string{}
	for i := range 4000 {
		many[fmt.Sprintf("h%d", i)] = []string{"value"}
	}
	for _, c := range []struct {
		name, reason, origin string
		header               map[string][]string
		data                 []byte
		subject              string
		check                func(nats.Header, []byte) bool
	}{
		{"an event", "the UID is empty", "exporter", map[string][]string{"ce-id": {"1"}}, []byte("d"), "lbremedy.dead.exporter",
			func(h nats.Header, d []byte) bool {
				return h.Get(HeaderReason) == "the UID is empty" && h.Get("ce-id") == "1" && string(d) == "d"
			}},
		{"a subject", "r", "lbremedy.failed.c1.tag-missing.u1", nil, nil, "lbremedy.dead.failed.c1.tag-missing.u1",
			func(h nats.Header, _ []byte) bool { return h.Get(HeaderOrigin) == "lbremedy.failed.c1.tag-missing.u1" }},
		{"a hostile origin", "r\r\nEvil: 1", "a b..*.>.\r\n\x00é", nil, nil, "lbremedy.dead.a_b._._._.____",
			func(h nats.Header, _ []byte) bool { return h.Get("Evil") == "" }},
		{"no origin", "", "", nil, nil, "lbremedy.dead._", func(nats.Header, []byte) bool { return true }},
		{"too much data", "r", "big", nil, huge, "lbremedy.dead.big",
			func(h nats.Header, d []byte) bool { return h.Get(HeaderCut) == "2097152" && len(d) == maxDeadData }},
		{"too many headers", "r", "many", many, nil, "lbremedy.dead.many",
			func(h nats.Header, _ []byte) bool { return len(h) < 4000 && h.Get(HeaderReason) == "r" }},
		{"headers of NATS", "r", "own", map[string][]string{"Nats-Expected-Last-Sequence": {"77"}, "nats-rollup": {"all"}, "Nats-Msg-Id": {"7"}}, nil,
			"lbremedy.dead.own",
			func(h nats.Header, _ []byte) bool { return h.Get("nats-rollup") == "" && h.Get("Nats-Msg-Id") != "7" }},
		{"a secret", "get https://slb.aliyuncs.com/?Signature=c2VjcmV0c2VjcmV0c2Vj%3D: no", "secret", nil, nil, "lbremedy.dead.secret",
			func(h nats.Header, _ []byte) bool { return !strings.Contains(h.Get(HeaderReason), "c2VjcmV0") }},
		{"long texts", strings.Repeat("é", 2000), strings.Repeat("o", 3000), nil, nil, "lbremedy.dead." + strings.Repeat("o", 200),
			func(h nats.Header, _ []byte) bool { return len(h.Get(HeaderReason)) <= maxReason }},
	} {
		t.Run(c.name, func(t *testing.T) {
			for range 2 { // a repetition of the same message makes no second one
				if err := s.Dead(t.Context(), c.reason, c.origin, c.header, c.data); err != nil {
					t.Fatal(err)
				}
			}
			m, err := s.Last(t.Context(), Dead, c.subject)
			if err != nil {
				t.Fatal(err)
			}
			if !c.check(m.Header, m.Data) {
				t.Errorf("got %d headers, %d bytes; reason %q", len(m.Header), len(m.Data), m.Header[HeaderReason])
			}
		})
	}
	n := 0
	if err := s.Each(t.Context(), Dead, "lbremedy.dead.own", time.Time{}, func(Message) error { n++; return nil }); err != nil || n != 1 {
		t.Errorf("the same message is dead %d times, %v", n, err)
	}
}

// A publisher chooses the IDs: the second message must not be acknowledged and lost.
func TestDeadLettersThatShareAnID(t *testing.T) {
	s := fresh(t)
	for _, dead := range []struct{ origin, id, data string }{
		{"a", "1", "x"}, {"a", "1", "y"}, {"b", "1", "x"}, {"a", "2", "x"}, {"a", "2", "x"}, {"b", "1", "x"},
	} {
		if err := s.Dead(t.Context(), "r", dead.origin, map[string][]string{"Nats-Msg-Id": {dead.id}}, []byte(dead.data)); err != nil {
			t.Fatal(err)
		}
	}
	n := 0
	if err := s.Each(t.Context(), Dead, DeadSubjects, time.Time{}, func(Message) error { n++; return nil }); err != nil || n != 4 {
		t.Errorf("%d dead letters, %v; want 4", n, err)
	}
}

func TestRemove(t *testing.T) {
	s := fresh(t)
	for _, data := range []string{"1", "2", "3"} {
		if err := s.Dead(t.Context(), "r", "o", nil, []byte(data)); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []bool{true, false} {
		if removed, err := s.Remove(t.Context(), Dead, 2); removed != want || err != nil {
			t.Errorf("removed %v, %v; want %v", removed, err, want)
		}
	}
	if _, err := s.one(t.Context(), Dead, "read", query{Seq: 2}); !errors.Is(err, ErrNotFound) {
		t.Errorf("what was removed: %v", err)
	}
	m, err := s.one(t.Context(), Dead, "read", query{Seq: 3})
	if err != nil || string(m.Data) != "3" {
		t.Errorf("got %q, %v", m.Data, err)
	}
	origin, reason, header := m.Origin()
	if origin != "o" || reason != "r" || len(header) != 0 {
		t.Errorf("from %q for %q with %v", origin, reason, header)
	}
	if _, err := s.Remove(t.Context(), "NONE", 1); err == nil {
		t.Error("a stream that isn't there has let go of a message")
	}
}

func burst(n int) ([]string, []byte) {
	subjects := make([]string, n)
	for i := range subjects {
		subjects[i] = fmt.Sprintf("lbremedy.failed.c1.tag-missing.%08x-0000-4000-8000-000000000000", i)
	}
	return subjects, bytes.Repeat([]byte("x"), 900)
}

func durable(b *testing.B) *Stream {
	b.Helper()
	s := connect(b, Config{URL: serve(b, embedded.Options{Sync: true}).URL()})
	setup(b, s)
	return s
}

// BenchmarkBurst publishes 3,000 messages to as many subjects, each acknowledged on disk: first one after the other without ordering,
// then with several numbers in flight. They take turns, since disks vary; medians are reported.
func BenchmarkBurst(b *testing.B) {
	const n = 3000
	s := durable(b)
	subjects, data := burst(n)
	widths := []int{0, 1, 16, 64, 256} // 0: the simple program
	took := map[int][]time.Duration{}
	id := 0
	for b.Loop() {
		for _, width := range widths {
			found, err := s.js.Stream(b.Context(), Failed)
			if err == nil {
				err = found.Purge(b.Context())
			}
			if err != nil {
				b.Fatal(err)
			}
			began := time.Now()
			var g errgroup.Group
			g.SetLimit(max(width, 1))
			for _, subject := range subjects {
				id++
				msgID := strconv.Itoa(id)
				if width == 0 {
					if _, err := s.js.Publish(b.Context(), subject, data); err != nil {
						b.Fatal(err)
					}
					continue
				}
				g.Go(func() error {
					_, stored, err := s.PublishNewer(b.Context(), subject, msgID, nil, data, func(Message) bool { return true })
					if err == nil && !stored {
						err = errors.New("it is not stored")
					}
					return err
				})
			}
			if err := g.Wait(); err != nil {
				b.Fatal(err)
			}
			took[width] = append(took[width], time.Since(began))
		}
	}
	for _, width := range widths {
		slices.Sort(took[width])
		b.ReportMetric(n/took[width][len(took[width])/2].Seconds(), fmt.Sprintf("msg/s-width-%d", width))
	}
	b.ReportMetric(0, "ns/op")
}

func BenchmarkPublishNewer(b *testing.B) {
	for _, c := range []struct {
		name     string
		subjects int
	}{{"new-subject", 1 << 30}, {"recurrence", 1}} {
		b.Run(c.name, func(b *testing.B) {
			s := durable(b)
			data := bytes.Repeat([]byte("x"), 900)
			i := 0
			for b.Loop() {
				i++
				_, stored, err := s.PublishNewer(b.Context(), fmt.Sprintf("lbremedy.failed.c1.tag-missing.u%d", i%c.subjects), strconv.Itoa(i), nil, data,
					func(Message) bool { return true })
				if err != nil || !stored {
					b.Fatal(stored, err)
				}
			}
		})
	}
}
