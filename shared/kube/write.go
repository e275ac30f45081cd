package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// A Writer writes to a cluster. Every write is conditional on the version that was read.
type Writer struct {
	cluster *Cluster
}

// NewWriter returns what writes to the cluster that c reads. A class, which has
// the reads and may not import this package, has no way to it.
func NewWriter(c *Cluster) *Writer { return &Writer{cluster: c} }

// A ServicePatch says what to change of a Service; what it doesn't name stays.
type ServicePatch struct {
	Annotations map[string]*string // by key; a nil value removes the annotation
	Spec        json.RawMessage    // JSON merge patch of the spec; nil: none
}

// PatchService changes a Service that still has the resource version, and returns
// it as it is then. It returns ErrConflict when the Service has changed since, and
// ErrInvalid for a patch that the API server refuses.
func (w *Writer) PatchService(ctx context.Context, namespace, name, version string, p ServicePatch) (*corev1.Service, error) {
	patch := map[string]any{}
	if p.Spec != nil {
		patch["spec"] = p.Spec
	}
	return w.patch(ctx, namespace, name, "", version, p.Annotations, patch)
}

// TryService has the API server do all that it does before it changes a Service, such as
// asking admission webhooks, and change nothing. The error is the one of PatchService.
func (w *Writer) TryService(ctx context.Context, namespace, name, version string, p ServicePatch) error {
	patch := map[string]any{}
	if p.Spec != nil {
		patch["spec"] = p.Spec
	}
	_, err := w.send(ctx, namespace, name, "", version, p.Annotations, patch, map[string]string{"dryRun": "All"})
	return err
}

// PatchStatus replaces the load-balancer status of a Service that still has the
// resource version, and returns the Service as it is then. An empty status clears
// it. It returns ErrConflict when the Service has changed since.
func (w *Writer) PatchStatus(ctx context.Context, namespace, name, version string, status corev1.LoadBalancerStatus) (*corev1.Service, error) {
	// A list is replaced as a whole, and null removes it.
	lb := map[string]any{"ingress": nil}
	if len(status.Ingress) > 0 {
		lb["ingress"] = status.Ingress
	}
	return w.patch(ctx, namespace, name, "/status", version, nil, map[string]any{"status": map[string]any{"loadBalancer": lb}})
}

func (w *Writer) patch(ctx context.Context, namespace, name, subresource, version string, annotations map[string]*string,
	patch map[string]any) (*corev1.Service, error) {
	return w.send(ctx, namespace, name, subresource, version, annotations, patch, map[string]string{})
}

func (w *Writer) send(ctx context.Context, namespace, name, subresource, version string, annotations map[string]*string,
	patch map[string]any, query map[string]string) (*corev1.Service, error) {
	doing := fmt.Sprintf("patch Service %s/%s", namespace, name)
	if !ValidName(namespace) || !ValidName(name) {
		return nil, noName("patch Service", "name", namespace+"/"+name)
	}
	if version == "" {
		return nil, &Error{Doing: doing, Kind: ErrInvalid, Message: "a write needs the resource version that was read"}
	}
	metadata := map[string]any{"resourceVersion": version}
	if len(annotations) > 0 {
		metadata["annotations"] = annotations
	}
	patch["metadata"] = metadata
	body, err := json.Marshal(patch)
	if err != nil {
		return nil, &Error{Doing: doing, Kind: ErrInvalid, Message: errors.Unwrap(err).Error()}
	}
	s := new(corev1.Service)
	query["fieldManager"] = Manager
	err = w.cluster.call(ctx, doing, request{
		verb:  "PATCH",
		path:  "/api/v1/namespaces/" + namespace + "/services/" + name + subresource,
		query: query,
		body:  body,
	}, s)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// PutEvent writes an Event about an object under the name that it has: a new one, or
// in the place of the one that is there, of which the time when it began stays. The
// API server forgets an Event an hour after its last change, so that a write may find
// it or not at any time. It returns ErrNotFound if there is no such namespace.
//
// It needs grant.PatchEvents and grant.CreateEvents.
func (w *Writer) PutEvent(ctx context.Context, e corev1.Event) error {
	doing := fmt.Sprintf("write Event %s/%s", e.Namespace, e.Name)
	if !ValidName(e.Namespace) || !ValidName(e.Name) {
		return noName("write Event", "name", e.Namespace+"/"+e.Name)
	}
	path := "/api/v1/namespaces/" + e.Namespace + "/events"
	manager := map[string]string{"fieldManager": Manager}
	patch, err := json.Marshal(map[string]any{
		"reason": e.Reason, "message": e.Message, "type": e.Type, "count": e.Count, "lastTimestamp": e.LastTimestamp,
	})
	if err != nil {
		return &Error{Doing: doing, Kind: ErrInvalid, Message: err.Error()}
	}
	var answer struct{}
	err = w.cluster.call(ctx, doing, request{verb: "PATCH", path: path + "/" + e.Name, query: manager, body: patch}, &answer)
	if !errors.Is(err, ErrNotFound) {
		return err
	}
	e.Kind, e.APIVersion = "Event", "v1"
	body, err := json.Marshal(e)
	if err != nil {
		return &Error{Doing: doing, Kind: ErrInvalid, Message: err.Error()}
	}
	return w.cluster.call(ctx, doing, request{verb: "POST", path: path, query: manager, body: body}, &answer)
}
