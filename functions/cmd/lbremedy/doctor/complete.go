package doctor

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	checks "github.com/lbremedy/lbremedy/functions/doctor"
	"github.com/lbremedy/lbremedy/shared/doctor"
)

func completeChecks(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return checksFor("", nil, func(*doctor.Check) bool { return true }), cobra.ShellCompDirectiveNoFileComp
}

func completeFixes(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return checksFor("", nil, fixable), cobra.ShellCompDirectiveNoFileComp
}

func completeList(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	before := typed[:strings.LastIndex(typed, ",")+1]
	all := checksFor(before, strings.Split(before, ","), func(*doctor.Check) bool { return true })
	return all, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

func checksFor(before string, without []string, fits func(*doctor.Check) bool) []cobra.Completion {
	var all []cobra.Completion
	for _, c := range checks.Checks() {
		if fits(c) && !slices.Contains(without, c.ID) {
			all = append(all, cobra.CompletionWithDesc(before+c.ID, c.Title()))
		}
	}
	return all
}
