package safety

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/control"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/test/rig"
	"github.com/lbremedy/lbremedy/test/shell"
	"github.com/lbremedy/lbremedy/test/testbed"
)

// TestPause: the kill switch prevents every step that has not started within a second, of a worker in this process and of
// "lbremedy up" in its own. Plans that are half applied continue afterwards.
func TestPause(t *testing.T) {
	t.Parallel()
	f := testbed.NoListener()
	r := rig.New(t, f.Config, rig.Bold)
	fixtures := testbed.Bulk(f, "web", 4)
	r.Must(r.Testbed.Fail(r.Ctx, fixtures...))
	r.Must(r.Testbed.Halt(r.Ctx)) // or it would discover the policy change by itself
	up := up(r)
	shell.Beside(r, r.Ctx, "the worker", r.Work)
	// Resync steps are two seconds apart, so more follow the first one.
	r.Must(r.Testbed.Until(r.Ctx, func() bool { return len(r.Touched(fixtures)) > 0 }))
	r.Says(0, "Cluster "+testbed.ClusterID+": Paused by ann", "", "pause", "--by", "ann", "--why", "too much at once")
	stopped := time.Now().Add(time.Second)
	for _, f := range fixtures {
		r.Until(f.Service, "touched or stopped", func(rec event.Record) bool {
			return rec.Done() || rec.Phase == event.Settled && strings.Contains(rec.Rule.String(), "Paused by ann")
		})
	}
	before := r.Touched(fixtures)
	if len(before) == len(fixtures) {
		t.Fatal("all was written before the pause")
	}
	for _, f := range fixtures {
		for _, rec := range r.Records(f.Service) {
			if rec.Written.After(stopped) {
				t.Errorf("%s was written to at %s, and the pause was in force since %s", f.Service, rec.Written, stopped)
			}
		}
		if mark := r.Service(f.Service).Annotations[ccm.Resync]; (mark != "") != slices.Contains(before, f.Service) {
			t.Errorf("%s bears the mark %q, and those that the journal calls touched are %v", f.Service, mark, before)
		}
	}
	r.Says(0, "Paused by ann", "", "policy", "show")
	r.Says(0, "Ended. Cluster "+testbed.ClusterID+": Paused by ann", "", "resume")
	r.Must(r.Testbed.Until(r.Ctx, func() bool { return len(r.Touched(fixtures)) == len(fixtures) }))
	r.Testbed.Resume(r.Ctx)
	for _, f := range fixtures {
		r.Ends(f.Service, event.Fixed)
	}
	extended := 0
	for _, c := range r.Testbed.Cloud.Calls() {
		if c.Action == "CreatePolicyVersion" && c.Code == "" {
			extended++
		}
	}
	if extended != 1 {
		t.Errorf("the policy was extended %d times", extended)
	}
	up.end(r)
}

func TestPauseUnreadable(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		wrong func(*rig.Rig)
		says  func(event.Record) string
		want  string
	}{
		"pause": {func(r *rig.Rig) { r.Must(r.Stream.Put(r.Ctx, control.Key(testbed.ClusterID), []byte("{"))) },
			func(rec event.Record) string { return rec.Rule.String() },
			"Paused by somebody"},
		"policy": {func(r *rig.Rig) { r.Must(os.WriteFile(r.Rules, []byte("{"), 0o600)) }, func(rec event.Record) string { return rec.Error },
			"read the policy: policy file "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t, testbed.Config{}, rig.Careful)
			tt.wrong(r)
			r.Start()
			r.Create("web", nil)
			r.Until("web", "paused", func(rec event.Record) bool {
				return rec.Phase == event.Settled && rec.Result == event.Waiting && strings.Contains(tt.says(rec), tt.want)
			})
			if at := r.VSwitch("web"); at != testbed.FullVSwitchH {
				t.Errorf("it was moved to %s", at)
			}
			if name == "pause" {
				r.Says(0, "Ended. Cluster "+testbed.ClusterID, "", "resume")
			} else {
				r.Policy(rig.Careful)
			}
			r.Ends("web", event.Fixed)
		})
	}
}

// TestPauseLong: a plan half applied for over a quarter of an hour is not resumed but diagnosed again; steps already made are recognized.
func TestPauseLong(t *testing.T) {
	t.Parallel()
	f := testbed.NoListener().As("web")
	r := rig.New(t, f.Config, rig.Bold)
	r.Must(r.Testbed.Fail(r.Ctx, f))
	r.Must(r.Testbed.Halt(r.Ctx))
	r.Start()
	r.Until("web", "half done", func(rec event.Record) bool { return rec.Next == 1 && len(rec.Steps) == 2 })
	r.Says(0, "", "", "pause", "--by", "ann")
	half := r.Until("web", "stopped", func(rec event.Record) bool {
		return rec.Phase == event.Settled && strings.Contains(rec.Rule.String(), "Paused by ann")
	})
	r.Advance(16 * time.Minute)
	r.Says(0, "", "", "resume")
	again := r.Until("web", "planned anew", func(rec event.Record) bool { return rec.Phase == event.Intent })
	if len(again.Steps) != 1 || again.Steps[0].Kind != "resync" {
		t.Errorf("the plan is %+v", again.Steps)
	}
	r.Testbed.Resume(r.Ctx)
	r.Ends("web", event.Fixed)
	if n := r.Testbed.WorkerCalls("CreatePolicyVersion"); n != 1 || half.Next != 1 {
		t.Errorf("the policy was extended %d times, and it was stopped after %d steps", n, half.Next)
	}
}

type upProcess struct {
	interrupt func() error
	wait      func() error
	errs      shell.Log
}

func up(r *rig.Rig) *upProcess {
	r.Helper()
	u := &upProcess{}
	cmd := r.Command("up", "-o", "json", "--policy", r.Rules)
	out, err := cmd.StdoutPipe()
	r.Must(err)
	cmd.Stderr = &u.errs
	r.Must(cmd.Start())
	u.interrupt = func() error { return cmd.Process.Signal(os.Interrupt) }
	read := make(chan struct{})
	go func() {
		defer close(read)
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			if rec := (event.Record{}); json.Unmarshal(lines.Bytes(), &rec) != nil {
				r.Errorf("up printed %q", lines.Text())
			}
		}
		io.Copy(io.Discard, out)
	}()
	u.wait = sync.OnceValue(func() error { <-read; return cmd.Wait() })
	r.Cleanup(func() { cmd.Process.Kill(); u.wait() })
	return u
}

func (u *upProcess) end(r *rig.Rig) {
	r.Helper()
	r.Must(u.interrupt())
	if err := u.wait(); err != nil {
		r.Errorf("up ended with %v: %s", err, u.errs.String())
	}
}
