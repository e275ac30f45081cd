package engine

import (
	"context"
	"sync"
	"time"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/hand"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

// A gathering is what a look reads first, side by side: policy, Service, namespace and the newest
// failure, and what the class's hand says to that. It decides nothing.
type gathering struct {
	ctx    context.Context // of the rest of the look: it tells of its reads
	cancel context.CancelFunc
	began  time.Time
	parts  sync.WaitGroup

	// What was read, to be looked at after parts has ended.
	policy remedy.Policy
	over   say.Text // why there is nothing left to do for the Service
	around map[string]string
	newer  string // the class of a newer failure
	failed [4]error
	told   [2][]event.Read // of the Service and of the namespace

	// What was found out from it.
	read   bool            // all of it is there
	proof  say.Text        // the Service has been synced since it failed
	byWord bool            // an Event says so
	answer hand.LookAnswer // of the hand, unless what was read answers the failure by itself
	err    error           // what kept it from being found out
}

// gather begins a look.
func (x *run) gather(ctx context.Context) *gathering {
	g := &gathering{began: x.env.now()}
	ctx, g.cancel = context.WithCancel(ctx)
	g.ctx = event.WithReads(ctx, x.reads.begin())
	part := func(i int, read func() error) {
		g.parts.Go(func() { g.failed[i] = x.caught(read) })
	}
	kept := func(i int) context.Context {
		return event.WithReads(ctx, func(r event.Read) { g.told[i] = append(g.told[i], r) })
	}
	now := x.since(ctx)
	part(0, func() (err error) {
		g.policy, err = x.env.policy(now)
		return err
	})
	part(1, func() (err error) {
		g.over, err = x.readService(kept(0))
		return err
	})
	part(2, func() (err error) {
		g.around, err = x.readNamespace(kept(1))
		return err
	})
	part(3, func() (err error) {
		g.newer, err = x.failures.newer(ctx, x.ev.Failure, x.r.Class)
		return err
	})
	return g
}

// aside has some reads made side by side, and returns the first of their errors when all have ended.
func (x *run) aside(reads ...func() error) error {
	failed := make([]error, len(reads))
	var all sync.WaitGroup
	for i, read := range reads {
		all.Go(func() { failed[i] = x.caught(read) })
	}
	all.Wait()
	for _, err := range failed {
		if err != nil {
			return err
		}
	}
	return nil
}

// caught returns the error of a read, and a panic as one: in a goroutine of its own it would end
// the program.
func (x *run) caught(read func() error) error { return hand.Caught(x.r.Class, x.log, read) }

// ask waits until all is read, and asks the hand, unless that answers the failure by itself. No code of the class runs
// before allowed has returned nil; nil: it may at once.
func (g *gathering) ask(x *run, allowed func() error) {
	g.parts.Wait()
	for _, reads := range g.told {
		for _, r := range reads {
			event.TellAgain(g.ctx, r)
		}
	}
	for _, err := range g.failed {
		if err != nil {
			g.err = err
			return
		}
	}
	g.read = true
	if len(g.over) > 0 || g.newer != "" && !x.r.Sees {
		return
	}
	x.c.Policy = g.policy
	if g.proof, g.byWord, g.err = x.env.synced(g.ctx, x.c, x.ev.Failure.Last); g.err != nil || g.proven(x) {
		return
	}
	g.answer, g.err = x.asks(g.ctx, hand.LookRequest{For: hand.Diagnose, Begin: allowed})
}

// proven reports whether the failure is over by what was read. Whoever may create Events can write one of success, or of
// another failure, too: neither ends a case whose cause is seen.
func (g *gathering) proven(x *run) bool { return len(g.proof) > 0 && !(g.byWord && x.r.Sees) }

// drop ends a look that nobody waits for any more.
func (g *gathering) drop() {
	if g != nil {
		g.cancel()
		g.parts.Wait()
	}
}
