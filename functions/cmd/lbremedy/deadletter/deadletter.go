// Package deadletter holds the commands that list, retry and remove dead letters: messages that could not be handled. Begin with Command.
package deadletter

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	"github.com/lbremedy/lbremedy/shared/kube"
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

func (c *choice) flagged() bool { return len(c.classes) > 0 || c.reason != "" || c.all }

func (c *choice) notBoth(cmd *cobra.Command, args []string) error {
	if len(args) > 0 && c.flagged() {
		return command.Wrong("%s takes numbers of dead letters or flags that choose them, not both", cmd.CommandPath())
	}
	return nil
}

func (c *choice) must(cmd *cobra.Command, args []string) error {
	if len(args) == 0 && !c.flagged() {
		return command.Wrong("%s needs the numbers of dead letters, or flags that choose them, or --all: see %s --help", cmd.CommandPath(), cmd.CommandPath())
	}
	return c.notBoth(cmd, args)
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
	cmd.PreRunE = c.notBoth
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

const (
	letterSent      = "sent"      // its origin holds it again
	letterOvertaken = "overtaken" // its origin holds a newer failure; it is dropped
	letterRefused   = "refused"   // it stays in DEAD
	letterDropped   = "dropped"
	letterGone      = "gone" // it no longer existed
)

type fate struct {
	ID     uint64 `json:"id"`
	Result string `json:"result"`
	Why    string `json:"why,omitempty"`
	why    say.Text
}

func became(id uint64, result string, why say.Text) fate {
	return fate{id, result, cli.Capital(why.String()), why}
}

func retryCommand(p *cli.Program) *cobra.Command {
	return settling(p, revive, &cobra.Command{
		Use:   "retry [ID]...",
		Short: "Send dead letters again",
		Long: `Send dead letters to their origin again, and remove each once it is stored there. A
letter stays, and the exit code is 1, if no function would handle it, if it is an Event
that an exporter could not publish, or if it was too long to be kept whole. If a newer
failure of the same Service and class exists, the letter is only removed.

You can stop it at any time and run it again: no letter is lost or sent twice.`,
		Example: `  lbremedy dead retry 17
  lbremedy dead retry --class tag-missing`,
	})
}

func dropCommand(p *cli.Program) *cobra.Command {
	return settling(p, drop, &cobra.Command{
		Use:   "drop [ID]...",
		Short: "Remove dead letters",
		Long: `Remove dead letters for good, without handling them. A letter that is already gone is not
an error.`,
		Example: `  lbremedy dead drop 17 18
  lbremedy dead drop --reason "is not a UUID"`,
	})
}

// settling makes a command apply do to each chosen letter.
func settling(p *cli.Program, do func(context.Context, *cli.Program, *stream.Stream, letter) (fate, error), cmd *cobra.Command) *cobra.Command {
	var c choice
	cmd.PreRunE = c.must
	cmd.RunE = p.OnStream(func(ctx context.Context, s *stream.Stream, args []string) error {
		if err := cli.KnownCluster(ctx, s, p.Cluster); err != nil {
			return err
		}
		found, gone, err := c.letters(ctx, p, s, args)
		if err != nil {
			return err
		}
		fates := []fate{}
		for _, id := range gone {
			fates = append(fates, became(id, letterGone, say.F("This dead letter does not exist.")))
		}
		g := p.Progress()
		for i, l := range found {
			f, err := do(ctx, p, s, l)
			if err != nil {
				g.Done()
				return errors.Join(printFates(p, fates), say.Errorf("dead letter %d, after %d others: %w", l.ID, i, err))
			}
			fates = append(fates, f)
			g.Say("%d of %d", i+1, len(found))
		}
		g.Done()
		err = printFates(p, fates)
		if err == nil && slices.ContainsFunc(fates, func(f fate) bool { return f.Result == letterRefused }) {
			err = command.Exit(command.CodeFailed)
		}
		return err
	})
	c.flags(p, cmd)
	cmd.Flags().BoolVar(&c.all, "all", false, "all dead letters")
	return cmd
}

func drop(ctx context.Context, _ *cli.Program, s *stream.Stream, l letter) (fate, error) {
	removed, err := s.Remove(ctx, stream.Dead, l.ID)
	if err == nil && !removed {
		return became(l.ID, letterGone, say.F("It was already removed.")), nil
	}
	return became(l.ID, letterDropped, nil), err
}

func printFates(p *cli.Program, fates []fate) error {
	return p.Print(fates, func() {
		if len(fates) == 0 {
			p.Note("No dead letter is selected.")
			return
		}
		t := p.Table("id", "result", "why")
		for _, f := range fates {
			t.AppendRow([]any{f.ID, f.Result, cli.Plain(cli.Capital(p.Tell(f.why)))})
		}
		t.Render()
	})
}

// revive removes a letter once it is stored. It sends the letter under its own ID: an interrupted call sends nothing twice.
func revive(ctx context.Context, p *cli.Program, s *stream.Stream, l letter) (fate, error) {
	if err := refusal(p, l); err != nil {
		return became(l.ID, letterRefused, say.F("%s.", say.Of(err))), nil
	}
	subject, header, data := l.Origin, l.Headers, l.raw.Data
	version := versionIn(p, header, data)
	id := fmt.Sprintf("retry.%d.%d", l.ID, l.At.UnixNano())
	_, stored, err := s.PublishNewer(ctx, subject, id, header, data, func(m stream.Message) bool {
		return !kube.Later(versionIn(p, m.Header, m.Data), version)
	})
	if err != nil {
		return fate{}, err
	}
	f := became(l.ID, letterSent, nil)
	if !stored {
		now, err := s.Last(ctx, stream.Failed, subject)
		if err != nil && !errors.Is(err, stream.ErrNotFound) {
			return fate{}, err
		}
		if now.ID() != id {
			f = became(l.ID, letterOvertaken, say.F("A newer failure of this Service and class has taken its place."))
		}
	}
	if _, err := s.Remove(ctx, stream.Dead, l.ID); err != nil {
		return fate{}, err
	}
	return f, nil
}

// refusal returns why nobody would handle the letter; nil if a function would.
func refusal(p *cli.Program, l letter) error {
	if l.Cut > 0 {
		return say.Errorf("It had %d bytes and was truncated, so it can't be sent again", l.Cut)
	}
	if strings.HasPrefix(l.Origin, exporterOrigin) {
		return say.Errorf("An Event cannot be sent again. The next failed sync writes another one")
	}
	_, class, _, err := event.ParseFailedSubject(l.Origin)
	if err != nil {
		return say.Errorf("No function handles messages from %q", l.Origin)
	}
	if _, err := p.ClassOf(class); err != nil {
		return say.Errorf("No function handles the class %q any more", class)
	}
	return nil
}

// versionIn returns "" if the version is unreadable; any other then replaces it.
func versionIn(p *cli.Program, header map[string][]string, data []byte) string {
	it, err := answer.Kept(p, stream.Message{Header: header, Data: data})
	if err != nil && !errors.As(err, new(command.Mistake)) {
		return ""
	}
	return it.Event.Failure.Event.ResourceVersion
}
