package cli

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/stream"
)

// CompleteFrom completes what a function lists, in its order. If the stream can't be read at once, it offers nothing: shells show no errors.
func (p *Program) CompleteFrom(list func(ctx context.Context, s *stream.Stream, args []string) ([]cobra.Completion, error)) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if p.Settle(cmd) == nil {
			ctx, cancel := context.WithTimeout(cmd.Context(), 2*time.Second)
			defer cancel()
			if s, err := p.Stream(ctx); err == nil {
				defer s.Close()
				if all, err := list(ctx, s, args); err == nil {
					return all, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
				}
			}
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
}

// CompleteServices completes the names of Services of type LoadBalancer.
func (p *Program) CompleteServices(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var all []cobra.Completion
	for _, svc := range p.balanced(cmd) {
		name := svc.Namespace + "/" + svc.Name
		if !slices.Contains(args, name) {
			all = append(all, cobra.CompletionWithDesc(name, ccm.Address(&svc)))
		}
	}
	return all, cobra.ShellCompDirectiveNoFileComp
}

// CompleteObjects completes the names of Services, of nodes, and the cluster.
func (p *Program) CompleteObjects(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	all, directive := p.CompleteServices(cmd, args, typed)
	others := []string{event.KindCluster}
	if c, err := p.Kube(); err == nil {
		ctx, cancel := context.WithTimeout(cmd.Context(), 2*time.Second)
		defer cancel()
		nodes, _ := c.Nodes(ctx)
		for _, name := range ccm.NodeNames(nodes) {
			others = append(others, nodePrefix+name)
		}
	}
	for _, name := range others {
		if !slices.Contains(args, name) {
			all = append(all, name)
		}
	}
	return all, directive
}

// OnlyFirst completes the first argument and no other.
func OnlyFirst(complete cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return complete(cmd, args, typed)
	}
}

// CompleteNamespaces completes the names of namespaces with Services of type LoadBalancer.
func (p *Program) CompleteNamespaces(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var all []cobra.Completion
	for _, svc := range p.balanced(cmd) {
		all = append(all, svc.Namespace)
	}
	slices.Sort(all)
	return slices.Compact(all), cobra.ShellCompDirectiveNoFileComp
}

// balanced returns none if the cluster doesn't answer at once: a shell shows no errors.
func (p *Program) balanced(cmd *cobra.Command) (all []corev1.Service) {
	if p.Settle(cmd) != nil {
		return nil
	}
	if c, err := p.Kube(); err == nil {
		ctx, cancel := context.WithTimeout(cmd.Context(), 2*time.Second)
		defer cancel()
		_ = c.EachService(ctx, func(svc *corev1.Service) error {
			if svc.Spec.Type == corev1.ServiceTypeLoadBalancer {
				all = append(all, *svc)
			}
			return nil
		})
	}
	return all
}
