package kube

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lbremedy/lbremedy/shared/event"
)

// A Writer writes to a cluster. Every write is conditional on the version that was read.
type Writer struct {
	cluster *Cluster
	onWrite func(event.Call)          // called for each write; may be nil
	tried   map[string]map[string]any // all patches of a dry run, by path; nil outside of one
}

// NewWriter returns a Writer for the cluster of c. Classes may not import this package and cannot reach it.
func NewWriter(c *Cluster) *Writer { return &Writer{cluster: c} }

// OnWrite returns a Writer that calls tell for each write to a Service or Pod when it is answered or given up.
func (w *Writer) OnWrite(tell func(event.Call)) *Writer {
	if w == nil {
		return nil
	}
	return &Writer{cluster: w.cluster, onWrite: tell, tried: w.tried}
}

// ErrNoDryRun says that a webhook of the cluster does not support dry runs.
var ErrNoDryRun = errors.New("it can't be tried")

// Dry returns a Writer, for one goroutine at a time, whose writes the API server checks and does not store. A returned Service includes earlier patches.
func (w *Writer) Dry() *Writer {
	if w == nil {
		return nil
	}
	return &Writer{cluster: w.cluster, tried: map[string]map[string]any{}}
}

// A ServicePatch is a change of a Service.
type ServicePatch struct {
	Annotations map[string]*string // by key; a nil value removes the annotation
	Spec        json.RawMessage    // JSON merge patch of the spec, or nil
}

// PatchService changes a Service that still has the resource version, and returns it. ErrConflict: it has changed since. ErrInvalid: the patch is refused.
func (w *Writer) PatchService(ctx context.Context, namespace, name, version string, p ServicePatch) (*corev1.Service, error) {
	patch := map[string]any{}
	if p.Spec != nil {
		patch["spec"] = p.Spec
	}
	return w.patch(ctx, namespace, name, "", version, p.Annotations, patch)
}

// PatchStatus replaces the load-balancer status of a Service that still has the resource version, and returns the Service. An empty
// status clears it. ErrConflict: the Service has changed since.
func (w *Writer) PatchStatus(ctx context.Context, namespace, name, version string, status corev1.LoadBalancerStatus) (*corev1.Service, error) {
	// Null removes a list.
	lb := map[string]any{"ingress": nil}
	if len(status.Ingress) > 0 {
		lb["ingress"] = status.Ingress
	}
	return w.patch(ctx, namespace, name, "/status", version, nil, map[string]any{"status": map[string]any{"loadBalancer": lb}})
}

func (w *Writer) patch(ctx context.Context, namespace, name, subresource, version string, annotations map[string]*string,
	patch map[string]any) (*corev1.Service, error) {
	doing := fmt.Sprintf("patch Service %s/%s", namespace, name)
	path, err := place("patch Service", servicePath+subresource, namespace, name)
	if err != nil {
		return nil, err
	}
	if version == "" {
		return nil, &Error{Doing: doing, Kind: ErrInvalid, Message: "a write needs the resource version that was read"}
	}
	metadata := map[string]any{"resourceVersion": version}
	if len(annotations) > 0 {
		metadata["annotations"] = annotations
	}
	patch["metadata"] = metadata
	s := new(corev1.Service)
	if patch, err = w.after(path, patch); err != nil {
		return nil, &Error{Doing: doing, Kind: ErrInvalid, Message: err.Error()}
	}
	err = w.cluster.call(ctx, doing, request{verb: "PATCH", path: path, query: w.query(), body: patch}, s)
	if err == nil {
		err = same(doing, s, namespace, name)
	}
	w.tell("patch services"+subresource, namespace+"/"+name, s.ResourceVersion, err)
	if err != nil {
		return nil, w.untried(err)
	}
	return s, nil
}

func (w *Writer) query() map[string]string {
	q := map[string]string{"fieldManager": Manager}
	if w.tried != nil {
		q["dryRun"] = metav1.DryRunAll
	}
	return q
}

// after returns a patch as JSON has it, with a dry run's earlier patches, which the API server does not store.
func (w *Writer) after(path string, patch map[string]any) (map[string]any, error) {
	var plain map[string]any
	text, err := json.Marshal(patch)
	if err == nil {
		err = json.Unmarshal(text, &plain)
	}
	if err != nil {
		return nil, err
	}
	if w.tried != nil {
		plain = together(w.tried[path], plain)
		w.tried[path] = plain
	}
	return plain, nil
}

func together(first, next map[string]any) map[string]any {
	all := maps.Clone(first)
	if all == nil {
		all = map[string]any{}
	}
	for k, v := range next {
		of, is := v.(map[string]any)
		before, was := all[k].(map[string]any)
		if is && was {
			v = together(before, of)
		}
		all[k] = v
	}
	return all
}

// untried returns ErrNoDryRun if a webhook does not support dry runs (k8s.io/apiserver/pkg/admission/plugin/webhook/errors/statuserror.go).
func (w *Writer) untried(err error) error {
	var own *Error
	if w.tried != nil && errors.As(err, &own) && own.Status == http.StatusBadRequest && strings.Contains(own.Message, "does not support dry run") {
		own.Kind = ErrNoDryRun
	}
	return err
}

func (w *Writer) tell(action, resource, version string, err error) {
	if w.onWrite == nil {
		return
	}
	c := event.Call{Action: action, Resource: resource, Version: version}
	var own *Error
	switch {
	case errors.As(err, &own):
		c.Error = cmp.Or(own.Reason, "NoAnswer")
		c.Unsure = own.Status < http.StatusBadRequest || own.Status >= http.StatusInternalServerError // such as a timeout: etcd may have stored it
	case err != nil:
		c.Error, c.Unsure = "NoAnswer", true
	}
	w.onWrite(c)
}

// CreateEvent creates an Event about an object and returns it as stored. It needs grant.CreateEvents.
func (w *Writer) CreateEvent(ctx context.Context, e corev1.Event) (Event, error) {
	path, err := place("create Event", eventsPath, e.Namespace)
	if err != nil || !ValidName(e.Name) {
		return Event{}, cmp.Or(err, noName("create Event", "name", e.Name))
	}
	e.Kind, e.APIVersion = "Event", "v1"
	var made wireEvent
	post := request{verb: "POST", path: path, query: w.query(), body: e}
	if err := w.cluster.call(ctx, fmt.Sprintf("create Event %s/%s", e.Namespace, e.Name), post, &made); err != nil {
		return Event{}, err
	}
	return made.event(), nil
}

const eventsPath = "/api/v1/namespaces/*/events"

// PutEvent creates an Event about an object, or updates the existing one and keeps its first time; the API server forgets it an hour
// after its last change. ErrNotFound: the namespace does not exist. It needs grant.PatchEvents and grant.CreateEvents.
func (w *Writer) PutEvent(ctx context.Context, e corev1.Event) error {
	path, err := place("write Event", eventsPath+"/*", e.Namespace, e.Name)
	if err != nil {
		return err
	}
	patch := request{verb: "PATCH", path: path, query: w.query(), body: map[string]any{
		"reason": e.Reason, "message": e.Message, "type": e.Type, "count": e.Count, "lastTimestamp": e.LastTimestamp,
	}}
	err = w.cluster.call(ctx, fmt.Sprintf("write Event %s/%s", e.Namespace, e.Name), patch, new(struct{}))
	if !errors.Is(err, ErrNotFound) {
		return err
	}
	_, err = w.CreateEvent(ctx, e)
	return err
}
