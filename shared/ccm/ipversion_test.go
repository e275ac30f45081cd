package ccm_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/say"
)

func TestIPv4Advice(t *testing.T) {
	const v4, v6 = corev1.IPv4Protocol, corev1.IPv6Protocol
	for _, tt := range []struct {
		families []corev1.IPFamily
		note     string
		has      string
		says     string
	}{
		{[]corev1.IPFamily{v4, v6}, "", "the Service has the IP families IPv4 and IPv6", `"ipFamilies":["IPv4"]`},
		{[]corev1.IPFamily{v6, v4}, "", "the Service has the IP families IPv6 and IPv4", "recreate it with ipFamilies: [IPv4]"},
		{[]corev1.IPFamily{v6}, "", "the Service has the IP family IPv6", "recreate it with ipFamilies: [IPv4]"},
		{[]corev1.IPFamily{v4}, "", "the Service has the IP family IPv4", "get endpointslices"},
		{nil, "", "the Service names no IP family", "get endpointslices"},
		{[]corev1.IPFamily{v4, v6}, "ipv6", "the annotation backend-ip-version is \"ipv6\"", "backend-ip-version-"},
	} {
		svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Annotations: map[string]string{}}}
		svc.Spec.IPFamilies = tt.families
		if tt.note != "" {
			svc.Annotations[ccm.Prefix+ccm.BackendIPVersion] = tt.note
		}
		if got := say.Clauses(ccm.DescribeFamilies(svc), 9).String(); !strings.Contains(got, tt.has) {
			t.Errorf("%v: %s", tt.families, got)
		}
		if got := ccm.IPv4Advice(svc).String(); !strings.Contains(got, tt.says) || !strings.HasSuffix(got, ".") {
			t.Errorf("%v: %s", tt.families, got)
		}
	}
}
