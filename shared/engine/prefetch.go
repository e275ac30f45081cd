package engine

import (
	"context"
	"sync"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/hand"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

// A prefetch holds what a diagnosis reads: policy, Service, namespace, the newest failure, and the answer of the class's hand.
type prefetch struct {
	over   say.Text        // why nothing is left to do for the Service
	newer  string          // the class of a newer failure
	proof  say.Text        // the Service has been synced since it failed
	byWord bool            // the proof is an Event
	answer hand.LookAnswer // of the hand, unless the reads already settle the case
}

// gather makes the reads concurrently and asks the hand, unless the reads already settle the case.
func (x *run) gather(ctx context.Context) (g prefetch, err error) {
	var policy remedy.Policy
	var around map[string]string
	err = x.aside(
		func() (err error) { policy, err = x.env.policy(x.object.Since(ctx)); return err },
		func() (err error) { g.over, around, err = x.readPlace(ctx); return err },
		func() (err error) { g.newer, err = x.newer(ctx); return err },
		func() (err error) {
			if len(x.r.Steps) > 0 { // for admits
				x.known, err = x.guards(event.WithReads(ctx, func(event.Read) {}), true)
			}
			return err
		},
	)
	if err != nil || len(g.over) > 0 {
		return g, err
	}
	x.c.Policy = policy
	x.stand(around)
	if g.newer != "" && !x.r.IgnoresEvent {
		return g, nil
	}
	if g.proof, g.byWord, err = x.env.synced(ctx, x.c, x.ev.Failure.Last); err != nil || g.proven(x) {
		return g, err
	}
	g.answer, err = x.asks(ctx, hand.LookRequest{For: hand.Diagnose})
	return g, err
}

// proven reports whether the reads prove that the failure is over. Events, which others may write, do not end a case whose cause is seen.
func (g *prefetch) proven(x *run) bool { return len(g.proof) > 0 && !(g.byWord && x.r.IgnoresEvent) }

// aside makes some reads concurrently and returns their first error when all have ended. A panic, which would end the program, becomes an error.
func (x *run) aside(reads ...func() error) error {
	failed := make([]error, len(reads))
	var all sync.WaitGroup
	for i, read := range reads {
		all.Go(func() { failed[i] = hand.Caught(x.r.Class, x.log, read) })
	}
	all.Wait()
	for _, err := range failed {
		if err != nil {
			return err
		}
	}
	return nil
}
