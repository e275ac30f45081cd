package status

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/permission"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/host"
	"github.com/lbremedy/lbremedy/shared/policy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/stream"
)

// A Check is one condition for installing lbremedy, or for letting it fix.
type Check struct {
	Check  string  `json:"check"`
	Result Verdict `json:"result"` // ok, problem or unknown
	Text   string  `json:"text"`
	Do     string  `json:"do,omitempty"` // what to do about it
	text   say.Text
	do     say.Text
}

var needed = []doctor.Part{doctor.Services, doctor.Detail, doctor.Controller, doctor.CLBs, doctor.NLBs, doctor.VSwitches, doctor.Quotas}

func preflight(p *cli.Program) *cobra.Command {
	var f flight
	cmd := &cobra.Command{
		Use:   "preflight",
		Short: "Check what must hold before lbremedy is installed or may fix",
		Long: `Check what must hold before lbremedy is installed: access to the cluster, to Alibaba Cloud
and to NATS, the rights in Kubernetes and in RAM that the classes declare, storage, clocks,
quotas, the controller and the policy. With --fix-mode also what fix mode needs. Nothing is
written.

It checks the rights of the user that runs it: use the kubeconfig and the access key that
lbremedy will have.

With --running only one thing is checked: that the lbremedy whose health endpoints are at URL is
ready and knows its state. "helm test" runs it in a Pod.

Exit codes: 0 all is well; 1 there is a problem, or something is unknown; 2 the usage or
the configuration is wrong.`,
		Example: `  lbremedy preflight
  lbremedy preflight --fix-mode --policy fix.yaml
  lbremedy preflight -o json | jq -r '.[] | select(.result != "ok") | .do'`,
		Args: command.Exactly(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.Program, f.checks = p, nil
			if err := f.run(cmd.Context()); err != nil {
				return err
			}
			bad := 0
			for _, c := range f.checks {
				if c.Result != Well {
					bad++
				}
			}
			if err := p.Print(f.checks, func() { f.show(bad) }); err != nil {
				return err
			}
			if bad > 0 {
				return command.Exit(command.CodeFailed)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&f.fix, "fix-mode", false, "also check what fix mode needs")
	cmd.Flags().StringVar(&f.file, "policy", "", "policy that is to come into force: a `file` or configmap:NAMESPACE/NAME")
	cmd.Flags().StringVar(&f.running, "running", "", "check only the lbremedy that serves /readyz and /metrics at this `URL`, and --approvals")
	cmd.Flags().BoolVar(&f.answers, "approvals", false, "a cluster in which nobody can approve is a problem")
	return cmd
}

type flight struct {
	*cli.Program
	fix     bool
	file    string // with the policy; empty: none
	running string // URL of the only program to check; empty: everything else is checked
	answers bool   // the cluster must have Approvals
	checks  []Check

	env    *host.Connection
	snap   *doctor.Snapshot
	clocks clocks
	reach  reach
}

func (f *flight) add(name string, c Check) (well bool) {
	c.text = c.text.Map(func(s string) string { return strings.Join(strings.Fields(command.Clean(event.Redact(s))), " ") })
	c.Check, c.Text, c.Do = name, cli.Capital(c.text.String()), c.do.String()
	f.checks = append(f.checks, c)
	return c.Result == Well
}

func result(r Verdict, text, do say.Text) Check { return Check{Result: r, text: text, do: do} }

func well(text say.Text) Check { return result(Well, text, nil) }

func sentence(err error) say.Text {
	return say.F("%s.", say.Of(err).Map(func(s string) string { return strings.TrimRight(strings.Join(strings.Fields(s), " "), ".") }))
}

// run makes all checks. It returns mistakes of the caller, and the error of an ended context.
func (f *flight) run(ctx context.Context) error {
	c := f.Host()
	if err := c.Validate(); err != nil {
		return command.Mistake{Err: err}
	}
	if f.running != "" && (f.fix || f.file != "") {
		return command.Wrong("--running checks a running lbremedy: leave out --fix-mode and --policy")
	}
	if f.running != "" {
		return f.installed(ctx, c)
	}
	g := f.Progress()
	defer g.Done()
	f.reach.now = f.Now
	var err error
	if f.env, err = prepare(f.Program, c, f.reach.met); err != nil {
		return err
	}
	g.Say("asking the API server")
	up := f.add("kubernetes", f.kubernetes(ctx))
	g.Say("reading the cluster and the account")
	if f.snap, _, err = doctor.Gather(ctx, f.Source(f.env, g), needed); err != nil {
		return err
	}
	f.add("cloud", f.cloud(ctx))
	if up {
		g.Say("asking for rights in Kubernetes")
		f.add("rights", f.rights(ctx))
	} else {
		f.add("rights", result(Unknown, say.F("The API server cannot be asked for the rights in Kubernetes."),
			say.F("Correct the access to the cluster first.")))
	}
	g.Say("reading the rights in RAM")
	f.add("ram", f.ram(ctx))
	g.Say("asking NATS")
	f.nats(ctx)
	f.add("clock", f.clock())
	f.add("quotas", f.quotas(ctx))
	f.add("controller", f.controller())
	if up {
		f.add("approvals", f.approvals(ctx))
	}
	if f.fix {
		f.add("admission", f.admission(ctx))
	}
	return ctx.Err()
}

// installed checks a lbremedy that runs. The error is a mistake of the caller, or an ended context.
func (f *flight) installed(ctx context.Context, c host.Config) (err error) {
	if u, err := url.Parse(f.running); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return command.Wrong("%q is not a URL such as http://127.0.0.1:9000", f.running)
	}
	f.add("running", f.runs(ctx))
	if f.answers {
		if f.env, err = prepare(f.Program, c, nil); err != nil {
			return err
		}
		f.add("approvals", f.approvals(ctx))
	}
	return ctx.Err()
}

func prepare(p *cli.Program, c host.Config, meter meter) (*host.Connection, error) {
	c.Credentials, c.Meter = p.Keys, meter
	env, err := host.ConnectReads(c)
	if err != nil {
		return nil, command.Mistake{Err: err}
	}
	return env, nil
}

func (f *flight) show(bad int) {
	colours := map[Verdict]cli.Colour{Well: cli.Green, Problem: cli.Red, Unknown: cli.Yellow}
	const column = 22 // column of the text
	for _, c := range f.checks {
		text := cli.Capital(f.Tell(c.text))
		if c.do != nil {
			text += "\n" + f.Tell(c.do)
		}
		lines := cli.Wrap(text, strings.Repeat(" ", column), wide)
		fmt.Fprintf(f.Out, "%s%s%-12s %s", f.Paint(colours[c.Result], string(c.Result)), strings.Repeat(" ", 9-len(c.Result)), c.Check, lines[column:])
	}
	if bad == 0 {
		fmt.Fprintln(f.Out, f.Paint(cli.Green, f.Phrase("All checks are ok. Nothing was written.")))
		return
	}
	fmt.Fprintln(f.Out, f.Paint(cli.Red, f.Phrase("%d of %d checks failed. Nothing was written.", bad, len(f.checks))))
}

// policy checks the policy of --policy, otherwise the one in force; s is nil if it can't be read.
func (f *flight) policy(ctx context.Context, s *stream.Stream) {
	var now policy.Version
	var told policy.InForce
	var err error
	from := say.F("in force")
	switch {
	case f.file != "":
		from = say.F("in %s", f.file)
		now, err = f.ReadPolicy(ctx, f.file)
	case s != nil:
		now, told, err = f.InForce(ctx, s, f.Cluster)
	case f.fix:
		f.add("policy", result(Problem, say.F("No policy is known, so lbremedy would only observe."),
			say.F("Name the policy with --policy, or the NATS of the engine that uses it.")))
		return
	default:
		return
	}
	c := result(Well, say.F("The policy %s says: %s.", from, permission.Describe(now.Policy)), nil)
	switch {
	case err != nil && f.file != "":
		c = result(Problem, sentence(err), say.F("Correct it, or allow to read it: lbremedy policy check %s", f.file))
	case told.Wrong != "":
		c = result(Problem, sentence(err), say.F("Correct the policy, or let the engine read it. It goes on by itself then."))
	case err != nil:
		c = result(Unknown, sentence(err), say.F("Make sure that the user of NATS may read the policy."))
	case f.fix && !permission.Fixes(now.Policy):
		c = result(Problem, say.F("The policy %s lets nothing be fixed: it only observes.", from), say.F("Set mode: fix, for all or for some classes or rules."))
	}
	f.add("policy", c)
}
