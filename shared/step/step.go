// Package step contains the steps of plans, one file each. Begin with remedy.Step, the interface, and All.
//
// A step is a plain struct that can be printed, recorded, compared and undone. Its Was fields hold the values at planning time. Check
// compares the present state with both sides, and Apply writes only to the version that was read. Steps on the Service write our
// resync annotation in the same patch, which triggers a sync and changes the hash.
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

// Decode makes a step of any kind, see remedy.Decode. It links all kinds' code, so a function's program decodes only its class's.
func Decode(kind string, data []byte) (remedy.Step, error) { return remedy.Decode(All(), kind, data) }

var serviceWrite = []grant.Grant{grant.GetServices, grant.PatchServices}
