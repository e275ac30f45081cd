package badannotation

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/step"
)

// unnamed is the plan if the message names none of the faulty annotations.
func unnamed(c *remedy.Case, all []ccm.Fault) remedy.Plan {
	finding := say.F("The controller cannot read an annotation. It says: %s.", c.Said())
	if len(all) == 0 {
		finding = finding.And("The annotations whose allowed values lbremedy knows are all valid.")
	}
	return remedy.Plan{
		Finding: finding.Then(others(all)),
		Ask: say.F("Set the annotation in the message to a value that the controller accepts.").
			And("Check the controller's log for the full message: %s.", c.LogQuery()),
	}
}

// plan corrects the faulty annotation, or asks. Is is the load balancer's setting; zones are a proposal
// where a zone map is missing.
func plan(svc *corev1.Service, lb *ccm.Instance, f ccm.Fault, rest []ccm.Fault, is string, zones say.Text) remedy.Plan {
	p := remedy.Plan{
		Finding: say.F("The annotation %s is %s. It takes %s.", f.Name, ccm.Quote(f.Value), f.Allowed),
		Note:    others(rest),
	}
	if !f.There {
		p.Finding = say.F("The annotation %s is missing. It takes %s.", f.Name, f.Allowed)
	}
	if is != "" {
		p.Finding = p.Finding.And("The %s %s has %s.", lb.Kind(), lb.ID, is)
	}
	if f.Means(is) {
		p.Finding = p.Finding.And("The annotation can mean nothing else.")
		p.Steps = []remedy.Step{step.With(svc, f.Name, is)}
		return p
	}
	p.Ask = say.F("Set the annotation to the intended value: %s.", ccm.SetCommand(svc, f.Name, "VALUE"))
	switch {
	case is != "":
		p.Ask = p.Ask.And("To keep the load balancer as it is: %s.", ccm.SetCommand(svc, f.Name, is))
	case len(zones) > 0:
		p.Ask = p.Ask.Then(zones)
	default:
		p.Ask = p.Ask.And("Or remove it: %s.", ccm.RemoveCommand(svc, f.Name))
	}
	return p
}

// others names further annotations that the controller may not accept.
func others(list []ccm.Fault) say.Text {
	if len(list) == 0 {
		return nil
	}
	var parts []say.Text
	for _, f := range list {
		parts = append(parts, say.F("%s is %s and takes %s", f.Name, ccm.Quote(f.Value), f.Allowed))
	}
	return say.F("Other annotations have values that the documentation does not list: %s.", say.Clauses(parts, len(parts)))
}
