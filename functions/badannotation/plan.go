package badannotation

import (
	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/step"
)

// release plans for a Service that the controller cannot release because it cannot read which of a person's groups have its backends.
func release(c *remedy.Case) remedy.Plan {
	now, _ := ccm.Annotation(c.Service, ccm.GroupPairs)
	p := remedy.Plan{
		Finding: ccm.WhyLeaving(c.Service).And("The annotation %s is %s. These parts of it name no port: %s.", ccm.GroupPairs, ccm.Quote(now),
			say.List(quoted(ccm.Unpaired(c.Service)), 3)).
			And("The controller reads the annotation to remove the Service's backends from these groups, and fails before it cleans up anything."),
		Risk: remedy.High,
	}
	value, ok := ccm.Paired(c.Service)
	switch {
	case !ok:
		p.Ask = say.F("Name each group with a port, such as rsp-1:443: %s.", ccm.SetCommand(c.Service, ccm.GroupPairs, "VALUE")).
			And("Or remove the annotation: %s. The Service's backends then stay in these groups; remove them by hand.",
				ccm.RemoveCommand(c.Service, ccm.GroupPairs))
	case c.Service.DeletionTimestamp == nil:
		p.Ask = say.F("Name each group with its port: %s. The controller then cleans up.", ccm.SetCommand(c.Service, ccm.GroupPairs, value))
	default:
		p.Finding = p.Finding.And("Of a Service in deletion it reads the groups alone, so any port will do.")
		p.Note = afterRelease(c)
		p.Steps = []remedy.Step{step.With(c.Service, ccm.GroupPairs, value)}
	}
	return p
}

func afterRelease(c *remedy.Case) say.Text {
	if id, _ := ccm.Annotation(c.Service, ccm.BalancerID); id != "" {
		return say.F("The load balancer stays: the controller then only removes what it made for the Service there.")
	}
	return say.F("The controller then deletes the load balancer that it created for the Service.")
}

func quoted(parts []string) []string {
	out := make([]string, len(parts))
	for i, part := range parts {
		out[i] = ccm.Quote(part)
	}
	return out
}
