package safety

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/test/testbed"
)

// A fix is taken back by a person, who sees before what that does; not against
// somebody who has moved on since, and not twice.
func TestUndo(t *testing.T) {
	t.Parallel()
	r := newRig(t, testbed.Config{}, careful).start()
	r.must(r.testbed.Fail(r.ctx, testbed.FullVSwitch(testbed.FullVSwitchH).As("web")))
	fixed := r.ends("web", event.Fixed)
	to := r.vswitch("web")
	if to == testbed.FullVSwitchH {
		t.Fatal("the Service was not moved")
	}
	r.says(0, "vswitch-id="+testbed.FullVSwitchH, "Nothing was written; --apply undoes the steps.", "undo", fixed.Case)
	if now := r.vswitch("web"); now != to {
		t.Fatalf("to look at an undo has moved the Service to %s", now)
	}

	move := func(vswitch string) {
		t.Helper()
		patch := []byte(`{"metadata":{"annotations":{"` + prefix + `vswitch-id":"` + vswitch + `"}}}`)
		_, err := r.testbed.Cluster.Client().CoreV1().Services(r.testbed.Namespace).Patch(r.ctx, "web", types.MergePatchType, patch,
			metav1.PatchOptions{FieldManager: "kubectl-annotate"})
		r.must(err)
	}
	move("vsw-of-somebody")
	drift := "vswitch-id is \"vsw-of-somebody\", and was \"" + to + "\" when lbremedy left it"
	r.says(command.CodeFailed, "", drift, "undo", fixed.Case) // as with --apply
	got := r.says(command.CodeFailed, "", drift, "undo", fixed.Case, "--apply")
	if now := r.vswitch("web"); now != "vsw-of-somebody" || strings.Count(strings.TrimSpace(got.err), "\n") > 0 {
		t.Errorf("the refused undo has moved the Service to %s, and said %q", now, got.err)
	}

	move(to)
	r.says(0, "undone", "", "undo", fixed.Case, "--apply")
	if now := r.vswitch("web"); now != testbed.FullVSwitchH {
		t.Errorf("after the undo the Service asks for %s", now)
	}
	undone := r.ends("web", event.Undone)
	r.says(command.CodeWrong, "", "case "+fixed.Case+" was already undone at", "undo", fixed.Case)
	r.says(command.CodeWrong, "", "case "+fixed.Case+" was already undone at", "undo", undone.Case, "--apply")
	r.says(0, "undone", "", "show", fixed.Case, "--history")
}
