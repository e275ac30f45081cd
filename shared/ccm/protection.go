package ccm

import (
	"fmt"

	"github.com/lbremedy/lbremedy/shared/say"
)

// DeleteProtected reports whether the load balancer has deletion protection.
func (i *Instance) DeleteProtected() bool {
	return i.CLB != nil && i.CLB.DeleteProtection || i.NLB != nil && i.NLB.DeleteProtection
}

// ProtectionReason returns the reason of the modification protection: ManagedByACK if the controller set it.
func (i *Instance) ProtectionReason() string {
	if i.NLB != nil {
		return i.NLB.ProtectionReason
	}
	return i.CLB.ProtectionReason
}

// Subscribed reports whether the load balancer is paid for until a date, before which the cloud does not delete it.
func (i *Instance) Subscribed() bool { return i.CLB != nil && i.CLB.PayType == "PrePay" }

// WhyProtected says why the load balancer of a Service that is being deleted has deletion protection on.
func (i *Instance) WhyProtected() say.Text {
	on := say.F("Its %s %s (%s) has deletion protection on.", i.Kind(), i.ID, i.Address)
	if i.NLB != nil {
		return on.And("Since v2.9.1, the controller turns that off before it deletes, so somebody or something turned it on again. Older versions leave it on.")
	}
	return on.And("The controller turns that off before it deletes, so somebody or something turned it on again.")
}

// MadeFor reports whether both tags of the load balancer say that the controller of this cluster made it for the Service.
func (i *Instance) MadeFor(c *View) bool {
	return i.Tags[NameTag] == DefaultName(c.Service) && i.Tags[ClusterTag] == c.Cluster
}

// ProtectCommand returns the command that turns the deletion protection of the load balancer on.
func (i *Instance) ProtectCommand(region string) string { return i.protection(region, "on", "true") }

// UnprotectCommand returns the command that turns the deletion protection off.
func (i *Instance) UnprotectCommand(region string) string {
	return i.protection(region, "off", "false")
}

func (i *Instance) protection(region, classic, network string) string {
	if i.NLB != nil {
		return fmt.Sprintf("aliyun nlb UpdateLoadBalancerProtection --RegionId %s --LoadBalancerId %s --DeletionProtectionEnabled %s", region, i.ID, network)
	}
	return fmt.Sprintf("aliyun slb SetLoadBalancerDeleteProtection --RegionId %s --LoadBalancerId %s --DeleteProtection %s", region, i.ID, classic)
}
