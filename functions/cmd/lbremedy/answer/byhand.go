package answer

import (
	"context"
	"fmt"
	"time"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/journal"
	"github.com/lbremedy/lbremedy/shared/approval"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/engine"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/host"
	"github.com/lbremedy/lbremedy/shared/remedy"
)

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

// Agree has the engine count the approval of the person who calls, of the plan of a record.
func Agree(ctx context.Context, env *host.Connection, would event.Record) error {
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
