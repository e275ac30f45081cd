// Package step holds the moves that plans are made of, one file each.
//
// A step is a plain struct: it can be printed, journalled, compared and taken
// back. Its Was fields hold what stood there when the plan was made; Check
// compares the world with both sides, and Apply writes only onto the version
// that was read. Steps on the Service write our resync annotation in the same
// patch, because it triggers a sync and changes its hash.
package step

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/remedy"
)

// All returns one zero value of every kind of step.
func All() []remedy.Step {
	return []remedy.Step{Annotate{}, RemoveAnnotation{}, Touch{}, ClearStatus{}, TagLB{}, UntagLB{}, PolicyVersion{}, DefaultVersion{}, ApplyQuota{},
		TargetPorts{}, Evict{}, MoveListener{}, DeleteListener{}, CreateListener{}, Convert{}, Unprotect{}, Protect{}}
}

// Decode makes a step from its kind and its JSON form, as the journal keeps them. What a newer
// release has journalled and this one does not know is an error: a step without that field
// could be another write.
func Decode(kind string, data []byte) (remedy.Step, error) {
	all := All()
	i := slices.IndexFunc(all, func(s remedy.Step) bool { return s.Kind() == kind })
	if i < 0 {
		return nil, fmt.Errorf("decode step: kind %q is not known; a newer release may have journalled it", kind)
	}
	made := reflect.New(reflect.PointerTo(reflect.TypeOf(all[i]))) // stays nil for null, which would read as a step that names nothing
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(made.Interface())
	if err == nil {
		if _, more := decoder.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("something follows it")
		}
	}
	switch {
	case err != nil:
		if _, field, unknown := strings.Cut(err.Error(), "unknown field "); unknown {
			err = fmt.Errorf("its field %s is not known: a newer release has journalled it", field)
		}
		return nil, fmt.Errorf("decode step %s: %w", kind, err)
	case made.Elem().IsNil():
		return nil, fmt.Errorf("decode step %s: there is none", kind)
	}
	return made.Elem().Elem().Interface().(remedy.Step), nil
}

// serviceWrite is what every step on the Service's own metadata needs.
var serviceWrite = []grant.Grant{grant.GetServices, grant.PatchServices}
