// Package hands is the command for authors of a class's hand, in any language. Begin with Command.
package hands

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/lbremedy/lbremedy/functions"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/hand"
	"github.com/lbremedy/lbremedy/shared/hand/route"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/say/chinese"
	"github.com/lbremedy/lbremedy/shared/step"
)

// Command returns the command hand.
func Command(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "hand",
		Short: "Help to write a class in another language",
		Long: `Help to write the hand of a class in another language than Go. The hand answers signed calls
over HTTP; shared/hand/README.md describes them.`,
	}
	return command.Parent(cmd, testCommand(p))
}

type test struct {
	*cli.Program
	class, key, cases string
}

// A Checked is the result of one check.
type Checked struct {
	Check string `json:"check"`
	Error string `json:"error,omitempty"` // empty: passed

	text say.Text
}

func testCommand(p *cli.Program) *cobra.Command {
	t := &test{Program: p}
	cmd := &cobra.Command{
		Use:   "test URL",
		Short: "Check whether a hand keeps the contract",
		Long: `Check whether the hand at URL keeps the contract of a class: it accepts what the engine
signs, refuses everything else, and answers recorded cases as they say. The hand must accept
the public half of the key, and be of the cluster that --cluster names. Nothing is written.

Exit codes: 0 it keeps the contract; 1 it does not; 2 the usage or a file is wrong.`,
		Example: `  lbremedy hand test http://127.0.0.1:9000 --cluster c1234 --class class.yaml --engine-key engine.pem
  lbremedy hand test http://127.0.0.1:9000 --cluster c1234 --class class.yaml --engine-key engine.pem --cases cases.yaml`,
		Args: command.Exactly(1, 1, "name the URL of the hand"),
		RunE: func(cmd *cobra.Command, args []string) error { return t.run(cmd.Context(), args[0]) },
	}
	cmd.Flags().StringVar(&t.class, "class", "", "`file` with the declaration of the class, in YAML or JSON; required")
	cmd.Flags().StringVar(&t.key, "engine-key", "", "`file` with the private key that signs the calls, from lbremedy keys; required")
	cmd.Flags().StringVar(&t.cases, "cases", "", "`file` with a list of recorded cases, in YAML or JSON")
	return cmd
}

func (t *test) run(ctx context.Context, address string) error {
	r, cases, err := t.read(address)
	if err != nil {
		return err
	}
	bad, all := 0, []Checked{}
	hand.Conform(ctx, r, t.Cluster, cases, func(check say.Text, err error) {
		c := Checked{Check: check.String(), text: check}
		if err != nil {
			bad++
			c.Error = command.Clean(event.Redact(err.Error()))
		}
		all = append(all, c)
	})
	err = t.Print(all, func() {
		for _, c := range all {
			word := t.Paint(cli.Green, t.Phrase("ok"))
			if c.Error != "" {
				word = t.Paint(cli.Red, t.Phrase("wrong"))
			}
			fmt.Fprintf(t.Out, "%s  %s\n", word, t.Tell(c.text))
			if c.Error != "" {
				fmt.Fprintf(t.Out, "    %s\n", c.Error)
			}
		}
	})
	if err == nil && bad > 0 {
		t.Note("%d of %d checks failed.", bad, len(all))
		err = command.Exit(command.CodeFailed)
	}
	return err
}

func (t *test) read(address string) (*hand.Remote, []hand.Recorded, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, nil, command.Wrong("%q is not a URL such as http://127.0.0.1:9000", address)
	case t.Cluster == "":
		return nil, nil, command.Wrong("name the cluster of the hand with --cluster")
	case t.class == "":
		return nil, nil, command.Wrong("--class: name the file with the declaration")
	case t.key == "":
		return nil, nil, command.Wrong("--engine-key: name the file with the private key (lbremedy keys makes one)")
	}
	_, text, err := t.ReadText(t.class)
	var class *remedy.Remedy
	if err == nil {
		class, err = cli.ParseDeclaration(text)
	}
	if err != nil {
		return nil, nil, command.Wrong("--class: %s: %w", t.class, err)
	}
	_, text, err = t.ReadText(t.key)
	if err != nil {
		return nil, nil, command.Wrong("--engine-key: %w", err)
	}
	key, err := hand.ParseKey(text)
	if err != nil {
		return nil, nil, command.Wrong("--engine-key: %s: %w", t.key, err)
	}
	var cases []hand.Recorded
	if t.cases != "" {
		if _, text, err = t.ReadText(t.cases); err == nil {
			err = cli.DecodeStrict(text, &cases)
		}
		if err != nil {
			return nil, nil, command.Wrong("--cases: %s: %w", t.cases, err)
		}
	}
	to, err := route.To(address)
	if err != nil {
		return nil, nil, err
	}
	send := func(ctx context.Context, call []byte) ([]byte, error) {
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		return to.Send(ctx, call)
	}
	known := functions.Chinese(chinese.Language)()
	return &hand.Remote{Class: class, Key: key, Decode: step.Decode, Known: known.Has, Send: send}, cases, nil
}
