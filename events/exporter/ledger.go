package exporter

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// entries track how far everything is published: they are entered in the cluster's order and closed in any order.
type entries struct {
	mu      sync.Mutex
	entries []*entry // open ones, in order
	latest  string   // last version entered
}

type entry struct {
	before string // the progress when all before are closed and this one is open
	since  time.Time
}

func (l *entries) open(version string) *entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := &entry{before: l.latest, since: time.Now()}
	l.entries = append(l.entries, e)
	l.latest = cmp.Or(version, l.latest)
	return e
}

// beside opens an entry that holds progress where another open one does.
func (l *entries) beside(other *entry) *entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := new(*other)
	l.entries = slices.Insert(l.entries, slices.Index(l.entries, other), e)
	return e
}

// skip enters a version with nothing to publish.
func (l *entries) skip(version string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.latest = cmp.Or(version, l.latest)
}

func (l *entries) close(e *entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.entries, e); i >= 0 {
		l.entries = slices.Delete(l.entries, i, i+1)
	}
}

// restart forgets all versions: they are not the cluster's any more.
func (l *entries) restart() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.latest = ""
	for _, e := range l.entries {
		e.before = ""
	}
}

// progress returns the last version before which nothing is open.
func (l *entries) progress() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.entries) > 0 {
		return l.entries[0].before
	}
	return l.latest
}

// count returns how many entries are open.
func (l *entries) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.entries)
}

func (l *entries) lag() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.entries) == 0 {
		return 0
	}
	return time.Since(l.entries[0].since)
}
