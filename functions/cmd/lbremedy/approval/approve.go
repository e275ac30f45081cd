// Package approval is the commands by which a person decides on one case: "approve" agrees
// to its plan, and "undo" takes back what was done.
package approval

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/journal"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/engine"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/stream"
)

// Commands returns the commands of this package.
func Commands(p *cli.Program) []*cobra.Command {
	return []*cobra.Command{approve(p), undo(p)}
}

func approve(p *cli.Program) *cobra.Command {
	var life time.Duration
	var by, digest string
	cmd := &cobra.Command{
		Use:   "approve CASE|NAMESPACE/SERVICE",
		Short: "Approve the plan of a case that needs approval",
		Long: `Approve the plan of a case that needs approval. The running worker or function diagnoses
the failure again, and applies the plan once if it is still the same. A plan that has
changed needs a new approval. An approval overrides risk, budgets and breakers, but not
a pause, a freeze or the limit of attempts.

Name a case by its ID or the start of it, or a Service of which one case waits for an
approval.

NATS permissions on the keys that begin with approval decide who may approve. The
journal records who did: --as, by default the user of this machine, the name of this
machine, and the user by which the cluster of the kubeconfig knows you.`,
		Example: `  lbremedy approve shop/web
  lbremedy approve 3f9a12bc --digest 0f8e… --for 2h`,
		Args:              command.Exactly(1, 1, "a case ID or NAMESPACE/SERVICE"),
		ValidArgsFunction: waiting.Complete(p),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			if life < time.Minute || life > 30*24*time.Hour {
				return command.Wrong("--for: %s is not between a minute and 30 days", life)
			}
			if by == "" {
				return command.Wrong("--as: name a person: the user of this machine is not known")
			}
			s, err := p.CaseStream(ctx)
			if err != nil {
				return err
			}
			defer s.Close()
			h, err := waiting.Single(ctx, p, s, args[0])
			if err != nil {
				return err
			}
			r := h.Last()
			if digest != "" && !strings.HasPrefix(r.Digest, digest) {
				return command.Wrong("the plan of case %s is %s now: look at it again with \"lbremedy show %s\"", r.Case, r.Digest, r.Case)
			}
			check, finding := strings.CutPrefix(r.Class, doctor.ClassPrefix)
			if finding && (r.Service.Kind != "" || len(r.Steps) == 0) {
				return command.Wrong("case %s is a finding of the doctor without a plan to approve: \"lbremedy show %s\" says what to do", r.Case, r.Case)
			}
			if !finding && r.Service.Kind != "" {
				return command.Wrong("case %s was started by hand, and no failure repeats it: run \"lbremedy ram gap --apply\" again", r.Case)
			}
			a, err := engine.Approve(ctx, s, r, p.Person(ctx, by), p.Now(), life)
			if err != nil {
				return command.Mistake{Err: err}
			}
			if finding { // no event brings it again
				return p.Print(a, func() {
					fmt.Fprintf(p.Out, "%s approved the plan %s of %s, until %s.\n", command.Clean(a.By), a.Digest, a.Case, cli.Clock(a.Until))
					p.Note("To apply it if it is still the same: lbremedy doctor --fix %s %s --apply", check, r.Service)
				})
			}
			if err := deliver(ctx, s, r, "approval."+a.At.Format(time.RFC3339Nano)); err != nil {
				return err
			}
			return p.Print(a, func() {
				fmt.Fprintf(p.Out, "%s approved the plan %s of %s, until %s.\n", command.Clean(a.By), a.Digest, a.Case, cli.Clock(a.Until))
				p.Note("It is diagnosed again, and applied if it is still the same: see lbremedy show %s.", a.Case)
			})
		},
	}
	cmd.Flags().DurationVar(&life, "for", engine.ApprovalLife, "how `long` the approval is valid if the plan can't be applied at once")
	cmd.Flags().StringVar(&by, "as", cli.Whoami(), "`who` approves, for the journal")
	cmd.Flags().StringVar(&digest, "digest", "", "approve only the plan with this `digest`, or one that starts with it")
	return cmd
}

// waiting are the cases whose plan waits for an approval.
var waiting = journal.Want{What: "waits for an approval", Is: func(h journal.History) bool {
	r := h.Last()
	return r.Phase == event.Settled && r.Result == event.Asked && r.Digest != "" && len(r.Steps) > 0
}}

// deliver has the failure of a case delivered again, as it was kept.
func deliver(ctx context.Context, s *stream.Stream, r event.Record, id string) error {
	subject := event.FailedSubject(r.Cluster, r.Class, r.Service.UID)
	kept, err := s.Last(ctx, stream.Failed, subject)
	if errors.Is(err, stream.ErrNotFound) {
		return command.Wrong("the failure of case %s is no longer stored and has not returned: there is nothing to apply the plan to", r.Case)
	}
	if err != nil {
		return err
	}
	// A newer occurrence that comes meanwhile is delivered by itself.
	_, _, err = s.PublishNewer(ctx, subject, id, kept.Header, kept.Data, func(m stream.Message) bool { return m.Sequence == kept.Sequence })
	return err
}
