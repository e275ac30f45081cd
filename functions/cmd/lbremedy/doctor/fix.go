package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/answer"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/journal"
	"github.com/lbremedy/lbremedy/functions/rampermission"
	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/engine"
	"github.com/lbremedy/lbremedy/shared/event"
)

func fix(ctx context.Context, p *cli.Program, e *examining, args []string) error {
	if len(e.checks) > 0 {
		return command.Wrong("doctor --fix names the check already: leave out --checks")
	}
	e.checks = []string{e.fix}
	checks, _, services, err := e.wanted(args)
	if err != nil {
		return err
	}
	check := checks[0]
	if !fixable(check) {
		return command.Wrong("the findings of the check %s cannot be fixed automatically: --checks %s --explain says what to do", check.ID, check.ID)
	}
	env, err := p.Prepare(ctx, e.policy, e.Apply)
	if err != nil {
		return err
	}
	defer cli.Close(env)
	if err := there(ctx, p, env, e.scope.Namespace, services); err != nil {
		return err
	}
	s, r, err := runOf(ctx, p, env, checks)
	if err != nil {
		return err
	}
	if services, err = e.labelled(s.Services, services); err != nil {
		return err
	}
	r = about(r, e.scope.Namespace, services)
	items, err := toFix(p, r, check)
	if check.ID == Permissions {
		items, err = addRights(s, r), nil
	}
	if err != nil {
		return err
	}
	for _, u := range r.Unknown {
		p.Note("%s: could not determine whether there is something to fix: %s.", command.Clean(u.About.String()), command.Clean(p.Tell(u.Why)))
	}
	if len(items) == 0 {
		p.Note("There is nothing to fix.")
		if len(r.Unknown) > 0 {
			return command.Exit(cli.CodeUnknown)
		}
		return nil
	}
	return answer.Failures(ctx, p, env, items, e.Flags)
}

// Permissions is the check with findings about the cluster: the class ram-permission fixes them.
const Permissions = "permissions"

func fixable(check *doctor.Check) bool { return check.Fix != nil || check.ID == Permissions }

// addRights adds the RAM actions that the running release of the controller calls, and those of the planned or the newest known release.
func addRights(s *doctor.Snapshot, r doctor.Result) []answer.Item {
	worst, any := r.Worst()
	if !any || worst < doctor.Warning {
		return nil
	}
	release := s.Policy.Doctor.Target
	if release == (ccm.Version{}) {
		release = ccm.Newest()
	}
	if release.Before(s.Controller.Version) {
		release = s.Controller.Version
	}
	now, class := r.At.Truncate(time.Second), rampermission.For(release)
	about := s.OfCluster().InJournal(r.Cluster)
	return []answer.Item{{Remedy: class, Event: engine.Event{
		ID: fmt.Sprintf("%s.%s.%s", about.UID, class.Class, now.UTC().Format("20060102T150405")),
		Failure: event.Failure{
			Cluster: r.Cluster, Class: class.Class, Reason: "ByHand", Component: "lbremedy", Count: 1, Service: about, First: now, Last: now,
			Message: journal.ByPerson + "the RAM actions that the controller lacks.",
		},
	}}}
}

func toFix(p *cli.Program, r doctor.Result, check *doctor.Check) ([]answer.Item, error) {
	if check.Fix == nil {
		return nil, nil
	}
	class, err := p.ClassOf(doctor.ClassPrefix + check.ID)
	if err != nil {
		return nil, err
	}
	var items []answer.Item
	seen := map[string]bool{}
	for _, f := range r.Findings {
		if !f.Fixable || seen[f.About.UID] {
			continue
		}
		seen[f.About.UID] = true
		if err := event.ValidUID(f.About.UID); err != nil {
			return nil, err
		}
		items = append(items, answer.Item{Remedy: class, Event: engine.Event{
			ID: fmt.Sprintf("%s.%s.%s", f.About.UID, class.Class, r.At.UTC().Format("20060102T150405")),
			Failure: event.Failure{
				Cluster: r.Cluster, Class: class.Class, Reason: "Doctor", Component: "lbremedy", Message: f.Text.String(), Count: 1,
				Service: event.Service{Namespace: f.About.Namespace, Name: f.About.Name, UID: f.About.UID},
				First:   r.At.Truncate(time.Second), Last: r.At.Truncate(time.Second),
			},
		}})
	}
	slices.SortFunc(items, func(a, b answer.Item) int {
		return strings.Compare(a.Event.Failure.Service.String(), b.Event.Failure.Service.String())
	})
	return items, nil
}
