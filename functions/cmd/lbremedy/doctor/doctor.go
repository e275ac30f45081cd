// Package doctor is the command that looks for what will fail, in a cluster or in manifests, and lets the engine fix the findings. Begin
// with Command.
package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/functions"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/answer"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	checks "github.com/lbremedy/lbremedy/functions/doctor"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/host"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/stream"
)

type examining struct {
	scope    cli.Scope
	chosen   cli.Labels
	order    cli.Order[doctor.Finding]
	checks   []string
	severity string
	files    []string
	fix      string
	policy   string
	explain  bool
	answer.Flags

	run      []*doctor.Check
	least    doctor.Severity
	services []string // "namespace/name"; empty: all
}

// Command returns the command doctor.
func Command(p *cli.Program) *cobra.Command {
	e := examining{order: cli.Order[doctor.Finding]{Columns: map[string]func(a, b doctor.Finding) int{
		"severity": func(a, b doctor.Finding) int { return cmp.Compare(b.Severity, a.Severity) },
		"check":    func(a, b doctor.Finding) int { return strings.Compare(a.Check, b.Check) },
		"about":    func(a, b doctor.Finding) int { return strings.Compare(a.About.String(), b.About.String()) },
		"line": func(a, b doctor.Finding) int {
			return cmp.Or(strings.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
		},
	}}}
	cmd := &cobra.Command{
		Use:   "doctor [NAMESPACE/SERVICE...]",
		Short: "Find problems before they cause failures; writes with --fix CHECK --apply",
		Long: `Check all Services of the cluster, their load balancers and the account for problems that
write no Event or are about to cause a failure. "lbremedy doctor checks" lists the checks.
If Services are named, only findings about them are shown.

With -f the Services in manifests are checked before they are applied. With --cluster they
are compared with the cluster and the account: free addresses, limits, and who else uses the
load balancers that they name. Without it this needs no connection, and such questions stay
open.

With --fix the fixable findings of one check are handled like failures: with plan, policy,
journal and undo. Nothing is written without --apply.

Exit codes: 0 nothing was found; 1 something failed; 2 the usage, the configuration or the
input is wrong; 4 the worst finding is a warning; 5 there is a critical finding; 6 there
is none, but something could not be determined. Findings of the severity info, and those
below --severity, do not count. With --fix the codes are those of "lbremedy run", and 6 if
something could not be determined and nothing else is wrong.`,
		Example: `  lbremedy doctor
  lbremedy doctor --namespace shop --severity info --explain
  lbremedy doctor --checks lb-gone,room -l app=web -o json
  lbremedy doctor -f service.yaml
  kubectl kustomize . | lbremedy doctor -f - --cluster <cluster ID> --region cn-hangzhou
  lbremedy doctor --fix finalizers shop/web --apply`,
		Args: command.Exactly(0, -1, ""),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := e.scope.Check(); err != nil {
				return err
			}
			switch {
			case len(e.files) > 0:
				return examineFiles(cmd.Context(), p, &e, args)
			case e.fix != "":
				return fix(cmd.Context(), p, &e, args)
			}
			return examine(cmd.Context(), p, &e, args)
		},
	}
	f := cmd.Flags()
	p.AddNamespace(cmd, &e.scope, "only findings about Services of this `namespace`")
	e.chosen.Add(cmd)
	e.order.Add(cmd)
	f.StringSliceVar(&e.checks, "checks", nil, "only these `checks`, separated by commas")
	f.StringVar(&e.severity, "severity", "warning", "lowest `severity` that is shown: info, warning or critical")
	f.StringArrayVarP(&e.files, "file", "f", nil,
		"`file` with Services to check before they are applied; - is standard input; may be given several times")
	f.StringVar(&e.fix, "fix", "", "fix the findings of this `check`")
	f.StringVar(&e.policy, "policy", "",
		"policy `file` that says what the cluster is compared with, and, with --fix, what is allowed instead of the policy in force")
	f.BoolVar(&e.explain, "explain", false, "show what to do about each finding, and its evidence")
	e.Add(cmd)
	e.AddApprove(cmd)
	command.Complete(cmd, "severity", cobra.FixedCompletions([]string{"info", "warning", "critical"}, cobra.ShellCompDirectiveNoFileComp))
	command.Complete(cmd, "checks", completeList)
	command.Complete(cmd, "fix", completeFixes)
	cmd.ValidArgsFunction = p.CompleteServices
	cmd.AddCommand(checksCommand(p))
	return cmd
}

type checkEntry struct {
	Check    string   `json:"check"`
	Title    string   `json:"title"`
	Fix      []string `json:"fix"` // kinds of steps; empty: a person fixes it
	Manifest bool     `json:"manifest"`
	Reads    []string `json:"reads"`
	Page     string   `json:"page,omitempty"` // Markdown
}

func checksCommand(p *cli.Program) *cobra.Command {
	return &cobra.Command{
		Use:               "checks [CHECK]",
		Short:             "List the checks, or show the page of one",
		Example:           "  lbremedy doctor checks\n  lbremedy doctor checks room",
		Args:              command.Exactly(0, 1, "one check"),
		ValidArgsFunction: completeChecks,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 1 {
				all, err := chosen(args)
				if err != nil {
					return err
				}
				e := newCheckEntry(all[0])
				e.Page = functions.CheckPage(p.Language(), all[0].ID, all[0].Doc)
				return p.Print(e, func() { fmt.Fprint(p.Out, e.Page) })
			}
			list := []checkEntry{}
			for _, c := range checks.Checks() {
				list = append(list, newCheckEntry(c))
			}
			return p.Print(list, func() {
				t := p.Table("check", "title", "fixes", "manifests")
				for _, e := range list {
					t.AppendRow([]any{e.Check, p.Language().Format(e.Title), yes(len(e.Fix) > 0), yes(e.Manifest)})
				}
				t.Render()
			})
		},
	}
}

func newCheckEntry(c *doctor.Check) checkEntry {
	e := checkEntry{Check: c.ID, Title: c.Title(), Fix: []string{}, Manifest: c.Manifest, Reads: []string{}}
	if c.Fix != nil {
		for _, s := range c.Fix.Steps {
			e.Fix = append(e.Fix, s.Kind())
		}
	}
	for _, g := range c.Reads() {
		e.Reads = append(e.Reads, g.String())
	}
	return e
}

func yes(is bool) string {
	if is {
		return "yes"
	}
	return "no"
}

func chosen(ids []string) ([]*doctor.Check, error) {
	all := checks.Checks()
	if len(ids) == 0 {
		return all, nil
	}
	var list []*doctor.Check
	for _, id := range ids {
		i := slices.IndexFunc(all, func(c *doctor.Check) bool { return c.ID == id })
		if i < 0 {
			var names []string
			for _, c := range all {
				names = append(names, c.ID)
			}
			return nil, command.Wrong("the check %q is unknown; the checks are %s", id, strings.Join(names, ", "))
		}
		list = append(list, all[i])
	}
	return list, nil
}

// wanted reads the arguments and the flags about what is examined.
func (e *examining) wanted(args []string) (err error) {
	if err := e.least.UnmarshalText([]byte(e.severity)); err != nil {
		return command.Wrong("--severity: %w", err)
	}
	for _, arg := range args {
		ref, err := cli.ServiceArg(arg)
		if err != nil {
			return err
		}
		e.services = append(e.services, ref.String())
	}
	e.run, err = chosen(e.checks)
	return err
}

// of reports whether a Service of this name is examined.
func (e *examining) of(name string) bool {
	return (e.scope.Namespace == "" || strings.HasPrefix(name, e.scope.Namespace+"/")) && (len(e.services) == 0 || slices.Contains(e.services, name))
}

func examine(ctx context.Context, p *cli.Program, e *examining, args []string) error {
	if e.Apply {
		return command.Wrong("doctor --apply needs a check: name a check with --fix")
	}
	r, err := e.found(ctx, p, args)
	if err != nil {
		return err
	}
	return e.examined(p, r)
}

func (e *examining) found(ctx context.Context, p *cli.Program, args []string) (doctor.Result, error) {
	if err := e.wanted(args); err != nil {
		return doctor.Result{}, err
	}
	env, err := p.Prepare(ctx, e.policy, false)
	if err != nil {
		return doctor.Result{}, err
	}
	defer cli.Close(env)
	_, r, err := e.look(ctx, p, env)
	return r, err
}

// Find returns the findings at this severity or above about these Services: all checks and all Services if none is named.
func Find(ctx context.Context, p *cli.Program, checks []string, severity, namespace string, services []string) (doctor.Result, error) {
	e := &examining{checks: checks, severity: severity, scope: cli.Scope{Namespace: namespace}}
	r, err := e.found(ctx, p, services)
	return r.AtLeast(e.least), err
}

// there refuses a namespace and Services that the cluster lacks: unexamined is not healthy. If they can't be read, the checks report that.
func (e *examining) there(ctx context.Context, env *host.Connection) error {
	for _, name := range e.services {
		ns, svc, _ := strings.Cut(name, "/")
		if _, err := cli.Service(ctx, env, event.Service{Namespace: ns, Name: svc}); errors.As(err, new(command.Mistake)) {
			return err
		}
	}
	if e.scope.Namespace == "" {
		return nil
	}
	if err := cli.Namespace(ctx, env, e.scope.Namespace); errors.As(err, new(command.Mistake)) {
		return err
	}
	return nil
}

// look reads the cluster and the account, and runs the checks.
func (e *examining) look(ctx context.Context, p *cli.Program, env *host.Connection) (*doctor.Snapshot, doctor.Result, error) {
	if err := e.there(ctx, env); err != nil {
		return nil, doctor.Result{}, err
	}
	g := p.Progress()
	defer g.Done()
	from := p.Source(env, g)
	var opened *stream.Stream
	dial := sync.OnceValues(func() (*stream.Stream, error) {
		var err error
		opened, err = failures(ctx, p, env)
		return opened, err
	})
	from.Stream = func(context.Context) (*stream.Stream, error) { return dial() }
	defer func() {
		if opened != nil && opened != env.Stream {
			opened.Close()
		}
	}()
	s, r, err := doctor.Run(ctx, from, e.run)
	if err != nil {
		return nil, doctor.Result{}, err
	}
	r, err = e.narrow(r, s.Services)
	return s, r, err
}

// failures returns nil if no stream is named and "lbremedy up" does not run on the state directory.
func failures(ctx context.Context, p *cli.Program, env *host.Connection) (*stream.Stream, error) {
	if env.Stream != nil {
		return env.Stream, nil
	}
	if !p.Known() {
		return nil, nil
	}
	s, err := p.Stream(ctx)
	if p.NATS == "" && errors.Is(err, stream.ErrUnavailable) {
		return nil, nil
	}
	return s, err
}

// narrow returns the part of a result about the chosen Services of a list. No match of the labels is an error: a check of nothing must not
// report health.
func (e *examining) narrow(r doctor.Result, list []corev1.Service) (doctor.Result, error) {
	var found []string
	for i := range list {
		if name := list[i].Namespace + "/" + list[i].Name; e.of(name) && e.chosen.Has(&list[i]) {
			found = append(found, name)
		}
	}
	if !e.chosen.All() {
		if len(found) == 0 {
			return r, command.Wrong("no Service has the labels %s: correct --selector", e.chosen.String())
		}
		e.services = found
	}
	r.Services = len(found)
	if e.scope.Namespace == "" && len(e.services) == 0 {
		return r, nil
	}
	return r.Only(e.of), nil
}

func (e *examining) examined(p *cli.Program, r doctor.Result) error {
	shown := r.AtLeast(e.least)
	e.order.Sort(shown.Findings)
	if err := p.Print(shown.In(nil), func() { findings(p, shown, e.explain) }); err != nil {
		return err
	}
	if n := len(r.Findings) - len(shown.Findings); n > 0 && p.ForPeople() {
		p.Note("Not shown: %s of lower severity. Add --severity info.", say.Count(n, "finding"))
	}
	worst, any := shown.Worst()
	switch {
	case any && worst == doctor.Critical:
		return command.Exit(cli.CodeCritical)
	case len(r.Unknown) > 0:
		return command.Exit(cli.CodeUnknown)
	case any && worst == doctor.Warning:
		return command.Exit(cli.CodeWarning)
	}
	return nil
}

func findings(p *cli.Program, r doctor.Result, explain bool) {
	if explain {
		for _, f := range r.Findings {
			finding(p, f)
		}
	} else {
		columns := []any{"severity", "check", "about", "fix", "finding"}
		ofFiles := slices.ContainsFunc(r.Findings, func(f doctor.Finding) bool { return f.File != "" })
		if ofFiles {
			columns = []any{"severity", "check", "about", "line", "finding"}
		}
		t := p.Table(columns...)
		for _, f := range r.Findings {
			at := yes(f.Fixable)
			if ofFiles {
				at = place(f)
			}
			t.AppendRow([]any{severity(p, f.Severity), f.Check, command.Clean(f.About.String()), at, cli.Plain(p.Tell(f.Text))})
		}
		t.Render()
	}
	named := 1
	if p.Wide() {
		named = 3
	}
	t := p.Table("unknown", "about", "why")
	for _, u := range together(r.Unknown, named) {
		t.AppendRow([]any{p.Paint(cli.Yellow, u.Check), command.Clean(u.About.String()), cli.Plain(p.Tell(u.Why))})
	}
	t.Render()
	took := ""
	if r.Took > 0 {
		took = p.Phrase(" in %s", cli.Short(r.Took))
	}
	p.Note("%s looked at %s%s: %s, %d unknown.", say.Count(len(r.Checks), "check"), say.Count(r.Services, "Service"), took,
		say.Count(len(r.Findings), "finding"), len(r.Unknown))
	for _, read := range r.Read {
		if left := read.LeftOut(); len(left) > 0 {
			p.Note("%s", left)
		}
	}
	if len(r.Unknown) > 0 && !p.Wide() {
		p.Note("Add -o wide to see in full why something is unknown.")
	}
	if len(r.Findings) > 0 && !explain {
		p.Note("Add --explain to see each finding whole, and what to do.")
	}
}

// together merges checks that are unknown for the same reason into one line, with at most named of them by name.
func together(all []doctor.Unknown, named int) []doctor.Unknown {
	var list []doctor.Unknown
	var checks [][]string
	type reason struct {
		about doctor.About
		why   string
	}
	at := map[reason]int{}
	for _, u := range all {
		key := reason{u.About, u.Why.String()}
		i, known := at[key]
		if !known {
			at[key] = len(list)
			list, checks = append(list, u), append(checks, []string{u.Check})
			continue
		}
		checks[i] = append(checks[i], u.Check)
	}
	for i, c := range checks {
		list[i].Check = strings.Join(c[:min(named, len(c))], ", ")
		if n := len(c) - named; n > 0 {
			list[i].Check += fmt.Sprintf(" +%d", n)
		}
	}
	return list
}

func finding(p *cli.Program, f doctor.Finding) {
	fmt.Fprintln(p.Out, strings.TrimRight(fmt.Sprintf("%s  %s  %s  %s", p.Paint(cli.Bold, command.Clean(f.About.String())),
		severity(p, f.Severity), f.Check, place(f)), " "))
	p.Field("Finding", p.Tell(f.Text))
	p.Field("Do", p.Tell(f.Do))
	if f.Fixable {
		p.Field("Fix", fmt.Sprintf("lbremedy doctor --fix %s %s", f.Check, f.About))
	}
	p.Field("Services", strings.Join(f.Services, ", "))
	var evidence []string
	for _, k := range slices.Sorted(maps.Keys(f.Evidence)) {
		evidence = append(evidence, k+": "+f.Evidence[k])
	}
	p.Quoted("Evidence", "", strings.Join(evidence, "\n"))
}

func place(f doctor.Finding) string {
	if f.File == "" {
		return ""
	}
	return fmt.Sprintf("%s:%d", command.Clean(f.File), f.Line)
}

func severity(p *cli.Program, s doctor.Severity) string {
	c := map[doctor.Severity]cli.Colour{doctor.Critical: cli.Red, doctor.Warning: cli.Yellow}[s]
	return p.Paint(c, s.String())
}
