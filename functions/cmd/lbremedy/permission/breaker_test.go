package permission_test

import (
	"testing"

	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/control"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/test/operator"
)

// One command re-enables a class in one cluster, never in all.
func TestBreakerOfOneCluster(t *testing.T) {
	t.Parallel()
	c, s := operator.Embed(t)
	fail := func(cluster string) {
		t.Helper()
		if _, err := control.RecordFailedFix(t.Context(), s, cluster, "quota", "test.1", 1, say.F("It is a test.")); err != nil {
			t.Fatal(err)
		}
	}
	stopped := func(want ...string) {
		t.Helper()
		all, err := control.Breakers(t.Context(), s, "")
		if err != nil || len(all) != len(want) {
			t.Fatalf("the breakers are %v, %v, want those of %v", all, err, want)
		}
		for i := range want {
			if all[i].Cluster != want[i] {
				t.Fatalf("the breakers are %v, want those of %v", all, want)
			}
		}
	}
	fail("c1")
	wants(t, c.Run(t.Context(), "breaker", "close", "quota"), 0, "quota may write again in cluster c1.")
	stopped()

	wants(t, c.Run(t.Context(), "up", "--setup", "--cluster", "c-other"), 0)
	fail("c1")
	fail("c-other")
	wants(t, c.Run(t.Context(), "breaker", "close", "quota"), command.CodeWrong, "NATS knows several clusters, c-other, c1: name one with --cluster")
	stopped("c-other", "c1")
	wants(t, c.Run(t.Context(), "breaker", "close", "quota", "--cluster", "c1"), 0, "quota may write again in cluster c1.")
	stopped("c-other")
}
