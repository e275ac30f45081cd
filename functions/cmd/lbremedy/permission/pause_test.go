package permission_test

import (
	"strings"
	"testing"

	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/control"
	"github.com/lbremedy/lbremedy/test/operator"
)

func TestPause(t *testing.T) {
	t.Parallel()
	c, s := operator.Embed(t)
	run := func(args ...string) operator.Said { return c.Run(t.Context(), args...) }
	if got := run("up", "--setup", "--cluster", "c-other"); got.Code != 0 {
		t.Fatal(got)
	}
	inForce := func(want int) {
		t.Helper()
		if all, err := control.Pauses(t.Context(), s); err != nil || len(all) != want {
			t.Fatalf("%d pauses, want %d: %v, %v", len(all), want, all, err)
		}
	}
	wants(t, run("pause", "--by", "ann", "--cluster", "c-othr"), command.CodeWrong,
		`NATS has never seen a cluster "c-othr": did you mean c-other? It knows c-other, c1`)
	wants(t, run("pause", "--by", "ann"), command.CodeWrong, "NATS knows several clusters, c-other, c1: name one with --cluster or LBREMEDY_CLUSTER")
	inForce(0)
	wants(t, run("breaker", "close", "qouta"), command.CodeWrong, `unknown class "qouta": the nearest are quota, `)

	wants(t, run("pause", "--by", "ann", "--why", "night", "--cluster", "c1"), 0, "Cluster c1: Paused by ann at ", ": night.")
	wants(t, run("pause", "--by", "bob", "--why", "day", "--cluster", "c1"), 0,
		"Already paused", "Cluster c1: Paused by ann at ", ": night.")
	inForce(1)
	for _, args := range [][]string{{"ls"}, {"ls", "-o", "json"}, {"ls", "--cluster", "c1"}} {
		got := run(args...)
		wants(t, operator.Said{Code: got.Code, Err: got.Err}, 0, "Writes are paused. Cluster c1: Paused by ann at ")
	}
	if got := run("ls", "--cluster", "c-other"); got.Err != "No case in cluster c-other.\n" {
		t.Errorf("of another cluster: %+v", got)
	}

	// A resume ends one pause; of several, the cluster's own first, and another cluster's never.
	wants(t, run("resume", "--cluster", "c-othr"), command.CodeWrong, `NATS has never seen a cluster "c-othr"`)
	wants(t, run("resume", "--cluster", "c-other"), 0, "There was no pause to end.", "Still in force. Cluster c1: Paused by ann")
	wants(t, run("pause", "--by", "cat", "--all-clusters"), 0, "All clusters: Paused by cat", "Cluster c1: Paused by ann")
	wants(t, run("ls"), 0, "All clusters: Paused by cat", "Cluster c1: Paused by ann")
	for _, form := range []string{"table", "json"} {
		if got := run("policy", "show", "--cluster", "c-other", "-o", form); !strings.Contains(got.Out, "cat") || strings.Contains(got.Out, "ann") {
			t.Errorf("of another cluster: %+v", got)
		}
	}
	wants(t, run("resume"), command.CodeWrong, "NATS knows several clusters, c-other, c1: name one")
	inForce(2)
	wants(t, run("resume", "--cluster", "c1"), 0, "Ended. Cluster c1: Paused by ann", "Still in force. All clusters: Paused by cat")
	wants(t, run("resume"), 0, "Ended. All clusters: Paused by cat at ")
	inForce(0)
	wants(t, run("resume"), 0, "There was no pause to end.")
	wants(t, run("pause", "--by", "ann", "--all-clusters"), 0)
	wants(t, run("pause", "--by", "ann", "--cluster", "c1"), 0)
	wants(t, run("resume", "--all"), 0, "Ended. All clusters", "Ended. Cluster c1")
	inForce(0)
}

// Without a flag, the only known cluster is meant, never all.
func TestPauseTheOne(t *testing.T) {
	t.Parallel()
	c, s := operator.Embed(t)
	wants(t, c.Run(t.Context(), "pause", "--by", "ann"), 0, "Cluster c1: Paused by ann at ")
	if all, err := control.Pauses(t.Context(), s); err != nil || len(all) != 1 || all[0].Cluster != "c1" {
		t.Errorf("the pauses are %v, %v", all, err)
	}
	wants(t, c.Run(t.Context(), "resume"), 0, "Ended. Cluster c1: Paused by ann at ")
	empty := operator.Call{Env: operator.Home(t)}
	empty.Env["LBREMEDY_STATE_DIR"] = t.TempDir()
	wants(t, empty.Run(t.Context(), "pause", "--by", "ann"), command.CodeWrong, "NATS is not configured")
}
