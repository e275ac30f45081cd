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

// What a survey found is counted by check and severity, whatever it is about.
func TestSurveyed(t *testing.T) {
	t.Parallel()
	m := observe.New("v1", "c1")
	said := m.Survey(checkIDs(checks.Checks()), time.Hour)
	room := func(s doctor.Severity, id string) doctor.Finding {
		return doctor.Finding{Check: "room", Severity: s, About: doctor.OfBalancer(id)}
	}
	surveyed(said, time.Unix(1000, 0), doctor.Result{
		Took: time.Second, Findings: []doctor.Finding{room(doctor.Critical, "a"), room(doctor.Critical, "b"), room(doctor.Info, "c")},
		Unknown: []doctor.Unknown{{Check: "drift"}},
	})
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
	for _, want := range []string{
		`lbremedy_survey_findings{check="room",cluster="c1",severity="critical"} 2`, `lbremedy_survey_findings{check="room",cluster="c1",severity="info"} 1`,
		`lbremedy_survey_unknown{check="drift",cluster="c1"} 1`, `lbremedy_survey_unknown{check="room",cluster="c1"} 0`, `lbremedy_survey_last_timestamp_seconds{cluster="c1"} 1000`,
	} {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("%q is missing", want)
		}
	}
}
