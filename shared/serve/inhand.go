package serve

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"time"
)

// most is how many bytes of calls are held at once: a caller is known only after its call was read, and strangers must not fill the
// memory. A call of the engine has some 20 KiB.
const most = 32 << 20

type inHand struct {
	held, bytes atomic.Int64 // calls, and their bytes
	closed      atomic.Bool
}

func (h *inHand) hold() { h.held.Add(1) }

// begin counts the call before it reads closed, so that close waits for it.
func (h *inHand) begin() bool {
	h.hold()
	if h.closed.Load() {
		h.end()
		return false
	}
	return true
}

func (h *inHand) end() { h.held.Add(-1) }

func (h *inHand) wait(ctx context.Context) {
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for h.held.Load() > 0 {
		select {
		case <-look.C:
		case <-ctx.Done():
			return
		}
	}
}

func (h *inHand) close(ctx context.Context) {
	h.closed.Store(true)
	h.wait(ctx)
}

func (h *inHand) add(n int) bool { return h.bytes.Add(int64(n)) <= most }

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
