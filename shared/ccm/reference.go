package ccm

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// A Certificate is a server certificate of CLBs that an annotation names.
type Certificate struct {
	ID     string
	Domain string // additional domain that it is for; empty: the listeners' own
}

// CertificatesOf returns the server certificates that the annotations of a Service with a CLB name:
// cert-id for the listeners, and domain-extensions ("domain:id,domain:id") for additional domains.
func CertificatesOf(svc *corev1.Service) []Certificate {
	var list []Certificate
	if id, _ := Annotation(svc, "cert-id"); strings.TrimSpace(id) != "" {
		list = append(list, Certificate{ID: strings.TrimSpace(id)})
	}
	value, _ := Annotation(svc, "domain-extensions")
	for pair := range strings.SplitSeq(value, ",") {
		if domain, id, ok := strings.Cut(pair, ":"); ok && strings.TrimSpace(id) != "" {
			list = append(list, Certificate{strings.TrimSpace(id), strings.TrimSpace(domain)})
		}
	}
	return list
}

// ACLsOf returns the IDs of the access control lists that the annotations of the Service name.
func ACLsOf(svc *corev1.Service) []string {
	var ids []string
	value, _ := Annotation(svc, "acl-id")
	for id := range strings.SplitSeq(value, ",") {
		if id = strings.TrimSpace(id); id != "" {
			ids = append(ids, id)
		}
	}
	return ids
}
