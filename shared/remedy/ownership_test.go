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

// A source is named only by what its tool writes, and by nothing that is not a name.
func TestSourceOf(t *testing.T) {
	type m map[string]string
	for _, tt := range []struct {
		manager             string
		labels, annotations m
		kind, name, object  string
	}{
		{"argocd-controller", nil, m{tracking: "shop:/Service:shop/web"}, "Application", "shop", "/Service:shop/web"},
		{tracking, m{"app.kubernetes.io/instance": "other"}, m{tracking: "argo_shop:/Service:shop/web"}, "Application", "argo_shop", "/Service:shop/web"},
		{"argocd-controller", m{"app.kubernetes.io/instance": "shop"}, m{tracking: "evil:/Service:prod/web"}, "Application", "shop", ""},
		{"argocd-controller", m{"app.kubernetes.io/instance": "shop"}, m{tracking: "evil:apps/Service:shop/web"}, "Application", "shop", ""},
		{"argocd-controller", nil, m{tracking: "../x y:/Service:shop/web"}, "", "", "/Service:shop/web"},
		{"argocd-controller", nil, m{tracking: "a\n# b:/Service:shop/web"}, "", "", "/Service:shop/web"},
		{"argocd-controller", nil, nil, "", "", ""},
		{"kustomize-controller", m{byKustom + "name": "shop", byKustom + "namespace": "flux-system"}, m{tracking: "x:/Service:shop/web"},
			"Kustomization", "flux-system/shop", ""},
		{"kustomize-controller", m{byKustom + "name": "shop"}, nil, "", "", ""},
		{"kustomize-controller", m{byKustom + "name": "a/b", byKustom + "namespace": "c"}, nil, "", "", ""},
		{byRelease + "name", m{byRelease + "name": "shop", byRelease + "namespace": "prod"}, nil, "HelmRelease", "prod/shop", ""},
		{"helm", nil, m{byHelm + "name": "shop", byHelm + "namespace": "prod"}, "Release", "prod/shop", ""},
		{"app.kubernetes.io/managed-by=Helm", m{byKustom + "name": "shop", byKustom + "namespace": "flux-system"}, nil, "", "", ""},
	} {
		svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Labels: tt.labels, Annotations: tt.annotations}}
		if got := SourceOf(svc, tt.manager); got.Kind != tt.kind || got.Name != tt.name || got.Object != tt.object || got.Manager != tt.manager {
			t.Errorf("%s, %v, %v: got %+v", tt.manager, tt.labels, tt.annotations, got)
		}
	}
}
