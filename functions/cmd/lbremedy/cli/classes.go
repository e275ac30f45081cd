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

// IDs returns the sorted IDs of remedies.
func IDs(of []*remedy.Remedy) []string {
	var ids []string
	for _, r := range of {
		ids = append(ids, r.Class)
	}
	slices.Sort(ids)
	return ids
}

// Classes returns the IDs of all classes.
func (p *Program) Classes() []string { return IDs(p.All()) }

// All returns the remedies of all classes: the built-in ones, and those of --declarations.
func (p *Program) All() []*remedy.Remedy { return slices.Concat(functions.All, p.Declared) }

// Remedies returns all remedies: the classes', and those of the doctor's checks.
func (p *Program) Remedies() []*remedy.Remedy { return slices.Concat(p.All(), checks.Remedies()) }

// PolicyClasses returns the IDs that a policy file can name.
func (p *Program) PolicyClasses() []string { return IDs(p.Remedies()) }

// ClassOf returns the remedy of a class or check, or an error that names the most similar classes.
func (p *Program) ClassOf(id string) (*remedy.Remedy, error) {
	all := p.Remedies()
	i := slices.IndexFunc(all, func(r *remedy.Remedy) bool { return r.Class == id })
	if i < 0 {
		return nil, p.NoClass(id)
	}
	return all[i], nil
}

// NoClass returns the mistake for an unknown class.
func (p *Program) NoClass(id string) error {
	return command.Wrong("unknown class %q: the nearest are %s", id, strings.Join(near.Three(id, p.Classes()), ", "))
}

// CompleteClasses completes the IDs of classes with their titles.
func (p *Program) CompleteClasses(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var all []cobra.Completion
	for _, r := range p.All() {
		all = append(all, cobra.CompletionWithDesc(r.Class, r.Title()))
	}
	slices.Sort(all)
	return all, cobra.ShellCompDirectiveNoFileComp
}
