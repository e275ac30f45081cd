package up

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	checks "github.com/lbremedy/lbremedy/functions/doctor"
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/observe"
)

// What a scheduled run found is counted by check and severity, whatever it is about.
func TestReport(t *testing.T) {
	t.Parallel()
	m := observe.New("v1", "c1")
	said := m.Doctor(checkIDs(checks.Checks()), time.Hour)
	room := func(s doctor.Severity, id string) doctor.Finding {
		return doctor.Finding{Check: "room", Severity: s, About: doctor.OfBalancer(id)}
	}
	report(said, time.Unix(1000, 0), doctor.Result{
		Took: time.Second, Findings: []doctor.Finding{room(doctor.Critical, "a"), room(doctor.Critical, "b"), room(doctor.Info, "c")},
		Unknown: []doctor.Unknown{{Check: "drift"}},
	})
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
	for _, want := range []string{
		`lbremedy_doctor_findings{check="room",cluster="c1",severity="critical"} 2`, `lbremedy_doctor_findings{check="room",cluster="c1",severity="info"} 1`,
		`lbremedy_doctor_unknown{check="drift",cluster="c1"} 1`, `lbremedy_doctor_unknown{check="room",cluster="c1"} 0`,
		`lbremedy_doctor_last_timestamp_seconds{cluster="c1"} 1000`,
	} {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("%q is missing", want)
		}
	}
}
