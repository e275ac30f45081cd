// Package referencemissing remedies Services whose listeners refer to missing or expired certificates, or to missing access control lists.
package referencemissing

import (
	"context"
	_ "embed"
	"slices"
	"strings"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/step"
)

//go:embed doc.md
var doc string

// Remedy replaces an expired certificate by its only successor. Otherwise it asks for the certificate or list: only the owner knows.
var Remedy = &remedy.Remedy{
	Class: "reference-missing",
	Doc:   doc,
	Codes: []string{"CertificateNotExist", "AclNotExist"},
	Texts: []string{
		"can not update cert * because it is expired", "can not found cert by id",
		"describe new cert error: find more than 1 server cert by id", // of an empty ID
		"specified certificate does not exist",
		"specified acl does not exist",
	},
	Reads:       slices.Concat(ccm.ReferenceReads, ccm.BoundReads),
	Steps:       []remedy.Step{step.Annotate{}},
	Risks:       []remedy.Risk{remedy.Medium, remedy.High},
	Annotations: []string{ccm.CertID},
	Diagnose:    diagnose,
	StillFails:  stillFails,
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

func decide(c *remedy.Case, have ccm.References) remedy.Plan {
	var wrong []say.Text
	var ask say.Text
	for _, k := range c.UnusableCertificates(have, c.Now) {
		wrong = append(wrong, k.Text)
		ask = ask.Then(nameCertificate(c.Service, k, have.Valid(c.Now)))
	}
	keep, missing, untidy := have.NamedACLs(c.Service)
	if len(wrong) > 0 && !usesLists(c) {
		missing = nil // the controller does not use them
	}
	for _, id := range missing {
		wrong = append(wrong, say.F("the access control list %s does not exist in %s", ccm.Quote(id), c.Cloud.Region()))
	}
	switch value, _ := ccm.Annotation(c.Service, ccm.ACLID); {
	case len(missing) > 0:
		ask = ask.Then(nameList(c.Service, keep, have.ACLs))
	case untidy && aboutLists(c):
		wrong = append(wrong, say.F("the annotation %s is %s, and the controller sends the white space and the commas as they are", ccm.ACLID, ccm.Quote(value)))
		ask = ask.And("Remove the white space and the commas that separate nothing: %s.", ccm.SetCommand(c.Service, ccm.ACLID, strings.Join(keep, ",")))
	}
	switch {
	case len(wrong) > 0:
		plan := remedy.Plan{Finding: say.F("A listener cannot be set up as the annotations ask: %s.", say.Clauses(wrong, len(wrong))), Ask: ask}
		if len(missing) > 0 || untidy && aboutLists(c) {
			return plan
		}
		return succeed(c, have, plan)
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

// succeed names another certificate, if the listeners' expired certificate is the only problem, and exactly one valid certificate has the same names.
func succeed(c *remedy.Case, have ccm.References, plan remedy.Plan) remedy.Plan {
	bad := c.UnusableCertificates(have, c.Now)
	if len(bad) != 1 || bad[0].Domain != "" {
		return plan
	}
	to, ok := have.Successor(bad[0], c.Now)
	if !ok {
		return plan
	}
	plan.Finding = plan.Finding.And("Just one valid certificate is for the same names: %s.", ccm.DescribeCertificates([]cloud.Certificate{to}))
	plan.Ask, plan.Risk = nil, remedy.Medium
	plan.Note = say.F("Clients get the new certificate as soon as the controller has set it.")
	plan.Steps = []remedy.Step{step.With(c.Service, ccm.CertID, to.ID)}
	return plan
}

// stillFails reports whether the annotations name something unusable. Until the plan is written, unchecked references may be wrong, too.
func stillFails(ctx context.Context, c *remedy.Case) (remedy.Verdict, error) {
	if ccm.NLB(c.Service) || !c.Written() {
		return remedy.Yes, nil
	}
	have, err := c.References(ctx)
	if err != nil {
		return remedy.Unknown, err
	}
	_, missing, untidy := have.NamedACLs(c.Service)
	lists := len(missing) > 0 && usesLists(c) || untidy && aboutLists(c)
	return remedy.Is(lists || len(c.UnusableCertificates(have, c.Now)) > 0), nil
}

func aboutLists(c *remedy.Case) bool {
	message := strings.ToLower(c.Event.Message)
	return strings.Contains(message, "acl does not exist") || strings.Contains(message, "aclnotexist")
}

// usesLists reports whether access control lists can be the cause: access control is on, or the API cannot find a list.
func usesLists(c *remedy.Case) bool { return ccm.ACLsOn(c.Service) || aboutLists(c) }
