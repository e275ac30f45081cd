package backup_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/s2"

	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/policy"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/test/operator"
)

// What an operator had is there again after the loss of NATS: journal, dead letters,
// policy, and which failures were acknowledged.
func TestBackup(t *testing.T) {
	c, s := operator.Embed(t)
	if err := operator.Seed(t.Context(), s, operator.Lately()...); err != nil {
		t.Fatal(err)
	}
	operator.Bury(t, s, "tag-missing", operator.UID(1), "7", "r")
	if err := policy.Publish(t.Context(), s, "c1", remedy.Policy{Mode: remedy.Fix}); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		header, data := operator.Failure(t, "tag-missing", operator.UID(i), "7")
		if _, _, err := s.PublishNewer(t.Context(), event.FailedSubject("c1", "tag-missing", operator.UID(i)), fmt.Sprint(i), header, data,
			func(stream.Message) bool { return true }); err != nil {
			t.Fatal(err)
		}
	}
	answered := consumed(t, s, 3, func(m stream.Message) stream.Reply {
		if strings.HasSuffix(m.Subject, operator.UID(1)) {
			return stream.Reply{Retry: time.Hour}
		}
		return stream.Reply{}
	})
	if len(answered) != 3 {
		t.Fatalf("answered %v", answered)
	}
	dir := filepath.Join(t.TempDir(), "backup")
	if got := c.Run(t.Context(), "backup", dir); got.Code != 0 || !strings.Contains(got.Out, "CASES") {
		t.Fatalf("backup: %+v", got)
	}
	if got := c.Run(t.Context(), "backup", dir); got.Code != command.CodeWrong || !strings.Contains(got.Err, "already exists") {
		t.Errorf("backup over another: %+v", got)
	}
	if info, err := os.Stat(filepath.Join(dir, "CASES", "stream.tar.s2")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the copy of CASES: %v, %v; want mode 0600", info, err)
	}
	before := c.Run(t.Context(), "export").Out
	last, err := s.Last(t.Context(), stream.Cases, event.CaseSubjects)
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Run(t.Context(), "restore", dir); got.Code != command.CodeWrong || !strings.Contains(got.Err, "nothing was done; --replace") {
		t.Errorf("restore over what is there: %+v", got)
	}

	// Another machine, on which up has never run.
	other := operator.Call{Env: map[string]string{"HOME": t.TempDir(), "LBREMEDY_STATE_DIR": t.TempDir()}}
	if got := other.Run(t.Context(), "restore", dir); got.Code != 0 || !strings.Contains(got.Err, "Restoring CASES: 4 messages.") {
		t.Fatalf("restore: %+v", got)
	}
	again := other.Embed(t)
	if diff := cmp.Diff(before, other.Run(t.Context(), "export").Out); diff != "" || before == "" {
		t.Errorf("the journal is another one: %s", diff)
	}
	if m, err := again.Last(t.Context(), stream.Cases, event.CaseSubjects); err != nil || m.Sequence != last.Sequence || !m.Time.Equal(last.Time) {
		t.Errorf("the last record is %d of %s, %v; want %d of %s", m.Sequence, m.Time, err, last.Sequence, last.Time)
	}
	if got := other.Run(t.Context(), "dead", "ls"); !strings.Contains(got.Out, "tag-missing") {
		t.Errorf("dead ls: %+v", got)
	}
	if allowed, err := policy.InForce(t.Context(), again, "c1"); err != nil || allowed.Mode != remedy.Fix {
		t.Errorf("the policy in force: %v, %v", allowed, err)
	}
	if got := other.Run(t.Context(), "setup", "--cluster", "c1"); got.Code != 0 || got.Out != "Everything is up to date.\n" {
		t.Errorf("setup after restore: %+v", got)
	}
	if got := other.Run(t.Context(), "restore", dir, "--replace"); got.Code != 0 {
		t.Errorf("restore once more: %+v", got)
	}

	// A copy that was cut or changed is refused, whatever of it, before anything is deleted.
	data := filepath.Join(dir, "CASES", "stream.tar.s2")
	whole, err := os.ReadFile(data)
	if err != nil {
		t.Fatal(err)
	}
	changed := bytes.Clone(whole)
	changed[len(changed)/2]++
	archive, err := io.ReadAll(s2.NewReader(bytes.NewReader(whole)))
	if err != nil {
		t.Fatal(err)
	}
	var between bytes.Buffer // two compressed blocks
	w := s2.NewWriter(&between)
	if _, err := w.Write(archive[:len(archive)/2]); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for what, bad := range map[string][]byte{
		"half": whole[:len(whole)/2], "all but a byte": whole[:len(whole)-1], "nothing": nil, "another byte": changed, "whole blocks": between.Bytes(),
	} {
		if err := os.WriteFile(data, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		if got := other.Run(t.Context(), "restore", dir, "--replace"); got.Code != command.CodeWrong || !strings.Contains(got.Err, "nothing was done") {
			t.Errorf("restore of a copy with %s of it: %+v", what, got)
		}
	}
	if diff := cmp.Diff(before, other.Run(t.Context(), "export").Out); diff != "" {
		t.Errorf("the journal is another one after backups that are no good: %s", diff)
	}
	if err := os.WriteFile(data, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "SHA256SUMS")); err != nil {
		t.Fatal(err)
	}
	if got := other.Run(t.Context(), "restore", dir, "--replace"); got.Code != 0 {
		t.Errorf("restore of an earlier release's backup: %+v", got)
	}
	if err := os.Remove(data); err != nil {
		t.Fatal(err)
	}
	if got := other.Run(t.Context(), "restore", dir); got.Code != command.CodeWrong || !strings.Contains(got.Err, "is not a complete backup") {
		t.Errorf("restore without a file: %+v", got)
	}
	if got := other.Run(t.Context(), "restore", t.TempDir()); got.Code != command.CodeWrong || !strings.Contains(got.Err, "is not a complete backup") {
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
