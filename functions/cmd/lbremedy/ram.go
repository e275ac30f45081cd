package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lbremedy/lbremedy/shared/checkup"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/remedy"
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
}

func (p *program) ramGap() *cobra.Command {
	var target string
	cmd := &cobra.Command{
		Use:   "gap",
		Short: "Name the RAM actions that a release of the controller lacks; before an upgrade with --target",
		Long: `Name the RAM actions that the controller needs for what the cluster uses and that the
RAM role of the masters does not allow, for the release that runs or for --target; and
the document of the policy with them. It only looks: what a running controller lacks,
the class ram-permission adds, and what an upgrade will need a person decides.

Exit codes: 0 nothing is missing; 1 something failed; 2 the usage, the configuration or
the input is wrong; 4 something is missing.`,
		Example: `  lbremedy ram gap
  lbremedy ram gap --target v2.12.1 -o json`,
		Args: command.Exactly(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var to remedy.Version
			if target != "" {
				var ok bool
				if to, ok = remedy.ParseVersion(target); !ok {
					return command.Wrong("--target: %q is no release of the controller, such as %s", target, remedy.Newest())
				}
			}
			needs := []checkup.Part{checkup.Services, checkup.Detail, checkup.Controller}
			s, err := p.readParts(cmd.Context(), "", append(needs, checkup.Rights))
			if err != nil {
				return err
			}
			if err := s.Err(needs...); err != nil {
				return err
			}
			return p.gap(s, to)
		},
	}
	cmd.Flags().StringVar(&target, "target", "", "`release` to look at instead of the one that runs, such as v2.12.1")
	return cmd
}

// gap prints the gap of a release.
func (p *program) gap(s *checkup.Snapshot, to remedy.Version) error {
	running := s.Controller.Version
	switch {
	case s.Detail.Managed():
		return command.Wrong("the controller of the managed cluster %s runs under service roles that Alibaba Cloud keeps: what is missing there, authorise again in the ACK console", s.Cluster)
	case s.Controller.AccessKey:
		return command.Wrong("the controller signs with an access key of its own: the masters' RAM role does not count")
	case to == remedy.Version{} && running == remedy.Version{}:
		return command.Wrong("the version of the controller can't be told: name one with --target")
	case to == remedy.Version{}:
		to = running
	}
	if err := s.Err(checkup.Rights); err != nil {
		return err
	}
	g := s.Gap(to)
	if g.Role == "" {
		return command.Wrong("the cluster names no RAM role of its masters")
	}
	v := ramGap{Target: to.String(), Role: g.Role, Needed: g.Needed, Missing: g.Missing, Denied: g.Denied, Limited: g.Limited}
	if running != (remedy.Version{}) {
		v.Running = running.String()
	}
	if v.Missing == nil {
		v.Missing = []string{}
	}
	if len(g.Missing) > 0 {
		v.Command = remedy.AllowCommand(g.Role, g.Missing)
		if v.Policy = g.Policy.Name; v.Policy != "" {
			document, err := remedy.WithActions(g.Policy.Document, g.Missing)
			if err != nil {
				return fmt.Errorf("read the document of the policy %s: %w", v.Policy, err)
			}
			v.Document = document
		}
	}
	if err := p.print(v, func() { p.ramGapReport(v) }); err != nil {
		return err
	}
	if len(v.Missing) > 0 {
		return command.Exit(codeWarning)
	}
	return nil
}

func (p *program) ramGapReport(v ramGap) {
	fmt.Fprintf(p.out, "%s  CCM %s\n", p.paint(bold, command.Clean(v.Role)), v.Target)
	p.field("Running", v.Running)
	p.field("Needs", remedy.Count(v.Needed, "action"))
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
}
