package stream

import (
	"fmt"
	"slices"
	"strings"
)

// Full returns the streams, sorted, that were full when this process last tried to store something.
func (s *Stream) Full() []string {
	var all []string
	s.fulls.Range(func(name, full any) bool {
		if full.(bool) {
			all = append(all, name.(string))
		}
		return true
	})
	slices.Sort(all)
	return all
}

// Room returns nil, or an ErrFull that names the full streams and the remedy for each.
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
