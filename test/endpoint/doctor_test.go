package endpoint

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/test/cluster"
	"github.com/lbremedy/lbremedy/test/sim/fc"
)

// misspelled builds a world whose Service has an annotation that the controller does not
// know, which the doctor finds however new the Service is.
func misspelled(t *testing.T) *world {
	t.Helper()
	w := build(t)
	patch := []byte(`{"metadata":{"annotations":{"` + ccm.Prefix + `adress-type":"intranet"}}}`)
	if _, err := cluster.Join(t).Client().CoreV1().Services(w.svc.Namespace).Patch(t.Context(), w.svc.Name, types.MergePatchType, patch,
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	return w
}

// findings returns how many cases of the doctor ask somebody about the world's Service:
// the cluster has those of other tests, too.
func (w *world) findings(t *testing.T) int {
	t.Helper()
	n := 0
	err := w.stream.EachLast(t.Context(), stream.Cases, event.CaseSubject("c-1", string(w.svc.UID), "*"), func(m stream.Message) error {
		var r event.Record
		if err := json.Unmarshal(m.Data, &r); err != nil {
			return err
		}
		if strings.HasPrefix(r.Class, doctor.ClassPrefix) && r.Result == event.Asked {
			n++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// away returns the environment in which no cluster answers.
func away(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, []byte(`{"apiVersion":"v1","kind":"Config","clusters":[{"name":"a","cluster":{"server":"https://127.0.0.1:1"}}],`+
		`"contexts":[{"name":"a","context":{"cluster":"a"}}],"current-context":"a"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	return "LBREMEDY_KUBECONFIG=" + file
}

// once runs the program of the doctor as a CronJob does, and returns its exit code and log.
func (w *world) once(t *testing.T, args []string, env ...string) (int, string) {
	t.Helper()
	dir, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), filepath.Join(dir, "doctor"), args...)
	c.Env = append(append([]string{}, w.env...), env...)
	said, err := c.CombinedOutput()
	if err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	return c.ProcessState.ExitCode(), string(said)
}

// The program of the doctor as a function on a timer: Function Compute brings the event
// of its trigger as application/octet-stream, with the credentials of the function's
// role, and counts by x-fc-status whether to call again.
func TestDoctorTimer(t *testing.T) {
	t.Parallel()
	w := misspelled(t)
	f := w.startOf(t, "doctor", "FC_FUNCTION_NAME=lbremedy-doctor", "FC_CUSTOM_LISTEN_PORT=0")
	event := []byte(`{"triggerTime":"2026-05-04T12:00:00Z","triggerName":"timer","payload":""}`)
	role := map[string]string{
		"x-fc-control-path": "/invoke", "x-fc-request-id": "r-1", "x-fc-function-timeout": "630",
		"x-fc-access-key-id": w.key.AccessKeyID, "x-fc-access-key-secret": w.key.Secret, "x-fc-security-token": w.key.Token,
	}
	for _, path := range []string{"/initialize", "/invoke"} {
		a, said := f.post(t, http.DefaultClient, path, "application/octet-stream", event, role)
		if a.StatusCode/100 != 2 || a.Header.Get("x-fc-status") != "200" {
			t.Errorf("%s: %d, x-fc-status %s: %s", path, a.StatusCode, a.Header.Get("x-fc-status"), said)
		}
	}
	if w.findings(t) == 0 {
		t.Error("an annotation that the controller does not know is no case of the doctor")
	}
	if len(w.cloud.CallsOf("function")) == 0 {
		t.Error("no call came with the credentials of the invocation")
	}

	// NATS is away: the platform is to call again, and the log says why.
	w.nats.close()
	w.nats.deaden()
	a, said := f.post(t, http.DefaultClient, "/invoke", "application/octet-stream", event, role)
	if a.StatusCode != 503 || a.Header.Get("x-fc-status") != "404" || a.Header.Get("Retry-After") == "" {
		t.Errorf("without NATS: %d, x-fc-status %s: %s", a.StatusCode, a.Header.Get("x-fc-status"), said)
	}
	f.logged(t, `"msg":"call not answered".*"request":"r-1"`, 1)
	w.nats.open()
	stop(t, f)
	f.ends(t)

	// The Go runtime brings no HTTP: it is refused at the start, and not at the first call.
	code, said := w.once(t, nil, append(w.own(), fc.New(t).Environ("lbremedy-doctor")...)...)
	if code != 1 || !strings.Contains(said, "needs a custom runtime") {
		t.Errorf("under the Go runtime it ends with %d: %s", code, said)
	}
}

// The program as a container of Knative, called by a PingSource: a CloudEvent in binary
// mode, without a token.
func TestDoctorPing(t *testing.T) {
	t.Parallel()
	w := misspelled(t)
	f := w.startOf(t, "doctor", append(w.own(), "K_SERVICE=lbremedy-doctor", "PORT=0")...)
	ping := map[string]string{
		"Ce-Specversion": "1.0", "Ce-Type": "dev.knative.sources.ping", "Ce-Id": "1", "Ce-Source": "/apis/v1/namespaces/lbremedy/pingsources/lbremedy-doctor",
	}
	if a, said := f.post(t, http.DefaultClient, "/", "application/json", nil, ping); a.StatusCode != 204 {
		t.Errorf("a ping: %d, %s", a.StatusCode, said)
	}
	if w.findings(t) == 0 {
		t.Error("an annotation that the controller does not know is no case of the doctor")
	}
	a, err := http.Get(f.url + "/health/readiness")
	if err != nil {
		t.Fatal(err)
	}
	a.Body.Close()
	if a.StatusCode != 200 {
		t.Errorf("ready: %d", a.StatusCode)
	}
	stop(t, f)
	f.ends(t)
}

// The program as a CronJob runs it: once, and the Job fails where the cluster could not
// be looked at, and not for what was found there.
func TestDoctorOnce(t *testing.T) {
	t.Parallel()
	w := misspelled(t)
	if code, said := w.once(t, []string{"--once"}, w.own()...); code != 0 || w.findings(t) == 0 {
		t.Errorf("it ends with %d and %d cases: %s", code, w.findings(t), said)
	}
	asks := w.findings(t)
	for what, tt := range map[string]struct {
		args []string
		env  []string
		says string
	}{
		"another argument": {[]string{"--twice"}, w.own(), "--once, or none"},
		"no cluster ID":    {[]string{"--once"}, append(w.own(), "LBREMEDY_CLUSTER="), "no cluster is named"},
		"no cluster":       {[]string{"--once"}, append(w.own(), away(t)), "127.0.0.1:1"},
		"no NATS":          {[]string{"--once"}, append(w.own(), "LBREMEDY_NATS=nats://127.0.0.1:1"), "connect"},
	} {
		if code, said := w.once(t, tt.args, tt.env...); code != 1 || !strings.Contains(said, tt.says) {
			t.Errorf("%s: it ends with %d: %s", what, code, said)
		}
	}
	if n := w.findings(t); n != asks {
		t.Errorf("of %d cases %d still ask after nothing could be looked at", asks, n)
	}
}
