package safety

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/test/rig"
	"github.com/lbremedy/lbremedy/test/testbed"
)

// TestUndo: a person can undo a fix after seeing the effects, but not against a later edit, and not twice.
func TestUndo(t *testing.T) {
	t.Parallel()
	r := rig.New(t, testbed.Config{}, rig.Careful).Start()
	r.Must(r.Testbed.Fail(r.Ctx, testbed.FullVSwitch(testbed.FullVSwitchH).As("web")))
	fixed := r.Ends("web", event.Fixed)
	to := r.VSwitch("web")
	if to == testbed.FullVSwitchH {
		t.Fatal("the Service was not moved")
	}
	r.Says(0, "vswitch-id="+testbed.FullVSwitchH, "Nothing was written; --apply undoes the steps.", "undo", fixed.Case)
	if now := r.VSwitch("web"); now != to {
		t.Fatalf("to look at an undo has moved the Service to %s", now)
	}

	move := func(vswitch string) {
		t.Helper()
		patch := []byte(`{"metadata":{"annotations":{"` + rig.Prefix + `vswitch-id":"` + vswitch + `"}}}`)
		_, err := r.Testbed.Cluster.Client().CoreV1().Services(r.Testbed.Namespace).Patch(r.Ctx, "web", types.MergePatchType, patch,
			metav1.PatchOptions{FieldManager: "kubectl-annotate"})
		r.Must(err)
	}
	move("vsw-of-somebody")
	drift := "vswitch-id is \"vsw-of-somebody\", and was \"" + to + "\" when lbremedy left it"
	r.Says(command.CodeFailed, "", drift, "undo", fixed.Case) // as with --apply
	got := r.Says(command.CodeFailed, "", drift, "undo", fixed.Case, "--apply")
	if now := r.VSwitch("web"); now != "vsw-of-somebody" || strings.Count(strings.TrimSpace(got.Err), "\n") > 0 {
		t.Errorf("the refused undo has moved the Service to %s, and said %q", now, got.Err)
	}

	move(to)
	r.Says(0, "undone", "", "undo", fixed.Case, "--apply")
	if now := r.VSwitch("web"); now != testbed.FullVSwitchH {
		t.Errorf("after the undo the Service asks for %s", now)
	}
	undone := r.Ends("web", event.Undone)
	r.Says(command.CodeWrong, "", "case "+fixed.Case+" was already undone at", "undo", fixed.Case)
	r.Says(command.CodeWrong, "", "case "+fixed.Case+" was already undone at", "undo", undone.Case, "--apply")
	r.Says(0, "undone", "", "show", fixed.Case, "--history")
}

// TestUndoLeavesAttempts: a working fix can be undone any number of times, and made again when a person asks for it.
func TestUndoLeavesAttempts(t *testing.T) {
	t.Parallel()
	r := rig.New(t, testbed.Config{}, rig.Careful+"budgets: {attempts: 2}\n").Start()
	r.Answerable()
	r.Must(r.Testbed.Fail(r.Ctx, testbed.LostTag().As("web")))
	for n := range 4 {
		asked := r.Ends("web", event.Asked)
		if asked.Digest == "" {
			t.Fatalf("after %d undos no plan can be approved: %s %s", n, asked.Rule, asked.Ask)
		}
		r.Says(0, "approved the plan", "", "approve", asked.Case)
		fixed := r.Ends("web", event.Fixed)
		if n == 3 {
			return
		}
		r.Says(0, "undone", "", "undo", fixed.Case, "--apply")
		r.Ends("web", event.Undone)
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"%sbandwidth":"%d"}}}`, rig.Prefix, n+1) // the controller syncs, and fails
		_, err := r.Testbed.Cluster.Client().CoreV1().Services(r.Testbed.Namespace).Patch(r.Ctx, "web", types.MergePatchType, patch, metav1.PatchOptions{})
		r.Must(err)
	}
}
