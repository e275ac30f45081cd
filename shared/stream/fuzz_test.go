package stream

import (
	"encoding/json"
	"strings"
	"testing"
)

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

// FuzzHead reads anything as what stands beside a stream's copy, which may have come
// from anywhere.
func FuzzHead(f *testing.F) {
	f.Add([]byte(`{"config":{"name":"CASES"},"state":{"messages":3}}`))
	f.Add([]byte(`{"config":{"name":7},"state":{"messages":-1}}`))
	f.Add([]byte(`{"config":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var h Head
		if json.Unmarshal(data, &h) != nil {
			return
		}
		if (h.Config == nil && h.Stream() != "") || (h.State == nil && h.Messages() != 0) {
			t.Errorf("a head without settings is of stream %q with %d messages", h.Stream(), h.Messages())
		}
	})
}
