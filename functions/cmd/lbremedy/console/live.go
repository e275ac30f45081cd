package console

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

var errNoPage = errors.New("there is no such page")

type hub struct {
	mu      sync.Mutex
	version uint64
	changed chan struct{} // closed and replaced at each change
}

func newHub() *hub { return &hub{version: 1, changed: make(chan struct{})} }

func (h *hub) change() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.version++
	close(h.changed)
	h.changed = make(chan struct{})
}

// now returns the version, and a channel that is closed when it changes.
func (h *hub) now() (uint64, <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.version, h.changed
}

// beat is the interval of keep-alives on a stream without news.
const beat = 15 * time.Second

func (s *server) live(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	out := http.NewResponseController(w)
	tick := time.NewTicker(beat)
	defer tick.Stop()
	told := uint64(0) // before any version: they begin with 1
	for {
		version, changed := s.hub.now()
		if version != told {
			told = version
			if _, err := fmt.Fprintf(w, "data: %d\n\n", version); err != nil || out.Flush() != nil {
				return
			}
		}
		select {
		case <-changed:
		case <-tick.C:
			if !s.auth.stillValid(r) {
				return
			}
			if _, err := fmt.Fprint(w, ": alive\n\n"); err != nil || out.Flush() != nil {
				return
			}
		case <-r.Context().Done():
			return
		}
	}
}
