package deadletter_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/deadletter"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/test/operator"
)

// inFailed returns FAILED's resource versions by subject, and how many messages it ever got.
func inFailed(t *testing.T, s *stream.Stream) (map[string]string, uint64) {
	t.Helper()
	got, last := map[string]string{}, uint64(0)
	err := s.Each(t.Context(), stream.Failed, event.FailedSubjects, time.Time{}, func(m stream.Message) error {
		got[m.Subject], last = deadletter.VersionIn(new(cli.Program), m.Header, m.Data), m.Sequence
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return got, last
}

func TestDead(t *testing.T) {
	c, s := operator.Embed(t)
	run := func(code int, out, errs string, args ...string) operator.Said {
		t.Helper()
		got := c.Run(t.Context(), append([]string{"dead"}, args...)...)
		if got.Code != code || !strings.Contains(got.Out, out) || !strings.Contains(got.Err, errs) {
			t.Errorf("dead %v: code %d, %q, %q; want %d with %q and %q", args, got.Code, got.Out, got.Err, code, out, errs)
		}
		return got
	}
	run(0, "", "No dead letter.\n", "ls")
	run(0, "[]\n", "", "ls", "-o", "json")

	operator.Bury(t, s, "tag-missing", operator.UID(1), "7", "the journal is of a later version")         // 1
	operator.Bury(t, s, "gone-class", operator.UID(2), "7", "the class \"gone-class\" is not known here") // 2
	operator.Bury(t, s, "tag-missing", operator.UID(3), "7", "overtaken")                                 // 3
	ev := `{"metadata":{"namespace":"shop","name":"web.1","uid":"11111111-1111-1111-1111-111111111111","resourceVersion":"9"},
		"involvedObject":{"kind":"Service","namespace":"shop","name":"web","uid":"%s"},"reason":"SyncLoadBalancerFailed","type":"Warning","message":"` +
		operator.Message + `","source":{"component":"service-controller"},"count":1,"lastTimestamp":"2026-01-02T15:04:05Z"}`
	for i, dead := range []struct{ origin, data string }{
		{"exporter.c1", fmt.Sprintf(ev, operator.UID(4))},                                   // 4
		{"exporter.c1", fmt.Sprintf(ev, "no UID")},                                          // 5
		{"somebody", "\x1b[2J\xff"},                                                         // 6
		{"lbremedy.failed.c1.tag-missing." + operator.UID(7), strings.Repeat("x", 600<<10)}, // 7
		{"lbremedy.failed.c1.tag-missing." + operator.UID(8), "no event"},                   // 8
	} {
		if err := s.Dead(t.Context(), fmt.Sprintf("reason %d\x1b[2J", i), dead.origin, nil, []byte(dead.data)); err != nil {
			t.Fatal(err)
		}
	}
	header, data := operator.Failure(t, "tag-missing", operator.UID(3), "8")
	if _, _, err := s.PublishNewer(t.Context(), event.FailedSubject("c1", "tag-missing", operator.UID(3)), "newer", header, data,
		func(stream.Message) bool { return true }); err != nil {
		t.Fatal(err)
	}

	ids := func(args ...string) (got []uint64) {
		t.Helper()
		var list []deadletter.Letter
		if err := json.Unmarshal([]byte(run(0, "", "", append([]string{"ls", "-o", "json"}, args...)...).Out), &list); err != nil {
			t.Fatal(err)
		}
		for _, l := range list {
			got = append(got, l.ID)
		}
		return got
	}
	for _, tt := range []struct {
		args string
		want []uint64
	}{
		{"", []uint64{8, 7, 6, 5, 4, 3, 2, 1}}, {"--class gone-class", []uint64{2}}, {"--reason overtaken", []uint64{3}}, {"3 1", []uint64{3, 1}},
		{"--reason nothing", nil}, {"--cluster c2", []uint64{6}},
	} {
		if diff := cmp.Diff(tt.want, ids(strings.Fields(tt.args)...)); diff != "" {
			t.Errorf("ls %s: %s", tt.args, diff)
		}
	}
	table := run(0, "ID ", "", "ls")
	if strings.Count(table.Out, "\n") != 9 || strings.Contains(table.Out, "\x1b") {
		t.Errorf("ls printed %q", table.Out)
	}
	shown := run(0, `"data": "{\"`, "", "ls", "1", "-o", "json")
	for _, want := range []string{`"reason": "the journal is of a later version"`, `"origin": "lbremedy.failed.c1.tag-missing.` + operator.UID(1),
		`"class": "tag-missing"`, operator.Message, `"headers": {`} {
		if !strings.Contains(shown.Out, want) {
			t.Errorf("ls lacks %q:\n%s", want, shown.Out)
		}
	}
	if got := run(0, "1b5b324aff", "", "ls", "6", "-o", "yaml"); strings.Contains(got.Out, "\x1b") {
		t.Errorf("ls printed %q", got.Out)
	}
	run(0, "cut: 614400", "", "ls", "7", "-o", "yaml")
	run(command.CodeWrong, "", "dead letter 99 does not exist", "ls", "99")
	run(command.CodeWrong, "", `"x" is not the number of a dead letter`, "ls", "x")
	run(command.CodeWrong, "", "needs the numbers of dead letters", "retry")
	run(command.CodeWrong, "", "not both", "retry", "1", "--all")
	run(command.CodeWrong, "", "needs the numbers of dead letters", "drop")
	if got := c.Run(t.Context(), "up", "--setup", "--cluster", "c2"); got.Code != 0 {
		t.Fatalf("setup: %+v", got)
	}
	for _, args := range [][]string{{"ls", "1"}, {"retry", "6", "1"}, {"drop", "6", "1"}} {
		run(command.CodeWrong, "", "dead letter 1 is of cluster c1 and not of c2", append(args, "--cluster", "c2")...)
	}
	run(0, "shop/web", "", "ls", "1", "--cluster", "c1")
	run(0, "somebody", "", "ls", "6", "--cluster", "c2") // its cluster is unknown

	var fates []deadletter.Fate
	got := run(command.CodeFailed, "", "", "retry", "--all", "-o", "json")
	if err := json.Unmarshal([]byte(got.Out), &fates); err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, f := range fates {
		said = append(said, fmt.Sprintf("%d %s %s", f.ID, f.Result, f.Why))
	}
	want := []string{
		"1 sent ",
		`2 refused No function handles the class "gone-class" any more.`,
		"3 overtaken A newer failure of this Service and class has taken its place.",
		"4 refused An Event cannot be sent again. The next failed sync writes another one.",
		"5 refused An Event cannot be sent again. The next failed sync writes another one.",
		`6 refused No function handles messages from "somebody".`,
		"7 refused It had 614400 bytes and was truncated, so it can't be sent again.",
		"8 sent ",
	}
	if diff := cmp.Diff(want, said); diff != "" {
		t.Error(diff)
	}
	in, _ := inFailed(t, s)
	if diff := cmp.Diff(map[string]string{
		event.FailedSubject("c1", "tag-missing", operator.UID(1)): "7",
		event.FailedSubject("c1", "tag-missing", operator.UID(3)): "8",
		event.FailedSubject("c1", "tag-missing", operator.UID(8)): "",
	}, in); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]uint64{7, 6, 5, 4, 2}, ids()); diff != "" {
		t.Error(diff)
	}
	run(0, "gone", "", "retry", "1")

	run(0, "dropped", "", "drop", "6")
	run(0, "gone", "", "drop", "6")
	run(0, "dropped", "", "drop", "--all")
	run(0, "", "No dead letter is selected.\n", "drop", "--all")
}

func TestDeadTwice(t *testing.T) {
	c, s := operator.Embed(t)
	uid := operator.UID(1)
	subject := event.FailedSubject("c1", "tag-missing", uid)
	operator.Bury(t, s, "tag-missing", uid, "7", "first")
	for i := range 3 {
		if got := c.Run(t.Context(), "dead", "retry", "--all"); got.Code != 0 || !strings.Contains(got.Out, "sent") {
			t.Fatalf("retry %d: %+v", i, got)
		}
		m, err := s.Last(t.Context(), stream.Failed, subject)
		if err != nil || m.Sequence != uint64(i+1) {
			t.Fatalf("retry %d: message %d, %v", i, m.Sequence, err)
		}
		if err := s.Dead(t.Context(), "again", m.Subject, m.Header, m.Data); err != nil {
			t.Fatal(err)
		}
	}
}

// Killed repeatedly, retry loses no letter and sends none twice.
func TestDeadKilled(t *testing.T) {
	c, s := operator.Embed(t)
	const letters, every = 240, 40
	for i := range letters {
		operator.Bury(t, s, "tag-missing", operator.UID(i), "7", "r")
	}
	sent := make(chan uint64, letters)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go s.Tail(ctx, stream.Failed, event.FailedSubjects, 0, func(m stream.Message) error { sent <- m.Sequence; return nil })
	kills := 0
	for next := uint64(every); ; next += every {
		cmd := exec.Command(os.Args[0], "dead", "retry", "--all")
		cmd.Env = append(os.Environ(), operator.AsProgram+"=1")
		for name, value := range c.Env {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		for seq := uint64(0); next < letters && seq < next; seq = <-sent {
		}
		if next < letters {
			_ = cmd.Process.Kill() // it may have ended already
			kills++
		}
		err := <-ended
		if next >= letters {
			if err != nil {
				t.Errorf("the last retry: %v", err)
			}
			break
		}
	}
	if kills < 4 {
		t.Errorf("it was killed %d times", kills)
	}
	in, last := inFailed(t, s)
	if len(in) != letters || last != letters {
		t.Errorf("FAILED holds %d failures and was given %d; want %d and no more", len(in), last, letters)
	}
	if got := c.Run(t.Context(), "dead", "ls", "-o", "json"); got.Out != "[]\n" {
		t.Errorf("DEAD still holds %s", got.Out)
	}
}
