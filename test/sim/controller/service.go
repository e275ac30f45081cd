package controller

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/yaml"
)

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

// annotation returns the annotation with the current prefix, or else with the legacy prefix.
func annotation(svc *corev1.Service, name string) string {
	if v, ok := svc.Annotations[prefix+name]; ok {
		return v
	}
	return svc.Annotations[legacyPrefix+name]
}

// introduced returns the first release that read an annotation, or "" if all simulated releases do, from the public release notes
// and the first source that contains the name.
func introduced(name string) string {
	switch name {
	case "cert-id", "acl-status", "acl-id", "acl-type", "forward-port", "remove-unscheduled-backend":
		return "v1.9.3.164"
	case "ip-version":
		return "v1.9.3.220"
	case "name", "resource-group-id", "delete-protection", "modification-protection":
		return "v1.9.3.304"
	case "vgroup-port", "weight", "connection-drain", "connection-drain-timeout":
		return "v2.0.1"
	case "idle-timeout", "http2-enabled", "xforwardedfor-proto", "external-ip-type", "backend-ip-version":
		return "v2.1.0"
	case "hostname", "established-timeout", "request-timeout", "health-check-method":
		return "v2.3.0"
	case "instance-charge-type", "tls-cipher-policy":
		return "v2.4.0"
	case "health-check-switch", "proxy-protocol":
		return "v2.6.0"
	case "ip":
		return "v2.7.0"
	case "xforwardedfor-slbport", "xforwardedfor-clientsrcport":
		return "v2.9.1"
	case "preserve-lb-on-delete":
		return "v2.10.0"
	case "ignore-weight-update":
		return "v2.11.1"
	case "network-type":
		return "v2.12.0"
	case "domain-extensions":
		return "v2.13.0"
	case "default-weight":
		return "v2.14.0"
	}
	return ""
}

// defaultName returns the name and tag value of the controller's own load balancer: "a" and the UID without dashes.
func defaultName(svc *corev1.Service) string {
	name := "a" + strings.ReplaceAll(string(svc.UID), "-", "")
	return name[:min(len(name), 32)]
}

func deleting(svc *corev1.Service) bool {
	return svc.DeletionTimestamp != nil || svc.Spec.Type != corev1.ServiceTypeLoadBalancer
}

// Hash returns the digest that a controller of a release (the default if empty) stores on a synced Service.
func Hash(svc *corev1.Service, release string) (string, error) {
	v, err := parseVersion(release)
	if err != nil {
		return "", err
	}
	return v.hash(svc), nil
}

// hash returns the digest by which the controller detects changes: the SHA-224 of a YAML list of these fields without empty
// values, including all annotations. Before v2.7.0 (pkg/controller/helper/service_utils.go) it covered the whole spec, so an
// upgrade to that release syncs every Service in full.
func (v version) hash(svc *corev1.Service) string {
	fields := []any{
		svc.Spec.Ports, svc.Spec.Type, svc.Spec.ExternalTrafficPolicy, svc.Spec.LoadBalancerClass,
		svc.Annotations, svc.DeletionTimestamp,
	}
	switch {
	case !v.since("v2.7.0"):
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

func (c *controller) addFinalizer(ctx context.Context, svc *corev1.Service, finalizer string) (*corev1.Service, error) {
	return c.setFinalizers(ctx, svc, func(old []string) []string {
		if slices.Contains(old, finalizer) {
			return old
		}
		return append(slices.Clone(old), finalizer)
	})
}

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
		// Only this patch requires the version that was read.
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

// setLabels writes labels through the status subresource, as the controller does; an empty value removes one.
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

func (c *controller) setHash(ctx context.Context, svc *corev1.Service, hash, id string, more map[string]string) error {
	labels := map[string]string{labelHash: hash}
	maps.Copy(labels, more)
	if id != "" && c.version.since("v2.4.0") { // the first release that stores it
		labels[labelID] = id
	}
	if err := c.setLabels(ctx, svc, labels); err != nil {
		return fmt.Errorf("%s/%s failed to add service hash:, error: %w", svc.Namespace, svc.Name, err)
	}
	return nil
}

func (c *controller) removeHash(ctx context.Context, svc *corev1.Service) error {
	if err := c.setLabels(ctx, svc, map[string]string{labelHash: "", labelID: "", labelSecurityGroup: ""}); err != nil {
		return fmt.Errorf("%s/%s failed to remove service hash:, error: %w", svc.Namespace, svc.Name, err)
	}
	return nil
}

// setIngress writes the addresses to the status; none clears it. It makes three attempts, unless somebody else changed the
// Service meanwhile; a deleted Service is not an error. When it removes addresses, the controller drops the cause: the error is
// that of its waiting, and a conflict is ignored.
func (c *controller) setIngress(ctx context.Context, svc *corev1.Service, ingress []corev1.LoadBalancerIngress) error {
	var last error
	err := wait.ExponentialBackoffWithContext(ctx, wait.Backoff{Duration: c.pause(time.Second), Factor: 2, Jitter: 4, Steps: 3},
		func(ctx context.Context) (bool, error) {
			last = c.tryIngress(ctx, svc, ingress)
			if apierrors.IsNotFound(last) {
				last = nil
			}
			return last == nil || apierrors.IsConflict(last), nil
		})
	switch {
	case last == nil:
		return err // the context's, if any
	case len(ingress) > 0:
		return last
	case apierrors.IsConflict(last):
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return errors.New("timed out waiting for the condition")
}

func (c *controller) tryIngress(ctx context.Context, svc *corev1.Service, ingress []corev1.LoadBalancerIngress) error {
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

// pairs parses k1=v1,k2=v2. A key may have no value, and the text after a second = is lost.
func pairs(s string) map[string]string {
	m := map[string]string{}
	for p := range strings.SplitSeq(s, ",") {
		k, v, _ := strings.Cut(strings.TrimSpace(p), "=")
		v, _, _ = strings.Cut(v, "=")
		if k != "" {
			m[k] = v
		}
	}
	return m
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
