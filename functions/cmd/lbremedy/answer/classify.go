package answer

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"

	"github.com/spf13/cobra"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/event/table"
)

func classifyCommand(p *cli.Program) *cobra.Command {
	var explain bool
	var given event.Input
	cmd := &cobra.Command{
		Use:   "classify [MESSAGE|FILE|-]...",
		Short: "Name the class of failure messages",
		Long: `Name the error class of messages, by the same table as the exporter.

An argument is a message, a file, or - for standard input. A file holds one message per
line, as plain text or as a JSON object with the optional keys reason, type, component and
message; other keys are ignored, and so are blank lines. --reason, --type and --component
describe the Events of plain messages.

The class is "unclassified" for a failed load-balancer sync that no class covers, and
"ignored" for anything else, including failures of other clouds. The results are in the
order of the messages; -o json prints one object per line.`,
		Example: `  lbremedy classify 'Error syncing load balancer []: Message: The specified VSwitch has no available ip.'
  kubectl get events -A -o json | jq -c '.items[] | {reason, type, message}' | lbremedy classify -o json -`,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				if p.Terminal(p.In) > 0 {
					return command.Wrong("classify needs a message, a file, or - for standard input: see lbremedy classify --help")
				}
				args = []string{"-"}
			}
			c := &classifying{Program: p, by: event.NewClassifier(table.Table()), explain: explain, out: bufio.NewWriter(p.Out)}
			q := *p
			q.Out, c.Program = c.out, &q
			var err error
			for _, arg := range args {
				if err = c.argument(arg, given); err != nil {
					break
				}
			}
			return errors.Join(err, c.out.Flush())
		},
	}
	cmd.Flags().BoolVar(&explain, "explain", false, "say which other class came close, and why it was not chosen")
	cmd.Flags().StringVar(&given.Reason, "reason", "", "`reason` of the Events that plain messages come from")
	cmd.Flags().StringVar(&given.Type, "type", "", "`type` of these Events: Warning or Normal")
	cmd.Flags().StringVar(&given.Component, "component", "", "`component` that wrote these Events")
	return cmd
}

// A classifying is one call of classify.
type classifying struct {
	*cli.Program
	by      *event.Classifier
	explain bool
	out     *bufio.Writer
}

// argument answers an argument: standard input, a file, or a message.
func (c *classifying) argument(arg string, given event.Input) error {
	if arg == "-" {
		return c.read("standard input", c.In, given)
	}
	if info, err := os.Stat(arg); err == nil {
		if info.IsDir() {
			return command.Wrong("%s is a directory: give the files in it", arg)
		}
		f, err := os.Open(arg)
		if err != nil {
			return command.Wrong("read messages: %w", err)
		}
		defer f.Close()
		return c.read(arg, f, given)
	}
	if cli.LooksLikeFile(arg) {
		return command.Wrong("there is no file %s", arg)
	}
	given.Message = arg
	return c.answer(given)
}

// read answers the lines of a file. It is one of JSON lines if its first line
// begins as an object does.
func (c *classifying) read(name string, from io.Reader, given event.Input) error {
	lines := bufio.NewReaderSize(from, 64<<10)
	isJSON := false
	for n, seen := 1, false; ; n++ {
		line, err := lines.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("read %s: %w", name, err)
		}
		end := err != nil
		if n == 1 {
			line = bytes.TrimPrefix(line, []byte("\ufeff")) // some editors begin files so
		}
		line = bytes.TrimRight(line, "\r\n")
		if blank := bytes.TrimSpace(line); len(blank) > 0 {
			if !seen {
				seen, isJSON = true, opens.Match(blank) || blank[0] == '{' && json.Valid(blank)
				if string(blank) == "{" || string(blank) == "[" || blank[0] == '[' && json.Valid(blank) {
					return command.Wrong("%s does not hold one object per line: write it with jq -c", name)
				}
			}
			in := given
			in.Message = string(line)
			if isJSON {
				if in, err = ReadInput(blank); err != nil {
					return command.Wrong("line %d of %s is not a JSON object with the texts reason, type, component and message: %w", n, name, err)
				}
			}
			if err := c.answer(in); err != nil {
				return err
			}
		}
		if end {
			return nil
		}
		if lines.Buffered() == 0 { // who writes slowly wants to see answers
			if err := c.out.Flush(); err != nil {
				return err
			}
		}
	}
}

// ReadInput reads a line of JSON, with the texts of an Event.
func ReadInput(line []byte) (event.Input, error) {
	// Into a struct, a key in other letters would be read, too.
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(line, &keys); err != nil {
		return event.Input{}, cli.OneLine(cli.JSONError(err))
	}
	if keys == nil {
		return event.Input{}, errors.New("it is null")
	}
	var in event.Input
	for _, text := range []struct {
		key string
		to  *string
	}{{"reason", &in.Reason}, {"type", &in.Type}, {"component", &in.Component}, {"message", &in.Message}} {
		value, ok := keys[text.key]
		if !ok {
			continue
		}
		if err := json.Unmarshal(value, text.to); err != nil {
			var kind *json.UnmarshalTypeError
			if errors.As(err, &kind) {
				kind.Field = text.key
			}
			return event.Input{}, cli.OneLine(cli.JSONError(err))
		}
	}
	return in, nil
}

// opens is how a JSON object begins, whole or broken.
var opens = regexp.MustCompile(`^\{\s*"`)

// An answer is what classify prints. The texts for people are absent unless asked for.
type answer struct {
	Class    string  `json:"class"`
	Matched  string  `json:"matched"`
	By       *string `json:"by,omitempty"`
	RunnerUp *string `json:"runnerUp,omitempty"`
	Why      *string `json:"why,omitempty"`
}

func (c *classifying) answer(in event.Input) error {
	m := c.by.Classify(in)
	a := answer{Class: m.Class, Matched: m.Matched}
	if c.explain {
		a.By, a.RunnerUp, a.Why = &m.By, &m.RunnerUp, &m.Why
	}
	return c.Line(a, func() {
		wide := 0
		for _, id := range append(cli.Classes(), event.Unclassified) {
			wide = max(wide, len(id))
		}
		said := m.Matched
		if said == "" {
			said = in.Message
		}
		fmt.Fprintf(c.out, "%-*s  %s\n", wide, m.Class, c.Cell(said, wide+2))
		if c.explain {
			if m.RunnerUp != "" {
				fmt.Fprintf(c.out, "%*s  not %s: ", wide, "", m.RunnerUp)
			} else {
				fmt.Fprintf(c.out, "%*s  ", wide, "")
			}
			fmt.Fprintln(c.out, command.Clean(m.Why))
		}
	})
}
