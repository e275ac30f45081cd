// Package deadletter is the commands for dead letters, the messages that could not be
// handled: they list and show them, send them again and remove them.
package deadletter

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/answer"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/stream"
)

// Command returns the command dead.
func Command(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dead",
		Short: "Show dead letters and send them again",
		Long: `Show messages that could not be handled. A dead letter is an event that cannot be read,
has a class that no function handles, or cannot be published. It is kept for 30 days with
its reason and its origin.

Fix what the reason names, then send the letter again with "retry", or drop it.`,
	}
	return command.Parent(cmd, lsCommand(p), showCommand(p), retryCommand(p), dropCommand(p))
}

// A letter is a dead letter as the commands print it.
type letter struct {
	ID      uint64              `json:"id"` // its number in DEAD
	At      time.Time           `json:"at"` // when it was put there
	Reason  string              `json:"reason"`
	Origin  string              `json:"origin"`
	Cluster string              `json:"cluster,omitempty"`
	Class   string              `json:"class,omitempty"`
	Service *event.Service      `json:"service,omitempty"`
	Event   string              `json:"event,omitempty"`   // id of the CloudEvent
	Message string              `json:"message,omitempty"` // of the failure, without secrets
	Cut     int                 `json:"cut,omitempty"`     // bytes that its data had; absent: it is whole
	Headers map[string][]string `json:"headers,omitempty"`
	Data    string              `json:"data,omitempty"`

	raw stream.Message
}

// newLetter reads what it can from a message of DEAD: nothing in it can be relied on.
func newLetter(m stream.Message) letter {
	l := letter{ID: m.Sequence, At: m.Time, raw: m}
	l.Origin, l.Reason, _ = m.Origin()
	l.Reason = event.Redact(l.Reason)
	l.Cut, _ = strconv.Atoi(strings.Join(m.Header[stream.HeaderCut], "")) // absent: whole
	if cluster, class, _, err := event.ParseFailedSubject(l.Origin); err == nil {
		l.Cluster, l.Class = cluster, class
	}
	if cluster, ok := strings.CutPrefix(l.Origin, exporterOrigin); ok {
		l.Cluster = cluster
		var e answer.WireEvent
		if json.Unmarshal(m.Data, &e) == nil {
			o := e.Event().Object
			l.Service, l.Message = &event.Service{Namespace: o.Namespace, Name: o.Name, UID: o.UID}, event.Redact(e.Message)
		}
		return l
	}
	if e, err := event.DecodeNATS(m.Header, m.Data); err == nil {
		l.Event = e.ID()
		if f, err := event.ReadFailed(e); err == nil {
			l.Service, l.Message = &f.Service, f.Message
			l.Class, l.Cluster = cmp.Or(l.Class, f.Class), cmp.Or(l.Cluster, f.Cluster)
		}
	}
	return l
}

// exporterOrigin begins the origin of the Events that an exporter could not publish.
const exporterOrigin = "exporter."

// whole returns the letter with its own headers and data, the data without secrets.
func (l letter) whole() letter {
	_, _, l.Headers = l.raw.Origin()
	if l.Data = fmt.Sprintf("%x", l.raw.Data); utf8.Valid(l.raw.Data) {
		l.Data = event.Redact(string(l.raw.Data))
	}
	return l
}

// A choice says which dead letters are meant: some by number, or all that fit the flags.
type choice struct {
	ids            []uint64
	classes        []string
	origin, reason string
	scope          cli.Scope
	since, until   cli.Moment
	all            bool
}

func (c *choice) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringSliceVar(&c.classes, "class", nil, "only letters of these `classes`, which may be of an earlier release")
	f.StringVarP(&c.scope.Namespace, "namespace", "n", "", "only letters about Services of this `namespace`")
	f.StringVar(&c.scope.Service, "service", "", "only letters about this `Service`: NAME or NAMESPACE/NAME")
	f.StringVar(&c.origin, "origin", "", "only letters whose origin contains this `text`")
	f.StringVar(&c.reason, "reason", "", "only letters whose reason contains this `text`")
	f.Var(&c.since, "since", "only letters since this `time`: 90m, 7d or 2006-01-02T15:04")
	f.Var(&c.until, "until", "only letters until this `time`")
	command.Complete(cmd, "class", cli.CompleteClasses)
}

// read takes in the arguments and checks them.
func (c *choice) read(args []string) error {
	for _, arg := range args {
		id, err := strconv.ParseUint(arg, 10, 64)
		if err != nil || id == 0 {
			return command.Wrong("%q is not the number of a dead letter: \"lbremedy dead ls\" lists them", arg)
		}
		c.ids = append(c.ids, id)
	}
	return c.scope.Check()
}

// must checks that something is chosen, for a command that changes what it is given.
func (c *choice) must(cmd *cobra.Command) error {
	flags := len(c.classes) > 0 || c.origin+c.reason != "" || c.scope != (cli.Scope{}) || !c.since.IsZero() || !c.until.IsZero()
	switch {
	case len(c.ids) > 0 && (flags || c.all):
		return command.Wrong("%s takes numbers of dead letters or flags that choose them, not both", cmd.CommandPath())
	case len(c.ids) == 0 && !flags && !c.all:
		return command.Wrong("%s needs the numbers of dead letters, or flags that choose them, or --all: see %s --help", cmd.CommandPath(), cmd.CommandPath())
	}
	return nil
}

func (c *choice) means(p *cli.Program, l letter) bool {
	about := c.scope == cli.Scope{} || l.Service != nil && c.scope.Has(*l.Service)
	return about && l.within(p.Cluster) &&
		(len(c.classes) == 0 || slices.Contains(c.classes, l.Class)) &&
		strings.Contains(l.Origin, c.origin) && strings.Contains(l.Reason, c.reason) &&
		!l.At.Before(c.since.Time) && (c.until.IsZero() || !l.At.After(c.until.Time))
}

// within reports whether the letter is of a cluster, as far as it can be read; "" is any.
func (l letter) within(cluster string) bool {
	return cluster == "" || l.Cluster == cluster || l.Cluster == ""
}

// letters returns the chosen dead letters, the oldest first, and the numbers of those
// that are not there.
func letters(ctx context.Context, p *cli.Program, s *stream.Stream, c *choice) (found []letter, gone []uint64, err error) {
	if len(c.ids) > 0 {
		for _, id := range c.ids {
			m, err := s.At(ctx, stream.Dead, id)
			switch {
			case errors.Is(err, stream.ErrNotFound):
				gone = append(gone, id)
			case err != nil:
				return nil, nil, err
			default:
				l := newLetter(m)
				if !l.within(p.Cluster) {
					return nil, nil, command.Wrong("dead letter %d is of cluster %s and not of %s: name its cluster", id, l.Cluster, p.Cluster)
				}
				found = append(found, l)
			}
		}
		return found, gone, nil
	}
	g := p.Progress()
	defer g.Done()
	read := 0
	err = s.Each(ctx, stream.Dead, stream.DeadSubjects, c.since.Time, func(m stream.Message) error {
		if l := newLetter(m); c.means(p, l) {
			found = append(found, l)
		}
		read++
		g.Say("reading dead letters: %d", read)
		return nil
	})
	return found, nil, err
}

func lsCommand(p *cli.Program) *cobra.Command {
	var c choice
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List dead letters, the newest first",
		Long: `List dead letters, newest first. CLASS and SERVICE come from the letter itself, as far as
it can be read.`,
		Example: `  lbremedy dead ls --since 24h
  lbremedy dead ls --reason "not known here" -o json | jq '.[].id'`,
		Args: command.Exactly(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.read(nil); err != nil {
				return err
			}
			s, err := p.Stream(cmd.Context())
			if err != nil {
				return err
			}
			defer s.Close()
			list, _, err := letters(cmd.Context(), p, s, &c)
			if err != nil {
				return err
			}
			slices.Reverse(list)
			if list == nil {
				list = []letter{}
			}
			if len(list) == 0 {
				if err := p.NoteNone(cmd.Context(), s, say.F("dead letter")); err != nil {
					return err
				}
			}
			return p.Print(list, func() { listLetters(p, list) })
		},
	}
	c.flags(cmd)
	return cmd
}

func listLetters(p *cli.Program, list []letter) {
	if len(list) == 0 {
		return
	}
	t := p.Table("id", "age", "class", "service", "reason")
	used := 0
	for _, l := range list {
		used = max(used, len(l.Class)+len(l.about()))
	}
	for _, l := range list {
		t.AppendRow([]any{l.ID, p.Ago(l.At), command.Clean(cmp.Or(l.Class, "-")), command.Clean(l.about()), p.Cell(l.Reason, used+24)})
	}
	t.Render()
}

// about returns the Service that the letter is about, or else its origin.
func (l letter) about() string {
	if l.Service == nil {
		return cmp.Or(l.Origin, "-")
	}
	return l.Service.String()
}

func showCommand(p *cli.Program) *cobra.Command {
	return &cobra.Command{
		Use:               "show ID",
		Short:             "Show a dead letter: its reason, origin and content",
		Example:           `  lbremedy dead show 17`,
		Args:              command.Exactly(1, 1, "the number of a dead letter"),
		ValidArgsFunction: completeLetters(p),
		RunE: func(cmd *cobra.Command, args []string) error {
			var c choice
			if err := c.read(args); err != nil {
				return err
			}
			s, err := p.Stream(cmd.Context())
			if err != nil {
				return err
			}
			defer s.Close()
			found, _, err := letters(cmd.Context(), p, s, &c)
			if err != nil {
				return err
			}
			if len(found) == 0 {
				return command.Wrong("there is no dead letter %d: \"lbremedy dead ls\" lists them", c.ids[0])
			}
			l := found[0].whole()
			return p.Print(l, func() { showLetter(p, l) })
		},
	}
}

// blank is the name of a field that goes on.
const blank = " "

func showLetter(p *cli.Program, l letter) {
	fmt.Fprintf(p.Out, "%s  %s\n", p.Paint(cli.Bold, p.Phrase("Dead letter %d", l.ID)), command.Clean(l.about()))
	p.Field("Died", p.Phrase("%s, %s ago", cli.Clock(l.At), p.Ago(l.At)))
	p.Field("Reason", l.Reason)
	p.Field("Origin", l.Origin)
	p.Field("Class", l.Class)
	p.Field("Event", l.Event)
	p.Field("Message", l.Message)
	if l.Cut > 0 {
		p.Field("Cut", p.Phrase("It had %d bytes, of which the first %d are kept.", l.Cut, len(l.raw.Data)))
	}
	for i, k := range slices.Sorted(maps.Keys(l.Headers)) {
		line := k + ": " + strings.Join(l.Headers[k], ", ")
		if i == 0 {
			p.Field("Headers", line)
			continue
		}
		p.Field(blank, line)
	}
	p.Field("Data", l.Data)
}

// completeLetters completes the numbers of dead letters.
func completeLetters(p *cli.Program) cobra.CompletionFunc {
	return p.CompleteFrom(func(ctx context.Context, s *stream.Stream, args []string) ([]cobra.Completion, error) {
		list, _, err := letters(ctx, p, s, &choice{})
		var ids []cobra.Completion
		for _, l := range slices.Backward(list) {
			if id := strconv.FormatUint(l.ID, 10); !slices.Contains(args, id) {
				ids = append(ids, cobra.CompletionWithDesc(id, strings.Join(strings.Fields(command.Clean(l.about()+" "+l.Reason)), " ")))
			}
		}
		return ids, err
	})
}
