package up

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	checks "github.com/lbremedy/lbremedy/functions/doctor"
	"github.com/lbremedy/lbremedy/shared/control"
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/engine"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/observe"
	"github.com/lbremedy/lbremedy/test/nats"
	"github.com/lbremedy/lbremedy/test/shell"
)

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

// A process that dies in its runs leaves only its lock: neither that nor a new process is a completed run.
func TestDiesInItsRuns(t *testing.T) {
	t.Parallel()
	env := &engine.Env{Cluster: "c1", Who: "worker", Stream: nats.Streams(t)}
	if _, held, err := control.Lock(t.Context(), env.Stream, "doctor.c1", "the dead one", time.Minute); err != nil || !held {
		t.Fatal(held, err)
	}
	m := observe.New("v1", "c1")
	said := m.Doctor(nil, time.Hour)
	says := func(at time.Time) {
		t.Helper()
		if err := env.Stream.Put(t.Context(), event.DoctorKey("c1"), []byte(at.UTC().Format(time.RFC3339))); err != nil {
			t.Fatal(err)
		}
		shell.Until(t, "the metrics say when the last one ended well", func() bool {
			w := httptest.NewRecorder()
			m.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
			return strings.Contains(w.Body.String(), fmt.Sprintf("lbremedy_doctor_last_timestamp_seconds{cluster=\"c1\"} %d\n", at.Unix()))
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	u := &upRun{Program: &cli.Program{Err: t.Output(), Now: time.Now}, every: time.Millisecond}
	go func() { ended <- u.scheduled(ctx, &doctor.ScheduledRun{Env: env}, said) }()
	says(time.Unix(1000, 0))
	says(time.Unix(2000, 0)) // as another process does
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
