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

// soon is how long the controller takes to try again by itself at most.
const soon = 5 * time.Minute

// most is how many of those that exist a sentence names.
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
	var wrong, asks []string
	named := false
	for _, r := range certificatesOf(c) {
		id := r.id
		named = true
		i := slices.IndexFunc(certificates, func(k cloud.Certificate) bool { return k.ID == id })
		switch {
		case i < 0:
			wrong = append(wrong, fmt.Sprintf("the server certificate %s does not exist in %s", ccm.Quote(id), c.Cloud.Region()))
			asks = append(asks, nameCertificate(c, r, certificates, nil))
		case expired(c, certificates[i]):
			wrong = append(wrong, fmt.Sprintf("the server certificate %s (%s) expired on %s", id, strings.Join(certificates[i].Domains, ", "), certificates[i].Expires.Format(time.DateOnly)))
			asks = append(asks, nameCertificate(c, r, certificates, certificates[i].Domains))
		}
	}
	if value, _ := ccm.Annotation(c.Service, "acl-id"); value != "" {
		named = true
		var keep []string
		missing := 0
		for id := range strings.SplitSeq(value, ",") {
			id = strings.TrimSpace(id)
			switch {
			case id == "":
			case slices.ContainsFunc(lists, func(l cloud.ACL) bool { return l.ID == id }):
				keep = append(keep, id)
			default:
				missing++
				wrong = append(wrong, fmt.Sprintf("the access control list %s does not exist in %s", ccm.Quote(id), c.Cloud.Region()))
			}
		}
		if missing > 0 {
			asks = append(asks, nameList(c, keep, lists))
		}
	}
	switch {
	case len(wrong) > 0:
		asks = slices.Compact(asks)
		return remedy.Plan{
			Finding: say.F("A listener of the Service can't be made as its annotations say: %s.", strings.Join(wrong, ", and ")),
			Ask:     say.Literal(strings.Join(asks, " ")),
		}, nil
	case named:
		return remedy.Plan{Finding: say.F("All certificates and access control lists that the annotations name exist now, and none has expired; the controller tries again by itself."), Wait: soon}, nil
	}
	return remedy.Plan{
		Finding: say.F("The API misses a certificate or an access control list, and the annotations of the Service name none."),
		Ask:     say.F("Look which one the controller asks for: %s.", c.LogQuery()),
	}, nil
}

// A reference is a server certificate that an annotation names.
type reference struct {
	id     string
	domain string // of an additional domain; empty: it is the listeners' own
}

// certificatesOf returns the server certificates that the annotations name: of the
// listeners, and of their additional domains ("domain:id,domain:id").
func certificatesOf(c *remedy.Case) []reference {
	var list []reference
	if id, _ := ccm.Annotation(c.Service, "cert-id"); strings.TrimSpace(id) != "" {
		list = append(list, reference{id: strings.TrimSpace(id)})
	}
	value, _ := ccm.Annotation(c.Service, "domain-extensions")
	for pair := range strings.SplitSeq(value, ",") {
		if domain, id, ok := strings.Cut(pair, ":"); ok && strings.TrimSpace(id) != "" {
			list = append(list, reference{strings.TrimSpace(id), strings.TrimSpace(domain)})
		}
	}
	return list
}

func expired(c *remedy.Case, k cloud.Certificate) bool {
	return !k.Expires.IsZero() && k.Expires.Before(c.Now)
}

// nameCertificate asks for another certificate and lists those that are valid,
// first those for one of the domains.
func nameCertificate(c *remedy.Case, r reference, all []cloud.Certificate, domains []string) string {
	var fit, other []string
	for _, k := range all {
		if expired(c, k) {
			continue
		}
		text := k.ID
		if len(k.Domains) > 0 {
			text += " for " + strings.Join(k.Domains, ", ")
		}
		if !k.Expires.IsZero() {
			text += " until " + k.Expires.Format(time.DateOnly)
		}
		if slices.ContainsFunc(k.Domains, func(d string) bool { return slices.Contains(domains, d) }) {
			fit = append(fit, text)
		} else {
			other = append(other, text)
		}
	}
	what := "The region has no valid one: upload one to CLB first."
	if valid := append(fit, other...); len(valid) > 0 {
		what = fmt.Sprintf("Valid in the region: %s.", some(valid))
	}
	if len(fit) > 0 {
		what = fmt.Sprintf("For the same domain: %s.", some(fit))
	}
	if r.domain != "" {
		return fmt.Sprintf("Name a server certificate that is valid for the domain %s in the annotation %s. %s", ccm.Quote(r.domain), ccm.AnnotationKey(c.Service, "domain-extensions"), what)
	}
	return fmt.Sprintf("Name a server certificate that is valid: %s. %s", ccm.SetCommand(c.Service, "cert-id", "CERTIFICATE-ID"), what)
}

// nameList asks for another access control list beside those that are kept, and
// lists those that exist.
func nameList(c *remedy.Case, keep []string, lists []cloud.ACL) string {
	var all []string
	for _, l := range lists {
		all = append(all, fmt.Sprintf("%s (%s, %s)", l.ID, l.Name, l.IPVersion))
	}
	what := "The region has none: make one first."
	if len(all) > 0 {
		what = fmt.Sprintf("The region has %s.", some(all))
	}
	return fmt.Sprintf("Name an access control list that exists: %s. Or switch the control off, and everybody may connect: %s. %s",
		ccm.SetCommand(c.Service, "acl-id", strings.Join(append(keep, "ACL-ID"), ",")), ccm.SetCommand(c.Service, "acl-status", "off"), what)
}

// some joins texts, and says how many it leaves out.
func some(texts []string) string {
	if len(texts) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(texts[:most], "; "), len(texts)-most)
	}
	return strings.Join(texts, "; ")
}

// network answers for an NLB: its certificates are those of Certificate
// Management Service, which lbremedy does not read.
func network(c *remedy.Case) remedy.Plan {
	var named []string
	for _, short := range []string{"cert-id", "cacert-id", "additional-cert-ids"} {
		if v, ok := ccm.Annotation(c.Service, short); ok {
			named = append(named, fmt.Sprintf("%s is %s", short, ccm.Quote(v)))
		}
	}
	finding := "The NLB can't have a certificate that the Service asks for."
	if len(named) > 0 {
		finding = fmt.Sprintf("The NLB can't have a certificate that the annotations name: %s.", strings.Join(named, ", "))
	}
	return remedy.Plan{
		Finding: say.Literal(finding),
		Ask:     say.F("Look in the console of Certificate Management Service whether each of them exists, is valid and has an ID that ends with the region, and name others in the annotations where not. lbremedy does not read that service."),
	}
}
