package remedy_test

import (
	"testing"

	"github.com/lbremedy/lbremedy/shared/remedy"
)

func TestCount(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{0: "0 nodes are", 1: "1 node is", 2: "2 nodes are"} {
		if got := remedy.Count(n, "node") + " " + remedy.Are(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}
