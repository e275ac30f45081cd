// Package cluster gives tests and demonstrations a real Kubernetes API: the
// kube-apiserver of test/sandbox, as an admin or as a user with declared rights.
//
// All tests of a process share the servers, and all tests of a run share them
// where the run was started with "sandbox run -- go test ./...": then
// LBREMEDY_SANDBOX lists their kubeconfigs. A test keeps to a namespace of its
// own in the first; one that needs a whole cluster gets one with Alone, the last
// that is free, and others wait for it, whichever process they run in.
//
// What a test leaves in its namespace stays there until a test wants the
// cluster for itself. That is quicker than to clean up after each test, and
// what a failed test leaves can be looked at.
package cluster

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/lbremedy/lbremedy/test/kubernetes"
)

// A Cluster is a kube-apiserver with its etcd. No controller and no node runs in
// it. It is safe for concurrent use.
type Cluster struct {
	Kubeconfig string       // of an admin; a file
	Config     *rest.Config // the admin's, without a client-side rate limit; to be copied, not changed
	Etcd       string       // the address of etcd's JSON API
	More       []string     // addresses of further API servers, of one that is to be broken

	client  *kubernetes.Client
	dynamic dynamic.Interface
	stop    func() // of the server that Start started. It holds the pipe whose end ends that server

	mu    sync.Mutex
	holds map[string]bool // by the name of a test that uses the cluster: whether it has it for itself

	sharing sync.Mutex // held while the shared lock is taken or given back
	shared  int        // tests of this process that share the cluster
	unshare func()     // gives the process's shared lock back
}

// Options are what a program may want of a server. The zero value is a server
// like any cluster's.
type Options struct {
	EventTTL time.Duration // how long Events are kept; zero: an hour
	NoFsync  bool          // write faster, and lose all in a power cut
	Break    bool          // it is to be broken: see Cluster.Dir
	Tokens   string        // file with an AuthenticationConfiguration: whose tokens are taken beside its own; empty: nobody's
	Log      io.Writer     // gets the progress of a first build, and why a start failed; nil: standard error
}

// Join returns the cluster that the tests of this run share: the first one that
// LBREMEDY_SANDBOX names, or else one that is started for this process and ends
// with it.
func Join(t testing.TB) *Cluster {
	t.Helper()
	all, err := joined()
	if err != nil {
		t.Fatalf("join the test cluster: %v", err)
	}
	return all[0]
}

// Alone returns a cluster that is clean and the test's own until it ends, one of
// those that LBREMEDY_SANDBOX names. It waits while all of them are in use. A
// test that calls it does so before anything else of this package.
func Alone(t testing.TB) *Cluster {
	t.Helper()
	all, err := joined()
	if err != nil {
		t.Fatalf("join a test cluster: %v", err)
	}
	c := free(t, all)
	c.Exclusive(t)
	return c
}

// free takes a cluster for the test and returns it; a single cluster it returns untaken. While all clusters are in use, it waits until
// one is free. It does not wait for the first one, which tests share: a test that takes it blocks many others. Tests that wait get
// clusters in the order in which they came.
func free(t testing.TB, all []*Cluster) *Cluster {
	t.Helper()
	if len(all) == 1 {
		return all[0]
	}
	turn := flock(t, all[0].Kubeconfig+".turn", syscall.LOCK_EX)
	defer turn.Close()
	for of := all; ; of = all[1:] {
		for _, c := range slices.Backward(of) {
			if c.take(t) {
				return c
			}
		}
		time.Sleep(20 * time.Millisecond) // nobody can wait for one of several locks
	}
}

// Another returns a second cluster that is clean and the test's own until it ends, for
// one that has the first by Alone: another of those that LBREMEDY_SANDBOX names if one is
// free, or else one that is started. It never waits for other tests, which could wait for
// the first.
func (c *Cluster) Another(t testing.TB) *Cluster {
	t.Helper()
	all, err := joined()
	if err != nil {
		t.Fatalf("join a test cluster: %v", err)
	}
	for i, other := range slices.Backward(all) {
		// The first one is what tests share: who takes it keeps many waiting.
		if i > 0 && other != c && other.take(t) {
			other.Exclusive(t)
			return other
		}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	t.Cleanup(cancel)
	other, stop, err := Start(ctx, Options{NoFsync: true})
	if err != nil {
		t.Fatalf("start another test cluster: %v", err)
	}
	t.Cleanup(stop)
	return other
}

var joined = sync.OnceValues(func() ([]*Cluster, error) {
	var all []*Cluster
	for _, file := range filepath.SplitList(os.Getenv("LBREMEDY_SANDBOX")) {
		c, err := connect(file)
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	if len(all) > 0 {
		return all, nil
	}
	// The end of the process closes the server's standard input, which ends it.
	c, _, err := Start(context.Background(), Options{NoFsync: true})
	return []*Cluster{c}, err
})

// Start starts a server for a program, which has to call the function that it
// returns: that one ends the server and waits until it has gone. The server ends
// with ctx and with the process, too. The program must run within the repository.
func Start(ctx context.Context, opts Options) (*Cluster, func(), error) {
	bin, err := buildSandbox(ctx)
	if err != nil {
		return nil, nil, err
	}
	args := []string{"up", "--until-eof", fmt.Sprintf("--fsync=%t", !opts.NoFsync)}
	if opts.EventTTL > 0 {
		args = append(args, "--event-ttl="+opts.EventTTL.String())
	}
	if opts.Break {
		args = append(args, "--breakable", "--processors=1")
	}
	if opts.Tokens != "" {
		args = append(args, "--authentication-config="+opts.Tokens)
	}
	cmd := exec.Command(bin, args...)
	// Ctrl-C is the program's to answer: it ends the server after what uses it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Stderr = opts.Log
	if opts.Log == nil {
		cmd.Stderr = os.Stderr
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, nil, fmt.Errorf("start the sandbox: %w", err)
	}
	release := context.AfterFunc(ctx, func() { stdin.Close() })
	stop := sync.OnceFunc(func() {
		release()
		stdin.Close()
		cmd.Wait()
	})

	var up struct {
		Kubeconfig string
		More       []string
	}
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	if err != nil {
		stop()
		return nil, nil, errors.Join(fmt.Errorf("start the sandbox: it ended (%v) and said why on standard error", cmd.ProcessState), ctx.Err())
	}
	if err := json.Unmarshal(line, &up); err != nil {
		stop()
		return nil, nil, fmt.Errorf("start the sandbox: it printed %q: %w", line, err)
	}
	c, err := connect(up.Kubeconfig)
	if err != nil {
		stop()
		return nil, nil, err
	}
	c.stop, c.More = stop, up.More
	return c, stop, nil
}

// buildSandbox builds the program of test/sandbox, which has a module of its own,
// into the user's cache directory and returns the file.
func buildSandbox(ctx context.Context) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the cache directory: %w", err)
	}
	dir = filepath.Join(dir, "lbremedy")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("make the cache directory: %w", err)
	}
	// Processes that build at the same time each put a whole program in its place.
	work := filepath.Join(dir, "sandbox-"+rand.Text())
	cmd := exec.CommandContext(ctx, "go", "build", "-mod=readonly", "-buildvcs=false", "-trimpath", "-gcflags=all=-dwarf=false", "-o", work, ".")
	cmd.Dir = filepath.Join(root, "test", "sandbox")
	cmd.Env = append(os.Environ(), "PWD="+cmd.Dir, "GOWORK=off", "GOFLAGS=", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build test/sandbox: %w\n%s", err, out)
	}
	bin := filepath.Join(dir, "sandbox.bin")
	if err := os.Rename(work, bin); err != nil {
		return "", fmt.Errorf("put the sandbox in its place: %w", err)
	}
	return bin, nil
}

// Root returns the root of the repository that the working directory is in.
func Root() (string, error) {
	wd, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the repository: %w", err)
	}
	for dir := wd; ; dir = filepath.Dir(dir) {
		mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.HasPrefix(string(mod), "module github.com/lbremedy/lbremedy\n") {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("find the repository: %s is not in it", wd)
		}
	}
}

// connect returns the cluster of a sandbox's kubeconfig. Exclusive wipes what it
// finds, so a kubeconfig of anything else is refused.
func connect(kubeconfig string) (*Cluster, error) {
	file, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read the sandbox's kubeconfig: %w", err)
	}
	config, err := clientcmd.NewDefaultClientConfig(*file, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("read the sandbox's kubeconfig: %w", err)
	}
	host, err := url.Parse(config.Host)
	if err != nil {
		return nil, fmt.Errorf("read the sandbox's kubeconfig: %w", err)
	}
	if file.CurrentContext != "lbremedy-sandbox" || !net.ParseIP(host.Hostname()).IsLoopback() {
		return nil, fmt.Errorf("%s is not the kubeconfig of a sandbox: its context is %q at %s", kubeconfig, file.CurrentContext, config.Host)
	}
	etcd, err := os.ReadFile(filepath.Join(filepath.Dir(kubeconfig), "etcd"))
	if err != nil {
		return nil, fmt.Errorf("read the address of the sandbox's etcd: %w", err)
	}
	config.QPS = -1
	c := &Cluster{Kubeconfig: kubeconfig, Config: config, Etcd: string(etcd), holds: map[string]bool{}}
	return c, c.connect()
}

// connect makes the clients.
func (c *Cluster) connect() (err error) {
	if c.client, err = kubernetes.New(c.Config); err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	// To clean up means to touch deprecated kinds, which the server would warn of each time.
	quiet := rest.CopyConfig(c.Config)
	quiet.WarningHandler = rest.NoWarnings{}
	if c.dynamic, err = dynamic.NewForConfig(quiet); err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	return nil
}

// Dir returns the folder of a server that is to be broken: of each of its processes, etcd,
// kube-apiserver and kube-apiserver-2, it holds the process ID (.pid) and the log, and of the
// API servers what they audit (audit-NAME.log). Etcd's files are in data. A process that ends is
// started again, but not while there is a file hold.
func (c *Cluster) Dir() string { return filepath.Dir(c.Kubeconfig) }

// At returns the cluster as it is reached by another address, such as that of a proxy.
func (c *Cluster) At(address string) (*Cluster, error) {
	config := rest.CopyConfig(c.Config)
	config.Host = address
	at := &Cluster{Kubeconfig: c.Kubeconfig, Config: config, Etcd: c.Etcd, More: c.More, holds: map[string]bool{}}
	if err := at.connect(); err != nil {
		return nil, err
	}
	return at, nil
}

// Kubectl returns the file of kubectl in the version of the server. It uses the kubeconfig that it is given.
func (c *Cluster) Kubectl() string { return filepath.Join(c.Dir(), "kubectl") }

// Client returns a client of the admin, for what a test arranges and looks at.
func (c *Cluster) Client() *kubernetes.Client { return c.client }

// Dynamic returns a client of the admin for objects of any kind.
func (c *Cluster) Dynamic() dynamic.Interface { return c.dynamic }

// Namespace makes a namespace with a name of its own and returns the name. Until
// the test ends, no other has the cluster for itself.
func (c *Cluster) Namespace(t testing.TB) string {
	t.Helper()
	c.hold(t, false)
	name := "t-" + strings.ToLower(rand.Text()[:10])
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := c.client.CoreV1().Namespaces().Create(t.Context(), ns, metav1.CreateOptions{}); err != nil {
		t.Fatalf("make a namespace: %v", err)
	}
	return name
}
