package vpc

import (
	"encoding/binary"
	"math/bits"
	"net/netip"

	"github.com/lbremedy/lbremedy/test/sim/core"
)

// publicRanges are reserved for documentation and benchmarks (RFC 5737, RFC 2544): nothing answers there.
var publicRanges = []netip.Prefix{
	netip.MustParsePrefix("203.0.113.0/24"), netip.MustParsePrefix("198.51.100.0/24"),
	netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("198.18.0.0/15"),
}

// Public takes a public address. It reports false if all are taken.
func (s *State) Public() (string, bool) {
	for _, p := range publicRanges {
		if a, ok := s.next(p.String(), p, ""); ok {
			return a, true
		}
	}
	return "", false
}

// Private takes an address of a vSwitch without changing VSwitch.Free. It reports false if all are taken.
func (s *State) Private(vswitch string) (string, bool) {
	v := s.VSwitches[vswitch]
	if v == nil {
		return "", false
	}
	p, err := netip.ParsePrefix(v.CIDR)
	if err != nil {
		return "", false
	}
	return s.next(v.ID, p, v.ID)
}

// IPv6 takes an IPv6 address.
func (s *State) IPv6(vswitch string) (string, bool) {
	return s.next("ipv6", netip.MustParsePrefix("2001:db8::/64"), vswitch)
}

// next takes the first free address of a block after the last assigned one, wrapping around once.
func (s *State) next(key string, p netip.Prefix, vswitch string) (string, bool) {
	size := 1 << min(32-4, p.Addr().BitLen()-p.Bits())
	for range size {
		n := s.Serial["address "+key] + 1
		if n >= size-3 {
			n = 1
		}
		s.Serial["address "+key] = n
		a := add(p.Masked().Addr(), n)
		if s.Take(a, vswitch) {
			return a.String(), true
		}
	}
	return "", false
}

func add(a netip.Addr, n int) netip.Addr {
	b := a.As16()
	lo, carry := bits.Add64(binary.BigEndian.Uint64(b[8:]), uint64(n), 0)
	binary.BigEndian.PutUint64(b[8:], lo)
	binary.BigEndian.PutUint64(b[:8], binary.BigEndian.Uint64(b[:8])+carry)
	if a.Is4() {
		return netip.AddrFrom16(b).Unmap()
	}
	return netip.AddrFrom16(b)
}

// A spot is an address in a VPC, or a public one; private addresses repeat across VPCs.
type spot struct {
	vpc  string
	addr netip.Addr
}

func (s *State) spot(a netip.Addr, vswitch string) spot {
	if v := s.VSwitches[vswitch]; v != nil {
		return spot{v.VPC, a}
	}
	return spot{"", a}
}

// Take marks an address as used in the VPC of a vSwitch, or as public if vswitch is empty. It reports false if it is already used.
func (s *State) Take(a netip.Addr, vswitch string) bool {
	at := s.spot(a, vswitch)
	_, used := s.taken[at]
	s.taken[at] = struct{}{}
	return !used
}

// Release releases an address of a vSwitch, or a public one if vswitch is empty.
func (s *State) Release(address, vswitch string) {
	if a, err := netip.ParseAddr(address); err == nil {
		delete(s.taken, s.spot(a, vswitch))
	}
	if v := s.VSwitches[vswitch]; v != nil {
		s.Spend(v, 1)
	}
}

// Spend changes the number of a vSwitch's free addresses.
func (s *State) Spend(v *VSwitch, n int) {
	core.Leave(s.freeTrail, v.ID, s.Now(), s.Lag.FreeIP, *v.Free)
	v.Free = new(*v.Free + n)
}

func (s *State) seenFree(v *VSwitch) int { return s.freeTrail[v.ID].At(s.Now(), *v.Free) }
