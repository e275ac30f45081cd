package remedy

import (
	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/say"
)

// NoBalancer returns the plan if Bound does not find the load balancer to compare annotations with. what ends a sentence, such as "its resource group".
func (c *Case) NoBalancer(what say.Text) Plan {
	name := ccm.DefaultName(c.Service)
	p := Plan{
		Finding: say.F("Neither the tag %[1]s=%[2]s nor the name %[2]s finds exactly one load balancer of the Service, so its annotations cannot be compared "+
			"with anything.", ccm.NameTag, name).
			And("An empty list does not prove that there is none."),
		Ask: say.F("Find the load balancer of the Service in the console and compare %s with the annotations of the Service.", what),
	}
	if id, _ := ccm.Annotation(c.Service, "id"); id != "" {
		p.Finding = say.F("The annotation id names %s, but the API knows no such load balancer in %s, so the other annotations cannot be compared with anything.",
			ccm.Quote(id), c.Cloud.Region())
	}
	if address := ccm.Address(c.Service); address != "" {
		p.Ask = p.Ask.And("The Service's address is %s.", address)
	}
	return p
}

// WrongController returns the plan for a failure of CLBs on a Service that an NLB serves.
func WrongController(finding say.Text) Plan {
	return Plan{
		Finding: finding,
		Ask:     say.F("Find out which controller wrote the Event. The CLB controller should ignore Services of the class %s.", ccm.NLBClass),
	}
}
