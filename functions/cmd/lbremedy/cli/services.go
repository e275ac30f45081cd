package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/kube"
)

// serviceArg stands in the usage of commands that take Services.
const serviceArg = "NAMESPACE/SERVICE"

// NameServices lets all commands below root that take Services take their names with -n, as
// kubectl does: "-n shop web" is shop/web. As a plugin of kubectl they also take
// service/web and svc/web, in that namespace or in the one of the context.
func (p *Program) NameServices(root *cobra.Command) {
	for _, cmd := range root.Commands() {
		p.NameServices(cmd)
		run := cmd.RunE
		if run == nil || !strings.Contains(cmd.Use, serviceArg) {
			continue
		}
		if cmd.Flags().Lookup("namespace") == nil {
			cmd.Flags().StringP("namespace", "n", "", "`namespace` of Services that are named without one")
			command.Complete(cmd, "namespace", p.CompleteNamespaces)
		}
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			named := make([]string, len(args))
			for i, arg := range args {
				var err error
				if named[i], err = p.named(cmd.Flag("namespace").Value.String(), arg); err != nil {
					return err
				}
			}
			return run(cmd, named)
		}
	}
}

// named returns an argument with the namespace of the Service that it names, or as it is.
func (p *Program) named(namespace, arg string) (string, error) {
	kind, name, ok := strings.Cut(arg, "/")
	switch {
	case p.Plugin && ok && (kind == "svc" || kind == "service" || kind == "services") && kube.ValidName(name):
		if namespace == "" {
			var err error
			if namespace, err = kube.ContextNamespace(p.kubeconfig, p.kubecontext); err != nil {
				return "", command.Mistake{Err: err}
			}
		}
		return namespace + "/" + name, nil
	case namespace == "":
		return arg, nil
	case !ok && kube.ValidName(arg):
		return namespace + "/" + arg, nil
	case ok && kind != namespace:
		return "", command.Wrong("%s is not in the namespace %s that --namespace names", arg, namespace)
	}
	return arg, nil
}
