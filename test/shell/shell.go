// Package shell gives the tests of programs what a shell gives to the programs: an
// environment, files, ports, and a place for what they print.
package shell

import (
	"bytes"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/lbremedy/lbremedy/events/program"
)

// Environment returns the environment with these pairs, such as "NAME=value". A
// variable that none of them names is empty.
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

// File writes a file with this name into a directory of its own, and returns its path.
func File(t testing.TB, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// Port returns a port of the loopback address that nobody uses now.
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

// A Log is a text that a program writes while the test reads it.
type Log struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write adds to the text. It returns no error.
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

// Secret is what a program must not print.
const Secret = "s3cr3t"

// A Mistake is a call that a program must refuse.
type Mistake struct {
	Args, Env []string
	Want      string // in the error
	Usage     bool   // it is a mistake in the flags
}

// Mistakes calls the program with each mistake, by its name.
func Mistakes(t *testing.T, run program.Run, mistakes map[string]Mistake) {
	t.Helper()
	for name, m := range mistakes {
		t.Run(name, func(t *testing.T) {
			var out, errs bytes.Buffer
			err := run(t.Context(), m.Args, Environment(m.Env...), &out, &errs)
			if err == nil || !strings.Contains(err.Error(), m.Want) {
				t.Fatalf("got %v, want an error with %q", err, m.Want)
			}
			var usage program.Mistake
			if errors.As(err, &usage) != m.Usage {
				t.Errorf("%v is a mistake in the flags: %v, want %v", err, !m.Usage, m.Usage)
			}
			if text := err.Error() + errs.String(); strings.Contains(text, Secret) {
				t.Errorf("the output tells a secret: %s", text)
			}
		})
	}
}
