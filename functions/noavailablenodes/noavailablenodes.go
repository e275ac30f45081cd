// Package noavailablenodes remedies Services whose load balancer has no backends.
package noavailablenodes

import (
	"context"
	_ "embed"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/step"
)

//go:embed doc.md
var doc string

// Remedy finds out why no backend is attached. It moves a Pod off a master if only that helps, and keeps cordoned nodes if no others exist.
var Remedy = &remedy.Remedy{
	Class: "no-available-nodes",
	Doc:   doc,
	Texts: []string{
		"There are no available nodes for LoadBalancer",
		"There are no available nodes for NetworkLoadBalancer",
		"no available backend loadbalancer nodes",
	},
	Reads:        slices.Concat([]grant.Grant{grant.ListPods, grant.DescribeNetworkInterfaces}, ccm.CandidateReads),
	Steps:        []remedy.Step{step.Evict{}, step.RemoveAnnotation{}},
	Risks:        []remedy.Risk{remedy.Medium, remedy.High},
	Backends:     true,
	Annotations:  []string{ccm.RemoveUnscheduled},
	Diagnose:     diagnose,
	StillFails:   stillFails,
	IgnoresEvent: true,
}

type state struct {
	ccm.Candidates
	c          *remedy.Case
	opening    say.Text     // which ports have no backend
	empty      []ccm.Group  // of those ports
	pods       []corev1.Pod // of the namespace
	interfaces []cloud.Interface
}

func diagnose(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
	all, err := c.Candidates(ctx, c.Family())
	if err != nil {
		return remedy.Plan{}, err
	}
	s := state{Candidates: all, c: c, opening: all.DescribeEmpty(), empty: ccm.Empty(all.Groups)}
	if s.pods, err = c.Kube.Pods(ctx, c.Service.Namespace, nil); err != nil {
		return remedy.Plan{}, err
	}
	ready := s.Ready(s.empty)
	if s.Mode == ccm.PodMode && len(ready) > 0 {
		if s.interfaces, err = c.Interfaces(ctx, ready); err != nil {
			return remedy.Plan{}, err
		}
	}
	return s.plan(ready), nil
}

// stillFails reads the backends: the controller reports the failure in a successful sync, so its marks on the Service do not show it.
func stillFails(ctx context.Context, c *remedy.Case) (remedy.Verdict, error) {
	mode, err := c.BackendMode(ctx)
	if err != nil {
		return remedy.Unknown, err
	}
	groups, _, err := c.Groups(ctx, mode)
	if err != nil {
		return remedy.Unknown, err
	}
	return remedy.Is(len(ccm.Empty(groups)) > 0), nil
}
