package up

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/event"
)

func setup(p *cli.Program) *cobra.Command {
	var replicas int
	var clusters []string
	var room sizes
	cmd := &cobra.Command{
		Use:   "setup",
		Short: "Create or update the streams and consumers in NATS",
		Long: `Create or update what lbremedy needs in NATS: the streams, the bucket, and a consumer per
class for each cluster. Repeat --cluster for several clusters; without it only the streams
are set up. You can run it at any time; "up" does the same for its own cluster. A stream
that is larger than the default stays so: only a flag for its size or age makes it
smaller, and that setting is kept.`,
		Args: command.Exactly(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if replicas < 0 {
				return command.Wrong("--replicas: %d is negative", replicas)
			}
			if len(clusters) == 0 && p.Cluster != "" {
				clusters = []string{p.Cluster}
			}
			if len(clusters) == 0 {
				p.Note("No cluster is named with --cluster: consumers are not changed.")
			}
			for _, cluster := range clusters {
				if err := event.ValidCluster(cluster); err != nil {
					return command.Wrong("--cluster: %w", err)
				}
			}
			s, err := p.Stream(cmd.Context())
			if err != nil {
				return err
			}
			defer s.Close()
			done := []string{}
			c := room.settings(replicas)
			c.Clusters = clusters
			changed, err := s.Setup(cmd.Context(), cli.Classes(), c)
			if err != nil {
				return err
			}
			done = append(done, changed...)
			return p.Print(done, func() {
				for _, said := range done {
					fmt.Fprintln(p.Out, said)
				}
				if len(done) == 0 {
					fmt.Fprintln(p.Out, p.Phrase("Everything is up to date."))
				}
			})
		},
	}
	cmd.Flags().StringSliceVar(&clusters, "cluster", nil, "`ID` of an ACK cluster; may be repeated")
	cmd.Flags().IntVar(&replicas, "replicas", 0, "replicas of new streams; 0: one, and existing streams keep theirs")
	room.flags(cmd)
	return cmd
}
