package answer

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/paste"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/event/table"
)

func classifyCommand(p *cli.Program) *cobra.Command {
	var explain bool
	cmd := &cobra.Command{
		Use:   "classify [TEXT|FILE|-]...",
		Short: "Name the class of failures in messages, Events, logs and errors of tools",
		Long: `Name the error class of messages, by the same table as the exporter.

An argument is a message, a file, or - for standard input. Paste what you have: messages,
Events as kubectl prints them in any form, lines of the controller's log, and errors of
Terraform, the SDKs of Alibaba Cloud and the aliyun CLI. Each text that is found has an
answer of its own, in order. A file of JSON objects, one per line, with the optional keys
reason, type, component and message has one answer per line.

The class is "unclassified" for a failed load-balancer sync that no class covers, and
"ignored" for anything else, including failures of other clouds and of other products of
Alibaba Cloud. No secret of a text is printed. -o json prints one object per answer. The
exit code is 0 whatever the classes are. The next command is printed on standard error.`,
		Example: `  lbremedy classify 'Error syncing load balancer []: Message: The specified VSwitch has no available ip.'
  kubectl describe service web | lbremedy classify
  kubectl get events -A -o json | lbremedy classify -o json -
  kubectl logs -n kube-system ds/cloud-controller-manager | lbremedy classify - | grep -v ^ignored
  terraform apply -no-color 2>&1 | lbremedy classify --explain`,
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveDefault
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				if p.Terminal(p.In) > 0 {
					return command.Wrong("classify needs a text, a file, or - for standard input: see lbremedy classify --help")
				}
				args = []string{"-"}
			}
			c := &classifying{Program: p, by: event.NewClassifier(table.Table()), explain: explain, out: bufio.NewWriter(p.Out), about: map[string]string{}}
			q := *p
			q.Out, c.Program = c.out, &q
			var err error
			for _, arg := range args {
				if err = c.argument(arg); err != nil {
					break
				}
			}
			if err = errors.Join(err, c.out.Flush()); err == nil && p.ForPeople() {
				c.next()
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&explain, "explain", false, "say which other class came close, and why it was not chosen")
	return cmd
}

// A classifying is one call of classify.
type classifying struct {
	*cli.Program
	by      *event.Classifier
	explain bool
	out     *bufio.Writer
	found   []string          // classes, each once
	about   map[string]string // a Service by the class of its failure
}

// argument answers an argument: standard input, a file, or a message.
func (c *classifying) argument(arg string) error {
	if arg == "-" {
		return c.read("standard input", c.In)
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
		return c.read(arg, f)
	}
	if looksLikeFile(arg) {
		return command.Wrong("there is no file %s", event.Redact(arg))
	}
	return c.read("the message", strings.NewReader(arg))
}

// read answers the texts in a file.
func (c *classifying) read(name string, from io.Reader) error {
	lines := bufio.NewReaderSize(from, 64<<10)
	texts := paste.NewReader(c.answer)
	for n := 1; ; n++ {
		line, err := lines.ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("read %s: %w", name, err)
		}
		end := err != nil
		if n == 1 {
			line = strings.TrimPrefix(line, "\ufeff") // some editors begin files so
		}
		err = texts.Line(strings.TrimRight(line, "\r\n"))
		if err == nil && end {
			err = texts.Close()
		}
		var broken paste.FieldsError
		switch {
		case errors.As(err, &broken):
			return command.Wrong("line %d of %s is not a JSON object with the texts reason, type, component and message: %w", n, name,
				cli.OneLine(cli.JSONError(broken.Err)))
		case errors.Is(err, paste.ErrLong):
			return command.Wrong("%s: %w", name, err)
		case err != nil || end:
			return err
		}
		if lines.Buffered() == 0 { // who writes slowly wants to see answers
			if err := c.out.Flush(); err != nil {
				return err
			}
		}
	}
}

// An answer is what classify prints. The texts for people are absent unless asked for.
type answer struct {
	Class    string     `json:"class"`
	Matched  string     `json:"matched"`
	Kind     paste.Kind `json:"kind"`
	Service  string     `json:"service,omitempty"`
	By       *string    `json:"by,omitempty"`
	RunnerUp *string    `json:"runnerUp,omitempty"`
	Why      *string    `json:"why,omitempty"`
}

func (c *classifying) answer(t paste.Text) error {
	m := event.Match{Class: event.Ignored, Why: t.Why}
	if t.Why == "" {
		m = c.by.Classify(t.Input)
	}
	if m.Class != event.Ignored && !slices.Contains(c.found, m.Class) {
		c.found = append(c.found, m.Class)
	}
	if _, err := cli.ServiceArg(t.Service); err == nil && c.about[m.Class] == "" {
		c.about[m.Class] = t.Service
	}
	a := answer{Class: m.Class, Matched: m.Matched, Kind: t.Kind, Service: t.Service}
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
			said = cmp.Or(t.Input.Message, t.Why)
		}
		if t.Service != "" {
			said = t.Service + ": " + said
		}
		fmt.Fprintf(c.out, "%-*s  %-*s  %s\n", wide, m.Class, kindWide, t.Kind, c.Cell(said, wide+kindWide+4))
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

// mostNext is how many classes classify ends with commands for.
const mostNext = 3

// next says what comes next: what would be done about a Service that fails, or which cases there are of its class.
func (c *classifying) next() {
	for _, class := range c.found[:min(len(c.found), mostNext)] {
		switch about := c.about[class]; {
		case class == event.Unclassified:
			c.Note("No class covers a failed sync. The controller's log has its error code and request ID. " +
				"Look up the code, or submit a ticket to Alibaba Cloud with both.")
		case about != "":
			c.Note("To see what would be done about %s: lbremedy plan %s", class, about)
		default:
			c.Note("To list the cases of %s: lbremedy ls --class %s", class, class)
		}
	}
}

const kindWide = len(paste.Describe) // no kind has a longer name

// looksLikeFile reports whether an argument is meant as the name of a file, to tell
// a mistyped one from a message.
func looksLikeFile(arg string) bool {
	endings := []string{".txt", ".log", ".json", ".jsonl", ".ndjson", ".yaml", ".yml"}
	return !strings.ContainsAny(arg, " \t\n") && slices.Contains(endings, filepath.Ext(arg))
}
