package ccm

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/say"
)

// EnforcesRanges returns the first release that enforces loadBalancerSourceRanges, on NLBs that it creates and nowhere else (nlbv2/loadbalancer.go).
func EnforcesRanges() Version { return withRanges }

// A Family is IPv4 or IPv6.
type Family struct {
	Six bool
}

func (f Family) everyone() netip.Prefix {
	if f.Six {
		return netip.MustParsePrefix("::/0")
	}
	return netip.MustParsePrefix("0.0.0.0/0")
}

func (f Family) source(r cloud.SecurityRule) (netip.Prefix, bool) {
	if f.Six {
		return block(r.Source6)
	}
	return block(r.Source)
}

func block(s string) (netip.Prefix, bool) {
	s = strings.TrimSpace(s)
	if p, err := netip.ParsePrefix(s); err == nil {
		return p.Masked(), true
	}
	ip, err := netip.ParseAddr(s)
	if err != nil {
		return netip.Prefix{}, false
	}
	return netip.PrefixFrom(ip, ip.BitLen()), true
}

// SourceRanges are the blocks to which a Service limits its clients.
type SourceRanges struct {
	Written []string // as written on the Service; empty without a limit
	Key     string   // the annotation that holds them; empty: in the spec
	Blocks  []netip.Prefix
	Strange []string // blocks that cannot be read
}

// RangesOf returns the source ranges in the Service's spec, or else in the annotation that preceded the field
// (https://pkg.go.dev/k8s.io/api/core/v1#AnnotationLoadBalancerSourceRangesKey).
func RangesOf(svc *corev1.Service) SourceRanges {
	r := SourceRanges{Written: svc.Spec.LoadBalancerSourceRanges}
	if annotated := svc.Annotations[corev1.AnnotationLoadBalancerSourceRangesKey]; len(r.Written) == 0 && strings.TrimSpace(annotated) != "" {
		r.Key = corev1.AnnotationLoadBalancerSourceRangesKey
		for s := range strings.SplitSeq(annotated, ",") {
			r.Written = append(r.Written, strings.TrimSpace(s))
		}
	}
	for _, s := range r.Written {
		if b, ok := block(s); ok {
			r.Blocks = append(r.Blocks, b)
		} else {
			r.Strange = append(r.Strange, s)
		}
	}
	return r
}

// Of returns the blocks of one family.
func (r SourceRanges) Of(f Family) []netip.Prefix {
	return slices.DeleteFunc(slices.Clone(r.Blocks), func(b netip.Prefix) bool { return b.Addr().Is6() != f.Six })
}

// Open reports whether the ranges let in everyone of a family.
func (r SourceRanges) Open(f Family) bool { return covered(f.everyone(), r.Blocks) }

func covered(b netip.Prefix, by []netip.Prefix) bool {
	var inside []netip.Prefix
	for _, o := range by {
		switch {
		case !o.Overlaps(b):
		case o.Bits() <= b.Bits():
			return true
		default:
			inside = append(inside, o)
		}
	}
	if len(inside) == 0 {
		return false
	}
	low, high := halves(b)
	return covered(low, inside) && covered(high, inside)
}

func halves(b netip.Prefix) (low, high netip.Prefix) {
	n := b.Bits()
	at := b.Addr().AsSlice()
	at[n/8] |= 1 << (7 - n%8)
	second, _ := netip.AddrFromSlice(at)
	return netip.PrefixFrom(b.Addr(), n+1), netip.PrefixFrom(second, n+1)
}

// SourceGroupName returns the name, also the name tag, of the security group that the controller creates for source ranges.
func SourceGroupName(svc *corev1.Service) string { return "k8s-nlb-" + DefaultName(svc) }

// SourceGroupText returns the description of that group and its rules. The controller removes no rule with another one.
func SourceGroupText(svc *corev1.Service, cluster string) string {
	return fmt.Sprintf("k8s.%s.%s.%s", svc.Namespace, svc.Name, cluster)
}

// SourceRules returns the rules of that group: one that accepts each range of the spec, taken for IPv4, and a last one that drops the rest of IPv4.
func SourceRules(svc *corev1.Service, cluster string) []cloud.SecurityRule {
	rule := cloud.SecurityRule{Protocol: allProtocols, Ports: allPorts, Priority: 1, Description: SourceGroupText(svc, cluster)}
	var list []cloud.SecurityRule
	for _, r := range svc.Spec.LoadBalancerSourceRanges {
		rule.Source = r
		list = append(list, rule)
	}
	rule.Source, rule.Priority, rule.Drop = Family{}.everyone().String(), 100, true
	return append(list, rule)
}

const (
	allProtocols = "ALL"
	allPorts     = "-1/-1"
)

// Without returns the rules that the list lacks, or has with other ports, protocol or priority. Descriptions do not count, since they let nobody in.
func Without(list, rules []cloud.SecurityRule) []cloud.SecurityRule {
	return slices.DeleteFunc(slices.Clone(rules), func(r cloud.SecurityRule) bool {
		return slices.ContainsFunc(list, func(o cloud.SecurityRule) bool {
			return o.Source == r.Source && o.Drop == r.Drop && o.Protocol == r.Protocol && o.Ports == r.Ports && o.Priority == r.Priority
		})
	})
}

// SayRule says what a rule does.
func SayRule(r cloud.SecurityRule) say.Text {
	source := cmp.Or(r.Source, r.Source6, r.Others)
	if r.Drop {
		return say.F("drop %s (protocol %s, ports %s, priority %d)", source, r.Protocol, r.Ports, r.Priority)
	}
	return say.F("accept %s (protocol %s, ports %s, priority %d)", source, r.Protocol, r.Ports, r.Priority)
}

// A GroupRule is a rule of a security group.
type GroupRule struct {
	Group string // ID
	cloud.SecurityRule
}

// A Breach is how the security groups of an NLB deviate from the source ranges.
type Breach struct {
	Open    bool           // no rule drops the rest, so everyone gets in
	Wider   []GroupRule    // rules that accept addresses outside of the ranges
	Refused []netip.Prefix // ranges whose clients are dropped, at least some
}

// None reports whether the groups do what the ranges say.
func (b Breach) None() bool { return !b.Open && len(b.Wider)+len(b.Refused) == 0 }

// Breaches compares the ranges of a family with the rules of the NLB's security groups. The lowest priority number wins, and of two equal
// ones the drop; without a matching rule traffic is accepted
// (https://www.alibabacloud.com/help/en/slb/network-load-balancer/user-guide/add-an-nlb-instance-to-a-security-group).
func (r SourceRanges) Breaches(svc *corev1.Service, f Family, groups []cloud.SecurityGroup) Breach {
	var out Breach
	if r.Open(f) {
		return out
	}
	ranges, refused := r.Of(f), map[netip.Prefix]bool{}
	for _, at := range spansOf(svc) {
		last := 0 // priority of the rule that drops the rest; 0 without one
		var accepting []GroupRule
		for _, g := range groups {
			for _, rule := range g.Rules {
				source, ok := f.source(rule)
				switch {
				case rule.Drop && ok && source == f.everyone() && at.within(rule) && (last == 0 || rule.Priority < last):
					last = rule.Priority
				case !rule.Drop && (ok || rule.Others != "") && at.meets(rule):
					accepting = append(accepting, GroupRule{g.ID, rule})
				}
			}
		}
		if last == 0 {
			return Breach{Open: true}
		}
		var let []netip.Prefix
		for _, rule := range accepting {
			if rule.Priority >= last {
				continue
			}
			source, ok := f.source(rule.SecurityRule)
			if ok && at.within(rule.SecurityRule) {
				let = append(let, source)
			}
			if (!ok || !covered(source, ranges)) && !slices.Contains(out.Wider, rule) {
				out.Wider = append(out.Wider, rule)
			}
		}
		for _, b := range ranges {
			if !refused[b] && !covered(b, let) {
				refused[b] = true
				out.Refused = append(out.Refused, b)
			}
		}
	}
	return out
}

type span struct {
	protocol    string // "TCP" or "UDP"; empty: any
	first, last int
}

func spansOf(svc *corev1.Service) []span {
	var list []span
	for _, p := range svc.Spec.Ports {
		protocol, ports, _ := strings.Cut(networkKey(svc, p), ":")
		first, last := ends(ports)
		if first == 0 && last == 0 {
			continue
		}
		if protocol == "TCPSSL" || protocol == "" {
			protocol = "TCP"
		}
		list = append(list, span{protocol, first, last})
	}
	if len(list) == 0 {
		list = append(list, span{first: 1, last: 65535})
	}
	return list
}

// ports returns the ports of a rule for the span's protocol; empty for another protocol. known is false if they cannot be read.
func (s span) ports(r cloud.SecurityRule) (first, last int, known bool) {
	switch {
	case r.Protocol == allProtocols:
		return 1, 65535, true
	case s.protocol != "" && r.Protocol != s.protocol || r.Protocol != "TCP" && r.Protocol != "UDP":
		return 0, -1, true
	}
	from, to, _ := strings.Cut(r.Ports, "/")
	first, err := strconv.Atoi(from)
	last, err2 := strconv.Atoi(to)
	return first, last, err == nil && err2 == nil && first > 0
}

// meets reports whether a rule covers, or may cover, a part of the span.
func (s span) meets(r cloud.SecurityRule) bool {
	first, last, known := s.ports(r)
	return !known || first <= s.last && s.first <= last
}

func (s span) within(r cloud.SecurityRule) bool {
	first, last, known := s.ports(r)
	return known && first <= s.first && s.last <= last && (s.protocol != "" || r.Protocol == allProtocols)
}

// RangeNeeds returns the RAM actions that a release calls in a cluster only for the source ranges of an NLB, sorted.
func RangeNeeds(v Version, cluster cloud.Cluster) []string {
	class := NLBClass
	svc := corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, LoadBalancerClass: &class}}
	without := Needs(v, InUse(cluster, []corev1.Service{svc}, nil))
	svc.Spec.LoadBalancerSourceRanges = []string{"192.0.2.0/24"}
	return slices.DeleteFunc(Needs(v, InUse(cluster, []corev1.Service{svc}, nil)), func(action string) bool { return slices.Contains(without, action) })
}
