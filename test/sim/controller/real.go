package controller

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// BinaryVariable is the environment variable that names the program of a real
// cloud-controller-manager, which then takes the place of the simulated one.
const BinaryVariable = "CCM_BIN"

// Validate says what is wrong with the options, as Run would.
func (o Options) Validate() error {
	_, err := o.check()
	return err
}

// Play runs the controller until ctx ends: the real one that the environment
// names, or else the simulated one. Apart from what [RunReal] says the two are
// the same to a caller.
func Play(ctx context.Context, o Options) error {
	if bin := os.Getenv(BinaryVariable); bin != "" {
		return RunReal(ctx, bin, o)
	}
	return Run(ctx, o)
}

// StartPlay plays the controller until the test ends, or until the returned
// function is called, which waits for the end. See [Play].
func StartPlay(t testing.TB, o Options) (stop func()) {
	t.Helper()
	if _, err := o.check(); err != nil {
		t.Fatal(err)
	}
	return start(t, func(ctx context.Context) error { return Play(ctx, o) })
}

// grace is how long a real controller has to end before it is killed.
const grace = 10 * time.Second

// RunReal runs a real cloud-controller-manager, the program bin, against the
// simulated cloud until ctx ends, and returns nil then. It returns an error if
// the program can not be started or ends by itself, with the end of what it
// wrote.
//
// The real one has no way to keep to a namespace or to some of the nodes, picks
// vSwitches as it likes, has its own version and its own clock, and writes its
// events itself: Namespace, Nodes, Pick, Version, Speed, BackoffBase, BackoffMax
// and Before do not count. Let nothing else live in its cluster.
func RunReal(ctx context.Context, bin string, o Options) error {
	if _, err := o.check(); err != nil {
		return fmt.Errorf("run real controller: %w", err)
	}
	if o.Credentials.Token != "" {
		return errors.New("run real controller: its configuration has no place for a security token: give it a permanent key")
	}
	dir, err := os.MkdirTemp("", "lbremedy-ccm-")
	if err != nil {
		return fmt.Errorf("run real controller: %w", err)
	}
	defer os.RemoveAll(dir)
	args, err := o.flags(dir)
	if err != nil {
		return fmt.Errorf("run real controller: %w", err)
	}
	said := &tail{}
	cmd := exec.CommandContext(ctx, bin, args...)
	cmd.Env, cmd.Dir = o.environment(), dir
	cmd.Stdout, cmd.Stderr = said, said
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = grace
	o.Log.Info("start real controller", "program", bin, "arguments", strings.Join(args, " "))
	err = cmd.Run()
	switch {
	case ctx.Err() != nil, o.DryRun && err == nil:
		return nil
	case err == nil:
		err = errors.New("it ended by itself")
	}
	return fmt.Errorf("run real controller %s: %w; it wrote:\n%s", bin, err, said)
}

// StartReal runs a real cloud-controller-manager until the test ends, or until
// the returned function is called, which waits for the end. See [RunReal].
func StartReal(t testing.TB, bin string, o Options) (stop func()) {
	t.Helper()
	if _, err := o.check(); err != nil {
		t.Fatal(err)
	}
	return start(t, func(ctx context.Context) error { return RunReal(ctx, bin, o) })
}

func start(t testing.TB, run func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// environment returns the variables that make the controller talk to the
// simulated cloud alone.
func (o *Options) environment() []string {
	env := []string{
		"ALICLOUD_CLIENT_SCHEME=HTTP",
		// No metadata service is asked; if one were, it would not be the real one.
		"METADATA_ENDPOINT=http://" + o.Cloud,
	}
	for _, product := range []string{"SLB", "ECS", "VPC", "NLB", "EFLO_CONTROLLER"} {
		env = append(env, product+"_ENDPOINT="+o.Cloud)
	}
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "TZ"} {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// flags writes the files that the controller reads into dir, and returns its
// flags.
func (o *Options) flags(dir string) ([]string, error) {
	kubeconfig, config := filepath.Join(dir, "kubeconfig"), filepath.Join(dir, "cloud-config")
	if err := writeKubeconfig(kubeconfig, o.Kube); err != nil {
		return nil, err
	}
	if err := o.writeCloudConfig(config); err != nil {
		return nil, err
	}
	args := []string{
		"--kubeconfig=" + kubeconfig,
		"--cloud-config=" + config,
		"--controllers=service,nlb",
		"--configure-cloud-routes=false",
		"--leader-elect=false",
		"--pprof-bind-addr=0",
		"--kube-api-qps=1000", "--kube-api-burst=1000",
		fmt.Sprintf("--concurrent-service-syncs=%d", o.Workers),
	}
	for _, flag := range []string{"metrics-bind-addr", "health-probe-bind-addr"} {
		addr, err := freeAddress()
		if err != nil {
			return nil, err
		}
		args = append(args, "--"+flag+"="+addr)
	}
	if o.DryRun {
		args = append(args, "--dry-run")
	}
	return args, nil
}

// freeAddress returns a loopback address that nobody listens on.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().String(), nil
}

func (o *Options) writeCloudConfig(file string) error {
	global := map[string]any{
		"clusterID": o.ClusterID, "region": o.Region, "vpcid": o.VPC, "vswitchid": strings.Join(o.VSwitches, ","),
		"zoneid":             cmp.Or(firstZone(o.VSwitches), o.Region+"-h"),
		"accessKeyID":        base64.StdEncoding.EncodeToString([]byte(o.Credentials.AccessKeyID)),
		"accessKeySecret":    base64.StdEncoding.EncodeToString([]byte(o.Credentials.Secret)),
		"serviceBackendType": o.Backends, "disablePublicSLB": o.NoPublic,
	}
	b, err := json.Marshal(map[string]any{"Global": global})
	if err == nil {
		err = os.WriteFile(file, b, 0o600)
	}
	if err != nil {
		return fmt.Errorf("write cloud config: %w", err)
	}
	return nil
}

func firstZone(vswitches []string) string {
	if len(vswitches) == 0 {
		return ""
	}
	zone, _, _ := strings.Cut(vswitches[0], ":")
	return zone
}

func writeKubeconfig(file string, c *rest.Config) error {
	const name = "sandbox"
	cluster, user := clientcmdapi.NewCluster(), clientcmdapi.NewAuthInfo()
	cluster.Server, cluster.InsecureSkipTLSVerify = c.Host, c.Insecure
	cluster.CertificateAuthority, cluster.CertificateAuthorityData, cluster.TLSServerName = c.CAFile, c.CAData, c.ServerName
	user.ClientCertificate, user.ClientCertificateData = c.CertFile, c.CertData
	user.ClientKey, user.ClientKeyData = c.KeyFile, c.KeyData
	user.Token, user.TokenFile, user.Username, user.Password = c.BearerToken, c.BearerTokenFile, c.Username, c.Password
	user.Impersonate = c.Impersonate.UserName
	current := clientcmdapi.NewContext()
	current.Cluster, current.AuthInfo = name, name
	config := clientcmdapi.NewConfig()
	config.Clusters[name], config.AuthInfos[name], config.Contexts[name], config.CurrentContext = cluster, user, current, name
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	return nil
}

// A tail keeps the end of what is written to it. It is safe for concurrent use.
type tail struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

var _ io.Writer = (*tail)(nil)

const tailSize = 8 << 10

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n, err := t.buf.Write(b)
	if over := t.buf.Len() - tailSize; over > 0 {
		t.buf.Next(over)
	}
	return n, err
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.buf.String()
}
