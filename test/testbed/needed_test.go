package testbed

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/test/fixture"
)

func TestNeeded(t *testing.T) {
	t.Parallel()
	var services []corev1.Service
	for _, edit := range []func(*corev1.Service){
		fixture.Notes("instance-charge-type", "", "cert-id", "", "external-ip-type", "eip"),
		fixture.Edits(fixture.Network(""), fixture.Notes("security-group-ids", "", "bandwidth-package-id", "", "ipv6-address-type", "")),
	} {
		svc := corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer}}
		svc.Annotations = map[string]string{}
		edit(&svc)
		services = append(services, svc)
	}
	want := []string{"vpc:DescribeVSwitches"}
	for _, network := range []string{"flannel", "terway-eniip"} {
		for _, v := range []ccm.Version{{Major: 2, Minor: 4}, {Major: 2, Minor: 12, Patch: 1}} {
			want = append(want, ccm.Needs(v, ccm.InUse(cloud.Cluster{Network: network}, services, nil))...)
		}
	}
	slices.Sort(want)
	if diff := cmp.Diff(slices.Compact(want), slices.Sorted(slices.Values(needed))); diff != "" {
		t.Error(diff)
	}
}
