package ccm

import "fmt"

// DeleteProtected reports whether the cloud refuses to delete the load balancer until somebody turns
// its deletion protection off.
func (i *Instance) DeleteProtected() bool {
	return i.CLB != nil && i.CLB.DeleteProtection || i.NLB != nil && i.NLB.DeleteProtection
}

// ProtectCommand returns the command by which a person turns the deletion protection of a load balancer
// of a region on.
func (i *Instance) ProtectCommand(region string) string { return i.protection(region, "on", "true") }

// UnprotectCommand returns the command by which a person turns it off.
func (i *Instance) UnprotectCommand(region string) string {
	return i.protection(region, "off", "false")
}

// protection returns the command that sets it to the one for a CLB, or the other for an NLB.
func (i *Instance) protection(region, classic, network string) string {
	if i.NLB != nil {
		return fmt.Sprintf("aliyun nlb UpdateLoadBalancerProtection --RegionId %s --LoadBalancerId %s --DeletionProtectionEnabled %s", region, i.ID, network)
	}
	return fmt.Sprintf("aliyun slb SetLoadBalancerDeleteProtection --RegionId %s --LoadBalancerId %s --DeleteProtection %s", region, i.ID, classic)
}
