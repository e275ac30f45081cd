package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/lbremedy/lbremedy/shared/hand"
	"github.com/lbremedy/lbremedy/test/shell"
	"github.com/lbremedy/lbremedy/test/testbed"
)

// remote is write with a function in a separate process, one Service at a time: two signed HTTP calls before each write, one after.
func (r *rig) remote(b *testing.B) {
	const class, warm, single = "vswitch-ip-exhausted", 10, 200
	key, err := hand.NewKey()
	if err != nil {
		b.Fatal(err)
	}
	dir, port := b.TempDir(), shell.Port(b)
	routes, file := filepath.Join(dir, "routes.yaml"), filepath.Join(dir, "engine.pem")
	if err := os.WriteFile(routes, fmt.Appendf(nil, "routes: {%s: {url: \"http://127.0.0.1:%s\"}}\n", class, port), 0o600); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(file, key.PEM(), 0o600); err != nil {
		b.Fatal(err)
	}
	u := r.startUp(b, func(tb *testbed.Testbed) {
		env := append(tb.Environ("", ""), "LBREMEDY_ENGINE_KEYS="+key.Public(), "PORT="+port, "FC_CUSTOM_LISTEN_PORT=", "FC_RUNTIME_API=")
		function := guarded(b, r.program(b, "functions/vswitchipexhausted/cmd/vswitchipexhausted"), env)
		await(b, time.Minute, func() error { return function.asked("http://127.0.0.1:" + port + "/readyz") })
	}, "--routes", routes, "--engine-key", file)
	defer u.end()
	s := r.street(b, u, warm+single+100)
	took := s.singles(b, warm, single)
	r.note(b, "one p50", "ms", ms(quantile(took, 0.5)))
	r.note(b, "one p99", "ms", ms(quantile(took, 0.99)))
	s.stages(b, warm, warm+single)
	r.note(b, "100 at once", "ms", ms(s.burst(b, warm+single, 100)))
}

// singles makes Services fail one after the other, and returns each one's time from the answer to the creation of its Event to its write.
func (s *street) singles(b *testing.B, warm, n int) []time.Duration {
	b.Helper()
	var took []time.Duration
	for i := range warm + n {
		if i%50 == 0 {
			s.room(i)
		}
		took = append(took, s.single(b, i))
	}
	return took[warm:]
}

func (s *street) single(b *testing.B, i int) time.Duration {
	b.Helper()
	must := func(err error) {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
	}
	must(s.fail(b.Context(), i, "SyncLoadBalancerFailed"))
	at := s.written.wait(b, 30*time.Second, s.uid(i))[0]
	must(s.sync(b.Context(), i))
	s.settled.wait(b, 30*time.Second, s.uid(i))
	return at.Sub(s.answered[i])
}
