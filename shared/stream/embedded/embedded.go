// Package embedded runs a NATS server with JetStream in this process, for users without one and for tests. Begin with [Start].
//
// It listens on loopback only and stores all acknowledged messages in files. It locks their directory: two servers would destroy each
// other's files without noticing.
package embedded

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// Options say where a server keeps its files and where it listens.
type Options struct {
	Dir   string       // of its files; created if missing
	Port  int          // -1: a free one; 0: 4222
	Token string       // that clients must present; empty: none
	Sync  bool         // acknowledge only messages on disk, at the cost of one fsync each; otherwise fsync every 2 minutes
	Log   *slog.Logger // warnings and errors of the server, its notices as debug; nil: nothing is logged
}

// ErrInUse means that another server holds the directory.
var ErrInUse = errors.New("another NATS server uses the directory")

// A Server is a running NATS server.
type Server struct {
	nats *server.Server
	lock *os.File
	once sync.Once
}

const startTimeout = 30 * time.Second // large streams are read at the start

// Start starts a server and returns when it accepts connections and JetStream is ready.
func Start(o Options) (*Server, error) {
	if o.Dir == "" {
		return nil, errors.New("start NATS: it needs a directory for its files")
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("start NATS: %w", err)
	}
	lock, err := hold(filepath.Join(o.Dir, "lock"))
	if err != nil {
		return nil, fmt.Errorf("start NATS in %s: %w", o.Dir, err)
	}
	ns, err := start(o)
	if err != nil {
		_ = lock.Close()
		return nil, fmt.Errorf("start NATS in %s: %w", o.Dir, err)
	}
	return &Server{nats: ns, lock: lock}, nil
}

func start(o Options) (*server.Server, error) {
	ns, err := server.NewServer(&server.Options{
		ServerName:    "lbremedy",
		Host:          "127.0.0.1",
		Port:          o.Port,
		Authorization: o.Token,
		JetStream:     true,
		StoreDir:      o.Dir,
		SyncAlways:    o.Sync,
		NoSigs:        true, // the program handles signals
	})
	if err != nil {
		return nil, err
	}
	log := &logger{to: o.Log, fatal: make(chan string, 1)}
	if log.to == nil {
		log.to = slog.New(slog.DiscardHandler)
	}
	ns.SetLoggerV2(log, false, false, false)
	ns.Start()
	deadline := time.Now().Add(startTimeout)
	for {
		select {
		case why := <-log.fatal:
			end(ns)
			return nil, errors.New(why)
		default:
		}
		if ns.ReadyForConnections(50 * time.Millisecond) {
			return ns, nil
		}
		if time.Now().After(deadline) {
			end(ns)
			return nil, fmt.Errorf("it is not ready after %s", startTimeout)
		}
	}
}

func end(ns *server.Server) {
	ns.Shutdown()
	ns.WaitForShutdown()
}

// URL returns the address that clients connect to, without the token.
func (s *Server) URL() string { return s.nats.ClientURL() }

// Close stops the server with everything on disk. It may be called again.
func (s *Server) Close() {
	s.once.Do(func() {
		end(s.nats)
		_ = s.lock.Close()
	})
}

func holder(f *os.File) string {
	text := make([]byte, 20)
	n, _ := f.ReadAt(text, 0) // a short read is usual
	if pid, err := strconv.Atoi(string(text[:n])); err == nil {
		return fmt.Sprintf(" (process %d)", pid)
	}
	return ""
}

type logger struct {
	to    *slog.Logger
	fatal chan string
}

func (l *logger) Noticef(format string, v ...any) {
	l.to.Debug("NATS", "said", fmt.Sprintf(format, v...))
}
func (l *logger) Warnf(format string, v ...any) {
	l.to.Warn("NATS warns", "said", fmt.Sprintf(format, v...))
}
func (l *logger) Errorf(format string, v ...any) {
	l.to.Error("NATS has an error", "said", fmt.Sprintf(format, v...))
}
func (l *logger) Debugf(string, ...any) {}
func (l *logger) Tracef(string, ...any) {}

// Fatalf logs an error after which the server expects its process to end.
func (l *logger) Fatalf(format string, v ...any) {
	said := fmt.Sprintf(format, v...)
	l.to.Error("NATS can't go on", "said", said)
	select {
	case l.fatal <- said:
	default:
	}
}
