package embedded

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/lbremedy/lbremedy/test/shell"
	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestStart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "by", "start")
	s, err := Start(Options{Dir: dir, Port: -1, Token: "t", Sync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if host, _, err := net.SplitHostPort(strings.TrimPrefix(s.URL(), "nats://")); err != nil || host != "127.0.0.1" {
		t.Errorf("it listens at %s", s.URL())
	}
	if nc, err := nats.Connect(s.URL()); !errors.Is(err, nats.ErrAuthorization) {
		nc.Close()
		t.Errorf("without the token: got %v", err)
	}
	nc, err := nats.Connect(s.URL(), nats.Token("t"))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := nc.JetStream()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.AccountInfo(); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory is open to others: %v, %v", info, err)
	}
	s.Close()
	s.Close()
	if _, err := nats.Connect(s.URL(), nats.Token("t")); err == nil {
		t.Error("it still answers after Close")
	}
}

func TestDirectoryOfAnotherServer(t *testing.T) {
	dir := t.TempDir()
	s, err := Start(Options{Dir: dir, Port: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	_, err = Start(Options{Dir: dir, Port: -1})
	want := fmt.Sprintf("start NATS in %s: another NATS server uses the directory (process %d); stop it, or choose another directory", dir, os.Getpid())
	if !errors.Is(err, ErrInUse) || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	s.Close()
	again, err := Start(Options{Dir: dir, Port: -1})
	if err != nil {
		t.Fatal(err)
	}
	again.Close()
}

func TestStartSaysWhyNot(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	port, err := strconv.Atoi(busy.Addr().String()[len("127.0.0.1:"):])
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		o    Options
		says string
	}{
		{"no directory", Options{}, "needs a directory"},
		{"a file", Options{Dir: file, Port: -1}, "not a directory"},
		{"a busy port", Options{Dir: t.TempDir(), Port: port}, "address already in use"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := Start(c.o)
			if err == nil {
				s.Close()
				t.Fatal("it starts")
			}
			if !strings.HasPrefix(err.Error(), "start NATS") || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %q, want %q", err, c.says)
			}
		})
	}
}

func TestItIsQuiet(t *testing.T) {
	var info, debug shell.Log
	for _, c := range []struct {
		to    *shell.Log
		level slog.Level
	}{{&info, slog.LevelInfo}, {&debug, slog.LevelDebug}} {
		log := slog.New(slog.NewTextHandler(c.to, &slog.HandlerOptions{Level: c.level}))
		s, err := Start(Options{Dir: t.TempDir(), Port: -1, Token: "hunter2", Log: log})
		if err != nil {
			t.Fatal(err)
		}
		s.Close()
	}
	if info.String() != "" {
		t.Errorf("it says %s", info.String())
	}
	if !strings.Contains(debug.String(), "Server is ready") || strings.Contains(debug.String(), "hunter2") {
		t.Errorf("it says %s", debug.String())
	}
}
