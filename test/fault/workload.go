package main

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/lbremedy/lbremedy/test/testbed"
)

// failing are the fixtures in use, by name. Their failures are independent: none changes shared state.
var failing = []string{
	"tag-lost", "tag-lost-change", "tag-lost-nlb", "vswitch-full", "fixed-zone", "fixed-group", "fixed-type", "words-interval", "balancer-none",
}

func fixtures() []testbed.Fixture {
	return slices.DeleteFunc(testbed.All(), func(f testbed.Fixture) bool { return !slices.Contains(failing, f.Name) })
}

// classes returns the workload's classes, sorted, with those for API servers that refuse the controller's writes or do not answer.
func classes() []string {
	all := []string{"unclassified", "write-refused"}
	for _, f := range fixtures() {
		all = append(all, f.Class)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func workload(r *rand.Rand, history string, n int) []testbed.Fixture {
	all := fixtures()
	var out []testbed.Fixture
	for i := range n {
		f := all[r.IntN(len(all))]
		if i < 2 { // writes to the cloud in every history
			f = all[slices.IndexFunc(all, func(f testbed.Fixture) bool { return f.Name == failing[i] })]
		}
		out = append(out, f.As(fmt.Sprintf("%s-%d-%s", history, i, f.Name)))
	}
	return out
}
