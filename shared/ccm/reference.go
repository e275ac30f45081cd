package ccm

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/say"
)

// The annotations that name the HTTPS listeners' server certificate, those of additional domains, and access control lists.
const (
	CertID           = "cert-id"
	DomainExtensions = "domain-extensions"
	ACLID            = "acl-id"
)

// A Certificate is a server certificate of CLBs that an annotation names.
type Certificate struct {
	ID     string
	Domain string // the additional domain; empty for the listeners' own certificate
}

// CertificatesOf returns the server certificates that the annotations of a Service with a CLB name: cert-id for the listeners, and
// domain-extensions ("domain:id,domain:id") for additional domains. IDs keep their white space, as in the controller (clbv1/listeners.go).
func CertificatesOf(svc *corev1.Service) []Certificate {
	var list []Certificate
	if id, _ := Annotation(svc, CertID); strings.TrimSpace(id) != "" {
		list = append(list, Certificate{ID: id})
	}
	value, _ := Annotation(svc, DomainExtensions)
	for pair := range strings.SplitSeq(value, ",") {
		if domain, id, ok := strings.Cut(strings.TrimSpace(pair), ":"); ok && id != "" {
			list = append(list, Certificate{id, strings.TrimSpace(domain)})
		}
	}
	return list
}

// ACLsOf returns the IDs of access control lists in the annotations, with white space and empty parts, like the controller (clbv1/listeners.go).
func ACLsOf(svc *corev1.Service) []string {
	value, _ := Annotation(svc, ACLID)
	if strings.Trim(value, ", \t\r\n") == "" {
		return nil
	}
	return strings.Split(value, ",")
}

// NetworkCertificatesOf returns the annotations of a Service with an NLB that name certificates, with their values.
func NetworkCertificatesOf(svc *corev1.Service) []string {
	var list []string
	for _, short := range []string{"cert-id", "cacert-id", "additional-cert-ids"} {
		if v, ok := Annotation(svc, short); ok {
			list = append(list, short+": "+Quote(v))
		}
	}
	return list
}

// ReferenceReads is what References reads; a class that calls it declares it.
var ReferenceReads = []grant.Grant{grant.DescribeServerCertificates, grant.DescribeAccessControlLists}

// References are the certificates and access control lists that listeners of the region's CLBs can use.
type References struct {
	Certificates []cloud.Certificate
	ACLs         []cloud.ACL
}

// References reads the server certificates and the access control lists of the region.
func (c *View) References(ctx context.Context) (References, error) {
	certificates, err := c.Cloud.SLB.Certificates(ctx)
	if err != nil {
		return References{}, fmt.Errorf("list server certificates: %w", err)
	}
	lists, err := c.Cloud.SLB.ACLs(ctx)
	if err != nil {
		return References{}, fmt.Errorf("list access control lists: %w", err)
	}
	return References{certificates, lists}, nil
}

// An UnusableCertificate is one that an annotation names and that does not exist or has expired.
type UnusableCertificate struct {
	Certificate
	Text    say.Text // what is wrong with it, as a clause
	Domains []string // its domains; empty if it does not exist
	Means   string   // the ID of an existing certificate, if only white space around the ID is wrong
}

func httpsPorts(svc *corev1.Service) []string {
	var ports []string
	for _, p := range svc.Spec.Ports {
		if port, ok := strings.CutPrefix(ListenerKey(svc, p), "https:"); ok {
			ports = append(ports, port)
		}
	}
	return ports
}

// UnusableCertificates returns the server certificates in the annotations that the CLB cannot use at now. A missing cert-id comes first:
// without an ID the controller asks the API for all certificates (pkg/provider/alibaba/slb/cert.go).
func (c *View) UnusableCertificates(have References, now time.Time) []UnusableCertificate {
	var list []UnusableCertificate
	if id, _ := Annotation(c.Service, CertID); strings.TrimSpace(id) == "" {
		if ports := httpsPorts(c.Service); len(ports) > 0 {
			text := say.F("the Service has HTTPS listeners (%s), but its annotation %s is missing", strings.Join(ports, ", "), AnnotationKey(c.Service, "cert-id"))
			list = append(list, UnusableCertificate{Text: text})
		}
	}
	at := func(id string) int {
		return slices.IndexFunc(have.Certificates, func(k cloud.Certificate) bool { return k.ID == id })
	}
	for _, named := range CertificatesOf(c.Service) {
		if plain := strings.TrimSpace(named.ID); plain != named.ID && at(plain) >= 0 {
			text := say.F("the server certificate %s is named with white space around its ID, and the controller looks for that", Quote(named.ID))
			list = append(list, UnusableCertificate{Certificate: named, Text: text, Means: plain})
			continue
		}
		i := at(named.ID)
		if i < 0 {
			text := say.F("the server certificate %s does not exist in %s", Quote(named.ID), c.Cloud.Region())
			list = append(list, UnusableCertificate{Certificate: named, Text: text})
			continue
		}
		if k := have.Certificates[i]; k.Expired(now) {
			text := say.F("the server certificate %s expired on %s", described(k.ID, k.Domains...), k.Expires.Format(time.DateOnly))
			list = append(list, UnusableCertificate{Certificate: named, Text: text, Domains: k.Domains})
		}
	}
	return list
}

// NamedACLs returns the trimmed IDs of access control lists in the annotations. untidy reports white space around one, or an empty part.
func (r References) NamedACLs(svc *corev1.Service) (there, missing []string, untidy bool) {
	for _, id := range ACLsOf(svc) {
		plain := strings.TrimSpace(id)
		untidy = untidy || plain != id || plain == ""
		switch {
		case plain == "":
		case slices.ContainsFunc(r.ACLs, func(l cloud.ACL) bool { return l.ID == plain }):
			there = append(there, plain)
		default:
			missing = append(missing, plain)
		}
	}
	return there, missing, untidy
}

// ACLsOn reports whether the Service asks for access control; otherwise the controller leaves a listener's lists as they are (clbv1/listeners.go).
func ACLsOn(svc *corev1.Service) bool {
	status, _ := Annotation(svc, "acl-status")
	return status == "on"
}

// Valid returns the certificates that have not expired at now.
func (r References) Valid(now time.Time) []cloud.Certificate {
	return slices.DeleteFunc(slices.Clone(r.Certificates), func(k cloud.Certificate) bool { return k.Expired(now) })
}

// Successor returns the only certificate known to be valid at now for the same names as an expired one, or false.
func (r References) Successor(bad UnusableCertificate, now time.Time) (cloud.Certificate, bool) {
	names := func(domains []string) []string {
		var out []string
		for _, d := range domains {
			out = append(out, strings.ToLower(d))
		}
		slices.Sort(out)
		return slices.Compact(out)
	}
	same := slices.DeleteFunc(r.Valid(now), func(k cloud.Certificate) bool {
		return k.Expires.IsZero() || !slices.Equal(names(k.Domains), names(bad.Domains))
	})
	if len(bad.Domains) == 0 || len(same) != 1 {
		return cloud.Certificate{}, false
	}
	return same[0], true
}

// ForDomains returns the certificates that are for one of the domains.
func ForDomains(list []cloud.Certificate, domains []string) []cloud.Certificate {
	return slices.DeleteFunc(slices.Clone(list), func(k cloud.Certificate) bool {
		return !slices.ContainsFunc(k.Domains, func(d string) bool { return slices.Contains(domains, d) })
	})
}

const listed = 10

// DescribeCertificates lists certificates with their domains and expiry dates.
func DescribeCertificates(list []cloud.Certificate) say.Text {
	var texts []say.Text
	for _, k := range list {
		about := slices.Clone(k.Domains)
		if !k.Expires.IsZero() {
			about = append(about, k.Expires.Format(time.DateOnly))
		}
		texts = append(texts, say.Literal(described(k.ID, about...)))
	}
	return say.Clauses(texts, listed)
}

// DescribeACLs lists access control lists with their names and IP versions.
func DescribeACLs(lists []cloud.ACL) say.Text {
	var texts []say.Text
	for _, l := range lists {
		texts = append(texts, say.Literal(described(l.ID, l.Name, l.IPVersion)))
	}
	return say.Clauses(texts, listed)
}

func described(id string, about ...string) string {
	if len(about) == 0 {
		return id
	}
	return fmt.Sprintf("%s (%s)", id, strings.Join(about, ", "))
}
