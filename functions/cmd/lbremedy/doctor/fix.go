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
	"github.com/lbremedy/lbremedy/shared/remedy"
)

func fix(ctx context.Context, p *cli.Program, e *examining, args []string) error {
	if len(e.checks) > 0 {
		return command.Wrong("doctor --fix names the check already: leave out --checks")
	}
	e.checks = []string{e.fix}
	if err := e.wanted(args); err != nil {
		return err
	}
	check := e.run[0]
	if !fixable(check) {
		return command.Wrong("the findings of the check %s cannot be fixed automatically: --checks %s --explain says what to do", check.ID, check.ID)
	}
	if check.ID == Permissions && (len(args) > 0 || e.scope.Namespace != "" || !e.chosen.All()) {
		return command.Wrong("the findings of the check %s are about the cluster: leave out Services, --namespace and --selector", check.ID)
	}
	env, err := p.Prepare(ctx, e.policy, e.Apply)
	if err != nil {
		return err
	}
	defer cli.Close(env)
	s, r, err := e.look(ctx, p, env)
	if err != nil {
		return err
	}
	var items []answer.Item
	if check.ID == Permissions {
		items = addRights(s, r)
	} else if items, err = toFix(p, r, check); err != nil {
		return err
	}
	for _, u := range r.Unknown {
		p.Note("%s: could not determine whether there is something to fix: %s.", command.Clean(u.About.String()), command.Clean(p.Tell(u.Why)))
	}
	if len(items) == 0 {
		p.Note("There is nothing to fix.")
		err = p.Print([]answer.Item{}, func() {})
	} else {
		err = answer.Failures(ctx, p, env, items, e.Flags)
	}
	if err == nil && len(r.Unknown) > 0 {
		return command.Exit(cli.CodeUnknown)
	}
	return err
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
	about := s.OfCluster().InJournal(r.Cluster)
	return []answer.Item{item(r, rampermission.For(release), about, "ByHand", journal.ByPerson+"the RAM actions that the controller lacks.")}
}

// item is a failure as the doctor reports it.
func item(r doctor.Result, class *remedy.Remedy, about event.Service, reason, message string) answer.Item {
	now := r.At.Truncate(time.Second)
	return answer.Item{Remedy: class, Event: engine.Event{
		ID: fmt.Sprintf("%s.%s.%s", about.UID, class.Class, now.UTC().Format("20060102T150405")),
		Failure: event.Failure{
			Cluster: r.Cluster, Class: class.Class, Reason: reason, Component: "lbremedy", Message: message, Count: 1, Service: about, First: now, Last: now,
		},
	}}
}

func toFix(p *cli.Program, r doctor.Result, check *doctor.Check) ([]answer.Item, error) {
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
		about := event.Service{Namespace: f.About.Namespace, Name: f.About.Name, UID: f.About.UID}
		items = append(items, item(r, class, about, "Doctor", f.Text.String()))
	}
	slices.SortFunc(items, func(a, b answer.Item) int {
		return strings.Compare(a.Event.Failure.Service.String(), b.Event.Failure.Service.String())
	})
	return items, nil
}
