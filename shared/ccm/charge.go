package ccm

import "fmt"

// The annotations that set how a CLB is billed, and its size if billed by spec; then the values of the first, which are case-sensitive.
const (
	ChargeType = "instance-charge-type"
	ChargeSpec = "spec"
	PayByLCU   = "PayByCLCU"
	PayBySpec  = "PayBySpec"
)

// SmallSpec is the smallest size of CLBs billed by spec. All sizes accept network interfaces.
const SmallSpec = "slb.s1.small"

// Shared reports whether a CLB, without spec and billing by LCU, accepts no network interfaces as backends. known is false if the API shows neither.
func (i *Instance) Shared() (shared, known bool) {
	if i.NLB != nil || i.CLB.Spec != "" {
		return false, true
	}
	known = i.CLB.ChargeType != ""
	return known && i.CLB.ChargeType != PayByLCU, known
}

// ConvertCommand returns the command that changes a CLB to billing by LCU, which interrupts its traffic and cannot be undone.
func ConvertCommand(region, id string) string {
	return fmt.Sprintf("aliyun slb ModifyLoadBalancerInstanceChargeType --RegionId %s --LoadBalancerId %s --InstanceChargeType %s", region, id, PayByLCU)
}

// FirstChargeType returns the first release that reads the charge type.
func FirstChargeType() Version { return Version{Major: 2, Minor: 4} }

// FirstPayByLCU returns the first release that asks for billing by LCU if a Service names neither a charge type nor a spec.
func FirstPayByLCU() Version { return v2121 }
