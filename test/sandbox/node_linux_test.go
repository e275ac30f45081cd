package main

import (
	"bufio"
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

type system struct {
	mounts, groups, links []string
	files                 []string // folders of a node's programs outside a node
}

func look(t *testing.T) system {
	t.Helper()
	var s system
	read := func(name string) []string {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Split(strings.TrimSpace(string(b)), "\n")
	}
	s.mounts = read("/proc/self/mountinfo")
	all, err := hierarchies()
	if err != nil {
		t.Fatal(err)
	}
	patterns := []string{"/run/*", "/var/lib/*", "/var/log/*", "/usr/libexec/*", "/etc/cni/*", "/opt/*", filepath.Join(os.TempDir(), nodePrefix+"*")}
	for _, h := range all {
		dirs, err := filepath.Glob(filepath.Join(h, "*", "cgroup.procs"))
		if err != nil {
			t.Fatal(err)
		}
		s.groups = append(s.groups, dirs...)
	}
	for _, p := range patterns {
		files, err := filepath.Glob(p)
		if err != nil {
			t.Fatal(err)
		}
		s.files = append(s.files, files...)
	}
	if s.links, err = filepath.Glob("/sys/class/net/*"); err != nil {
		t.Fatal(err)
	}
	return s
}

func processesOf(t *testing.T, text string) map[int]string {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	found := map[int]string{}
	for _, p := range all {
		line, err := os.ReadFile(filepath.Join(p, "cmdline"))
		if err != nil {
			continue // it has ended
		}
		if line := string(bytes.ReplaceAll(line, []byte{0}, []byte{' '})); strings.Contains(line, text) {
			pid, err := strconv.Atoi(filepath.Base(p))
			if err != nil {
				t.Fatal(err)
			}
			found[pid] = line
		}
	}
	return found
}

func TestNodeLeavesNothing(t *testing.T) {
	sandbox := binary(t)
	if out, err := exec.Command(sandbox, "build", "--node").CombinedOutput(); err != nil {
		t.Fatalf("build what a node needs: %v\n%s", err, out)
	}
	for _, tt := range []struct {
		name string
		end  func(p *os.Process) error // nil: the node's command ends by itself
		code int
	}{
		{"ends", nil, 7},
		{"told to end", func(p *os.Process) error { return p.Signal(syscall.SIGTERM) }, 128 + int(syscall.SIGTERM)},
		{"killed", (*os.Process).Kill, -1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := look(t)
			ready := filepath.Join(t.TempDir(), "ready")
			// The Pod uses the pause image, because no other is available.
			script := `set -e
				until kubectl get serviceaccount default >/dev/null 2>&1; do sleep 0.1; done
				kubectl run pod --image=` + pauseImage + ` --image-pull-policy=Never
				kubectl wait --for=condition=Ready pod/pod --timeout=60s
				echo "$LBREMEDY_NODE" >` + ready + `.new; mv ` + ready + `.new ` + ready + `
				[ "$1" = ends ] || exec sleep 600
				exit 7`
			cmd := exec.Command(sandbox, "node", "--", "sh", "-c", script, "sh", tt.name)
			var log bytes.Buffer
			cmd.Stdout, cmd.Stderr = &log, &log
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			var dir string
			for dir == "" {
				b, err := os.ReadFile(ready)
				if err != nil && !errors.Is(err, fs.ErrNotExist) {
					t.Fatal(err)
				}
				dir = strings.TrimSpace(string(b))
				select {
				case <-ended:
					if dir == "" {
						t.Fatalf("the node ended: %v\n%s", cmd.ProcessState, log.String())
					}
					ended <- nil
				case <-time.After(50 * time.Millisecond):
				}
			}
			if tt.end != nil {
				during := look(t)
				if running := processesOf(t, dir); len(running) < 8 || len(during.groups) == len(before.groups) {
					t.Errorf("%d processes run and %d cgroups were added: this test looks at the wrong place", len(running), len(during.groups)-len(before.groups))
				}
				if !slices.Equal(before.mounts, during.mounts) || !slices.Equal(before.links, during.links) {
					t.Errorf("the mounts or the network of the node are seen outside")
				}
				if err := tt.end(cmd.Process); err != nil {
					t.Fatal(err)
				}
			}
			<-ended
			if got := cmd.ProcessState.ExitCode(); got != tt.code {
				t.Errorf("exit code %d, want %d\n%s", got, tt.code, log.String())
			}
			// A killed process cannot wait for the sweeper.
			for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
				wrong := left(before, look(t), processesOf(t, dir))
				if len(wrong) == 0 {
					break
				}
				if tt.end == nil || tt.code >= 0 || time.Now().After(deadline) {
					t.Fatalf("left: %v", wrong)
				}
			}
		})
	}
}

func left(before, after system, running map[int]string) []string {
	was := map[string]bool{}
	for _, list := range [][]string{before.mounts, before.groups, before.links, before.files} {
		for _, v := range list {
			was[v] = true
		}
	}
	is := map[string]bool{}
	for _, v := range slices.Concat(after.mounts, after.groups, after.links, after.files, slices.Collect(maps.Values(running))) {
		if !was[v] {
			is[v] = true
		}
	}
	return slices.Sorted(maps.Keys(is))
}

// TestNodeSweepsForOthers kills a node and its sweeper: the next node removes the remains.
func TestNodeSweepsForOthers(t *testing.T) {
	before := look(t)
	sandbox := binary(t)
	cmd := exec.Command(sandbox, "node", "--", "sh", "-c", "echo $LBREMEDY_NODE; exec sleep 600")
	cmd.Stderr = os.Stderr // names what a node lacks
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the node ended: %v", cmd.Wait())
	}
	dir := strings.TrimSpace(line)
	for pid, line := range processesOf(t, "node-sweeper "+dir) {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatalf("kill %s: %v", line, err)
		}
	}
	cmd.Process.Kill()
	cmd.Wait()
	for deadline := time.Now().Add(30 * time.Second); len(processesOf(t, dir)) > 0; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("left: %v", processesOf(t, dir))
		}
	}
	if _, err := os.Stat(dir); err != nil {
		t.Fatalf("this test does not show anything: %v", err)
	}
	if out, err := exec.Command(sandbox, "node", "--", "true").CombinedOutput(); err != nil {
		t.Fatalf("run another node: %v\n%s", err, out)
	}
	if wrong := left(before, look(t), nil); len(wrong) > 0 {
		t.Errorf("left: %v", wrong)
	}
}

// TestNodeSaysWhatIsMissing runs without the programs, and as root without the rights that a node needs.
func TestNodeSaysWhatIsMissing(t *testing.T) {
	sandbox := binary(t)
	for _, tt := range []struct {
		name, path, want string
		args             []string
	}{
		{"programs", "/nowhere", "a node needs more programs: apt-get install containerd", []string{sandbox}},
		{"namespaces", os.Getenv("PATH"), "a node needs namespaces", []string{"setpriv", "--bounding-set=-sys_admin", sandbox}},
		{"network", os.Getenv("PATH"), "a node needs what this system refuses", []string{"setpriv", "--bounding-set=-net_admin", sandbox}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := look(t)
			cmd := exec.Command(tt.args[0], append(tt.args[1:], "node", "--", "true")...)
			cmd.Env = []string{"PATH=" + tt.path, "HOME=" + t.TempDir()}
			out, _ := cmd.CombinedOutput()
			if got := string(out); cmd.ProcessState.ExitCode() != 2 || strings.Count(got, "\n") != 1 || !strings.Contains(got, tt.want) {
				t.Errorf("exit code %d, want 2, and one line that says %q; got:\n%s", cmd.ProcessState.ExitCode(), tt.want, got)
			}
			if wrong := left(before, look(t), nil); len(wrong) > 0 {
				t.Errorf("left: %v", wrong)
			}
		})
	}
}
