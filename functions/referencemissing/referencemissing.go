// Package referencemissing asks about certificates and access control lists that
// listeners should use but that do not exist or have expired.
package referencemissing

import (
	"context"
	_ "embed"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
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
	Reads:    ccm.ReferenceReads,
	Diagnose: diagnose,
}

func diagnose(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
	if ccm.NLB(c.Service) {
		return network(c.Service), nil
	}
	have, err := c.References(ctx)
	if err != nil {
		return remedy.Plan{}, err
	}
	return decide(c, have), nil
}

// decide returns the plan for a region with these certificates and access control lists.
func decide(c *remedy.Case, have ccm.References) remedy.Plan {
	var wrong []say.Text
	var ask say.Text
	for _, k := range c.UnusableCertificates(have, c.Now) {
		wrong = append(wrong, k.Text)
		ask = ask.Then(nameCertificate(c.Service, k, have.Valid(c.Now)))
	}
	keep, missing := have.NamedACLs(c.Service)
	for _, id := range missing {
		wrong = append(wrong, say.F("the access control list %s does not exist in %s", ccm.Quote(id), c.Cloud.Region()))
	}
	if len(missing) > 0 {
		ask = ask.Then(nameList(c.Service, keep, have.ACLs))
	}
	switch {
	case len(wrong) > 0:
		return remedy.Plan{Finding: say.F("A listener cannot be set up as the annotations ask: %s.", say.Clauses(wrong, len(wrong))), Ask: ask}
	case len(ccm.CertificatesOf(c.Service))+len(ccm.ACLsOf(c.Service)) > 0:
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

// nameCertificate asks for another certificate. It names the valid ones: those that are for the same
// domain, or else all.
func nameCertificate(svc *corev1.Service, bad ccm.UnusableCertificate, valid []cloud.Certificate) say.Text {
	ask := say.F("Name a valid server certificate: %s.", ccm.SetCommand(svc, "cert-id", "CERTIFICATE-ID"))
	if bad.Domain != "" {
		ask = say.F("Name a server certificate that is valid for the domain %s in the annotation %s.",
			ccm.Quote(bad.Domain), ccm.AnnotationKey(svc, "domain-extensions"))
	}
	if same := ccm.ForDomains(valid, bad.Domains); len(same) > 0 {
		return ask.And("These are valid for the same domain, with their domains and expiry dates: %s.", ccm.DescribeCertificates(same))
	}
	if len(valid) == 0 {
		return ask.And("The region has no valid certificate: upload one to CLB first.")
	}
	return ask.And("These are valid in the region, with their domains and expiry dates: %s.", ccm.DescribeCertificates(valid))
}

// nameList asks for another access control list beside those that are kept, and names those that
// exist.
func nameList(svc *corev1.Service, keep []string, lists []cloud.ACL) say.Text {
	ask := say.F("Name an existing access control list: %s.", ccm.SetCommand(svc, "acl-id", strings.Join(append(keep, "ACL-ID"), ","))).
		And("Or turn access control off, which lets everybody connect: %s.", ccm.SetCommand(svc, "acl-status", "off"))
	if len(lists) == 0 {
		return ask.And("The region has no access control list: create one first.")
	}
	return ask.And("The region has these access control lists: %s.", ccm.DescribeACLs(lists))
}

// network returns the plan for an NLB. Its certificates belong to Certificate Management Service,
// which lbremedy does not read.
func network(svc *corev1.Service) remedy.Plan {
	finding := say.F("The NLB cannot use a certificate that the Service asks for.")
	if named := ccm.NetworkCertificatesOf(svc); len(named) > 0 {
		finding = say.F("The NLB cannot use a certificate that the annotations name (%s).", strings.Join(named, ", "))
	}
	return remedy.Plan{
		Finding: finding,
		Ask: say.F("Check each certificate in the console of Certificate Management Service: it must exist, be valid and have an ID that ends with the region.").
			And("In the annotations, replace those that do not. lbremedy does not read that service."),
	}
}
