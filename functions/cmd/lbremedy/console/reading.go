package console

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
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
// need: of a snapshot of a big cluster nothing is kept.
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
	At       time.Time
	Took     time.Duration
	Services []balanced // by namespace and name
	Result   doctor.Result
	VSwitches,
	Quotas []gauge
	first map[string]gauge // by name, of the first reading
}

// A balanced is a Service with its load balancer and what the doctor found about them.
type balanced struct {
	balancer.Shown
	Findings []doctor.Finding
}

// Worst returns the word for the highest severity among the findings.
func (b balanced) Worst() string {
	w, _ := doctor.Result{Findings: b.Findings}.Worst()
	return w.String()
}

// A gauge is how much of something is used.
type gauge struct {
	Name, About string
	Used, Total float64
	Was         float64   // used, at the first reading of this console
	Since       time.Time // of that reading; zero: this is it
}

// Percent returns how much is used.
func (g gauge) Percent() float64 { return 100 * g.Used / g.Total }

// Left returns how much is left.
func (g gauge) Left() float64 { return g.Total - g.Used }

// Trend says how the use has changed since the first reading.
func (g gauge) Trend() string {
	switch d := g.Used - g.Was; {
	case g.Since.IsZero():
		return "first reading"
	case d == 0:
		return "unchanged since " + g.Since.Local().Format("15:04")
	default:
		return fmt.Sprintf("%+.0f since %s", d, g.Since.Local().Format("15:04"))
	}
}

func newReading(p *cli.Program, h *hub) *reading {
	return &reading{p: p, hub: h, wake: make(chan struct{}, 1)}
}

// ask has the cluster and the account read if what is known of them is old, or whatever it is.
func (g *reading) ask(anew bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	fresh := g.seen != nil && g.p.Now().Sub(g.At) < old || g.why != ""
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
		s, r, err := look.Look(ctx, g.p)
		if ctx.Err() != nil {
			return
		}
		g.take(s, r, err)
		g.hub.change()
	}
}

// take keeps what was read, or why it could not be.
func (g *reading) take(s *doctor.Snapshot, r doctor.Result, err error) {
	g.mu.Lock()
	last := g.seen
	g.mu.Unlock()
	why := ""
	if err != nil {
		why = said(err)
	} else {
		var first map[string]gauge
		if last != nil {
			first = last.first
		}
		last = see(s, r, first) // which takes a while in a big cluster
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.seen, g.began, g.why = last, time.Time{}, why
}

// A glance is what pages are told of a reading.
type glance struct {
	*seen           // empty, without a time, if nothing has been read yet
	Began time.Time // of a reading under way; zero: there is none
	Why   string    // the last one has come to nothing
}

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

// see takes from a snapshot what pages show.
func see(s *doctor.Snapshot, r doctor.Result, first map[string]gauge) *seen {
	v := &seen{At: r.At, Took: r.Took, Result: r, first: first}
	about := map[string][]doctor.Finding{} // by Service, and by load balancer
	for _, f := range r.Findings {
		if f.About.Kind == doctor.Service || f.About.Kind == doctor.Balancer {
			about[f.About.String()] = append(about[f.About.String()], f)
		}
		for _, name := range f.Services {
			about[name] = append(about[name], f)
		}
	}
	groups := map[string][]balancer.Group{} // Services may share a load balancer
	for _, svc := range s.OfType() {
		b := balanced{Shown: balancer.Show(s, svc)}
		if same, ok := groups[b.ID]; ok && b.Kind == "CLB" && b.ID != "" {
			b.Groups = same
		} else {
			groups[b.ID] = b.Groups
		}
		b.Findings = slices.Clone(about[b.Namespace+"/"+b.Name])
		for _, f := range about[b.ID] {
			if b.ID != "" && !slices.ContainsFunc(b.Findings, func(have doctor.Finding) bool { return have.ID() == f.ID() }) {
				b.Findings = append(b.Findings, f)
			}
		}
		v.Services = append(v.Services, b)
	}
	slices.SortFunc(v.Services, func(x, y balanced) int {
		return cmp.Or(strings.Compare(x.Namespace, y.Namespace), strings.Compare(x.Name, y.Name))
	})
	v.measure(s)
	return v
}

// measure takes how full vSwitches and quotas are. Of some quotas the cloud does not count
// what is used; they are left out.
func (v *seen) measure(s *doctor.Snapshot) {
	for _, w := range s.VSwitches {
		block, err := netip.ParsePrefix(w.CIDR)
		if err != nil || !block.Addr().Is4() {
			continue
		}
		// Alibaba Cloud keeps four addresses of each: https://www.alibabacloud.com/help/en/vpc/user-guide/create-and-manage-a-vswitch
		total := float64(int64(1)<<(32-block.Bits()) - 4)
		about := strings.TrimSpace(w.Zone + " " + w.CIDR + " " + w.Name)
		v.VSwitches = append(v.VSwitches, gauge{Name: w.ID, About: about, Used: max(0, total-float64(w.Free)), Total: total})
	}
	for _, q := range s.Quotas {
		if q.Used > 0 && q.Total > 0 && q.Period == 0 {
			v.Quotas = append(v.Quotas, gauge{Name: q.Name, About: strings.TrimSpace(q.Product + " " + q.Description), Used: q.Used, Total: q.Total})
		}
	}
	began := v.first != nil
	if !began {
		v.first = map[string]gauge{}
	}
	for _, list := range [][]gauge{v.VSwitches, v.Quotas} {
		for i := range list {
			if was, ok := v.first[list[i].Name]; ok && began {
				list[i].Was, list[i].Since = was.Used, was.Since
				continue
			}
			first := list[i]
			first.Since = v.At
			v.first[first.Name] = first
		}
		slices.SortFunc(list, func(x, y gauge) int {
			return cmp.Or(cmp.Compare(y.Percent(), x.Percent()), strings.Compare(x.Name, y.Name))
		})
	}
}
