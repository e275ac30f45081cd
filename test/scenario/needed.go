package scenario

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/lbremedy/lbremedy/test/diff"

	"github.com/lbremedy/lbremedy/shared/engine"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/test/sim"
)

type phase int

// The phases, the cheapest to repeat first.
const (
	looking  phase = iota // before any write
	writing               // without a controller that syncs the Service
	watching              // with the controller
	phases
)

type usage struct {
	by    [phases]map[string][]script // by call, written as grants
	risks map[string]bool
}

func (u *usage) risk(of string) {
	if u.risks == nil {
		u.risks = map[string]bool{}
	}
	u.risks[of] = true
}

func (u *usage) add(p phase, s script, call string) {
	if u.by[p] == nil {
		u.by[p] = map[string][]script{}
	}
	if list := u.by[p][call]; len(list) == 0 || list[len(list)-1].file != s.file {
		u.by[p][call] = append(list, s)
	}
}

// of returns the scenarios that need the grant in a phase: runs without faults, where no other grant of the class suffices.
func (u *usage) of(p phase, g grant.Grant) []script {
	var out []script
	for call, list := range u.by[p] {
		product, action, _ := strings.Cut(call, ":")
		if call == g.String() || g.RAM() && slices.Contains(sim.Permissions(product, action), g.Action) {
			out = append(out, list...)
		}
	}
	out = slices.DeleteFunc(out, func(s script) bool { return s.parts["fault"] != "" })
	slices.SortFunc(out, func(a, b script) int { return strings.Compare(a.file, b.file) })
	return out
}

// needed checks that the class needs each of its rights: without it, a scenario that uses it ends differently, with a message
// that names the right and no write that is missing in the journal. Each right is tested in the cheapest scenario.
func needed(t *testing.T, on *ground, r *remedy.Remedy, used *usage) []error {
	t.Helper()
	var errs []error
	rest := r.Grants()
	for p := range phases {
		for len(rest) > 0 {
			tells := map[string][]grant.Grant{}
			scripts := map[string]script{}
			for _, g := range rest {
				for _, s := range used.of(p, g) {
					tells[s.file] = append(tells[s.file], g)
					scripts[s.file] = s
				}
			}
			best := ""
			for file, list := range tells {
				if n, most := len(list), len(tells[best]); n > most || n == most && (best == "" || file < best) {
					best = file
				}
			}
			if best == "" {
				break
			}
			try := withoutWrite
			if p == looking {
				try = withoutLook
			}
			errs = append(errs, try(t, on, r, scripts[best], p, tells[best])...)
			rest = slices.DeleteFunc(rest, func(g grant.Grant) bool { return slices.Contains(tells[best], g) })
		}
	}
	for _, g := range rest {
		// The rights to snapshot, compare and prove do not depend on the class; shared/engine tests them.
		if slices.Contains(slices.Concat(r.Snapshots(), r.Compares(), r.Proves()), g) && !slices.Contains(r.Reads, g) {
			continue
		}
		// Whether the engine looks for an Event of a successful sync depends on the failure's reason, not on the class.
		if g == grant.ListEvents && !slices.Contains(r.Reads, g) {
			continue
		}
		errs = append(errs, fmt.Errorf("the class has the right %s, and no scenario uses it: take it out of the declaration, or write the scenario", g))
	}
	return slices.DeleteFunc(errs, func(err error) bool { return err == nil })
}

// withoutLook looks at one scenario repeatedly, each time without another right. Looks write nothing, so the world is unchanged.
func withoutLook(t *testing.T, on *ground, r *remedy.Remedy, s script, _ phase, grants []grant.Grant) []error {
	w := build(t, on, r, s)
	w.calls.keep()
	// Rights in the cluster are changed in place, so remove those in the cloud first.
	slices.SortStableFunc(grants, func(a, b grant.Grant) int {
		return strings.Compare(b.Product(), a.Product())
	})
	var errs []error
	for _, g := range grants {
		s.without = []grant.Grant{g}
		rights, err := s.rights(r)
		if err != nil {
			t.Fatal(err)
		}
		env, hands := *w.env, *w.hands
		if g.RAM() {
			hands.Cloud, hands.CloudWriter = w.client(t, r.Class+"-without", rights)
		} else {
			if env.Kube, err = kube.New(on.config(t, r.Class, rights)); err != nil {
				t.Fatal(err)
			}
			hands.Kube = env.Kube
		}
		env.Hand = wired(&hands)
		rec, err := engine.Look(t.Context(), &env, r, w.event)
		errs = append(errs, refusal(s, g, err, rec))
	}
	return errs
}

func withoutWrite(t *testing.T, on *ground, r *remedy.Remedy, s script, p phase, grants []grant.Grant) []error {
	var errs []error
	for _, g := range grants {
		s.without = []grant.Grant{g}
		t.Run(s.name()+" without "+g.String(), func(t *testing.T) { // the subtest ends the world
			w := build(t, on, r, s)
			before := w.snapshot(t)
			if p == watching {
				w.controllerAfterWrite(t)
			}
			var seen []event.Record
			rec, err := w.run(t, func(rec event.Record) bool {
				seen = append(seen, rec)
				return !rec.Done() && rec.Wait < undecided
			})
			errs = append(errs, refusal(s, g, err, append(seen, rec)...))
			if p == watching {
				return // the controller has synced the write
			}
			known := rec.Steps[:min(rec.Next, len(rec.Steps))]
			if diff := diff.Of(before.allow(known), w.snapshot(t).allow(known)); diff != "" {
				errs = append(errs, fmt.Errorf("%s without %s: something is written that the journal doesn't know (-before +after):\n%s", s.name(), g, diff))
			}
		})
	}
	return errs
}

func refusal(s script, g grant.Grant, err error, runs ...event.Record) error {
	name := g.Action
	if !g.RAM() {
		name = fmt.Sprintf("cannot %s resource %q in API group %q", g.Verb, g.Resource, g.Group)
	}
	text := fmt.Sprint(err)
	for _, rec := range runs {
		text = strings.Join([]string{text, rec.Error, rec.Finding.String(), rec.Note.String(), rec.Ask.String()}, " ")
	}
	if !strings.Contains(text, name) {
		return fmt.Errorf("%s without %s ends as %q, and what it says does not name %q: %s", s.name(), g, runs[len(runs)-1].Result, name, text)
	}
	return nil
}
