package journal_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/test/operator"
)

func TestExport(t *testing.T) {
	c, s := operator.Embed(t)
	records := operator.Lately()
	undone := records[2]
	undone.Result = event.Undone
	if err := operator.Seed(t.Context(), s, append(records, undone)...); err != nil {
		t.Fatal(err)
	}
	schema, err := jsonschema.NewCompiler().Compile(filepath.Join("..", "..", "..", "..", "shared", "event", "schema", "record.v1.json"))
	if err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string][]string{
		"":                               {"gone", "started", "fixed", "asked", "undone"},
		"--class ram-permission":         {"asked"},
		"--since 2h":                     {"started", "fixed", "asked", "undone"},
		"--result fixed,undone":          {"fixed", "undone"},
		"--namespace shop --result gone": {"gone"},
		"--case " + records[3].Case:      {"asked"},
		"--service api":                  {"asked"},
		"--cluster c2":                   nil,
	} {
		got := c.Run(t.Context(), append([]string{"export"}, strings.Fields(args)...)...)
		var ends []string
		for line := range strings.Lines(got.Out) {
			value, err := jsonschema.UnmarshalJSON(strings.NewReader(line))
			if err != nil {
				t.Fatal(err)
			}
			if err := schema.Validate(value); err != nil {
				t.Errorf("export %s: %v", args, err)
			}
			var r event.Record
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				t.Fatal(err)
			}
			ends = append(ends, strings.TrimSpace(string(r.Result+" "+event.Result(strings.TrimPrefix(string(r.Phase), "settled")))))
		}
		if diff := cmp.Diff(want, ends); diff != "" || got.Code != 0 || got.Err != "" {
			t.Errorf("export %s: %d, %q, %s", args, got.Code, got.Err, diff)
		}
	}

	// A journal that can't be read as a whole is not exported as if it were whole.
	if err := s.Journal("c1", operator.UID(1), "tag-missing").Append(t.Context(), "x", nil, []byte("no record")); err != nil {
		t.Fatal(err)
	}
	got := c.Run(t.Context(), "export")
	if got.Code != command.CodeFailed || strings.Count(got.Out, "\n") != 5 || !strings.Contains(got.Err, "1 records of the journal can't be read") {
		t.Errorf("with a broken record: %+v", got)
	}
	// Nor is one that a class has written under a subject of its own, as if it were another's.
	e, err := event.NewRecord(records[0])
	if err != nil {
		t.Fatal(err)
	}
	header, data, err := event.EncodeNATS(e)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Journal("c1", operator.UID(9), "rogue").Append(t.Context(), "y", header, data); err != nil {
		t.Fatal(err)
	}
	for args, lines := range map[string]int{"export": 5, "ls": 3} {
		if got := c.Run(t.Context(), args); strings.Count(got.Out, "\n") != lines || !strings.Contains(got.Err, "2 records of the journal can't be read") {
			t.Errorf("%s with a forged record: %+v", args, got)
		}
	}
}
