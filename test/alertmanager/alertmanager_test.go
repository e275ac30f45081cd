// Package alertmanager sends what the sink of that kind has sent, as recorded by shared/ticket, to the real Alertmanager. It is a
// Go module of its own: Alertmanager would raise versions that the programs depend on. That module lacks the pages of its
// console, so the test builds a copy with empty ones.
package alertmanager

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

type alert struct {
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	StartsAt    time.Time         `json:"startsAt,omitzero"`
	EndsAt      time.Time         `json:"endsAt"`
}

type post struct {
	Step   string
	At     time.Time
	Alerts []alert
}

func run(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("go", args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off", "GOFLAGS=-buildvcs=false", "CGO_ENABLED=0")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, errs.String())
	}
	return strings.TrimSpace(string(out))
}

func start(t *testing.T, hook string) string {
	source := filepath.Join(t.TempDir(), "source")
	run(t, ".", "mod", "download", "github.com/prometheus/alertmanager") // otherwise it has no folder on a new machine
	if err := os.CopyFS(source, os.DirFS(run(t, ".", "list", "-m", "-f", "{{.Dir}}", "github.com/prometheus/alertmanager"))); err != nil {
		t.Fatal(err)
	}
	for _, pages := range []string{"elm", "mantine"} {
		dir := filepath.Join(source, "ui/app/dist", pages)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "index.html"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	program := filepath.Join(t.TempDir(), "alertmanager")
	run(t, source, "build", "-trimpath", "-o", program, "./cmd/alertmanager")

	config := filepath.Join(t.TempDir(), "config.yaml")
	text := fmt.Sprintf("route: {receiver: hook, group_by: [...], group_wait: 0s, group_interval: 1s, repeat_interval: 24h}\n"+
		"receivers: [{name: hook, webhook_configs: [{url: %q, send_resolved: true}]}]\n", hook)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	cmd := exec.Command(program, "--config.file="+config, "--storage.path="+t.TempDir(), "--web.listen-address="+address, "--cluster.listen-address=")
	cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	until(t, func() string {
		answer, err := http.Get("http://" + address + "/-/ready")
		if err != nil {
			return err.Error()
		}
		answer.Body.Close()
		return strings.TrimPrefix(answer.Status, "200 OK")
	})
	return "http://" + address
}

func until(t *testing.T, wrong func() string) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(time.Minute)
	for said := wrong(); said != ""; said = wrong() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatal(said)
		}
	}
}

// The sink keeps one alert, which fires, changes, ends and fires again. Alertmanager notifies of the beginning and of the end only.
func TestAlerts(t *testing.T) {
	told := make(chan string, 100)
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var m struct {
			Status string
			Alerts []alert
		}
		if err := json.NewDecoder(r.Body).Decode(&m); err != nil || len(m.Alerts) != 1 {
			told <- fmt.Sprintf("%d alerts, %v", len(m.Alerts), err)
			return
		}
		told <- m.Status + " " + m.Alerts[0].Annotations["summary"]
	}))
	defer hook.Close()
	address := start(t, hook.URL)
	firing := func() []alert {
		t.Helper()
		answer, err := http.Get(address + "/api/v2/alerts")
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		var all []alert
		if err := json.NewDecoder(answer.Body).Decode(&all); err != nil {
			t.Fatal(err)
		}
		return all
	}
	file, err := os.Open("../../shared/ticket/testdata/alertmanager.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	want := map[string]struct{ summary, told string }{
		"opened":     {"The vSwitch is full (vsw-1), 1 Service", "firing The vSwitch is full (vsw-1), 1 Service"},
		"sent again": {"The vSwitch is full (vsw-1), 1 Service", ""},
		"joined":     {"The vSwitch is full (vsw-1), 2 Services", ""},
		"closed":     {"", "resolved "},
		"reopened":   {"Again: The vSwitch is full (vsw-1), 1 Service", "firing Again: The vSwitch is full (vsw-1), 1 Service"},
	}
	steps := 0
	lines := bufio.NewScanner(file)
	for ; lines.Scan(); steps++ {
		var p post
		if err := json.Unmarshal(lines.Bytes(), &p); err != nil {
			t.Fatal(err)
		}
		shift := time.Since(p.At)
		for i := range p.Alerts {
			a := &p.Alerts[i]
			a.StartsAt, a.EndsAt = a.StartsAt.Add(shift), a.EndsAt.Add(shift)
		}
		body, err := json.Marshal(p.Alerts)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.Post(address+"/api/v2/alerts", "application/json", bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		said, _ := io.ReadAll(answer.Body)
		answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			t.Fatalf("%s: status %d, %s", p.Step, answer.StatusCode, said)
		}
		until(t, func() string {
			all := firing()
			if want[p.Step].summary == "" && len(all) == 0 || len(all) == 1 && all[0].Annotations["summary"] == want[p.Step].summary {
				return ""
			}
			return fmt.Sprintf("%s: %+v fires", p.Step, all)
		})
		if text := want[p.Step].told; text != "" {
			if got := <-told; !strings.HasPrefix(got, text) {
				t.Errorf("%s: it told %q, want %q", p.Step, got, text)
			}
		}
	}
	if steps != len(want) || len(told) > 0 {
		t.Errorf("%d steps, and %d notifications that nobody expects", steps, len(told))
	}
}
