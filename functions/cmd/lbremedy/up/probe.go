package up

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/host"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/observe"
	"github.com/lbremedy/lbremedy/shared/probe"
)

type probes struct {
	every     time.Duration // interval; zero: nothing is probed
	namespace string        // of the Service
	classes   []string      // empty: all
}

// shortest is the shortest interval: a late probe is known before the next begins.
const shortest = probe.Patience + time.Minute

func (p *probes) flags(of *cli.Program, cmd *cobra.Command) {
	cmd.Flags().DurationVar(&p.every, "probe", 0,
		"at this `interval`, such as 10m, create a harmless test Event for each class and measure how long its outcome takes (default: never)")
	cmd.Flags().StringVar(&p.namespace, "probe-namespace", "lbremedy", "`namespace` of the Service "+event.ProbeService+", which the probes are about")
	cmd.Flags().StringSliceVar(&p.classes, "probe-classes", nil, "`classes` to probe, separated by commas (default all)")
	command.Complete(cmd, "probe-classes", of.CompleteClasses)
}

func (p *probes) check(of *cli.Program, parts parts) error {
	switch {
	case p.every == 0:
		return nil
	case !parts.notifier:
		return command.Wrong("--probe: only the notifier probes: leave it out, or add notifier to --parts")
	case p.every < shortest:
		return command.Wrong("--probe: %s is less than %s, which a probe may take", p.every, shortest)
	case !kube.ValidName(p.namespace):
		return command.Wrong("--probe-namespace: %q is not a valid namespace name", p.namespace)
	}
	if len(p.classes) == 0 {
		p.classes = of.Classes()
	}
	for _, class := range p.classes {
		if !slices.Contains(of.Classes(), class) {
			return command.Wrong("--probe-classes: %w", of.NoClass(class))
		}
	}
	return nil
}

func (u *upRun) probing(ctx context.Context, env *host.Connection, said *observe.Probe) error {
	p := &probe.Prober{
		Cluster: u.Cluster, Namespace: u.probes.namespace, Classes: u.probes.classes, Kube: env.Kube, Writer: env.Clients.KubeWriter, Stream: env.Stream,
	}
	wait.NonSlidingUntilWithContext(ctx, func(ctx context.Context) { u.probed(ctx, p, said) }, u.probes.every)
	return nil
}

func (u *upRun) probed(ctx context.Context, p *probe.Prober, said *observe.Probe) {
	results, err := p.Run(ctx)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		said.Failed()
		u.Log().Error("nothing was probed; the next round tries again", "error", event.Redact(err.Error()))
		return
	}
	for _, r := range results {
		if r.Through() {
			said.Through(r.Class, u.Now(), r.Took)
			continue
		}
		said.Late(r.Class)
		if r.Err != nil {
			u.Log().Error("a probe could not be made", "class", r.Class, "error", event.Redact(r.Err.Error()))
			continue
		}
		u.Log().Error("a probe did not come through to an outcome in time", "class", r.Class)
	}
}
