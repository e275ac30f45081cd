package exporter

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// entries track how far everything is published: they are entered in the cluster's order and closed in any order. Progress is the last
// version before which nothing is open.
type entries struct {
	mu       sync.Mutex
	entries  []*entry  // open ones, in order
	latest   string    // last version entered
	progress string    // last one returned
	ack      time.Time // when NATS last accepted something
}

type entry struct {
	before string // the progress when all before are closed and this one is open
	held   bool   // holds progress without an occurrence
	since  time.Time
	sent   time.Time // when NATS first got it; zero: not yet
}

func newEntries() *entries { return &entries{} }

func (l *entries) open(version string) *entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := &entry{before: l.latest, since: time.Now()}
	l.entries = append(l.entries, e)
	l.latest = cmp.Or(version, l.latest)
	return e
}

// skip enters a version with nothing to publish, and returns the progress made, or "".
func (l *entries) skip(version string) (progress string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.latest = cmp.Or(version, l.latest)
	return l.made()
}

// made returns the progress since the last call; the caller holds the lock.
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

func (l *entries) send(e *entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e.sent.IsZero() {
		e.sent = time.Now()
	}
}

// acked notes an acknowledgement by NATS. Many entries close without having been sent.
func (l *entries) acked() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ack = time.Now()
}

// hold makes an entry hold progress, without an occurrence, until it is closed.
func (l *entries) hold(e *entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e.held = true
}

// close removes an entry, and returns the progress made; "" if something before it is open.
func (l *entries) close(e *entry) (progress string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.entries, e); i >= 0 {
		l.entries = slices.Delete(l.entries, i, i+1)
	}
	return l.made()
}

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

func (l *entries) lag() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.entries) == 0 {
		return 0
	}
	return time.Since(l.entries[0].since)
}

// silence returns how long NATS has accepted nothing although something was sent; otherwise zero.
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
