package safety

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lbremedy/lbremedy/shared/control"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/test/rig"
	"github.com/lbremedy/lbremedy/test/testbed"
)

func TestFreeze(t *testing.T) {
	t.Parallel()
	shanghai, err := time.LoadLocation("Asia/Shanghai")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	clock := func(at time.Time) string { return at.In(shanghai).Format("15:04") }
	for name, freeze := range map[string]string{
		"each day, in a zone": fmt.Sprintf(`{name: office, from: %q, until: %q, zone: Asia/Shanghai}`, clock(now.Add(-time.Hour)), clock(now.Add(2*time.Hour))),
		"once": fmt.Sprintf(`{name: office, from: %q, until: %q}`, now.Add(-time.Hour).Format(time.RFC3339), now.Add(2*time.Hour).
			Format(time.RFC3339)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t, testbed.Config{}, rig.Careful+"freezes:\n- "+freeze+"\n").Start()
			r.Create("web", nil)
			rec := r.Held("web", event.HeldByFreeze)
			if !strings.Contains(rec.Rule.String(), `The freeze "office" blocks all writes until`) || len(rec.Steps) == 0 || rec.Next != 0 {
				t.Errorf("with %d of %d steps done the rule is %q", rec.Next, len(rec.Steps), rec.Rule)
			}
			r.Says(0, `The freeze "office" blocks all writes`, "", "policy", "show")
			if at := r.VSwitch("web"); at != testbed.FullVSwitchH {
				t.Fatalf("in the freeze it was moved to %s", at)
			}
			r.Advance(2*time.Hour + time.Minute)
			r.Ends("web", event.Fixed)
			if at := r.VSwitch("web"); at == testbed.FullVSwitchH {
				t.Error("it was not moved")
			}
		})
	}
}

// TestBudget: when more Services fail than the budget has places, the others wait, continue after the window, and are all fixed.
func TestBudget(t *testing.T) {
	t.Parallel()
	const services, places = 5, 2
	r := rig.New(t, testbed.Config{}, rig.Careful+fmt.Sprintf("budgets: {class: %d, least: 100}\n", places)).Start()
	name := func(i int) string { return fmt.Sprintf("web-%d", i) }
	for i := range services {
		r.Create(name(i), nil)
	}
	count := func() (moved int) {
		for i := range services {
			if r.VSwitch(name(i)) != testbed.FullVSwitchH {
				moved++
			}
		}
		return moved
	}
	// standing returns how many Services are fixed, and how many of the others the budget has kept waiting. The newest
	// record of a Service need not say so: late Events and failures of other classes also leave records. A newer failure
	// of another class can end a case after its write; whether the write has worked is then seen in the cloud.
	standing := func() (fixed, waiting int) {
		for i := range services {
			var over, held bool
			for _, rec := range r.Records(name(i)) {
				if rec.Class != rig.Full || rec.Phase != event.Settled {
					continue
				}
				over = over || rec.Result == event.Fixed || rec.Result == event.Superseded && rec.Done()
				held = held || rec.Held == event.HeldByBudget && strings.Contains(rec.Rule.String(), "The budget of the class is spent: 2 Services in 10 minutes.")
			}
			switch {
			case over && r.Testbed.Works(name(i)):
				fixed++
			case !over && held:
				waiting++
			}
		}
		return fixed, waiting
	}
	for window := 1; ; window++ {
		most := min(window*places, services)
		err := r.Testbed.Until(r.Ctx, func() bool {
			fixed, waiting := standing()
			return fixed == most && waiting == services-most
		})
		if err != nil {
			for _, rec := range r.Journal() {
				t.Logf("%s %s %s %s %s %s, held %q: %s %s %s %s", rec.At.Format(time.TimeOnly), rec.Service.Name, rec.Class, rec.Case, rec.Phase, rec.Result,
					rec.Held, rec.Finding, rec.Rule, rec.Note, rec.Error)
			}
			taken, unread := control.Spent(context.WithoutCancel(r.Ctx), r.Stream, testbed.ClusterID)
			fixed, waiting := standing()
			t.Fatalf("in window %d %d are fixed and %d wait: %v; the places taken are %v (%v)", window, fixed, waiting, err, taken, unread)
		}
		if moved := count(); moved != most {
			t.Fatalf("in window %d %d were written to instead of %d", window, moved, most)
		}
		if most == services {
			return
		}
		// The places expire after ten minutes.
		taken, err := control.Spent(r.Ctx, r.Stream, testbed.ClusterID)
		r.Must(err)
		if len(taken[rig.Full]) != places {
			t.Fatalf("in window %d the places taken are %v", window, taken)
		}
		r.Must(r.Stream.Delete(r.Ctx, control.BudgetKey(testbed.ClusterID)))
	}
}

// TestBreaker: three fixes that do not work within ten minutes stop their class until a person closes the breaker. Services that
// wait, are deleted or fail for another class do not count.
func TestBreaker(t *testing.T) {
	t.Parallel()
	r := rig.New(t, testbed.Config{}, rig.Careful+"budgets: {class: 100, least: 100}\n").Start()
	r.Must(r.Testbed.Halt(r.Ctx)) // no write takes effect
	// fails makes a Service fail and its plan be applied, and lets minutes pass before the result is verified.
	fails := func(name string, meanwhile func(*corev1.Service)) {
		t.Helper()
		r.Create(name, nil)
		r.Complain(name, rig.FullMessage)
		r.Until(name, "written", func(rec event.Record) bool { return rec.Next == 1 })
		if meanwhile != nil {
			meanwhile(r.Service(name))
		}
		r.Advance(8 * time.Minute)
	}
	open := func() int {
		t.Helper()
		all, err := control.Breakers(context.WithoutCancel(r.Ctx), r.Stream, testbed.ClusterID)
		r.Must(err)
		return len(all)
	}
	fails("one", nil)
	r.Ends("one", event.Unsettled)
	fails("gone", func(svc *corev1.Service) {
		r.Must(r.Testbed.Cluster.Client().CoreV1().Services(svc.Namespace).Delete(r.Ctx, svc.Name, metav1.DeleteOptions{}))
	})
	r.Ends("gone", event.Gone)
	// After the write it fails for another cause: the first one is over.
	fails("another", func(svc *corev1.Service) {
		r.ComplainLater(svc.Name, "Message: the listener is busy with something new")
		// The verifying run hands the Service to that failure, so its result may arrive first, and Ends would miss it.
		r.Must(r.Testbed.Until(r.Ctx, func() bool {
			return slices.ContainsFunc(r.Records(svc.Name), func(rec event.Record) bool { return rec.Class != rig.Full })
		}))
	})
	r.Until("another", "over", func(rec event.Record) bool {
		return rec.Phase == event.Settled && rec.Class == rig.Full && rec.Result != event.Waiting
	})
	fails("two", nil)
	r.Ends("two", event.Unsettled)
	r.Says(0, "No breaker is open", "", "breaker", "ls")
	if n := open(); n != 0 {
		t.Fatalf("%d breakers are open after two fixes that did not work", n)
	}
	fails("three", nil)
	r.Ends("three", event.Unsettled)
	r.Says(0, "3 fixes did not work within 10 minutes", "", "breaker", "ls")

	r.Create("next", nil)
	r.Complain("next", rig.FullMessage)
	asked := r.Ends("next", event.Asked)
	if !strings.Contains(asked.Rule.String(), "The breaker of the class "+rig.Full+" has been open since") || r.VSwitch("next") != testbed.FullVSwitchH {
		t.Errorf("the rule is %q, and the Service is in %s", asked.Rule, r.VSwitch("next"))
	}
	r.Says(0, rig.Full+" may write again in cluster", "", "breaker", "close", rig.Full)
	r.Says(0, "The breaker of "+rig.Full+" is not open", "", "breaker", "close", rig.Full)
	r.Testbed.Resume(r.Ctx)
	r.Ends("next", event.Fixed)
}

// TestRaisedBudget: raising a budget, of the class or of the cluster, wakes the cases that wait for it.
func TestRaisedBudget(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ spent, raised string }{
		"class":   {"{class: 1, least: 100}", "{class: 5, least: 100}"},
		"cluster": {"{share: 1%, least: 1}", "{share: 1%, least: 5}"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t, testbed.Config{}, rig.Careful+"budgets: "+tt.spent+"\n").Start()
			r.Create("first", nil)
			r.Ends("first", event.Fixed)
			r.Create("web", nil)
			held := r.Held("web", event.HeldByBudget)
			if !strings.Contains(held.Rule.String(), "The budget of the "+name+" is spent: ") {
				t.Errorf("the rule is %q", held.Rule)
			}
			r.Policy(rig.Careful + "budgets: " + tt.raised + "\n")
			r.Ends("web", event.Fixed)
		})
	}
}
