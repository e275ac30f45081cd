package console

import (
	"context"
	"runtime/debug"
	"sync"
	"time"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	look "github.com/lbremedy/lbremedy/functions/cmd/lbremedy/doctor"
	"github.com/lbremedy/lbremedy/shared/doctor"
)

// old is the age at which what was read is read again when somebody looks at it.
const old = 10 * time.Minute

// A reading is what the doctor last found in the cluster and the account.
type reading struct {
	p    *cli.Program
	hub  *hub
	wake chan struct{}

	mu    sync.Mutex
	began time.Time      // of a reading under way; zero if absent
	why   string         // the last one has come to nothing
	last  *doctor.Result // nil: nothing has been read yet
}

func newReading(p *cli.Program, h *hub) *reading {
	return &reading{p: p, hub: h, wake: make(chan struct{}, 1)}
}

// ask has the cluster and the account read if what is known of them is old, or whatever it is.
func (g *reading) ask(anew bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	fresh := g.last != nil && g.p.Now().Sub(g.last.At) < old || g.why != ""
	if !g.began.IsZero() || fresh && !anew {
		return
	}
	g.began = g.p.Now()
	g.wake <- struct{}{} // there is room: none is under way
}

// run reads when it is asked to, until ctx ends.
func (g *reading) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-g.wake:
		}
		g.hub.change()
		_, fresh, err := look.Look(ctx, g.p)
		if ctx.Err() != nil {
			return
		}
		g.keep(&fresh, err)
		debug.FreeOSMemory() // a snapshot takes several times what is kept of it
		g.hub.change()
	}
}

// keep keeps what was read, or why it could not be.
func (g *reading) keep(fresh *doctor.Result, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.began, g.why = (time.Time{}), ""; err != nil {
		g.why = said(err)
		return
	}
	g.last = fresh
}

// A glance is what pages are told of a reading.
type glance struct {
	Result doctor.Result // empty, without a time, if nothing has been read yet
	Began  time.Time     // of a reading under way; zero if absent
	Why    string        // the last one has come to nothing
}

// At returns when it was read; zero: never.
func (g glance) At() time.Time { return g.Result.At }

// Took returns how long that took.
func (g glance) Took() time.Duration { return g.Result.Took }

// now returns what was read last, and has it read again where that is old.
func (g *reading) now() glance {
	g.ask(false)
	g.mu.Lock()
	defer g.mu.Unlock()
	last := glance{Began: g.began, Why: g.why}
	if g.last != nil {
		last.Result = *g.last
	}
	return last
}
