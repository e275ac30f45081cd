package backendquota

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

// total returns how many backends the load balancer needs.
func (s *state) total() int { return s.rest.Total() + s.Demand(s.Mode, nil) }

// plan says what the load balancer needs, and asks if that is too much. The limit may be unknown.
func (s *state) plan(limit cloud.Quota, name string) remedy.Plan {
	if limit.Name == "" {
		return unknown(s.says(limit), s.LB, name)
	}
	plan := remedy.Plan{Finding: s.says(limit), Cause: s.LB}
	if left := cycle - s.c.Waited(); left > 0 {
		plan.Finding = plan.Finding.And("The controller removes backends that no longer exist and adds the others again. lbremedy waits a minute for that.")
		plan.Wait = max(time.Second, min(left, s.c.PollInterval()))
	} else if float64(s.total()) > limit.Total {
		plan.Ask = s.ways(int(limit.Total))
	}
	return plan
}

// attached says behind how many load balancers the servers are, and asks if that is too much.
func (s *state) attached(plan remedy.Plan, n int, limit cloud.Quota) remedy.Plan {
	balancers := say.Count(n, "load balancer")
	if s.Mode == ccm.PodMode || float64(n) <= limit.Total {
		plan.Finding = plan.Finding.And("By these figures, all backends fit. The servers are behind at most %s, and the limit is %.0f (%s).",
			balancers, limit.Total, ccm.LimitAttached.Name)
		return compare(s.c, plan)
	}
	plan.Cause = ccm.LimitAttached.Name
	plan.Finding = plan.Finding.And("All backends fit, but the Services of the cluster put its nodes behind %s, and a server can be behind at most %.0f (%s).",
		balancers, limit.Total, ccm.LimitAttached.Name)
	plan.Ask = say.F("Let several Services share a load balancer through the annotation %s.", ccm.Prefix+"id").
		And("Or use only some nodes for each Service, with the annotation %s or externalTrafficPolicy Local.", ccm.Prefix+"backend-label")
	return plan
}

// compare completes a plan where no figure explains the failure.
func compare(c *remedy.Case, plan remedy.Plan) remedy.Plan {
	plan.Wait = c.PollInterval()
	plan.Ask = say.F("Compare the limits in the quota center with what the load balancer has in the console.").
		And("Check the controller's log for the group that it could not fill: %s.", c.LogQuery())
	return plan
}

// unknown is the plan if the quota center has no limit of that name.
func unknown(figures say.Text, lb, limit string) remedy.Plan {
	return remedy.Plan{
		Finding: figures.And("The quota center has no limit %s in this region, so the maximum is unknown.", limit),
		Cause:   lb,
		Ask: say.F("Look up in the quota center how many backends a load balancer can have and how many load balancers a server can be behind.").
			And("Apply for more."),
	}
}

// says returns the figures. A limit without a name is not known.
func (s *state) says(limit cloud.Quota) say.Text {
	var ports []say.Text
	for _, g := range s.Groups {
		ports = append(ports, say.F("%d for port %d", s.Needs(s.Mode, g.Port, nil), g.Port.Port))
	}
	now, rest := s.Attached(), s.rest.Total()
	has := say.Count(now+rest, "backend")
	text := say.F("The load balancer %s has %s.", s.LB, has)
	if limit.Name != "" {
		text = say.F("The load balancer %s has %s, and the limit is %.0f (%s).", s.LB, has, limit.Total, limit.Name)
	}
	text = text.And("The Service needs %s there (%s) and has %d.", say.Count(s.Demand(s.Mode, nil), "backend"), say.Clauses(ports, 5), now)
	switch s.Mode {
	case ccm.PodMode:
		text = text.And("Its backends are its ready Pods.")
	case ccm.LocalMode:
		text = text.And("Its backends are the nodes of its ready Pods, because of externalTrafficPolicy Local.")
	default:
		text = text.And("Its backends are all nodes that the controller does not exclude.")
	}
	if rest > 0 {
		text = text.And("The other backends belong to %s.", say.Clauses(s.sharers(), 5))
	}
	return text.And("In total, the load balancer needs %s.", say.Count(s.total(), "backend"))
}

// sharers names the owners of the load balancer's other backends.
func (s *state) sharers() []say.Text {
	var out []say.Text
	for _, service := range slices.Sorted(maps.Keys(s.rest.Others)) {
		out = append(out, say.F("%s (%d)", service, s.rest.Others[service]))
	}
	if s.rest.Manual > 0 {
		out = append(out, say.F("groups that a person created (%d)", s.rest.Manual))
	}
	if s.rest.Own > 0 {
		out = append(out, say.F("former ports of the Service (%d)", s.rest.Own))
	}
	return out
}

// ways names each change that would make the Service fit, with its effect. In ENI mode it
// therefore says nothing about nodes.
func (s *state) ways(limit int) say.Text {
	svc, rest := s.Service, s.rest.Total()
	var out say.Text
	if n := s.Demand(ccm.LocalMode, nil); s.Mode == ccm.ClusterMode && n > 0 && rest+n <= limit {
		out = out.And("Use only nodes with ready Pods of the Service as backends, which makes %d in total: %s.",
			rest+n, ccm.TrafficPolicyCommand(svc, corev1.ServiceExternalTrafficPolicyLocal)).
			And("The Pods then see the addresses of the clients. Traffic for a node whose Pods are gone is lost until the controller removes the node.")
	}
	if label, nodes, n := s.Label(limit - rest); label != "" {
		value := label
		if now, _ := ccm.Annotation(svc, "backend-label"); now != "" {
			value = now + "," + label
		}
		out = out.And("Use only nodes with the label %s (%s) as backends, which makes %d in total: %s.",
			label, say.Count(nodes, "node"), rest+n, ccm.SetCommand(svc, "backend-label", value))
	}
	id, _ := ccm.Annotation(svc, "id")
	if n := s.Demand(s.Mode, nil); id != "" && rest > 0 && n <= limit {
		out = out.And("Give the Service its own load balancer, which has room for %s: delete it and recreate it without the annotation %s.",
			say.Count(n, "backend"), ccm.Prefix+"id").
			And("Its address changes, and the load balancer costs money.")
	}
	if len(out) == 0 {
		return say.F("Split the Service into several, each with its own load balancer and with fewer ports or Pods.")
	}
	return out
}
