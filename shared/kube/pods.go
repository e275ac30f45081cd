package kube

import (
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

// A podPart leaves out a Pod's commands, most of the rest.
type podPart struct {
	Metadata struct {
		Namespace         string                  `json:"namespace"`
		Name              string                  `json:"name"`
		UID               types.UID               `json:"uid"`
		ResourceVersion   string                  `json:"resourceVersion"`
		DeletionTimestamp *metav1.Time            `json:"deletionTimestamp"`
		Labels            map[string]string       `json:"labels"`
		OwnerReferences   []metav1.OwnerReference `json:"ownerReferences"`
	} `json:"metadata"`
	Spec struct {
		NodeName       string                            `json:"nodeName"`
		NodeSelector   map[string]string                 `json:"nodeSelector"`
		Affinity       *corev1.Affinity                  `json:"affinity"`
		Tolerations    []corev1.Toleration               `json:"tolerations"`
		ReadinessGates []corev1.PodReadinessGate         `json:"readinessGates"`
		Spread         []corev1.TopologySpreadConstraint `json:"topologySpreadConstraints"`
		Containers     []struct {
			Env []struct {
				Name      string    `json:"name" clip:"1024"`
				Value     string    `json:"value" clip:"1024"`
				ValueFrom *struct{} `json:"valueFrom"`
			} `json:"env"`
			EnvFrom []struct{} `json:"envFrom"`
		} `json:"containers"`
	} `json:"spec"`
	Status struct {
		Phase          corev1.PodPhase          `json:"phase"`
		Reason         string                   `json:"reason" clip:"1024"`
		Message        string                   `json:"message" clip:"1024"`
		Conditions     []corev1.PodCondition    `json:"conditions"`
		InitContainers []corev1.ContainerStatus `json:"initContainerStatuses"`
		Containers     []corev1.ContainerStatus `json:"containerStatuses"`
	} `json:"status"`
}

func (p *podPart) pod() corev1.Pod {
	m := &p.Metadata
	var containers []corev1.Container
	for _, c := range p.Spec.Containers {
		one := corev1.Container{EnvFrom: make([]corev1.EnvFromSource, len(c.EnvFrom))}
		for _, v := range c.Env {
			env := corev1.EnvVar{Name: v.Name, Value: v.Value}
			if v.ValueFrom != nil {
				env.ValueFrom = &corev1.EnvVarSource{}
			}
			one.Env = append(one.Env, env)
		}
		containers = append(containers, one)
	}
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion,
			DeletionTimestamp: m.DeletionTimestamp, Labels: m.Labels, OwnerReferences: m.OwnerReferences},
		Spec: corev1.PodSpec{NodeName: p.Spec.NodeName, NodeSelector: p.Spec.NodeSelector, Affinity: p.Spec.Affinity, Containers: containers,
			Tolerations: p.Spec.Tolerations, ReadinessGates: p.Spec.ReadinessGates, TopologySpreadConstraints: p.Spec.Spread},
		Status: corev1.PodStatus{Phase: p.Status.Phase, Reason: p.Status.Reason, Message: p.Status.Message,
			Conditions: p.Status.Conditions, InitContainerStatuses: p.Status.InitContainers, ContainerStatuses: p.Status.Containers},
	}
}

// Pods returns the Pods of a namespace whose labels match the selector; empty: all. They have where they run and may run, why they are
// not ready, and the names and values of their environment, without sources.
func (c *Cluster) Pods(ctx context.Context, namespace string, selector map[string]string) ([]corev1.Pod, error) {
	if !ValidName(namespace) {
		return nil, noName("list Pods", "namespace", namespace)
	}
	query := map[string]string{}
	if len(selector) > 0 {
		query["labelSelector"] = labels.SelectorFromSet(selector).String()
	}
	parts, err := all[podPart](ctx, c, "list Pods of "+namespace, "/api/v1/namespaces/"+namespace+"/pods", query)
	if err != nil {
		return nil, err
	}
	pods := make([]corev1.Pod, len(parts))
	for i := range parts {
		pods[i] = parts[i].pod()
	}
	return pods, nil
}

// Pod returns a Pod.
func (c *Cluster) Pod(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
	return get[corev1.Pod](ctx, c, "Pod", "/api/v1", "pods", namespace, name, nil)
}

// EndpointSlices returns the EndpointSlices of a Service, of all address families.
func (c *Cluster) EndpointSlices(ctx context.Context, namespace, service string) ([]discoveryv1.EndpointSlice, error) {
	if !ValidName(namespace) {
		return nil, noName("list EndpointSlices", "namespace", namespace)
	}
	if !ValidName(service) {
		return nil, noName("list EndpointSlices", "Service name", service)
	}
	query := map[string]string{"labelSelector": labels.SelectorFromSet(labels.Set{discoveryv1.LabelServiceName: service}).String()}
	return all[discoveryv1.EndpointSlice](ctx, c, "list EndpointSlices of "+namespace, "/apis/discovery.k8s.io/v1/namespaces/"+namespace+"/endpointslices", query)
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
	if !ValidName(namespace) || !ValidName(name) {
		return noName("evict Pod", "name", namespace+"/"+name)
	}
	if uid == "" {
		return &Error{Doing: doing, Kind: ErrInvalid, Message: "an eviction needs the UID that was read"}
	}
	options, query := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}, map[string]string{}
	if w.tried != nil {
		options.DryRun, query["dryRun"] = []string{metav1.DryRunAll}, metav1.DryRunAll
	}
	body, err := json.Marshal(map[string]any{
		"apiVersion": "policy/v1", "kind": "Eviction",
		"metadata": map[string]any{"namespace": namespace, "name": name}, "deleteOptions": options,
	})
	if err != nil {
		return &Error{Doing: doing, Kind: ErrInvalid, Message: err.Error()}
	}
	var answer metav1.Status
	err = w.cluster.call(ctx, doing, request{
		verb: http.MethodPost, path: "/api/v1/namespaces/" + namespace + "/pods/" + name + "/eviction", query: query, body: body,
	}, &answer)
	w.tell("create pods/eviction", namespace+"/"+name, "", err)
	if refused, ok := errors.AsType[*Error](err); ok && refused.Status == http.StatusTooManyRequests {
		refused.Kind = ErrBlocked
	}
	return w.untried(err)
}
