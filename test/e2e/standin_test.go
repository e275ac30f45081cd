package e2e

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lbremedy/lbremedy/test/cluster"
	"github.com/lbremedy/lbremedy/test/sim/controller/standin"
)

// TestStandIn runs some scenarios of TestConformance with a stand-in as CCM_BIN, which is the simulated controller, so the outcomes have to
// be equal. This tests the comparison, and the flags, environment and configuration of a real controller's process.
func TestStandIn(t *testing.T) {
	c := cluster.Alone(t) // it syncs all Services
	bin := standin.Program(t)
	ran := 0
	for _, s := range append(clbScenarios(), nlbScenarios()...) {
		if !slices.Contains([]string{
			"synced", "vSwitch full", "raw error", "gone, touched", "protected from deletion", "no network interface", "NLB synced", "NLB no such load balancer",
		}, s.name) {
			continue
		}
		ran++
		t.Run(s.name, func(t *testing.T) {
			if diff := cmp.Diff(s.run(t, c, ""), s.run(t, c, bin)); diff != "" {
				t.Errorf("simulated controller (-) and the same one as a program (+) differ:\n%s", diff)
			}
		})
	}
	if ran != 8 {
		t.Errorf("%d scenarios have run", ran)
	}
}
