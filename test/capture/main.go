// Capture records a night of lbremedy within minutes, for the pictures on the pages ("make capture"). It starts a real
// kube-apiserver, the simulated cloud and controller, and "lbremedy up" in fix mode, breaks Services one by one, reads the
// metrics every second, and finally runs commands. Its argument is the folder for two files: metrics.txt, timestamped samples in
// Prometheus' text format, which test/promql/draw draws, and terminal.txt, a terminal session.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"k8s.io/klog/v2"

	"github.com/lbremedy/lbremedy/functions"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/host"
	"github.com/lbremedy/lbremedy/test/testbed"
)

const (
	policyFile = "test/capture/policy.yaml"

	between = 5 * time.Second  // pause between broken Services
	after   = 30 * time.Second // quiet time at the end
	each    = time.Second      // interval of reading the metrics
)

func main() {
	klog.SetSlogLogger(slog.New(slog.DiscardHandler))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: capture LBREMEDY FOLDER, where LBREMEDY is the program")
		os.Exit(2)
	}
	if err := run(ctx, os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "capture:", event.Redact(err.Error()))
		os.Exit(1)
	}
}

func run(ctx context.Context, program, folder string) error {
	program, err := filepath.Abs(program)
	if err != nil {
		return err
	}
	all := testbed.Of((&host.Host{Remedies: functions.All}).Classes()...)
	fixtures := slices.MaxFunc(testbed.ByConfig(all), func(a, b []testbed.Fixture) int { return len(a) - len(b) })
	tb, err := testbed.Start(ctx, testbed.Options{Config: fixtures[0].Config, RAMDelay: time.Second})
	if err != nil {
		return err
	}
	defer tb.Close()
	state, err := os.MkdirTemp("", "lbremedy-capture-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(state)
	address, err := free()
	if err != nil {
		return err
	}
	environ := append(os.Environ(), tb.Environ("", "")...)
	command := func(args ...string) *exec.Cmd {
		cmd := exec.Command(program, append(args, "--state-dir", state)...)
		cmd.Env = environ
		return cmd
	}
	up := command("up", "--policy", policyFile, "--listen", address)
	up.Stderr = os.Stderr
	if err := up.Start(); err != nil {
		return err
	}
	defer func() { up.Process.Signal(syscall.SIGTERM); up.Wait() }()

	samples := &samples{url: "http://" + address + "/metrics"}
	if err := samples.wait(ctx); err != nil {
		return err
	}
	if err := tb.Prepare(ctx, fixtures...); err != nil {
		return err
	}
	reading, end := context.WithCancel(ctx)
	var wait sync.WaitGroup
	wait.Go(func() { samples.follow(reading) })
	err = inject(ctx, tb, fixtures)
	end()
	wait.Wait()
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(folder, "metrics.txt"), samples.text.Bytes(), 0o644); err != nil {
		return err
	}
	session, err := talk(command, tb.Namespace)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "terminal.txt"), session, 0o644)
}

func free() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

func inject(ctx context.Context, tb *testbed.Testbed, fixtures []testbed.Fixture) error {
	pause := func(d time.Duration) error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(d):
			return nil
		}
	}
	for i, f := range fixtures {
		fmt.Fprintf(os.Stderr, "%d of %d: %s\n", i+1, len(fixtures), f.Service)
		if err := tb.Inject(ctx, f); err != nil {
			return err
		}
		if err := pause(between); err != nil {
			return err
		}
	}
	return pause(after)
}

type samples struct {
	url  string
	text bytes.Buffer
}

func (s *samples) wait(ctx context.Context) error {
	for range 100 {
		if err := s.read(ctx); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(each / 4):
		}
	}
	return errors.New("lbremedy up does not begin")
}

func (s *samples) follow(ctx context.Context) {
	tick := time.NewTicker(each)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if err := s.read(ctx); err != nil && ctx.Err() == nil {
				fmt.Fprintln(os.Stderr, "capture:", err)
			}
		}
	}
}

func (s *samples) read(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the metrics answer %s", response.Status)
	}
	now := time.Now().UnixMilli()
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "lbremedy_") {
			fmt.Fprintf(&s.text, "%s %d\n", lines.Text(), now)
		}
	}
	return lines.Err()
}

func talk(command func(...string) *exec.Cmd, namespace string) ([]byte, error) {
	var out bytes.Buffer
	ask := func(args ...string) error {
		fmt.Fprintf(&out, "$ lbremedy %s\n", strings.Join(args, " "))
		text, err := command(args...).Output()
		if err != nil && !errors.As(err, new(*exec.ExitError)) {
			return err
		}
		out.Write(text)
		out.WriteByte('\n')
		return nil
	}
	list, err := command("ls", "-o", "json").Output()
	if err != nil {
		return nil, fmt.Errorf("list the cases: %w", err)
	}
	var cases []struct {
		Service struct{ Name string }
		Result  event.Result
		Steps   []json.RawMessage
	}
	if err := json.Unmarshal(list, &cases); err != nil {
		return nil, fmt.Errorf("read the cases: %w", err)
	}
	for _, args := range [][]string{{"ls"}, {"tickets", "ls"}, {"status"}} {
		if err := ask(args...); err != nil {
			return nil, err
		}
	}
	shown := 0
	for _, c := range cases {
		if c.Result == event.Fixed && shown < 3 {
			shown++
			if err := ask("show", namespace+"/"+c.Service.Name); err != nil {
				return nil, err
			}
		}
	}
	return out.Bytes(), nil
}
