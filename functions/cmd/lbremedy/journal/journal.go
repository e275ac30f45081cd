// Package journal holds the commands that read the journal, "ls" and "show"; others use it to find and report cases. Begin with List and Report.
package journal

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/stream"
)

// Commands returns the commands of this package.
func Commands(p *cli.Program) []*cobra.Command {
	return []*cobra.Command{ls(p), show(p)}
}

// A Filter selects cases or failures. The zero filter selects all.
type Filter struct {
	classes, results []string
	scope            cli.Scope
	id               string
	since            cli.Moment
	open             bool
}

// FailureFlags adds the flags that select failures.
func (f *Filter) FailureFlags(p *cli.Program, cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringSliceVar(&f.classes, "class", nil, "only these `classes`")
	p.AddNamespace(cmd, &f.scope, "only this `namespace`")
	flags.StringVar(&f.scope.Service, "service", "", "only this `Service`: NAME or NAMESPACE/NAME")
	command.Complete(cmd, "class", p.CompleteClasses)
	command.Complete(cmd, "service", p.CompleteServices)
}

// NewFilter returns a filter for the cases in a scope, of these classes, with these results; empty values select all.
func NewFilter(p *cli.Program, scope cli.Scope, classes, results []string, open bool) (*Filter, error) {
	f := &Filter{scope: scope, classes: classes, results: results, open: open}
	return f, f.Check(p)
}

func allResults() []string {
	var all []string
	for _, s := range append(slices.Clone(event.Statuses), event.Writing) {
		all = append(all, string(s))
	}
	return all
}

func (f *Filter) outcomeFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.id, "case", "", "only the case with this `ID`, or the cases whose ID starts with it")
	cmd.Flags().StringSliceVar(&f.results, "result", nil, "only cases with these `results`: "+strings.Join(allResults(), ", "))
	cmd.Flags().BoolVar(&f.open, "open", false, "only cases that are not over")
	command.Complete(cmd, "result", cobra.FixedCompletions(allResults(), cobra.ShellCompDirectiveNoFileComp))
}

// SinceFlag adds the flag for the beginning of the period.
func (f *Filter) SinceFlag(cmd *cobra.Command, what string) {
	cmd.Flags().Var(&f.since, "since", what)
}

// Check returns what is wrong with the flags' values, or nil.
func (f *Filter) Check(p *cli.Program) error {
	for _, id := range f.classes {
		if _, err := p.ClassOf(id); err != nil {
			return err
		}
	}
	for _, r := range f.results {
		if !slices.Contains(allResults(), r) {
			return command.Wrong("unknown result %q: want one of %s", r, strings.Join(allResults(), ", "))
		}
	}
	return f.scope.Check()
}

// Empty reports whether the filter selects everything.
func (f *Filter) Empty() bool {
	return len(f.classes)+len(f.results) == 0 && f.scope == cli.Scope{} && f.since.IsZero() && !f.open
}

func (f *Filter) about(class string, s event.Service) bool {
	return (len(f.classes) == 0 || slices.Contains(f.classes, class)) && f.scope.Has(s)
}

// Failure reports whether the filter selects the failure.
func (f *Filter) Failure(e event.Failure) bool {
	return f.about(e.Class, e.Service) && !e.Last.Before(f.since.Time)
}

func (f *Filter) record(r event.Record) bool {
	if r.Probe() && f.id == "" && f.scope.Service == "" {
		return false // nothing failed: they are shown when asked for by Service
	}
	return f.about(r.Class, r.Service) && strings.HasPrefix(r.Case, f.id) && !r.At.Before(f.since.Time) &&
		(len(f.results) == 0 || slices.Contains(f.results, string(r.Status()))) && (!f.open || IsOpen(r))
}

func caseFilter(p *cli.Program, classes []string) string {
	cluster, class := cmp.Or(p.Cluster, "*"), "*"
	if len(classes) == 1 {
		class = classes[0]
	}
	return event.CaseSubject(cluster, "*", class)
}

// A History is one case: all its records, the oldest first.
type History []event.Record

// Last returns the newest record.
func (h History) Last() event.Record { return h[len(h)-1] }

type reader struct {
	*cli.Program
	*cli.Progress
	read, broken int
	why          error // error of the first unreadable one
}

func newReader(p *cli.Program) *reader { return &reader{Program: p, Progress: p.Progress()} }

func (r *reader) each(f func(event.Record) error) func(stream.Message) error {
	return func(m stream.Message) error {
		rec, err := event.DecodeRecord(m.Subject, m.Header, m.Data)
		if err != nil {
			r.broken++
			r.why = cmp.Or(r.why, err)
			return nil
		}
		r.read++
		r.Say("reading the journal: %d records", r.read)
		return f(rec)
	}
}

func (r *reader) end() {
	r.Done()
	if r.broken > 0 {
		r.Note("%d records of the journal can't be read and are left out: %s", r.broken, command.Clean(r.why.Error()))
	}
}

func newestFirst(a, b History) int {
	return cmp.Or(b.Last().At.Compare(a.Last().At), cmp.Compare(a.Last().Case, b.Last().Case), cmp.Compare(a.Last().Class, b.Last().Class))
}

// latestCases returns the newest selected case of each Service and class, the most recently changed first, with only its last record.
func latestCases(ctx context.Context, p *cli.Program, s *stream.Stream, f *Filter) ([]History, error) {
	var list []History
	r := newReader(p)
	err := s.EachLast(ctx, stream.Cases, caseFilter(p, f.classes), r.each(func(rec event.Record) error {
		if f.record(rec) {
			list = append(list, History{rec})
		}
		return nil
	}))
	r.end()
	if err != nil {
		return nil, err
	}
	slices.SortFunc(list, newestFirst)
	return list, nil
}

// allCases reads the whole journal: all selected cases with a record since the filter's time, and these records, the most recently changed first.
func allCases(ctx context.Context, p *cli.Program, s *stream.Stream, f *Filter) ([]History, error) {
	return gatherCases(ctx, p, s, []string{caseFilter(p, f.classes)}, f)
}

func gatherCases(ctx context.Context, p *cli.Program, s *stream.Stream, subjects []string, f *Filter) ([]History, error) {
	found := map[caseKey]History{}
	r := newReader(p)
	for _, subject := range subjects {
		err := s.Each(ctx, stream.Cases, subject, f.since.Time, r.each(func(rec event.Record) error {
			found[identity(rec)] = append(found[identity(rec)], rec)
			return nil
		}))
		if err != nil {
			r.end()
			return nil, err
		}
	}
	r.end()
	list := make([]History, 0, len(found))
	for _, h := range found {
		if f.record(h.Last()) {
			list = append(list, h)
		}
	}
	slices.SortFunc(list, newestFirst)
	return list, nil
}

// service reports whether a case's name is its Service's. Other names with a slash are an ID, which has a capital letter, with its class.
func service(name string) bool {
	namespace, _, ok := strings.Cut(name, "/")
	return ok && !strings.Contains(namespace, "T")
}

// Of returns the records of one case, the oldest first; none if the journal has no such case.
func Of(ctx context.Context, p *cli.Program, s *stream.Stream, cluster, uid, class, id string) (History, error) {
	found, err := gatherCases(ctx, p, s, []string{event.CaseSubject(cluster, uid, class)}, &Filter{id: id})
	for _, h := range found {
		if err == nil && h.Last().Case == id {
			return h, nil
		}
	}
	return nil, err
}

func newest(list []History) []History {
	seen := map[caseKey]bool{}
	return slices.DeleteFunc(list, func(h History) bool {
		k := identity(h.Last())
		k.id = ""
		defer func() { seen[k] = true }()
		return seen[k]
	})
}

func ids(all []History) []cobra.Completion {
	var list []cobra.Completion
	for _, h := range all {
		r := h.Last()
		list = append(list, cobra.CompletionWithDesc(r.Case, r.Service.String()+" "+r.Class+" "+string(r.Status())))
	}
	return list
}
