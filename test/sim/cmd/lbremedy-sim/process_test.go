package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/test/sim/controller/standin"
)

const programVariable = "LBREMEDY_SIM_TEST_PROGRAM"

func TestMain(m *testing.M) {
	standin.Main()
	if os.Getenv(programVariable) != "" {
		main()
	}
	os.Exit(m.Run())
}

type machine struct {
	testing.TB
	home string
}

func (m machine) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(m.Context(), os.Args[0], args...)
	cmd.Env = []string{programVariable + "=1", "HOME=" + m.home, "PATH=" + os.Getenv("PATH"), "ALIBABA_CLOUD_SECURITY_TOKEN=of somebody's"}
	return cmd
}

type running struct {
	*exec.Cmd
	announcement
	ready time.Duration // from before its start to the announcement
}

func (m machine) up(args ...string) running {
	m.Helper()
	r := running{Cmd: m.command(append([]string{"up", "-o", "json"}, args...)...)}
	r.Stderr = os.Stderr
	out, err := r.StdoutPipe()
	if err != nil {
		m.Fatal(err)
	}
	began := time.Now()
	if err := r.Start(); err != nil {
		m.Fatal(err)
	}
	if err := json.NewDecoder(out).Decode(&r.announcement); err != nil {
		m.Fatalf("it announced nothing: %v", err)
	}
	r.ready = time.Since(began)
	m.Cleanup(func() { _ = r.Process.Kill() }) // it has ended, or the test failed
	return r
}

func (r running) end(t testing.TB, s os.Signal) (int, time.Duration) {
	t.Helper()
	began := time.Now()
	if err := r.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
	err := r.Wait()
	if err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	return r.ProcessState.ExitCode(), time.Since(began)
}

// TestReadyAtOnce: the program starts within 100 ms. Because other programs run, the fastest attempt counts, or else its processor time.
func TestReadyAtOnce(t *testing.T) {
	m := machine{t, t.TempDir()}
	best, work := time.Hour, time.Hour
	for range 10 {
		r := m.up()
		if code, took := r.end(t, syscall.SIGTERM); code != 0 || took > 30*time.Second {
			t.Fatalf("SIGTERM: code %d after %v", code, took)
		}
		best, work = min(best, r.ready), min(work, r.ProcessState.UserTime()+r.ProcessState.SystemTime())
	}
	t.Logf("ready %v after the start of the process, which took %v of a processor from start to end", best, work)
	if min(best, work) > 100*time.Millisecond {
		t.Errorf("it was ready %v after its start", best)
	}
}

func BenchmarkReady(b *testing.B) {
	m := machine{b, b.TempDir()}
	var total time.Duration
	for b.Loop() {
		r := m.up()
		total += r.ready
		b.StopTimer()
		r.end(b, syscall.SIGTERM)
		b.StartTimer()
	}
	b.ReportMetric(float64(total.Microseconds())/1000/float64(b.N), "ready-ms")
}

func TestEnds(t *testing.T) {
	m := machine{t, t.TempDir()}
	record := filepath.Join(m.home, ".local/state/lbremedy-sim/default.json")
	for _, s := range []os.Signal{syscall.SIGTERM, os.Interrupt} {
		r := m.up()
		follow := m.command("calls", "--follow")
		if err := follow.Start(); err != nil {
			t.Fatal(err)
		}
		if code, _ := r.end(t, s); code != 0 {
			t.Errorf("%v: code %d", s, code)
		}
		if _, err := os.Stat(record); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%v: its address is left: %v", s, err)
		}
		if c, err := net.Dial("tcp", r.Address); err == nil {
			_ = c.Close()
			t.Errorf("%v: something listens at %s", s, r.Address)
		}
		var exit *exec.ExitError
		if err := follow.Wait(); !errors.As(err, &exit) || exit.ExitCode() != command.CodeFailed {
			t.Errorf("%v: what followed it ended with %v", s, err)
		}
	}
	r := m.up()
	if code, _ := r.end(t, syscall.SIGKILL); code != -1 {
		t.Errorf("kill -9: code %d", code)
	}
	out, err := m.command("ls").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "error: no simulation answers at "+r.Address) {
		t.Errorf("after kill -9: %s, %v", out, err)
	}
	again := m.up()
	if out, err := m.command("ls").CombinedOutput(); err != nil || !strings.Contains(string(out), "vsw-1") {
		t.Errorf("after a new start: %s, %v", out, err)
	}
	out, err = m.command("up", "--name", "second", "--listen", again.Address).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "address already in use") {
		t.Errorf("on a port that is taken: %s, %v", out, err)
	}
	if out, err := m.command("ls", "--name", "second").CombinedOutput(); err == nil || !strings.Contains(string(out), `no simulation "second" runs`) {
		t.Errorf("got %s, %v", out, err)
	}
	again.end(t, syscall.SIGTERM)
}

func TestShell(t *testing.T) {
	m := machine{t, t.TempDir()}
	sh := func(script string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", script, os.Args[0])
		cmd.Env, cmd.Stderr = m.command().Env, os.Stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	got := sh(`"$0" up > "$HOME/out" & pid=$!
eval "$("$0" env --wait 30s)"
echo "$SLB_ENDPOINT ${ALIBABA_CLOUD_SECURITY_TOKEN-none} $LBREMEDY_CLOUD_SCHEME"
"$0" status -o json | grep -c "/$LBREMEDY_SIM/"
. "$HOME/out" && echo "$SLB_ENDPOINT"
eval "$("$0" env --unset)" && echo "${SLB_ENDPOINT-none}"
kill $pid && wait $pid && echo ended`)
	said := strings.Split(got, "\n")
	address, _, _ := strings.Cut(said[0], " ")
	want := []string{address + " none HTTP", "2", address, "none", "ended", ""}
	if diff := cmp.Diff(want, said); diff != "" || !strings.HasPrefix(address, "127.0.0.1:") {
		t.Errorf("the shell said (+):\n%s", diff)
	}
}

func TestCompletionScripts(t *testing.T) {
	m := machine{t, t.TempDir()}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		script, err := m.command("completion", shell).Output()
		if err != nil || !bytes.Contains(script, []byte("lbremedy-sim")) {
			t.Fatalf("%s: %d bytes, %v", shell, len(script), err)
		}
		path, err := exec.LookPath(shell)
		if err != nil || shell == "powershell" {
			t.Logf("%s is not here: its script is not read", shell)
			continue
		}
		check := exec.CommandContext(t.Context(), path, "-n")
		check.Stdin = bytes.NewReader(script)
		if out, err := check.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%s does not read its script: %v\n%s", shell, err, out)
		}
	}
}
