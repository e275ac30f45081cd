package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/policy"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/stream"
)

func (p *program) setup() *cobra.Command {
	var replicas int
	var file string
	var room sizes
	cmd := &cobra.Command{
		Use:   "setup",
		Short: "Create the streams and consumers in NATS, or bring them up to date",
		Long: `Create what lbremedy needs in NATS, or bring it up to date: the streams, the bucket
and a consumer for each class. It may be called at any time; "up" does the same by
itself. What is there and is larger than the default stays: a stream becomes smaller only
where a flag says its size or age, which then stays too. With --policy the policy of the file comes into force for all who use this NATS.`,
		Args: command.Exactly(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if replicas < 0 {
				return command.Wrong("--replicas: %d is negative", replicas)
			}
			var allowed remedy.Policy
			if file != "" {
				var err error
				if allowed, err = policyFile(file); err != nil {
					return err
				}
			}
			s, err := p.stream(cmd.Context())
			if err != nil {
				return err
			}
			defer s.Close()
			done := []string{}
			changed, err := s.Setup(cmd.Context(), classes(), room.settings(replicas))
			if err != nil {
				return err
			}
			done = append(done, changed...)
			// A courier may not create it, by its permissions in NATS.
			if _, err := s.SetupFollower(cmd.Context(), stream.CourierFollower, ""); err != nil {
				return err
			}
			if file != "" {
				if err := policy.Publish(cmd.Context(), s, allowed); err != nil {
					return err
				}
				if err := publishTell(cmd.Context(), s, file); err != nil {
					return err
				}
				done = append(done, "The policy in force is "+describe(allowed)+".")
			}
			return p.print(done, func() {
				for _, said := range done {
					fmt.Fprintln(p.out, said)
				}
				if len(done) == 0 {
					fmt.Fprintln(p.out, "All is as it should be.")
				}
			})
		},
	}
	cmd.Flags().IntVar(&replicas, "replicas", 0, "copies that NATS keeps of new streams; 0: one, and what is there stays")
	room.flags(cmd)
	cmd.Flags().StringVar(&file, "policy", "", "policy `file` that comes into force")
	return cmd
}
