// Sandbox runs a real kube-apiserver on a real etcd, for tests and demonstrations. It has no controllers, scheduler or nodes: objects are
// stored, authorized and watched, and nothing else happens. The server ends with its parent, and removes all of its files.
//
// Both are built from the Go modules pinned here, with kubectl, so it needs only a Go toolchain, no containers or downloaded programs. The
// build takes some CPU-minutes once; the programs are then cached in the user's cache directory. If KUBEBUILDER_ASSETS is set, as by
// setup-envtest, the programs in that folder are used instead.
//
// "sandbox node" also has the controllers, the scheduler and one node, on which Pods run. It needs root, Linux, and containerd from the
// system's packages.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

const usage = `Sandbox runs a real kube-apiserver on a real etcd, built from their Go modules.

Usage:
  sandbox build                     build the programs into the cache and end
  sandbox up [flags]                run a server until SIGINT or SIGTERM
  sandbox run [flags] -- CMD ARGS…  run a server for as long as CMD runs; end with its exit code
  sandbox node -- CMD ARGS…         run a cluster with a real node for as long as CMD runs in it

"up" prints one line of JSON once the server is ready: its kubeconfig, its
address, that of its etcd, its directory and the process ID of the sandbox.
"run" hands CMD the kubeconfigs of its servers as LBREMEDY_SANDBOX, a list like
PATH. A file "etcd" beside each holds the address of that server's etcd, and
"kubectl" is the program. The paths are the same from run to run, so that
"go test" knows again what it has tested with these versions.

"node" adds the control plane's controllers and scheduler, a kubelet with
containerd, kube-proxy and a DNS, in namespaces of their own. It needs root.

"sandbox COMMAND --help" lists the flags of a command.
`

func main() {
	// The kernel kills the servers when the thread that started them ends (PR_SET_PDEATHSIG). This goroutine starts them, and
	// locks a thread that lives as long as the process.
	runtime.LockOSThread()
	// A broken progress pipe must not kill us before the clean-up when our parent ends.
	signal.Ignore(syscall.SIGPIPE)

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code, err := command(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "sandbox:", err)
	}
	os.Exit(code)
}

func command(ctx context.Context, args []string) (int, error) {
	name := "help"
	if len(args) > 0 {
		name, args = args[0], args[1:]
	}
	commands := map[string]func(context.Context, []string) (int, error){"build": build, "up": up, "run": run}
	maps.Copy(commands, nodeCommands)
	if do, ok := commands[name]; ok {
		code, err := do(ctx, args)
		if errors.Is(err, flag.ErrHelp) {
			return 0, nil
		}
		return code, err
	}
	switch name {
	case "help", "-h", "-help", "--help":
		fmt.Print(usage)
		return 0, nil
	}
	fmt.Fprint(os.Stderr, usage)
	return 2, fmt.Errorf("unknown command %q", name)
}

func flags(line, help string) *flag.FlagSet {
	fs := flag.NewFlagSet(line, flag.ContinueOnError)
	fs.Usage = func() {
		fmt.Fprintf(fs.Output(), "Usage: sandbox %s\n\n%s\n", line, help)
		fs.PrintDefaults()
	}
	return fs
}

func build(ctx context.Context, args []string) (int, error) {
	fs := flags("build [--node] [--platform]", "Builds kube-apiserver, etcd and kubectl into the cache and prints the folder that holds them.")
	more := fs.Bool("node", false, "build what a cluster with a node needs, too, if it can run here")
	all := fs.Bool("platform", false, "build what \"node --platform\" needs, too")
	if err := fs.Parse(args); err != nil {
		return 2, err
	}
	if *more || *all {
		if err := lacking(); err != nil {
			return 2, err
		}
		if _, err := nodePrograms(ctx, *all, os.Stderr); err != nil {
			return 1, err
		}
	}
	bin, err := servers.folder(ctx, os.Stderr)
	if err != nil {
		return 1, err
	}
	fmt.Println(bin)
	return 0, nil
}

func up(ctx context.Context, args []string) (int, error) {
	fs := flags("up [flags]", "Runs a server, prints one line of JSON when it is ready, and ends with SIGINT or SIGTERM.")
	opts := serverFlags(fs)
	untilEOF := fs.Bool("until-eof", false, "end when standard input ends, too")
	fs.BoolVar(&opts.breakable, "breakable", false, "run two API servers with an audit log, note their process IDs, and start again what ends")
	if err := fs.Parse(args); err != nil {
		return 2, err
	}
	if fs.NArg() > 0 {
		return 2, fmt.Errorf("up takes no arguments, got %q", fs.Args())
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if *untilEOF {
		go func() {
			io.Copy(io.Discard, os.Stdin)
			cancel()
		}()
	}

	s, err := start(ctx, opts)
	if ctx.Err() != nil {
		return 0, s.stop()
	}
	if err != nil {
		return 1, errors.Join(err, s.stop())
	}
	if err := json.NewEncoder(os.Stdout).Encode(s); err != nil {
		return 1, errors.Join(fmt.Errorf("print the address: %w", err), s.stop())
	}
	for {
		select {
		case <-ctx.Done():
			return 0, s.stop()
		case c := <-s.died:
			if !opts.breakable {
				return 1, errors.Join(c.end(), s.stop())
			}
			if err := s.again(ctx, c); err != nil {
				return 1, errors.Join(err, s.stop())
			}
		}
	}
}

func run(ctx context.Context, args []string) (int, error) {
	fs := flags("run [flags] -- CMD ARGS…", "Runs CMD with one or more servers, and ends with its exit code.")
	opts := serverFlags(fs)
	count := fs.Int("servers", 1, "how many servers to run; each is a cluster of its own")
	if err := fs.Parse(args); err != nil {
		return 2, err
	}
	if fs.NArg() == 0 {
		return 2, errors.New("run needs a command")
	}
	if *count < 1 || *count > 16 {
		return 2, fmt.Errorf("run needs 1 to 16 servers, got %d", *count)
	}
	// Several servers work more efficiently if each uses only some of the processors.
	if *count > 1 && opts.processors == 0 {
		opts.processors = max(1, runtime.NumCPU() / *count)
	}
	// All servers use the same programs, so build them once before.
	if _, err := servers.folder(ctx, os.Stderr); err != nil {
		return 1, err
	}
	var more []*other
	defer func() {
		for _, o := range more {
			o.stop()
		}
	}()
	for range *count - 1 {
		o, err := startOther(opts)
		if err != nil {
			return 1, err
		}
		more = append(more, o)
	}
	s, err := start(ctx, opts)
	if err != nil {
		return 1, errors.Join(err, s.stop())
	}
	kubeconfigs := []string{s.Kubeconfig}
	for _, o := range more {
		if err := o.ready(); err != nil {
			return 1, errors.Join(err, s.stop())
		}
		kubeconfigs = append(kubeconfigs, o.Kubeconfig)
	}
	slices.Sort(kubeconfigs) // in a stable order
	code, err := s.run(ctx, fs.Args(), "LBREMEDY_SANDBOX="+strings.Join(kubeconfigs, string(os.PathListSeparator)))
	return code, errors.Join(err, s.stop())
}

type other struct {
	server
	cmd   *exec.Cmd
	stdin io.Closer
	out   *bufio.Reader
}

// startOther starts another server without waiting for it. Only main's goroutine may call it.
func startOther(opts *options) (*other, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("start a further server: %w", err)
	}
	o := &other{cmd: exec.Command(self, "up", "--until-eof", fmt.Sprintf("--fsync=%t", opts.fsync), fmt.Sprintf("--fairness=%t", opts.fairness),
		fmt.Sprintf("--processors=%d", opts.processors), "--event-ttl="+opts.eventTTL.String(), "--authentication-config="+opts.authentication)}
	o.cmd.Stderr = os.Stderr
	o.cmd.SysProcAttr = dieWithUs(syscall.SIGTERM)
	o.cmd.SysProcAttr.Setpgid = true // ignore a terminal's ^C: the server ends after its users
	if o.stdin, err = o.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("start a further server: %w", err)
	}
	stdout, err := o.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start a further server: %w", err)
	}
	o.out = bufio.NewReader(stdout)
	if err := o.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a further server: %w", err)
	}
	return o, nil
}

func (o *other) ready() error {
	line, err := o.out.ReadBytes('\n')
	if err != nil {
		return errors.New("start a further server: it ended, and said why on standard error")
	}
	if err := json.Unmarshal(line, &o.server); err != nil {
		return fmt.Errorf("start a further server: it printed %q: %w", line, err)
	}
	return nil
}

func (o *other) stop() {
	o.stdin.Close()
	o.cmd.Wait()
}

func (s *server) run(ctx context.Context, args []string, env ...string) (int, error) {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), env...)
	cmd.SysProcAttr = dieWithUs(syscall.SIGTERM)
	if err := cmd.Start(); err != nil {
		return 127, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()

	var err error
	select {
	case <-ctx.Done():
	case c := <-s.died:
		err = c.end()
	case <-ended:
		return exitCode(cmd.ProcessState), nil
	}
	cmd.Process.Signal(syscall.SIGTERM)
	<-ended
	if err != nil {
		return 1, err
	}
	return exitCode(cmd.ProcessState), nil
}

func exitCode(state *os.ProcessState) int {
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return state.ExitCode()
}

func serverFlags(fs *flag.FlagSet) *options {
	o := &options{}
	fs.BoolVar(&o.fsync, "fsync", true, "let etcd wait for the disk; without it, writes are faster and a power cut loses them")
	fs.BoolVar(&o.fairness, "fairness", true, "let the API server share its time fairly between clients; without it, requests cost less")
	fs.IntVar(&o.processors, "processors", 0, "how many processors each process of a server may use; 0: all, or its part of them where there are more servers")
	fs.DurationVar(&o.eventTTL, "event-ttl", time.Hour, "how long the server keeps Events")
	fs.StringVar(&o.authentication, "authentication-config", "", "`file` with an AuthenticationConfiguration: whose tokens the API server takes beside its own")
	return o
}
