package controller

import (
	"context"
	"fmt"
	"slices"
)

// inTurn syncs sequentially, as releases before v2.12.0 did: load balancer, groups, listeners, cleanup, each read just before it is
// written. These releases lose the ID of a load balancer that cannot be created or used, so the Event has "[]". Since v2.6.0 they continue
// after an attribute that cannot be changed, so listeners can add a second error. They also clean up after a sync of backends only.
func (p *pass) inTurn(ctx context.Context, want, remote *balancer) error {
	var errs []error
	if p.changed {
		if err := p.settleInTurn(ctx, want, remote); err != nil {
			*remote = balancer{}
			if p.version.goesOn() {
				return err
			}
			return fmt.Errorf("update lb attribute error: %w", err)
		}
		if remote.id != "" && !remote.fresh && !deleting(p.svc) {
			errs = append(errs, wrap("update lb attribute error", p.update(ctx, want, remote)))
		}
		if err := aggregate(errs); err != nil && !p.version.goesOn() {
			return err
		}
	}
	if remote.id == "" {
		if deleting(p.svc) {
			return nil
		}
		return p.notFound()
	}
	fail := func(doing string, err error) error { return aggregate(append(errs, fmt.Errorf("%s: %w", doing, err))) }
	var err error
	if remote.groups, err = p.groupsOf(ctx, remote.id); err != nil {
		return fail("get lb backend from remote error: DescribeVServerGroups error", err)
	}
	for _, m := range planGroups(want.groups, remote.groups) {
		if err := p.applyGroup(ctx, remote.id, m); err != nil {
			return fail("update lb backends error", err)
		}
	}
	if p.changed {
		if remote.listeners, err = p.listenersOf(ctx, remote.id); err != nil {
			return fail("get lb listeners from cloud, error: DescribeLoadBalancerListeners error", err)
		}
		if !p.ownsListeners(want) {
			remote.listeners = nil
		} else if err := p.listenersInTurn(ctx, want, remote); err != nil {
			return fail("update lb listeners error", err)
		}
	}
	return aggregate(append(errs, wrap("update lb listeners error", p.cleanup(ctx, want, remote))))
}

func (p *pass) deleteGroups(ctx context.Context, lb string, gone groups) error {
	for _, g := range gone {
		if err := p.deleteGroup(ctx, g.id); err != nil {
			return fmt.Errorf("lb [%s] delete vgroup %s failed, error: %w", lb, g.id, err)
		}
	}
	return nil
}

func (p *pass) settleInTurn(ctx context.Context, want, remote *balancer) (err error) {
	if remote.id != "" && (!deleting(p.svc) || want.preserve) {
		if remote.tags, err = p.tagsOf(ctx, remote.id); err != nil {
			return fmt.Errorf("DescribeTags: %w", err)
		}
	}
	return p.settle(ctx, want, remote)
}

// listenersInTurn creates an HTTPS listener before the one that redirects to it, and deletes it after that one.
func (p *pass) listenersInTurn(ctx context.Context, want, remote *balancer) error {
	d, err := p.diffListeners(want, remote)
	if err != nil {
		return err
	}
	secure := func(l *listener) int {
		if l.protocol == protocolHTTPS {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(d.drops, func(a, b *listener) int { return secure(a) - secure(b) })
	slices.SortStableFunc(d.adds, func(a, b *listener) int { return secure(b) - secure(a) })
	for _, l := range d.drops {
		if err := p.deleteListener(ctx, remote.id, l); err != nil {
			return fmt.Errorf("delete listener [%d] error: %w", l.port, err)
		}
	}
	for _, l := range d.adds {
		if err := p.createListener(ctx, remote.id, l); err != nil {
			return fmt.Errorf("create listener [%d] error: %w", l.port, err)
		}
	}
	for _, c := range d.changes {
		if err := p.updateListener(ctx, remote.id, c); err != nil {
			return fmt.Errorf("update listener [%d] error: %w", c.want.port, err)
		}
	}
	return nil
}

func (p *pass) applyGroup(ctx context.Context, lb string, m move) error {
	if m.have != nil {
		return wrap("EnsureVGroupUpdated error", p.changeGroup(ctx, m))
	}
	_, err := p.createGroup(ctx, lb, m.want)
	return wrap("EnsureVGroupCreated error", err)
}
