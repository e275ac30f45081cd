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
	told    func(event.Call)          // is told of each write; nil: nobody is
	tried   map[string]map[string]any // by path, all that was patched of an object in a dry run; nil: it is none
}

// NewWriter returns what writes to the cluster that c reads. A class, which has
// the reads and may not import this package, has no way to it.
func NewWriter(c *Cluster) *Writer { return &Writer{cluster: c} }

// Told returns a Writer that tells of each write to a Service or Pod as soon as it is
// answered, or is given up.
func (w *Writer) Told(tell func(event.Call)) *Writer {
	if w == nil {
		return nil
	}
	return &Writer{cluster: w.cluster, told: tell, tried: w.tried}
}

// ErrNoDryRun says that a webhook of the cluster takes part in no dry run.
var ErrNoDryRun = errors.New("it can't be tried")

// Dry returns a Writer whose writes the API server checks and does not keep. A Service that
// it returns is as it would be after all patches of it. It may be used by one goroutine at a
// time.
func (w *Writer) Dry() *Writer {
	if w == nil {
		return nil
	}
	return &Writer{cluster: w.cluster, tried: map[string]map[string]any{}}
}

// A ServicePatch says what to change of a Service; what it doesn't name stays.
type ServicePatch struct {
	Annotations map[string]*string // by key; a nil value removes the annotation
	Spec        json.RawMessage    // JSON merge patch of the spec; nil: none
}

// body returns all but the annotations.
func (p ServicePatch) body() map[string]any {
	if p.Spec == nil {
		return map[string]any{}
	}
	return map[string]any{"spec": p.Spec}
}

// PatchService changes a Service that still has the resource version, and returns
// it as it is then. It returns ErrConflict when the Service has changed since, and
// ErrInvalid for a patch that the API server refuses.
func (w *Writer) PatchService(ctx context.Context, namespace, name, version string, p ServicePatch) (*corev1.Service, error) {
	return w.patch(ctx, namespace, name, "", version, p.Annotations, p.body())
}

// TryService has the API server do all that it does before it changes a Service, such as
// asking admission webhooks, and change nothing. The error is the one of PatchService.
func (w *Writer) TryService(ctx context.Context, namespace, name, version string, p ServicePatch) error {
	_, err := w.send(ctx, namespace, name, "", version, p.Annotations, p.body(), map[string]string{"dryRun": "All"})
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
	path := "/api/v1/namespaces/" + namespace + "/services/" + name + subresource
	maps.Copy(query, w.query())
	if w.tried != nil {
		if body, err = w.after(path, body); err != nil {
			return nil, &Error{Doing: doing, Kind: ErrInvalid, Message: err.Error()}
		}
	}
	err = w.cluster.call(ctx, doing, request{verb: "PATCH", path: path, query: query, body: body}, s)
	w.tell("patch services"+subresource, namespace+"/"+name, s.ResourceVersion, err)
	if err != nil {
		return nil, w.untried(err)
	}
	return s, nil
}

// query returns the parameters of each write.
func (w *Writer) query() map[string]string {
	q := map[string]string{"fieldManager": Manager}
	if w.tried != nil {
		q["dryRun"] = metav1.DryRunAll
	}
	return q
}

// after returns the patch of an object with those of the dry run before it: the API server
// keeps none of them.
func (w *Writer) after(path string, body []byte) ([]byte, error) {
	var patch map[string]any
	if err := json.Unmarshal(body, &patch); err != nil {
		return nil, err
	}
	w.tried[path] = together(w.tried[path], patch)
	return json.Marshal(w.tried[path])
}

// together returns the JSON merge patch that does what first and then next do.
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

// untried returns the error of a write, as one of ErrNoDryRun where that is all it says
// (k8s.io/apiserver/pkg/admission/plugin/webhook/errors/statuserror.go).
func (w *Writer) untried(err error) error {
	var own *Error
	if w.tried != nil && errors.As(err, &own) && own.Status == http.StatusBadRequest && strings.Contains(own.Message, "does not support dry run") {
		own.Kind = ErrNoDryRun
	}
	return err
}

// tell tells of a write, in the words of the API server's audit log.
func (w *Writer) tell(action, resource, version string, err error) {
	if w.told == nil {
		return
	}
	c := event.Call{Action: action, Resource: resource, Version: version}
	var own *Error
	switch {
	case errors.As(err, &own):
		c.Error = cmp.Or(own.Reason, "NoAnswer")
		c.Unsure = own.Status < http.StatusBadRequest || own.Status >= http.StatusInternalServerError // such as a timeout: etcd may have it
	case err != nil:
		c.Error, c.Unsure = "NoAnswer", true
	}
	w.told(c)
}

// CreateEvent creates an Event about an object and returns it as the API server has it. It needs grant.CreateEvents.
func (w *Writer) CreateEvent(ctx context.Context, e corev1.Event) (Event, error) {
	doing := fmt.Sprintf("create Event %s/%s", e.Namespace, e.Name)
	if !ValidName(e.Namespace) || !ValidName(e.Name) {
		return Event{}, noName("create Event", "name", e.Namespace+"/"+e.Name)
	}
	e.Kind, e.APIVersion = "Event", "v1"
	body, err := json.Marshal(e)
	if err != nil {
		return Event{}, &Error{Doing: doing, Kind: ErrInvalid, Message: err.Error()}
	}
	var made wireEvent
	path := "/api/v1/namespaces/" + e.Namespace + "/events"
	if err := w.cluster.call(ctx, doing, request{verb: "POST", path: path, query: w.query(), body: body}, &made); err != nil {
		return Event{}, err
	}
	return made.event(), nil
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
	manager := w.query()
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
	_, err = w.CreateEvent(ctx, e)
	return err
}
