package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lbremedy/lbremedy/functions"
	checks "github.com/lbremedy/lbremedy/functions/doctor"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/near"
	"github.com/lbremedy/lbremedy/shared/remedy"
)

// Classes returns the IDs of all classes.
func Classes() []string {
	ids := make([]string, len(functions.All))
	for i, r := range functions.All {
		ids[i] = r.Class
	}
	slices.Sort(ids)
	return ids
}

// Remedies returns all remedies: the classes', and those of the doctor's checks.
func Remedies() []*remedy.Remedy { return slices.Concat(functions.All, checks.Remedies()) }

// PolicyClasses returns the IDs that a policy file can name.
func PolicyClasses() []string {
	ids := Classes()
	for _, r := range checks.Remedies() {
		ids = append(ids, r.Class)
	}
	return ids
}

// ClassOf returns the remedy of a class or check, or an error that names the most similar classes.
func ClassOf(id string) (*remedy.Remedy, error) {
	all := Remedies()
	i := slices.IndexFunc(all, func(r *remedy.Remedy) bool { return r.Class == id })
	if i < 0 {
		return nil, NoClass(id)
	}
	return all[i], nil
}

// NoClass returns the mistake for an unknown class.
func NoClass(id string) error {
	return command.Wrong("unknown class %q: the nearest are %s", id, strings.Join(near.Three(id, Classes()), ", "))
}

// CompleteClasses completes the IDs of classes with their titles.
func CompleteClasses(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var all []cobra.Completion
	for _, r := range functions.All {
		all = append(all, cobra.CompletionWithDesc(r.Class, r.Title()))
	}
	slices.Sort(all)
	return all, cobra.ShellCompDirectiveNoFileComp
}
