// Package doctor holds the checks that look at a whole cluster for what will fail, or
// has failed without a word: the rest of the Service FAQ, found before it fails.
//
// A check is a value in a file of its own, with its page beside it. It looks at a
// snapshot of shared/doctor and nothing else, so that "lbremedy doctor" at a terminal,
// a timer's function and a test with a literal all run the same code.
//
// # Where this differs from the design it came from
//
// A check names the parts of the snapshot that it looks at, and no permissions: those
// follow from the parts. What it can do without, it says for itself.
//
// A snapshot holds objects of Kubernetes without what no check reads, not types of its
// own: checks then ask the functions of shared/ccm that the classes ask, which know
// how the controller finds a load balancer, names a group and leaves a node out.
//
// Fixes go through the engine like a failure's: Remedies makes one remedy for each
// check. It diagnoses by gathering the one Service again and asking
// the same check.
package doctor

import (
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/remedy"
)

// Checks returns all checks, in the order of their IDs.
func Checks() []*doctor.Check {
	return []*doctor.Check{
		annotations,
		charges,
		cordoned,
		deletion,
		protection,
		draining,
		drift,
		eventWriters,
		finalizers,
		lbGone,
		listenersMissing,
		noEvents,
		nodePorts,
		nodeWeights,
		notRenamable,
		pending,
		permissions,
		reuse,
		room,
		scale,
		silent,
		staleGroups,
		inside,
	}
}

// Remedies returns a remedy for each check, under whose class its findings stand in the
// journal. One whose findings can't be fixed asks.
func Remedies() []*remedy.Remedy {
	var all []*remedy.Remedy
	for _, c := range Checks() {
		all = append(all, doctor.Remedy(c))
	}
	return all
}

// Grants returns all that a scheduled run of the checks does in a cluster and on Alibaba
// Cloud: it reads.
func Grants() []grant.Grant { return doctor.ScheduledRunGrants(Checks()) }
