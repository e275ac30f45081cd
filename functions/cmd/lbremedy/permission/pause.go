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

func pause(p *cli.Program) *cobra.Command {
	var by, why string
	var every bool
	cmd := &cobra.Command{
		Use:   "pause",
		Short: "Stop every step that has not started",
		Long: `Stop every step in a cluster that has not started, in all workers and functions that use
this NATS. Failures are still received and diagnosed, but plans wait until "lbremedy
resume". A step in progress finishes.

The cluster is that of --cluster, or else the only one that NATS knows. --all-clusters
pauses all clusters, also those that begin to use this NATS later.

If there already is a pause of the same clusters, it stays, and the command says whose it
is.`,
		Example: `  lbremedy pause --why 'network change tonight'
  lbremedy pause --all-clusters`,
		Args: command.Exactly(0, 0, ""),
		RunE: p.OnStream(func(ctx context.Context, s *stream.Stream, _ []string) error {
			if by == "" {
				return command.Wrong("--by: name a person: the user of this machine is not known")
			}
			cluster := "" // all
			if !every {
				var err error
				if cluster, err = p.OneCluster(ctx, s); err != nil {
					return err
				}
				if err := cli.KnownCluster(ctx, s, cluster); err != nil {
					return err
				}
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
		}),
	}
	cmd.Flags().StringVar(&by, "by", cli.Whoami(), "`who` pauses")
	cmd.Flags().StringVar(&why, "why", "", "the `reason`, shown to other users")
	cmd.Flags().BoolVar(&every, "all-clusters", false, "pause all clusters")
	return cmd
}

func resume(p *cli.Program) *cobra.Command {
	var every bool
	cmd := &cobra.Command{
		Use:   "resume",
		Short: "End the pause, or all pauses",
		Long: `End the pause that is in force, and say whose it was. Waiting cases are diagnosed again
within seconds; no plan from before the pause is applied.

If the cluster has a pause of its own and all clusters have one, the cluster's own ends
first, and the command says that the other one is still in force. --all ends all pauses,
also those of other clusters.`,
		Args: command.Exactly(0, 0, ""),
		RunE: p.OnStream(func(ctx context.Context, s *stream.Stream, _ []string) error {
			all, err := control.Pauses(ctx, s)
			if err != nil {
				return err
			}
			end := all
			if !every && len(all) > 0 {
				if end, err = meant(ctx, p, s, all); err != nil {
					return err
				}
			}
			remain := slices.DeleteFunc(slices.Clone(all), func(one control.Pause) bool { return slices.Contains(end, one) })
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
					fmt.Fprint(p.Out, cli.Wrap(p.Phrase("Ended. %s", cli.PauseLine(one)), "", p.Width()))
				}
				for _, one := range remain {
					fmt.Fprint(p.Out, cli.Wrap(p.Phrase("Still in force. %s", cli.PauseLine(one)), "", p.Width()))
				}
			})
		}),
	}
	cmd.Flags().BoolVar(&every, "all", false, "end all pauses, of all clusters")
	return cmd
}

// meant returns the cluster's own pause, otherwise that of all clusters.
func meant(ctx context.Context, p *cli.Program, s *stream.Stream, all []control.Pause) ([]control.Pause, error) {
	if p.Cluster == "" && len(all) == 1 {
		return all, nil
	}
	cluster, err := p.OneCluster(ctx, s)
	if err != nil {
		return nil, err
	}
	for _, of := range []string{cluster, ""} {
		if i := slices.IndexFunc(all, func(one control.Pause) bool { return one.Cluster == of }); i >= 0 {
			return all[i : i+1], nil
		}
	}
	return nil, cli.KnownCluster(ctx, s, cluster)
}

func pauses(p *cli.Program, all []control.Pause) {
	for _, one := range all {
		fmt.Fprint(p.Out, cli.Wrap(p.Tell(cli.PauseLine(one)), "", p.Width()))
	}
}
