package ccm_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
)

// What annotations name is read with white space around it, and without what is empty.
func TestReferences(t *testing.T) {
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
		ccm.LegacyPrefix + "cert-id":     " cert-1 ",
		ccm.Prefix + "domain-extensions": "a.example.com: cert-2,b.example.com:,nonsense", ccm.Prefix + "acl-id": "acl-1, acl-2,,",
	}}}
	if got, want := ccm.CertificatesOf(svc), []ccm.Certificate{{ID: "cert-1"}, {ID: "cert-2", Domain: "a.example.com"}}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got, want := ccm.ACLsOf(svc), []string{"acl-1", "acl-2"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
