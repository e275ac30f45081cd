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
	entries []*entry // the first one is open; none is shared with another ledger
	ack     time.Time
}

// An entry is one occurrence that isn't through yet, or closed ones behind it.
type entry struct {
	version string // progress when this and all before are closed; empty: none
	closed  bool
	since   time.Time
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

// close marks an occurrence as through, and returns the progress made; empty if
// something before it is open.
func (l *ledger) close(e *entry) (progress string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e.closed = true
	l.ack = time.Now()
	n := 0
	for n < len(l.entries) && l.entries[n].closed {
		if v := l.entries[n].version; v != "" {
			progress = v
		}
		l.entries[n] = nil
		n++
	}
	l.entries = l.entries[n:]
	return progress
}

// unclosed returns how many occurrences are open.
func (l *ledger) unclosed() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, e := range l.entries {
		if !e.closed {
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

// silence returns for how long something has waited while nothing got through.
func (l *ledger) silence() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.entries) == 0 {
		return 0
	}
	since := l.entries[0].since
	if l.ack.After(since) {
		since = l.ack
	}
	return time.Since(since)
}
