// Package step holds the moves that plans are made of, one file each.
//
// A step is a plain struct: it can be printed, journalled, compared and taken
// back. Its Was fields hold what stood there when the plan was made; Check
// compares the world with both sides, and Apply writes only onto the version
// that was read. Steps on the Service write our resync annotation in the same
// patch, because it triggers a sync and changes its hash.
package step

import (
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/remedy"
)

// All returns one zero value of every kind of step.
func All() []remedy.Step {
	return []remedy.Step{Annotate{}, RemoveAnnotation{}, Touch{}, ClearStatus{}, TagLB{}, UntagLB{}, PolicyVersion{}, DefaultVersion{}, ApplyQuota{},
		TargetPorts{}, Evict{}, MoveListener{}, DeleteListener{}, CreateListener{}, Convert{}, Unprotect{}, Protect{}}
}

// Decode makes a step of any kind from its kind and its JSON form, as remedy.Decode does. The program of a function decodes only
// what its class declares: else it would hold the code of all kinds.
func Decode(kind string, data []byte) (remedy.Step, error) { return remedy.Decode(All(), kind, data) }

// serviceWrite is what every step on the Service's own metadata needs.
var serviceWrite = []grant.Grant{grant.GetServices, grant.PatchServices}
