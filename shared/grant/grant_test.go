package grant

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSet(t *testing.T) {
	got := Set([]Grant{TagSLB, GetServices, DescribeVSwitches}, nil, []Grant{ListEndpointSlices, TagSLB, GetServices})
	want := []Grant{GetServices, ListEndpointSlices, TagSLB, DescribeVSwitches}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"slb:TagResources", "vpc:DescribeVSwitches"}, Actions(append(got, TagSLB))); diff != "" {
		t.Error(diff)
	}
	if got := Set(); len(got) != 0 {
		t.Errorf("nothing became %v", got)
	}
}

func TestGrant(t *testing.T) {
	for _, tt := range []struct {
		grant   Grant
		text    string
		product string
		ram     bool
	}{
		{DescribeVSwitches, "vpc:DescribeVSwitches", "vpc", true},
		{PatchServicesStatus, "patch services/status", "", false},
		{GetDeployments, "get deployments.apps", "", false},
	} {
		if g := tt.grant; g.String() != tt.text || g.Product() != tt.product || g.RAM() != tt.ram {
			t.Errorf("got %q of %q, RAM: %t", g, g.Product(), g.RAM())
		}
	}
}

func TestParse(t *testing.T) {
	for _, g := range []Grant{TagSLB, DescribeVSwitches, GetServices, ListEndpointSlices, PatchServicesStatus} {
		if got, err := Parse(g.String()); err != nil || got != g {
			t.Errorf("%s became %+v (%v)", g, got, err)
		}
	}
	for _, text := range []string{"", "get", "get ", " services", ":", "slb:", ":TagResources", "get slb:TagResources:"} {
		if got, err := Parse(text); err == nil && got.String() != text {
			t.Errorf("%q became %+v", text, got)
		}
	}
}
