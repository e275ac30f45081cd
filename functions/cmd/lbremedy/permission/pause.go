package permission

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/control"
)

func pause(p *cli.Program) *cobra.Command {
	var by, why string
	var here bool
	cmd := &cobra.Command{
		Use:   "pause",
		Short: "Stop every step that has not started",
		Long: `Stop every step that has not started, in all workers and functions that use this NATS,
for all clusters or, with --this-cluster, for one. Failures are still received and
diagnosed, but plans wait until "lbremedy resume". A step in progress finishes.

If there already is a pause of the same clusters, it stays, and the command says whose it
is.`,
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
			if err := control.SetPause(ctx, s, one, false); err != nil {
				return err
			}
			all, err := control.Pauses(ctx, s)
			if err != nil {
				return err
			}
			if i := slices.IndexFunc(all, func(is control.Pause) bool { return is.Cluster == one.Cluster }); i >= 0 && !all[i].At.Equal(one.At) {
				p.Note("Already paused, and this pause stays. %s", cli.PauseLine(all[i]))
			}
			return p.Print(all, func() { pauses(p, all) })
		},
	}
	cmd.Flags().StringVar(&by, "by", cli.Whoami(), "`who` pauses")
	cmd.Flags().StringVar(&why, "why", "", "the `reason`, shown to other users")
	cmd.Flags().BoolVar(&here, "this-cluster", false, "only for the cluster that --cluster names")
	return cmd
}

func resume(p *cli.Program) *cobra.Command {
	var here, every bool
	cmd := &cobra.Command{
		Use:   "resume",
		Short: "End the pause, or all pauses",
		Long: `End the pause that is in force, and say whose it was. Waiting cases are diagnosed again
within seconds; no plan from before the pause is applied.

If several pauses are in force, or one of another cluster than --cluster names, the
command wants --all. --this-cluster ends only the pause of that cluster.`,
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
				if err := meant(p, all); err != nil {
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
	cmd.Flags().BoolVar(&every, "all", false, "all pauses")
	return cmd
}

// meant refuses to end pauses of which it is not clear that they are to end.
func meant(p *cli.Program, all []control.Pause) error {
	foreign := len(all) == 1 && all[0].Cluster != "" && p.Cluster != "" && all[0].Cluster != p.Cluster
	if len(all) == 0 || len(all) == 1 && !foreign {
		return nil
	}
	for _, one := range all {
		p.Note("In force. %s", cli.PauseLine(one))
	}
	if foreign {
		return command.Wrong("the pause is of cluster %s and not of %s: name its cluster, or give --all", all[0].Cluster, p.Cluster)
	}
	return command.Wrong("%d pauses are in force: give --all to end all of them, or --this-cluster with --cluster for one", len(all))
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
