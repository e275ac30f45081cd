// Package referencemissing asks about certificates and access control lists that
// listeners should use but that do not exist or have expired.
package referencemissing

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

//go:embed doc.md
var doc string

// Remedy asks which certificate or list to use: only the owner knows.
var Remedy = &remedy.Remedy{
	Class: "reference-missing",
	Doc:   doc,
	Codes: []string{"CertificateNotExist", "AclNotExist"},
	Texts: []string{
		"can not update cert * because it is expired",
		"specified certificate does not exist",
		"specified acl does not exist",
	},
	Reads:    []grant.Grant{grant.DescribeServerCertificates, grant.DescribeAccessControlLists},
	Diagnose: diagnose,
}

// most is how many certificates or lists a sentence names.
const most = 10

func diagnose(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
	if ccm.NLB(c.Service) {
		return network(c), nil
	}
	certificates, err := c.Cloud.SLB.Certificates(ctx)
	if err != nil {
		return remedy.Plan{}, fmt.Errorf("list server certificates: %w", err)
	}
	lists, err := c.Cloud.SLB.ACLs(ctx)
	if err != nil {
		return remedy.Plan{}, fmt.Errorf("list access control lists: %w", err)
	}
	return decide(c, certificates, lists), nil
}

// decide returns the plan for a region with these certificates and access control lists.
func decide(c *remedy.Case, certificates []cloud.Certificate, lists []cloud.ACL) remedy.Plan {
	var wrong []say.Text
	var ask say.Text
	references := ccm.CertificatesOf(c.Service)
	for _, r := range references {
		i := slices.IndexFunc(certificates, func(k cloud.Certificate) bool { return k.ID == r.ID })
		switch {
		case i < 0:
			wrong = append(wrong, say.F("the server certificate %s does not exist in %s", ccm.Quote(r.ID), c.Cloud.Region()))
			ask = ask.Then(nameCertificate(c, r, certificates, nil))
		case expired(c, certificates[i]):
			k := certificates[i]
			wrong = append(wrong, say.F("the server certificate %s expired on %s", with(r.ID, k.Domains...), k.Expires.Format(time.DateOnly)))
			ask = ask.Then(nameCertificate(c, r, certificates, k.Domains))
		}
	}
	named := ccm.ACLsOf(c.Service)
	exists := func(id string) bool {
		return slices.ContainsFunc(lists, func(l cloud.ACL) bool { return l.ID == id })
	}
	var keep []string
	for _, id := range named {
		if exists(id) {
			keep = append(keep, id)
		} else {
			wrong = append(wrong, say.F("the access control list %s does not exist in %s", ccm.Quote(id), c.Cloud.Region()))
		}
	}
	if len(keep) < len(named) {
		ask = ask.Then(nameList(c.Service, keep, lists))
	}
	switch {
	case len(wrong) > 0:
		return remedy.Plan{Finding: say.F("A listener cannot be set up as the annotations ask: %s.", say.Clauses(wrong, len(wrong))), Ask: ask}
	case len(references)+len(named) > 0:
		return remedy.Plan{
			Finding: say.F("All certificates and access control lists that the annotations name exist now, and none has expired.").
				Then(ccm.Retries()),
			Wait: ccm.Retry,
		}
	}
	return remedy.Plan{
		Finding: say.F("The API does not find a certificate or an access control list, but the annotations of the Service name none."),
		Ask:     say.F("Check the controller's log for the one that it asks for: %s.", c.LogQuery()),
	}
}

// with returns an ID with what is known about it.
func with(id string, about ...string) string {
	if len(about) == 0 {
		return id
	}
	return fmt.Sprintf("%s (%s)", id, strings.Join(about, ", "))
}

func expired(c *remedy.Case, k cloud.Certificate) bool {
	return !k.Expires.IsZero() && k.Expires.Before(c.Now)
}

// nameCertificate asks for another certificate. It names the valid ones: those for one of the
// domains, or else all.
func nameCertificate(c *remedy.Case, r ccm.Certificate, all []cloud.Certificate, domains []string) say.Text {
	var fit, valid []say.Text
	for _, k := range all {
		if expired(c, k) {
			continue
		}
		about := slices.Clone(k.Domains)
		if !k.Expires.IsZero() {
			about = append(about, k.Expires.Format(time.DateOnly))
		}
		text := say.Literal(with(k.ID, about...))
		valid = append(valid, text)
		if slices.ContainsFunc(k.Domains, func(d string) bool { return slices.Contains(domains, d) }) {
			fit = append(fit, text)
		}
	}
	ask := say.F("Name a valid server certificate: %s.", ccm.SetCommand(c.Service, "cert-id", "CERTIFICATE-ID"))
	if r.Domain != "" {
		ask = say.F("Name a server certificate that is valid for the domain %s in the annotation %s.",
			ccm.Quote(r.Domain), ccm.AnnotationKey(c.Service, "domain-extensions"))
	}
	switch {
	case len(fit) > 0:
		return ask.And("These are valid for the same domain, with their domains and expiry dates: %s.", say.Clauses(fit, most))
	case len(valid) > 0:
		return ask.And("These are valid in the region, with their domains and expiry dates: %s.", say.Clauses(valid, most))
	}
	return ask.And("The region has no valid certificate: upload one to CLB first.")
}

// nameList asks for another access control list beside those that are kept, and names those that
// exist.
func nameList(svc *corev1.Service, keep []string, lists []cloud.ACL) say.Text {
	ask := say.F("Name an existing access control list: %s.", ccm.SetCommand(svc, "acl-id", strings.Join(append(keep, "ACL-ID"), ","))).
		And("Or turn access control off, which lets everybody connect: %s.", ccm.SetCommand(svc, "acl-status", "off"))
	if len(lists) == 0 {
		return ask.And("The region has no access control list: create one first.")
	}
	var all []say.Text
	for _, l := range lists {
		all = append(all, say.Literal(with(l.ID, l.Name, l.IPVersion)))
	}
	return ask.And("The region has these access control lists: %s.", say.Clauses(all, most))
}

// network returns the plan for an NLB. Its certificates belong to Certificate Management Service,
// which lbremedy does not read.
func network(c *remedy.Case) remedy.Plan {
	var named []string
	for _, short := range []string{"cert-id", "cacert-id", "additional-cert-ids"} {
		if v, ok := ccm.Annotation(c.Service, short); ok {
			named = append(named, short+": "+ccm.Quote(v))
		}
	}
	finding := say.F("The NLB cannot use a certificate that the Service asks for.")
	if len(named) > 0 {
		finding = say.F("The NLB cannot use a certificate that the annotations name (%s).", strings.Join(named, ", "))
	}
	return remedy.Plan{
		Finding: finding,
		Ask: say.F("Check each certificate in the console of Certificate Management Service: it must exist, be valid and have an ID that ends with the region.").
			And("In the annotations, replace those that do not. lbremedy does not read that service."),
	}
}
