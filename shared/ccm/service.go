package ccm

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lbremedy/lbremedy/shared/say"
)

// Prefixes of the controller's annotations. If both are set, the legacy one loses (docs/usage.md).
const (
	Prefix       = "service.beta.kubernetes.io/alibaba-cloud-loadbalancer-"
	LegacyPrefix = "service.beta.kubernetes.io/alicloud-loadbalancer-"
)

// The ingress controller that ACK installs with a cluster, and its Service
// (https://www.alibabacloud.com/help/en/ack/ack-managed-and-ack-dedicated/user-guide/service-faq).
const (
	IngressNamespace  = "kube-system"
	IngressController = "nginx-ingress-controller"
	IngressService    = "nginx-ingress-lb"
)

// Marks that the controller leaves on Services and load balancers.
const (
	HashLabel      = "service.beta.kubernetes.io/hash"
	BalancerLabel  = "service.k8s.alibaba/loadbalancer-id"
	CLBFinalizer   = "service.k8s.alibaba/resources"
	NLBFinalizer   = "service.k8s.alibaba/nlb"
	NLBClass       = "alibabacloud.com/nlb"
	NameTag        = "kubernetes.do.not.delete"
	ClusterTag     = "ack.aliyun.com"
	ReusedTag      = "kubernetes.reused.by.user"
	ManagedByACK   = "managed.by.ack"
	apiServerPort  = 6443
	maxBalancerTag = 20
)

// Annotation returns the value of the controller's annotation with this short name, under either prefix, and whether it is set.
func Annotation(svc *corev1.Service, short string) (string, bool) {
	if v, ok := svc.Annotations[Prefix+short]; ok {
		return v, true
	}
	v, ok := svc.Annotations[LegacyPrefix+short]
	return v, ok
}

// AnnotationKey returns the legacy key of the annotation if only that one is set, else the current one.
func AnnotationKey(svc *corev1.Service, short string) string {
	if _, ok := svc.Annotations[Prefix+short]; !ok {
		if _, ok := svc.Annotations[LegacyPrefix+short]; ok {
			return LegacyPrefix + short
		}
	}
	return Prefix + short
}

// longest is how much of an annotation's value a sentence shows, in bytes.
const longest = 80

// Quote returns the value of an annotation for a sentence: in quotes, and shortened if it is long.
func Quote(value string) string {
	if len(value) > longest {
		return fmt.Sprintf("%q…", strings.ToValidUTF8(value[:longest], ""))
	}
	return fmt.Sprintf("%q", value)
}

// DefaultName returns the controller's name for a load balancer, also its name tag: "a" and the UID without dashes, cut to 32 characters.
func DefaultName(svc *corev1.Service) string {
	name := "a" + strings.ReplaceAll(string(svc.UID), "-", "")
	return name[:min(len(name), 32)]
}

// NLB reports whether a Network Load Balancer serves the Service. A Service that changes its type loses its class
// (pkg/registry/core/service/strategy.go of Kubernetes); the finalizer then shows what the controller must still release.
func NLB(svc *corev1.Service) bool {
	if class := svc.Spec.LoadBalancerClass; class != nil || svc.Spec.Type == corev1.ServiceTypeLoadBalancer {
		return class != nil && *class == NLBClass
	}
	return slices.Contains(svc.Finalizers, NLBFinalizer)
}

// LeftBy returns the annotation that makes the controller leave a Service without a class to others, or "" (NeedCLB in
// helper/service_utils.go). For an NLB only the class counts (NeedNLB). Releases before v2.12.4 do not read tunnel-type: an address shows that.
func LeftBy(svc *corev1.Service) string {
	if _, ok := svc.Annotations[Prefix+"tunnel-type"]; ok && !Synced(svc) {
		return Prefix + "tunnel-type"
	}
	if key := "service.beta.kubernetes.io/class"; svc.Annotations[key] != "" {
		return key
	}
	return ""
}

// Synced reports whether the Service has an address: a sync has succeeded once.
func Synced(svc *corev1.Service) bool { return len(svc.Status.LoadBalancer.Ingress) > 0 }

// Address returns the first ingress address, an IP or a host name, or "".
func Address(svc *corev1.Service) string {
	ingress := svc.Status.LoadBalancer.Ingress
	switch {
	case len(ingress) == 0:
		return ""
	case ingress[0].IP != "":
		return ingress[0].IP
	}
	return ingress[0].Hostname
}

// Leaving says how the Service stops being the controller's, as the end of a sentence, or nothing.
func Leaving(svc *corev1.Service) say.Text {
	switch {
	case svc.DeletionTimestamp != nil:
		return say.F("is being deleted")
	case svc.Spec.Type != corev1.ServiceTypeLoadBalancer:
		return say.F("is of type %s now", svc.Spec.Type)
	}
	return nil
}

// WhyLeaving returns Leaving as a full sentence.
func WhyLeaving(svc *corev1.Service) say.Text {
	switch {
	case svc.DeletionTimestamp != nil:
		return say.F("The Service is being deleted.")
	case svc.Spec.Type != corev1.ServiceTypeLoadBalancer:
		return say.F("The Service is no longer of type LoadBalancer.")
	}
	return nil
}

// HashWritten returns when the controller last wrote the hash label, in whole seconds, or zero.
func HashWritten(svc *corev1.Service) time.Time { return labelWritten(svc, HashLabel) }

// labelWritten returns when the controller last wrote a label. Unlike people it writes labels with the status (addServiceLabels in
// clbv1/service_controller.go).
func labelWritten(svc *corev1.Service, label string) time.Time {
	if svc.Labels[label] == "" {
		return time.Time{}
	}
	var at time.Time
	for _, f := range svc.ManagedFields {
		if f.Subresource == "status" && f.Time != nil && f.FieldsV1 != nil && strings.Contains(string(f.FieldsV1.GetRawBytes()), `"f:`+label+`"`) &&
			f.Time.After(at) {
			at = f.Time.Time
		}
	}
	return at
}

// Changed returns when annotations or the spec were last written, from managedFields, or zero. Changes of labels and finalizers do not cause a sync.
func Changed(svc *corev1.Service) time.Time {
	var at time.Time
	for _, f := range svc.ManagedFields {
		if f.Subresource == "" && f.Time != nil && f.Time.After(at) && mayWrite(f, `"f:spec"`, `"f:annotations"`) {
			at = f.Time.Time
		}
	}
	return at
}

func mayWrite(f metav1.ManagedFieldsEntry, fields ...string) bool {
	return f.FieldsV1 == nil || slices.ContainsFunc(fields, func(key string) bool { return strings.Contains(string(f.FieldsV1.GetRawBytes()), key) })
}

// SyncDelay returns how long the controller took from the last change of the Service to its full sync, at least one second because the API
// server's times are in whole seconds. It returns 0 if the change is not synced yet, or the times are unknown.
func SyncDelay(svc *corev1.Service) time.Duration {
	changed, synced := Changed(svc), HashWritten(svc)
	if !InForce(svc) || changed.IsZero() || synced.Before(changed) {
		return 0
	}
	return max(time.Second, synced.Sub(changed))
}

// OwnAddress reports whether the controller writes the load balancer's own address into the status: not with the hostname annotation or in EIP mode.
func OwnAddress(svc *corev1.Service) bool {
	if name, _ := Annotation(svc, "hostname"); name != "" {
		return false
	}
	mode, _ := Annotation(svc, ExternalIP)
	return mode != "eip"
}

// HasAddress reports whether the Service has the load balancer's address, or none (isLoadBalancerReusable in clbv1/model_applier.go).
func HasAddress(svc *corev1.Service, lb *Instance) bool {
	if mode, _ := Annotation(svc, ExternalIP); mode == "eip" && lb.NLB == nil {
		return true
	}
	return !Synced(svc) || slices.ContainsFunc(svc.Status.LoadBalancer.Ingress, func(i corev1.LoadBalancerIngress) bool {
		if lb.NLB != nil {
			return i.Hostname == lb.Address
		}
		is, err := netip.ParseAddr(i.IP)
		named, errNamed := netip.ParseAddr(lb.Address)
		return i.IP == lb.Address || i.IP == "" && i.Hostname != "" || err == nil && errNamed == nil && is == named
	})
}
