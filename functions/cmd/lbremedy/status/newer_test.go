package status_test

import (
	"strings"
	"testing"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/stream/embedded"
	"github.com/lbremedy/lbremedy/test/nats"
	"github.com/lbremedy/lbremedy/test/operator"
	"github.com/lbremedy/lbremedy/test/sim"
)

// Status and doctor report once that the controller is newer than every known release.
func TestNewerController(t *testing.T) {
	t.Parallel()
	sc := operator.NewTestbed(t)
	server := nats.Start(t, embedded.Options{Token: "sesame"})
	sc.Env["LBREMEDY_NATS"], sc.Env["LBREMEDY_NATS_TOKEN"] = server.URL(), "sesame"
	sc.Wants(t, 0, "", "", "up", "--setup")
	for runs, times := range map[string]int{"v2.12.1": 0, ccm.Newest().String(): 0, "v2.15.0": 1, "v9.0.0": 1} {
		sc.Cloud.Edit(func(s *sim.State) { s.Cluster.Addons[ccm.DaemonSet] = runs })
		for command, says := range map[string]string{"status": "newer than v2.14.0, the newest release",
			"doctor --explain --severity info": "and lbremedy knows releases up to v2.14.0"} {
			got := sc.Run(t.Context(), strings.Fields(command)...)
			if said := strings.Count(strings.Join(strings.Fields(got.Out), " "), says); said != times {
				t.Errorf("%s under %s says %d times that it is newer: %s %s", command, runs, said, got.Out, got.Err)
			}
		}
	}
}
