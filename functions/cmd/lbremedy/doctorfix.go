package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/engine"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/policy"
	"github.com/lbremedy/lbremedy/shared/remedy"
)

// fix has the engine answer the findings of one check like failures.
func (p *program) fix(ctx context.Context, e examining, args []string) error {
	if len(e.checks) > 0 {
		return command.Wrong("doctor --fix names the check already: leave out --checks")
	}
	e.checks = []string{e.fix}
	checks, _, services, err := e.wanted(args)
	if err != nil {
		return err
	}
	check := checks[0]
	if check.Fix == nil {
		return command.Wrong("the findings of the check %s are not for lbremedy to end: --checks %s --explain says what to do", check.ID, check.ID)
	}
	env, err := p.fixing(ctx, e)
	if err != nil {
		return err
	}
	if env.Stream != nil {
		defer env.Stream.Close()
	}
	if err := p.there(ctx, env, e.namespace, services); err != nil {
		return err
	}
	_, r, err := p.survey(ctx, env, checks)
	if err != nil {
		return err
	}
	r = about(r, e.namespace, services)
	items, err := p.toFix(r, check)
	if err != nil {
		return err
	}
	for _, u := range r.Unknown {
		p.note("%s: it can't be told whether there is something to fix: %s.", command.Clean(u.About.String()), command.Clean(u.Why))
	}
	if len(items) == 0 {
		p.note("There is nothing to fix.")
		if len(r.Unknown) > 0 {
			return command.Exit(codeUnknown)
		}
		return nil
	}
	return p.answer(ctx, env, items, e.answering)
}

// fixing connects to what a fix takes. Without --apply the stream is not needed, but
// where one is known the policy in force is read from it: a plan is judged by the rule
// that holds, and the survey compares with what the operator wants.
func (p *program) fixing(ctx context.Context, e examining) (*engine.Env, error) {
	if e.apply {
		return p.connect(ctx, e.policy)
	}
	if e.policy != "" {
		if _, err := policyFile(e.policy); err != nil {
			return nil, err
		}
	}
	env, err := p.look(ctx, p.host())
	if err != nil {
		return nil, err
	}
	if e.policy == "" {
		p.inForce(ctx, env)
	}
	return env, setPolicy(env, e.policy, nil)
}

// inForce has the environment answer with the policy that is in force now. Where no
// stream is known it observes; that one can't be read is said.
func (p *program) inForce(ctx context.Context, env *engine.Env) {
	if !p.known() {
		return
	}
	s, err := p.stream(ctx)
	var allowed remedy.Policy
	if err == nil {
		allowed, err = policy.InForce(ctx, s, env.Cluster)
		s.Close()
	}
	if err != nil {
		p.note("The policy in force is not known, and taken for observe: %s.", command.Clean(event.Redact(err.Error())))
		return
	}
	env.Policy = func(context.Context) (remedy.Policy, error) { return allowed, nil }
}

// toFix returns one item for each Service with findings that the check can end.
func (p *program) toFix(r doctor.Result, check *doctor.Check) ([]item, error) {
	class, err := classOf(doctor.ClassPrefix + check.ID)
	if err != nil {
		return nil, err
	}
	var items []item
	seen := map[string]bool{}
	for _, f := range r.Findings {
		if !f.Fixable || seen[f.About.UID] {
			continue
		}
		seen[f.About.UID] = true
		if err := event.ValidUID(f.About.UID); err != nil {
			return nil, err
		}
		items = append(items, item{remedy: class, event: engine.Event{
			ID: fmt.Sprintf("%s.%s.%s", f.About.UID, class.Class, r.At.UTC().Format("20060102T150405")),
			Failure: event.Failure{
				Cluster: r.Cluster, Class: class.Class, Reason: "Survey", Component: "lbremedy", Message: f.Text.String(), Count: 1,
				Service: event.Service{Namespace: f.About.Namespace, Name: f.About.Name, UID: f.About.UID},
				First:   r.At.Truncate(time.Second), Last: r.At.Truncate(time.Second),
			},
		}})
	}
	slices.SortFunc(items, func(a, b item) int {
		return strings.Compare(a.event.Failure.Service.String(), b.event.Failure.Service.String())
	})
	return items, nil
}
