package referencemissing

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

// nameCertificate lists the valid certificates for the same domain, or else all valid ones.
func nameCertificate(svc *corev1.Service, bad ccm.UnusableCertificate, valid []cloud.Certificate) say.Text {
	switch {
	case bad.Means != "" && bad.Domain == "":
		return say.F("Remove the white space: %s.", ccm.SetCommand(svc, ccm.CertID, bad.Means))
	case bad.Means != "":
		return say.F("Remove the white space around %s in the annotation %s.", bad.Means, ccm.AnnotationKey(svc, ccm.DomainExtensions))
	}
	ask := say.F("Name a valid server certificate: %s.", ccm.SetCommand(svc, "cert-id", "CERTIFICATE-ID"))
	if bad.Domain != "" {
		ask = say.F("Name a server certificate that is valid for the domain %s in the annotation %s.",
			ccm.Quote(bad.Domain), ccm.AnnotationKey(svc, ccm.DomainExtensions))
		// diffDomainExtensions in clbv1/listeners.go, v2.13.0 and v2.14.0.
		ask = ask.And("The controller cannot change the certificate of a domain that the listener already has.").
			And("In that case change it there first, in the console or with the action %s of the API.", "SetDomainExtensionAttribute").
			And("Or remove the domain from the annotation, wait for a sync, and add it again.")
	}
	if same := ccm.ForDomains(valid, bad.Domains); len(same) > 0 {
		return ask.And("These are valid for the same domain, with their domains and expiry dates: %s.", ccm.DescribeCertificates(same))
	}
	if len(valid) == 0 {
		return ask.And("The region has no valid certificate: upload one to CLB first.")
	}
	return ask.And("These are valid in the region, with their domains and expiry dates: %s.", ccm.DescribeCertificates(valid))
}

func nameList(svc *corev1.Service, keep []string, lists []cloud.ACL) say.Text {
	ask := say.F("Name an existing access control list: %s.", ccm.SetCommand(svc, ccm.ACLID, strings.Join(append(keep, "ACL-ID"), ",")))
	if status, _ := ccm.Annotation(svc, "acl-status"); status == "off" {
		ask = ask.And("Or, since access control is off, name none: %s.", ccm.RemoveCommand(svc, ccm.ACLID))
	} else {
		ask = ask.And("Or turn access control off, which lets everybody connect: %s.", ccm.SetCommand(svc, "acl-status", "off"))
	}
	if len(lists) == 0 {
		return ask.And("The region has no access control list: create one first.")
	}
	return ask.And("The region has these access control lists: %s.", ccm.DescribeACLs(lists))
}

// network plans for an NLB. Its certificates are in Certificate Management Service, which lbremedy does not read.
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
