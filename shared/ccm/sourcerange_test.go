package ccm

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/cloud"
)

func TestCovered(t *testing.T) {
	for _, tt := range []struct {
		block string
		by    []string
		want  bool
	}{
		{"203.0.113.0/24", []string{"203.0.113.0/24"}, true},
		{"203.0.113.0/24", []string{"203.0.112.0/23"}, true},
		{"203.0.113.0/24", []string{"203.0.113.0/25", "203.0.113.128/25"}, true},
		{"203.0.113.0/24", []string{"203.0.113.0/25", "203.0.113.128/26"}, false},
		{"203.0.113.0/24", []string{"203.0.113.7/32"}, false},
		{"203.0.113.7/32", []string{"203.0.113.6/32"}, false},
		{"203.0.113.6/31", []string{"203.0.113.6/32", "203.0.113.7/32"}, true},
		{"0.0.0.0/0", []string{"0.0.0.0/1", "128.0.0.0/1"}, true},
		{"0.0.0.0/0", []string{"::/0"}, false},
		{"::/0", []string{"0.0.0.0/0"}, false},
		{"2001:db8::/32", []string{"2001:db8::/33", "2001:db8:8000::/33"}, true},
		{"2001:db8::/32", nil, false},
	} {
		var by []netip.Prefix
		for _, s := range tt.by {
			by = append(by, netip.MustParsePrefix(s))
		}
		if got := covered(netip.MustParsePrefix(tt.block), by); got != tt.want {
			t.Errorf("%s by %q: %t", tt.block, tt.by, got)
		}
	}
}

// A Service may have as many ranges as an object takes: the time must not grow with their square.
func TestCoveredByMany(t *testing.T) {
	var by []netip.Prefix
	for i := range 60_000 {
		by = append(by, netip.PrefixFrom(netip.AddrFrom4([4]byte{0, 0, byte(i >> 8), byte(i)}), 32))
	}
	began := time.Now()
	if covered(netip.MustParsePrefix("0.0.0.0/0"), by) || !covered(netip.MustParsePrefix("0.0.0.0/17"), by) {
		t.Error("the first half of the addresses 0.0.0.0/16 is covered, and not everything")
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("it took %s", took)
	}
}

func TestSourceRules(t *testing.T) {
	svc := &corev1.Service{}
	svc.Namespace, svc.Name, svc.UID = "shop", "web", "0f1e2d3c-0000-4000-8000-000000000001"
	svc.Spec.LoadBalancerSourceRanges = []string{"203.0.113.0/24", "198.51.100.7/32"}
	svc.Spec.Ports = []corev1.ServicePort{{Port: 80, Protocol: corev1.ProtocolTCP}}
	ranges, rules := RangesOf(svc), SourceRules(svc, "c1")
	groups := func(rules []cloud.SecurityRule) []cloud.SecurityGroup {
		return []cloud.SecurityGroup{{ID: "sg-1", Rules: rules}}
	}
	if got := SourceGroupName(svc); got != "k8s-nlb-a0f1e2d3c000040008000000000000001"[:40] {
		t.Errorf("the group is called %s", got)
	}
	if is := ranges.Breaches(svc, Family{}, groups(rules)); !is.None() {
		t.Errorf("the controller's own rules: %+v", is)
	}
	for i, want := range []Breach{{Refused: ranges.Blocks[:1]}, {Refused: ranges.Blocks[1:]}, {Open: true}} {
		less := slices.Delete(slices.Clone(rules), i, i+1)
		is := ranges.Breaches(svc, Family{}, groups(less))
		if is.Open != want.Open || !slices.Equal(is.Refused, want.Refused) || len(is.Wider) > 0 {
			t.Errorf("without rule %d: %+v", i, is)
		}
		if lacks := Without(less, rules); len(lacks) != 1 || lacks[0] != rules[i] {
			t.Errorf("without rule %d it lacks %+v", i, lacks)
		}
	}
	if is := ranges.Breaches(svc, Family{Six: true}, groups(rules)); !is.Open {
		t.Errorf("for IPv6: %+v", is)
	}
}
