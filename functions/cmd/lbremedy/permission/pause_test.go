package permission_test

import (
	"testing"

	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/control"
	"github.com/lbremedy/lbremedy/test/operator"
)

// A pause is of clusters that there are, belongs to who made it, and ends by name.
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
	wants(t, run("pause", "--by", "ann", "--this-cluster", "--cluster", "c-othr"), command.CodeWrong,
		`NATS has never seen a cluster "c-othr": did you mean c-other? It knows c-other, c1`)
	wants(t, run("resume", "--this-cluster", "--cluster", "c-othr"), command.CodeWrong, `NATS has never seen a cluster "c-othr"`)
	inForce(0)

	// A second one of the same clusters is not dropped silently.
	wants(t, run("pause", "--by", "ann", "--why", "night", "--this-cluster", "--cluster", "c1"), 0, "Cluster c1: Paused by ann at ", ": night.")
	wants(t, run("pause", "--by", "bob", "--why", "day", "--this-cluster", "--cluster", "c1"), 0,
		"Already paused", "Cluster c1: Paused by ann at ", ": night.")
	inForce(1)
	// All that shows cases says so, beside the data, for the clusters that are meant.
	for _, args := range [][]string{{"ls"}, {"ls", "-o", "json"}, {"ls", "--cluster", "c1"}} {
		got := run(args...)
		wants(t, operator.Said{Code: got.Code, Err: got.Err}, 0, "Writes are paused. Cluster c1: Paused by ann at ")
	}
	if got := run("ls", "--cluster", "c-other"); got.Err != "No case in cluster c-other.\n" {
		t.Errorf("of another cluster: %+v", got)
	}

	// One pause ends by a resume; one of another cluster, or several, by a word more.
	wants(t, run("resume", "--cluster", "c-other"), command.CodeWrong, "In force. Cluster c1: Paused by ann", "the pause is of cluster c1 and not of c-other")
	wants(t, run("pause", "--by", "cat"), 0, "All clusters: Paused by cat", "Cluster c1: Paused by ann")
	wants(t, run("resume"), command.CodeWrong, "In force. All clusters: Paused by cat", "In force. Cluster c1: Paused by ann", "2 pauses are in force: give --all")
	inForce(2)
	wants(t, run("resume", "--this-cluster", "--cluster", "c1"), 0, "Ended. Cluster c1: Paused by ann", "Still in force. All clusters: Paused by cat")
	wants(t, run("resume"), 0, "Ended. All clusters: Paused by cat at ")
	inForce(0)
	wants(t, run("resume"), 0, "There was no pause to end.")
	wants(t, run("pause", "--by", "ann"), 0)
	wants(t, run("pause", "--by", "ann", "--this-cluster", "--cluster", "c1"), 0)
	wants(t, run("resume", "--all"), 0, "Ended. All clusters", "Ended. Cluster c1")
	inForce(0)
}
