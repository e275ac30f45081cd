package up

import (
	"cmp"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/permission"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/policy"
)

func setup(p *cli.Program) *cobra.Command {
	var replicas int
	var clusters []string
	var file string
	var room sizes
	cmd := &cobra.Command{
		Use:   "setup",
		Short: "Create or update the streams and consumers in NATS",
		Long: `Create or update what lbremedy needs in NATS: the streams, the bucket, and a consumer per
class for each cluster. Repeat --cluster for several clusters; without it only the streams
are set up. You can run it at any time; "up" does the same for its own cluster. A stream
that is larger than the default stays so: only a flag for its size or age makes it
smaller, and that setting is kept. With --policy the file comes into force in these
clusters.`,
		Args: command.Exactly(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if replicas < 0 {
				return command.Wrong("--replicas: %d is negative", replicas)
			}
			var allowed policy.Version
			if file != "" {
				var err error
				if allowed, err = cli.PolicyVersion(file); err != nil {
					return err
				}
				permission.NotePeople(p, allowed)
				who := p.Person(cmd.Context(), cmp.Or(cli.Whoami(), "lbremedy setup"))
				allowed.At, allowed.By, allowed.Identity, allowed.Why = p.Now(), who.Name, who.Identity, "lbremedy setup --policy "+file
			}
			if len(clusters) == 0 && p.Cluster != "" {
				clusters = []string{p.Cluster}
			}
			switch {
			case len(clusters) == 0 && file != "":
				return command.Wrong("no cluster is named, and each has a policy of its own: set --cluster or LBREMEDY_CLUSTER")
			case len(clusters) == 0:
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
			if file != "" {
				for _, cluster := range clusters {
					if _, err := policy.PutInForce(cmd.Context(), s, cluster, allowed); err != nil {
						return err
					}
				}
				done = append(done, "The policy in force is "+permission.Describe(allowed.Policy).String()+".")
			}
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
	cmd.Flags().StringVar(&file, "policy", "", "policy `file` to put in force")
	return cmd
}
