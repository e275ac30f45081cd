package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/shared/ticket"
)

// tickets is the command that holds those for tickets, and shows the commands there are.
func (p *program) tickets() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tickets",
		Short: "Look at incidents and their tickets, and close them",
		Long: `Look at incidents: Services that fail for one cause, with what the sinks of the policy
file have been told of each. An incident ends by itself when its failures are over; one
that ended is known for a week, and a failure that comes back within it opens the same
tickets again.`,
	}
	return command.Parent(cmd, p.ticketsLs(), p.ticketsShow(), p.ticketsClose())
}

// incidents returns what is known; what can't be read is said and left out.
func (p *program) incidents(ctx context.Context, s *stream.Stream) ([]ticket.Incident, error) {
	list, err := ticket.List(ctx, s)
	if err != nil && list == nil {
		return nil, err
	}
	if err != nil {
		p.note("What can't be read is left out: %s", command.Clean(err.Error()))
	}
	return list, nil
}

func (p *program) ticketsLs() *cobra.Command {
	all := false
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List the open incidents",
		Long: `List the open incidents, the one that changed last first, with how many Services fail
and what each sink knows: the ID that it gave the ticket, or that it refuses it.`,
		Example: `  lbremedy tickets ls
  lbremedy tickets ls --all -o json | jq -r '.[].tickets[] | select(.refused) | .error'`,
		Args: command.Exactly(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := p.stream(cmd.Context())
			if err != nil {
				return err
			}
			defer s.Close()
			list, err := p.incidents(cmd.Context(), s)
			if err != nil {
				return err
			}
			if !all {
				list = slices.DeleteFunc(list, func(i ticket.Incident) bool { return !i.Open })
			}
			return p.print(list, func() {
				if len(list) == 0 {
					p.note("No incident.")
					return
				}
				t := p.table("incident", "cause", "failing", "over", "age", "tickets")
				for _, i := range list {
					t.AppendRow([]any{i.ID, p.cell(i.Cause, 120), i.Failing, len(i.Members) - i.Failing, p.ago(i.Since), p.cell(sinks(i.Tickets), 100)})
				}
				t.Render()
			})
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "also those that ended in the last week")
	return cmd
}

// sinks says what the sinks know, in one line.
func sinks(list []ticket.Told) string {
	count := map[string]int{}
	var order []string
	for _, t := range list {
		word := t.Sink + " " + standing(t)
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
	return cmp.Or(strings.Join(order, ", "), "none")
}

// standing returns the word for what a sink knows.
func standing(t ticket.Told) string {
	switch {
	case t.Refused:
		return "refused"
	case t.Error != "":
		return "waiting"
	}
	return cmp.Or(string(t.Status), "waiting")
}

// incident returns the one that a name means: its ID or the beginning of one.
func (p *program) incident(ctx context.Context, s *stream.Stream, name string) (ticket.Incident, error) {
	list, err := p.incidents(ctx, s)
	if err != nil {
		return ticket.Incident{}, err
	}
	list = slices.DeleteFunc(list, func(i ticket.Incident) bool {
		return !strings.HasPrefix(i.ID, name) && !slices.ContainsFunc(i.Tickets, func(t ticket.Told) bool { return t.Key == name || t.ID == name })
	})
	switch len(list) {
	case 0:
		return ticket.Incident{}, command.Wrong("there is no incident %q: \"lbremedy tickets ls --all\" lists those that are known", name)
	case 1:
		return list[0], nil
	}
	return ticket.Incident{}, command.Wrong("%d incidents begin with %s: give a whole ID, as \"lbremedy tickets ls\" shows it", len(list), name)
}

func (p *program) ticketsShow() *cobra.Command {
	return &cobra.Command{
		Use:   "show INCIDENT",
		Short: "Show an incident with all its Services and tickets",
		Long: `Show an incident with all its Services and tickets. It is named by its ID, the
beginning of one, or the ID or reference of one of its tickets.`,
		Example: `  lbremedy tickets show account-c1234.arrearage`,
		Args:    command.Exactly(1, 1, "an incident"),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := p.stream(cmd.Context())
			if err != nil {
				return err
			}
			defer s.Close()
			i, err := p.incident(cmd.Context(), s, args[0])
			if err != nil {
				return err
			}
			return p.print(i, func() { p.showIncident(i) })
		},
	}
}

func (p *program) showIncident(i ticket.Incident) {
	word := p.paint(green, "over")
	if i.Open {
		word = p.paint(yellow, "open")
	}
	fmt.Fprintf(p.out, "%s  %s\n", p.paint(bold, i.ID), word)
	p.field("Since", clock(i.Since)+", "+p.ago(i.Since)+" ago")
	p.field("Cause", i.Cause)
	p.field("Finding", i.Finding)
	fmt.Fprintln(p.out)
	t := p.table("about", "cluster", "case", "result", "age")
	for _, m := range i.Members {
		t.AppendRow([]any{command.Clean(m.Service.String()), m.Cluster, m.Case, string(m.Result), p.ago(m.At)})
	}
	t.Render()
	if len(i.Tickets) == 0 {
		return
	}
	fmt.Fprintln(p.out)
	t = p.table("sink", "ticket", "status", "told", "last", "error")
	for _, k := range i.Tickets {
		last := "never"
		if !k.At.IsZero() {
			last = p.ago(k.At) + " ago"
		}
		t.AppendRow([]any{k.Sink, cmp.Or(k.ID, k.Key), standing(k), k.Number, last, p.cell(k.Error, 100)})
	}
	t.Render()
}

func (p *program) ticketsClose() *cobra.Command {
	return &cobra.Command{
		Use:   "close INCIDENT",
		Short: "Close an incident by hand, and with it its tickets",
		Long: `Close an incident by hand: its Services count as over, and "lbremedy up" closes the
tickets at the sinks. A failure that comes back opens them again; to have no more of
them, mute the Service with the label lbremedy.io/mute.`,
		Example: `  lbremedy tickets close account-c1234.arrearage`,
		Args:    command.Exactly(1, 1, "an incident"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			s, err := p.stream(ctx)
			if err != nil {
				return err
			}
			defer s.Close()
			i, err := p.incident(ctx, s, args[0])
			if err != nil {
				return err
			}
			n, err := ticket.Close(ctx, s, i.ID, cmp.Or(p.getenv("USER"), "unknown"), p.now())
			if errors.Is(err, stream.ErrNotFound) {
				return command.Wrong("incident %s has just gone: \"lbremedy tickets ls --all\" lists those that are known", i.ID)
			}
			if err != nil {
				return err
			}
			return p.print(map[string]any{"incident": i.ID, "closed": n}, func() {
				if strings.HasPrefix(i.Class, doctor.ClassPrefix) {
					fmt.Fprintf(p.out, "Closed %s, of which %s stood.\n", i.ID, ccm.Count(n, "case"))
					return
				}
				fmt.Fprintf(p.out, "Closed %s, over which %s failed.\n", i.ID, ccm.Count(n, "Service"))
			})
		},
	}
}

// ticketsOf names the tickets of a case, one in a line.
func ticketsOf(ctx context.Context, s *stream.Stream, r event.Record) (string, error) {
	found, err := ticket.Of(ctx, s, r.Class, r.Service.UID)
	if err != nil {
		return "", err
	}
	var lines []string
	for _, t := range found {
		lines = append(lines, fmt.Sprintf("%s: %s, %s of incident %s", t.Sink, standing(t), cmp.Or(t.ID, t.Key), t.Incident))
	}
	return strings.Join(lines, "\n"), nil
}
