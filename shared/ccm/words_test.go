package ccm_test

import (
	"testing"

	"github.com/lbremedy/lbremedy/shared/ccm"
)

func TestCount(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{0: "0 nodes are", 1: "1 node is", 2: "2 nodes are"} {
		if got := ccm.Count(n, "node") + " " + ccm.Are(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

func TestClauses(t *testing.T) {
	t.Parallel()
	list := []string{"a", "b", "c"}
	for limit, want := range map[int]string{1: "a; and 2 more", 2: "a; b; and 1 more", 3: "a; b; c", 5: "a; b; c"} {
		if got := ccm.Clauses(list, limit); got != want {
			t.Errorf("%d: %q, want %q", limit, got, want)
		}
	}
}
