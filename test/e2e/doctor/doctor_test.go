// Package doctor has the whole doctor look at a whole world: a real API server with the
// rights that the checks declare, the simulated cloud over HTTP with the actions that
// they declare, a controller that syncs, and a real JetStream.
//
// There is one world. First it is healthy, and nothing is found. Then each check is given
// something to find, by what people do to a cluster and in a console, and the doctor finds
// exactly that: the table is in sick_test.go. Then the scheduled run goes over it, the
// operator's program and its fixes.
//
// The doctor's clock is 20 minutes ahead of the cluster's: what a check waits for has
// passed, and the controller's Events are still there.
//
// With CCM_BIN that controller syncs in place of the simulated one, and what it leaves is
// held to the same table. What can't be compared then:
//
//   - its release is its own (CCM_VERSION), so that the RAM policy of the healthy world
//     allows all that the release is known to call, and which actions the poorer policy
//     lacks is not in the table, only that some are missing;
//   - how often it writes Events is its own: where it is slower than six syncs an hour
//     for changes of endpoints, it is the finding of draining that is missing;
//   - a name that it gives a load balancer, a group or a listener otherwise than the
//     simulated one would show as a finding: that is what is compared.
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

// buried removes the heartbeats of the killed engines, as if 15 s had passed, so that other engines may take their objects.
func (r *rig) buried() {
	r.Helper()
	keys, err := r.env.Stream.Keys(r.Context(), "engine.*.*")
	for _, key := range keys {
		err = errors.Join(err, r.env.Stream.Delete(r.Context(), key))
	}
	if err != nil {
		r.Fatal(err)
	}
}

// TestDoctor is the whole doctor in a world that falls ill and is repaired again.
func TestDoctor(t *testing.T) {
	go program() // it takes as long as the world
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
		if c.ID != "edits" && c.ID != "guard" && !slices.Contains(checksOf(matters(want)), c.ID) { // one is about manifests, the other finds information alone
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

	// A run that can't read closes nothing and opens nothing, whatever has changed.
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
	r.ahead.Add(int64(time.Minute)) // a ticket is told of every ten seconds at most
	receiver.hears("closed", slices.DeleteFunc(checksOf(gone), func(c string) bool { return slices.Contains(checksOf(matters(left)), c) }))
	receiver.hears("opened", checksOf(open))
	r.scheduled("the same again", r.env, 0, 0)

	r.fixed()
}

// TestStandIn is the same two worlds with a program in the controller's place, started as
// CCM_BIN has it: what stands for a real one is v2.14.0, too.
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

// table returns what a run of a sick world finds, sorted.
func table(ills []illness) []string {
	var all []string
	for _, ill := range ills {
		all = append(all, ill.finds...)
	}
	slices.Sort(all)
	return all
}

// looks checks the world, and holds what is found from warnings on to what is wanted.
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
