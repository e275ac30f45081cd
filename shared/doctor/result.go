package doctor

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

// SchemaFile is the path of a Result's JSON Schema in the module.
const SchemaFile = "shared/event/schema/doctor.v1.json"

// A Result is what a run found, and what is unknown.
type Result struct {
	Cluster  string        `json:"cluster"`
	At       time.Time     `json:"at"` // when the snapshot was read
	Took     time.Duration `json:"-"`
	TookMs   float64       `json:"tookMs"` // reading time in milliseconds
	Checks   []string      `json:"checks"`
	Services int           `json:"services"` // number of Services examined
	Findings []Finding     `json:"findings"` // the worst first
	Unknown  []Unknown     `json:"unknown"`
	Settling []Unknown     `json:"-"` // see Report.Settling
	Read     []Reading     `json:"read"`
}

// Run gathers the parts of the checks and examines them.
func Run(ctx context.Context, src Source, checks []*Check) (*Snapshot, Result, error) {
	began := time.Now()
	s, readings, err := Gather(ctx, src, PartsOf(checks))
	if err != nil {
		return nil, Result{}, err
	}
	r := Examine(ctx, s, checks)
	r.Read, r.Took = readings, time.Since(began)
	r.TookMs = milliseconds(r.Took)
	return s, r, nil
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// PartsOf returns the parts that the checks read, each once.
func PartsOf(checks []*Check) []Part {
	var all []Part
	for _, c := range checks {
		all = append(all, c.Parts()...)
	}
	return closure(all)
}

// Grants returns the permissions of a run with these checks.
func Grants(checks []*Check) []grant.Grant { return reads(PartsOf(checks)) }

// Examine runs the checks on a snapshot. A check is unknown if it panics, if a part that it needs could not be read, or after the end of ctx.
func Examine(ctx context.Context, s *Snapshot, checks []*Check) Result {
	r := Result{Cluster: s.Cluster, At: s.Time, Services: len(s.Services), Checks: []string{}, Findings: []Finding{}, Unknown: []Unknown{}, Read: []Reading{}}
	for _, c := range checks {
		r.Checks = append(r.Checks, c.ID)
		err := s.Err(c.Needs...)
		if ctx.Err() != nil {
			err = say.Errorf("the time for the checks was up")
		}
		if err != nil {
			r.Unknown = append(r.Unknown, Unknown{Check: c.ID, Why: say.Of(err).Map(event.Redact), NoCluster: errors.Is(err, ErrNoCluster)})
			continue
		}
		found := run(s, c)
		r.Findings = append(r.Findings, found.findings...)
		r.Unknown = append(r.Unknown, found.unknown...)
		r.Settling = append(r.Settling, found.settling...)
	}
	for i := range r.Findings {
		f := &r.Findings[i]
		f.Text, f.Do = f.Text.Map(event.Redact), f.Do.Map(event.Redact)
	}
	slices.SortStableFunc(r.Findings, order)
	slices.SortStableFunc(r.Unknown, func(a, b Unknown) int {
		return cmp.Or(cmp.Compare(a.Check, b.Check), cmp.Compare(a.About.String(), b.About.String()))
	})
	r.Unknown = slices.CompactFunc(r.Unknown, func(a, b Unknown) bool {
		return a.Check == b.Check && a.About == b.About && a.Why.String() == b.Why.String()
	})
	return r
}

func run(s *Snapshot, c *Check) (r *Report) {
	r = &Report{check: c}
	defer func() {
		if p := recover(); p != nil {
			r = &Report{check: c}
			r.Unknown(About{}, say.Errorf("the check broke down: %v", p))
		}
	}()
	c.Find(s, r)
	c.fixable(s, r.findings)
	return r
}

func (c *Check) fixable(s *Snapshot, found []Finding) {
	if c.Fix == nil {
		return
	}
	services := map[About]*corev1.Service{}
	for i := range s.Services {
		if svc := &s.Services[i]; svc.UID != "" { // not a manifest
			services[OfService(svc)] = svc
		}
	}
	for i := range found {
		svc := services[found[i].About]
		if svc == nil {
			continue
		}
		steps := c.Fix.Plan(s, svc, found[i:i+1]).Steps
		found[i].Fixable = len(steps) > 0
		found[i].Steps, _ = remedy.Records(steps) // --fix still shows one that can't be recorded
	}
}

// Only returns the part of the result about Services of these names, "namespace/name": findings about one of them or affecting one. The
// unknowns about other objects, or about every Service, stay.
func (r Result) Only(of func(name string) bool) Result {
	r.Findings = slices.DeleteFunc(slices.Clone(r.Findings), func(f Finding) bool { return !of(f.About.String()) && !slices.ContainsFunc(f.Services, of) })
	r.Unknown = slices.DeleteFunc(slices.Clone(r.Unknown), func(u Unknown) bool {
		return u.About.Kind == Service && u.About.Name != "" && !of(u.About.String())
	})
	return r
}

// AtLeast returns the result without findings of lower severity.
func (r Result) AtLeast(least Severity) Result {
	r.Findings = slices.DeleteFunc(slices.Clone(r.Findings), func(f Finding) bool { return f.Severity < least })
	return r
}

// Worst returns the highest severity among the findings; false without findings.
func (r Result) Worst() (Severity, bool) {
	if len(r.Findings) == 0 {
		return Info, false
	}
	return slices.MaxFunc(r.Findings, func(a, b Finding) int { return cmp.Compare(a.Severity, b.Severity) }).Severity, true
}

// In returns the result with its sentences fixed in a language.
func (r Result) In(l *say.Language) Result {
	r.Findings, r.Unknown = slices.Clone(r.Findings), slices.Clone(r.Unknown)
	for i := range r.Findings {
		f := &r.Findings[i]
		f.Text, f.Do = say.Literal(f.Text.In(l)), say.Literal(f.Do.In(l))
	}
	for i := range r.Unknown {
		r.Unknown[i].Why = say.Literal(r.Unknown[i].Why.In(l))
	}
	return r
}

// untold returns why what a check found about an object may still hold.
func (r Result) untold(check string, about About) []Unknown {
	var list []Unknown
	for _, u := range slices.Concat(r.Unknown, r.Settling) {
		if u.Check == check && u.About.Covers(about) {
			list = append(list, u)
		}
	}
	return list
}
