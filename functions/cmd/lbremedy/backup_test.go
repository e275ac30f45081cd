package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/policy"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/stream"
)

// lately returns the records of journalled, moved so that they are of the last hour.
func lately() []event.Record {
	records := journalled()
	by := time.Since(began.Add(30 * time.Minute)).Truncate(time.Second)
	for i := range records {
		r := &records[i]
		r.At, r.EventTime, r.First = r.At.Add(by), r.EventTime.Add(by), r.First.Add(by)
	}
	return records
}

func TestExport(t *testing.T) {
	c, s := embed(t)
	records := lately()
	undone := records[2]
	undone.Result = event.Undone
	if err := seed(t.Context(), s, append(records, undone)...); err != nil {
		t.Fatal(err)
	}
	schema, err := jsonschema.NewCompiler().Compile(filepath.Join("..", "..", "..", "shared", "event", "schema", "record.v1.json"))
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
		got := c.run(t.Context(), append([]string{"export"}, strings.Fields(args)...)...)
		var ends []string
		for line := range strings.Lines(got.out) {
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
		if diff := cmp.Diff(want, ends); diff != "" || got.code != 0 || got.err != "" {
			t.Errorf("export %s: %d, %q, %s", args, got.code, got.err, diff)
		}
	}

	// A journal that can't be read as a whole is not exported as if it were whole.
	if err := s.Journal("c1", uidOf(1), "tag-missing").Append(t.Context(), "x", nil, []byte("no record")); err != nil {
		t.Fatal(err)
	}
	got := c.run(t.Context(), "export")
	if got.code != command.CodeFailed || strings.Count(got.out, "\n") != 5 || !strings.Contains(got.err, "1 records of the journal can't be read") {
		t.Errorf("with a broken record: %+v", got)
	}
}

// What an operator had is there again after the loss of NATS: journal, dead letters,
// policy, and which failures were acknowledged.
func TestBackup(t *testing.T) {
	c, s := embed(t)
	if err := seed(t.Context(), s, lately()...); err != nil {
		t.Fatal(err)
	}
	bury(t, s, "tag-missing", uidOf(1), "7", "r")
	if err := policy.Publish(t.Context(), s, "c1", remedy.Policy{Mode: remedy.Fix}); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		header, data := failureOf(t, "tag-missing", uidOf(i), "7")
		if _, _, err := s.PublishNewer(t.Context(), event.FailedSubject("c1", "tag-missing", uidOf(i)), fmt.Sprint(i), header, data, func(stream.Message) bool { return true }); err != nil {
			t.Fatal(err)
		}
	}
	answered := consumed(t, s, 3, func(m stream.Message) stream.Reply {
		if strings.HasSuffix(m.Subject, uidOf(1)) {
			return stream.Reply{Retry: time.Hour}
		}
		return stream.Reply{}
	})
	if len(answered) != 3 {
		t.Fatalf("answered %v", answered)
	}
	dir := filepath.Join(t.TempDir(), "backup")
	if got := c.run(t.Context(), "backup", dir); got.code != 0 || !strings.Contains(got.out, "CASES") {
		t.Fatalf("backup: %+v", got)
	}
	if got := c.run(t.Context(), "backup", dir); got.code != command.CodeWrong || !strings.Contains(got.err, "is there already") {
		t.Errorf("backup over another: %+v", got)
	}
	if info, err := os.Stat(filepath.Join(dir, "CASES", "stream.tar.s2")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the copy of CASES: %v, %v; want mode 0600", info, err)
	}
	before := c.run(t.Context(), "export").out
	last, err := s.Last(t.Context(), stream.Cases, event.CaseSubjects)
	if err != nil {
		t.Fatal(err)
	}
	if got := c.run(t.Context(), "restore", dir); got.code != command.CodeWrong || !strings.Contains(got.err, "nothing was done; --replace") {
		t.Errorf("restore over what is there: %+v", got)
	}

	// Another machine, on which up has never run.
	other := call{"", map[string]string{"HOME": t.TempDir(), "LBREMEDY_STATE_DIR": t.TempDir()}}
	if got := other.run(t.Context(), "restore", dir); got.code != 0 || !strings.Contains(got.err, "Restoring CASES: 4 messages.") {
		t.Fatalf("restore: %+v", got)
	}
	p := &program{err: bytes.NewBuffer(nil), getenv: func(string) string { return "" }, terminal: func(any) int { return 0 }}
	p.state = other.env["LBREMEDY_STATE_DIR"]
	server, _, err := p.embed(p.state)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	again, err := p.stream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(again.Close)
	if diff := cmp.Diff(before, other.run(t.Context(), "export").out); diff != "" || before == "" {
		t.Errorf("the journal is another one: %s", diff)
	}
	if m, err := again.Last(t.Context(), stream.Cases, event.CaseSubjects); err != nil || m.Sequence != last.Sequence || !m.Time.Equal(last.Time) {
		t.Errorf("the last record is %d of %s, %v; want %d of %s", m.Sequence, m.Time, err, last.Sequence, last.Time)
	}
	if got := other.run(t.Context(), "dead", "ls"); !strings.Contains(got.out, "tag-missing") {
		t.Errorf("dead ls: %+v", got)
	}
	if allowed, err := policy.InForce(t.Context(), again, "c1"); err != nil || allowed.Mode != remedy.Fix {
		t.Errorf("the policy in force: %v, %v", allowed, err)
	}
	if got := other.run(t.Context(), "setup", "--cluster", "c1"); got.code != 0 || got.out != "All is as it should be.\n" {
		t.Errorf("setup after restore: %+v", got)
	}
	if got := other.run(t.Context(), "restore", dir, "--replace"); got.code != 0 {
		t.Errorf("restore once more: %+v", got)
	}

	// A copy that was cut is refused, whatever of it.
	data := filepath.Join(dir, "CASES", "stream.tar.s2")
	whole, err := os.ReadFile(data)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(data, whole[:len(whole)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	if got := other.run(t.Context(), "restore", dir, "--replace"); got.code != command.CodeFailed || !strings.Contains(got.err, "restore stream CASES") {
		t.Errorf("restore of a cut copy: %+v", got)
	}
	if err := os.Remove(data); err != nil {
		t.Fatal(err)
	}
	if got := other.run(t.Context(), "restore", dir); got.code != command.CodeWrong || !strings.Contains(got.err, "is no whole backup") {
		t.Errorf("restore without a file: %+v", got)
	}
	if got := other.run(t.Context(), "restore", t.TempDir()); got.code != command.CodeWrong || !strings.Contains(got.err, "is no whole backup") {
		t.Errorf("restore of nothing: %+v", got)
	}
}

// consumed answers n failures of tag-missing and returns their subjects.
func consumed(t *testing.T, s *stream.Stream, n int, answer func(stream.Message) stream.Reply) []string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	came, ended := make(chan string, n), make(chan error, 1)
	go func() {
		ended <- s.Consume(ctx, "c1", "tag-missing", 1, func(_ context.Context, m stream.Message) stream.Reply {
			came <- m.Subject
			return answer(m)
		})
	}()
	var got []string
	for len(got) < n {
		got = append(got, <-came)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	return got
}
