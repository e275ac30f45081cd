package reuseofccmlb

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A tag names a Service by its UID, but a person wants the Service's name.
func TestNamedFor(t *testing.T) {
	all := []corev1.Service{
		{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "api", UID: "a1b2c3d4-0000-1111-2222-333344445555"}},
		{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "new"}},
	}
	const tag = "Its tag kubernetes.do.not.delete is "
	for name, want := range map[string]string{
		"aa1b2c3d400001111222233334444555": tag + "aa1b2c3d400001111222233334444555, the name for the Service shop/api.",
		"a0":                               tag + "a0, the name for a Service that this cluster does not have, or no longer has.",
	} {
		if got := namedFor(all, name).String(); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}
