package command_test

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/lbremedy/lbremedy/shared/command"
)

func TestRun(t *testing.T) {
	t.Parallel()
	ended, end := context.WithCancel(t.Context())
	end()
	for _, tt := range []struct {
		name string
		ctx  context.Context
		err  error
		args []string
		code int
		says string
	}{
		{name: "well", args: []string{"do", "it"}},
		{name: "failed", args: []string{"do", "it"}, err: errors.New("read it: \x1b[31mno"), code: 1, says: "error: read it:  [31mno\n"},
		{name: "several", args: []string{"do", "it"}, err: errors.Join(errors.New("one"), command.Wrong("two")), code: 2, says: "error: one\nerror: two\n"},
		{name: "with a list", args: []string{"do", "it"}, err: command.Wrong("name one:\n%s", "  a\x1b\n  b\n"), code: 2, says: "error: name one:\n  a\n  b\n"},
		{name: "said already", args: []string{"do", "it"}, err: command.Exit(3), code: 3},
		{name: "told to end", ctx: ended, args: []string{"do", "it"}, err: context.Canceled, code: 1, says: "error: interrupted\n"},
		{name: "ended by itself", args: []string{"do", "it"}, err: context.Canceled, code: 1, says: "error: context canceled\n"},
		{name: "no such command", args: []string{"undo"}, code: 2, says: "error: unknown command \"undo\": did you mean do?\n"},
		{name: "no such command below one", args: []string{"more", "othr"}, code: 2, says: "error: unknown command \"more othr\": did you mean more other?\n"},
		{name: "nothing like it below one", args: []string{"more", "zebra"}, code: 2, says: "error: unknown command \"more zebra\": see tool more --help\n"},
		{name: "help of no command", args: []string{"help", "dos"}, code: 2, says: "error: unknown command \"dos\": did you mean do?\n"},
		{name: "help of no command below one", args: []string{"help", "more", "othr"}, code: 2,
			says: "error: unknown command \"more othr\": did you mean more other?\n"},
		{name: "no such shell", args: []string{"completion", "bsh"}, code: 2,
			says: "error: unknown command \"completion bsh\": did you mean completion bash?\n"},
		{name: "help of an argument", args: []string{"help", "do", "it"}, code: 2, says: "error: unknown command \"do it\": see tool do --help\n"},
		{name: "a flag like another", args: []string{"do", "it", "--cuont=3"}, code: 2, says: "error: unknown flag --cuont: did you mean --count?\n"},
		{name: "a global flag like another", args: []string{"do", "it", "--clust", "c1"}, code: 2,
			says: "error: unknown flag --clust: did you mean --cluster?\n"},
		{name: "a flag like no other", args: []string{"do", "it", "--zebra"}, code: 2, says: "error: unknown flag: --zebra: see tool do --help\n"},
		{name: "an unknown short flag", args: []string{"do", "it", "-z"}, code: 2, says: "error: unknown shorthand flag: 'z' in -z: see tool do --help\n"},
		{name: "nothing like it", args: []string{"everything"}, code: 2, says: "error: unknown command \"everything\": see tool --help\n"},
		{name: "too few", args: []string{"do"}, code: 2, says: "error: do needs a thing: see tool do --help\n"},
		{name: "too many", args: []string{"do", "a", "b"}, code: 2, says: "error: do takes a thing, and \"b\" is one too many: see tool do --help\n"},
		{name: "none wanted", args: []string{"rest", "a"}, code: 2, says: "error: rest takes no argument, and \"a\" is one: see tool rest --help\n"},
		{name: "a flag that is not a number", args: []string{"do", "it", "--count", "x"}, code: 2,
			says: "error: invalid argument \"x\" for \"--count\" flag: must be an integer: see tool do --help\n"},
		{name: "a flag that is not a duration", args: []string{"do", "it", "--wait", "x"}, code: 2,
			says: "error: invalid argument \"x\" for \"--wait\" flag: must be a duration like \"30s\" or \"5m\": see tool do --help\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			do := &cobra.Command{Use: "do", Args: command.Exactly(1, 1, "a thing"), RunE: func(*cobra.Command, []string) error { return tt.err }}
			do.Flags().Int("count", 0, "")
			do.Flags().Duration("wait", 0, "")
			rest := &cobra.Command{Use: "rest", Args: command.Exactly(0, 0, ""), RunE: func(*cobra.Command, []string) error { return nil }}
			more := command.Parent(&cobra.Command{Use: "more"}, &cobra.Command{Use: "other", RunE: rest.RunE})
			root := &cobra.Command{Use: "tool"}
			root.PersistentFlags().String("cluster", "", "")
			command.Root(root, command.Group{ID: "all", Title: "All:", Commands: []*cobra.Command{do, rest, more}})
			var out, said bytes.Buffer
			root.SetOut(&out)
			root.SetErr(&said)
			if tt.ctx == nil {
				tt.ctx = t.Context()
			}
			code := command.Run(tt.ctx, root, tt.args, "error:")
			if d := cmp.Diff(tt.says, said.String()); d != "" || code != tt.code || out.Len() > 0 {
				t.Errorf("code %d, want %d, with %q\n%s", code, tt.code, out.String(), d)
			}
		})
	}
}

func TestErrorsNameLocalTimes(t *testing.T) {
	zone := time.Local
	time.Local = time.FixedZone("CST", 8*60*60)
	t.Cleanup(func() { time.Local = zone })
	do := &cobra.Command{Use: "do", RunE: func(*cobra.Command, []string) error { return errors.New("it was done at 2026-01-02T15:04:05Z: ask") }}
	root := command.Root(&cobra.Command{Use: "tool"}, command.Group{ID: "all", Title: "All:", Commands: []*cobra.Command{do}})
	var said bytes.Buffer
	root.SetErr(&said)
	const want = "error: it was done at 2026-01-02 23:04:05 CST: ask\n"
	if code := command.Run(t.Context(), root, []string{"do"}, "error:"); code != command.CodeFailed || said.String() != want {
		t.Errorf("code %d, %q, want %q", code, said.String(), want)
	}
}

// The help of a command shows its own flags. The global ones take one line, and have a page.
func TestHelp(t *testing.T) {
	t.Parallel()
	run := func(args ...string) string {
		t.Helper()
		do := &cobra.Command{Use: "do", Short: "Do it", Example: "  tool do", RunE: func(*cobra.Command, []string) error { return errors.New("it ran") }}
		do.Flags().Int("count", 0, "`times`")
		settled := &cobra.Command{Use: "tool", Long: "A tool.", PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Name() == "help" || cmd.Name() == "options" {
				return errors.New("wrong settings")
			}
			return nil
		}}
		settled.PersistentFlags().String("cluster", "", "`ID` of the cluster")
		more := command.Parent(&cobra.Command{Use: "more", Short: "Do more"}, &cobra.Command{Use: "other", Short: "Do another thing", RunE: do.RunE})
		root := command.Root(settled, command.Group{ID: "all", Title: "All:", Commands: []*cobra.Command{do, more}})
		var out bytes.Buffer
		root.SetOut(&out)
		root.SetErr(&out)
		if code := command.Run(t.Context(), root, args, "error:"); code != 0 {
			t.Errorf("%v: code %d: %s", args, code, out.String())
		}
		return out.String()
	}
	do := `Do it

Usage:
  tool do [flags]

Examples:
  tool do

Flags:
      --count times         times
  -h, --help[=true|false]   help for do

Use "tool options" for the global flags.
`
	for args, want := range map[string]string{
		"":          "A tool.\n\nUsage:\n  tool [flags]\n  tool [command]\n\nAll:\n  completion  Generate the autocompletion script for the specified shell\n",
		"do --help": do,
		"help do":   do,
		"help more": "Do more\n\nUsage:\n  tool more [flags]\n  tool more [command]\n\nCommands:\n  other       Do another thing\n\nFlags:\n",
		"options":   "Every command takes these flags:\n\n      --cluster ID   ID of the cluster\n",
	} {
		if got := run(strings.Fields(args)...); !strings.HasPrefix(got, want) || args != "options" && strings.Contains(got, "--cluster") {
			t.Errorf("%s:\n%s\nwant\n%s", args, got, want)
		}
	}
	if got := run("__complete", "help", "m"); !strings.HasPrefix(got, "more\tDo more\n") && !strings.Contains(got, "\nmore\tDo more\n") {
		t.Errorf("help completes %q", got)
	}
}

func TestForms(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	value := map[string]any{"name": "<web>"}
	for _, write := range []func() error{
		func() error { return command.JSON(&b, value, "") },
		func() error { return command.YAML(&b, value) },
	} {
		if err := write(); err != nil {
			t.Fatal(err)
		}
	}
	table := command.Table("name")
	table.AppendRow([]any{"web"})
	b.WriteString(table.Render() + "\n")
	if d := cmp.Diff("{\"name\":\"<web>\"}\nname: <web>\nNAME\nweb\n", b.String()); d != "" {
		t.Error(d)
	}
	for form, err := range map[string]error{"JSON": command.JSON(&b, make(chan int), ""), "YAML": command.YAML(&b, make(chan int))} {
		if err == nil {
			t.Errorf("a channel is no %s, and it is no error", form)
		}
	}
	if got := command.Built("v1"); got.Version != "v1" || got.Go == "" {
		t.Errorf("got %+v", got)
	}
	if err := command.Wrong("read it: %w", strconv.ErrRange); !errors.As(err, new(command.Mistake)) || !errors.Is(err, strconv.ErrRange) {
		t.Errorf("got %v", err)
	}
}

func TestAtMost(t *testing.T) {
	t.Parallel()
	if _, err := command.ReadAtMost(1<<20, endless{}); err == nil || err.Error() != "it has more than 1 MB: give it in parts" {
		t.Errorf("got %v", err)
	}
	if data, err := command.ReadAtMost(1<<20, strings.NewReader(strings.Repeat("x", 1<<20))); err != nil || len(data) != 1<<20 {
		t.Errorf("got %d bytes, %v", len(data), err)
	}
}

type endless struct{}

func (endless) Read(b []byte) (int, error) { return len(b), nil }
