package safety

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/test/rig"
	"github.com/lbremedy/lbremedy/test/shell"
	"github.com/lbremedy/lbremedy/test/sim"
	"github.com/lbremedy/lbremedy/test/testbed"
)

// TestApprove: plans of medium and high risk ask. When two people approve at once, each write is made once, and the journal names
// the person whose approval counted.
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
			r := rig.New(t, tt.fixture.Config, rig.Careful).Start()
			me := r.Answerable()
			r.Must(r.Testbed.Fail(r.Ctx, tt.fixture.As("web")))
			asked := r.Ends("web", event.Asked)
			if asked.Risk != tt.risk || asked.Digest == "" || !strings.Contains(asked.Ask.String(), "lbremedy approve "+asked.Case) || asked.Next != 0 {
				t.Errorf("it asks %q of risk %s, with %d steps done", asked.Ask, asked.Risk, asked.Next)
			}
			if writes := r.Testbed.WorkerWrites(); len(writes) > 0 {
				t.Fatalf("nobody has agreed, and the worker wrote %v", writes)
			}
			r.Says(0, "lbremedy approve "+asked.Case, "", "show", asked.Case)
			r.Says(command.CodeWrong, "", "look at it again with \"lbremedy show "+asked.Case, "approve", asked.Case, "--digest", "0000")
			var both [2]rig.Said
			var wait sync.WaitGroup
			for i := range both {
				wait.Go(func() { both[i] = r.Call("approve", asked.Case) })
			}
			wait.Wait()
			fixed := r.Ends("web", event.Fixed)
			if fixed.Approved == nil || fixed.Approved.By != me || fixed.Approved.Object == "" {
				t.Fatalf("approved by %+v", fixed.Approved)
			}
			for _, got := range both {
				agreed := got.Code == 0 && strings.HasPrefix(got.Out, fixed.Approved.By+" approved the plan "+asked.Digest)
				late := got.Code == command.CodeWrong && strings.Contains(got.Err, "has no plan that waits for an approval")
				if !agreed && !late {
					t.Errorf("of two approvals at once, one by %s, one said %+v", fixed.Approved.By, got)
				}
			}
			intents := slices.DeleteFunc(r.Records("web"), func(rec event.Record) bool { return rec.Phase != event.Intent })
			if writes := r.Testbed.WorkerWrites(); len(writes) != 1 || len(intents) != 1 || intents[0].Approved == nil {
				t.Errorf("the worker wrote %v, with %d intents", writes, len(intents))
			}
			r.Says(0, fixed.Approved.By+" approved this plan at", "", "show", fixed.Case)
			told(r, "Accepted=True Counted, Applied=True Applied")
			r.Says(command.CodeWrong, "", "has no plan that waits for an approval", "approve", fixed.Case)
			if !r.Testbed.Healed("web") {
				t.Error("the Service does not work")
			}
		})
	}
}

// TestApproveTooLate: if something changes, or the approval expires before the plan is applied, the class asks again and writes nothing.
func TestApproveTooLate(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		meanwhile func(*rig.Rig)
		note      string
		status    string
	}{
		"the plan has changed": {func(r *rig.Rig) { r.Testbed.Cloud.Edit(rewrite) }, " approved another plan", "Accepted=False PlanChanged"},
		"it has expired":       {func(r *rig.Rig) { r.Advance(24*time.Hour + time.Minute) }, "", "Accepted=False Expired"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := testbed.NoListener().As("web")
			r := rig.New(t, f.Config, rig.Careful).Start()
			me := r.Answerable()
			r.Must(r.Testbed.Fail(r.Ctx, f))
			asked := r.Ends("web", event.Asked)
			r.Says(0, "Cluster "+testbed.ClusterID+": Paused by cat", "", "pause", "--by", "cat")
			r.Says(0, me+" approved the plan "+asked.Digest, "", "approve", asked.Case)
			r.Held("web", event.HeldByPause)
			told(r, "Accepted=True Counted")
			tt.meanwhile(r)
			r.Says(0, "Ended. Cluster "+testbed.ClusterID+": Paused by cat", "", "resume")
			again := r.Ends("web", event.Asked)
			if !strings.Contains(again.Note.String(), tt.note) || (tt.note != "") != (again.Digest != asked.Digest) || again.Approved != nil {
				t.Errorf("it asks about %s with %q, and asked about %s; approved: %+v", again.Digest, again.Note, asked.Digest, again.Approved)
			}
			if writes := r.Testbed.WorkerWrites(); len(writes) > 0 {
				t.Fatalf("the worker wrote %v", writes)
			}
			told(r, tt.status)
			if tt.note == "" {
				return
			}
			r.Says(command.CodeWrong, "", "the plan of case "+again.Case+" is "+again.Digest+" now", "approve", again.Case, "--digest", asked.Digest)
			r.Says(0, me+" approved the plan "+again.Digest, "", "approve", again.Case)
			if fixed := r.Ends("web", event.Fixed); fixed.Approved == nil || fixed.Approved.By != me {
				t.Errorf("approved by %+v", fixed.Approved)
			}
		})
	}
}

// told waits until an Approval of the Service says this.
func told(r *rig.Rig, want string) {
	r.Helper()
	shell.Until(r.T, "an Approval says "+want, func() bool {
		all, err := r.Env.Kube.Approvals(r.Ctx, r.Testbed.Namespace)
		r.Must(err)
		return slices.ContainsFunc(all, func(a kube.Approval) bool {
			var said []string
			for _, c := range a.Status.Conditions {
				said = append(said, c.Type+"="+string(c.Status)+" "+c.Reason)
			}
			return strings.Join(said, ", ") == want
		})
	})
}

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
