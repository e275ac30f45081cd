package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lbremedy/lbremedy/functions"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/document"
	"github.com/lbremedy/lbremedy/shared/engine"
	"github.com/lbremedy/lbremedy/shared/remedy"
)

// before returns the annotations that others than the parts have set on a Service, from the audit log, and whether the log
// contains its creation. A killed API server loses lines.
func (l *logs) before(service string) (out map[string]string, whole bool) {
	out = map[string]string{}
	for _, a := range l.lines {
		if a.ObjectRef.Resource != "services" || a.ObjectRef.Name != service || strings.HasPrefix(a.ImpersonatedUser.Username, userPrefix) ||
			a.ResponseStatus.Code/100 != 2 || a.Verb != "create" && a.Verb != "patch" {
			continue
		}
		whole = whole || a.Verb == "create"
		var change struct {
			Metadata struct{ Annotations map[string]*string }
		}
		if json.Unmarshal(a.RequestObject, &change) != nil {
			continue
		}
		for k, v := range change.Metadata.Annotations {
			if v == nil {
				delete(out, k)
			} else {
				out[k] = *v
			}
		}
	}
	return out, whole
}

// takeBack undoes, like a person, one fix that changed annotations, if any, and returns differences from the state before.
func (h *history) takeBack(ctx context.Context, w *world, e evidence) (wrong []string, err error) {
	for _, s := range e.Services {
		r := e.last(s.UID, s.Class, time.Time{})
		if r == nil || !r.Result.Worked() || len(r.Steps) == 0 || r.Steps[0].Kind != "annotate" && r.Steps[0].Kind != "remove-annotation" {
			continue
		}
		applied, _, err := (document.Store{Stream: w.stream, Cluster: r.Cluster}).Applied(ctx, *r)
		if err != nil {
			return nil, err
		}
		if len(applied) == 0 || slices.ContainsFunc(e.Writes, func(w write) bool { return w.UID == s.UID && e.lost(w) }) {
			continue
		}
		env, err := w.bed.Person(ctx, w.stream, functions.All, new(cli.Program).ParsePolicy)
		if err != nil {
			return nil, err
		}
		class := functions.All[slices.IndexFunc(functions.All, func(o *remedy.Remedy) bool { return o.Class == s.Class })]
		_, err = engine.Undo(ctx, env, class, applied)
		if errors.Is(err, engine.ErrNoUndo) {
			continue // the load balancer created since prevents it
		}
		if err != nil {
			return []string{fmt.Sprintf("%s: %v", s.Name, err)}, nil
		}
		svc, err := w.cluster.Client().CoreV1().Services(w.bed.Namespace).Get(ctx, s.Name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		is := maps.Clone(svc.Annotations)
		delete(is, ccm.Resync) // which has no other meaning
		if was, whole := w.audit.before(s.Name); whole && !maps.Equal(was, is) {
			wrong = append(wrong, fmt.Sprintf("%s: its annotations were %v and are %v", s.Name, was, is))
		}
		h.undone = s.Name
		return wrong, nil
	}
	return nil, nil
}
