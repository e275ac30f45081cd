package controller_test

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"testing"
)

func TestRealDiesWithUs(t *testing.T) {
	r := killed(t)
	if line, err := r.ReadString('\n'); !errors.Is(err, io.EOF) || line != "" {
		t.Errorf("the controller wrote %q, %v", line, err)
	}
}

// killed runs this test binary as the parent of a controller, kills it, and returns a pipe that the controller holds open.
func killed(t *testing.T) *bufio.Reader {
	t.Helper()
	up := pipe(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), victimVariable+"="+script(t, `exec 3> `+up+`; echo up >&3; exec tail -f /dev/null`), "TMPDIR="+t.TempDir())
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(up)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	r := bufio.NewReader(f)
	if line, err := r.ReadString('\n'); err != nil || line != "up\n" {
		t.Fatalf("the controller wrote %q, %v", line, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	return r
}
