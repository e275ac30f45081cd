package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	checks "github.com/lbremedy/lbremedy/functions/doctor"
	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/host"
)

// completeChecks completes the ID of a check, with its title.
func completeChecks(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return checksFor("", nil, func(*doctor.Check) bool { return true }), cobra.ShellCompDirectiveNoFileComp
}

// completeFixes completes the ID of a check whose findings can be ended.
func completeFixes(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return checksFor("", nil, func(c *doctor.Check) bool { return c.Fix != nil }), cobra.ShellCompDirectiveNoFileComp
}

// completeList completes the last of IDs with commas between.
func completeList(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	before := typed[:strings.LastIndex(typed, ",")+1]
	return checksFor(before, strings.Split(before, ","), func(*doctor.Check) bool { return true }), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// checksFor returns the checks that fit, each behind what was typed before it.
func checksFor(before string, without []string, fits func(*doctor.Check) bool) []cobra.Completion {
	var all []cobra.Completion
	for _, c := range checks.Checks() {
		if fits(c) && !slices.Contains(without, c.ID) {
			all = append(all, cobra.CompletionWithDesc(before+c.ID, c.Title()))
		}
	}
	return all
}

// completeServices completes the names of Services of type LoadBalancer.
func (p *program) completeServices(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var all []cobra.Completion
	for _, svc := range p.balanced(cmd) {
		name := svc.Namespace + "/" + svc.Name
		if !slices.Contains(args, name) {
			all = append(all, cobra.CompletionWithDesc(name, ccm.Address(&svc)))
		}
	}
	return all, cobra.ShellCompDirectiveNoFileComp
}

// completeService completes the name of one Service.
func (p *program) completeService(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return p.completeServices(cmd, args, typed)
}

// completeNamespaces completes the names of namespaces with Services of type LoadBalancer.
func (p *program) completeNamespaces(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var all []cobra.Completion
	for _, svc := range p.balanced(cmd) {
		all = append(all, svc.Namespace)
	}
	slices.Sort(all)
	return slices.Compact(all), cobra.ShellCompDirectiveNoFileComp
}

// balanced returns the Services of type LoadBalancer for a shell that completes. Where
// the cluster can't be asked at once there are none: a shell shows no errors.
func (p *program) balanced(cmd *cobra.Command) []corev1.Service {
	if p.settle(cmd) != nil {
		return nil
	}
	c := p.host()
	c.Credentials = p.keys // nobody asks for one here
	env, err := host.Look(c)
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), 2*time.Second)
	defer cancel()
	var all []corev1.Service
	err = env.Kube.EachService(ctx, func(svc *corev1.Service) error {
		if svc.Spec.Type == corev1.ServiceTypeLoadBalancer {
			all = append(all, *svc)
		}
		return nil
	})
	if err != nil {
		return nil
	}
	return all
}
