package stream

import (
	"strings"
	"testing"
)

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
