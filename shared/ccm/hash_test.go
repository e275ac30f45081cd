package ccm_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/test/sim/controller"
)

func TestHash(t *testing.T) {
	t.Parallel()
	class := ccm.NLBClass
	port := corev1.ServicePort{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromString("web"), NodePort: 30080}
	for name, svc := range map[string]*corev1.Service{
		"bare": {Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer}},
		"annotated": {ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"b": "2", "a": "", "c": "x: y"}},
			Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{port}}},
		"NLB": {Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, LoadBalancerClass: &class, LoadBalancerSourceRanges: []string{"10.0.0.0/8"},
			ExternalTrafficPolicy: corev1.ServiceExternalTrafficPolicyLocal, Ports: []corev1.ServicePort{port, {Port: 81, TargetPort: intstr.FromInt32(8081)}}}},
	} {
		for _, release := range []string{"v2.1.0", "v2.6.0", "v2.7.0", "v2.9.1", "v2.12.1", "v2.14.0"} {
			v, ok := ccm.ParseVersion(release)
			got, known := ccm.Hash(svc, v)
			want, err := controller.Hash(svc, release)
			if err != nil || !ok || !known || got != want {
				t.Errorf("%s of %s: got %s, want %s, %v", name, release, got, want, err)
			}
		}
	}
	svc := &corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{port},
		LoadBalancerSourceRanges: []string{"10.0.0.0/8"}}}
	for _, release := range []string{"v2.6.0", "v2.12.1", "v2.14.0"} {
		digest, err := controller.Hash(svc, release)
		svc.Labels = map[string]string{ccm.HashLabel: digest}
		if err != nil || !ccm.InForce(svc) {
			t.Errorf("what %s leaves does not fit: %v", release, err)
		}
	}
	if svc.Spec.Type = corev1.ServiceTypeNodePort; ccm.InForce(svc) {
		t.Error("the hash fits another type")
	}
	if _, ok := ccm.Hash(&corev1.Service{}, ccm.Version{Major: 1, Minor: 9, Patch: 3, Build: 376}); ok {
		t.Error("the hash of a release before v2 is known")
	}
}
