package exporter

import (
	"sync"
	"time"
)

// A ledger knows how far everything is published. Occurrences are entered in the
// order in which the cluster told of them and get through in any order; progress is
// the last version before which nothing is open.
type ledger struct {
	mu      sync.Mutex
	entries []*entry  // the first one is open; none is shared with another ledger
	ack     time.Time // when NATS last took something
	behind  int       // entries that were closed behind an open one since the last compaction
}

// An entry is one occurrence that isn't through yet, or closed ones behind it.
type entry struct {
	version string // progress when this and all before are closed; empty: none
	closed  bool
	held    bool // it holds progress, and stands for no occurrence
	since   time.Time
	sent    time.Time // when NATS was first asked to take it; zero: not yet
}

func newLedger() *ledger { return &ledger{} }

// open enters an occurrence.
func (l *ledger) open(version string) *entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := &entry{version: version, since: time.Now()}
	l.entries = append(l.entries, e)
	return e
}

// skip enters a version at which nothing is to publish, and returns the progress
// made; empty if there is none. Many of them behind one open entry take the room of one.
func (l *ledger) skip(version string) (progress string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(l.entries)
	if n == 0 {
		return version
	}
	if last := l.entries[n-1]; last.closed {
		last.version = version
		return ""
	}
	l.entries = append(l.entries, &entry{version: version, closed: true})
	return ""
}

// send notes that NATS is asked to take an occurrence.
func (l *ledger) send(e *entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e.sent.IsZero() {
		e.sent = time.Now()
	}
}

// acked notes that NATS has taken something. Much is closed that it was never asked to take.
func (l *ledger) acked() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ack = time.Now()
}

// hold makes an entry stand for no occurrence: it keeps progress until it is closed.
func (l *ledger) hold(e *entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e.held = true
}

// close marks an occurrence as through, and returns the progress made; empty if
// something before it is open.
func (l *ledger) close(e *entry) (progress string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e.closed = true
	n := 0
	for n < len(l.entries) && l.entries[n].closed {
		if v := l.entries[n].version; v != "" {
			progress = v
		}
		l.entries[n] = nil
		n++
	}
	l.entries = l.entries[n:]
	if n == 0 {
		l.behind++
	}
	if l.behind > 64+len(l.entries)/2 {
		l.compact()
	}
	return progress
}

// compact gives closed entries side by side the room of one: they may be many behind one
// that stays open for long. The caller holds the lock.
func (l *ledger) compact() {
	out := l.entries[:0]
	for _, e := range l.entries {
		if n := len(out); n > 0 && e.closed && out[n-1].closed {
			if e.version != "" {
				out[n-1].version = e.version
			}
			continue
		}
		out = append(out, e)
	}
	clear(l.entries[len(out):])
	l.entries, l.behind = out, 0
}

// unclosed returns how many occurrences are open.
func (l *ledger) unclosed() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, e := range l.entries {
		if !e.closed && !e.held {
			n++
		}
	}
	return n
}

// lag returns for how long the oldest open entry has waited.
func (l *ledger) lag() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.entries) == 0 {
		return 0
	}
	return time.Since(l.entries[0].since)
}

// silence returns for how long NATS has been asked to take something while it took
// nothing; zero if it is asked to take nothing.
func (l *ledger) silence() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	var since time.Time
	for _, e := range l.entries {
		if !e.closed && !e.sent.IsZero() && (since.IsZero() || e.sent.Before(since)) {
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
