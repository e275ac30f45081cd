// Package shell gives tests of programs what a shell provides: an environment, files, ports, and captured output.
package shell

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/klog/v2"

	"github.com/lbremedy/lbremedy/shared/command"
)

// Environment returns an environment of pairs such as "NAME=value". Other variables are empty.
func Environment(pairs ...string) func(string) string {
	return func(name string) string {
		for _, p := range pairs {
			if v, ok := strings.CutPrefix(p, name+"="); ok {
				return v
			}
		}
		return ""
	}
}

// File writes a file to a new directory, and returns its path.
func File(t testing.TB, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// Beside runs a part of lbremedy until the test ends, even if ctx ends before.
func Beside(t testing.TB, ctx context.Context, name string, run func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var wait sync.WaitGroup
	wait.Go(func() {
		if err := run(ctx); err != nil && ctx.Err() == nil {
			t.Errorf("%s has ended: %v", name, err)
		}
	})
	t.Cleanup(func() { cancel(); wait.Wait() })
}

// Build builds packages of the module, such as "./events/cmd/exporter", into a folder like "make build": without C and local paths.
func Build(dir string, packages []string) error {
	root, err := sources()
	if err != nil {
		return err
	}
	cmd := exec.Command("go", append([]string{"build", "-trimpath", "-ldflags=-s -w", "-o", dir + string(filepath.Separator)}, packages...)...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", strings.Join(packages, " "), err, out)
	}
	return nil
}

// Tests runs a package's tests with a folder for built programs, and exits. It drops client-go's messages about the simulated controller's
// connections.
func Tests(m *testing.M, folder *string) {
	klog.SetSlogLogger(slog.New(slog.DiscardHandler))
	var err error
	if *folder, err = os.MkdirTemp("", "lbremedy-programs-"); err != nil {
		log.Fatal(err)
	}
	code := m.Run()
	if err := os.RemoveAll(*folder); err != nil {
		log.Print(err)
	}
	os.Exit(code)
}

// Until waits until ok returns true.
func Until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("it never came to this: %s", what)
		}
	}
}

// Sources makes a test's result depend on all files of the module. Go caches a result until a file that the test itself has read
// changes, and does not know what a compiler reads for the test (see "go help test").
func Sources(t testing.TB) {
	t.Helper()
	if _, err := sources(); err != nil {
		t.Fatal(err)
	}
}

var sources = sync.OnceValues(func() (string, error) {
	root, err := os.Getwd()
	for ; err == nil; root = filepath.Dir(root) {
		if text, err := os.ReadFile(filepath.Join(root, "go.mod")); err == nil && bytes.HasPrefix(text, []byte("module github.com/lbremedy/lbremedy\n")) {
			break
		}
		if root == filepath.Dir(root) {
			err = errors.New("this is not the module's folder, and none above it is")
		}
	}
	if err != nil {
		return "", fmt.Errorf("look for the module: %w", err)
	}
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if name := d.Name(); err == nil && d.IsDir() && (name == ".git" || name == "bin") {
			return fs.SkipDir
		}
		return err
	})
	return root, err
})

// Port returns an unused loopback port.
func Port(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// A Log is a program's output, which can be read while it is written.
type Log struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write appends to the log and never fails.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String returns the text so far.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Count returns the number of occurrences of a text.
func (l *Log) Count(what string) int { return strings.Count(l.String(), what) }

// Secret is a text that a program must not print.
const Secret = "s3cr3t"

// A Mistake is a call that a program must reject.
type Mistake struct {
	Args, Env []string
	Want      string // in the error
	Usage     bool   // a mistake in the flags
}

// Mistakes calls the program with each mistake, by name.
func Mistakes(t *testing.T, run func(ctx context.Context, args []string, env func(string) string, out, errs io.Writer) error, mistakes map[string]Mistake) {
	t.Helper()
	for name, m := range mistakes {
		t.Run(name, func(t *testing.T) {
			var out, errs bytes.Buffer
			err := run(t.Context(), m.Args, Environment(m.Env...), &out, &errs)
			if err == nil || !strings.Contains(err.Error(), m.Want) {
				t.Fatalf("got %v, want an error with %q", err, m.Want)
			}
			if errors.As(err, new(command.Mistake)) != m.Usage {
				t.Errorf("%v is a mistake in the flags: %v, want %v", err, !m.Usage, m.Usage)
			}
			if text := err.Error() + errs.String(); strings.Contains(text, Secret) {
				t.Errorf("the output tells a secret: %s", text)
			}
		})
	}
}
