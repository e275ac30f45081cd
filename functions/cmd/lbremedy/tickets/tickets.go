// Package tickets holds the commands for incidents and their tickets. Begin with Command.
package tickets

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/shared/ticket"
)

// Command returns the command tickets.
func Command(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tickets",
		Short: "Show and close incidents and their tickets",
		Long: `Show incidents: Services that fail for one cause, with their tickets at the sinks of the
policy file. An incident ends when its failures are over. It is kept for a week; a failure
that returns within that time reopens the same tickets.`,
	}
	return command.Parent(cmd, lsCommand(p), showCommand(p), closeCommand(p))
}

// incidents returns the incidents of the flags' cluster, or of all, with the status of each Service; it reports and omits unreadable ones.
func incidents(ctx context.Context, p *cli.Program, s *stream.Stream) ([]ticket.Incident, error) {
	list, err := ticket.List(ctx, s)
	if err != nil && list == nil {
		return nil, err
	}
	if err != nil {
		p.Note("Unreadable entries are left out: %s", command.Clean(err.Error()))
	}
	list = slices.DeleteFunc(list, func(i ticket.Incident) bool { return !within(p.Cluster, i) })
	for _, i := range list {
		for k, m := range i.Members {
			i.Members[k].Result = event.Result(m.Status())
			if m.Stood != "" {
				m.Result = m.Stood
				i.Members[k].Stood = event.Result(m.Status())
			}
		}
	}
	return list, nil
}

// within reports whether an incident belongs to a cluster; "" is any. Without Services, its scope decides.
func within(cluster string, i ticket.Incident) bool {
	in := func(m ticket.Member) bool { return m.Cluster == cluster }
	return cluster == "" || slices.ContainsFunc(i.Members, in) || len(i.Members) == 0 && strings.HasSuffix(i.Scope, "-"+cluster)
}

func lsCommand(p *cli.Program) *cobra.Command {
	all := false
	var scope cli.Scope
	order := cli.Order[ticket.Incident]{Columns: map[string]func(a, b ticket.Incident) int{
		"incident": func(a, b ticket.Incident) int { return strings.Compare(a.ID, b.ID) },
		"cause":    func(a, b ticket.Incident) int { return strings.Compare(a.Cause, b.Cause) },
		"failing":  func(a, b ticket.Incident) int { return cmp.Compare(b.Failing, a.Failing) },
		"age":      func(a, b ticket.Incident) int { return b.Since.Compare(a.Since) },
	}}
	var cmd *cobra.Command
	cmd = &cobra.Command{
		Use:   "ls",
		Short: "List the open incidents",
		Long: `List the open incidents, most recently changed first, with the number of failing Services
and the ticket at each sink: its ID, or that the sink rejects it.`,
		Example: `  lbremedy tickets ls
  lbremedy tickets ls --all -o json | jq -r '.[].tickets[] | select(.refused) | .error'`,
		Args: command.Exactly(0, 0, ""),
		RunE: p.OnStream(func(ctx context.Context, s *stream.Stream, _ []string) error {
			if err := scope.Check(); err != nil {
				return err
			}
			list, err := incidents(ctx, p, s)
			if err != nil {
				return err
			}
			list = slices.DeleteFunc(list, func(i ticket.Incident) bool {
				of := func(m ticket.Member) bool { return scope.Has(m.Service) }
				return !all && !i.Open || scope.Namespace != "" && !slices.ContainsFunc(i.Members, of)
			})
			order.Sort(list)
			if len(list) == 0 {
				if err := p.NoteNone(ctx, s, cli.Chosen(cmd, say.F("incident"))); err != nil {
					return err
				}
			}
			english := make([]ticket.Incident, len(list))
			for n, i := range list {
				english[n] = i.In(nil)
			}
			return p.Print(english, func() {
				t := p.Table("incident", "cause", "failing", "over", "age", "tickets")
				for _, i := range list {
					t.AppendRow([]any{i.ID, cli.Plain(i.Cause), i.Failing, len(i.Members) - i.Failing, p.Ago(i.Since), cli.Plain(sinks(p, i.Tickets))})
				}
				t.Render()
				noteUntold(ctx, p, s, list)
			})
		}),
	}
	p.AddNamespace(cmd, &scope, "only incidents with Services of this `namespace`")
	order.Add(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "also incidents that ended in the last week")
	return cmd
}

// noteUntold names the clusters without sinks in their policy: the one of the flags, and those of the incidents.
func noteUntold(ctx context.Context, p *cli.Program, s *stream.Stream, list []ticket.Incident) {
	clusters := map[string]bool{}
	if p.Cluster != "" {
		clusters[p.Cluster] = true
	}
	for _, i := range list {
		for _, m := range i.Members {
			clusters[m.Cluster] = true
		}
	}
	for _, cluster := range slices.Sorted(maps.Keys(clusters)) {
		now, _, err := p.InForce(ctx, s, cluster)
		switch {
		case err != nil:
			p.Note("Whether anybody is told about cluster %s is unknown: %s", cluster, command.Clean(err.Error()))
		case len(now.Sinks) == 0:
			p.Note("Nobody is told about cluster %s: \"tell\" is empty in its policy. Name a sink there.", cluster)
		}
	}
}

func sinks(p *cli.Program, list []ticket.Notified) string {
	count := map[string]int{}
	var order []string
	for _, t := range list {
		word := t.Sink + " " + stateText(p, t)
		if t.Service == "" && t.ID != "" && t.ID != t.Key {
			word += " " + t.ID
		}
		if count[word]++; count[word] == 1 {
			order = append(order, word)
		}
	}
	for n, word := range order {
		if count[word] > 1 {
			order[n] = fmt.Sprintf("%s (%d)", word, count[word])
		}
	}
	return cmp.Or(strings.Join(order, ", "), p.Phrase("none"))
}

func stateText(p *cli.Program, t ticket.Notified) string {
	switch {
	case t.Refused:
		return p.Phrase("refused")
	case t.Error != "", t.Status == ticket.None:
		return p.Phrase("waiting")
	case t.Status == ticket.Closed:
		return p.Phrase("closed")
	}
	return p.Phrase("open")
}

func result(p *cli.Program, m ticket.Member) string {
	switch m.Result {
	case ticket.Moved:
		return p.Phrase("moved")
	case ticket.ByHand:
		return p.Phrase("closed")
	case ticket.Muted:
		return p.Phrase("muted")
	}
	return p.Tell(event.Status(m.Result).Word())
}

func incident(ctx context.Context, p *cli.Program, s *stream.Stream, name string) (ticket.Incident, error) {
	if name == "" { // all IDs begin with it
		return ticket.Incident{}, command.Wrong("%q is not an incident: name one by its ID or the start of it", name)
	}
	list, err := incidents(ctx, p, s)
	if err != nil {
		return ticket.Incident{}, err
	}
	list = slices.DeleteFunc(list, func(i ticket.Incident) bool {
		return !strings.HasPrefix(i.ID, name) && !slices.ContainsFunc(i.Tickets, func(t ticket.Notified) bool { return t.Key == name || t.ID == name })
	})
	switch len(list) {
	case 0:
		return ticket.Incident{}, command.Wrong("there is no incident %q%s: \"lbremedy tickets ls --all\" lists those that are known", name, cli.InCluster(p.Cluster))
	case 1:
		return list[0], nil
	}
	return ticket.Incident{}, command.Wrong("%d incidents begin with %s: give a whole ID, as \"lbremedy tickets ls\" shows it", len(list), name)
}

func showCommand(p *cli.Program) *cobra.Command {
	return &cobra.Command{
		Use:   "show INCIDENT",
		Short: "Show an incident with all its Services and tickets",
		Long: `Show an incident with all its Services and tickets. Name it by its ID or the start of it,
or by the ID or reference of one of its tickets.`,
		Example: `  lbremedy tickets show account-c1234.arrearage`,
		Args:    command.Exactly(1, 1, "an incident"),
		RunE: p.OnStream(func(ctx context.Context, s *stream.Stream, args []string) error {
			i, err := incident(ctx, p, s, args[0])
			if err != nil {
				return err
			}
			return p.Print(i.In(nil), func() { showIncident(p, i) })
		}),
	}
}

func showIncident(p *cli.Program, i ticket.Incident) {
	word := p.Paint(cli.Green, p.Phrase("over"))
	if i.Open {
		word = p.Paint(cli.Yellow, p.Phrase("open"))
	}
	fmt.Fprintf(p.Out, "%s  %s\n", p.Paint(cli.Bold, i.ID), word)
	p.Field("Since", p.Phrase("%s, %s ago", cli.Clock(i.Since), p.Ago(i.Since)))
	p.Quoted("Cause", "", i.Cause)
	p.Field("Finding", p.Tell(i.Finding))
	fmt.Fprintln(p.Out)
	t := p.Table("about", "cluster", "case", "result", "age")
	for _, m := range i.Members {
		t.AppendRow([]any{command.Clean(m.Service.String()), m.Cluster, m.Case, result(p, m), p.Ago(m.At)})
	}
	t.Render()
	if len(i.Tickets) == 0 {
		return
	}
	fmt.Fprintln(p.Out)
	t = p.Table("sink", "ticket", "status", "sent", "last", "error")
	for _, k := range i.Tickets {
		last := p.Phrase("never")
		if !k.At.IsZero() {
			last = p.Phrase("%s ago", p.Ago(k.At))
		}
		t.AppendRow([]any{k.Sink, cmp.Or(k.ID, k.Key), stateText(p, k), k.Number, last, cli.Plain(cmp.Or(k.Error, k.Missed))})
	}
	t.Render()
}

func closeCommand(p *cli.Program) *cobra.Command {
	return &cobra.Command{
		Use:   "close INCIDENT",
		Short: "Close an incident and its tickets",
		Long: `Close an incident: its failures count as over, and "lbremedy up" closes the tickets at the
sinks. A failure that returns reopens them; to get no more tickets, mute the Service with
the label lbremedy.io/mute.`,
		Example: `  lbremedy tickets close account-c1234.arrearage`,
		Args:    command.Exactly(1, 1, "an incident"),
		RunE: p.OnStream(func(ctx context.Context, s *stream.Stream, args []string) error {
			i, err := incident(ctx, p, s, args[0])
			if err != nil {
				return err
			}
			n, err := ticket.Close(ctx, s, i.ID, cmp.Or(p.Getenv("USER"), "unknown"), p.Now())
			if errors.Is(err, stream.ErrNotFound) {
				return command.Wrong("incident %s no longer exists: \"lbremedy tickets ls --all\" lists those that are known", i.ID)
			}
			if err != nil {
				return err
			}
			return p.Print(map[string]any{"incident": i.ID, "closed": n}, func() {
				if strings.HasPrefix(i.Class, doctor.ClassPrefix) {
					fmt.Fprintln(p.Out, p.Phrase("Closed %s with %s.", i.ID, say.Count(n, "case")))
					return
				}
				fmt.Fprintln(p.Out, p.Phrase("Closed %s, which affected %s.", i.ID, say.Count(n, "Service")))
			})
		}),
	}
}

// Of returns the tickets of a case, one per line.
func Of(ctx context.Context, p *cli.Program, s *stream.Stream, r event.Record) (string, error) {
	found, err := ticket.Of(ctx, s, r.Class, r.Service.UID)
	if err != nil {
		return "", err
	}
	var lines []string
	for _, t := range found {
		lines = append(lines, p.Phrase("%s: %s, %s of incident %s", t.Sink, stateText(p, t), cmp.Or(t.ID, t.Key), t.Incident))
	}
	return strings.Join(lines, "\n"), nil
}
