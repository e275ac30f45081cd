package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/stream/embedded"
)

const roleVariable = "LBREMEDY_BENCH_ROLE"

func play(role string) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	// A closed stdin means that the benchmark has ended, and ends the part.
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	roles := map[string]func(context.Context) error{"nats": natsMain, "publish": publishMain, "write": writeMain, "guard": guardMain}
	if err := roles[role](ctx); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, role+":", err)
		os.Exit(1)
	}
}

func natsMain(ctx context.Context) error {
	server, err := embedded.Start(embedded.Options{Dir: os.Getenv("LBREMEDY_BENCH_DIR"), Port: -1, Token: os.Getenv("LBREMEDY_NATS_TOKEN"), Sync: true})
	if err != nil {
		return err
	}
	defer server.Close()
	fmt.Println(server.URL())
	<-ctx.Done()
	return nil
}

// watchServices watches new Events of Services, and prints a line when it will miss none.
func watchServices(ctx context.Context, see func(*kube.Cluster, kube.Event) error) error {
	config, err := kube.Load(os.Getenv("LBREMEDY_KUBECONFIG"), "")
	if err != nil {
		return err
	}
	c, err := kube.New(config)
	if err != nil {
		return err
	}
	from, err := c.EventsVersion(ctx)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	return c.WatchEvents(ctx, kube.Selection{Fields: "involvedObject.kind=Service"}, from, 5*time.Minute, func(ch kube.Change) error {
		if ch.Kind != kube.Added && ch.Kind != kube.Modified {
			return nil
		}
		return see(c, ch.Event)
	})
}

func publishMain(ctx context.Context) error {
	nc, err := natsgo.Connect(os.Getenv("LBREMEDY_NATS"), natsgo.Token(os.Getenv("LBREMEDY_NATS_TOKEN")))
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	return watchServices(ctx, func(_ *kube.Cluster, e kube.Event) error {
		data, err := json.Marshal(e)
		if err != nil {
			return err
		}
		_, err = js.Publish(ctx, "lbremedy.failed.bare.none."+e.Object.UID, data)
		return err
	})
}

const (
	bareReason     = "BareFailure"
	bareAnnotation = "example.com/written"
)

func writeMain(ctx context.Context) error {
	return watchServices(ctx, func(c *kube.Cluster, e kube.Event) error {
		if e.Reason != bareReason {
			return nil
		}
		svc, err := c.Service(ctx, e.Object.Namespace, e.Object.Name)
		if err != nil {
			return err
		}
		_, err = kube.NewWriter(c).PatchService(ctx, svc.Namespace, svc.Name, svc.ResourceVersion,
			kube.ServicePatch{Annotations: map[string]*string{bareAnnotation: &e.UID}})
		return err
	})
}

// guardMain runs the program in its arguments and prints its process ID. The program ends with the guard, even if the benchmark is killed.
func guardMain(ctx context.Context) error {
	cmd := exec.Command(os.Args[1], os.Args[2:]...)
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, roleVariable+"=") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	fmt.Println(cmd.Process.Pid)
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		return fmt.Errorf("%s ended by itself: %v", filepath.Base(os.Args[1]), err)
	case <-ctx.Done():
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-ended:
		return nil
	case <-time.After(10 * time.Second):
		return cmd.Process.Kill()
	}
}

type process struct {
	out *bufio.Reader
	pid int    // of the role, or of the guarded program
	log string // file of its standard error
	end func() // ends it and waits
}

func begin(b *testing.B, file string, env ...string) *process {
	b.Helper()
	return start(b, exec.Command(file), env)
}

func guarded(b *testing.B, file string, env []string, args ...string) *process {
	b.Helper()
	p := start(b, exec.Command(os.Args[0], append([]string{file}, args...)...), append(env, roleVariable+"=guard"))
	line, err := p.line()
	if err != nil {
		b.Fatalf("start %s: %v", filepath.Base(file), err)
	}
	if p.pid, err = strconv.Atoi(line); err != nil {
		b.Fatalf("start %s: %v", filepath.Base(file), err)
	}
	return p
}

func start(b *testing.B, cmd *exec.Cmd, env []string) *process {
	b.Helper()
	log, err := os.CreateTemp(b.TempDir(), "log")
	if err != nil {
		b.Fatal(err)
	}
	defer log.Close()
	cmd.Env, cmd.Stderr = append(os.Environ(), env...), log
	stdin, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	p := &process{pid: cmd.Process.Pid, out: bufio.NewReader(stdout), log: log.Name()}
	p.end = sync.OnceFunc(func() {
		stdin.Close()
		if err := cmd.Wait(); err != nil {
			b.Errorf("%v: %v", cmd.Args, p.failed(err))
		} else if b.Failed() {
			b.Logf("%v said:\n%s", cmd.Args, p.said())
		}
	})
	b.Cleanup(p.end)
	return p
}

func (p *process) line() (string, error) {
	line, err := p.out.ReadString('\n')
	if err != nil {
		return "", p.failed(err)
	}
	return strings.TrimSpace(line), nil
}

func (p *process) failed(err error) error {
	return fmt.Errorf("%w: it said %q", err, p.said())
}

func (p *process) said() string {
	said, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(said[max(0, len(said)-4000):]))
}

func (p *process) memory(b *testing.B, line string) float64 {
	b.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.pid))
	if err != nil {
		b.Fatalf("read the memory of the process: %v", err)
	}
	_, rest, ok := strings.Cut(string(status), line+":")
	fields := strings.Fields(rest)
	if !ok || len(fields) < 2 || fields[1] != "kB" {
		b.Fatalf("the status of process %d has no %s", p.pid, line)
	}
	kib, err := strconv.ParseFloat(fields[0], 64)
	if err != nil {
		b.Fatal(err)
	}
	return kib * 1024 / 1e6
}

func (p *process) cpu(b *testing.B) time.Duration {
	b.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.pid))
	if err != nil {
		b.Fatalf("read the time of the process: %v", err)
	}
	// After the name, which may contain anything, the 12th and 13th field are user and system time in ticks, 100 a second on Linux.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	total := 0
	for _, f := range fields[11:13] {
		ticks, err := strconv.Atoi(f)
		if err != nil {
			b.Fatal(err)
		}
		total += ticks
	}
	return time.Duration(total) * 10 * time.Millisecond
}
