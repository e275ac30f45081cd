package permission

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/engine/control"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/stream"
)

func pause(p *cli.Program) *cobra.Command {
	var by, why string
	var here, replace bool
	cmd := &cobra.Command{
		Use:   "pause",
		Short: "Stop every step that has not started",
		Long: `Stop every step that has not started, in all workers and functions that use this NATS,
for all clusters or, with --this-cluster, for one. Failures are still received and
diagnosed, but plans wait until "lbremedy resume". A step in progress finishes.

If there already is a pause of the same clusters, it stays, and the command says whose it
is. --replace puts yours in its place.`,
		Example: `  lbremedy pause --why 'network change tonight'
  lbremedy pause --this-cluster --cluster c1234`,
		Args: command.Exactly(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			if by == "" {
				return command.Wrong("--by: name a person: the user of this machine is not known")
			}
			cluster, err := only(p, here)
			if err != nil {
				return err
			}
			s, err := p.Stream(ctx)
			if err != nil {
				return err
			}
			defer s.Close()
			if err := cli.KnownCluster(ctx, s, cluster); err != nil {
				return err
			}
			who := p.Person(ctx, by)
			one := control.Pause{Cluster: cluster, By: by, At: p.Now(), Why: why, Identity: who.Identity, Host: who.Host}
			all, err := setPause(ctx, p, s, one, replace)
			if err != nil {
				return err
			}
			return p.Print(all, func() { pauses(p, all) })
		},
	}
	cmd.Flags().StringVar(&by, "by", cli.Whoami(), "`who` pauses")
	cmd.Flags().StringVar(&why, "why", "", "the `reason`, shown to other users")
	cmd.Flags().BoolVar(&here, "this-cluster", false, "only for the cluster that --cluster names")
	cmd.Flags().BoolVar(&replace, "replace", false, "replace a pause of the same clusters")
	return cmd
}

// setPause puts a pause in force, says whose stands in its place or whose it replaces, and
// returns all pauses.
func setPause(ctx context.Context, p *cli.Program, s *stream.Stream, mine control.Pause, replace bool) ([]control.Pause, error) {
	same := func(one control.Pause) bool { return one.Cluster == mine.Cluster }
	before, err := control.Pauses(ctx, s)
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(before, same); i >= 0 && replace {
		if err := control.SetPause(ctx, s, mine, true); err != nil {
			return nil, err
		}
		p.Note("Replaced. %s", cli.PauseLine(before[i]))
	} else if err := control.SetPause(ctx, s, mine, false); err != nil {
		return nil, err
	}
	all, err := control.Pauses(ctx, s)
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(all, same); i >= 0 && !all[i].At.Equal(mine.At) {
		p.Note("Already paused, and this pause stays; --replace puts yours in its place. %s", cli.PauseLine(all[i]))
	}
	return all, nil
}

func resume(p *cli.Program) *cobra.Command {
	var here, every bool
	cmd := &cobra.Command{
		Use:   "resume",
		Short: "End the pause, or all pauses",
		Long: `End the pause that is in force, and say whose it was. Waiting cases are diagnosed again
within seconds; no plan from before the pause is applied.

If several pauses are in force, or one of another cluster than --cluster names, the
command asks first, or wants --all. --this-cluster ends only the pause of that cluster.`,
		Args: command.Exactly(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			cluster, err := only(p, here)
			if err != nil {
				return err
			}
			if here && every {
				return command.Wrong("--all and --this-cluster contradict each other: give one")
			}
			s, err := p.Stream(ctx)
			if err != nil {
				return err
			}
			defer s.Close()
			all, err := control.Pauses(ctx, s)
			if err != nil {
				return err
			}
			end, remain := all, []control.Pause{}
			if here {
				end = slices.DeleteFunc(slices.Clone(all), func(one control.Pause) bool { return one.Cluster != cluster })
				remain = slices.DeleteFunc(slices.Clone(all), func(one control.Pause) bool { return one.Cluster == cluster })
				if len(end) == 0 {
					if err := cli.KnownCluster(ctx, s, cluster); err != nil {
						return err
					}
				}
			} else if !every {
				if err := agreeToEnd(p, all); err != nil {
					return err
				}
			}
			ended := []control.Pause{}
			for _, one := range end {
				if _, err := control.Resume(ctx, s, one.Cluster); err != nil {
					return err
				}
				ended = append(ended, one)
			}
			return p.Print(map[string][]control.Pause{"ended": ended, "remain": remain}, func() {
				if len(ended) == 0 {
					fmt.Fprintln(p.Out, p.Phrase("There was no pause to end."))
				}
				for _, one := range ended {
					fmt.Fprintln(p.Out, p.Phrase("Ended. %s", cli.PauseLine(one)))
				}
				for _, one := range remain {
					fmt.Fprintln(p.Out, p.Phrase("Still in force. %s", cli.PauseLine(one)))
				}
			})
		},
	}
	cmd.Flags().BoolVar(&here, "this-cluster", false, "only that of the cluster that --cluster names")
	cmd.Flags().BoolVar(&every, "all", false, "all pauses, without a question")
	return cmd
}

// agreeToEnd returns nil if it is clear that these pauses are to end, or a person says so.
func agreeToEnd(p *cli.Program, all []control.Pause) error {
	foreign := len(all) == 1 && all[0].Cluster != "" && p.Cluster != "" && all[0].Cluster != p.Cluster
	if len(all) == 0 || len(all) == 1 && !foreign {
		return nil
	}
	for _, one := range all {
		p.Note("In force. %s", cli.PauseLine(one))
	}
	if p.Terminal(p.In) > 0 {
		return p.Confirm(p.Phrase("End %s?", countPauses(len(all))), say.F("every pause stays in force"), "--all")
	}
	if foreign {
		return command.Wrong("the pause is of cluster %s and not of %s: name its cluster, or give --all", all[0].Cluster, p.Cluster)
	}
	return command.Wrong("%s are in force: give --all to end all of them, or --this-cluster with --cluster for one", countPauses(len(all)))
}

func countPauses(n int) say.Text {
	if n == 1 {
		return say.F("this pause")
	}
	return say.F("%d pauses", n)
}

// only returns the cluster that is meant alone; empty: all are.
func only(p *cli.Program, here bool) (string, error) {
	if here && p.Cluster == "" {
		return "", command.Wrong("--this-cluster: no cluster is named: set --cluster or LBREMEDY_CLUSTER")
	}
	if !here {
		return "", nil
	}
	return p.Cluster, nil
}

// pauses prints the pauses that are in force.
func pauses(p *cli.Program, all []control.Pause) {
	for _, one := range all {
		fmt.Fprintln(p.Out, p.Tell(cli.PauseLine(one)))
	}
}
