package exporter

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// Entries know how far everything is published. Occurrences are entered in the
// order in which the cluster told of them and get through in any order; progress is
// the last version before which nothing is open.
type entries struct {
	mu       sync.Mutex
	entries  []*entry  // those that are open, in their order
	latest   string    // version that was entered last
	progress string    // that was returned last
	ack      time.Time // when NATS last took something
}

// An entry is one occurrence that isn't through yet.
type entry struct {
	before string // progress when all before are closed, and this one is not
	held   bool   // it holds progress, and has no occurrence
	since  time.Time
	sent   time.Time // when NATS was first asked to take it; zero: not yet
}

func newEntries() *entries { return &entries{} }

// open enters an occurrence.
func (l *entries) open(version string) *entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := &entry{before: l.latest, since: time.Now()}
	l.entries = append(l.entries, e)
	l.latest = cmp.Or(version, l.latest)
	return e
}

// skip enters a version at which nothing is to publish, and returns the progress
// made, or an empty text.
func (l *entries) skip(version string) (progress string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.latest = cmp.Or(version, l.latest)
	return l.made()
}

// made returns the progress made since it was last asked for; the caller holds the lock.
func (l *entries) made() string {
	now := l.latest
	if len(l.entries) > 0 {
		now = l.entries[0].before
	}
	if now == l.progress {
		return ""
	}
	l.progress = now
	return now
}

// send notes that NATS is asked to take an occurrence.
func (l *entries) send(e *entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e.sent.IsZero() {
		e.sent = time.Now()
	}
}

// acked notes that NATS has taken something. Much is closed that it was never asked to take.
func (l *entries) acked() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ack = time.Now()
}

// hold makes an entry stand for no occurrence: it keeps progress until it is closed.
func (l *entries) hold(e *entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e.held = true
}

// close takes out an occurrence that is through, and returns the progress made; empty if
// something before it is open.
func (l *entries) close(e *entry) (progress string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.entries, e); i >= 0 {
		l.entries = slices.Delete(l.entries, i, i+1)
	}
	return l.made()
}

// unclosed returns how many occurrences are open.
func (l *entries) unclosed() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, e := range l.entries {
		if !e.held {
			n++
		}
	}
	return n
}

// lag returns for how long the oldest open entry has waited.
func (l *entries) lag() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.entries) == 0 {
		return 0
	}
	return time.Since(l.entries[0].since)
}

// silence returns for how long NATS has been asked to take something while it took
// nothing; zero if it is asked to take nothing.
func (l *entries) silence() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	var since time.Time
	for _, e := range l.entries {
		if !e.sent.IsZero() && (since.IsZero() || e.sent.Before(since)) {
			since = e.sent
		}
	}
	if since.IsZero() {
		return 0
	}
	if l.ack.After(since) {
		since = l.ack
	}
	return time.Since(since)
}
