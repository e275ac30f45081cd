package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/stream"
)

func (p *program) deadDrop() *cobra.Command {
	var c choice
	var yes bool
	cmd := &cobra.Command{
		Use:   "drop [ID]...",
		Short: "Remove dead letters; asks first, unless --yes",
		Long: `Remove dead letters for good, without anybody answering them. It asks first, unless
--yes is given. What is not there any more is no error.`,
		Example: `  lbremedy dead drop 17 18
  lbremedy dead drop --reason "is not a UUID" --yes`,
		ValidArgsFunction: p.completeLetters,
		RunE: func(cmd *cobra.Command, args []string) error {
			ask := func(n int) error {
				if yes {
					return nil
				}
				return p.agree(fmt.Sprintf("Remove %d dead letters for good?", n))
			}
			return p.settleLetters(cmd, &c, args, ask, drop)
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
		return fate{l.ID, letterGone, "Somebody else was first."}, nil
	}
	return fate{l.ID, letterDropped, ""}, nil
}

// agree asks a person, and returns nil if the answer is yes.
func (p *program) agree(question string) error {
	fmt.Fprint(p.err, question+" [y/N] ")
	answer, err := bufio.NewReader(p.in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read the answer: %w", err)
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	case "":
		fmt.Fprintln(p.err)
		return command.Wrong("nothing was removed, since nobody agreed: answer y, or give --yes")
	}
	return command.Wrong("nothing was removed, since the answer was not y")
}
