package stream

import (
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// FuzzAnswer reads anything as an answer of the server to a query. A message without
// sequence or time is an error.
func FuzzAnswer(f *testing.F) {
	f.Add("", "5", "2026-01-02T15:04:05.5Z", "lbremedy.case.c.u.x", "id", []byte("data"))
	f.Add("204", "", "", "", "", []byte{})
	f.Add("404", "", "", "", "", []byte{})
	f.Add("408", "x", "y", "", "", []byte{})
	f.Add("", "-1", "0", "", "", []byte{})
	f.Fuzz(func(t *testing.T, status, seq, at, subject, id string, data []byte) {
		h := nats.Header{}
		for k, v := range map[string]string{"Status": status, jetstream.SequenceHeader: seq, jetstream.TimeStampHeaer: at, jetstream.SubjectHeader: subject,
			jetstream.MsgIDHeader: id} {
			if v != "" {
				h.Set(k, v)
			}
		}
		m, end, err := read(&nats.Msg{Header: h, Data: data}, false)
		if err != nil || end {
			return
		}
		if m.Time.IsZero() && !strings.HasPrefix(at, "0001-01-01T") || m.ID() != id {
			t.Errorf("got %+v", m)
		}
		origin, reason, own := m.Origin()
		if origin+reason != "" || own[jetstream.SequenceHeader] != nil || own[jetstream.MsgIDHeader] != nil {
			t.Errorf("from %q for %q with %v", origin, reason, own)
		}
	})
}

// FuzzKey makes a subject of any key, and the key of that subject again.
func FuzzKey(f *testing.F) {
	for _, s := range []string{"progress.c1", "a b", "=41", "ü", "a..b", "*", ">", "incident.x.y=", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, key string) {
		subject, err := subjectOf(key)
		if err != nil {
			return
		}
		if strings.ContainsAny(subject, "*> \t\r\n") || strings.Contains(subject, "..") {
			t.Errorf("%q becomes %q, which is no subject", key, subject)
		}
		if back := keyOf(strings.TrimPrefix(subject, bucketPrefix)); back != key {
			t.Errorf("%q comes back as %q", key, back)
		}
	})
}

// FuzzDeadSubject makes a subject of any origin.
func FuzzDeadSubject(f *testing.F) {
	for _, s := range []string{"lbremedy.failed.c.x.u", "a b..*.>.", "", "é", "....."} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, origin string) {
		subject := deadSubject(origin)
		if !strings.HasPrefix(subject, deadPrefix) || strings.ContainsAny(subject, "*> \t\r\n") || strings.Contains(subject, "..") ||
			strings.HasSuffix(subject, ".") {
			t.Errorf("%q becomes %q, which is no subject", origin, subject)
		}
	})
}
