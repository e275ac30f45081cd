package answer

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/journal"
	"github.com/lbremedy/lbremedy/shared/approval"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/engine"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/host"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

// A Repair is a command by which a person has a class do what it does when the
// controller complains.
type Repair struct {
	Use       string   // the command, behind its parent
	Kinds     []string // of the steps that its plan may begin with
	Otherwise say.Text // what is said of another plan
	Name      string   // to type; empty: the Service's
}

// ByHand returns the failure that a person has a class answer for a Service or for the
// cluster. The message says for what.
func ByHand(p *cli.Program, env *host.Connection, class *remedy.Remedy, ref event.Service, message string) Item {
	now := p.Now().Truncate(time.Second)
	return Item{Remedy: class, Event: engine.Event{
		ID: fmt.Sprintf("%s.%s.%s", ref.UID, class.Class, now.UTC().Format("20060102T150405")), Again: true,
		Failure: event.Failure{
			Cluster: env.Cluster, Class: class.Class, Reason: "ByHand", Component: "lbremedy", Count: 1, Service: ref, First: now, Last: now,
			Message: journal.ByPerson + message,
		},
	}}
}

// RunRepair says what would be done, asks, and does it.
func RunRepair(ctx context.Context, p *cli.Program, env *host.Connection, r Repair, it Item, a Flags, sure bool) error {
	a.sign(ctx, p, env)
	would, err := engine.Look(ctx, env.Env, it.Remedy, it.Event)
	if err != nil {
		return err
	}
	if len(would.Steps) == 0 || !slices.Contains(r.Kinds, would.Steps[0].Kind) {
		why := r.Otherwise
		if would.Result != event.Gone { // then nothing was found but that all is well
			said := would.Texts()
			why = say.F("%s.", why).Then(said.Finding).Then(said.Ask)
		}
		return command.Wrong("%s: nothing to do for %s: %s", r.Use, cmp.Or(r.Name, it.Event.Failure.Service.String()), why.Map(command.Clean))
	}
	if !a.Apply {
		return Failures(ctx, p, env, []Item{it}, a)
	}
	if !sure {
		asking := *p
		asking.Out = p.Err // it belongs to the question, and is not the data that is asked for
		journal.Report(&asking, would)
		if err := p.Typed(cmp.Or(r.Name, it.Event.Failure.Service.String()), "--yes"); err != nil {
			return err
		}
	}
	if would.Result == event.Asked && would.Digest != "" {
		// The policy leaves it to a person, and one has just agreed to this plan.
		if err := agree(ctx, env, would); err != nil {
			return err
		}
	}
	return Failures(ctx, p, env, []Item{it}, a)
}

// agree has the engine count the approval of the person who calls, of the plan of a record.
func agree(ctx context.Context, env *host.Connection, would event.Record) error {
	me, err := env.Kube.Me(ctx)
	switch {
	case err != nil:
		return command.Wrong("the plan needs approval, and the cluster does not say who you are: %w", err)
	case approval.Own(me.Name):
		return command.Wrong("the plan needs approval, and %s is a ServiceAccount of lbremedy: use your own kubeconfig", me.Name)
	}
	env.Agreed = &engine.Agreement{Digest: would.Digest, By: me, Host: cli.Hostname()}
	return nil
}
