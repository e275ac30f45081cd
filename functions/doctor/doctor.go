// Package doctor holds the checks that search a whole cluster for what will fail or has failed silently. They cover the rest of
// the Service FAQ.
//
// A check is a value in a file of its own, with its page beside it. It reads only a snapshot of shared/doctor, so "lbremedy
// doctor" in a terminal, a function on a timer and a test with a literal all run the same code.
//
// A check declares the parts of the snapshot that it needs and those it can do without. Permissions follow from the parts. A
// snapshot holds Kubernetes objects, without the fields that no check reads. Checks can therefore call the functions of shared/ccm
// that classes use to find a load balancer, name a group and exclude a node.
//
// Fixes go through the engine like those of failures: Remedies returns one remedy for each check. To diagnose, it reads the one
// Service again and runs the same check. Begin with Checks.
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

// page returns the page of a check, whose file has the name of the check without hyphens.
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

// Remedies returns a remedy for each check; the audit records the check's findings under its class. If the findings cannot be
// fixed, the remedy asks.
func Remedies() []*remedy.Remedy {
	var all []*remedy.Remedy
	for _, c := range Checks() {
		all = append(all, doctor.Remedy(c))
	}
	return all
}

// Grants returns the permissions of a scheduled run of the checks in a cluster and on Alibaba Cloud: it only reads.
func Grants() []grant.Grant { return doctor.ScheduledRunGrants(Checks()) }
