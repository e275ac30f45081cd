package step

import (
	"maps"
	"slices"

	"github.com/lbremedy/lbremedy/shared/remedy"
)

// An Edit is a step that sets or removes annotations of the Service.
type Edit interface {
	remedy.Step
	change() map[string]*string // nil: removed
	found() map[string]string   // the values before
}

func (a Annotate) found() map[string]string         { return a.Was }
func (r RemoveAnnotation) found() map[string]string { return r.Was }

// Together returns one step that does all of these in one patch: the controller must not see a half-changed Service. The last edit of an annotation wins.
func Together(edits ...Edit) remedy.Step {
	change, was := map[string]*string{}, map[string]string{}
	for _, e := range edits {
		maps.Copy(change, e.change())
		maps.Copy(was, e.found())
	}
	a := Annotate{Set: map[string]string{}, Was: was}
	for _, key := range slices.Sorted(maps.Keys(change)) {
		if v := change[key]; v != nil {
			a.Set[key] = *v
		} else {
			a.Remove = append(a.Remove, key)
		}
	}
	if len(a.Set) == 0 {
		return RemoveAnnotation{Names: a.Remove, Was: was}
	}
	return a
}
