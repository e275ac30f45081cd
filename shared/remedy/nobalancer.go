package remedy

import (
	"fmt"

	"github.com/lbremedy/lbremedy/shared/ccm"
)

// NoBalancer is the plan for a failure about a load balancer that Bound does not
// find: there is nothing to compare the annotations with. What is, as the end of a
// sentence, is what a person would compare, such as "its resource group".
func (c *Case) NoBalancer(what string) Plan {
	name := ccm.DefaultName(c.Service)
	finding := fmt.Sprintf("Not exactly one load balancer of the Service was found, neither by the tag %s=%s nor by the name %s, so that there is nothing to compare its annotations with. An empty list is no proof that there is none.", ccm.NameTag, name, name)
	if id, _ := ccm.Annotation(c.Service, "id"); id != "" {
		finding = fmt.Sprintf("The annotation id names %s, and the API knows no such load balancer in %s, so that there is nothing to compare the other annotations with.", ccm.Quote(id), c.Cloud.Region())
	}
	ask := fmt.Sprintf("Find the load balancer of the Service in the console and compare %s with the annotations of the Service.", what)
	if address := ccm.Address(c.Service); address != "" {
		ask += fmt.Sprintf(" The Service's address is %s.", address)
	}
	return Plan{Finding: finding, Ask: ask}
}

// WrongController is the plan for a failure of CLBs on a Service that an NLB serves. The
// finding says what the event is about.
func WrongController(finding string) Plan {
	return Plan{
		Finding: finding,
		Ask:     "Find out which controller wrote the event: the CLB controller should leave a Service of the class " + ccm.NLBClass + " alone.",
	}
}
