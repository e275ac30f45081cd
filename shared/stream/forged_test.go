package stream

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lbremedy/lbremedy/shared/event"
)

var serversHeaders = map[string]string{
	"Nats-Subject": "lbremedy.case.c1.u9.other", "Nats-Sequence": "1", "Nats-Time-Stamp": "2020-01-02T15:04:05Z", "Nats-Stream": "DEAD",
	"Nats-Num-Pending": "0", "Nats-Last-Sequence": "1", "Nats-UpTo-Sequence": "99999999", "Status": "204", "Description": "EOB",
	"Nats-Marker-Reason": "MaxAge", "Nats-Rollup": "all", "Nats-TTL": "1h", "Nats-Msg-Size": "1", "Nats-Stream-Source": "CASES 1 > >",
	"Nats-Pending-Messages": "0", "Nats-Pending-Bytes": "0", "Nats-Last-Consumer": "1", "Nats-Last-Stream": "1", "Nats-Consumer-Stalled": "x",
	"Nats-Pin-Id": "x", "Nats-Response-Type": "x", "Nats-Schedule": "@every 1s", "Nats-Schedule-Target": "lbremedy.case.c1.u9.other",
	"Nats-Schedule-Rollup": "sub", "Nats-Scheduler": "x", "Nats-Schedule-Next": "purge", "Nats-Batch-Id": "x", "Nats-Batch-Sequence": "1",
	"Nats-Batch-Commit": "1", "Nats-Incr": "+1", "Nats-Counter-Sources": "{}", "Nats-Expected-Stream": "CASES",
	"Nats-Expected-Last-Sequence": "1", "Nats-Expected-Last-Msg-Id": "x", "Nats-Expected-Last-Subject-Sequence": "1",
	"Nats-Expected-Last-Subject-Sequence-Subject": "x", "Nats-Required-Api-Level": "0", "Nats-Trace-Dest": "x", "Nats-Trace-Only": "true",
	"nats-subject": "lbremedy.case.c1.u9.other", "STATUS": "204",
}

var blocks = []func(name, value string) string{
	func(name, value string) string { return "NATS/1.0\r\n" + name + ": " + value + "\r\n\r\n" },
	func(name, value string) string { return "NATS/1.0\r\n" + name + ":" + value + "\n\n" },
	func(name, value string) string { // the client reads up to the empty line, and the server's own headers follow it
		return "NATS/1.0\r\nNats-Subject: lbremedy.case.c1.u9.other\r\nNats-Sequence: 1\r\nNats-Time-Stamp: 2020-01-02T15:04:05Z\r\n" +
			name + ": " + value + "\r\n\r\nx: y\r\n\r\n"
	},
	func(name, value string) string {
		return "NATS/1.0 " + value + "\r\n" + name + ": " + value + "\r\n\r\n"
	},
	func(name, value string) string { return "NATS/1.0 " + value + "\r\n\r\nx: y\r\n\r\n" },
	func(name, _ string) string { return "NATS/1.0\r\n" + name + "\r\n\r\n" },
	func(name, value string) string { return name + value + "\r\n\r\n" },
	func(name, value string) string { // headers that take fewer bytes than they seem to
		return "NATS/1.0\r\nNats-Subject: lbremedy.case.c1.u9.other\r\nNats-Sequence: 1\r\nNats-Time-Stamp: 2020-01-02T15:04:05Z\r\n" +
			strings.Repeat("a:\n", 200) + name + ":" + value + "\n\nx: y\r\n\r\n"
	},
	func(name, value string) string {
		return "NATS/1.0 204 " + value + "\r\n" + strings.Repeat("a:\n", 200) + name + ":" + value + "\n\nx: y\r\n\r\n"
	},
}

type forger struct {
	t     testing.TB
	s     *Stream
	conn  net.Conn
	acks  *nats.Subscription
	inbox string
}

func newForger(t testing.TB, s *Stream) *forger {
	t.Helper()
	u, err := url.Parse(s.Where())
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", u.Host)
	if err != nil {
		t.Fatal(err)
	}
	gone := make(chan struct{})
	t.Cleanup(func() { _ = conn.Close(); <-gone })
	go func() {
		defer close(gone)
		lines := bufio.NewReader(conn)
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				return
			}
			if strings.HasPrefix(line, "PING") {
				_, _ = io.WriteString(conn, "PONG\r\n")
			}
		}
	}()
	if _, err := io.WriteString(conn, "CONNECT {\"verbose\":false,\"headers\":true,\"protocol\":1}\r\n"); err != nil {
		t.Fatal(err)
	}
	f := &forger{t: t, s: s, conn: conn, inbox: s.nc.NewInbox()}
	if f.acks, err = s.nc.SubscribeSync(f.inbox); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.acks.Unsubscribe() })
	if err := s.nc.Flush(); err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *forger) store(subject, block string, data []byte) uint64 {
	f.t.Helper()
	if _, err := fmt.Fprintf(f.conn, "HPUB %s %s %d %d\r\n%s%s\r\n", subject, f.inbox, len(block), len(block)+len(data), block, data); err != nil {
		f.t.Fatal(err)
	}
	m, err := f.acks.NextMsg(10 * time.Second)
	if err != nil {
		f.t.Fatalf("no word on %q: %v", block, err)
	}
	var ack struct {
		Seq       uint64
		Duplicate bool
		Error     any
	}
	if err := json.Unmarshal(m.Data, &ack); err != nil {
		f.t.Fatal(err)
	}
	if ack.Error != nil || ack.Duplicate {
		return 0
	}
	return ack.Seq
}

// No reader takes a stored header for the server's. The neighbouring messages are read unchanged; the message has its true position,
// or nothing of it can be read, and it is not taken for a record.
func FuzzStoredHeaders(f *testing.F) {
	for name, value := range serversHeaders {
		f.Add(name, value, uint8(0), []byte("b"))
		f.Add(name, value, uint8(2), []byte{})
	}
	for shape := range blocks {
		f.Add("Nats-Subject", "lbremedy.case.c1.u9.other", uint8(shape), []byte("b"))
		f.Add("Nats-Sequence", "1", uint8(shape), []byte{})
		for _, status := range []string{"204", "503", "409\r\nDescription: Consumer Deleted"} {
			f.Add("Status", status, uint8(shape), []byte{})
		}
	}
	for _, status := range []string{"100", "404", "408", "413"} {
		f.Add("Status", status, uint8(0), []byte{})
	}
	s := fresh(f, "x")
	forge := newForger(f, s)
	var count atomic.Int64
	f.Fuzz(func(t *testing.T, name, value string, shape uint8, data []byte) {
		forge.t = t
		own := fmt.Sprintf("n%d", count.Add(1))
		block := blocks[int(shape)%len(blocks)](name, value)
		for _, of := range []struct{ stream, prefix, filter string }{
			{Cases, "lbremedy.case." + own + ".u.", "lbremedy.case." + own + ".u.*"}, {Dead, deadPrefix + own + ".", deadPrefix + own + ".*"},
			{Failed, "lbremedy.failed.c1.x." + own + ".", "lbremedy.failed.c1.x." + own + ".*"}, {bucketStream, bucketPrefix + own + ".", bucketPrefix + own + ".*"},
		} {
			r := &forgery{T: t, s: s, stream: of.stream, filter: of.filter, subjects: [3]string{of.prefix + "a", of.prefix + "b", of.prefix + "c"}, data: data}
			for i, m := range []struct {
				block string
				data  []byte
			}{{"NATS/1.0\r\n\r\n", []byte("a")}, {block, data}, {"NATS/1.0\r\nx: y\r\n\r\n", []byte("c")}} {
				r.seqs[i] = forge.store(r.subjects[i], m.block, m.data)
			}
			r.suspect = event.OfServer(name) && (of.stream != bucketStream || name != "Nats-TTL") && !strings.ContainsAny(name, "\r\n:") && int(shape)%len(blocks) < 2
			r.read()
		}
	})
}

type forgery struct {
	*testing.T
	s        *Stream
	stream   string
	filter   string
	subjects [3]string
	seqs     [3]uint64 // the second is 0 if the server did not take it
	data     []byte
	suspect  bool // the middle one has a header of the server's, visible to any client
}

func (r *forgery) read() {
	ctx, cancel := context.WithTimeout(r.Context(), 20*time.Second)
	defer cancel()
	all := func(reader string, read func(see func(Message) error) error) {
		var got []Message
		err := read(func(m Message) error { got = append(got, m); return nil })
		r.check(reader, got, err)
	}
	all("Each", func(see func(Message) error) error { return r.s.Each(ctx, r.stream, r.filter, time.Time{}, see) })
	all("EachAfter", func(see func(Message) error) error { return r.s.EachAfter(ctx, r.stream, r.filter, r.seqs[0]-1, see) })
	all("EachLast", func(see func(Message) error) error { return r.s.EachLast(ctx, r.stream, r.filter, see) })
	got, err := r.s.Lasts(ctx, r.stream, r.filter)
	r.check("Lasts", got, err)
	got = nil
	enough := errors.New("enough")
	err = r.s.Tail(ctx, r.stream, r.filter, r.seqs[0]-1, func(m Message) error {
		if got = append(got, m); m.Sequence == r.seqs[2] {
			return enough
		}
		return nil
	})
	if err == enough {
		err = nil
	}
	r.check("Tail", got, err)
	got = nil
	for i, subject := range r.subjects {
		if r.seqs[i] == 0 {
			continue
		}
		m, err := r.s.Last(ctx, r.stream, subject)
		if err != nil {
			r.Errorf("Last of %s: %v", subject, err)
		}
		if i == 1 && m.Sequence == 0 && m.Subject == subject {
			m.Sequence = r.seqs[1] // it hides its position
		}
		got = append(got, m)
	}
	r.check("Last", got, nil)
	switch r.stream {
	case Failed:
		r.consume(ctx)
	case bucketStream:
		r.keys(ctx)
	}
}

func (r *forgery) check(reader string, got []Message, err error) {
	r.Helper()
	if err != nil {
		r.Errorf("%s of %s: %v", reader, r.stream, err)
		return
	}
	var seen []string
	for _, m := range got {
		switch i := slices.Index(r.seqs[:], m.Sequence); {
		case i < 0 || m.Sequence == 0:
			r.Errorf("%s of %s: a message %d under %q, which is none of %v", reader, r.stream, m.Sequence, m.Subject, r.seqs)
		case i == 1:
			hidden := m.Time.IsZero()
			if m.Subject != r.subjects[1] && !(hidden && m.Subject == "") || hidden && (m.Data != nil || m.Header != nil) ||
				!hidden && time.Since(m.Time).Abs() > time.Hour {
				r.Errorf("%s of %s: the forged message %d seems to be %+v", reader, r.stream, m.Sequence, m)
			}
			if _, err := event.DecodeNATS(m.Header, m.Data); r.suspect && !strings.HasPrefix(reader, "Consume") && err == nil {
				r.Errorf("%s of %s: the forged message %v is a record", reader, r.stream, m.Header)
			}
		default:
			seen = append(seen, string(m.Data))
			if want := []string{"a", "", "c"}[i]; m.Subject != r.subjects[i] || string(m.Data) != want {
				r.Errorf("%s of %s: the message %d is %q under %q, want %q under %q", reader, r.stream, m.Sequence, m.Data, m.Subject, want, r.subjects[i])
			}
		}
	}
	slices.Sort(seen)
	if seen = slices.Compact(seen); strings.Join(seen, " ") != "a c" {
		r.Errorf("%s of %s: of what stands beside the forged message, %q was read", reader, r.stream, seen)
	}
}

func (r *forgery) consume(ctx context.Context) {
	in, stop := context.WithCancel(ctx)
	defer stop()
	var got []Message
	err := r.s.Consume(in, "c1", "x", 1, func(_ context.Context, m Message) Reply {
		if got = append(got, m); m.Sequence == r.seqs[2] {
			stop()
		}
		return Reply{}
	})
	r.check("Consume", got, err)
}

func (r *forgery) keys(ctx context.Context) {
	key := func(i int) string { return strings.TrimPrefix(r.subjects[i], bucketPrefix) }
	entries, err := r.s.Entries(ctx, strings.TrimPrefix(r.filter, bucketPrefix))
	values := map[string]string{}
	for _, e := range entries {
		values[e.Key] = string(e.Value)
		if e.Key == key(1) && r.suspect && len(e.Value) > 0 {
			r.Errorf("the forged key holds %q", e.Value)
		}
	}
	if err != nil || values[key(0)] != "a" || values[key(2)] != "c" {
		r.Errorf("the keys hold %v, %v", values, err)
	}
	if view, err := r.s.View(ctx, key(0), key(2)); err != nil || string(view[key(0)].Value) != "a" || string(view[key(2)].Value) != "c" {
		r.Errorf("in one view the keys hold %v, %v", view, err)
	}
	if r.seqs[1] == 0 {
		return
	}
	e, err := r.s.Entry(ctx, key(1))
	if errors.Is(err, ErrNotFound) && !r.suspect { // a mark, or an expired key
		return
	}
	if err != nil || e.Revision != r.seqs[1] {
		r.Errorf("the forged key: %+v, %v, want the revision %d", e, err, r.seqs[1])
	}
	if view, err := r.s.View(ctx, key(1)); err == nil && (len(view) != 1 || r.suspect && len(view[key(1)].Value) > 0) {
		r.Errorf("the forged key seems to hold %v", view)
	}
	if _, err := r.s.Swap(ctx, key(1), []byte("b"), e.Revision, 0); err != nil {
		r.Errorf("write the forged key: %v", err)
	}
	if err := r.s.Delete(ctx, key(1)); err != nil {
		r.Errorf("delete the key: %v", err)
	}
	if ok, err := create(ctx, r.s, key(1), "b", time.Hour); err != nil || !ok {
		r.Errorf("create the key again: %v, %v", ok, err)
	}
}
