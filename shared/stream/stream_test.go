package stream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/lbremedy/lbremedy/shared/stream/embedded"
)

// serverDir makes this test binary a NATS server, for tests that kill one.
const serverDir = "STREAM_TEST_SERVER_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(serverDir); dir != "" {
		s, err := embedded.Start(embedded.Options{Dir: dir, Port: -1, Sync: true})
		if err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		fmt.Println(s.URL())
		select {}
	}
	goleak.VerifyTestMain(m)
}

func serve(t testing.TB, o embedded.Options) *embedded.Server {
	t.Helper()
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	if o.Port == 0 {
		o.Port = -1
	}
	s, err := embedded.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func connect(t testing.TB, c Config) *Stream {
	t.Helper()
	s, err := Connect(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func fresh(t testing.TB, classes ...string) *Stream {
	t.Helper()
	s := connect(t, Config{URL: serve(t, embedded.Options{}).URL()})
	setup(t, s, classes...)
	return s
}

func setup(t testing.TB, s *Stream, classes ...string) {
	t.Helper()
	if _, err := s.Setup(t.Context(), classes, Settings{Clusters: []string{"c1"}}); err != nil {
		t.Fatal(err)
	}
}

type crash struct {
	url string
	cmd *exec.Cmd
}

func crashable(t *testing.T, dir string) *crash {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), serverDir+"="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := &crash{cmd: cmd}
	t.Cleanup(c.kill)
	line := make([]byte, 200)
	n, err := out.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	c.url = strings.TrimSpace(string(line[:n]))
	if !strings.HasPrefix(c.url, "nats://") {
		t.Fatalf("the server says %q", c.url)
	}
	return c
}

func (c *crash) kill() {
	_ = c.cmd.Process.Kill() // fails only if it has ended
	_ = c.cmd.Wait()         // says that it was killed
}

// proxy can cut connections, hold back the server's answers, and come back.
type proxy struct {
	listen net.Listener
	to     string
	mu     sync.Mutex
	conns  []net.Conn
	made   int // connections so far
	mute   int // of these first connections, the server's output is dropped
	down   bool
}

func newProxy(t *testing.T, url string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listen: l, to: strings.TrimPrefix(url, "nats://")}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			p.mu.Lock()
			to := p.to
			p.mu.Unlock()
			out, err := net.Dial("tcp", to)
			p.mu.Lock()
			if err != nil || p.down {
				_ = in.Close()
				if out != nil {
					_ = out.Close()
				}
				p.mu.Unlock()
				continue
			}
			p.conns = append(p.conns, in, out)
			p.made++
			number := p.made
			p.mu.Unlock()
			all.Go(func() { p.copy(out, in, number, false) })
			all.Go(func() { p.copy(in, out, number, true) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		p.cut(true)
		all.Wait()
	})
	return p
}

func (p *proxy) url() string { return "nats://" + p.listen.Addr().String() }

func (p *proxy) copy(to, from net.Conn, number int, fromServer bool) {
	defer to.Close()
	defer from.Close()
	b := make([]byte, 64<<10)
	for {
		n, err := from.Read(b)
		if err != nil {
			return
		}
		p.mu.Lock()
		mute := fromServer && number <= p.mute
		p.mu.Unlock()
		if mute {
			continue
		}
		if _, err := to.Write(b[:n]); err != nil {
			return
		}
	}
}

func (p *proxy) silence() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mute = p.made
}

func (p *proxy) turn(url string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.to = strings.TrimPrefix(url, "nats://")
}

// cut closes the connections; down keeps new ones away until up.
func (p *proxy) cut(down bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = down
	for _, c := range p.conns {
		_ = c.Close()
	}
	p.conns = nil
}

func (p *proxy) up() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = false
}

func lost(t *testing.T, s *Stream) {
	t.Helper()
	select {
	case <-s.link.Load().alive.Done():
	case <-time.After(10 * time.Second):
		t.Fatal("the connection was not lost")
	}
}

func found(t *testing.T, s *Stream) {
	t.Helper()
	eventually(t, "the connection to come back", func() bool { return s.Ping(t.Context()) == nil })
}

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	end := time.After(20 * time.Second)
	for !ok() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

func TestConnectSaysWhatIsWrong(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := closed.Addr().String()
	_ = closed.Close()
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	guarded := serve(t, embedded.Options{Token: "right"}).URL()
	soon, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()

	for _, c := range []struct {
		name   string
		ctx    context.Context
		config Config
		says   string
		kind   error
	}{
		{"nobody there", t.Context(), Config{URL: "nats://me:hunter2@" + nobody},
			"connect to NATS at nats://" + nobody + ": no NATS server answers there; start one or give the address of another", ErrUnavailable},
		{"no token", t.Context(), Config{URL: guarded}, "the server refuses these credentials", ErrUnavailable},
		{"wrong token", t.Context(), Config{URL: guarded, Token: "hunter2"}, "the server refuses these credentials", ErrUnavailable},
		{"no credentials file", t.Context(), Config{URL: guarded, Creds: "/nowhere/creds"}, "read the NATS credentials", os.ErrNotExist},
		{"no certificates file", t.Context(), Config{URL: guarded, CA: "/nowhere/ca"}, "read the root certificates", os.ErrNotExist},
		{"no answer in time", soon, Config{URL: "nats://" + mute.Addr().String()}, "connect to NATS", context.DeadlineExceeded},
		{"no URL", t.Context(), Config{URL: "nats://[hunter2"}, "an address that is not a URL", ErrUnavailable},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := Connect(c.ctx, c.config)
			if err == nil {
				s.Close()
				t.Fatal("it connects")
			}
			if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %q, want %q of kind %q", err, c.says, c.kind)
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the error tells a secret: %s", err)
			}
		})
	}
}

func TestConnectWithToken(t *testing.T) {
	s := connect(t, Config{URL: serve(t, embedded.Options{Token: "right"}).URL(), Token: "right"})
	if err := s.Ping(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestNothingIsBufferedWhileNATSIsAway(t *testing.T) {
	server := serve(t, embedded.Options{})
	p := newProxy(t, server.URL())
	s := connect(t, Config{URL: p.url()})
	setup(t, s)
	p.cut(true)
	lost(t, s)

	ctx := t.Context()
	always := func(Message) bool { return true }
	for name, call := range map[string]func() error{
		"ping": func() error { return s.Ping(ctx) },
		"publish": func() error {
			_, _, err := s.PublishNewer(ctx, "lbremedy.failed.c.x.u", "1", nil, nil, always)
			return err
		},
		"append":  func() error { _, err := s.AppendRecord(ctx, "c", "u", "x", "1", nil, nil, 0); return err },
		"dead":    func() error { return s.Dead(ctx, "why", "test", nil, nil) },
		"put":     func() error { return s.Put(ctx, "k", nil) },
		"get":     func() error { _, err := s.Get(ctx, "k"); return err },
		"setup":   func() error { _, err := s.Setup(ctx, nil, Settings{}); return err },
		"follow":  func() error { return s.FollowSince(ctx, Failed, ">", time.Time{}, nil) },
		"consume": func() error { return s.Consume(ctx, "c1", "x", 1, nil) },
	} {
		began := time.Now()
		if err := call(); !errors.Is(err, ErrUnavailable) {
			t.Errorf("%s: got %v, want %v", name, err, ErrUnavailable)
		}
		if took := time.Since(began); took > 4*time.Second {
			t.Errorf("%s: took %s", name, took)
		}
	}
	p.up()
	found(t, s)
	if _, err := s.Last(ctx, Failed, "lbremedy.failed.>"); !errors.Is(err, ErrNotFound) {
		t.Errorf("something was published after all: %v", err)
	}
	gone, cancel := context.WithCancel(ctx)
	cancel()
	if err := s.Put(gone, "k", nil); !errors.Is(err, context.Canceled) || errors.Is(err, ErrUnavailable) {
		t.Errorf("with a cancelled context: got %v", err)
	}
}

func TestRequestInFlightEndsWithTheConnection(t *testing.T) {
	p := newProxy(t, serve(t, embedded.Options{}).URL())
	s := connect(t, Config{URL: p.url()})
	setup(t, s)
	p.silence()
	before := s.nc.Stats().OutMsgs
	failed := make(chan error)
	go func() { _, err := s.Get(t.Context(), "k"); failed <- err }()
	eventually(t, "the request", func() bool { return s.nc.Stats().OutMsgs > before })
	p.cut(true)
	select {
	case err := <-failed:
		if !errors.Is(err, ErrUnavailable) {
			t.Errorf("got %v", err)
		}
	case <-time.After(3 * time.Second):
		t.Error("it hangs on")
	}
}

func TestRest(t *testing.T) {
	p := newProxy(t, serve(t, embedded.Options{}).URL())
	s := connect(t, Config{URL: p.url()})
	if !s.Rest(t.Context(), time.Millisecond) {
		t.Error("a pause has ended the context")
	}
	p.cut(true)
	lost(t, s)
	rested := make(chan bool, 1)
	go func() { rested <- s.Rest(t.Context(), time.Hour) }()
	p.cut(false)
	select {
	case stands := <-rested:
		if !stands {
			t.Error("the pause ended as with the context")
		}
	case <-time.After(30 * time.Second):
		t.Fatal("NATS is back, and the pause goes on")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if s.Rest(ctx, time.Hour) {
		t.Error("a pause outlives its context")
	}
}

func TestClosed(t *testing.T) {
	s := fresh(t)
	s.Close()
	s.Close()
	if err := s.Put(t.Context(), "k", nil); !errors.Is(err, ErrUnavailable) {
		t.Errorf("got %v", err)
	}
}
