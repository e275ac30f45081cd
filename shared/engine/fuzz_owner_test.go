package engine

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lbremedy/lbremedy/shared/remedy"
)

// FuzzOwner reads anything as what the API server says of who wrote a Service, and as
// what kubectl left in it. An owner is one that was named.
func FuzzOwner(f *testing.F) {
	const key = "service.beta.kubernetes.io/alibaba-cloud-loadbalancer-id"
	f.Add(`{"f:metadata":{"f:annotations":{"f:`+key+`":{}}}}`, `{"metadata":{"annotations":{"`+key+`":"lb-1"}},"spec":{"ports":[{}]}}`, "argocd-controller")
	f.Add(`{"f:spec":{"f:ports":{}}}`, `{`, "kubectl")
	f.Add(`{"f:metadata":null}`, `{"metadata":{"annotations":null}} {}`, "")
	f.Add("[", "null", "Helm")
	f.Fuzz(func(t *testing.T, fields, applied, manager string) {
		svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{
			Annotations:   map[string]string{lastApplied: applied, key: "lb-1"},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: manager, FieldsV1: metav1.NewFieldsV1(fields)}, {Manager: manager}},
		}}
		for _, keys := range [][]string{{key}, {remedy.PortsKey}, {key, remedy.PortsKey}, nil} {
			if o := owner(svc, nil, keys); o.manager != "" && o.manager != manager {
				t.Errorf("%v belongs to %q, and nobody but %q wrote it", keys, o.manager, manager)
			}
		}
		allowed, whose := map[string]string{allowDrift: "true"}, owner(svc, nil, []string{key})
		if o := owner(svc, allowed, []string{key}); o.manager != "" || len(o.note) > 0 {
			t.Errorf("drift is allowed, and yet it belongs to %+v", o)
		}
		if svc.Labels = allowed; owner(svc, nil, []string{key}).manager != whose.manager {
			t.Errorf("by a label of the Service it does not belong to %q any more", whose.manager)
		}
	})
}
