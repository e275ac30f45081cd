package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/remedy"
)

func (p *program) pause() *cobra.Command {
	var by, why string
	cmd := &cobra.Command{
		Use:   "pause",
		Short: "Stop every step that has not started, everywhere",
		Long: `Stop every step that has not started, in all workers and functions that use this NATS:
of the cluster of --cluster, or of all. Failures are still received and diagnosed; what
would be applied waits until "lbremedy resume". A step that is being made is finished.`,
		Example: `  lbremedy pause --why 'network change tonight'
  lbremedy pause --cluster c1234`,
		Args: command.Exactly(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if by == "" {
				return command.Wrong("--as: nobody is named, and the user of this machine is not known")
			}
			s, err := p.stream(cmd.Context())
			if err != nil {
				return err
			}
			defer s.Close()
			if err := remedy.SetPause(cmd.Context(), s, remedy.Pause{Cluster: p.cluster, By: by, At: p.now(), Why: why}); err != nil {
				return err
			}
			in, err := remedy.Paused(cmd.Context(), s, p.cluster)
			if err != nil {
				return err
			}
			if in == nil {
				return fmt.Errorf("somebody has resumed at the same time")
			}
			return p.print(in, func() { fmt.Fprintf(p.out, "%s: %s\n", where(in.Cluster), command.Clean(in.String())) })
		},
	}
	cmd.Flags().StringVar(&by, "as", whoami(), "`who` pauses")
	cmd.Flags().StringVar(&why, "why", "", "the `reason`, for those who meet the pause")
	return cmd
}

func (p *program) resume() *cobra.Command {
	return &cobra.Command{
		Use:   "resume",
		Short: "End a pause",
		Long: `End the pause of the cluster of --cluster, or that of all clusters. What has waited is
diagnosed afresh within some seconds, and nothing is applied as it was planned before.`,
		Args: command.Exactly(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := p.stream(cmd.Context())
			if err != nil {
				return err
			}
			defer s.Close()
			was, err := remedy.Resume(cmd.Context(), s, p.cluster)
			if err != nil {
				return err
			}
			still, err := remedy.Paused(cmd.Context(), s, p.cluster)
			if err != nil {
				return err
			}
			return p.print(map[string]*remedy.Pause{"ended": was, "remains": still}, func() {
				if was == nil {
					fmt.Fprintf(p.out, "%s: there was no pause.\n", where(p.cluster))
				} else {
					fmt.Fprintf(p.out, "%s: the pause has ended. %s\n", where(p.cluster), command.Clean(was.String()))
				}
				if still != nil {
					fmt.Fprintf(p.out, "%s: still paused. %s\n", where(still.Cluster), command.Clean(still.String()))
				}
			})
		},
	}
}

// where says what a pause is about.
func where(cluster string) string {
	if cluster == "" {
		return "All clusters"
	}
	return "Cluster " + cluster
}
