// Package doctor tests the whole doctor in one world: a real API server with the checks' rights, the simulated cloud over HTTP
// with their actions, a controller that syncs, and a real JetStream. The world begins healthy, and nothing is found. Then
// people's actions in the cluster and the console give each check something to find, and the doctor finds exactly the table in
// sick_test.go. Scheduled runs, the operator's program and its fixes follow. The doctor's clock is 20 minutes ahead, so the
// checks' waiting times have passed while the controller's Events still exist.
//
// With CCM_BIN, that controller syncs in place of the simulated one, and the table is the same, including the names of load
// balancers, groups and listeners, but for its release (CCM_VERSION), where the table does not say which actions the poorer
// policy lacks, and the rate of its Events: below six syncs an hour for changes of endpoints, draining finds nothing.
package doctor

import (
	"errors"
	"slices"
	"testing"
	"time"

	checks "github.com/lbremedy/lbremedy/functions/doctor"
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/test/sim"
	"github.com/lbremedy/lbremedy/test/sim/controller"
	"github.com/lbremedy/lbremedy/test/sim/controller/standin"
)

// buried removes the heartbeats of killed engines, as if 15 s had passed, so other engines can take over their objects.
func (r *rig) buried() {
	r.Helper()
	keys, err := r.env.Stream.Entries(r.Context(), "engine.*.*")
	for _, key := range keys {
		err = errors.Join(err, r.env.Stream.Delete(r.Context(), key.Key))
	}
	if err != nil {
		r.Fatal(err)
	}
}

func TestDoctor(t *testing.T) {
	go program() // takes as long as the world
	r := newRig(t)
	r.build()
	receiver := r.tell()
	r.looks("a healthy world", nil)
	r.scheduled("a healthy world", r.env, 0, 0)

	ills := r.sick()
	r.inject(ills)
	var repaired []string
	for _, ill := range ills {
		if ill.repair != nil {
			repaired = append(repaired, ill.finds...)
		}
	}
	want := table(ills)
	r.looks("a sick world", want)
	for _, c := range checks.Checks() {
		// edits is about manifests, guard finds information only, no-events is about releases that write none.
		if c.ID != "edits" && c.ID != "guard" && c.ID != "no-events" && !slices.Contains(checksOf(matters(want)), c.ID) {
			t.Errorf("the check %s has nothing to find", c.ID)
		}
	}

	r.gaps()
	r.examined(want)

	open := matters(want)
	told := r.kill()
	r.buried()
	r.scheduled("the first whole run", r.env, len(open)-len(told), 0)
	r.same("cases that ask", open, r.journal(event.Asked))
	r.same("all that was ever told", open, r.told())
	receiver.hears("opened", checksOf(open))
	r.scheduled("the same again", r.env, 0, 0)

	// A run that cannot read opens and closes nothing, whatever has changed.
	lift := r.testbed.Cloud.Fault(sim.Fault{Action: "DescribeLoadBalancers", Caller: caller, Code: "Forbidden.RAM", Status: 403})
	r.scheduled("a run that sees no CLB", r.env, 0, 0)
	lift()
	for _, ill := range ills {
		if ill.repair != nil {
			ill.repair(r)
		}
	}
	blind := r.as("lbremedy-doctor-blind", nil)
	blind.Stream, blind.Policy = r.env.Stream, r.env.Policy
	r.scheduled("a run that sees nothing", blind, 0, 0)
	r.same("cases that ask", open, r.journal(event.Asked))

	left := slices.DeleteFunc(slices.Clone(want), func(line string) bool { return slices.Contains(repaired, line) })
	r.looks("a half-repaired world", left)
	gone := slices.DeleteFunc(matters(repaired), func(m string) bool { return slices.Contains(matters(left), m) })
	r.scheduled("the run after", r.env, 0, len(gone))
	r.same("cases that are gone", gone, r.journal(event.Gone))
	r.same("cases that ask", matters(left), r.journal(event.Asked))
	r.ahead.Add(int64(time.Minute)) // a ticket is notified at most every ten seconds
	receiver.hears("closed", slices.DeleteFunc(checksOf(gone), func(c string) bool { return slices.Contains(checksOf(matters(left)), c) }))
	receiver.hears("opened", checksOf(open))
	r.scheduled("the same again", r.env, 0, 0)

	r.fixed()
}

// TestStandIn runs the same two worlds with a program started like CCM_BIN. It stands in for a real v2.14.0.
func TestStandIn(t *testing.T) {
	t.Setenv(controller.BinaryVariable, standin.Program(t))
	t.Setenv(controller.VersionVariable, standin.Version)
	r := newRig(t)
	if r.testbed.Version() != standin.Version {
		t.Fatalf("the testbed's controller is of the release %s", r.testbed.Version())
	}
	r.build()
	r.looks("a healthy world", nil)
	ills := r.sick()
	r.inject(ills)
	r.looks("a sick world", table(ills))
}

func table(ills []illness) []string {
	var all []string
	for _, ill := range ills {
		all = append(all, ill.finds...)
	}
	slices.Sort(all)
	return all
}

func (r *rig) looks(what string, want []string) {
	r.Helper()
	result := r.run(r.env)
	got := lines(result, doctor.Warning)
	if !slices.Equal(want, got) {
		r.same(what, want, got)
		for _, f := range result.AtLeast(doctor.Warning).Findings {
			r.Logf("%s %s %s %s: %s", f.Severity, f.Check, f.About, f.Key, f.Text)
		}
	}
	for _, u := range unknowns(result) {
		r.Errorf("%s: %s", what, u)
	}
	if len(result.Checks) != len(checks.Checks()) {
		r.Errorf("%s: %d checks have looked", what, len(result.Checks))
	}
}
