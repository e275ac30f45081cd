package stream

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// fulls are the streams that took nothing at the last try.
type fulls struct {
	mu  sync.Mutex
	all map[string]bool
}

// note takes in how storing a message in a stream has ended.
func (f *fulls) note(name string, err error) {
	if err != nil && !errors.Is(err, ErrFull) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.all == nil {
		f.all = map[string]bool{}
	}
	f.all[name] = err != nil
}

// Full returns the streams, sorted, that were full when this process last tried to store
// something. What it tries again makes one not full when there is room.
func (s *Stream) Full() []string {
	s.fulls.mu.Lock()
	defer s.fulls.mu.Unlock()
	var all []string
	for name, full := range s.fulls.all {
		if full {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return all
}

// Room returns nil, or an error of kind ErrFull that names the full streams and what to
// do about each.
func (s *Stream) Room() error {
	var says []string
	for _, name := range s.Full() {
		flag := map[string]string{Failed: "--failures-size", Cases: "--journal-size", Dead: "--dead-size", bucketStream: "--keys-size"}[name]
		says = append(says, fmt.Sprintf("stream %s takes nothing: raise its size with lbremedy up --setup %s, or give the NATS server more storage", name, flag))
	}
	if says == nil {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrFull, strings.Join(says, "; "))
}
