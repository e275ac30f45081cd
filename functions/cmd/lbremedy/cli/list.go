package cli

import (
	"github.com/spf13/cobra"

	"github.com/lbremedy/lbremedy/shared/command"
)

// Flags of lists, as in kubectl. Lists cover all namespaces unless one is named.

// AddNamespace gives a command --namespace, with this usage, and --all-namespaces.
func (p *Program) AddNamespace(cmd *cobra.Command, s *Scope, usage string) {
	cmd.Flags().StringVarP(&s.Namespace, "namespace", "n", "", usage)
	cmd.Flags().BoolVarP(&s.all, "all-namespaces", "A", false, "all namespaces, as without --namespace")
	command.Complete(cmd, "namespace", p.CompleteNamespaces)
}
