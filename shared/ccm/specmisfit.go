package ccm

import (
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/say"
)

// specMisfit returns what the spec asks for in vain according to a message in lower case; nil if the Service does not ask for it now.
func specMisfit(svc *corev1.Service, message string) (m *Misfit, named bool) {
	edit := "kubectl -n " + svc.Namespace + " edit service " + svc.Name
	ranges := svc.Spec.LoadBalancerSourceRanges
	bandwidthPackage, _ := Annotation(svc, bandwidthPackageID)
	switch {
	case strings.Contains(message, "resourcenotavailible.http"), strings.Contains(message, "specified zone did not have enough resource"):
		// Only CreateLoadBalancerHTTPListener and CreateLoadBalancerHTTPSListener return this, after the load balancer is created.
		return protocolMisfit(svc, "http", "https")
	case strings.Contains(message, "lbnotsupporttcpssl"), strings.Contains(message, "cannot create a tcp ssl type listener"):
		return protocolMisfit(svc, "tcpssl")
	case strings.Contains(message, "because of intranetloadbalancer"), strings.Contains(message, "operationdenied.intranetloadbalancer"):
		if bandwidthPackage == "" {
			return nil, true
		}
		return &Misfit{
			Finding: say.F("The annotation %s is %s, and the NLB is private. Only an NLB with public addresses can be in a bandwidth package.",
				bandwidthPackageID, Quote(bandwidthPackage)),
			Ask: say.F("Remove it: %s.", RemoveCommand(svc, bandwidthPackageID)).
				And("Or make the NLB public: %s. Its addresses change.", SetCommand(svc, "address-type", "internet")),
		}, true
	case strings.Contains(message, "resourcealreadyassociated.loadbalancer"),
		strings.Contains(message, "specified resource of loadbalancer is already associated"):
		if bandwidthPackage == "" {
			return nil, true
		}
		return &Misfit{
			Finding: say.F("The annotation %s is %s, but the NLB is in another bandwidth package already.", bandwidthPackageID, Quote(bandwidthPackage)),
			Ask: say.F("Take the NLB out of its bandwidth package in the NLB console. The controller then puts it into the other one.").
				And("Or name the package that it is in: %s.", SetCommand(svc, bandwidthPackageID, "CBWP-ID")).
				And("Or remove the annotation: %s.", RemoveCommand(svc, bandwidthPackageID)),
		}, true
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
		// It takes each range for IPv4 (buildSecurityGroupRules in nlbv2/loadbalancer.go).
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

// bandwidthPackageID is the annotation that puts an NLB into a bandwidth package (AttachCommonBandwidthPackageToLoadBalancer).
const bandwidthPackageID = "bandwidth-package-id"

func protocolMisfit(svc *corev1.Service, protocols ...string) (m *Misfit, named bool) {
	var ports []string
	for _, p := range svc.Spec.Ports {
		if protocol, _, _ := strings.Cut(strings.ToLower(ListenerKey(svc, p)), ":"); slices.Contains(protocols, protocol) {
			ports = append(ports, strconv.Itoa(int(p.Port)))
		}
	}
	if len(ports) == 0 {
		return nil, true
	}
	value, _ := Annotation(svc, "protocol-port")
	return &Misfit{
		Finding: say.F("Alibaba Cloud creates no %s listener on this load balancer. The annotation %s is %s and asks for one on these ports: %s.",
			strings.ToUpper(strings.Join(protocols, "/")), "protocol-port", Quote(value), say.List(ports, 10)),
		Ask: say.F("Make them TCP listeners: remove their pairs from the annotation, or all of it: %s.", RemoveCommand(svc, "protocol-port")).
			And("Clients and Pods then handle the protocol themselves. For HTTP and HTTPS at the load balancer, use an ALB Ingress.").
			And("Or ask Alibaba Cloud to allow such listeners for the account and region."),
	}, true
}
