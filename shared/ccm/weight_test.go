package ccm_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
)

func TestNodeWeight(t *testing.T) {
	t.Parallel()
	for version, want := range map[string][]int{
		"v1.9.3.163-g0000000-aliyun": {100, 100, 100},
		"v1.9.3.164-g2105d2e-aliyun": {16, 33, 50},
		"v1.9.3.275-g0000000-aliyun": {16, 33, 50},
		"v1.9.3.276-g372aa98-aliyun": {1, 2, 3},
		"v2.14.0":                    {1, 2, 3},
	} {
		v, ok := ccm.ParseVersion(version)
		if !ok {
			t.Fatal(version)
		}
		var got []int
		for pods := 1; pods <= 3; pods++ {
			got = append(got, ccm.NodeWeight(v, pods, 6))
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: %s", version, d)
		}
		if w := ccm.NodeWeight(v, 0, 6); w != 0 {
			t.Errorf("%s: a node without Pods has the weight %d", version, w)
		}
		if w := ccm.NodeWeight(v, 1, 200); w == 0 {
			t.Errorf("%s: a node with a Pod of 200 has no weight", version)
		}
	}
}

func TestLocalWeight(t *testing.T) {
	t.Parallel()
	shared := map[string]string{"id": "lb-1", "vgroup-port": "rsp-1:80"}
	for what, tt := range map[string]struct {
		weight, version string
		groups          bool
		want            []int // of nodes with 1, 2 and 3 Pods of 6
	}{
		"shared out":                      {"60", "v2.14.0", true, []int{10, 20, 30}},
		"each node gets 1 at least":       {"2", "v2.14.0", true, []int{1, 1, 1}},
		"none":                            {"0", "v2.14.0", true, []int{0, 0, 0}},
		"no number":                       {"much", "v2.14.0", true, []int{1, 2, 3}},
		"out of range":                    {"101", "v2.14.0", true, []int{1, 2, 3}},
		"the groups are the controller's": {"60", "v2.14.0", false, []int{1, 2, 3}},
		"an older release":                {"60", "v1.9.3.376-g0000000-aliyun", true, []int{1, 2, 3}},
	} {
		svc := &corev1.Service{}
		svc.Annotations = map[string]string{ccm.Prefix + "weight": tt.weight}
		if tt.groups {
			for key, value := range shared {
				svc.Annotations[ccm.Prefix+key] = value
			}
		}
		v, ok := ccm.ParseVersion(tt.version)
		if !ok {
			t.Fatal(tt.version)
		}
		var got []int
		for pods := 1; pods <= 3; pods++ {
			got = append(got, ccm.LocalWeight(svc, v, pods, 6))
		}
		if d := cmp.Diff(tt.want, got); d != "" {
			t.Errorf("%s: %s", what, d)
		}
	}
}
