// Package e2e runs the parts of lbremedy as separate processes, on a real API server and a real JetStream, and kills them.
package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lbremedy/lbremedy/events/exporter"
	"github.com/lbremedy/lbremedy/functions"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/connect"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/event/table"
	"github.com/lbremedy/lbremedy/shared/host"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/policy/policyfile"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/stream/embedded"
	"github.com/lbremedy/lbremedy/test/sim/controller/standin"
)

const roleVariable = "LBREMEDY_E2E_ROLE"

func TestMain(m *testing.M) {
	standin.Main()
	role := os.Getenv(roleVariable)
	if role == "" {
		os.Exit(m.Run())
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	// A closed stdin means that the test has ended, and ends its parts.
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	if err := map[string]func(context.Context) error{"nats": natsMain, "exporter": exporterMain, "worker": workerMain}[role](ctx); err != nil {
		fmt.Fprintln(os.Stderr, role+":", event.Redact(err.Error()))
		os.Exit(1)
	}
}

func natsMain(ctx context.Context) error {
	port, err := strconv.Atoi(os.Getenv("LBREMEDY_E2E_PORT"))
	if err != nil {
		return err
	}
	server, err := embedded.Start(embedded.Options{Dir: os.Getenv("LBREMEDY_E2E_DIR"), Port: port, Token: os.Getenv("LBREMEDY_NATS_TOKEN"), Sync: true})
	if err != nil {
		return err
	}
	<-ctx.Done()
	server.Close()
	return nil
}

func fromEnv() host.Config {
	return host.Config{Config: connect.FromEnv(), NATS: os.Getenv("LBREMEDY_NATS"), NATSToken: os.Getenv("LBREMEDY_NATS_TOKEN")}
}

func exporterMain(ctx context.Context) error {
	c := fromEnv()
	config, err := kube.Load(c.Kubeconfig, "")
	if err != nil {
		return err
	}
	cluster, err := kube.New(config)
	if err != nil {
		return err
	}
	s, err := c.Stream(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	x, err := exporter.New(exporter.Config{Cluster: c.Cluster, Kube: cluster, Stream: s, Classifier: event.NewClassifier(table.Table())})
	if err != nil {
		return err
	}
	return x.Run(ctx)
}

const (
	bound = 10 * time.Second
	watch = 5 * time.Second
)

const policyVariable = "LBREMEDY_E2E_POLICY"

func workerMain(ctx context.Context) error {
	c := fromEnv()
	c.Who, c.Watch = "worker", watch
	if os.Getenv("LBREMEDY_E2E_VERBOSE") != "" {
		c.Log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	env, err := host.ConnectReads(c)
	if err != nil {
		return err
	}
	if env.Stream, err = c.Stream(ctx); err != nil {
		return err
	}
	defer env.Stream.Close()
	env.Bound = bound
	source := policyfile.FromFile(os.Getenv(policyVariable), new(cli.Program).ParsePolicy)
	env.Policy = func(ctx context.Context) (remedy.Policy, error) {
		v, err := source.Read(ctx)
		return v.Policy, err
	}
	return (&host.Host{Env: env.Env, Remedies: functions.All}).Work(ctx, 64)
}

type part struct {
	role string
	env  []string

	mu   sync.Mutex
	cmd  *exec.Cmd
	runs int
}

func keep(t *testing.T, role string, env ...string) *part {
	t.Helper()
	p := &part{role: role, env: append(os.Environ(), append(env, roleVariable+"="+role)...)}
	ctx, cancel := context.WithCancel(context.Background())
	var wait sync.WaitGroup
	wait.Go(func() {
		for ctx.Err() == nil {
			ended, err := p.start()
			if err != nil {
				t.Errorf("start %s: %v", role, err)
				return
			}
			<-ended
			select { // avoid a busy loop if it ends at once
			case <-time.After(50 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	})
	t.Cleanup(func() {
		cancel()
		p.kill()
		wait.Wait()
	})
	return p
}

func (p *part) start() (<-chan struct{}, error) {
	cmd := exec.Command(os.Args[0])
	cmd.Env, cmd.Stderr = p.env, os.Stderr
	if _, err := cmd.StdinPipe(); err != nil { // closes when this process ends, and ends the part
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p.mu.Lock()
	p.cmd = cmd
	p.runs++
	p.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		cmd.Wait()
		close(ended)
	}()
	return ended, nil
}

// kill ends the process as a power cut would: kill -9.
func (p *part) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd != nil {
		if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			panic(err)
		}
	}
}
