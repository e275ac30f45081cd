package cli

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/kube"
)

const serviceArg = "NAMESPACE/SERVICE"

// Alternatives to a Service in the usage of such a command.
const (
	caseArg     = "CASE|"
	BalancerArg = "LOAD-BALANCER" // its ID
	ObjectArg   = serviceArg + "|node/NODE|cluster"
)

// NameServices lets the commands below root that take Services take names with -n, as in kubectl: "-n shop web" is shop/web. A name alone
// works if it is unique in the cluster. As a kubectl plugin they also take service/web and svc/web.
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
				if named[i], err = p.named(cmd, arg); err != nil {
					return err
				}
			}
			return run(cmd, named)
		}
	}
}

// named completes a Service's name with its namespace, and leaves other arguments unchanged.
func (p *Program) named(cmd *cobra.Command, arg string) (string, error) {
	if strings.Contains(cmd.Use, ObjectArg) && isOther(arg) {
		return arg, nil
	}
	kind, name, ok := strings.Cut(arg, "/")
	namespace, file := cmd.Flag("namespace").Value.String(), cmd.Flag("file")
	elsewhere := strings.Contains(cmd.Use, caseArg) || file != nil && file.Changed // the cluster doesn't know which Services are meant
	switch {
	case p.Plugin && ok && (kind == "svc" || kind == "service" || kind == "services") && kube.ValidName(name):
		if namespace == "" {
			var err error
			if namespace, err = kube.ContextNamespace(p.Kubeconfig, p.Context); err != nil {
				return "", command.Mistake{Err: err}
			}
		}
		return namespace + "/" + name, nil
	case namespace == "" && (ok || elsewhere || !kube.ValidName(arg)):
		return arg, nil
	case namespace == "":
		return p.found(cmd.Context(), arg, strings.Contains(cmd.Use, BalancerArg))
	case !ok && kube.ValidName(arg):
		return namespace + "/" + arg, nil
	case ok && kind != namespace:
		return "", command.Wrong("%s is not in the namespace %s that --namespace names", arg, namespace)
	}
	return arg, nil
}

// found returns the only Service with a name, or the only one of type LoadBalancer. A load balancer's ID may be returned unchanged if the
// command takes one.
func (p *Program) found(ctx context.Context, name string, orBalancer bool) (string, error) {
	cluster, err := p.Kube()
	if err != nil {
		return "", command.Mistake{Err: err}
	}
	list, err := cluster.ServicesNamed(ctx, name)
	switch {
	case errors.Is(err, kube.ErrDenied):
		return "", command.Wrong("name the Service %s as NAMESPACE/NAME, because the Services of all namespaces cannot be listed: %w", name, err)
	case err != nil:
		return "", err
	}
	balanced := func(svc corev1.Service) bool { return svc.Spec.Type == corev1.ServiceTypeLoadBalancer }
	if slices.ContainsFunc(list, balanced) {
		list = slices.DeleteFunc(list, func(svc corev1.Service) bool { return !balanced(svc) })
	}
	var names []string
	for _, svc := range list {
		names = append(names, svc.Namespace+"/"+svc.Name)
	}
	full, err := OneService(name, names)
	switch {
	case err != nil || full != "":
		return full, err
	case orBalancer && BalancerID(name):
		return name, nil
	}
	return "", command.Wrong("no namespace of the cluster has a Service %s: correct the name, or --context and --kubeconfig", name)
}

// BalancerID reports whether a text has the form of a load balancer's ID.
func BalancerID(text string) bool {
	return !strings.Contains(text, "/") && (strings.HasPrefix(text, "lb-") || strings.HasPrefix(text, "nlb-"))
}

// OneService returns the only Service in found, or "" if found is empty. Several are a mistake.
func OneService(name string, found []string) (string, error) {
	slices.Sort(found)
	found = slices.Compact(found)
	switch len(found) {
	case 0:
		return "", nil
	case 1:
		return found[0], nil
	}
	return "", command.Wrong("%d Services are called %s: name one as NAMESPACE/NAME: %s", len(found), name, strings.Join(found, ", "))
}
