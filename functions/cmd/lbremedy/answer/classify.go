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
	"github.com/lbremedy/lbremedy/functions/doctor"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/regex"
)

func classifyCommand(p *cli.Program) *cobra.Command {
	var explain, each bool
	cmd := &cobra.Command{
		Use:   "classify [TEXT|FILE|-]...",
		Short: "Name the class of failures in messages, Events, logs and errors of tools",
		Long: `Name the error class of messages, by the same table as the exporter.

An argument is a message, a file, or - for standard input. Paste what you have: messages,
Events as kubectl prints them in any form, lines of the controller's log, and errors of
Terraform, the SDKs of Alibaba Cloud and the aliyun CLI. Each text that is found has an
answer of its own. Of a JSON object the keys reason, type, component and message are read,
as the exporters of Events name them. Texts with the same answer are counted in one line: -v
prints each as it comes. A question without an error, such as "503 during a rollout", leads to
the check of the doctor that looks for its causes.

The class is "unclassified" for a failed load-balancer sync that no class covers, and
"ignored" for anything else, including failures of other clouds and of other products of
Alibaba Cloud. No secret of a text is printed. -o json prints one object per text. The
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
			c := &classifying{Program: p, by: p.Classifier(), explain: explain, each: each, rows: map[string]*row{}}
			var err error
			for _, arg := range args {
				if err = c.argument(arg); err != nil {
					break
				}
			}
			for _, r := range c.order {
				if !each {
					c.print(r)
				}
			}
			if err == nil && p.ForPeople() {
				c.next()
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&explain, "explain", false, "say which other class came close, and why it was not chosen")
	cmd.Flags().BoolVarP(&each, "verbose", "v", false, "print the answer to each text, as it comes")
	return cmd
}

type classifying struct {
	*cli.Program
	by      *event.Classifier
	explain bool
	each    bool // print each answer at once
	seen    []doctor.Symptom
	rows    map[string]*row // rows of the table, by their common answer
	order   []*row
}

// A row is the answer to some texts.
type row struct {
	Classified
	text  paste.Text // the first of them
	about string     // the first full name of a Service
	count int
}

func (c *classifying) argument(arg string) error {
	if arg == "-" {
		return texts("standard input", c.In, c.answer)
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
		return texts(arg, f, c.answer)
	}
	if looksLikeFile(arg) {
		return command.Wrong("there is no file %s", event.Redact(arg))
	}
	return texts("the message", strings.NewReader(arg), c.answer)
}

func texts(name string, from io.Reader, yield func(paste.Text) error) error {
	lines := bufio.NewReaderSize(from, 64<<10)
	texts := paste.NewReader(yield)
	for n := 1; ; n++ {
		line, err := lines.ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("read %s: %w", name, err)
		}
		end := err != nil
		if n == 1 {
			line = strings.TrimPrefix(line, "\ufeff") // some editors begin files with it
		}
		err = texts.Line(strings.TrimRight(line, "\r\n"))
		if err == nil && end {
			err = texts.Close()
		}
		switch {
		case errors.Is(err, paste.ErrLong):
			return command.Wrong("%s: %w", name, err)
		case err != nil || end:
			return err
		}
	}
}

// Classify yields the classification of each text in a paste.
func Classify(p *cli.Program, pasted string, yield func(Classified) error) error {
	by := p.Classifier()
	return texts("the text", strings.NewReader(pasted), func(t paste.Text) error {
		a, _ := classified(by, t)
		return yield(a)
	})
}

// A Classified is the classification of one text.
type Classified struct {
	Class    string     `json:"class"`
	Matched  string     `json:"matched"`
	Kind     paste.Kind `json:"kind"`
	Service  string     `json:"service,omitempty"`
	Check    string     `json:"check,omitempty"` // the doctor's check that looks for causes of the symptom
	By       *string    `json:"by,omitempty"`
	RunnerUp *string    `json:"runnerUp,omitempty"`
	Why      *string    `json:"why,omitempty"`
}

// classified also returns the symptom if a person asks about one without an error; nil if not.
func classified(by *event.Classifier, t paste.Text) (Classified, *doctor.Symptom) {
	m := t.Classify(by)
	a := Classified{Class: m.Class, Matched: m.Matched, Kind: t.Kind, Service: t.Service, By: &m.By, RunnerUp: &m.RunnerUp, Why: &m.Why}
	if m.Class == event.Ignored && t.Kind == paste.Message && asks(t.Input.Message) {
		if s, ok := doctor.SymptomIn(t.Input.Message); ok {
			a.Check = s.Check
			return a, &s
		}
	}
	return a, nil
}

func (c *classifying) answer(t paste.Text) error {
	a, sees := classified(c.by, t)
	if sees != nil && !slices.ContainsFunc(c.seen, func(other doctor.Symptom) bool { return other.Text.String() == sees.Text.String() }) {
		c.seen = append(c.seen, *sees)
	}
	said := a
	if !c.explain {
		said.By, said.RunnerUp, said.Why = nil, nil, nil
	}
	return c.Line(said, func() {
		key := strings.Join([]string{a.Class, a.Matched, a.Check, string(a.Kind)}, "\x00")
		r := c.rows[key]
		if r == nil {
			r = &row{Classified: a, text: t}
			c.rows[key], c.order = r, append(c.order, r)
		}
		r.count++
		if _, err := cli.ServiceArg(t.Service); err == nil && r.about == "" {
			r.about = t.Service
		}
		if c.each {
			c.print(&row{Classified: a, text: t})
		}
	})
}

// logged matches lines of a log, but not a person's question.
var logged = regex.New(`[{}\[\]=|]|\d\d:\d\d:\d\d`)

// asks reports whether a text may be a person's question.
func asks(text string) bool { return len(text) <= 2000 && !logged().MatchString(text) }

func (c *classifying) print(r *row) {
	wide := 0
	for _, id := range append(c.Classes(), event.Unclassified) {
		wide = max(wide, len(id))
	}
	said := cmp.Or(r.Matched, r.text.Input.Message, r.text.Why)
	if r.Service != "" {
		said = r.Service + ": " + said
	}
	class := r.Class
	if r.Check != "" {
		class = "doctor: " + r.Check
	}
	count := ""
	if r.count > 1 {
		count = fmt.Sprintf("%dx ", r.count)
	}
	fmt.Fprintf(c.Out, "%-*s  %-*s  %s%s\n", wide, class, kindWide, r.Kind, count, c.Cell(said, wide+kindWide+4+len(count)))
	if c.explain {
		not := ""
		if *r.RunnerUp != "" {
			not = "not " + *r.RunnerUp + ": "
		}
		fmt.Fprintf(c.Out, "%*s  %s%s\n", wide, "", not, command.Clean(*r.Why))
	}
}

// mostNext is the most classes for which classify prints the next commands.
const mostNext = 3

func (c *classifying) next() {
	var found []string
	about := map[string]string{} // by class
	for _, r := range c.order {
		if r.Class != event.Ignored && !slices.Contains(found, r.Class) {
			found = append(found, r.Class)
		}
		about[r.Class] = cmp.Or(about[r.Class], r.about)
	}
	for _, class := range found[:min(len(found), mostNext)] {
		switch {
		case class == event.Unclassified:
			c.Note("No class covers a failed sync. The controller's log has its error code and request ID. " +
				"Look up the code, or submit a ticket to Alibaba Cloud with both.")
		case about[class] != "":
			c.Note("To see what would be done about %s: lbremedy plan %s", class, about[class])
		default:
			c.Note("To list the cases of %s: lbremedy ls --class %s", class, class)
		}
	}
	if len(found)+len(c.seen) == 0 && len(c.order) == 1 && !c.each && c.order[0].text.Why != "" {
		c.Note("%s", c.order[0].text.Why)
	}
	for _, s := range c.seen[:min(len(c.seen), mostNext)] {
		if s.Check == "" {
			c.Note("%s: %s", s.Text, s.Means)
			continue
		}
		c.Note("%s: lbremedy doctor --checks %s --severity info", s.Text, s.Check)
	}
}

const kindWide = len(paste.Describe) // the longest name of a kind

// looksLikeFile tells a mistyped file name from a message.
func looksLikeFile(arg string) bool {
	endings := []string{".txt", ".log", ".json", ".jsonl", ".ndjson", ".yaml", ".yml"}
	return !strings.ContainsAny(arg, " \t\n") && slices.Contains(endings, filepath.Ext(arg))
}
