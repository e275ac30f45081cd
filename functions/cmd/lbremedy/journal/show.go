package journal

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/tickets"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/hand"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/stream"
)

func show(p *cli.Program) *cobra.Command {
	var whole, kept, patch bool
	cmd := &cobra.Command{
		Use:   "show CASE|NAMESPACE/SERVICE",
		Short: "Show a case: what failed, why, what was done and how it ended",
		Long: `Show a case: what users notice, the finding, what to do, what was written and what was
there before, and the outcome. -o wide also says how to undo it, how long it took, by which
reads the finding came about, and in which trace the run is.

Name a case by its ID or the start of it, or a Service for its newest case. Next says what
you do about a case that is not over, with the command.

-o json and -o yaml print the newest record of the case, or all of them with --history.

Before a plan of medium or high risk is applied, the journal keeps the state of the load
balancers: --snapshot prints it instead, as YAML, with listeners, groups and backends.

Where a GitOps tool owns what the plan writes, --patch prints the change instead, as a file
for "kubectl patch --patch-file" or for the patches of kustomize. Commit it to the source.`,
		Example: `  lbremedy show shop/web
  lbremedy show 3f9a12bc
  lbremedy show shop/web --patch > patch.yaml
  lbremedy show shop/web -o jsonpath='{.nextStep}'`,
		Args:              command.Exactly(1, 1, "a case ID or NAMESPACE/SERVICE"),
		ValidArgsFunction: Want{Is: func(History) bool { return true }}.Complete(p),
		RunE: p.OnStream(func(ctx context.Context, s *stream.Stream, args []string) error {
			p.NotePause(ctx, s)
			found, err := Named(ctx, p, s, args[0])
			if err != nil {
				return err
			}
			h := found[0]
			if kept {
				return showSnapshots(ctx, p, s, h.Last())
			}
			if patch {
				return printPatch(p, h.Last())
			}
			story, err := Tell(ctx, p, s, h)
			if err != nil {
				return err
			}
			records := english(story.Records)
			var value any = records[len(records)-1]
			if whole {
				value = records
			}
			return p.Print(value, func() {
				fmt.Fprintf(p.Out, "%s  %s\n", p.Paint(cli.Bold, command.Clean(h.Last().Service.String())), paint(p, story.Last().Result))
				printFields(p, story.Parts)
				undonePlan(p, h)
				if whole {
					fmt.Fprintf(p.Out, "\n%s\n", p.Paint(cli.Bold, p.Phrase("History")))
					for _, line := range lines(p, h) {
						fmt.Fprintln(p.Out, "  "+line)
					}
				}
				if len(found) > 1 {
					fmt.Fprintln(p.Out)
					p.Field("Others", others(p, found[1:], ""))
				}
			})
		}),
	}
	cmd.Flags().BoolVar(&whole, "history", false, "show all records of the case")
	cmd.Flags().BoolVar(&kept, "snapshot", false, "show the load balancers as they were before the write")
	cmd.Flags().BoolVar(&patch, "patch", false, "print the change to the source of the Service, if a GitOps tool owns it")
	cmd.MarkFlagsMutuallyExclusive("history", "snapshot", "patch")
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if patch && !p.ForPeople() && p.Output != "yaml" {
			return command.Wrong("show --patch prints YAML: leave out --output")
		}
		return nil
	}
	return cmd
}

// Named returns the case with a name, followed by the older ones of a Service.
func Named(ctx context.Context, p *cli.Program, s *stream.Stream, name string) ([]History, error) {
	found, name, err := meant(ctx, p, s, name)
	if err == nil && !service(name) && len(found) > 1 {
		err = command.Wrong("%d cases have the ID %s: name one with its class:\n%s", len(found), name, others(p, found, "  "))
	}
	return found, err
}

// A Story is everything shown about a case.
type Story struct {
	Records []Case // in printed form, the oldest first
	Parts   []Field
	Course  []Moment
}

// Last returns the newest record.
func (s Story) Last() Case { return s.Records[len(s.Records)-1] }

// Tell returns the story of a case, in the words of "lbremedy show".
func Tell(ctx context.Context, p *cli.Program, s *stream.Stream, h History) (Story, error) {
	seen, err := countSeen(ctx, p, s, h.Last().Service.UID, h)
	if err != nil {
		return Story{}, err
	}
	for i := range seen[:len(seen)-1] {
		seen[i].NextStep = "" // it is past
	}
	notified, err := tickets.Of(ctx, p, s, h.Last())
	if err != nil {
		return Story{}, err
	}
	last := seen[len(seen)-1]
	parts := append(fields(p, h.Last(), last.Repeats),
		Field{Name: p.Phrase("Seen"), Text: last.Repeats.in(p)}, Field{Name: p.Phrase("Tickets"), Text: notified})
	if p.Wide() {
		parts = append(parts, Field{Name: p.Phrase("Reads"), Quote: reads(h)})
	}
	return Story{Records: seen, Parts: parts, Course: timeline(p, h)}, nil
}

// reads describes the newest finding's reads, with the beginnings of the answers.
func reads(h History) string {
	text := ""
	for _, rec := range h {
		if len(rec.Reads) > 0 {
			text = ""
		}
		for _, r := range rec.Reads {
			text += strings.Join(strings.Fields(fmt.Sprintf("%s in %s: %s", r.Action, cli.Short(r.Took), cmp.Or(r.Error, r.Answer))), " ") + "\n"
		}
	}
	return text
}

// A Moment is one event in a case's timeline.
type Moment struct {
	At   time.Time
	Who  string // host of the run
	Text string
	Ends event.Status // status at the end of a run; empty: not an end
}

func timeline(p *cli.Program, h History) []Moment {
	var list []Moment
	for _, r := range h {
		r = r.In(p.Language())
		line, ends := string(r.Phase), event.Status("")
		switch r.Phase {
		case event.Step:
			line = stepLine(p, r)
		case event.Intent:
			line = p.Phrase("plan of %s decided, attempt %d", say.Count(len(r.Steps), "step"), r.Attempt)
			if r.Undoing {
				line = p.Phrase("undo of %s begun, attempt %d", say.Count(len(r.Steps), "step"), r.Attempt)
			}
		case event.Settled:
			ends = r.Status()
			line = p.Tell(ends.Word())
		}
		if r.Error != "" {
			line += ": " + command.Clean(r.Error)
		}
		list = append(list, Moment{r.At, r.Who, line, ends})
	}
	return list
}

func lines(p *cli.Program, h History) []string {
	var list []string
	for _, m := range timeline(p, h) {
		list = append(list, fmt.Sprintf("%s  %-6s  %s", cli.Clock(m.At), m.Who, m.Text))
	}
	return list
}

func stepLine(p *cli.Program, r event.Record) string {
	if r.Next == 0 || r.Next > len(r.Steps) {
		return p.Phrase("%d of %s applied", r.Next, say.Count(len(r.Steps), "step"))
	}
	s := r.Steps[r.Next-1]
	if s.Found {
		return p.Phrase("step %d of %d found applied: %s", r.Next, len(r.Steps), command.Clean(Brief(s.Text.String())))
	}
	return p.Phrase("step %d of %d applied: %s", r.Next, len(r.Steps), command.Clean(Brief(s.Text.String())))
}

// undonePlan prints what an undo has reverted, which the newest record lacks.
func undonePlan(p *cli.Program, h History) {
	if !h.Last().Undoing {
		return
	}
	before := slices.DeleteFunc(slices.Clone(h), func(r event.Record) bool { return r.Undoing })
	for _, done := range event.Attempts(before) {
		r := done // has only what an undo needs
		for _, one := range before {
			if one.Attempt == done.Attempt && len(one.Made()) == len(done.Made()) {
				r = one
			}
		}
		r = r.In(p.Language())
		fmt.Fprintln(p.Out)
		fmt.Fprintln(p.Out, p.Paint(cli.Bold, p.Phrase("What was undone: attempt %d, %s", r.Attempt, p.Tell(r.Status().Word()))))
		p.Field("Finding", r.Finding.String())
		p.Quoted("Plan", "", plan(p, r, false))
		p.Field("Rule", cmp.Or(r.Decided.String(), r.Rule.String()))
		p.Field("Written", p.Phrase("%s by %s", cli.Clock(r.Written), byWhom(p, r)))
	}
}

func others(p *cli.Program, rest []History, indent string) string {
	const most = 5
	var text string
	several := slices.ContainsFunc(rest, func(h History) bool { return h.Last().Service != rest[0].Last().Service })
	for i, h := range rest {
		if i == most {
			return text + indent + p.Phrase("and %d more", len(rest)-most)
		}
		r := h.Last()
		text += indent + p.Phrase("%s/%s  %s  %s ago", r.Case, r.Class, p.Tell(r.Status().Word()), p.Ago(r.At))
		if several {
			text += "  " + r.Service.String()
		}
		text += "\n"
	}
	return text
}

func showSnapshots(ctx context.Context, p *cli.Program, s *stream.Stream, r event.Record) error {
	list := []hand.Snapshot{}
	err := s.Each(ctx, stream.Cases, event.KeptSubject(r.Cluster, r.Service.UID, r.Class), time.Time{}, func(m stream.Message) error {
		kept, err := hand.ReadSnapshot(m.Data)
		if err != nil {
			return fmt.Errorf("message %d of the journal: %w", m.Sequence, err)
		}
		if kept.Case == r.Case {
			list = append(list, kept)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return command.Wrong("case %s has no snapshot: one is kept before a plan of medium or high risk is applied", r.Case)
	}
	as := *p
	if p.ForPeople() {
		as.Output = "yaml" // too much for a table
	}
	return as.Print(list, nil)
}

// printPatch prints the change to the source of the record's Service as a manifest with the patch alone. Comments say where the source may
// be: labels and annotations say so, and what strangers write is in quotes, so that it ends no comment.
func printPatch(p *cli.Program, r event.Record) error {
	if r.Source == nil {
		return command.Wrong("case %s asks for no change to a source: no GitOps tool owns what a plan of it would write, or it is over", r.Case)
	}
	doc := map[string]any{}
	if err := json.Unmarshal(r.Source.Patch, &doc); err != nil {
		return fmt.Errorf("case %s: read its patch: %w", r.Case, err)
	}
	meta, _ := doc["metadata"].(map[string]any)
	if meta == nil {
		meta = map[string]any{}
	}
	meta["namespace"], meta["name"] = r.Service.Namespace, r.Service.Name
	doc["apiVersion"], doc["kind"], doc["metadata"] = "v1", "Service", meta
	data, err := yaml.Marshal(doc)
	if err != nil {
		return fmt.Errorf("case %s: encode its patch: %w", r.Case, err)
	}
	lines := []string{
		p.Phrase("The change for the Service %q, case %q. Commit it to the source of the Service.", r.Service.String(), r.Case),
		p.Phrase("%q owns what the change writes, and reverts it in the cluster.", r.Source.Manager),
	}
	if r.Source.Kind != "" {
		lines = append(lines, p.Phrase("By its labels and annotations, the Service comes from the %s %q.", r.Source.Kind, r.Source.Name))
	}
	if r.Source.Object != "" {
		lines = append(lines, p.Phrase("Argo CD tracks it as %q.", r.Source.Object))
	}
	for _, line := range lines {
		fmt.Fprintln(p.Out, "# "+line)
	}
	_, err = p.Out.Write(data)
	return err
}
