package kube

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// ErrBlocked says that a PodDisruptionBudget refuses an eviction now.
var ErrBlocked = errors.New("a disruption budget forbids it now")

// A podPart has only the fields that Pods returns. Commands are most of what it leaves out.
type podPart corev1.Pod

// UnmarshalJSON drops the other fields as soon as a Pod is decoded.
func (p *podPart) UnmarshalJSON(data []byte) error {
	var whole corev1.Pod
	err := lenient(json.Unmarshal(data, &whole))
	m, spec, is := &whole.ObjectMeta, &whole.Spec, &whole.Status
	var containers []corev1.Container
	for _, c := range spec.Containers {
		one := corev1.Container{EnvFrom: make([]corev1.EnvFromSource, len(c.EnvFrom))}
		for _, v := range c.Env {
			env := corev1.EnvVar{Name: clip(v.Name), Value: clip(v.Value)}
			if v.ValueFrom != nil {
				env.ValueFrom = &corev1.EnvVarSource{}
			}
			one.Env = append(one.Env, env)
		}
		containers = append(containers, one)
	}
	*p = podPart{
		ObjectMeta: metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion,
			DeletionTimestamp: m.DeletionTimestamp, Labels: m.Labels, OwnerReferences: m.OwnerReferences},
		Spec: corev1.PodSpec{NodeName: spec.NodeName, NodeSelector: spec.NodeSelector, Affinity: spec.Affinity, Containers: containers,
			Tolerations: spec.Tolerations, ReadinessGates: spec.ReadinessGates, TopologySpreadConstraints: spec.TopologySpreadConstraints},
		Status: corev1.PodStatus{Phase: is.Phase, Reason: clip(is.Reason), Message: clip(is.Message),
			Conditions: is.Conditions, InitContainerStatuses: is.InitContainerStatuses, ContainerStatuses: is.ContainerStatuses},
	}
	return err
}

// Pods returns the Pods of a namespace whose labels match the selector; empty: all. They have where they run and may run, why they are
// not ready, and the names and values of their environment, without sources.
func (c *Cluster) Pods(ctx context.Context, namespace string, selector map[string]string) ([]corev1.Pod, error) {
	path, err := place("list Pods", "/api/v1/namespaces/*/pods", namespace)
	if err != nil {
		return nil, err
	}
	query := map[string]string{}
	if len(selector) > 0 {
		query["labelSelector"] = labels.SelectorFromSet(selector).String()
	}
	parts, err := all[podPart](ctx, c, "list Pods of "+namespace, path, query)
	if err != nil {
		return nil, err
	}
	pods := make([]corev1.Pod, len(parts))
	for i := range parts {
		pods[i] = corev1.Pod(parts[i])
	}
	return pods, nil
}

// Pod returns a Pod.
func (c *Cluster) Pod(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
	return get[corev1.Pod](ctx, c, "Pod", "/api/v1/namespaces/*/pods/*", nil, namespace, name)
}

// EndpointSlices returns the EndpointSlices of a Service, of all address families.
func (c *Cluster) EndpointSlices(ctx context.Context, namespace, service string) ([]discoveryv1.EndpointSlice, error) {
	path, err := place("list EndpointSlices", "/apis/discovery.k8s.io/v1/namespaces/*/endpointslices", namespace)
	if err != nil || !ValidName(service) {
		return nil, cmp.Or(err, noName("list EndpointSlices", "Service name", service))
	}
	query := map[string]string{"labelSelector": labels.SelectorFromSet(labels.Set{discoveryv1.LabelServiceName: service}).String()}
	return all[discoveryv1.EndpointSlice](ctx, c, "list EndpointSlices of "+namespace, path, query)
}

// EachEndpointSlice calls see with each EndpointSlice of all namespaces, in no order, and returns see's error as it is. It needs grant.ListEndpointSlices.
func (c *Cluster) EachEndpointSlice(ctx context.Context, see func(*discoveryv1.EndpointSlice) error) error {
	_, err := list(ctx, c, "list EndpointSlices", "/apis/discovery.k8s.io/v1/endpointslices", nil, see)
	return err
}

// Evict evicts the Pod with this UID: its owner creates another, and disruption budgets count. It returns ErrConflict if another Pod
// has the name now, ErrBlocked if a budget forbids it, and ErrNotFound if the Pod is gone.
func (w *Writer) Evict(ctx context.Context, namespace, name string, uid types.UID) error {
	doing := fmt.Sprintf("evict Pod %s/%s", namespace, name)
	path, err := place("evict Pod", "/api/v1/namespaces/*/pods/*/eviction", namespace, name)
	if err != nil {
		return err
	}
	if uid == "" {
		return &Error{Doing: doing, Kind: ErrInvalid, Message: "an eviction needs the UID that was read"}
	}
	options, query := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}, map[string]string{}
	if w.tried != nil {
		options.DryRun, query["dryRun"] = []string{metav1.DryRunAll}, metav1.DryRunAll
	}
	body := map[string]any{
		"apiVersion": "policy/v1", "kind": "Eviction",
		"metadata": map[string]any{"namespace": namespace, "name": name}, "deleteOptions": options,
	}
	var answer metav1.Status
	err = w.cluster.call(ctx, doing, request{verb: http.MethodPost, path: path, query: query, body: body}, &answer)
	w.tell("create pods/eviction", namespace+"/"+name, "", err)
	if refused, ok := errors.AsType[*Error](err); ok && refused.Status == http.StatusTooManyRequests {
		refused.Kind = ErrBlocked
	}
	return w.untried(err)
}
