package remedy

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

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
		for _, keys := range [][]string{{key}, {PortsKey}, {key, PortsKey}, nil} {
			if o := Owner(svc, nil, keys); o.Manager != "" && o.Manager != manager {
				t.Errorf("%v belongs to %q, and nobody but %q wrote it", keys, o.Manager, manager)
			}
		}
		allowed, whose := map[string]string{allowDrift: "true"}, Owner(svc, nil, []string{key})
		if o := Owner(svc, allowed, []string{key}); o.Manager != "" || len(o.Note) > 0 {
			t.Errorf("drift is allowed, and yet it belongs to %+v", o)
		}
		if svc.Labels = allowed; Owner(svc, nil, []string{key}).Manager != whose.Manager {
			t.Errorf("by a label of the Service it does not belong to %q any more", whose.Manager)
		}
	})
}
