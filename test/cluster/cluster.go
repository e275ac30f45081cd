// Package cluster provides a real Kubernetes API for tests and demonstrations: the kube-apiserver of test/sandbox, used as an
// admin or as a user with declared rights. Begin with [Join] and [Alone].
//
// Tests of a process share servers, and so do all tests of a run under "sandbox run -- go test ./...", where LBREMEDY_SANDBOX
// lists their kubeconfigs. Shared tests use the first server, each in its own namespace; a test that needs a whole cluster calls
// Alone, which returns the last free server, or waits for one across processes. A test's objects remain until a test takes the
// cluster exclusively: cleaning up after each test would be slower, and the objects of a failed test can be inspected.
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

// A Cluster is a kube-apiserver with etcd, without controllers and nodes. It is safe for concurrent use.
type Cluster struct {
	Kubeconfig string       // path of an admin's
	Config     *rest.Config // the admin's, without a client-side rate limit; copy before changing
	Etcd       string       // URL of etcd's JSON API
	More       []string     // addresses of further API servers, if it is to be broken

	client  *kubernetes.Client
	dynamic dynamic.Interface
	stop    func() // stops the server of Start; holds the pipe whose end stops it

	mu    sync.Mutex
	holds map[string]bool // by the name of a test that uses the cluster: whether exclusively

	sharing sync.Mutex // held while the shared lock is taken or released
	shared  int        // tests of this process that share the cluster
	unshare func()     // releases the process's shared lock
}

// Options configure a server. The zero value is an ordinary server.
type Options struct {
	EventTTL time.Duration // lifetime of Events; zero: an hour
	NoFsync  bool          // faster, but a power cut loses everything
	Break    bool          // it is to be broken: see Cluster.Dir
	Tokens   string        // path of an AuthenticationConfiguration for foreign tokens; empty: none
	Log      io.Writer     // progress of a first build, and start-up errors; nil: standard error
}

// Join returns the cluster that the tests of this run share: the first in LBREMEDY_SANDBOX, or one that starts and ends with this process.
func Join(t testing.TB) *Cluster {
	t.Helper()
	all, err := joined()
	if err != nil {
		t.Fatalf("join the test cluster: %v", err)
	}
	return all[0]
}

// Alone returns a clean cluster of LBREMEDY_SANDBOX for exclusive use until the test ends. It waits while all are in use. A test
// must call it before other functions of this package.
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

// free takes a cluster, waiting while all are in use; a single cluster is returned untaken. It avoids the first one, because many
// tests share it. Waiting tests are served in order.
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
		time.Sleep(20 * time.Millisecond) // no lock can wait for one of several
	}
}

// Another returns a second clean cluster for exclusive use, after Alone: another free one of LBREMEDY_SANDBOX, or a new one. It
// never waits for other tests, which could be waiting for the first.
func (c *Cluster) Another(t testing.TB) *Cluster {
	t.Helper()
	all, err := joined()
	if err != nil {
		t.Fatalf("join a test cluster: %v", err)
	}
	for i, other := range slices.Backward(all) {
		// Taking the shared first one would block many tests.
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
	// The end of this process closes the server's stdin, which stops it.
	c, _, err := Start(context.Background(), Options{NoFsync: true})
	return []*Cluster{c}, err
})

// Start starts a server for a program in the repository, until ctx or the process ends. The returned function stops it and waits.
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
	// Ctrl-C is for the program, which ends the server after its users.
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

// buildSandbox builds the program of test/sandbox, a separate module, in the user's cache directory and returns its path.
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
	// Concurrent processes each move a complete program to its place.
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

// Root returns the root of the repository above the working directory.
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

// connect rejects kubeconfigs that are not a sandbox's, because Exclusive wipes the cluster.
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

func (c *Cluster) connect() (err error) {
	if c.client, err = kubernetes.New(c.Config); err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	// Cleaning up touches deprecated kinds, which would cause warnings each time.
	quiet := rest.CopyConfig(c.Config)
	quiet.WarningHandler = rest.NoWarnings{}
	if c.dynamic, err = dynamic.NewForConfig(quiet); err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	return nil
}

// Dir returns the folder of a server that is to be broken. It has the process ID (.pid) and the log of etcd, kube-apiserver and
// kube-apiserver-2, for API servers also the audit log (audit-NAME.log). data has etcd's files. Ended processes are restarted
// unless a file named hold exists.
func (c *Cluster) Dir() string { return filepath.Dir(c.Kubeconfig) }

// At returns the cluster through another address, such as a proxy's.
func (c *Cluster) At(address string) (*Cluster, error) {
	config := rest.CopyConfig(c.Config)
	config.Host = address
	at := &Cluster{Kubeconfig: c.Kubeconfig, Config: config, Etcd: c.Etcd, More: c.More, holds: map[string]bool{}}
	if err := at.connect(); err != nil {
		return nil, err
	}
	return at, nil
}

// Kubectl returns the path of kubectl in the server's version. It needs a kubeconfig.
func (c *Cluster) Kubectl() string { return filepath.Join(c.Dir(), "kubectl") }

// Client returns an admin's client, for a test's preparations and checks.
func (c *Cluster) Client() *kubernetes.Client { return c.client }

// Dynamic returns an admin's client for objects of any kind.
func (c *Cluster) Dynamic() dynamic.Interface { return c.dynamic }

// Namespace creates a uniquely named namespace and returns its name. Until the test ends, no other test can take the cluster exclusively.
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
