package deadletter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/answer"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/stream"
)

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
	var c choice
	cmd := &cobra.Command{
		Use:   "retry [ID]...",
		Short: "Send dead letters again",
		Long: `Send dead letters to their origin again, and remove each once it is stored there. A
letter stays, and the exit code is 1, if no function would handle it, if it is an Event
that an exporter could not publish, or if it was too long to be kept whole. If a newer
failure of the same Service and class exists, the letter is only removed.

You can stop it at any time and run it again: no letter is lost or sent twice.`,
		Example: `  lbremedy dead retry 17
  lbremedy dead retry --class tag-missing`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return settleLetters(p, cmd, &c, args, revive)
		},
	}
	c.flags(p, cmd)
	cmd.Flags().BoolVar(&c.all, "all", false, "all dead letters")
	return cmd
}

func dropCommand(p *cli.Program) *cobra.Command {
	var c choice
	cmd := &cobra.Command{
		Use:   "drop [ID]...",
		Short: "Remove dead letters",
		Long: `Remove dead letters for good, without handling them. A letter that is already gone is not
an error.`,
		Example: `  lbremedy dead drop 17 18
  lbremedy dead drop --reason "is not a UUID"`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return settleLetters(p, cmd, &c, args, drop)
		},
	}
	c.flags(p, cmd)
	cmd.Flags().BoolVar(&c.all, "all", false, "all dead letters")
	return cmd
}

func drop(ctx context.Context, _ *cli.Program, s *stream.Stream, l letter) (fate, error) {
	removed, err := s.Remove(ctx, stream.Dead, l.ID)
	switch {
	case err != nil:
		return fate{}, err
	case !removed:
		return became(l.ID, letterGone, say.F("It was already removed.")), nil
	}
	return became(l.ID, letterDropped, nil), nil
}

func settleLetters(
	p *cli.Program, cmd *cobra.Command, c *choice, args []string, do func(context.Context, *cli.Program, *stream.Stream, letter) (fate, error),
) error {
	if err := c.must(cmd, args); err != nil {
		return err
	}
	ctx := cmd.Context()
	s, err := p.Stream(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
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
	if err := printFates(p, fates); err != nil {
		return err
	}
	if slices.ContainsFunc(fates, func(f fate) bool { return f.Result == letterRefused }) {
		return command.Exit(command.CodeFailed)
	}
	return nil
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
	subject, header, data, err := revived(p, l)
	if err != nil {
		return became(l.ID, letterRefused, say.F("%s.", say.Of(err))), nil
	}
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

// revived returns the letter in the form that FAILED takes, or why nobody would handle it.
func revived(p *cli.Program, l letter) (subject string, header map[string][]string, data []byte, err error) {
	if l.Cut > 0 {
		return "", nil, nil, say.Errorf("It had %d bytes and was truncated, so it can't be sent again", l.Cut)
	}
	if strings.HasPrefix(l.Origin, exporterOrigin) {
		return "", nil, nil, say.Errorf("An Event cannot be sent again. The next failed sync writes another one")
	}
	_, class, _, err := event.ParseFailedSubject(l.Origin)
	if err != nil {
		return "", nil, nil, say.Errorf("No function handles messages from %q", l.Origin)
	}
	if _, err := p.ClassOf(class); err != nil {
		return "", nil, nil, say.Errorf("No function handles the class %q any more", class)
	}
	return l.Origin, l.Headers, l.raw.Data, nil
}

// versionIn returns "" if the version is unreadable; any other then replaces it.
func versionIn(p *cli.Program, header map[string][]string, data []byte) string {
	it, err := answer.Kept(p, stream.Message{Header: header, Data: data})
	if err != nil && !errors.As(err, new(command.Mistake)) {
		return ""
	}
	return it.Event.Failure.Event.ResourceVersion
}
