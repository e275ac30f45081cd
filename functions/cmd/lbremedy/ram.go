package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lbremedy/lbremedy/functions/rampermission"
	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/engine"
	"github.com/lbremedy/lbremedy/shared/step"
)

func (p *program) ram() *cobra.Command {
	return command.Parent(&cobra.Command{
		Use:   "ram",
		Short: "Compare what the controller may do with what it needs",
	}, p.ramGap())
}

// A ramGap is what a release of the controller lacks.
type ramGap struct {
	Running  string   `json:"running,omitempty"` // version; empty: not known
	Target   string   `json:"target"`
	Role     string   `json:"role"`
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

func (p *program) ramGap() *cobra.Command {
	var target, file string
	var sure bool
	var a answering
	cmd := &cobra.Command{
		Use:   "gap",
		Short: "Name the RAM actions that a release of the controller lacks; before an upgrade with --target",
		Long: `Name the RAM actions that the controller needs for what the cluster uses and that the
RAM role of the masters does not allow, for the release that runs or for --target; the
document of the policy with them; and what --apply does, or why it does nothing.

With --apply exactly the missing actions are added, in a new default version of the
policy. You are asked first. It is done as the class ram-permission does it, with its
guards, under the policy in force and a pause, and stands in the journal as a case of
the cluster, so that "lbremedy undo" takes it back.

Exit codes: 0 nothing is missing, or it was added; 1 something failed; 2 the usage, the
configuration or the input is wrong, or --apply is not for this gap; 4 something is
missing; with --apply as those of run.`,
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
					return command.Wrong("--target: %q is no release of the controller, such as %s", target, ccm.Newest())
				}
			}
			needs := []doctor.Part{doctor.Services, doctor.Detail, doctor.Controller}
			s, err := p.readParts(ctx, doctor.Source{}, append(needs, doctor.Rights))
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
				return p.print(v, func() { p.ramGapReport(v) })
			}
			env, err := p.fixing(ctx, examining{policy: file, answering: a})
			if err != nil {
				return err
			}
			if env.Stream != nil {
				defer env.Stream.Close()
			}
			it := p.byHand(env, rampermission.For(to), s.OfCluster().InJournal(env.Cluster), "the RAM actions that the controller lacks.")
			if a.apply {
				return p.mended(ctx, env, mending{
					use: "ram gap --apply", kinds: []string{step.PolicyVersion{}.Kind()}, otherwise: "the missing actions can't be added by a new version of a policy", name: cmp.Or(v.Policy, v.Role),
				}, it, a, sure)
			}
			return p.gap(ctx, env, v, it)
		},
	}
	cmd.Flags().StringVar(&target, "target", "", "`release` to look at instead of the one that runs, such as v2.12.1")
	command.Complete(cmd, "target", cobra.FixedCompletions([]string{ccm.Newest().String()}, cobra.ShellCompDirectiveNoFileComp))
	cmd.Flags().StringVar(&file, "policy", "", "policy `file` instead of the policy in force")
	cmd.Flags().BoolVar(&sure, "yes", false, "with --apply: don't ask")
	a.flags(cmd)
	return cmd
}

// gapOf returns the gap of a release; of the one that runs if none is named.
func gapOf(s *doctor.Snapshot, to ccm.Version) (ramGap, error) {
	running := s.Controller.Version
	switch {
	case s.Detail.Managed():
		return ramGap{}, command.Wrong("the controller of the managed cluster %s runs under service roles that Alibaba Cloud keeps: what is missing there, authorise again in the ACK console", s.Cluster)
	case s.Controller.AccessKey:
		return ramGap{}, command.Wrong("the controller signs with an access key of its own: the masters' RAM role does not count")
	case to == ccm.Version{} && running == ccm.Version{}:
		return ramGap{}, command.Wrong("the version of the controller can't be told: name one with --target")
	case to == ccm.Version{}:
		to = running
	}
	if err := s.Err(doctor.Rights); err != nil {
		return ramGap{}, err
	}
	role := s.Role
	if role.Name == "" {
		return ramGap{}, command.Wrong("the cluster names no RAM role of its masters")
	}
	needs := ccm.Needs(to, ccm.InUse(s.Detail, s.Services))
	g := role.Lacks(needs)
	v := ramGap{Target: to.String(), Role: role.Name, Needed: len(needs), Missing: g.Missing, Denied: g.Denied, Limited: g.Limited}
	if running != (ccm.Version{}) {
		v.Running = running.String()
	}
	if ccm.Newest().Before(to) {
		v.Note = fmt.Sprintf("CCM %s is newer than %s, the newest release whose actions are known here: it may need more.", to, ccm.Newest())
	}
	if v.Missing == nil {
		v.Missing = []string{}
	}
	if len(g.Missing) == 0 {
		return v, nil
	}
	v.Command = ccm.AllowCommand(role.Name, g.Missing)
	if extend := role.Extendable(); extend.Name != "" {
		v.Policy = extend.Name
		document, err := ccm.WithActions(extend.Document, g.Missing)
		if err != nil {
			return ramGap{}, fmt.Errorf("read the document of the policy %s: %w", v.Policy, err)
		}
		v.Document = document
	}
	return v, nil
}

// gap prints a gap with what would be done about it. That this can't be told does not
// hide the gap.
func (p *program) gap(ctx context.Context, env *engine.Env, v ramGap, it item) error {
	var failed error
	if rec, err := engine.Look(ctx, env, it.remedy, it.event); err != nil {
		failed = fmt.Errorf("what --apply would do: %w", err)
	} else if len(rec.Steps) == 0 {
		v.Ask = strings.TrimSpace(rec.Finding + " " + rec.Ask)
	} else {
		for _, s := range rec.Steps {
			v.Would = append(v.Would, s.Text)
		}
	}
	if err := cmp.Or(p.print(v, func() { p.ramGapReport(v) }), failed); err != nil {
		return err
	}
	return command.Exit(codeWarning)
}

func (p *program) ramGapReport(v ramGap) {
	fmt.Fprintf(p.out, "%s  CCM %s\n", p.paint(bold, command.Clean(v.Role)), v.Target)
	p.field("Running", v.Running)
	p.field("Needs", ccm.Count(v.Needed, "action"))
	p.field("Note", v.Note)
	if len(v.Missing) == 0 {
		p.field("Missing", "nothing")
		return
	}
	p.field("Missing", strings.Join(v.Missing, "\n"))
	p.field("Denied", strings.Join(v.Denied, "\n"))
	p.field("Limited", strings.Join(v.Limited, "\n"))
	p.field("Policy", v.Policy)
	p.field("Document", v.Document)
	p.field("By hand", v.Command)
	p.field("Would", strings.Join(v.Would, "\n"))
	p.field("Instead", v.Ask)
}
