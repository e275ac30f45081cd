package cli

import (
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/say"
)

// AddNamespace gives a command --namespace, with this usage, and --all-namespaces.
func (p *Program) AddNamespace(cmd *cobra.Command, s *Scope, usage string) {
	cmd.Flags().StringVarP(&s.Namespace, "namespace", "n", "", usage)
	cmd.Flags().BoolVarP(&s.all, "all-namespaces", "A", false, "all namespaces, as without --namespace")
	command.Complete(cmd, "namespace", p.CompleteNamespaces)
}

// Labels is a flag that chooses Services of the cluster by their labels. The zero value means all.
type Labels struct {
	selector labels.Selector
	text     string
}

// Add gives a command the flag.
func (l *Labels) Add(cmd *cobra.Command) {
	cmd.Flags().VarP(l, "selector", "l", "only Services with these `labels`: app=web,tier!=test")
}

// String returns what was given.
func (l *Labels) String() string { return l.text }

// Type is what the help says of the value.
func (l *Labels) Type() string { return "labels" }

// Set reads a selector as kubectl does.
func (l *Labels) Set(s string) (err error) {
	l.text = s
	l.selector, err = labels.Parse(s)
	return err
}

// All reports whether the flag chooses no Services.
func (l *Labels) All() bool { return l.selector == nil || l.selector.Empty() }

// Has reports whether the flag means the Service.
func (l *Labels) Has(svc *corev1.Service) bool {
	return l.All() || l.selector.Matches(labels.Set(svc.Labels))
}

// An Order is a flag that sorts a list by a column. The zero value leaves a list as it is.
type Order[T any] struct {
	Columns map[string]func(a, b T) int
	by      string
}

// Add gives a command the flag.
func (o *Order[T]) Add(cmd *cobra.Command) {
	cmd.Flags().Var(o, "sort-by", "sort by this `column`")
	command.Complete(cmd, "sort-by", cobra.FixedCompletions(slices.Sorted(maps.Keys(o.Columns)), cobra.ShellCompDirectiveNoFileComp))
}

// String returns what was given.
func (o *Order[T]) String() string { return o.by }

// Type is what the help says of the value.
func (o *Order[T]) Type() string { return "column" }

// Set takes the name of a column.
func (o *Order[T]) Set(s string) error {
	if o.by = strings.ToLower(s); o.Columns[o.by] == nil {
		return say.Errorf("want %s", strings.Join(slices.Sorted(maps.Keys(o.Columns)), ", "))
	}
	return nil
}

// Sort sorts a list.
func (o *Order[T]) Sort(list []T) {
	if by := o.Columns[o.by]; by != nil {
		slices.SortStableFunc(list, by)
	}
}
