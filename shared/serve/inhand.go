package serve

import (
	"context"
	"errors"
	"io"
	"sync"
)

// most is how many bytes of calls are held at once: a caller is known only after its call was read, and strangers must not fill the
// memory. A call of the engine has some 20 KiB.
const most = 32 << 20

type inHand struct {
	mu     sync.Mutex
	held   int
	bytes  int           // of their calls
	free   chan struct{} // closed when the last one is done; nil: no waiter
	closed bool
}

func (h *inHand) hold() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.held++
}

func (h *inHand) begin() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return false
	}
	h.held++
	return true
}

func (h *inHand) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.held--; h.held == 0 && h.free != nil {
		close(h.free)
		h.free = nil
	}
}

func (h *inHand) wait(ctx context.Context) {
	h.mu.Lock()
	if h.held == 0 {
		h.mu.Unlock()
		return
	}
	if h.free == nil {
		h.free = make(chan struct{})
	}
	free := h.free
	h.mu.Unlock()
	select {
	case <-free:
	case <-ctx.Done():
	}
}

func (h *inHand) close(ctx context.Context) {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.wait(ctx)
}

func (h *inHand) add(n int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.bytes += n
	return h.bytes <= most
}

var errFull = errors.New("the function has too many calls in hand")

// A counted body adds its bytes to the calls in hand until it is released.
type counted struct {
	io.Reader
	in *inHand
	n  int
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += n
	if !c.in.add(n) {
		return n, errFull
	}
	return n, err
}

func (c *counted) giveBack() { c.in.add(-c.n) }
