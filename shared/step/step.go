// Package step contains the steps of plans, one file each.
//
// A step is a plain struct that can be printed, recorded, compared and undone. Its Was fields hold the values at planning time. Check
// compares the present state with both sides, and Apply writes only to the version that was read. Steps on the Service write our resync
// annotation in the same patch, which triggers a sync and changes the hash.
//
// Begin with remedy.Step, the interface, and All.
package step

import (
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/remedy"
)

// All returns one zero value of every kind of step.
func All() []remedy.Step {
	return []remedy.Step{Annotate{}, RemoveAnnotation{}, Resync{}, ClearStatus{}, TagLB{}, UntagLB{}, PolicyVersion{}, DefaultVersion{}, ApplyQuota{},
		TargetPorts{}, Evict{}, MoveListener{}, DeleteListener{}, CreateListener{}, Convert{}, Unprotect{}, Protect{}}
}

// Decode makes a step of any kind from its kind and its JSON form; see remedy.Decode. The program of a function decodes only the kinds that
// its class declares, because a call of this links the code of all kinds.
func Decode(kind string, data []byte) (remedy.Step, error) { return remedy.Decode(All(), kind, data) }

// serviceWrite is what every step on the Service's own metadata needs.
var serviceWrite = []grant.Grant{grant.GetServices, grant.PatchServices}
