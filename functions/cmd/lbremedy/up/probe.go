package up

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/host"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/observe"
	"github.com/lbremedy/lbremedy/shared/probe"
)

// probes say what "lbremedy up" probes.
type probes struct {
	every     time.Duration // between two rounds; zero: nothing is probed
	namespace string        // of the Service
	classes   []string      // empty: all
}

// soonest is the least time between two rounds: a probe that is late is known to be before the next begins.
const soonest = probe.Patience + time.Minute

func (p *probes) flags(cmd *cobra.Command) {
	cmd.Flags().DurationVar(&p.every, "probe", 0,
		"at this `interval`, such as 10m, make an Event that fails nothing for each class and measure when it comes to its outcome (default: never)")
	cmd.Flags().StringVar(&p.namespace, "probe-namespace", "lbremedy", "`namespace` of the Service "+event.ProbeService+", which the probes are about")
	cmd.Flags().StringSliceVar(&p.classes, "probe-classes", nil, "`classes` to probe, separated by commas (default all)")
	command.Complete(cmd, "probe-classes", cli.CompleteClasses)
}

// check returns what is wrong with the flags, or nil.
func (p *probes) check(parts parts) error {
	if p.every == 0 {
		return nil
	}
	if !parts.notifier {
		return command.Wrong("--probe: only the notifier probes: leave it out, or add notifier to --parts")
	}
	if p.every < soonest {
		return command.Wrong("--probe: %s is less than %s, which a probe may take", p.every, soonest)
	}
	if !kube.ValidName(p.namespace) {
		return command.Wrong("--probe-namespace: no namespace can be called %q", p.namespace)
	}
	if len(p.classes) == 0 {
		p.classes = cli.Classes()
	}
	for _, class := range p.classes {
		if !slices.Contains(cli.Classes(), class) {
			return command.Wrong("--probe-classes: there is no class %q; there are %s", class, strings.Join(cli.Classes(), ", "))
		}
	}
	return nil
}

func probeCommand(p *cli.Program) *cobra.Command {
	probed := probes{every: soonest}
	cmd := &cobra.Command{
		Use:   "probe",
		Short: "Make a failure that harms nobody and see whether it comes to an outcome",
		Long: `Make an Event that fails nothing for each class, about the Service lbremedy-probe, and see
whether each comes to an outcome in the journal: through exporter, NATS and the worker.
Nothing is written for it, and no class is asked.

Create the Service before:

  kubectl create service clusterip lbremedy-probe --clusterip=None -n lbremedy

Exit codes: 0 each came through; 1 one did not, or nothing could be probed; 2 the usage or
the configuration is wrong.`,
		Example: `  lbremedy probe --cluster c1234
  lbremedy probe --cluster c1234 --classes busy,quota`,
		Args: command.Exactly(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := probed.check(parts{notifier: true}); err != nil {
				return err
			}
			config := p.Host()
			env, err := host.Look(config)
			if err != nil {
				return command.Mistake{Err: err}
			}
			s, err := p.Stream(cmd.Context())
			if err != nil {
				return err
			}
			defer s.Close()
			results, err := (&probe.Prober{
				Cluster: p.Cluster, Namespace: probed.namespace, Classes: probed.classes, Kube: env.Kube, Writer: env.Clients.KubeWriter, Stream: s,
			}).Run(cmd.Context())
			if err != nil {
				return err
			}
			return printProbes(p, results)
		},
	}
	cmd.Flags().StringVarP(&probed.namespace, "namespace", "n", "lbremedy", "`namespace` of the Service "+event.ProbeService)
	cmd.Flags().StringSliceVar(&probed.classes, "classes", nil, "only these `classes`")
	command.Complete(cmd, "classes", cli.CompleteClasses)
	return cmd
}

// A printedProbe is what became of a probe, as it is printed.
type printedProbe struct {
	Class   string  `json:"class"`
	Through bool    `json:"through"`
	TookMs  float64 `json:"tookMs,omitempty"`
	Error   string  `json:"error,omitempty"` // why it could not be made
}

func printProbes(p *cli.Program, results []probe.Result) error {
	all, missing := []printedProbe{}, 0
	for _, r := range results {
		one := printedProbe{Class: r.Class, Through: r.Through(), TookMs: float64(r.Took.Microseconds()) / 1000}
		if r.Err != nil {
			one.Error = event.Redact(r.Err.Error())
		}
		if !one.Through {
			missing++
		}
		all = append(all, one)
	}
	err := p.Print(all, func() {
		t := p.Table("class", "result", "took")
		for _, one := range all {
			result, took := p.Paint(cli.Red, p.Phrase("missing")), "-"
			switch {
			case one.Through:
				result, took = p.Paint(cli.Green, p.Phrase("came through")), time.Duration(one.TookMs*float64(time.Millisecond)).Round(time.Millisecond).String()
			case one.Error != "":
				result = p.Paint(cli.Red, command.Clean(one.Error))
			}
			t.AppendRow([]any{one.Class, result, took})
		}
		t.Render()
	})
	if err == nil && missing > 0 {
		err = command.Exit(command.CodeFailed)
	}
	return err
}

// probing probes now and each time again, until ctx ends.
func (u *upRun) probing(ctx context.Context, env *host.Connection, said *observe.Probe) error {
	p := &probe.Prober{
		Cluster: u.Cluster, Namespace: u.probes.namespace, Classes: u.probes.classes, Kube: env.Kube, Writer: env.Clients.KubeWriter, Stream: env.Stream,
	}
	tick := time.NewTicker(u.probes.every)
	defer tick.Stop()
	for {
		u.probed(ctx, p, said)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// probed probes once.
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
