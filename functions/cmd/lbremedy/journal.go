package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/stream"
)

// A filter says which cases or failures are meant. The zero filter means all.
type filter struct {
	classes, results   []string
	namespace, service string
	id                 string // of a case, or the beginning of one
	since, until       moment
	open               bool
}

// failures adds the flags that choose failures.
func (f *filter) failures(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringSliceVar(&f.classes, "class", nil, "of these `classes` only")
	flags.StringVarP(&f.namespace, "namespace", "n", "", "of this `namespace` only")
	flags.StringVar(&f.service, "service", "", "of this `Service` only: NAME or NAMESPACE/NAME")
	command.Complete(cmd, "class", completeClasses)
}

// outcomes adds the flags that choose cases, and by how they stand.
func (f *filter) outcomes(p *program, cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.id, "case", "", "only the case with this `ID`, or those whose ID begins so")
	command.Complete(cmd, "case", func(cmd *cobra.Command, _ []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return p.completeCases(cmd, nil, begun)
	})
	cmd.Flags().StringSliceVar(&f.results, "result", nil, "with these `results` only: "+strings.Join(results, ", "))
	cmd.Flags().BoolVar(&f.open, "open", false, "only cases that are not over")
	command.Complete(cmd, "result", cobra.FixedCompletions(results, cobra.ShellCompDirectiveNoFileComp))
}

func (f *filter) sinceFlag(cmd *cobra.Command, what string) {
	cmd.Flags().Var(&f.since, "since", what)
}

var results = []string{
	string(event.Fixed), string(event.Planned), string(event.Asked), string(event.Waiting), string(event.Unsettled), string(event.Failed),
	string(event.Gone), string(event.Superseded), string(event.Undone), string(event.Foreign),
}

// check says what is wrong with the flags' values.
func (f *filter) check() error {
	for _, id := range f.classes {
		if _, err := classOf(id); err != nil {
			return err
		}
	}
	for _, r := range f.results {
		if !slices.Contains(results, r) {
			return command.Wrong("there is no result %q; there are %s", r, strings.Join(results, ", "))
		}
	}
	if ns, name, ok := strings.Cut(f.service, "/"); ok {
		if f.namespace != "" && f.namespace != ns {
			return command.Wrong("--service %s is not in the namespace %s that --namespace names", f.service, f.namespace)
		}
		f.namespace, f.service = ns, name
	}
	return nil
}

// empty reports whether the filter means all.
func (f *filter) empty() bool {
	return len(f.classes)+len(f.results) == 0 && f.namespace+f.service == "" && f.since.IsZero() && f.until.IsZero() && !f.open
}

func (f *filter) about(class string, s event.Service) bool {
	return (len(f.classes) == 0 || slices.Contains(f.classes, class)) &&
		(f.namespace == "" || f.namespace == s.Namespace) && (f.service == "" || f.service == s.Name)
}

// failure reports whether the filter means the failure.
func (f *filter) failure(e event.Failure) bool {
	return f.about(e.Class, e.Service) && !e.Last.Before(f.since.Time) && (f.until.IsZero() || !e.Last.After(f.until.Time))
}

// record reports whether the filter means the record.
func (f *filter) record(r event.Record) bool {
	return f.about(r.Class, r.Service) && strings.HasPrefix(r.Case, f.id) && !r.At.Before(f.since.Time) &&
		(len(f.results) == 0 || slices.Contains(f.results, state(r))) && (!f.open || isOpen(r))
}

// isOpen reports whether the case of the record is not over.
func isOpen(r event.Record) bool {
	switch event.Result(state(r)) {
	case event.Fixed, event.Gone, event.Superseded, event.Failed, event.Undone, event.Foreign:
		return false
	}
	return true
}

// A moment is a flag for a point in time: how long ago, or when.
type moment struct {
	time.Time
	text string
}

// String returns what was given.
func (m *moment) String() string { return m.text }

// Type is what the help says of the value.
func (m *moment) Type() string { return "time" }

// Set reads how long ago, such as 90m or 7d, or a date or time of RFC 3339.
func (m *moment) Set(s string) error {
	m.text = s
	var days float64
	if n, err := fmt.Sscanf(s, "%fd", &days); err == nil && n == 1 && strings.HasSuffix(s, "d") && days >= 0 {
		m.Time = time.Now().Add(-time.Duration(days * 24 * float64(time.Hour)))
		return nil
	}
	if d, err := time.ParseDuration(s); err == nil && d >= 0 {
		m.Time = time.Now().Add(-d)
		return nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04", "2006-01-02 15:04", time.DateOnly} {
		if t, err := time.ParseInLocation(layout, s, time.Local); err == nil {
			m.Time = t
			return nil
		}
	}
	return fmt.Errorf("want how long ago, such as 90m or 7d, or a time such as 2006-01-02T15:04")
}

// caseFilter returns the subjects of the journal that the global flags and these classes mean.
func (p *program) caseFilter(classes []string) string {
	cluster, class := cmp.Or(p.cluster, "*"), "*"
	if len(classes) == 1 {
		class = classes[0]
	}
	return event.CaseSubject(cluster, "*", class)
}

// A history is one case: all its records, the oldest first.
type history []event.Record

func (h history) last() event.Record { return h[len(h)-1] }

// A reader takes records of the journal in and tells how far it is.
type reader struct {
	*program
	*progress
	read, broken int
	why          error // the first one that can't be read
}

func (p *program) reader() *reader { return &reader{program: p, progress: p.progress()} }

// each returns what hands the record of a message on, and counts those that are none.
func (r *reader) each(f func(event.Record) error) func(stream.Message) error {
	return func(m stream.Message) error {
		rec, err := event.DecodeRecord(m.Header, m.Data)
		if err != nil {
			r.broken++
			r.why = cmp.Or(r.why, err)
			return nil
		}
		r.read++
		r.say("reading the journal: %d records", r.read)
		return f(rec)
	}
}

// end says what could not be read.
func (r *reader) end() {
	r.done()
	if r.broken > 0 {
		r.note("%d records of the journal can't be read and are left out: %s", r.broken, command.Clean(r.why.Error()))
	}
}

// newestFirst orders cases by their last records.
func newestFirst(a, b history) int {
	return cmp.Or(b.last().At.Compare(a.last().At), cmp.Compare(a.last().Case, b.last().Case), cmp.Compare(a.last().Class, b.last().Class))
}

// latest returns the newest case of each Service and class that the filter means, as
// its last record alone, the one that changed last first. It doesn't read the rest of the
// journal.
func (p *program) latest(ctx context.Context, s *stream.Stream, f *filter) ([]history, error) {
	var list []history
	r := p.reader()
	err := s.EachLast(ctx, stream.Cases, p.caseFilter(f.classes), r.each(func(rec event.Record) error {
		if f.record(rec) {
			list = append(list, history{rec})
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

// cases returns all cases that the filter means, of which a record was stored since
// the filter's time, as their records since then, the one that changed last first. It
// reads the whole journal.
func (p *program) cases(ctx context.Context, s *stream.Stream, f *filter) ([]history, error) {
	return p.gather(ctx, s, []string{p.caseFilter(f.classes)}, f)
}

// gather returns the cases in the subjects that the filter means.
func (p *program) gather(ctx context.Context, s *stream.Stream, subjects []string, f *filter) ([]history, error) {
	type key struct{ cluster, uid, class, id string }
	found := map[key]history{}
	r := p.reader()
	for _, subject := range subjects {
		err := s.Each(ctx, stream.Cases, subject, f.since.Time, r.each(func(rec event.Record) error {
			k := key{rec.Cluster, rec.Service.UID, rec.Class, rec.Case}
			found[k] = append(found[k], rec)
			return nil
		}))
		if err != nil {
			r.end()
			return nil, err
		}
	}
	r.end()
	list := make([]history, 0, len(found))
	for _, h := range found {
		if f.record(h.last()) {
			list = append(list, h)
		}
	}
	slices.SortFunc(list, newestFirst)
	return list, nil
}

// find returns the cases that a name means, the newest first: a case ID, or the
// beginning of one, or a Service.
func (p *program) find(ctx context.Context, s *stream.Stream, name string) ([]history, error) {
	subjects, f, what := map[string]bool{}, &filter{id: name}, "case"
	if strings.Contains(name, "/") {
		f, what = &filter{service: name}, "case of a Service"
		if err := f.check(); err != nil {
			return nil, err
		}
		latest, err := p.latest(ctx, s, f)
		if err != nil {
			return nil, err
		}
		for _, h := range latest {
			subjects[event.CaseFilter(h.last().Cluster, h.last().Service.UID)] = true
		}
	} else {
		all, err := s.Subjects(ctx, stream.Cases, p.caseFilter(nil))
		if err != nil {
			return nil, err
		}
		begin := name[:min(len(name), 8)] // of the UID: a case ID holds no more of it
		for _, subject := range all {
			if parts := strings.Split(subject, "."); len(parts) == 5 && strings.HasPrefix(parts[3], begin) {
				subjects[event.CaseFilter(parts[2], parts[3])] = true
			}
		}
	}
	found, err := p.gather(ctx, s, sortedKeys(subjects), f)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, command.Wrong("the journal holds no %s %q: \"lbremedy ls\" lists what it holds", what, name)
	}
	return found, nil
}

// caseID checks the argument of a command that does something to one case.
func caseID(cmd *cobra.Command, args []string) error {
	if err := command.Exactly(1, 1, "a case ID")(cmd, args); err != nil {
		return err
	}
	if strings.Contains(args[0], "/") {
		return command.Wrong("%s needs a case ID, since a Service may have several cases: \"lbremedy show %s\" names them", cmd.Name(), args[0])
	}
	return nil
}

// singleCase returns the one case that an ID means, or the beginning of one.
func (p *program) singleCase(ctx context.Context, s *stream.Stream, id string) (history, error) {
	found, err := p.find(ctx, s, id)
	if err != nil {
		return nil, err
	}
	if len(found) > 1 {
		return nil, command.Wrong("%d cases begin with %s: give a whole ID, as \"lbremedy ls\" shows it", len(found), id)
	}
	return found[0], nil
}

// completeCases completes the IDs of the cases in the journal.
func (p *program) completeCases(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 || p.settle(cmd) != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), 2*time.Second)
	defer cancel()
	s, err := p.stream(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer s.Close()
	all, err := p.latest(ctx, s, &filter{})
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var ids []cobra.Completion
	for _, h := range all {
		r := h.last()
		ids = append(ids, cobra.CompletionWithDesc(r.Case, r.Service.String()+" "+r.Class+" "+state(r)))
	}
	return ids, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}
