package deadletter

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/stream"
)

func dropCommand(p *cli.Program) *cobra.Command {
	var c choice
	var yes bool
	cmd := &cobra.Command{
		Use:   "drop [ID]...",
		Short: "Remove dead letters; asks first, unless --yes",
		Long: `Remove dead letters for good, without handling them. It asks first, unless --yes is
given. A letter that is already gone is not an error.`,
		Example: `  lbremedy dead drop 17 18
  lbremedy dead drop --reason "is not a UUID" --yes`,
		ValidArgsFunction: completeLetters(p),
		RunE: func(cmd *cobra.Command, args []string) error {
			ask := func(n int) error {
				if yes {
					return nil
				}
				return p.Agree(p.Phrase("Remove %d dead letters for good?", n))
			}
			return settleLetters(p, cmd, &c, args, ask, drop)
		},
	}
	c.flags(cmd)
	cmd.Flags().BoolVar(&c.all, "all", false, "all dead letters")
	cmd.Flags().BoolVar(&yes, "yes", false, "don't ask")
	return cmd
}

func drop(ctx context.Context, s *stream.Stream, l letter) (fate, error) {
	removed, err := s.Remove(ctx, stream.Dead, l.ID)
	switch {
	case err != nil:
		return fate{}, err
	case !removed:
		return became(l.ID, letterGone, say.F("It was already removed.")), nil
	}
	return became(l.ID, letterDropped, nil), nil
}
