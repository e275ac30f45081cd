package permission

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/control"
	"github.com/lbremedy/lbremedy/shared/stream"
)

func breaker(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "breaker",
		Short: "List the classes stopped by failed fixes, and re-enable them",
		Long: `A class stops writing after three failed fixes in ten minutes, or one of high risk: its
breaker is open, and its plans need approval until a person closes it.`,
	}
	ls := &cobra.Command{
		Use:   "ls",
		Short: "List the open breakers",
		Args:  command.Exactly(0, 0, ""),
		RunE: p.OnStream(func(ctx context.Context, s *stream.Stream, _ []string) error {
			open, err := control.Breakers(ctx, s, p.Cluster)
			if err != nil {
				return err
			}
			if open == nil {
				open = []control.Breaker{}
			}
			return p.Print(English(open), func() {
				if len(open) == 0 {
					fmt.Fprintln(p.Out, p.Phrase("No breaker is open%s.", cli.InCluster(p.Cluster)))
					return
				}
				t := p.Table("Class", "Cluster", "Since", "Why")
				for _, b := range open {
					t.AppendRow([]any{b.Class, b.Cluster, cli.Clock(b.At), command.Clean(b.Why.String())})
				}
				t.Render()
			})
		}),
	}
	shut := &cobra.Command{
		Use:               "close CLASS",
		Short:             "Re-enable a class",
		Long:              `Re-enable a class in one cluster: that of --cluster, or else the only one that NATS knows.`,
		Example:           `  lbremedy breaker close tag-missing --cluster c1234`,
		Args:              command.Exactly(1, 1, "a class"),
		ValidArgsFunction: p.CompleteClasses,
		RunE: p.OnStream(func(ctx context.Context, s *stream.Stream, args []string) error {
			if _, err := p.ClassOf(args[0]); err != nil {
				return err
			}
			cluster, err := p.OneCluster(ctx, s)
			if err != nil {
				return err
			}
			if err := cli.KnownCluster(ctx, s, cluster); err != nil {
				return err
			}
			open, err := control.Breakers(ctx, s, cluster)
			if err != nil {
				return err
			}
			closed := []control.Breaker{}
			for _, b := range open {
				if b.Class != args[0] && b.Class != control.AnyClass {
					continue
				}
				was, err := control.CloseBreaker(ctx, s, b.Cluster, b.Class)
				if err != nil {
					return err
				}
				if was {
					closed = append(closed, b)
				}
			}
			return p.Print(English(closed), func() {
				if len(closed) == 0 {
					fmt.Fprintln(p.Out, p.Phrase("The breaker of %s is not open%s.", args[0], cli.InCluster(cluster)))
				}
				for _, b := range closed {
					fmt.Fprintln(p.Out, p.Phrase("%s may write again in cluster %s. Its breaker was open since %s: %s",
						b.Class, b.Cluster, cli.Clock(b.At), command.Clean(b.Why.String())))
				}
			})
		}),
	}
	return command.Parent(cmd, ls, shut)
}

// English returns breakers in their JSON form.
func English(list []control.Breaker) []control.Breaker {
	list = slices.Clone(list)
	for i := range list {
		list[i] = list[i].In(nil)
	}
	return list
}
