package safety

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/test/sim"
	"github.com/lbremedy/lbremedy/test/testbed"
)

// careful applies by itself only what moves no traffic and touches nothing shared.
const careful = "mode: fix\nramDelay: 1s\n"

// Plans of medium and high risk ask. Two people agree at once, and each write is made
// once; the journal says whose word it was.
func TestApprove(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		fixture testbed.Fixture
		risk    string
	}{
		"medium": {testbed.NoListener(), "medium"},
		"high":   {testbed.LostTag(), "high"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, tt.fixture.Config, careful).start()
			me := r.answerable()
			r.must(r.testbed.Fail(r.ctx, tt.fixture.As("web")))
			asked := r.ends("web", event.Asked)
			if asked.Risk != tt.risk || asked.Digest == "" || !strings.Contains(asked.Ask.String(), "lbremedy approve "+asked.Case) || asked.Next != 0 {
				t.Errorf("it asks %q of risk %s, with %d steps done", asked.Ask, asked.Risk, asked.Next)
			}
			if writes := r.testbed.WorkerWrites(); len(writes) > 0 {
				t.Fatalf("nobody has agreed, and the worker wrote %v", writes)
			}
			r.says(0, "lbremedy approve "+asked.Case, "", "show", asked.Case)
			r.says(command.CodeWrong, "", "look at it again with \"lbremedy show "+asked.Case, "approve", asked.Case, "--digest", "0000")
			var both [2]said
			var wait sync.WaitGroup
			for i := range both {
				wait.Go(func() { both[i] = r.call("approve", asked.Case) })
			}
			wait.Wait()
			fixed := r.ends("web", event.Fixed)
			if fixed.Approved == nil || fixed.Approved.By != me || fixed.Approved.Object == "" {
				t.Fatalf("approved by %+v", fixed.Approved)
			}
			for _, got := range both {
				agreed := got.code == 0 && strings.HasPrefix(got.out, fixed.Approved.By+" approved the plan "+asked.Digest)
				late := got.code == command.CodeWrong && strings.Contains(got.err, "has no plan that waits for an approval")
				if !agreed && !late {
					t.Errorf("of two approvals at once, one by %s, one said %+v", fixed.Approved.By, got)
				}
			}
			intents := slices.DeleteFunc(r.records("web"), func(rec event.Record) bool { return rec.Phase != event.Intent })
			if writes := r.testbed.WorkerWrites(); len(writes) != 1 || len(intents) != 1 || intents[0].Approved == nil {
				t.Errorf("the worker wrote %v, with %d intents", writes, len(intents))
			}
			r.says(0, fixed.Approved.By+" approved this plan at", "", "show", fixed.Case)
			r.says(command.CodeWrong, "", "has no plan that waits for an approval", "approve", fixed.Case)
			if !r.testbed.Healed("web") {
				t.Error("the Service does not work")
			}
		})
	}
}

// An approval is for one plan, and for a time: what has changed or taken too long until
// it could be applied asks anew, and nothing is written.
func TestApproveTooLate(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		meanwhile func(*rig)
		note      string
	}{
		"the plan has changed": {func(r *rig) { r.testbed.Cloud.Edit(rewrite) }, " approved another plan"},
		"it has expired":       {func(r *rig) { r.advance(25 * time.Hour) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := testbed.NoListener().As("web")
			r := newRig(t, f.Config, careful).start()
			me := r.answerable()
			r.must(r.testbed.Fail(r.ctx, f))
			asked := r.ends("web", event.Asked)
			r.says(0, "Cluster "+testbed.ClusterID+": Paused by cat", "", "pause", "--by", "cat")
			r.says(0, me+" approved the plan "+asked.Digest, "", "approve", asked.Case)
			r.held("web", event.HeldByPause)
			tt.meanwhile(r)
			r.says(0, "Ended. Cluster "+testbed.ClusterID+": Paused by cat", "", "resume")
			again := r.ends("web", event.Asked)
			if !strings.Contains(again.Note.String(), tt.note) || (tt.note != "") != (again.Digest != asked.Digest) || again.Approved != nil {
				t.Errorf("it asks about %s with %q, and asked about %s; approved: %+v", again.Digest, again.Note, asked.Digest, again.Approved)
			}
			if writes := r.testbed.WorkerWrites(); len(writes) > 0 {
				t.Fatalf("the worker wrote %v", writes)
			}
			if tt.note == "" {
				return
			}
			r.says(command.CodeWrong, "", "the plan of case "+again.Case+" is "+again.Digest+" now", "approve", again.Case, "--digest", asked.Digest)
			r.says(0, me+" approved the plan "+again.Digest, "", "approve", again.Case)
			if fixed := r.ends("web", event.Fixed); fixed.Approved == nil || fixed.Approved.By != me {
				t.Errorf("approved by %+v", fixed.Approved)
			}
		})
	}
}

// rewrite changes the RAM policy as somebody does who takes a right away that was not in the way.
func rewrite(st *sim.State) {
	for _, p := range st.Policies {
		for i := range p.Versions {
			if p.Versions[i].Default {
				changed := p.Versions[i]
				p.Versions[i].Default = false
				changed.ID, changed.Document = "v9", strings.Replace(changed.Document, `"slb:AddTags",`, "", 1)
				p.Versions = append(p.Versions, changed)
				return
			}
		}
	}
}
