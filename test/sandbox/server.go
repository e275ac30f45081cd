package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

type options struct {
	fsync      bool
	fairness   bool
	processors int // of each process; zero: all
	eventTTL   time.Duration
	breakable  bool // for tests that break it

	authentication string // path of an AuthenticationConfiguration; empty: only certificates and ServiceAccounts
}

// A server is a kube-apiserver and its etcd, as child processes. Its exported fields are the output of "up".
type server struct {
	Kubeconfig string `json:"kubeconfig"` // of an admin in system:masters
	Server     string `json:"server"`
	Etcd       string `json:"etcd"` // also serves etcd's JSON API
	Dir        string `json:"dir"`  // etcd's data and the logs; removed at the end
	PID        int    `json:"pid"`  // of the sandbox

	// Breakable servers have a second API server on the same etcd, with this address.
	More []string `json:"more,omitempty"`

	bin      string
	env      []string // of its processes, in addition to PATH and TMPDIR
	opts     *options
	children []*child
	lock     *os.File
	died     chan *child // receives a process that ends before stop
	stopping atomic.Bool
}

type child struct {
	name  string
	args  []string
	log   string // path
	cmd   *exec.Cmd
	ended chan struct{} // closed when the process has ended
}

// start builds missing programs and returns a ready server. The server is never nil; after an error, stop removes the rest.
func start(ctx context.Context, opts *options) (*server, error) {
	s := &server{PID: os.Getpid(), opts: opts, died: make(chan *child, 3)}
	s.env = []string{"GOGC=400"} // less frequent collection of a small heap
	if n := opts.processors; n > 0 {
		s.env = append(s.env, fmt.Sprintf("GOMAXPROCS=%d", n))
	}
	var err error
	if s.bin, err = servers.folder(ctx, os.Stderr); err != nil {
		return s, err
	}
	if err := s.makeDir(); err != nil {
		return s, err
	}
	if err := s.startEtcd(ctx); err != nil {
		return s, err
	}
	if err := s.startAPIServer(ctx); err != nil {
		return s, err
	}
	for _, c := range s.children {
		s.watch(c)
	}
	return s, nil
}

const dirPrefix = "lbremedy-sandbox-"

// makeDir creates the server's directory. Its name includes the programs' versions and is reused by the next run.
func (s *server) makeDir() (err error) {
	s.Dir, s.lock, err = claimDir(dirPrefix, filepath.Base(s.bin)+"-", os.RemoveAll)
	return err
}

// claimDir creates a directory, with the first free name of a sequence, and returns it with a locked file that marks it as in
// use. It removes the unlocked directories of killed processes.
func claimDir(prefix, name string, remove func(dir string) error) (string, *os.File, error) {
	old, err := filepath.Glob(filepath.Join(os.TempDir(), prefix+"*"))
	if err != nil {
		return "", nil, err
	}
	for _, dir := range old {
		if lock, err := lockDir(dir); err == nil {
			remove(dir)
			lock.Close()
		}
	}
	for i := 0; ; i++ {
		dir := filepath.Join(os.TempDir(), fmt.Sprintf("%s%s%d", prefix, name, i))
		if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return "", nil, fmt.Errorf("make the server's directory: %w", err)
		}
		lock, err := lockDir(dir)
		if errors.Is(err, errInUse) {
			continue
		}
		if err != nil {
			return "", nil, fmt.Errorf("lock the server's directory: %w", err)
		}
		return dir, lock, nil
	}
}

var errInUse = errors.New("in use")

// lockDir locks a server's directory until the file is closed. It returns errInUse if another process uses it, or has just removed it.
func lockDir(dir string) (*os.File, error) {
	name := filepath.Join(dir, "alive")
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errInUse
	}
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		return nil, errInUse
	}
	// The previous user may have removed it before we locked it.
	ours, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, err
	}
	if there, err := os.Stat(name); err != nil || !os.SameFile(ours, there) {
		f.Close()
		return nil, errInUse
	}
	return f, nil
}

// stop kills the server's processes and removes its directory. An orderly shutdown would only save data that is removed.
func (s *server) stop() error {
	s.stopping.Store(true)
	for _, c := range s.children {
		c.cmd.Process.Kill()
		<-c.ended
	}
	if s.Dir == "" {
		return nil
	}
	if err := os.RemoveAll(s.Dir); err != nil {
		return fmt.Errorf("remove the server's directory: %w", err)
	}
	return nil
}

func (s *server) startEtcd(ctx context.Context) error {
	return s.onFreePorts(2, func(ports []int) error {
		client, peer := local("http", ports[0]), local("http", ports[1])
		s.Etcd = client
		c, err := s.spawn("etcd",
			"--data-dir="+filepath.Join(s.Dir, "data"),
			"--listen-client-urls="+client,
			"--advertise-client-urls="+client,
			"--listen-peer-urls="+peer,
			"--initial-advertise-peer-urls="+peer,
			"--initial-cluster=default="+peer,
			"--quota-backend-bytes=8589934592",
			"--log-level=warn",
			fmt.Sprintf("--unsafe-no-fsync=%t", !s.opts.fsync),
		)
		if err != nil {
			return err
		}
		return c.ready(ctx, http.DefaultClient, client+"/health")
	})
}

func (s *server) startAPIServer(ctx context.Context) error {
	id, err := newIdentity(s.Dir)
	if err != nil {
		return err
	}
	admin := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{
		RootCAs: id.pool, Certificates: []tls.Certificate{id.admin},
	}}}
	defer admin.CloseIdleConnections()
	if s.Server, err = s.startOne(ctx, "kube-apiserver", id, admin); err != nil {
		return err
	}
	if s.opts.breakable {
		second, err := s.startOne(ctx, "kube-apiserver-2", id, admin)
		if err != nil {
			return err
		}
		s.More = []string{second}
	}
	if err := os.WriteFile(filepath.Join(s.Dir, "etcd"), []byte(s.Etcd), 0o600); err != nil {
		return fmt.Errorf("write etcd's address: %w", err)
	}
	if err := os.Symlink(filepath.Join(s.bin, "kubectl"), filepath.Join(s.Dir, "kubectl")); err != nil {
		return fmt.Errorf("put kubectl beside the kubeconfig: %w", err)
	}
	s.Kubeconfig = filepath.Join(s.Dir, "kubeconfig")
	return id.writeKubeconfig(s.Kubeconfig, s.Server)
}

func (s *server) startOne(ctx context.Context, name string, id *identity, admin *http.Client) (address string, err error) {
	var more []string
	if s.opts.breakable {
		file := filepath.Join(s.Dir, "audit.json")
		if err := os.WriteFile(file, []byte(audited), 0o600); err != nil {
			return "", fmt.Errorf("write the audit policy: %w", err)
		}
		// A line that is not written before the answer would be lost with the process; a rotated log would lose its beginning.
		more = []string{"--audit-policy-file=" + file, "--audit-log-path=" + filepath.Join(s.Dir, "audit-"+name+".log"),
			"--audit-log-mode=blocking", "--audit-log-maxsize=1000000"}
	}
	if s.opts.authentication != "" {
		more = append(more, "--authentication-config="+s.opts.authentication)
	}
	err = s.onFreePorts(1, func(ports []int) error {
		address = local("https", ports[0])
		c, err := s.spawn(name, append([]string{
			"--etcd-servers=" + s.Etcd,
			"--bind-address=127.0.0.1",
			// By default it looks for a default route, which an isolated machine does not have.
			"--advertise-address=127.0.0.1",
			fmt.Sprintf("--secure-port=%d", ports[0]),
			"--tls-cert-file=" + id.file("server.crt"),
			"--tls-private-key-file=" + id.file("server.key"),
			"--client-ca-file=" + id.file("ca.crt"),
			"--authorization-mode=Node,RBAC",
			"--service-account-issuer=https://kubernetes.default.svc",
			"--service-account-key-file=" + id.file("tokens.pub"),
			"--service-account-signing-key-file=" + id.file("tokens.key"),
			"--service-cluster-ip-range=10.96.0.0/16",
			// This plugin waits for a ServiceAccount that no controller creates here.
			"--disable-admission-plugins=ServiceAccount",
			// Endpoints cannot have a loopback address.
			"--endpoint-reconciler-type=none",
			"--allow-privileged=true",
			fmt.Sprintf("--enable-priority-and-fairness=%t", s.opts.fairness),
			"--event-ttl=" + s.opts.eventTTL.String(),
		}, more...)...)
		if err != nil {
			return err
		}
		return c.ready(ctx, admin, address+"/readyz")
	})
	return address, err
}

// audited is the audit policy of a breakable server: authors and contents of writes to Services and Events.
const audited = `{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"], "omitManagedFields": true, "rules": [
	{"level": "Request", "verbs": ["create", "update", "patch", "delete"], "resources": [{"group": "", "resources": ["services", "services/status", "events"]}]},
	{"level": "Metadata", "verbs": ["create", "update", "patch", "delete"]},
	{"level": "None"}
]}`

var errTaken = errors.New("port is taken")

// onFreePorts calls start with n free loopback ports, and again with others if one is taken before the process listens.
func (s *server) onFreePorts(n int, start func(ports []int) error) error {
	for try := 1; ; try++ {
		ports, err := freePorts(n)
		if err != nil {
			return err
		}
		if err = start(ports); !errors.Is(err, errTaken) || try == 5 {
			return err
		}
		s.children = s.children[:len(s.children)-1]
	}
}

func freePorts(n int) ([]int, error) {
	ports := make([]int, n)
	for i := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		defer l.Close()
		ports[i] = l.Addr().(*net.TCPAddr).Port
	}
	return ports, nil
}

func local(scheme string, port int) string { return fmt.Sprintf("%s://127.0.0.1:%d", scheme, port) }

// spawn starts a program of the server; another one with the same name gets a number. Only main's goroutine may call it.
func (s *server) spawn(name string, args ...string) (*child, error) {
	c := &child{name: name, args: args, log: filepath.Join(s.Dir, name+".log"), ended: make(chan struct{})}
	log, err := os.Create(c.log)
	if err != nil {
		return nil, fmt.Errorf("make the log of %s: %w", name, err)
	}
	defer log.Close()
	c.cmd = exec.Command(filepath.Join(s.bin, strings.TrimSuffix(name, "-2")), args...)
	c.cmd.Dir = s.Dir
	c.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + s.Dir}, s.env...)
	c.cmd.Stdout, c.cmd.Stderr = log, log
	c.cmd.SysProcAttr = dieWithUs(syscall.SIGKILL)
	// A terminal's ^C is for the sandbox and its users; the server ends after them.
	c.cmd.SysProcAttr.Setpgid = true
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	s.children = append(s.children, c)
	go func() {
		c.cmd.Wait()
		close(c.ended)
	}()
	if !s.opts.breakable {
		return c, nil
	}
	if err := os.WriteFile(filepath.Join(s.Dir, name+".pid"), fmt.Append(nil, c.cmd.Process.Pid), 0o600); err != nil {
		return nil, fmt.Errorf("write the process ID of %s: %w", name, err)
	}
	return c, nil
}

func (s *server) watch(c *child) {
	go func() {
		<-c.ended
		if !s.stopping.Load() {
			s.died <- c
		}
	}()
}

// again restarts a process with the same arguments. It waits while the server's directory has a file named hold, which lets a
// test change the files meanwhile. Only main's goroutine may call it.
func (s *server) again(ctx context.Context, c *child) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(50 * time.Millisecond): // avoid a busy loop if it ends at once
		}
		if _, err := os.Stat(filepath.Join(s.Dir, "hold")); errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	s.children = slices.DeleteFunc(s.children, func(o *child) bool { return o == c })
	next, err := s.spawn(c.name, c.args...)
	if err != nil {
		return err
	}
	s.watch(next)
	return nil
}

func (c *child) failure(what string) error {
	log, err := os.ReadFile(c.log)
	if err != nil {
		return fmt.Errorf("%s: %s, and its log is gone: %w", c.name, what, err)
	}
	return fmt.Errorf("%s: %s; its last lines:\n%s", c.name, what, tail(string(log)))
}

func (c *child) end() error { return c.failure(c.cmd.ProcessState.String()) }

const patience = 2 * time.Minute

// ready waits until the URL answers 200. It returns errTaken if the child ended because another process uses its port.
func (c *child) ready(ctx context.Context, client *http.Client, url string) error {
	deadline := time.After(patience)
	for {
		if answers(ctx, client, url) {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-c.ended:
			err := c.failure(c.cmd.ProcessState.String())
			if strings.Contains(err.Error(), "address already in use") {
				return errTaken
			}
			return err
		case <-deadline:
			return c.failure(fmt.Sprintf("not ready after %s", patience))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func answers(ctx context.Context, client *http.Client, url string) bool {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	resp, err := client.Do(req)
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}
