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
	"github.com/lbremedy/lbremedy/test/shell"
	"github.com/lbremedy/lbremedy/test/testbed"
)

// bold lets the class with two steps a plan write by itself.
const bold = `mode: fix
ramDelay: 2s
classes: {ram-permission: {risk: medium}}
budgets: {class: 100, least: 100}
`

// The kill switch stops every step that has not started within a second, whoever would
// make it: here a worker of the test and "lbremedy up" in a process of its own. What
// stands half done goes on after it.
func TestPause(t *testing.T) {
	t.Parallel()
	f := testbed.NoListener()
	r := newRig(t, f.Config, bold)
	fixtures := testbed.Bulk(f, "web", 4)
	r.must(r.testbed.Fail(r.ctx, fixtures...))
	r.must(r.testbed.Halt(r.ctx)) // or it would find out about the policy by itself
	up := r.up()
	shell.Beside(r, r.ctx, "the worker", r.work)
	// Touches are two seconds apart: after the first one there are more to come.
	r.must(r.testbed.Until(r.ctx, func() bool { return len(r.touched(fixtures)) > 0 }))
	r.says(0, "Cluster "+testbed.ClusterID+": Paused by ann", "", "pause", "--by", "ann", "--why", "too much at once")
	stopped := time.Now().Add(time.Second)
	for _, f := range fixtures {
		r.until(f.Service, "touched or stopped", func(rec event.Record) bool {
			return rec.Done() || rec.Phase == event.Settled && strings.Contains(rec.Rule.String(), "Paused by ann")
		})
	}
	before := r.touched(fixtures)
	if len(before) == len(fixtures) {
		t.Fatal("all was written before the pause")
	}
	for _, f := range fixtures {
		for _, rec := range r.records(f.Service) {
			if rec.Written.After(stopped) {
				t.Errorf("%s was written to at %s, and the pause was in force since %s", f.Service, rec.Written, stopped)
			}
		}
		if mark := r.service(f.Service).Annotations[ccm.Resync]; (mark != "") != slices.Contains(before, f.Service) {
			t.Errorf("%s bears the mark %q, and those that the journal calls touched are %v", f.Service, mark, before)
		}
	}
	r.says(0, "Paused by ann", "", "policy", "show")
	r.says(0, "Ended. Cluster "+testbed.ClusterID+": Paused by ann", "", "resume")
	r.must(r.testbed.Until(r.ctx, func() bool { return len(r.touched(fixtures)) == len(fixtures) }))
	r.testbed.Resume(r.ctx)
	for _, f := range fixtures {
		r.ends(f.Service, event.Fixed)
	}
	extended := 0
	for _, c := range r.testbed.Cloud.Calls() {
		if c.Action == "CreatePolicyVersion" && c.Code == "" {
			extended++
		}
	}
	if extended != 1 {
		t.Errorf("the policy was extended %d times", extended)
	}
	up.end(r)
}

// A pause that nobody can read is one, and so is a policy.
func TestPauseUnreadable(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		wrong func(*rig)
		says  func(event.Record) string
		want  string
	}{
		"pause": {func(r *rig) { r.must(r.stream.Put(r.ctx, control.Key(testbed.ClusterID), []byte("{"))) }, func(rec event.Record) string { return rec.Rule.String() },
			"Paused by somebody"},
		"policy": {func(r *rig) { r.must(os.WriteFile(r.rules, []byte("{"), 0o600)) }, func(rec event.Record) string { return rec.Error },
			"read the policy: policy file "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, testbed.Config{}, careful)
			tt.wrong(r)
			r.start()
			r.create("web", nil)
			r.until("web", "paused", func(rec event.Record) bool {
				return rec.Phase == event.Settled && rec.Result == event.Waiting && strings.Contains(tt.says(rec), tt.want)
			})
			if at := r.vswitch("web"); at != testbed.FullVSwitchH {
				t.Errorf("it was moved to %s", at)
			}
			if name == "pause" {
				r.says(0, "Ended. Cluster "+testbed.ClusterID, "", "resume")
			} else {
				r.policy(careful)
			}
			r.ends("web", event.Fixed)
		})
	}
}

// A plan that stood half done for more than a quarter of an hour is not gone on with: the
// case is diagnosed afresh, and what is done already is found done.
func TestPauseLong(t *testing.T) {
	t.Parallel()
	f := testbed.NoListener().As("web")
	r := newRig(t, f.Config, bold)
	r.must(r.testbed.Fail(r.ctx, f))
	r.must(r.testbed.Halt(r.ctx))
	r.start()
	r.until("web", "half done", func(rec event.Record) bool { return rec.Next == 1 && len(rec.Steps) == 2 })
	r.says(0, "", "", "pause", "--by", "ann")
	half := r.until("web", "stopped", func(rec event.Record) bool {
		return rec.Phase == event.Settled && strings.Contains(rec.Rule.String(), "Paused by ann")
	})
	r.advance(16 * time.Minute)
	r.says(0, "", "", "resume")
	again := r.until("web", "planned anew", func(rec event.Record) bool { return rec.Phase == event.Intent })
	if len(again.Steps) != 1 || again.Steps[0].Kind != "touch" {
		t.Errorf("the plan is %+v", again.Steps)
	}
	r.testbed.Resume(r.ctx)
	r.ends("web", event.Fixed)
	if n := r.testbed.WorkerCalls("CreatePolicyVersion"); n != 1 || half.Next != 1 {
		t.Errorf("the policy was extended %d times, and it was stopped after %d steps", n, half.Next)
	}
}

// touched returns the Services that were woken.
func (r *rig) touched(fixtures []testbed.Fixture) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []string
	for _, f := range fixtures {
		if slices.ContainsFunc(r.journal, func(rec event.Record) bool { return rec.Service.Name == f.Service && rec.Done() }) {
			all = append(all, f.Service)
		}
	}
	return all
}

// An upProcess is "lbremedy up" as a process of its own.
type upProcess struct {
	interrupt func() error
	wait      func() error
	errs      shell.Log
}

// up starts "lbremedy up" with the policy in force, and returns when it watches.
func (r *rig) up() *upProcess {
	r.Helper()
	u := &upProcess{}
	cmd := r.command("up", "-o", "json", "--policy", r.rules)
	out, err := cmd.StdoutPipe()
	r.must(err)
	cmd.Stderr = &u.errs
	r.must(cmd.Start())
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

// end ends it as Ctrl-C does, and wants it to end well.
func (u *upProcess) end(r *rig) {
	r.Helper()
	r.must(u.interrupt())
	if err := u.wait(); err != nil {
		r.Errorf("up ended with %v: %s", err, u.errs.String())
	}
}
