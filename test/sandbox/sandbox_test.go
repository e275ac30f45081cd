package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestRun(t *testing.T) {
	script := `IFS=:; for f in $LBREMEDY_SANDBOX; do echo "$f"; grep current-context "$f"; cat "$(dirname "$f")/etcd"; echo; done; exit 7`
	cmd := exec.Command(binary(t), "run", "--servers=2", "--fsync=false", "--", "sh", "-c", script)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 7 {
		t.Errorf("ended with %v, want the exit code of the command, 7", err)
	}
	for _, want := range []string{`"current-context": "lbremedy-sandbox"`, "\nhttp://127.0.0.1:"} {
		if n := strings.Count(string(out), want); n != 2 {
			t.Errorf("the command printed %s, want it to have %q twice", out, want)
		}
	}
	again := exec.Command(binary(t), "run", "--servers=2", "--fsync=false", "--", "sh", "-c", `echo $LBREMEDY_SANDBOX`)
	paths, err := again.Output()
	if err != nil {
		t.Fatal(err)
	}
	for path := range strings.SplitSeq(strings.TrimSpace(string(paths)), ":") {
		if !strings.Contains(string(out), path+"\n") {
			t.Errorf("the next run's server is at %s, and the first run's were: %s", path, out)
		}
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is left: %v", path, err)
		}
	}
}

// TestKilled checks that the servers do not outlive a sandbox that cannot clean up.
func TestKilled(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Log("only Linux ends children together with their parent")
		return
	}
	cmd := exec.Command(binary(t), "up", "--fsync=false")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var s server
	err = json.NewDecoder(bufio.NewReader(out)).Decode(&s)
	cmd.Process.Kill()
	cmd.Wait()
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(s.Dir)
	for _, address := range []string{s.Server, s.Etcd} {
		deadline := time.Now().Add(10 * time.Second)
		for listens(t, address) {
			if time.Now().After(deadline) {
				t.Fatalf("%s still listens", address)
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
}

func listens(t *testing.T, address string) bool {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", u.Host)
	if err != nil {
		return false
	}
	conn.Close()
	return true
}

func TestDamagedBuildIsNotUsed(t *testing.T) {
	entry := t.TempDir()
	built := map[string]uint32{}
	for _, p := range servers.programs {
		file := filepath.Join(entry, p.name)
		if err := os.WriteFile(file, []byte(p.name), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if built[p.name], err = sum(file); err != nil {
			t.Fatal(err)
		}
	}
	if servers.intact(entry) {
		t.Error("a build that did not end is used")
	}
	data, err := json.Marshal(built)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(entry, sums), data, 0o644); err != nil {
		t.Fatal(err)
	}
	if !servers.intact(entry) {
		t.Error("a whole build is not used")
	}
	if err := os.Truncate(filepath.Join(entry, "etcd"), 1); err != nil {
		t.Fatal(err)
	}
	if servers.intact(entry) {
		t.Error("a program that was cut is used")
	}
}

func TestFailureShowsTheLog(t *testing.T) {
	s := &server{Dir: t.TempDir(), bin: "/bin", opts: new(options)}
	c, err := s.spawn("sh", "-c", `echo "no such flag: --typo" >&2; exit 1`)
	if err != nil {
		t.Fatal(err)
	}
	err = c.ready(t.Context(), nil, ":not a URL")
	if err == nil || !strings.Contains(err.Error(), "exit status 1") || !strings.Contains(err.Error(), "no such flag: --typo") {
		t.Errorf("got %v, want how it ended and the last lines of its log", err)
	}
}

func TestTakenPortIsTriedAgain(t *testing.T) {
	s := &server{Dir: t.TempDir(), bin: "/bin", opts: new(options)}
	var tried []int
	err := s.onFreePorts(1, func(ports []int) error {
		tried = append(tried, ports[0])
		script := "sleep 60"
		if len(tried) == 1 {
			script = "echo 'listen tcp: bind: address already in use' >&2; exit 1"
		}
		c, err := s.spawn("sh", "-c", script)
		if err != nil || len(tried) == 2 {
			return err
		}
		return c.ready(t.Context(), nil, ":not a URL")
	})
	if err != nil || len(tried) != 2 || len(s.children) != 1 {
		t.Errorf("tried ports %v, %d processes are left: %v", tried, len(s.children), err)
	}
	if err := s.stop(); err != nil {
		t.Error(err)
	}
}

func binary(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "sandbox")
	cmd := exec.Command("go", "build", "-o", file, ".")
	cmd.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0")
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Run(); err != nil {
		t.Fatalf("build the sandbox: %v\n%s", err, log.String())
	}
	return file
}
