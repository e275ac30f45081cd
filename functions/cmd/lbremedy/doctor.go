package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	checks "github.com/lbremedy/lbremedy/functions/doctor"
	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/engine"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/stream"
)

// The exit codes of doctor, beside those of all programs.
const (
	codeWarning  = 4 // the worst finding is a warning
	codeCritical = 5 // there is a critical finding
	codeUnknown  = 6 // no critical finding, and something could not be told
)

// An examining says what doctor is asked for.
type examining struct {
	namespace string
	checks    []string
	severity  string
	files     []string
	fix       string
	policy    string
	explain   bool
	answering
}

func (p *program) doctor() *cobra.Command {
	var e examining
	cmd := &cobra.Command{
		Use:   "doctor [NAMESPACE/SERVICE...]",
		Short: "Look for what will fail before it does; writes with --fix CHECK --apply",
		Long: `Look at all Services of the cluster, their load balancers and the account for what
fails without an event or is about to fail. "lbremedy doctor checks" lists what is
looked for. With Services named, only what is about them is shown.

With -f the Services of manifests are checked before they are applied. Without
--cluster that takes no connection, and what depends on the cluster is left open.

With --fix the findings of one check that can be fixed go the way of a failure: plan,
policy, journal, undo. Nothing is written without --apply.

Exit codes: 0 nothing was found; 1 something failed; 2 the usage, the configuration or
the input is wrong; 4 the worst finding is a warning; 5 there is a critical finding;
6 there is none, and something could not be told. Findings of the severity info, and
what --severity leaves out, do not count. With --fix they are those of "lbremedy run".`,
		Example: `  lbremedy doctor
  lbremedy doctor --namespace shop --severity info --explain
  lbremedy doctor --checks lb-gone,room -o json
  lbremedy doctor -f service.yaml
  kubectl kustomize . | lbremedy doctor -f - --cluster <cluster ID> --region cn-hangzhou
  lbremedy doctor --fix finalizers shop/web --apply`,
		Args: command.Exactly(0, -1, ""),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(e.files) > 0:
				return p.examineFiles(cmd.Context(), e, args)
			case e.fix != "":
				return p.fix(cmd.Context(), e, args)
			}
			return p.examine(cmd.Context(), e, args)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&e.namespace, "namespace", "n", "", "only what is about Services of this `namespace`")
	f.StringSliceVar(&e.checks, "checks", nil, "only these `checks`, with commas between")
	f.StringVar(&e.severity, "severity", "warning", "lowest `severity` that is shown: info, warning or critical")
	f.StringArrayVarP(&e.files, "file", "f", nil, "`file` or folder with Services to check before they are applied; - is standard input; may be given several times")
	f.StringVar(&e.fix, "fix", "", "end the findings of this `check`")
	f.StringVar(&e.policy, "policy", "", "policy `file` that says what the cluster is compared with, and, with --fix, what is allowed instead of the policy in force")
	f.BoolVar(&e.explain, "explain", false, "say of each finding what to do and what it rests on")
	e.flags(cmd)
	command.Complete(cmd, "severity", cobra.FixedCompletions([]string{"info", "warning", "critical"}, cobra.ShellCompDirectiveNoFileComp))
	command.Complete(cmd, "checks", completeList)
	command.Complete(cmd, "fix", completeFixes)
	command.Complete(cmd, "namespace", p.completeNamespaces)
	cmd.ValidArgsFunction = p.completeServices
	cmd.AddCommand(p.doctorChecks())
	return cmd
}

// A checkEntry is a check as the list shows it.
type checkEntry struct {
	Check    string   `json:"check"`
	Title    string   `json:"title"`
	Fix      []string `json:"fix"` // kinds of steps; none: a person does
	Manifest bool     `json:"manifest"`
	Reads    []string `json:"reads"`
	Page     string   `json:"page,omitempty"` // Markdown
}

func (p *program) doctorChecks() *cobra.Command {
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
				e.Page = all[0].Doc
				return p.print(e, func() { fmt.Fprint(p.out, all[0].Doc) })
			}
			list := []checkEntry{}
			for _, c := range checks.Checks() {
				list = append(list, newCheckEntry(c))
			}
			return p.print(list, func() {
				t := p.table("check", "title", "fixes", "manifests")
				for _, e := range list {
					t.AppendRow([]any{e.Check, e.Title, yes(len(e.Fix) > 0), yes(e.Manifest)})
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
	return ""
}

// chosen returns the checks with these IDs, all of them if there are none.
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
			return nil, command.Wrong("there is no check %q; there are %s", id, strings.Join(names, ", "))
		}
		list = append(list, all[i])
	}
	return list, nil
}

// wanted returns the checks and the severity that are asked for, and the Services
// that arguments name.
func (e examining) wanted(args []string) (checks []*doctor.Check, least doctor.Severity, services []string, err error) {
	if err := least.UnmarshalText([]byte(e.severity)); err != nil {
		return nil, 0, nil, command.Wrong("--severity: %w", err)
	}
	for _, arg := range args {
		ref, ok, err := serviceArg(arg)
		if err != nil || !ok {
			return nil, 0, nil, command.Wrong("%q is no Service: one is named NAMESPACE/NAME, and a file is given with -f", arg)
		}
		services = append(services, ref.String())
	}
	checks, err = chosen(e.checks)
	return checks, least, services, err
}

// examine surveys the cluster and prints what was found.
func (p *program) examine(ctx context.Context, e examining, args []string) error {
	checks, least, services, err := e.wanted(args)
	if err != nil {
		return err
	}
	if e.apply {
		return command.Wrong("doctor --apply needs to know what to end: name a check with --fix")
	}
	env, err := p.fixing(ctx, e)
	if err != nil {
		return err
	}
	if err := p.there(ctx, env, e.namespace, services); err != nil {
		return err
	}
	s, r, err := p.survey(ctx, env, checks)
	if err != nil {
		return err
	}
	r.Services = concerned(s.Services, e.namespace, services)
	return p.examined(about(r, e.namespace, services), least, e.explain)
}

// there refuses a namespace and Services that the cluster does not have: what nobody
// looked at is not well. What can't be read here is left to the survey.
func (p *program) there(ctx context.Context, env *engine.Env, namespace string, services []string) error {
	for _, name := range services {
		ns, svc, _ := strings.Cut(name, "/")
		if _, err := service(ctx, env, event.Service{Namespace: ns, Name: svc}); errors.As(err, new(command.Mistake)) {
			return err
		}
	}
	if namespace == "" {
		return nil
	}
	if _, err := env.Kube.Namespace(ctx, namespace); errors.Is(err, kube.ErrNotFound) {
		return command.Wrong("there is no namespace %s in the cluster: correct the name, or --context and --kubeconfig", namespace)
	}
	return nil
}

// survey reads the cluster, with progress, and asks the checks.
func (p *program) survey(ctx context.Context, env *engine.Env, checks []*doctor.Check) (*doctor.Snapshot, doctor.Result, error) {
	g := p.progress()
	defer g.done()
	from := p.source(env, g)
	var s *stream.Stream
	from.Stream = func(ctx context.Context) (*stream.Stream, error) {
		var err error
		s, err = p.failures(ctx, env)
		return s, err
	}
	defer func() {
		if s != nil && s != env.Stream {
			s.Close()
		}
	}()
	return doctor.Survey(ctx, from, checks)
}

// failures connects to the stream in which failures are kept; nil: none is named, and
// "lbremedy up" does not run on the state directory.
func (p *program) failures(ctx context.Context, env *engine.Env) (*stream.Stream, error) {
	if env.Stream != nil {
		return env.Stream, nil
	}
	if !p.known() {
		return nil, nil
	}
	s, err := p.stream(ctx)
	if p.nats == "" && errors.Is(err, stream.ErrUnavailable) {
		return nil, nil
	}
	return s, err
}

// source returns what a snapshot is read from, with progress said to a terminal.
func (p *program) source(env *engine.Env, g *progress) doctor.Source {
	var mu sync.Mutex
	return doctor.Source{Cluster: env.Cluster, Kube: env.Kube, Cloud: env.Cloud, Now: p.now(), Policy: env.Policy, Progress: func(part doctor.Part, done, total int) {
		mu.Lock()
		defer mu.Unlock()
		if total > 0 {
			g.say("reading %s: %d of %d", part, done, total)
			return
		}
		g.say("reading %s: %d", part, done)
	}}
}

// about returns what of a result is about a namespace and about Services; of all where
// none is named.
func about(r doctor.Result, namespace string, services []string) doctor.Result {
	if namespace != "" {
		r = r.Within(namespace)
	}
	if len(services) == 0 {
		return r
	}
	r.Findings = slices.DeleteFunc(slices.Clone(r.Findings), func(f doctor.Finding) bool {
		return !slices.Contains(services, f.About.String()) && !slices.ContainsFunc(f.Services, func(s string) bool { return slices.Contains(services, s) })
	})
	r.Unknown = slices.DeleteFunc(slices.Clone(r.Unknown), func(u doctor.Unknown) bool {
		return u.About.Kind == doctor.Service && !slices.Contains(services, u.About.String())
	})
	return r
}

// examined prints a result and returns what the exit code follows from.
func (p *program) examined(r doctor.Result, least doctor.Severity, explain bool) error {
	shown := r.AtLeast(least)
	if err := p.print(shown, func() { p.findings(shown, explain) }); err != nil {
		return err
	}
	if n := len(r.Findings) - len(shown.Findings); n > 0 && p.output == "table" {
		p.note("%s of lower severity %s not shown: --severity info.", ccm.Count(n, "finding"), ccm.Are(n))
	}
	worst, any := shown.Worst()
	switch {
	case any && worst == doctor.Critical:
		return command.Exit(codeCritical)
	case len(r.Unknown) > 0:
		return command.Exit(codeUnknown)
	case any && worst == doctor.Warning:
		return command.Exit(codeWarning)
	}
	return nil
}

// findings prints the findings and what could not be told.
func (p *program) findings(r doctor.Result, explain bool) {
	if explain {
		for _, f := range r.Findings {
			p.finding(f)
		}
	} else if len(r.Findings) > 0 {
		t := p.table("severity", "check", "about", "finding", "fix")
		for _, f := range r.Findings {
			t.AppendRow([]any{p.severity(f.Severity), f.Check, command.Clean(f.About.String()), p.cell(f.Text.String(), 70), yes(f.Fixable)})
		}
		t.Render()
	}
	if len(r.Unknown) > 0 {
		t := p.table("unknown", "about", "why")
		for _, u := range together(r.Unknown) {
			t.AppendRow([]any{p.paint(yellow, u.Check), command.Clean(u.About.String()), p.cell(u.Why, 60)})
		}
		t.Render()
	}
	took := ""
	if r.Took > 0 {
		took = " in " + short(r.Took)
	}
	p.note("%s looked at %s%s: %s, %d unknown.", ccm.Count(len(r.Checks), "check"), ccm.Count(r.Services, "Service"), took,
		ccm.Count(len(r.Findings), "finding"), len(r.Unknown))
	for _, read := range r.Read {
		if read.Left != "" {
			p.note("The %s were left out: %s.", read.Part, read.Left)
		}
	}
	if len(r.Findings) > 0 && !explain {
		p.note("What to do about them: --explain.")
	}
}

// together puts the checks that can't tell for one reason into one line, a few of them
// by name.
func together(all []doctor.Unknown) []doctor.Unknown {
	const shown = 3
	var list []doctor.Unknown
	var checks [][]string
	for _, u := range all {
		i := slices.IndexFunc(list, func(l doctor.Unknown) bool { return l.Why == u.Why && l.About == u.About })
		if i < 0 {
			list, checks = append(list, u), append(checks, []string{u.Check})
			continue
		}
		checks[i] = append(checks[i], u.Check)
	}
	for i, c := range checks {
		list[i].Check = strings.Join(c[:min(shown, len(c))], ", ")
		if n := len(c) - shown; n > 0 {
			list[i].Check += fmt.Sprintf(" and %d more", n)
		}
	}
	return list
}

// finding prints all that is known of one finding.
func (p *program) finding(f doctor.Finding) {
	fmt.Fprintf(p.out, "%s  %s  %s\n", p.paint(bold, command.Clean(f.About.String())), p.severity(f.Severity), f.Check)
	p.field("Finding", f.Text.String())
	p.field("Do", f.Do.String())
	if f.Fixable {
		p.field("Fix", fmt.Sprintf("lbremedy doctor --fix %s %s", f.Check, f.About))
	}
	p.field("Services", strings.Join(f.Services, ", "))
	var evidence []string
	for _, k := range sortedKeys(f.Evidence) {
		evidence = append(evidence, k+": "+f.Evidence[k])
	}
	p.field("Evidence", strings.Join(evidence, "\n"))
}

// severity returns the word for a severity in its colour.
func (p *program) severity(s doctor.Severity) string {
	c := map[doctor.Severity]colour{doctor.Critical: red, doctor.Warning: yellow}[s]
	return p.paint(c, s.String())
}
