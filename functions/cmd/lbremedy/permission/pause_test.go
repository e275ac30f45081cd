package permission_test

import (
	"bytes"
	"context"
	"io"
	"testing"
	"time"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/root"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/engine/control"
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
		"Already paused", "--replace", "Cluster c1: Paused by ann at ", ": night.")
	inForce(1)
	wants(t, run("pause", "--by", "bob", "--why", "day", "--this-cluster", "--cluster", "c1", "--replace"), 0,
		"Paused by bob", ": day.", "Replaced. Cluster c1: Paused by ann")

	// All that shows cases says so, beside the data, for the clusters that are meant.
	for _, args := range [][]string{{"ls"}, {"ls", "-o", "json"}, {"ls", "--cluster", "c1"}} {
		got := run(args...)
		wants(t, operator.Said{Code: got.Code, Err: got.Err}, 0, "Writes are paused. Cluster c1: Paused by bob at ")
	}
	if got := run("ls", "--cluster", "c-other"); got.Err != "No case in cluster c-other.\n" {
		t.Errorf("of another cluster: %+v", got)
	}

	// One pause ends by a resume; one of another cluster, or several, by a word more.
	wants(t, run("resume", "--cluster", "c-other"), command.CodeWrong, "In force. Cluster c1: Paused by bob", "the pause is of cluster c1 and not of c-other")
	wants(t, run("pause", "--by", "cat"), 0, "All clusters: Paused by cat", "Cluster c1: Paused by bob")
	wants(t, run("resume"), command.CodeWrong, "In force. All clusters: Paused by cat", "In force. Cluster c1: Paused by bob", "2 pauses are in force: give --all")
	for _, typed := range []string{"", "n\n"} {
		wants(t, at(t, c, typed, "resume"), command.CodeWrong, "End 2 pauses? [y/N]", "every pause stays in force")
	}
	inForce(2)
	wants(t, run("resume", "--this-cluster", "--cluster", "c1"), 0, "Ended. Cluster c1: Paused by bob", "Still in force. All clusters: Paused by cat")
	wants(t, run("resume"), 0, "Ended. All clusters: Paused by cat at ")
	inForce(0)
	wants(t, run("resume"), 0, "There was no pause to end.")
	for range 2 {
		wants(t, run("pause", "--by", "ann"), 0, "All clusters: Paused by ann")
		wants(t, run("pause", "--by", "ann", "--this-cluster", "--cluster", "c1"), 0, "Cluster c1: Paused by ann")
		wants(t, at(t, c, "y\n", "resume"), 0, "Ended. All clusters", "Ended. Cluster c1")
		inForce(0)
	}
	wants(t, run("pause", "--by", "ann"), 0)
	wants(t, run("pause", "--by", "ann", "--this-cluster", "--cluster", "c1"), 0)
	wants(t, run("resume", "--all"), 0, "Ended. All clusters", "Ended. Cluster c1")
	inForce(0)
}

// at runs the program at a terminal, where a person types.
func at(t *testing.T, c operator.Call, typed string, args ...string) operator.Said {
	t.Helper()
	var out, errs bytes.Buffer
	c.In = typed
	p := c.Program(&out, &errs)
	p.Terminal = func(stream any) int {
		if stream == p.In {
			return 80
		}
		return 0
	}
	code := root.Run(t.Context(), p, args)
	return operator.Said{Code: code, Out: out.String(), Err: errs.String()}
}

// A slow person types an answer after something else has happened.
type slow struct {
	happens func()
	io.Reader
}

func (s *slow) Read(to []byte) (int, error) {
	s.happens()
	return s.Reader.Read(to)
}

// A question ends with the call: who is asked may press Ctrl-C.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	c, s := operator.Embed(t)
	for _, cluster := range []string{"", "c1"} {
		if err := control.SetPause(t.Context(), s, control.Pause{Cluster: cluster, By: "ann"}, false); err != nil {
			t.Fatal(err)
		}
	}
	ctx, interrupt := context.WithCancel(t.Context())
	silent, end := io.Pipe()
	t.Cleanup(func() { end.Close() })
	defer time.AfterFunc(20*time.Second, func() { end.Close() }).Stop() // what waits for an answer fails then
	var errs bytes.Buffer
	p := c.Program(io.Discard, &errs)
	p.Terminal = func(any) int { return 80 }
	p.In = &slow{interrupt, silent}
	code := root.Run(ctx, p, []string{"resume", "--cluster", "c1"})
	wants(t, operator.Said{Code: code, Err: errs.String()}, command.CodeFailed, "[y/N]", "interrupted")
	if all, err := control.Pauses(t.Context(), s); err != nil || len(all) != 2 {
		t.Errorf("in force are %+v, %v", all, err)
	}
}
