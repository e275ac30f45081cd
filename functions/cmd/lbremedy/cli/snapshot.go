package cli

import (
	"context"
	"errors"
	"sync"

	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/host"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/remedy"
)

// Source returns the source of a snapshot, with progress shown at a terminal.
func (p *Program) Source(env *host.Connection, g *Progress) doctor.Source {
	var mu sync.Mutex
	say := func(part doctor.Part, done, total int) {
		mu.Lock()
		defer mu.Unlock()
		if total > 0 {
			g.Say("reading %s: %d of %d", part, done, total)
			return
		}
		g.Say("reading %s: %d", part, done)
	}
	policy := env.Policy
	if env.Assumed != nil {
		policy = func(context.Context) (remedy.Policy, error) { return remedy.Policy{}, env.Assumed }
	}
	return doctor.Source{Cluster: env.Cluster, Kube: env.Kube, Cloud: env.Clients.Cloud, Now: p.Now(), Policy: policy, Progress: say}
}

// Gather reads parts of the cluster, limited by Only and Counts of the source.
func (p *Program) Gather(ctx context.Context, of doctor.Source, list []doctor.Part) (*doctor.Snapshot, error) {
	env, err := p.ConnectReads(ctx, p.Host())
	if err != nil {
		return nil, err
	}
	g := p.Progress()
	defer g.Done()
	src := p.Source(env, g)
	src.Only, src.Counts = of.Only, of.Counts
	s, _, err := doctor.Gather(ctx, src, list)
	if err != nil {
		return nil, err
	}
	if err := s.Err(doctor.Services); errors.Is(err, kube.ErrNotFound) {
		return nil, command.Wrong("there is no Service %s in the cluster: correct the name, or --context and --kubeconfig", of.Only)
	} else if err != nil {
		return nil, err
	}
	return s, nil
}
