package stream

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// sizes are the flags for the sizes of the streams.
var sizes = map[string]string{Failed: "--failures-size", Cases: "--journal-size", Dead: "--dead-size", bucketStream: "--keys-size"}

// Full returns the streams, sorted, that were full when this process last tried to store something.
func (s *Stream) Full() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(sizes)), func(name string) bool {
		full, _ := s.fulls.Load(name)
		return full != true
	})
}

// Room returns nil, or an ErrFull that names the full streams and the remedy for each.
func (s *Stream) Room() error {
	var says []string
	for _, name := range s.Full() {
		says = append(says, fmt.Sprintf("stream %s takes nothing: raise its size with lbremedy up --setup %s, or give the NATS server more storage",
			name, sizes[name]))
	}
	if says == nil {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrFull, strings.Join(says, "; "))
}
