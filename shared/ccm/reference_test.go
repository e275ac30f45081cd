package ccm_test

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
)

func TestReferences(t *testing.T) {
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
		ccm.LegacyPrefix + "cert-id":     " cert-1 ",
		ccm.Prefix + "domain-extensions": "a.example.com: cert-2 , b.example.com:cert-3,c.example.com:,nonsense", ccm.Prefix + "acl-id": "acl-1, acl-2,",
	}}}
	if got, want := ccm.CertificatesOf(svc), []ccm.Certificate{
		{ID: " cert-1 "}, {ID: " cert-2", Domain: "a.example.com"}, {ID: "cert-3", Domain: "b.example.com"},
	}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := ccm.ACLsOf(svc), []string{"acl-1", " acl-2", ""}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	svc.Annotations[ccm.Prefix+"acl-id"] = " , "
	if got := ccm.ACLsOf(svc); len(got) > 0 {
		t.Errorf("of nothing: got %q", got)
	}
}

func TestNamedACLs(t *testing.T) {
	have := ccm.References{ACLs: []cloud.ACL{{ID: "acl-1"}, {ID: "acl-2"}}}
	for _, tt := range []struct {
		value          string
		there, missing []string
		untidy         bool
	}{
		{"", nil, nil, false},
		{"acl-1,acl-2", []string{"acl-1", "acl-2"}, nil, false},
		{"acl-1, acl-2", []string{"acl-1", "acl-2"}, nil, true},
		{"acl-1,", []string{"acl-1"}, nil, true},
		{"acl-2, acl-9", []string{"acl-2"}, []string{"acl-9"}, true},
	} {
		svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{ccm.Prefix + "acl-id": tt.value}}}
		there, missing, untidy := have.NamedACLs(svc)
		if !slices.Equal(there, tt.there) || !slices.Equal(missing, tt.missing) || untidy != tt.untidy {
			t.Errorf("%q: got %q, %q, %t", tt.value, there, missing, untidy)
		}
	}
}

func TestValid(t *testing.T) {
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	have := ccm.References{Certificates: []cloud.Certificate{
		{ID: "cert-1", Domains: []string{"a.example.com"}, Expires: now.AddDate(0, -1, 0)},
		{ID: "cert-2", Domains: []string{"b.example.com", "a.example.com"}, Expires: now.AddDate(0, 1, 0)},
		{ID: "cert-3", Domains: []string{"b.example.com"}},
	}}
	valid := have.Valid(now)
	for _, tt := range []struct {
		list []cloud.Certificate
		want string
	}{
		{valid, "cert-2 (b.example.com, a.example.com, 2026-04-01); cert-3 (b.example.com)"},
		{ccm.ForDomains(valid, []string{"a.example.com"}), "cert-2 (b.example.com, a.example.com, 2026-04-01)"},
		{ccm.ForDomains(valid, nil), ""},
	} {
		if got := ccm.DescribeCertificates(tt.list).String(); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}

// A certificate succeeds an expired one only if it alone is for the same names with a known date in the future.
func TestSuccessor(t *testing.T) {
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	next := now.AddDate(0, 1, 0)
	bad := ccm.UnusableCertificate{Domains: []string{"b.example.com", "A.example.com"}}
	for _, tt := range []struct {
		name string
		list []cloud.Certificate
		want string
	}{
		{"none", nil, ""},
		{"one, in another order", []cloud.Certificate{{ID: "cert-1", Domains: []string{"a.example.com", "B.example.com"}, Expires: next}}, "cert-1"},
		{"for fewer names", []cloud.Certificate{{ID: "cert-1", Domains: []string{"a.example.com"}, Expires: next}}, ""},
		{"without a date", []cloud.Certificate{{ID: "cert-1", Domains: bad.Domains}}, ""},
		{"expired", []cloud.Certificate{{ID: "cert-1", Domains: bad.Domains, Expires: now.AddDate(0, -1, 0)}}, ""},
		{"two", []cloud.Certificate{{ID: "cert-1", Domains: bad.Domains, Expires: next}, {ID: "cert-2", Domains: bad.Domains, Expires: next}}, ""},
	} {
		if got, ok := (ccm.References{Certificates: tt.list}).Successor(bad, now); got.ID != tt.want || ok != (tt.want != "") {
			t.Errorf("%s: got %q, %t", tt.name, got.ID, ok)
		}
	}
	unnamed := ccm.References{Certificates: []cloud.Certificate{{ID: "cert-1", Expires: next}}}
	if got, ok := unnamed.Successor(ccm.UnusableCertificate{}, now); ok {
		t.Errorf("of one without names: got %q", got.ID)
	}
}
