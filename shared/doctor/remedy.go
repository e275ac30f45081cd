package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/remedy"
)

// ClassPrefix begins the class IDs of checks, under which the journal records their findings.
const ClassPrefix = event.DoctorPrefix

// Remedy returns the remedy for a check's findings about a Service, which it gathers again; without a Fix it asks.
func Remedy(c *Check) *remedy.Remedy {
	r := &remedy.Remedy{
		Class: ClassPrefix + c.ID,
		Doc:   c.Doc,
		Reads: c.Reads(),
		Scope: remedy.Cluster,

		Diagnose: func(ctx context.Context, k *remedy.Case) (remedy.Plan, error) {
			s, svc, found, err := again(ctx, k, c)
			if err != nil {
				return remedy.Plan{}, err
			}
			if len(found) == 0 {
				return remedy.Plan{}, errOver
			}
			plan := c.plan(s, svc, found)
			plan.Proven = true
			return plan, nil
		},
		StillFails: func(ctx context.Context, k *remedy.Case) (remedy.Verdict, error) {
			s, svc, found, err := again(ctx, k, c)
			if err != nil {
				return remedy.Unknown, err
			}
			if len(found) == 0 {
				return remedy.No, nil
			}
			// After a write, only what it was meant to fix is checked: what a person has to fix stays.
			return remedy.Is(!k.Written() || len(c.plan(s, svc, found).Steps) > 0), nil
		},
	}
	if c.Fix != nil {
		r.Steps, r.Annotations = c.Fix.Steps, c.Fix.Annotations
		r.Reads = slices.Concat(r.Reads, ccm.BoundReads, ccm.NetworkReads)
	}
	return r
}

func (c *Check) plan(s *Snapshot, svc *corev1.Service, found []Finding) remedy.Plan {
	if c.Fix != nil {
		return c.Fix.Plan(s, svc, found)
	}
	var p remedy.Plan
	for _, f := range found {
		p.Finding, p.Ask = p.Finding.Then(f.Text), p.Ask.Then(f.Do)
	}
	return p
}

var errOver = errors.New("the finding is gone since it was looked at")

func again(ctx context.Context, k *remedy.Case, c *Check) (*Snapshot, *corev1.Service, []Finding, error) {
	s, _, err := Gather(ctx, Source{
		Cluster: k.Event.Cluster, Kube: k.Kube, Cloud: k.Cloud, Now: k.Now, Only: k.Service.Namespace + "/" + k.Service.Name,
		Policy: func(context.Context) (remedy.Policy, error) { return k.Policy, nil },
	}, c.Parts())
	if err != nil {
		return nil, nil, nil, err
	}
	if err := s.Failed[Services]; errors.Is(err, kube.ErrNotFound) {
		return s, nil, nil, nil
	}
	r := Examine(ctx, s, []*Check{c})
	var why []string
	for _, u := range r.untold(c.ID, OfService(k.Service)) {
		why = append(why, u.Why.String())
	}
	if len(why) > 0 {
		return nil, nil, nil, fmt.Errorf("check whether the finding still holds: %s", strings.Join(why, "; "))
	}
	var found []Finding
	for _, f := range r.Findings {
		if f.About == OfService(k.Service) {
			found = append(found, f)
		}
	}
	if len(s.Services) == 0 {
		return s, nil, nil, nil
	}
	return s, &s.Services[0], found, nil
}
