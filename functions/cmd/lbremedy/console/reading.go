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

// old is the age at which a viewed reading is repeated.
const old = 10 * time.Minute

type reading struct {
	p    *cli.Program
	hub  *hub
	wake chan struct{}

	mu   sync.Mutex
	last view
}

type view struct {
	Result doctor.Result // empty, without a time, if nothing has been read yet
	Notes  []note        // they limit it
	Began  time.Time     // of a reading under way; zero: none
	Why    string        // the last one failed
}

// A note is a sentence, as of Program.Note.
type note struct {
	Format string
	Args   []any
}

func (g view) At() time.Time { return g.Result.At }

func (g view) Took() time.Duration { return g.Result.Took }

func newReading(p *cli.Program, h *hub) *reading {
	return &reading{p: p, hub: h, wake: make(chan struct{}, 1)}
}

// ask starts a reading if the last one is old, or always if anew.
func (g *reading) ask(anew bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	fresh := g.p.Now().Sub(g.last.At()) < old || g.last.Why != ""
	if !g.last.Began.IsZero() || fresh && !anew {
		return
	}
	g.last.Began = g.p.Now()
	g.wake <- struct{}{} // there is room: none is under way
}

func (g *reading) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-g.wake:
		}
		g.hub.change()
		var fresh view
		var err error
		p := *g.p
		p.Noted = func(format string, args ...any) { fresh.Notes = append(fresh.Notes, note{format, args}) }
		fresh.Result, err = look.Find(ctx, &p, nil, doctor.Info.String(), "", nil)
		if ctx.Err() != nil {
			return
		}
		g.keep(fresh, err)
		debug.FreeOSMemory() // a snapshot takes several times the memory of its result
		g.hub.change()
	}
}

func (g *reading) keep(fresh view, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.last.Began = (time.Time{}); err != nil {
		g.last.Why = said(err)
		return
	}
	g.last = fresh
}

// now also starts another reading if the last one is old.
func (g *reading) now() view {
	g.ask(false)
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.last
}
