package balancer

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/answer"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/host"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/step"
)

func tagCommand(p *cli.Program) *cobra.Command {
	return repairCommand(p, answer.Repair{
		Use: "tag", Kinds: []string{step.TagLB{}.Kind()}, Otherwise: say.F("no load balancer of its own lacks the tag"),
	}, "Restore the name tag of a Service's load balancer",
		`Restore the tag by which the controller finds the load balancer that it created for a
Service: kubernetes.do.not.delete with the first 32 characters of "a" and the UID of the
Service without dashes. Without --apply it only shows what would be done. With it you are
asked first: the controller deletes the load balancer with this tag when the Service is
deleted.`)
}

func recreateCommand(p *cli.Program) *cobra.Command {
	return repairCommand(p, answer.Repair{
		Use: "recreate", Kinds: []string{step.ClearStatus{}.Kind(), step.Touch{}.Kind()}, Otherwise: say.F("no load balancer of its own is known to be gone"),
	}, "Recreate the load balancer of a Service if it is gone",
		`Let the controller create a new load balancer in place of one that is gone: the addresses
in the status of the Service are cleared, and a sync is triggered. The new load balancer
has another address. This is done only if the API reports that the known ID does not
exist. Without --apply it only shows what would be done. With it you are asked first.`)
}

func repairCommand(p *cli.Program, r answer.Repair, short, long string) *cobra.Command {
	var file string
	var sure bool
	var a answer.Flags
	cmd := &cobra.Command{
		Use: r.Use + " NAMESPACE/SERVICE", Short: short, Long: long,
		Example:           fmt.Sprintf("  lbremedy lb %[1]s shop/web\n  lbremedy lb %[1]s shop/web --apply", r.Use),
		ValidArgsFunction: p.CompleteService,
		Args:              command.Exactly(1, 1, "a Service as NAMESPACE/NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ref, err := serviceOf(args[0])
			if err != nil {
				return err
			}
			env, err := p.Prepare(cmd.Context(), file, a.Apply)
			if err != nil {
				return err
			}
			defer cli.Close(env)
			it, err := lost(cmd.Context(), p, env, ref)
			if err != nil {
				return err
			}
			return answer.RunRepair(cmd.Context(), p, env, r, it, a, sure)
		},
	}
	cmd.Flags().StringVar(&file, "policy", "", "policy instead of the one in force: a `file` or configmap:NAMESPACE/NAME")
	cmd.Flags().BoolVar(&sure, "yes", false, "with --apply: don't ask")
	a.Add(cmd)
	return cmd
}

// lost returns the failure that a Service is said to have.
func lost(ctx context.Context, p *cli.Program, env *host.Connection, ref event.Service) (answer.Item, error) {
	svc, err := cli.Service(ctx, env, ref)
	if err != nil {
		return answer.Item{}, err
	}
	ref.UID = string(svc.UID)
	class, err := cli.ClassOf("tag-missing")
	if err != nil {
		return answer.Item{}, err
	}
	return answer.ByHand(p, env, class, ref, "the load balancer of the Service."), nil
}
