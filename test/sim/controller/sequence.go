package controller

import (
	"context"
	"fmt"
)

// inTurn does one thing after the other, as releases before v2.12.0 did: the
// load balancer, the groups, the listeners, and the cleaning up.
//
// Two of their ways show in events. They lose the ID of the load balancer when
// it can not be made or used, so that the event has "[]"; and they go on after
// an attribute that can not be changed, so that the listeners are synced all
// the same, and an error of theirs is the second.
func (p *pass) inTurn(ctx context.Context, want, remote *balancer) error {
	var errs []error
	if p.changed {
		made := remote.id == ""
		if err := p.settle(ctx, want, remote); err != nil {
			*remote = balancer{}
			return fmt.Errorf("update lb attribute error: %w", err)
		}
		if !made && !deleting(p.svc) {
			errs = append(errs, wrap("update lb attribute error", p.update(ctx, want, remote)))
		}
	}
	if remote.id == "" {
		if deleting(p.svc) {
			return nil
		}
		return p.notFound()
	}
	for _, m := range planGroups(want.groups, remote.groups) {
		if err := p.applyGroup(ctx, remote.id, m); err != nil {
			return aggregate(append(errs, fmt.Errorf("reconcile backends error: %w", err)))
		}
	}
	if !p.changed {
		return aggregate(errs)
	}
	if p.ownsListeners(want) {
		plan, err := p.planListeners(want, remote)
		if err != nil {
			return aggregate(append(errs, fmt.Errorf("reconcile listeners error: %w", err)))
		}
		for _, do := range append(plan.now, plan.later...) {
			if err := do(ctx); err != nil {
				return aggregate(append(errs, fmt.Errorf("reconcile listeners error: %w", err)))
			}
		}
	}
	return aggregate(append(errs, wrap("update lb listeners error", p.cleanup(ctx, want, remote))))
}

func (p *pass) applyGroup(ctx context.Context, lb string, m move) error {
	if m.have != nil {
		return wrap("EnsureVGroupUpdated error", p.changeGroup(ctx, m))
	}
	_, err := p.createGroup(ctx, lb, m.want)
	return wrap("EnsureVGroupCreated error", err)
}
