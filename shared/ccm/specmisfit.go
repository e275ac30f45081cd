package ccm

import (
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/say"
)

// specMisfit returns what the spec of the Service asks of its load balancer that this cannot have, where a message of the
// controller, in lower case, is about that. It is nil if the Service does not ask for it now.
func specMisfit(svc *corev1.Service, message string) (m *Misfit, named bool) {
	edit := "kubectl -n " + svc.Namespace + " edit service " + svc.Name
	ranges := svc.Spec.LoadBalancerSourceRanges
	switch {
	case strings.Contains(message, "sctp protocol is not supported"): // pkg/controller/service/clbv1/listeners.go
		var ports []string
		for _, p := range svc.Spec.Ports {
			if strings.HasPrefix(ListenerKey(svc, p), "sctp:") {
				ports = append(ports, strconv.Itoa(int(p.Port)))
			}
		}
		if len(ports) == 0 {
			return nil, true
		}
		return &Misfit{
			Finding: say.F("A CLB has no listeners for SCTP, and these ports of the Service have that protocol: %s.", say.List(ports, 10)),
			Ask: say.F("Remove these ports, or give them the protocol TCP or UDP: %s.", edit).
				And("NLBs have no listeners for SCTP either. For SCTP, use a Service of the type NodePort."),
		}, true
	case strings.Contains(message, "authorizationlimitexceed"):
		if len(ranges) == 0 {
			return nil, true
		}
		return &Misfit{
			Finding: say.F("The Service has %s, and its security group takes no more rules. Each range needs a rule.", say.Count(len(ranges), "source range")),
			Ask: say.F("Combine the ranges of spec.loadBalancerSourceRanges into fewer: %s.", edit).
				And("Or apply for more rules per security group in the quota center, https://quotas.console.alibabacloud.com."),
		}, true
	case strings.Contains(message, "invalidsourcecidrip.malformed"):
		// It takes each range for IPv4 (buildSecurityGroupRules in pkg/controller/service/nlbv2/loadbalancer.go of v2.14.0).
		bad := slices.DeleteFunc(slices.Clone(ranges), func(s string) bool {
			b, ok := block(s)
			return ok && b.Addr().Is4()
		})
		if len(bad) == 0 {
			return nil, true
		}
		return &Misfit{
			Finding: say.F("The controller enforces source ranges of IPv4 only. The Service has others: %s.", say.List(bad, 10)),
			Ask: say.F("Remove them from spec.loadBalancerSourceRanges: %s.", edit).
				And("To limit IPv6 clients, name a security group that has rules for them: %s.", SetCommand(svc, "security-group-ids", "SG-ID")),
		}, true
	}
	return nil, false
}
