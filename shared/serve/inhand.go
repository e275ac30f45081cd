package serve

import (
	"context"
	"errors"
	"io"
	"sync"
)

// most is how many bytes of calls are held at once. A caller is known only when its call has been read, so that strangers together must not
// fill the memory; a call of the engine has some 20 KiB.
const most = 32 << 20

// inHand are the requests that are being answered.
type inHand struct {
	mu     sync.Mutex
	held   int
	bytes  int           // of their calls
	free   chan struct{} // closed when none is held any more; nil: nothing waits
	closed bool
}

// hold takes a request in hand that has come already.
func (h *inHand) hold() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.held++
}

// begin takes a request in hand, and reports whether one may.
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

// wait waits until nothing is in hand, or ctx ends.
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

// close takes nothing more in hand, and waits for the rest.
func (h *inHand) close(ctx context.Context) {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.wait(ctx)
}

// add counts the bytes of a call, and reports whether there is room for them.
func (h *inHand) add(n int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.bytes += n
	return h.bytes <= most
}

// errFull says that the calls in hand leave no room for another one.
var errFull = errors.New("the function has too many calls in hand")

// A counted body adds what is read to the calls in hand, until it is given back.
type counted struct {
	io.Reader
	in *inHand
	n  int
}

// Read reads the body.
func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += n
	if !c.in.add(n) {
		return n, errFull
	}
	return n, err
}

func (c *counted) giveBack() { c.in.add(-c.n) }
