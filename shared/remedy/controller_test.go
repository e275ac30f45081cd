package remedy_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/remedy"
)

func TestParseVersion(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]remedy.Version{
		"v2.12.1": {2, 12, 1}, "v2.12.1-aliyun.1": {2, 12, 1}, "v1.9.3.380-gd6d0962-aliyun": {1, 9, 3}, "v2.4.0+dirty": {2, 4, 0},
		"": {}, "2.12.1": {}, "v2": {}, "v2.4": {}, "v2.4.": {}, "v2.x.1": {}, "latest": {}, "v99999999999999999999.1.1": {},
	} {
		got, ok := remedy.ParseVersion(text)
		if got != want || ok != (want != remedy.Version{}) {
			t.Errorf("%q is %s, %t", text, got, ok)
		}
	}
	if v := (remedy.Version{2, 9, 1}); !v.Before(remedy.Version{2, 10, 0}) || v.Before(v) || v.String() != "v2.9.1" {
		t.Errorf("%s is not what it is", v)
	}
}

// What a version calls depends on what the cluster uses of it.
func TestNeeds(t *testing.T) {
	t.Parallel()
	nlb := remedy.NLBClass
	use := func(net string, edits ...func(*corev1.Service)) remedy.Features {
		var all []corev1.Service
		for _, edit := range edits {
			svc := corev1.Service{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{}}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer}}
			edit(&svc)
			all = append(all, svc)
		}
		return remedy.InUse(cloud.Cluster{Network: net}, all)
	}
	ranges := func(svc *corev1.Service) {
		svc.Spec.LoadBalancerClass, svc.Spec.LoadBalancerSourceRanges = &nlb, []string{"10.0.0.0/8"}
	}
	for _, tt := range []struct {
		action   string
		from, to remedy.Version // the first version that calls it, and the first that doesn't any more
		use      remedy.Features
		without  remedy.Features // features with which it is never called
	}{
		{"slb:CreateLoadBalancer", remedy.Version{1, 9, 3}, remedy.Version{}, use(""), nil},
		{"slb:AddTags", remedy.Version{1, 9, 3}, remedy.Version{2, 5, 0}, use(""), nil},
		{"slb:ModifyLoadBalancerInstanceChargeType", remedy.Version{2, 4, 0}, remedy.Version{}, use(""), nil},
		{"nlb:ListAsynJobs", remedy.Version{2, 12, 1}, remedy.Version{}, use(""), nil},
		{"vpc:CreateRouteEntries", remedy.Version{2, 11, 2}, remedy.Version{}, use("flannel"), use("terway-eniip")},
		{"ecs:DescribeNetworkInterfaces", remedy.Version{1, 9, 3}, remedy.Version{}, use("terway-eniip"), use("flannel")},
		{"ecs:DescribeNetworkInterfaces", remedy.Version{1, 9, 3}, remedy.Version{}, use("flannel", func(svc *corev1.Service) {
			svc.Annotations["service.beta.kubernetes.io/backend-type"] = "eni"
		}), nil},
		{"vpc:DescribeEipAddresses", remedy.Version{1, 9, 3}, remedy.Version{}, use("", notes("external-ip-type", "eip")), use("", notes("external-ip-type", "lb"))},
		{"nlb:CreateLoadBalancer", remedy.Version{2, 5, 0}, remedy.Version{}, use("", network("")), use("")},
		{"ecs:CreateSecurityGroup", remedy.Version{2, 14, 0}, remedy.Version{}, use("", ranges), use("", network(""), func(svc *corev1.Service) {
			ranges(svc)
			svc.Spec.Type = corev1.ServiceTypeClusterIP
		})},
	} {
		called := func(v remedy.Version, use remedy.Features) bool {
			return slices.Contains(remedy.Needs(v, use), tt.action)
		}
		before := tt.from
		before.Patch--
		newest := remedy.Version{99, 0, 0}
		if !remedy.Called(tt.action) || !called(tt.from, tt.use) || called(newest, tt.use) != (tt.to == remedy.Version{}) ||
			tt.from.Major > 1 && called(before, tt.use) || tt.to != (remedy.Version{}) && called(tt.to, tt.use) {
			t.Errorf("%s is not called from %s up to %s", tt.action, tt.from, tt.to)
		}
		if tt.without != nil && called(newest, tt.without) {
			t.Errorf("%s is called without the feature", tt.action)
		}
	}
	if remedy.Called("slb:DoAsYouLike") {
		t.Error("an action that nobody knows is called")
	}
}
