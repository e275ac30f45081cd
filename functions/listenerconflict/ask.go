package listenerconflict

import (
	"slices"
	"strings"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

func ask(c *remedy.Case, lb *ccm.Instance, free []string, taken []int32, theirs []ccm.Listener) say.Text {
	ways := say.F("Give the Service another port. These are free on %s: %s.", lb.ID, strings.Join(free, ", "))
	if len(free) == 0 {
		ways = say.F("Give the Service another port: one below %d that no listener of %s uses.", slices.Min(taken), lb.ID)
	}
	_, reused := ccm.Annotation(c.Service, ccm.BalancerID)
	switch {
	case reused && ccm.Synced(c.Service):
		// Without the annotation, the controller would search for the load balancer with the address, and fail.
		ways = ways.And("Or give it its own load balancer: delete the Service and recreate it without the annotation %s, which changes its address.",
			ccm.AnnotationKey(c.Service, ccm.BalancerID))
	case reused:
		ways = ways.And("Or give it its own load balancer: %s.", ccm.RemoveCommand(c.Service, ccm.BalancerID))
	}
	if zones, _ := ccm.Annotation(c.Service, ccm.ZoneMap); reused && lb.NLB != nil && zones == "" {
		ways = ways.And("The new load balancer also needs the annotation zone-maps, which says where to create it.")
	}
	ways = ways.And("Or delete the listener if nobody uses it: %s.", c.DeleteListenerCommand(lb, theirs[0])).
		And("Its traffic stops at once, and a Service that it belongs to recreates it.")
	ranged := func(l ccm.Listener) bool { return l.ByHand() && l.Port != l.Last }
	switch force, _ := ccm.Annotation(c.Service, ccm.ForceOverride); {
	case !reused || !slices.ContainsFunc(theirs, ccm.Listener.ByHand):
	case force == "true":
		ways = ways.And(`The annotation %s is "true", but does not help here.`, ccm.ForceOverride).
			And("The controller takes over only listeners with the same protocol and port.")
	case !slices.ContainsFunc(theirs, ranged): // a range of ports cannot be taken over
		ways = ways.And("Or let the controller take over the listener: %s.", ccm.SetCommand(c.Service, ccm.ForceOverride, "true")).
			And("It then replaces the settings of every listener on the Service's ports with those of the annotations.")
	}
	return ways
}
