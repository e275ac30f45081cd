package remedy_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lbremedy/lbremedy/shared/remedy"
)

// Three nodes with 1, 2 and 3 Pods, by generation of the controller.
func TestNodeWeight(t *testing.T) {
	t.Parallel()
	for version, want := range map[string][]int{
		"v1.9.3.163-g0000000-aliyun": {100, 100, 100},
		"v1.9.3.164-g2105d2e-aliyun": {16, 33, 50},
		"v1.9.3.275-g0000000-aliyun": {16, 33, 50},
		"v1.9.3.276-g372aa98-aliyun": {1, 2, 3},
		"v2.14.0":                    {1, 2, 3},
	} {
		v, ok := remedy.ParseVersion(version)
		if !ok {
			t.Fatal(version)
		}
		var got []int
		for pods := 1; pods <= 3; pods++ {
			got = append(got, remedy.NodeWeight(v, pods, 6))
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: %s", version, d)
		}
		if w := remedy.NodeWeight(v, 0, 6); w != 0 {
			t.Errorf("%s: a node without Pods has the weight %d", version, w)
		}
		if w := remedy.NodeWeight(v, 1, 200); w == 0 {
			t.Errorf("%s: a node with a Pod of 200 has no weight", version)
		}
	}
}
