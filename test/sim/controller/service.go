package controller

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/yaml"
)

// Labels that the controller leaves on a Service after a successful sync.
const (
	labelHash = "service.beta.kubernetes.io/hash"
	labelID   = "service.k8s.alibaba/loadbalancer-id"
)

const (
	prefix       = "service.beta.kubernetes.io/alibaba-cloud-loadbalancer-"
	legacyPrefix = "service.beta.kubernetes.io/alicloud-loadbalancer-"

	annotationClass   = "service.beta.kubernetes.io/class"
	annotationTunnel  = prefix + "tunnel-type"
	annotationBackend = "service.beta.kubernetes.io/backend-type"
)

// annotation returns the annotation with this name behind the present or, if
// that is not there, the legacy prefix.
func annotation(svc *corev1.Service, name string) string {
	if v, ok := svc.Annotations[prefix+name]; ok {
		return v
	}
	return svc.Annotations[legacyPrefix+name]
}

// defaultName returns the name and the tag value by which the controller knows
// its own load balancer of a Service: "a" and the UID without dashes.
func defaultName(svc *corev1.Service) string {
	name := "a" + strings.ReplaceAll(string(svc.UID), "-", "")
	return name[:min(len(name), 32)]
}

// deleting reports whether the Service shall have no load balancer any more.
func deleting(svc *corev1.Service) bool {
	return svc.DeletionTimestamp != nil || svc.Spec.Type != corev1.ServiceTypeLoadBalancer
}

// Hash returns the digest that a controller of this release, the usual one if
// empty, leaves on a Service which it has synced.
func Hash(svc *corev1.Service, release string) (string, error) {
	v, err := parseVersion(release)
	if err != nil {
		return "", err
	}
	return v.hash(svc), nil
}

// hash returns the digest by which the controller tells whether a Service
// changed since its last successful sync. Labels and status are not in it, all
// annotations are.
//
// It is the SHA-224 of a YAML list of these fields without empty values. Before
// v2.10.0 all of the spec was in it, so that the upgrade to that release syncs
// every Service in full.
func (v version) hash(svc *corev1.Service) string {
	fields := []any{
		svc.Spec.Ports, svc.Spec.Type, svc.Spec.ExternalTrafficPolicy, svc.Spec.LoadBalancerClass,
		svc.Annotations, svc.DeletionTimestamp,
	}
	switch {
	case !v.since("v2.10.0"):
		fields = []any{svc.Spec, svc.Annotations, svc.DeletionTimestamp}
	case v.since("v2.14.0"):
		fields = append(fields, svc.Spec.LoadBalancerSourceRanges)
	}
	text, err := yaml.Marshal(plain(fields))
	if err != nil {
		panic("controller: a Service that cannot be written: " + err.Error())
	}
	sum := sha256.Sum224(text)
	return hex.EncodeToString(sum[:])
}

// withoutEmpty returns a JSON value without the empty values in it.
func withoutEmpty(v any) any {
	switch v := v.(type) {
	case []any:
		var kept []any
		for _, e := range v {
			if e = withoutEmpty(e); !empty(e) {
				kept = append(kept, e)
			}
		}
		return kept
	case map[string]any:
		kept := map[string]any{}
		for k, e := range v {
			if e = withoutEmpty(e); !empty(e) {
				kept[k] = e
			}
		}
		return kept
	}
	return v
}

func empty(v any) bool {
	if v == nil {
		return true
	}
	r := reflect.ValueOf(v)
	if r.Kind() == reflect.Map || r.Kind() == reflect.Slice {
		return r.Len() == 0
	}
	return r.IsZero()
}

// addFinalizer returns the Service with the finalizer, as it is on the server
// if that had to be written.
func (c *controller) addFinalizer(ctx context.Context, svc *corev1.Service, finalizer string) (*corev1.Service, error) {
	return c.setFinalizers(ctx, svc, func(old []string) []string {
		if slices.Contains(old, finalizer) {
			return old
		}
		return append(slices.Clone(old), finalizer)
	})
}

// removeFinalizer removes the finalizer; for a deleted Service that is the end.
func (c *controller) removeFinalizer(ctx context.Context, svc *corev1.Service, finalizer string) error {
	_, err := c.setFinalizers(ctx, svc, func(old []string) []string {
		return slices.DeleteFunc(slices.Clone(old), func(f string) bool { return f == finalizer })
	})
	return err
}

func (c *controller) setFinalizers(ctx context.Context, svc *corev1.Service, change func([]string) []string) (*corev1.Service, error) {
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		now, err := c.services.Services(svc.Namespace).Get(svc.Name)
		if err != nil {
			return err
		}
		svc = now.DeepCopy()
		finalizers := change(svc.Finalizers)
		if slices.Equal(finalizers, svc.Finalizers) {
			return nil
		}
		// Only this patch is bound to the version that was read.
		patched, err := c.patch(ctx, svc, map[string]any{"metadata": map[string]any{
			"finalizers": finalizers, "resourceVersion": svc.ResourceVersion,
		}})
		if err != nil {
			return err
		}
		svc = patched
		return nil
	})
	return svc, err
}

// setLabels writes labels; the empty value removes one. The controller does so
// through the status subresource.
func (c *controller) setLabels(ctx context.Context, svc *corev1.Service, labels map[string]string) error {
	change := map[string]any{}
	for k, v := range labels {
		old, ok := svc.Labels[k]
		switch {
		case v == "" && ok:
			change[k] = nil
		case v != "" && v != old:
			change[k] = v
		}
	}
	if len(change) == 0 {
		return nil
	}
	_, err := c.patch(ctx, svc, map[string]any{"metadata": map[string]any{"labels": change}}, "status")
	return err
}

// setIngress writes the addresses of the load balancer into the Service's
// status; none clears it. A Service that is gone is no error.
func (c *controller) setIngress(ctx context.Context, svc *corev1.Service, ingress []corev1.LoadBalancerIngress) error {
	same := slices.EqualFunc(svc.Status.LoadBalancer.Ingress, ingress, func(a, b corev1.LoadBalancerIngress) bool {
		return a.IP == b.IP && a.Hostname == b.Hostname
	})
	if same {
		return nil
	}
	var value any
	if len(ingress) > 0 {
		value = ingress
	}
	_, err := c.patch(ctx, svc, map[string]any{"status": map[string]any{"loadBalancer": map[string]any{"ingress": value}}}, "status")
	return err
}

func (c *controller) patch(ctx context.Context, svc *corev1.Service, change map[string]any, subresources ...string) (*corev1.Service, error) {
	b, err := json.Marshal(change)
	if err != nil {
		return nil, fmt.Errorf("write patch: %w", err)
	}
	return c.kube.CoreV1().Services(svc.Namespace).Patch(ctx, svc.Name, types.MergePatchType, b, metav1.PatchOptions{FieldManager: fieldManager}, subresources...)
}

// pairs reads an annotation of the form k1=v1,k2=v2. What has another form is
// left out.
func pairs(s string) map[string]string {
	m := map[string]string{}
	for p := range strings.SplitSeq(s, ",") {
		if k, v, ok := strings.Cut(strings.TrimSpace(p), "="); ok && k != "" {
			m[k] = v
		}
	}
	return m
}

// sorted returns the keys of m in order.
func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
