package doctor

import (
	"fmt"
	"testing"
	"time"

	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/say"
)

// The merging of many unknowns takes linear time.
func TestTogether(t *testing.T) {
	t.Parallel()
	const n = 20_000
	var all []doctor.Unknown
	for i := range n {
		about := doctor.About{Kind: doctor.Service, Namespace: "shop", Name: fmt.Sprint(i)}
		for _, check := range []string{"drift", "room"} {
			all = append(all, doctor.Unknown{Check: check, About: about, Why: say.F("the %s could not be read", "backends")})
		}
	}
	began := time.Now()
	if got := together(all, 5); len(got) != n || got[n-1].Check != "drift, room" {
		t.Errorf("%d of %d lines, the last of %s", len(got), n, got[len(got)-1].Check)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("it took %s", took)
	}
}
