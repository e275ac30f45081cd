package main

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

	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/stream"
)

// asProgram makes this test binary the program itself, for tests that kill it. Its
// arguments are those of the program.
const asProgram = "LBREMEDY_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	time.Local = time.UTC // what is printed must not depend on where the tests run
	if os.Getenv(asProgram) != "" {
		main()
	}
	os.Exit(m.Run())
}

// bury puts the failure of a Service into DEAD, as a worker does that can't handle it.
func bury(t *testing.T, s *stream.Stream, class, uid, version, reason string) {
	t.Helper()
	header, data := failureOf(t, class, uid, version)
	if err := s.Dead(t.Context(), reason, event.FailedSubject("c1", class, uid), header, data); err != nil {
		t.Fatal(err)
	}
}

func failureOf(t *testing.T, class, uid, version string) (map[string][]string, []byte) {
	t.Helper()
	f := fill(event.Failure{Class: class}, "c1")
	f.Service.UID, f.Event.ResourceVersion = uid, version
	e, err := event.NewFailed(f)
	if err != nil {
		t.Fatal(err)
	}
	header, data, err := event.EncodeNATS(e)
	if err != nil {
		t.Fatal(err)
	}
	return header, data
}

func uidOf(i int) string { return fmt.Sprintf("44444444-0000-4000-8000-%012d", i) }

// inFailed returns what FAILED holds, as resource versions by subject, and how many messages it
// was ever given.
func inFailed(t *testing.T, s *stream.Stream) (map[string]string, uint64) {
	t.Helper()
	got, last := map[string]string{}, uint64(0)
	err := s.Each(t.Context(), stream.Failed, event.FailedSubjects, time.Time{}, func(m stream.Message) error {
		got[m.Subject], last = versionIn(m.Header, m.Data), m.Sequence
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return got, last
}

func TestDead(t *testing.T) {
	c, s := embed(t)
	run := func(code int, out, errs string, args ...string) said {
		t.Helper()
		got := c.run(t.Context(), append([]string{"dead"}, args...)...)
		if got.code != code || !strings.Contains(got.out, out) || !strings.Contains(got.err, errs) {
			t.Errorf("dead %v: code %d, %q, %q; want %d with %q and %q", args, got.code, got.out, got.err, code, out, errs)
		}
		return got
	}
	run(0, "", "No dead letter.\n", "ls")
	run(0, "[]\n", "", "ls", "-o", "json")

	bury(t, s, "tag-missing", uidOf(1), "7", "the journal is of a later version")         // 1
	bury(t, s, "gone-class", uidOf(2), "7", "the class \"gone-class\" is not known here") // 2
	bury(t, s, "tag-missing", uidOf(3), "7", "overtaken")                                 // 3
	ev := `{"metadata":{"namespace":"shop","name":"web.1","uid":"11111111-1111-1111-1111-111111111111","resourceVersion":"9"},
		"involvedObject":{"kind":"Service","namespace":"shop","name":"web","uid":"%s"},"reason":"SyncLoadBalancerFailed","type":"Warning","message":"` + full + `","source":{"component":"service-controller"},"count":1,"lastTimestamp":"2026-01-02T15:04:05Z"}`
	for i, dead := range []struct{ origin, data string }{
		{"exporter.c1", fmt.Sprintf(ev, uidOf(4))},                                   // 4
		{"exporter.c1", fmt.Sprintf(ev, "no UID")},                                   // 5
		{"somebody", "\x1b[2J\xff"},                                                  // 6
		{"lbremedy.failed.c1.tag-missing." + uidOf(7), strings.Repeat("x", 600<<10)}, // 7
		{"lbremedy.failed.c1.tag-missing." + uidOf(8), "no event"},                   // 8
	} {
		if err := s.Dead(t.Context(), fmt.Sprintf("reason %d\x1b[2J", i), dead.origin, nil, []byte(dead.data)); err != nil {
			t.Fatal(err)
		}
	}
	header, data := failureOf(t, "tag-missing", uidOf(3), "8")
	if _, _, err := s.PublishNewer(t.Context(), event.FailedSubject("c1", "tag-missing", uidOf(3)), "newer", header, data, func(stream.Message) bool { return true }); err != nil {
		t.Fatal(err)
	}

	ids := func(args ...string) (got []uint64) {
		t.Helper()
		var list []letter
		if err := json.Unmarshal([]byte(run(0, "", "", append([]string{"ls", "-o", "json"}, args...)...).out), &list); err != nil {
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
		{"", []uint64{8, 7, 6, 5, 4, 3, 2, 1}}, {"--class gone-class", []uint64{2}}, {"--service shop/web --class tag-missing", []uint64{3, 1}},
		{"--namespace pay", nil}, {"--origin exporter", []uint64{5, 4}}, {"--reason overtaken", []uint64{3}},
		{"--since 1h", []uint64{8, 7, 6, 5, 4, 3, 2, 1}}, {"--until 2026-01-02", nil}, {"--cluster c2", []uint64{6}},
	} {
		if diff := cmp.Diff(tt.want, ids(strings.Fields(tt.args)...)); diff != "" {
			t.Errorf("ls %s: %s", tt.args, diff)
		}
	}
	table := run(0, "ID ", "", "ls")
	if strings.Count(table.out, "\n") != 9 || strings.Contains(table.out, "\x1b") {
		t.Errorf("ls printed %q", table.out)
	}
	shown := run(0, "Dead letter 1  shop/web\n", "", "show", "1")
	for _, want := range []string{"Reason     the journal is of a later version\n", "Origin     lbremedy.failed.c1.tag-missing." + uidOf(1), "Class      tag-missing\n", "Message    " + full, "Headers    ", "Data       {"} {
		if !strings.Contains(shown.out, want) {
			t.Errorf("show lacks %q:\n%s", want, shown.out)
		}
	}
	if got := run(0, "Data       1b5b324aff\n", "", "show", "6"); strings.Contains(got.out, "\x1b") {
		t.Errorf("show printed %q", got.out)
	}
	run(0, `"data": "{\"`, "", "show", "1", "-o", "json")
	run(0, "reason: overtaken", "", "show", "3", "-o", "yaml")
	run(0, "It had 614400 bytes", "", "show", "7")
	run(command.CodeWrong, "", "there is no dead letter 99", "show", "99")
	run(command.CodeWrong, "", `"x" is no number of a dead letter`, "show", "x")
	run(command.CodeWrong, "", "needs the numbers of dead letters", "retry")
	run(command.CodeWrong, "", "not both", "retry", "1", "--all")
	run(command.CodeWrong, "", "needs the numbers of dead letters", "drop", "--yes")
	if got := c.run(t.Context(), "__complete", "dead", "retry", "1", ""); !strings.Contains(got.out, "3\tshop/web overtaken\n") || strings.Contains(got.out, "\n1\t") {
		t.Errorf("completion: %+v", got)
	}

	var fates []fate
	got := run(command.CodeFailed, "", "", "retry", "--all", "-o", "json")
	if err := json.Unmarshal([]byte(got.out), &fates); err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, f := range fates {
		said = append(said, fmt.Sprintf("%d %s %s", f.ID, f.Result, f.Why))
	}
	want := []string{
		"1 sent ",
		`2 refused Nobody answers for the class "gone-class" any more.`,
		"3 overtaken A newer failure of this Service and class has taken its place.",
		"4 sent ",
		`5 refused The Event shop/web.1: invalid event: service UID "no UID" is not a UUID.`,
		`6 refused Nothing takes what comes from "somebody".`,
		"7 refused It had 614400 bytes and was cut, so that it can't be sent as it was.",
		"8 sent ",
	}
	if diff := cmp.Diff(want, said); diff != "" {
		t.Error(diff)
	}
	in, _ := inFailed(t, s)
	if diff := cmp.Diff(map[string]string{
		event.FailedSubject("c1", "tag-missing", uidOf(1)):          "7",
		event.FailedSubject("c1", "tag-missing", uidOf(3)):          "8",
		event.FailedSubject("c1", "vswitch-ip-exhausted", uidOf(4)): "9",
		event.FailedSubject("c1", "tag-missing", uidOf(8)):          "",
	}, in); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]uint64{7, 6, 5, 2}, ids()); diff != "" {
		t.Error(diff)
	}
	run(0, "gone", "", "retry", "1")

	// drop asks.
	run(command.CodeWrong, "", "nobody agreed", "drop", "6")
	c.in = "n\n"
	run(command.CodeWrong, "", "the answer was not y", "drop", "6")
	c.in = "y\n"
	run(0, "dropped", "Remove 1 dead letters for good? [y/N]", "drop", "6")
	run(0, "gone", "", "drop", "6")
	run(0, "dropped", "", "drop", "--all", "--yes")
	run(0, "", "No dead letter is chosen.\n", "drop", "--all", "--yes")
}

// A dead letter that dies again after a retry is a dead letter again, and can be sent again.
func TestDeadTwice(t *testing.T) {
	c, s := embed(t)
	uid := uidOf(1)
	subject := event.FailedSubject("c1", "tag-missing", uid)
	bury(t, s, "tag-missing", uid, "7", "first")
	for i := range 3 {
		if got := c.run(t.Context(), "dead", "retry", "--all"); got.code != 0 || !strings.Contains(got.out, "sent") {
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

// Retry is killed again and again while it works: no letter is lost, and none is sent twice.
func TestDeadKilled(t *testing.T) {
	c, s := embed(t)
	const letters, every = 240, 40
	for i := range letters {
		bury(t, s, "tag-missing", uidOf(i), "7", "r")
	}
	sent := make(chan uint64, letters)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go s.Tail(ctx, stream.Failed, event.FailedSubjects, 0, func(m stream.Message) error { sent <- m.Sequence; return nil })
	kills := 0
	for next := uint64(every); ; next += every {
		cmd := exec.Command(os.Args[0], "dead", "retry", "--all")
		cmd.Env = append(os.Environ(), asProgram+"=1")
		for name, value := range c.env {
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
			_ = cmd.Process.Kill() // it may have ended by itself
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
	if got := c.run(t.Context(), "dead", "ls", "-o", "json"); got.out != "[]\n" {
		t.Errorf("DEAD still holds %s", got.out)
	}
}
