// Package deadletter holds the commands that list, retry and remove dead letters: messages that could not be handled. Begin with Command.
package deadletter

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

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
		Short: "List dead letters and send them again",
		Long: `List messages that could not be handled. A dead letter is an event that cannot be read,
has a class that no function handles, or cannot be published. It is kept for 30 days with
its reason and its origin.

Fix what the reason names, then send the letter again with "retry", or drop it.`,
	}
	return command.Parent(cmd, lsCommand(p), retryCommand(p), dropCommand(p))
}

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
	Cut     int                 `json:"cut,omitempty"`     // original size of its data in bytes; absent: it is whole
	Headers map[string][]string `json:"headers,omitempty"`
	Data    string              `json:"data,omitempty"` // without secrets; binary data in hexadecimal digits

	raw stream.Message
}

// newLetter reads a message as far as possible. All of it is untrusted.
func newLetter(m stream.Message) letter {
	l := letter{ID: m.Sequence, At: m.Time, raw: m}
	l.Origin, l.Reason, l.Headers = m.Origin()
	l.Reason = event.Redact(l.Reason)
	l.Cut, _ = strconv.Atoi(strings.Join(m.Header[stream.HeaderCut], "")) // absent: whole
	if l.Data = fmt.Sprintf("%x", m.Data); utf8.Valid(m.Data) {
		l.Data = event.Redact(string(m.Data))
	}
	if cluster, class, _, err := event.ParseFailedSubject(l.Origin); err == nil {
		l.Cluster, l.Class = cluster, class
	}
	if cluster, ok := strings.CutPrefix(l.Origin, exporterOrigin); ok {
		l.Cluster = cluster
		var e struct {
			InvolvedObject event.Service
			Message        string
		}
		if json.Unmarshal(m.Data, &e) == nil {
			l.Service, l.Message = &e.InvolvedObject, event.Redact(e.Message)
			l.Service.Kind = ""
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

const exporterOrigin = "exporter."

type choice struct {
	classes []string
	reason  string
	all     bool
}

func (c *choice) flags(p *cli.Program, cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&c.classes, "class", nil, "only letters of these `classes`, which may be of an earlier release")
	cmd.Flags().StringVar(&c.reason, "reason", "", "only letters whose reason contains this `text`")
	command.Complete(cmd, "class", p.CompleteClasses)
}

func (c *choice) must(cmd *cobra.Command, args []string) error {
	flags := len(c.classes) > 0 || c.reason != "" || c.all
	switch {
	case len(args) > 0 && flags:
		return command.Wrong("%s takes numbers of dead letters or flags that choose them, not both", cmd.CommandPath())
	case len(args) == 0 && !flags:
		return command.Wrong("%s needs the numbers of dead letters, or flags that choose them, or --all: see %s --help", cmd.CommandPath(), cmd.CommandPath())
	}
	return nil
}

// letters returns the oldest first, and the numbers that don't exist.
func (c *choice) letters(ctx context.Context, p *cli.Program, s *stream.Stream, args []string) (found []letter, gone []uint64, err error) {
	for _, arg := range args {
		id, err := strconv.ParseUint(arg, 10, 64)
		if err != nil || id == 0 {
			return nil, nil, command.Wrong("%q is not the number of a dead letter: \"lbremedy dead ls\" lists them", arg)
		}
		gone = append(gone, id)
	}
	g := p.Progress()
	defer g.Done()
	read := 0
	err = s.Each(ctx, stream.Dead, stream.DeadSubjects, time.Time{}, func(m stream.Message) error {
		read++
		g.Say("reading dead letters: %d", read)
		l := newLetter(m)
		within := p.Cluster == "" || l.Cluster == p.Cluster || l.Cluster == "" // as far as it can be read
		i := slices.Index(gone, l.ID)
		switch {
		case i >= 0 && !within:
			return command.Wrong("dead letter %d is of cluster %s and not of %s: name its cluster", l.ID, l.Cluster, p.Cluster)
		case i >= 0:
			gone, found = slices.Delete(gone, i, i+1), append(found, l)
		case len(args) == 0 && within && (len(c.classes) == 0 || slices.Contains(c.classes, l.Class)) && strings.Contains(l.Reason, c.reason):
			found = append(found, l)
		}
		return nil
	})
	return found, gone, err
}

func lsCommand(p *cli.Program) *cobra.Command {
	var c choice
	cmd := &cobra.Command{
		Use:   "ls [ID]...",
		Short: "List dead letters, the newest first",
		Long: `List dead letters, newest first. CLASS and SERVICE come from the letter itself, as far as
it can be read. -o json and -o yaml print all of a letter, with its headers and data.`,
		Example: `  lbremedy dead ls
  lbremedy dead ls 17 -o yaml
  lbremedy dead ls --reason "not known here" -o json | jq '.[].id'`,
		RunE: p.OnStream(func(ctx context.Context, s *stream.Stream, args []string) error {
			list, gone, err := c.letters(ctx, p, s, args)
			if err != nil {
				return err
			}
			if len(gone) > 0 {
				return command.Wrong("dead letter %d does not exist: \"lbremedy dead ls\" lists them", gone[0])
			}
			slices.Reverse(list)
			if len(list) == 0 {
				list = []letter{}
				if err := p.NoteNone(ctx, s, say.F("dead letter")); err != nil {
					return err
				}
			}
			return p.Print(list, func() { listLetters(p, list) })
		}),
	}
	c.flags(p, cmd)
	return cmd
}

func listLetters(p *cli.Program, list []letter) {
	t := p.Table("id", "age", "class", "service", "reason")
	for _, l := range list {
		t.AppendRow([]any{l.ID, p.Ago(l.At), command.Clean(cmp.Or(l.Class, "-")), command.Clean(l.about()), cli.Plain(l.Reason)})
	}
	t.Render()
}

func (l letter) about() string {
	if l.Service == nil {
		return cmp.Or(l.Origin, "-")
	}
	return l.Service.String()
}
