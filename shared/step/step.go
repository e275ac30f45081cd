// Package step holds the moves that plans are made of, one file each.
//
// A step is a plain struct: it can be printed, journalled, compared and taken
// back. Its Was fields hold what stood there when the plan was made; Check
// compares the world with both sides, and Apply writes only onto the version
// that was read. Steps on the Service write our resync annotation in the same
// patch, because it wakes the controller and changes its hash.
package step

import (
	"encoding/json"
	"fmt"

	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/remedy"
)

// All returns one zero value of every kind of step.
func All() []remedy.Step {
	return []remedy.Step{Annotate{}, RemoveAnnotation{}, Touch{}, ClearStatus{}, TagLB{}, UntagLB{}, PolicyVersion{}, DefaultVersion{}, ApplyQuota{}, TargetPorts{}, Evict{}, MoveListener{}, DeleteListener{}, CreateListener{}, Convert{}}
}

// Decode makes a step from its kind and its JSON form, as the journal keeps them.
func Decode(kind string, data []byte) (remedy.Step, error) {
	switch kind {
	case Annotate{}.Kind():
		return decode[Annotate](data)
	case RemoveAnnotation{}.Kind():
		return decode[RemoveAnnotation](data)
	case Convert{}.Kind():
		return decode[Convert](data)
	case Touch{}.Kind():
		return decode[Touch](data)
	case ClearStatus{}.Kind():
		return decode[ClearStatus](data)
	case TagLB{}.Kind():
		return decode[TagLB](data)
	case UntagLB{}.Kind():
		return decode[UntagLB](data)
	case PolicyVersion{}.Kind():
		return decode[PolicyVersion](data)
	case DefaultVersion{}.Kind():
		return decode[DefaultVersion](data)
	case ApplyQuota{}.Kind():
		return decode[ApplyQuota](data)
	case TargetPorts{}.Kind():
		return decode[TargetPorts](data)
	case Evict{}.Kind():
		return decode[Evict](data)
	case MoveListener{}.Kind():
		return decode[MoveListener](data)
	case DeleteListener{}.Kind():
		return decode[DeleteListener](data)
	case CreateListener{}.Kind():
		return decode[CreateListener](data)
	}
	return nil, fmt.Errorf("decode step: kind %q is unknown", kind)
}

func decode[S remedy.Step](data []byte) (remedy.Step, error) {
	var zero S
	var s *S // stays nil for null, which would read as a step that names nothing
	if err := json.Unmarshal(data, &s); err != nil {
		return nil, fmt.Errorf("decode step %s: %w", zero.Kind(), err)
	}
	if s == nil {
		return nil, fmt.Errorf("decode step %s: there is none", zero.Kind())
	}
	return *s, nil
}

// serviceWrite is what every step on the Service's own metadata needs.
var serviceWrite = []grant.Grant{grant.GetServices, grant.PatchServices}
