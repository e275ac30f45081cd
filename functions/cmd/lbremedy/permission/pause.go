package permission

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/engine"
)

func pause(p *cli.Program) *cobra.Command {
	var by, why string
	var here bool
	cmd := &cobra.Command{
		Use:   "pause",
		Short: "Stop every step that has not started",
		Long: `Stop every step that has not started, in all workers and functions that use this NATS,
for all clusters or, with --this-cluster, for one. Failures are still received and
diagnosed, but plans wait until "lbremedy resume". A step in progress finishes.`,
		Example: `  lbremedy pause --why 'network change tonight'
  lbremedy pause --this-cluster --cluster c1234`,
		Args: command.Exactly(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if by == "" {
				return command.Wrong("--as: name a person: the user of this machine is not known")
			}
			cluster, err := only(p, here)
			if err != nil {
				return err
			}
			s, err := p.Stream(cmd.Context())
			if err != nil {
				return err
			}
			defer s.Close()
			who := p.Person(cmd.Context(), by)
			one := engine.Pause{Cluster: cluster, By: by, At: p.Now(), Why: why, Identity: who.Identity, Host: who.Host}
			if err := engine.SetPause(cmd.Context(), s, one); err != nil {
				return err
			}
			all, err := engine.Pauses(cmd.Context(), s)
			if err != nil {
				return err
			}
			return p.Print(all, func() { pauses(p, all) })
		},
	}
	cmd.Flags().StringVar(&by, "as", cli.Whoami(), "`who` pauses")
	cmd.Flags().StringVar(&why, "why", "", "the `reason`, shown to other users")
	cmd.Flags().BoolVar(&here, "this-cluster", false, "only for the cluster that --cluster names")
	return cmd
}

func resume(p *cli.Program) *cobra.Command {
	var here bool
	cmd := &cobra.Command{
		Use:   "resume",
		Short: "End all pauses, or that of a cluster",
		Long: `End all pauses or, with --this-cluster, that of one cluster. Waiting cases are diagnosed
again within seconds; no plan from before the pause is applied.`,
		Args: command.Exactly(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			cluster, err := only(p, here)
			if err != nil {
				return err
			}
			s, err := p.Stream(ctx)
			if err != nil {
				return err
			}
			defer s.Close()
			all, err := engine.Pauses(ctx, s)
			if err != nil {
				return err
			}
			ended, remain := []engine.Pause{}, []engine.Pause{}
			for _, one := range all {
				if here && one.Cluster != cluster {
					remain = append(remain, one)
					continue
				}
				if _, err := engine.Resume(ctx, s, one.Cluster); err != nil {
					return err
				}
				ended = append(ended, one)
			}
			return p.Print(map[string][]engine.Pause{"ended": ended, "remain": remain}, func() {
				if len(ended) == 0 {
					fmt.Fprintln(p.Out, "There was no pause to end.")
				}
				for _, one := range ended {
					fmt.Fprintf(p.Out, "Ended. %s: %s\n", where(one.Cluster), command.Clean(one.String()))
				}
				pauses(p, remain)
			})
		},
	}
	cmd.Flags().BoolVar(&here, "this-cluster", false, "only that of the cluster that --cluster names")
	return cmd
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
func pauses(p *cli.Program, all []engine.Pause) {
	for _, one := range all {
		fmt.Fprintf(p.Out, "%s: %s\n", where(one.Cluster), command.Clean(one.String()))
	}
}

// where says what a pause is about.
func where(cluster string) string {
	if cluster == "" {
		return "All clusters"
	}
	return "Cluster " + cluster
}
