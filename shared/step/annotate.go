package step

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

// Annotate sets annotations of the Service, and removes some that belong to the same write, in one patch.
type Annotate struct {
	Set    map[string]string `json:"set"`
	Remove []string          `json:"remove,omitempty"`
	Was    map[string]string `json:"was,omitempty"` // what Set and Remove found; a key that did not exist is missing
}

// readable is the longest value, in bytes, that a sentence shows in full.
const readable = 1 << 10

// Says describes the step.
func (a Annotate) Says() say.Text {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(a.Set)) {
		value := a.Set[k]
		if len(value) > readable {
			value = ccm.Quote(value)
		}
		parts = append(parts, k+"="+value)
	}
	if len(a.Remove) > 0 {
		return say.F("annotate %s and remove %s", strings.Join(parts, " "), strings.Join(a.Remove, " "))
	}
	return say.F("annotate %s", strings.Join(parts, " "))
}

// Kind is "annotate".
func (Annotate) Kind() string { return "annotate" }

// Target is the Service.
func (Annotate) Target() string { return "" }

// Risk is low: the old values can be restored.
func (Annotate) Risk() remedy.Risk { return remedy.Low }

// Grants are reading and patching Services.
func (Annotate) Grants() []grant.Grant { return serviceWrite }

// Fields are annotations, to set and to remove, and our mark.
func (Annotate) Fields() []remedy.Field {
	return []remedy.Field{remedy.MarkField, remedy.SetField, remedy.RemoveField}
}

// Keys returns the annotations that the step writes.
func (a Annotate) Keys() []string {
	return append(slices.Sorted(maps.Keys(a.Set)), a.Remove...)
}

// Patch returns the merge patch for a person to commit.
func (a Annotate) Patch(*remedy.Case) []byte { return mergePatch(a.change()) }

// Check compares the Service's annotations with both sides of the step.
func (a Annotate) Check(_ context.Context, c *remedy.Case) (remedy.State, error) {
	return compare(c.Service.Annotations, a.change(), a.Was), nil
}

// Differs names the annotations that are on neither side of the step.
func (a Annotate) Differs(c *remedy.Case) string {
	return differs(c.Service.Annotations, a.change(), a.Was)
}

// Apply patches the version of the Service in the case.
func (a Annotate) Apply(ctx context.Context, c *remedy.Case, w *remedy.Writers) error {
	return annotate(ctx, c, w, a.change(), nil)
}

// Undo restores what Was holds and removes the rest.
func (a Annotate) Undo() (remedy.Step, bool) {
	return invert(a.change(), a.Was), true
}

func differs(now map[string]string, change map[string]*string, was map[string]string) string {
	said := func(values map[string]string, key string) string {
		if v, ok := values[key]; ok {
			return ccm.Quote(v)
		}
		return "absent"
	}
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(change)) {
		one := map[string]*string{k: change[k]}
		if compare(now, one, was) == remedy.Conflict {
			parts = append(parts, fmt.Sprintf("The annotation %s is %s, and was %s when lbremedy left it.", k, said(now, k), said(was, k)))
		}
	}
	return strings.Join(parts, " ")
}

func (a Annotate) change() map[string]*string {
	change := make(map[string]*string)
	for k, v := range a.Set {
		change[k] = &v
	}
	for _, k := range a.Remove {
		change[k] = nil
	}
	return change
}

// RemoveAnnotation removes annotations of the Service in one patch.
type RemoveAnnotation struct {
	Names []string          `json:"names"`
	Was   map[string]string `json:"was,omitempty"`
}

// Without returns the step that removes the controller's annotation with this short name, under both prefixes.
func Without(svc *corev1.Service, short string) RemoveAnnotation {
	r := RemoveAnnotation{Was: map[string]string{}}
	for _, key := range []string{ccm.Prefix + short, ccm.LegacyPrefix + short} {
		if v, ok := svc.Annotations[key]; ok {
			r.Names = append(r.Names, key)
			r.Was[key] = v
		}
	}
	return r
}

// With returns the step that sets the controller's annotation with this short name, under its current prefix, which wins over the legacy one.
func With(svc *corev1.Service, short, value string) Annotate {
	key := ccm.Prefix + short
	a := Annotate{Set: map[string]string{key: value}}
	if v, ok := svc.Annotations[key]; ok {
		a.Was = map[string]string{key: v}
	}
	return a
}

// Says describes the step.
func (r RemoveAnnotation) Says() say.Text {
	return say.F("remove annotation %s", strings.Join(r.Names, " "))
}

// Kind is "remove-annotation".
func (RemoveAnnotation) Kind() string { return "remove-annotation" }

// Target is the Service.
func (RemoveAnnotation) Target() string { return "" }

// Risk is low: the old values can be restored.
func (RemoveAnnotation) Risk() remedy.Risk { return remedy.Low }

// Grants are reading and patching Services.
func (RemoveAnnotation) Grants() []grant.Grant { return serviceWrite }

// Fields are annotations, to remove, and our mark.
func (RemoveAnnotation) Fields() []remedy.Field {
	return []remedy.Field{remedy.MarkField, remedy.RemoveField}
}

// Keys returns the annotations that the step removes.
func (r RemoveAnnotation) Keys() []string { return r.Names }

// Patch returns the merge patch for a person to commit.
func (r RemoveAnnotation) Patch(*remedy.Case) []byte { return mergePatch(r.change()) }

// Check compares the Service's annotations with both sides of the step.
func (r RemoveAnnotation) Check(_ context.Context, c *remedy.Case) (remedy.State, error) {
	return compare(c.Service.Annotations, r.change(), r.Was), nil
}

// Differs names the annotations that are on neither side of the step.
func (r RemoveAnnotation) Differs(c *remedy.Case) string {
	return differs(c.Service.Annotations, r.change(), r.Was)
}

// Apply patches the version of the Service in the case.
func (r RemoveAnnotation) Apply(ctx context.Context, c *remedy.Case, w *remedy.Writers) error {
	return annotate(ctx, c, w, r.change(), nil)
}

// Undo restores the annotations.
func (r RemoveAnnotation) Undo() (remedy.Step, bool) { return invert(r.change(), r.Was), true }

func (r RemoveAnnotation) change() map[string]*string { return Annotate{Remove: r.Names}.change() }

func compare(now map[string]string, change map[string]*string, was map[string]string) remedy.State {
	done, todo := true, true
	for k, want := range change {
		got, ok := now[k]
		before, had := was[k]
		done = done && ok == (want != nil) && (want == nil || got == *want)
		todo = todo && ok == had && got == before
	}
	switch {
	case done:
		return remedy.Done
	case todo:
		return remedy.Todo
	}
	return remedy.Conflict
}

func invert(change map[string]*string, was map[string]string) remedy.Step {
	back := Annotate{Set: map[string]string{}, Was: map[string]string{}}
	for _, k := range slices.Sorted(maps.Keys(change)) {
		if v, had := was[k]; had {
			back.Set[k] = v
		} else {
			back.Remove = append(back.Remove, k)
		}
		if v := change[k]; v != nil {
			back.Was[k] = *v
		}
	}
	if len(back.Set) == 0 {
		return RemoveAnnotation{Names: back.Remove, Was: back.Was}
	}
	return back
}

// annotate makes the change, a merge patch of the spec and our resync annotation in one patch, on the version of the Service in the case.
func annotate(ctx context.Context, c *remedy.Case, w *remedy.Writers, change map[string]*string, spec json.RawMessage) error {
	mark := c.Mark()
	patch := kube.ServicePatch{Annotations: map[string]*string{ccm.Resync: &mark}, Spec: spec}
	maps.Copy(patch.Annotations, change)
	svc, err := w.Kube.PatchService(ctx, c.Service.Namespace, c.Service.Name, c.Service.ResourceVersion, patch)
	if err != nil {
		return fmt.Errorf("patch Service %s/%s: %w", c.Service.Namespace, c.Service.Name, err)
	}
	c.Service = svc
	return nil
}

func mergePatch(change map[string]*string) []byte {
	return encoded(map[string]any{"metadata": map[string]any{"annotations": change}})
}
