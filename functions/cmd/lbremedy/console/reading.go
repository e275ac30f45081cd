package console

import (
	"cmp"
	"context"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/balancer"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	look "github.com/lbremedy/lbremedy/functions/cmd/lbremedy/doctor"
	"github.com/lbremedy/lbremedy/shared/doctor"
)

// old is the age at which what was read is read again when somebody looks at it.
const old = 10 * time.Minute

// A reading is what was last read of the cluster and the account, in the forms that the pages
// need.
type reading struct {
	p    *cli.Program
	hub  *hub
	wake chan struct{}

	mu    sync.Mutex
	began time.Time // of a reading under way; zero: there is none
	why   string    // the last one has come to nothing
	*seen           // nil: nothing has been read yet
}

// A seen is what one reading came to.
type seen struct {
	Services []*balanced       // by namespace and name
	Findings []*doctor.Finding // the worst first
	Result   doctor.Result
}

// A balanced is a Service with its load balancer and what the doctor found about them.
type balanced struct {
	balancer.Shown
	Findings []*doctor.Finding
}

// Worst returns the word for the highest severity among the findings.
func (b balanced) Worst() string {
	worst := doctor.Info
	for _, f := range b.Findings {
		worst = max(worst, f.Severity)
	}
	return worst.String()
}

func newReading(p *cli.Program, h *hub) *reading {
	return &reading{p: p, hub: h, wake: make(chan struct{}, 1)}
}

// ask has the cluster and the account read if what is known of them is old, or whatever it is.
func (g *reading) ask(anew bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	fresh := g.seen != nil && g.p.Now().Sub(g.Result.At) < old || g.why != ""
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
		fresh, err := read(ctx, g.p)
		if ctx.Err() != nil {
			return
		}
		g.keep(fresh, err)
		debug.FreeOSMemory() // a snapshot takes several times what is kept of it
		g.hub.change()
	}
}

// keep keeps what was read, or why it could not be.
func (g *reading) keep(fresh *seen, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.began, g.why = (time.Time{}), ""; err != nil {
		g.why = said(err)
		return
	}
	g.seen = fresh
}

// A glance is what pages are told of a reading.
type glance struct {
	*seen           // empty, without a time, if nothing has been read yet
	Began time.Time // of a reading under way; zero: there is none
	Why   string    // the last one has come to nothing
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
	last := glance{g.seen, g.began, g.why}
	if last.seen == nil {
		last.seen = &seen{}
	}
	return last
}

// arrange puts what was taken in order, with each finding at the Services that it is about.
func (v *seen) arrange() {
	about := map[string][]*doctor.Finding{} // by Service, and by load balancer
	for _, f := range v.Findings {
		if f.About.Kind == doctor.Service || f.About.Kind == doctor.Balancer {
			about[f.About.String()] = append(about[f.About.String()], f)
		}
		for _, name := range f.Services {
			about[name] = append(about[name], f)
		}
	}
	for i := range v.Services {
		b := v.Services[i]
		b.Findings = slices.Clone(about[b.Namespace+"/"+b.Name])
		for _, f := range about[b.ID] {
			if b.ID != "" && !slices.ContainsFunc(b.Findings, func(have *doctor.Finding) bool { return have == f }) {
				b.Findings = append(b.Findings, f)
			}
		}
	}
	slices.SortFunc(v.Services, func(x, y *balanced) int {
		return cmp.Or(strings.Compare(x.Namespace, y.Namespace), strings.Compare(x.Name, y.Name))
	})
}

// read reads the cluster and the account, and keeps what pages show of them.
func read(ctx context.Context, p *cli.Program) (*seen, error) {
	s, r, err := look.Look(ctx, p)
	if err != nil {
		return nil, err
	}
	v := &seen{}
	known := map[string]balancer.Shown{} // Services may share a load balancer
	for _, svc := range s.OfType() {
		b := balancer.Show(s, svc)
		if same, ok := known[b.ID]; ok && b.ID != "" {
			b.Tags, b.Groups, b.Listeners = same.Tags, same.Groups, same.Listeners
		}
		known[b.ID] = b
		v.Services = append(v.Services, &balanced{Shown: b})
	}
	for i := range r.Findings {
		v.Findings = append(v.Findings, &r.Findings[i])
	}
	v.Result = r
	v.arrange()
	return v, nil
}
