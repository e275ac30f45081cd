package stream

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lbremedy/lbremedy/shared/stream/embedded"
)

func record(t testing.TB, s *Stream, cluster string, from, n int) {
	t.Helper()
	for i := range n {
		appendRecord(t, s, cluster, fmt.Sprintf("u%d", from+i), "x", strconv.Itoa(from+i))
	}
}

func TestLast(t *testing.T) {
	s := fresh(t)
	record(t, s, "c1", 0, 3)
	record(t, s, "c2", 7, 1)
	for filter, want := range map[string]string{"lbremedy.case.>": "7", "lbremedy.case.c1.>": "2", "lbremedy.case.*.u1.*": "1", "lbremedy.case.c2.u7.x": "7",
		"lbremedy.case.c3.>": ""} {
		m, err := s.Last(t.Context(), Cases, filter)
		if string(m.Data) != want || (want == "") != errors.Is(err, ErrNotFound) {
			t.Errorf("%s: got %q, %v, want %q", filter, m.Data, err, want)
		}
	}
	m, err := s.Last(t.Context(), Cases, "lbremedy.case.c2.>")
	if err != nil {
		t.Fatal(err)
	}
	if m.Subject != "lbremedy.case.c2.u7.x" || m.Sequence != 4 || time.Since(m.Time) > time.Minute || len(m.Header) != 1 {
		t.Errorf("got %+v", m)
	}
}

func TestEachAfter(t *testing.T) {
	s := fresh(t)
	after, got := uint64(0), ""
	read := func() {
		t.Helper()
		if err := s.EachAfter(t.Context(), Cases, "lbremedy.case.c1.>", after, func(m Message) error {
			after = m.Sequence
			got += string(m.Data) + " "
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	read()
	record(t, s, "c1", 0, 2)
	record(t, s, "c2", 5, 1)
	read()
	read()
	record(t, s, "c1", 2, 1)
	read()
	if want := "0 1 2 "; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestFirst(t *testing.T) {
	s := fresh(t)
	is := func(want uint64) {
		t.Helper()
		if got, err := s.First(t.Context(), Cases); err != nil || got != want {
			t.Errorf("the first is %d, %v; want %d", got, err, want)
		}
	}
	record(t, s, "c1", 0, 3)
	is(1)
	journal, err := s.js.Stream(t.Context(), Cases)
	if err != nil {
		t.Fatal(err)
	}
	for _, before := range []uint64{2, 4} {
		if err := journal.Purge(t.Context(), jetstream.WithPurgeSequence(before)); err != nil {
			t.Fatal(err)
		}
		is(before)
	}
}

func TestEach(t *testing.T) {
	s := fresh(t)
	const n = 2*pageMessages + 5
	for i := range n {
		if _, err := s.js.PublishAsync(fmt.Sprintf("lbremedy.case.c1.u%d.x", i), []byte(strconv.Itoa(i)), jetstream.WithStallWait(time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	<-s.js.PublishAsyncComplete()
	record(t, s, "c2", 0, 2)
	collect := func(filter string, since time.Time) []string {
		t.Helper()
		var got []string
		if err := s.Each(t.Context(), Cases, filter, since, func(m Message) error { got = append(got, string(m.Data)); return nil }); err != nil {
			t.Fatal(err)
		}
		return got
	}
	var want []string
	for i := range n {
		want = append(want, strconv.Itoa(i))
	}
	if diff := cmp.Diff(want, collect("lbremedy.case.c1.>", time.Time{})); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"1"}, collect("lbremedy.case.c2.u1.>", time.Time{})); diff != "" {
		t.Error(diff)
	}
	if got := collect("lbremedy.case.c3.>", time.Time{}); got != nil {
		t.Errorf("got %q", got)
	}
	fifth, err := s.Last(t.Context(), Cases, "lbremedy.case.c1.u5.>")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want[5:], collect("lbremedy.case.c1.>", fifth.Time)); diff != "" {
		t.Error(diff)
	}
	if got := collect("lbremedy.case.>", time.Now().Add(time.Hour)); got != nil {
		t.Errorf("got %q", got)
	}
	stop := errors.New("enough")
	if err := s.Each(t.Context(), Cases, "lbremedy.case.>", time.Time{}, func(Message) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("got %v", err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Each(gone, Cases, "lbremedy.case.>", time.Time{}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	next := n
	seen := len(collect("lbremedy.case.c1.>", time.Time{}))
	err = s.Each(t.Context(), Cases, "lbremedy.case.c1.>", time.Time{}, func(Message) error {
		if seen--; next < n+50 {
			record(t, s, "c1", next, 1)
			next++
		}
		return nil
	})
	if err != nil || seen != 0 {
		t.Errorf("%d too few, %v", seen, err)
	}
}

// More subjects, and more bytes, exist than one answer holds.
func TestEachLast(t *testing.T) {
	s := fresh(t)
	const n = 2*lastsMost + 5
	for round := range 2 {
		for i := range n {
			if _, err := s.js.PublishAsync(fmt.Sprintf("lbremedy.case.c1.u%d.x", i), []byte(strconv.Itoa(round)), jetstream.WithStallWait(time.Minute)); err != nil {
				t.Fatal(err)
			}
		}
	}
	<-s.js.PublishAsyncComplete()
	record(t, s, "c2", 0, 2)
	for filter, want := range map[string]int{"lbremedy.case.>": n + 2, "lbremedy.case.c1.>": n, "lbremedy.case.c1.u7.*": 1, "lbremedy.case.c3.>": 0} {
		got := map[string]string{}
		err := s.EachLast(t.Context(), Cases, filter, func(m Message) error { got[m.Subject] = string(m.Data); return nil })
		if err != nil || len(got) != want {
			t.Errorf("%s: %d messages, %v; want %d", filter, len(got), err, want)
		}
		for subject, data := range got {
			if data != "1" && strings.HasPrefix(subject, "lbremedy.case.c1.") {
				t.Fatalf("%s: got %q, which is not the last", subject, data)
			}
		}
	}
	stop := errors.New("enough")
	if err := s.EachLast(t.Context(), Cases, "lbremedy.case.>", func(Message) error { return stop }); err != stop {
		t.Errorf("got %v", err)
	}
	if _, err := s.Subjects(t.Context(), "NONE", ">"); !errors.Is(err, ErrNotFound) {
		t.Errorf("got %v", err)
	}
}

func TestFollowAndTail(t *testing.T) {
	server := serve(t, embedded.Options{})
	p := newProxy(t, server.URL())
	s := connect(t, Config{URL: p.url()})
	setup(t, s)
	record(t, s, "c1", 0, 3)
	last, err := s.Last(t.Context(), Cases, ">")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	type following struct {
		got  chan string
		done chan error
	}
	begin := func(f func(context.Context, func(Message) error) error) following {
		w := following{make(chan string, 100), make(chan error, 1)}
		go func() { w.done <- f(ctx, func(m Message) error { w.got <- string(m.Data); return nil }) }()
		return w
	}
	all := begin(func(ctx context.Context, f func(Message) error) error {
		return s.Tail(ctx, Cases, "lbremedy.case.>", 0, f)
	})
	after := begin(func(ctx context.Context, f func(Message) error) error {
		return s.Tail(ctx, Cases, "lbremedy.case.>", last.Sequence, f)
	})
	record(t, s, "c1", 3, 2)
	want := func(w following, list ...string) {
		t.Helper()
		for _, v := range list {
			select {
			case got := <-w.got:
				if got != v {
					t.Errorf("got %s, want %s", got, v)
				}
			case <-time.After(15 * time.Second):
				t.Fatalf("%s does not come", v)
			}
		}
	}
	want(all, "0", "1", "2", "3", "4")
	want(after, "3", "4")
	p.cut(true)
	lost(t, s)
	direct := connect(t, Config{URL: server.URL()})
	record(t, direct, "c1", 5, 1)
	p.up()
	found(t, s)
	record(t, direct, "c1", 6, 1)
	want(all, "5", "6")
	want(after, "5", "6")
	cancel()
	for _, w := range []following{all, after} {
		if err := <-w.done; err != nil {
			t.Error(err)
		}
	}
	stop := errors.New("enough")
	if err := s.Tail(t.Context(), Cases, "lbremedy.case.>", 0, func(Message) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("got %v", err)
	}
	if err := s.FollowSince(t.Context(), "NONE", "x", time.Time{}, nil); !errors.Is(err, ErrNotFound) {
		t.Errorf("got %v", err)
	}
}

func TestFollowSince(t *testing.T) {
	s := fresh(t)
	record(t, s, "c1", 0, 2)
	first, err := s.one(t.Context(), Cases, "read", query{Seq: 2})
	if err != nil {
		t.Fatal(err)
	}
	stop := errors.New("enough")
	var got []string
	err = s.FollowSince(t.Context(), Cases, "lbremedy.case.>", first.Time, func(m Message) error {
		if got = append(got, string(m.Data)); len(got) == 2 {
			return stop
		}
		appendRecord(t, s, "c1", "u9", "x", "9")
		return nil
	})
	if diff := cmp.Diff([]string{"1", "9"}, got); diff != "" || err != stop {
		t.Errorf("%v, %s", err, diff)
	}
	from, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- s.FollowSince(t.Context(), Cases, "lbremedy.case.>", time.Time{}, func(m Message) error { from <- string(m.Data); return stop })
	}()
	eventually(t, "what is stored from now on", func() bool {
		appendRecord(t, s, "c1", "u9", "x", "new")
		select {
		case first := <-from:
			return first == "new"
		default:
			return false
		}
	})
	if err := <-ended; err != stop {
		t.Error(err)
	}
}

func TestBrokenAnswers(t *testing.T) {
	if err := serverSays("413", "Too Many Results", true); err == nil {
		t.Error("refused: no error")
	}
	if _, _, err := read(&nats.Msg{Header: nats.Header{"Nats-Sequence": {"1"}}}, query{}); err == nil {
		t.Error("no time: no error")
	}
}

func TestRestart(t *testing.T) {
	dir := t.TempDir()
	first := serve(t, embedded.Options{Dir: dir, Sync: true})
	p := newProxy(t, first.URL())
	s := connect(t, Config{URL: p.url()})
	setup(t, s, class)
	record(t, s, "c1", 0, 20)
	fail(t, s, class, 20)
	if err := s.Put(t.Context(), "policy", []byte("observe")); err != nil {
		t.Fatal(err)
	}
	first.Close()
	lost(t, s)
	p.turn(serve(t, embedded.Options{Dir: dir, Sync: true}).URL())
	found(t, s)
	for stream, filter := range map[string]string{Cases: "lbremedy.case.>", Failed: "lbremedy.failed.>"} {
		n := 0
		if err := s.Each(t.Context(), stream, filter, time.Time{}, func(Message) error { n++; return nil }); err != nil || n != 20 {
			t.Errorf("%s: %d messages, %v", stream, n, err)
		}
	}
	if got, err := s.Get(t.Context(), "policy"); err != nil || string(got) != "observe" {
		t.Errorf("got %q, %v", got, err)
	}
	appendRecord(t, s, "c1", "u3", "x", "after")
	if said, err := s.Setup(t.Context(), []string{class}, Settings{Clusters: []string{"c1"}}); err != nil || said != nil {
		t.Errorf("got %q, %v", said, err)
	}
	if _, stored, err := publish(t.Context(), s, "lbremedy.failed.c1.tag-missing.u3", 2); err != nil || stored {
		t.Errorf("an older message replaces a newer one after a restart: %t, %v", stored, err)
	}
}
