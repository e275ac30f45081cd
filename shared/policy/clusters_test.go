package policy

import (
	"testing"

	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/test/nats"
)

// The policy and the sinks of one cluster hold for no other.
func TestInForceByCluster(t *testing.T) {
	s := nats.Streams(t)
	check := func(cluster string, want remedy.Mode, sinks int) {
		t.Helper()
		p, err := InForce(t.Context(), s, cluster)
		if err != nil || p.Mode != want {
			t.Errorf("%s: the mode is %q, %v; want %q", cluster, p.Mode, err, want)
		}
		told, err := SinksInForce(t.Context(), s, cluster)
		if err != nil || len(told) != sinks {
			t.Errorf("%s: %d sinks, %v; want %d", cluster, len(told), err, sinks)
		}
	}
	publish := func(cluster string, mode remedy.Mode, sinks ...Sink) {
		t.Helper()
		if err := Publish(t.Context(), s, cluster, remedy.Policy{Mode: mode}); err != nil {
			t.Fatal(err)
		}
		if err := PublishSinks(t.Context(), s, cluster, sinks); err != nil {
			t.Fatal(err)
		}
	}
	publish("c1", remedy.Fix, Sink{Name: "e", Kind: Event})
	check("c1", remedy.Fix, 1)
	check("c2", remedy.Observe, 0)

	publish("c2", remedy.Observe)
	check("c2", remedy.Observe, 0)
	check("c1", remedy.Fix, 1)
}
