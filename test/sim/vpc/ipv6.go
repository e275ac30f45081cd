package vpc

import (
	"net/netip"

	"github.com/lbremedy/lbremedy/test/sim/core"
)

// ipv6Block returns the IPv6 block of a VPC, or "" if its vSwitches have none. A VPC has a /56, and each of its vSwitches a /64:
// https://www.alibabacloud.com/help/en/vpc/user-guide/enable-or-disable-ipv6-communication
func (s *State) ipv6Block(vpc string) string {
	for _, v := range core.Sorted(s.VSwitches) {
		if p, err := netip.ParsePrefix(v.IPv6); err == nil && v.VPC == vpc && p.Bits() >= 56 {
			return netip.PrefixFrom(p.Addr(), 56).Masked().String()
		}
	}
	return ""
}
