// Package doctor holds the checks that search a cluster for what will fail or has failed silently. They cover the rest of the Service
// FAQ. Begin with Checks.
//
// A check is a value in its own file, with its page beside it. It reads only a snapshot of shared/doctor, so a terminal, a function on a
// timer and a test run the same code. It declares the parts that it needs and those it can do without; permissions follow from these.
// Snapshots hold Kubernetes objects, so checks can call the functions of shared/ccm.
//
// Fixes go through the engine like those of failures: each check has a remedy, which reads the one Service again and runs the same check to diagnose.
package doctor

import (
	"embed"
	"fmt"
	"strings"

	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/remedy"
)

//go:embed *.md
var pages embed.FS

func page(check string) string {
	text, err := pages.ReadFile(strings.ReplaceAll(check, "-", "") + ".md")
	if err != nil {
		panic(fmt.Sprintf("read the page of the check %s: %v", check, err))
	}
	return string(text)
}

// Checks returns all checks, in the order of their IDs.
func Checks() []*doctor.Check {
	return []*doctor.Check{
		annotations,
		charges,
		combinations,
		cordoned,
		deletion,
		draining,
		drift,
		edits,
		eventWriters,
		finalizers,
		groupsNotBuilt,
		guarded,
		kind,
		lbProtection,
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
		serviceProtection,
		silent,
		sourceRanges,
		staleGroups,
		inside,
	}
}

// Remedies returns a remedy for each check, under whose class the audit records findings. It asks if they cannot be fixed.
func Remedies() []*remedy.Remedy {
	var all []*remedy.Remedy
	for _, c := range Checks() {
		all = append(all, doctor.Remedy(c))
	}
	return all
}

// Grants returns the permissions of a scheduled run of the checks in a cluster and on Alibaba Cloud: it only reads.
func Grants() []grant.Grant { return doctor.ScheduledRunGrants(Checks()) }
