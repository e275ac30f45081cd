// Package ram is the commands that compare what the controller may do with what it needs.
package ram

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/answer"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/journal"
	"github.com/lbremedy/lbremedy/functions/rampermission"
	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/engine"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/host"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/step"
)

// Command returns the command ram.
func Command(p *cli.Program) *cobra.Command {
	return command.Parent(&cobra.Command{
		Use:   "ram",
		Short: "Compare the permissions of the controller with what it needs",
	}, gapCommand(p))
}

// A Gap is what a release of the controller lacks.
type Gap struct {
	Running  string   `json:"running,omitempty"` // version; empty: not known
	Target   string   `json:"target"`
	Role     string   `json:"role"`
	By       string   `json:"by,omitempty"` // what names the role; empty: the cluster does, as that of its masters
	Needed   int      `json:"needed"`
	Missing  []string `json:"missing"`
	Denied   []string `json:"denied,omitempty"`
	Limited  []string `json:"limited,omitempty"`
	Policy   string   `json:"policy,omitempty"`   // to extend
	Document string   `json:"document,omitempty"` // of it, with the missing actions
	Command  string   `json:"command,omitempty"`  // that adds them in a policy of their own
	Would    []string `json:"would,omitempty"`    // what --apply does
	Ask      string   `json:"ask,omitempty"`      // why it does nothing, and what to do instead
	Note     string   `json:"note,omitempty"`     // how far it can be relied on
}

func gapCommand(p *cli.Program) *cobra.Command {
	var target, file string
	var sure bool
	var a answer.Flags
	cmd := &cobra.Command{
		Use:   "gap",
		Short: "Name the RAM actions that the controller lacks, now or for an upgrade with --target",
		Long: `Name the RAM actions that the controller needs for this cluster and that its RAM role
does not allow, for the running release or for --target. Its role is the one that its
ServiceAccount, its Pods or its add-on names, or else that of the masters. The policy
document with these actions is shown too, and what --apply does, or why it does nothing.

With --apply exactly the missing actions are added, in a new default version of the
policy. You are asked first. The class ram-permission does it, with its guards and under
the policy in force and any pause. The journal records it as a case of the cluster, so
"lbremedy undo" reverts it.

Exit codes: 0 nothing is missing, or it was added; 1 something failed; 2 the usage, the
configuration or the input is wrong, or --apply cannot close this gap; 4 something is
missing. With --apply the codes are those of run.`,
		Example: `  lbremedy ram gap
  lbremedy ram gap --target v2.12.1 -o json
  lbremedy ram gap --target v2.12.1 --apply`,
		Args: command.Exactly(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			var to ccm.Version
			if target != "" {
				var ok bool
				if to, ok = ccm.ParseVersion(target); !ok {
					return command.Wrong("--target: %q is not a release of the controller, such as %s", target, ccm.Newest())
				}
			}
			needs := []doctor.Part{doctor.Services, doctor.Nodes, doctor.Detail, doctor.Controller}
			s, err := p.Gather(ctx, doctor.Source{}, append(needs, doctor.Rights))
			if err != nil {
				return err
			}
			if err := s.Err(needs...); err != nil {
				return err
			}
			v, err := gapOf(s, to)
			if err != nil {
				return err
			}
			if len(v.Missing) == 0 {
				return p.Print(v, func() { reportGap(p, v) })
			}
			env, err := p.Prepare(ctx, file, a.Apply)
			if err != nil {
				return err
			}
			defer cli.Close(env)
			it := answer.ByHand(p, env, rampermission.For(to), s.OfCluster().InJournal(env.Cluster), "the RAM actions that the controller lacks.")
			if a.Apply {
				return add(ctx, p, env, cmp.Or(v.Policy, v.Role), it, a, sure)
			}
			return printGap(ctx, p, env, v, it)
		},
	}
	cmd.Flags().StringVar(&target, "target", "", "`release` to look at instead of the one that runs, such as v2.12.1")
	command.Complete(cmd, "target", cobra.FixedCompletions([]string{ccm.Newest().String()}, cobra.ShellCompDirectiveNoFileComp))
	cmd.Flags().StringVar(&file, "policy", "", "policy instead of the one in force: a `file` or configmap:NAMESPACE/NAME")
	cmd.Flags().BoolVar(&sure, "yes", false, "with --apply: don't ask")
	a.Add(cmd)
	return cmd
}

// gapOf returns the gap of a release; of the one that runs if none is named.
func gapOf(s *doctor.Snapshot, to ccm.Version) (Gap, error) {
	running := s.Controller.Version
	switch {
	case s.Detail.Managed():
		return Gap{}, command.Wrong("the controller of the managed cluster %s uses service roles of Alibaba Cloud: "+
			"authorize them again in the ACK console", s.Cluster)
	case s.Controller.AccessKey:
		return Gap{}, command.Wrong("the controller uses an access key of its own, so the masters' RAM role does not apply")
	case to == ccm.Version{} && running == ccm.Version{}:
		return Gap{}, command.Wrong("the version of the controller could not be determined: name one with --target")
	case to == ccm.Version{}:
		to = running
	}
	if err := s.Err(doctor.Rights); err != nil {
		return Gap{}, err
	}
	role := s.Role
	if doubt := role.Doubt(to); len(doubt) > 0 {
		return Gap{}, command.Wrong("it is not known under which RAM role the controller runs: %s", doubt)
	}
	if role.Name == "" {
		return Gap{}, command.Wrong("the cluster names no RAM role of its masters")
	}
	needs := ccm.Needs(to, ccm.InUse(s.Detail, s.Services, s.Nodes))
	g := role.Lacks(needs)
	v := Gap{Target: to.String(), Role: role.Name, By: role.By.String(), Needed: len(needs), Missing: g.Missing, Denied: g.Denied, Limited: g.Limited}
	if running != (ccm.Version{}) {
		v.Running = running.String()
	}
	if to.TooNew() {
		v.Note = fmt.Sprintf("CCM %s is newer than %s, the newest release whose actions are known here: it may need more.", to, ccm.Newest())
	}
	if v.Missing == nil {
		v.Missing = []string{}
	}
	if len(g.Missing) == 0 {
		return v, nil
	}
	v.Command = ccm.AllowCommand(role.Name, g.Missing).String()
	if extend := role.Extendable(); extend.Name != "" {
		v.Policy = extend.Name
		document, err := ccm.WithActions(extend.Document, g.Missing)
		if err != nil {
			return Gap{}, say.Errorf("read the document of the policy %s: %w", v.Policy, err)
		}
		v.Document = document
	}
	return v, nil
}

// add says what would be added to a policy, asks, and adds it.
func add(ctx context.Context, p *cli.Program, env *host.Connection, policy string, it answer.Item, a answer.Flags, sure bool) error {
	would, err := engine.Look(ctx, env.Env, it.Remedy, it.Event)
	if err != nil {
		return err
	}
	if len(would.Steps) == 0 || would.Steps[0].Kind != (step.PolicyVersion{}).Kind() {
		why := say.F("the missing actions can't be added by a new version of a policy")
		if would.Result != event.Gone { // then nothing was found but that all is well
			said := would.Texts()
			why = say.F("%s.", why).Then(said.Finding).Then(said.Ask)
		}
		return command.Wrong("%s: nothing to do for %s: %s", "ram gap --apply", policy, why.Map(command.Clean))
	}
	if !sure {
		asking := *p
		asking.Out = p.Err // it belongs to the question, and is not the data that is asked for
		journal.Report(&asking, would)
		if err := p.Typed(policy, "--yes"); err != nil {
			return err
		}
	}
	if would.Result == event.Asked && would.Digest != "" {
		// The policy leaves it to a person, and one has just agreed to this plan.
		if err := answer.Agree(ctx, env, would); err != nil {
			return err
		}
	}
	return answer.Failures(ctx, p, env, []answer.Item{it}, a)
}

// printGap prints a gap with what would be done about it. That this can't be determined does not
// hide the gap.
func printGap(ctx context.Context, p *cli.Program, env *host.Connection, v Gap, it answer.Item) error {
	var failed error
	if rec, err := engine.Look(ctx, env.Env, it.Remedy, it.Event); err != nil {
		failed = say.Errorf("what --apply would do: %w", err)
	} else if len(rec.Steps) == 0 {
		v.Ask = strings.TrimSpace(rec.Finding + " " + rec.Ask)
	} else {
		for _, s := range rec.Steps {
			v.Would = append(v.Would, s.Text)
		}
	}
	if err := cmp.Or(p.Print(v, func() { reportGap(p, v) }), failed); err != nil {
		return err
	}
	return command.Exit(cli.CodeWarning)
}

func reportGap(p *cli.Program, v Gap) {
	fmt.Fprintf(p.Out, "%s  CCM %s\n", p.Paint(cli.Bold, command.Clean(v.Role)), v.Target)
	p.Field("Running", v.Running)
	p.Field("Role", v.By)
	p.Field("Needs", say.Count(v.Needed, "action").String())
	p.Field("Note", v.Note)
	if len(v.Missing) == 0 {
		p.Field("Missing", "nothing")
		return
	}
	p.Field("Missing", strings.Join(v.Missing, "\n"))
	p.Field("Denied", strings.Join(v.Denied, "\n"))
	p.Field("Limited", strings.Join(v.Limited, "\n"))
	p.Field("Policy", v.Policy)
	p.Field("Document", v.Document)
	p.Field("By hand", v.Command)
	p.Field("Would", strings.Join(v.Would, "\n"))
	p.Field("Instead", v.Ask)
}
