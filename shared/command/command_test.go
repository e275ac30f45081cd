package command_test

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/lbremedy/lbremedy/shared/command"
)

// What a program says and how it ends.
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
		{name: "said already", args: []string{"do", "it"}, err: command.Exit(3), code: 3},
		{name: "told to end", ctx: ended, args: []string{"do", "it"}, err: context.Canceled, code: 1, says: "error: interrupted\n"},
		{name: "ended by itself", args: []string{"do", "it"}, err: context.Canceled, code: 1, says: "error: context canceled\n"},
		{name: "no such command", args: []string{"undo"}, code: 2, says: "error: there is no command \"undo\": did you mean do\n"},
		{name: "nothing like it", args: []string{"everything"}, code: 2, says: "error: there is no command \"everything\": see tool --help\n"},
		{name: "too few", args: []string{"do"}, code: 2, says: "error: do needs a thing: see tool do --help\n"},
		{name: "too many", args: []string{"do", "a", "b"}, code: 2, says: "error: do takes a thing, and \"b\" is one too many: see tool do --help\n"},
		{name: "none wanted", args: []string{"rest", "a"}, code: 2, says: "error: rest takes no argument, and \"a\" is one: see tool rest --help\n"},
		{name: "a flag that is no number", args: []string{"do", "it", "--count", "x"}, code: 2,
			says: "error: invalid argument \"x\" for \"--count\" flag: see tool do --help\n"},
		{name: "a flag that is no duration", args: []string{"do", "it", "--wait", "x"}, code: 2,
			says: "error: invalid argument \"x\" for \"--wait\" flag: see tool do --help\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			do := &cobra.Command{Use: "do", Args: command.Exactly(1, 1, "a thing"), RunE: func(*cobra.Command, []string) error { return tt.err }}
			do.Flags().Int("count", 0, "")
			do.Flags().Duration("wait", 0, "")
			rest := &cobra.Command{Use: "rest", Args: command.Exactly(0, 0, ""), RunE: func(*cobra.Command, []string) error { return nil }}
			root := command.Root(&cobra.Command{Use: "tool"}, command.Group{ID: "all", Title: "All:", Commands: []*cobra.Command{do, rest}})
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

// The forms of data, and what can't be written.
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
	var m command.Mistake
	if err := command.Wrong("read it: %w", strconv.ErrRange); !errors.As(err, &m) || !errors.Is(err, strconv.ErrRange) {
		t.Errorf("got %v", err)
	}
}

// A file without an end is refused before it fills the memory.
func TestAtMost(t *testing.T) {
	t.Parallel()
	if _, err := command.ReadAtMost(1<<20, endless{}); err == nil || err.Error() != "it has more than 1 MB: give it in parts" {
		t.Errorf("got %v", err)
	}
	if data, err := command.ReadAtMost(1<<20, strings.NewReader(strings.Repeat("x", 1<<20))); err != nil || len(data) != 1<<20 {
		t.Errorf("got %d bytes, %v", len(data), err)
	}
}

// endless is an input without an end.
type endless struct{}

func (endless) Read(b []byte) (int, error) { return len(b), nil }
