package engine

import (
	"context"
	"sync"
	"time"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

// A gathering is what a look reads first, side by side: policy, Service, namespace, the newest
// failure, and what the class is likely to ask of the cloud. It decides nothing.
type gathering struct {
	ctx    context.Context // of the rest of the look: it tells of its reads
	cancel context.CancelFunc
	began  time.Time
	cloud  *cloud.Reader // what the look asks twice is read once; nil: there is none
	parts  sync.WaitGroup

	// What was read, to be looked at after parts has ended.
	policy remedy.Policy
	over   say.Text // why there is nothing left to do for the Service
	around map[string]string
	newer  string // the class of a newer failure
	failed [4]error
	told   [2][]event.Read // of the Service and of the namespace
}

// gather begins a look.
func (x *run) gather(ctx context.Context) *gathering {
	g := &gathering{began: x.env.now()}
	ctx, g.cancel = context.WithCancel(ctx)
	g.ctx = event.WithReads(ctx, x.reads.begin())
	if x.env.Cloud != nil {
		g.cloud = x.env.Cloud.Look()
	}
	part := func(i int, read func() error) {
		g.parts.Go(func() { g.failed[i] = x.caught(read) })
	}
	kept := func(i int) context.Context {
		return event.WithReads(ctx, func(r event.Read) { g.told[i] = append(g.told[i], r) })
	}
	now := x.since(ctx)
	part(0, func() (err error) {
		g.policy, err = x.env.policy(now, x.r.Sections)
		return err
	})
	part(1, func() (err error) {
		if g.over, err = x.readService(kept(0)); err == nil && len(g.over) == 0 && g.cloud != nil {
			x.askAhead(ctx, g)
		}
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
func (x *run) caught(read func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = panicked(p, x.r.Class, x.log)
		}
	}()
	return read()
}

// askAhead asks the cloud what the class is likely to ask. The class asks again: it gets the answer
// that is there by then, or the error of its own question.
func (x *run) askAhead(ctx context.Context, g *gathering) {
	ctx = event.WithReads(ctx, func(event.Read) {})
	for _, ask := range x.r.Ahead {
		view := x.c.View
		view.Cloud = g.cloud
		go func(view ccm.View) {
			defer func() { _ = recover() }() // the class meets it again
			ask(ctx, &view)
		}(view)
	}
}

// wait returns when all is read, and puts it into the run.
func (g *gathering) wait(x *run) error {
	g.parts.Wait()
	for _, reads := range g.told {
		for _, r := range reads {
			event.TellAgain(g.ctx, r)
		}
	}
	for _, err := range g.failed {
		if err != nil {
			return err
		}
	}
	x.c.Policy, x.c.Cloud = g.policy, x.env.Cloud
	if g.cloud != nil {
		x.c.Cloud = g.cloud
	}
	if len(g.over) > 0 {
		return nil
	}
	if x.ev.Failure.Service.Kind == "" {
		x.rec.Impact = impact(x.c.Service)
	}
	x.stand(g.around)
	return nil
}

// drop ends a look that nobody waits for any more.
func (g *gathering) drop() {
	if g != nil {
		g.cancel()
		g.parts.Wait()
	}
}
