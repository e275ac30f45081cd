package controller

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

const (
	// BinaryVariable names the program of a real cloud-controller-manager, which replaces the simulated one.
	BinaryVariable = "CCM_BIN"
	// VersionVariable names that program's release, v2.14.0 by default, which decides the expected behaviour.
	VersionVariable = "CCM_VERSION"
	// LogVariable names a folder that keeps the logs of real controllers. By default, only the log of a failed one is kept.
	LogVariable = "CCM_LOG"
)

// ErrStalled is the cause with which a caller ends the context of an idle controller.
var ErrStalled = errors.New("it called no API and wrote no Event")

// Real returns the real controller of the environment, and its release; bin is empty if it names none.
func Real() (bin, version string) {
	return os.Getenv(BinaryVariable), cmp.Or(os.Getenv(VersionVariable), defaultVersion)
}

// Since reports whether a version is at least a release; false if the version is invalid.
func Since(version, release string) bool {
	v, err := parseVersion(version)
	return err == nil && v.since(release)
}

// Validate returns the error that Run would return for the options.
func (o Options) Validate() error {
	_, err := o.check()
	return err
}

// Play runs the real controller of the environment, or else the simulated one, until ctx ends. [RunReal] lists the differences.
func Play(ctx context.Context, o Options) error {
	if bin, _ := Real(); bin != "" {
		return RunReal(ctx, bin, o)
	}
	return Run(ctx, o)
}

// StartPlay calls Play until the test ends or stop is called, which waits for the end. A failure fails the test at once.
func StartPlay(t testing.TB, o Options) (stop func()) {
	t.Helper()
	if _, err := o.check(); err != nil {
		t.Fatal(err)
	}
	return start(t, func(ctx context.Context) error { return Play(ctx, o) })
}

// RunReal runs a real cloud-controller-manager, the program bin, against the simulated cloud until ctx ends, and then returns
// nil. It returns an error, with the end of the log, which is kept, if the program cannot start or ends early, or if ctx ends
// because of ErrStalled.
//
// The program gets the flags of v2.14.0; one that lacks some ends with an error. Kube needs the rights of its ClusterRole: on
// Events, Services and their status, nodes, endpoints, EndpointSlices, and Pods and their status. The program has an environment
// of its own and uses only the simulated cloud. On Linux it ends with this process in any case; a script has to exec it.
//
// Use a cluster without other tests: a real controller cannot be limited to a namespace or some nodes. It chooses vSwitches, has
// its own version and clock, and writes its Events directly: Namespace, Nodes, Pick, Version, Speed, BackoffBase, BackoffMax and
// Before are ignored.
func RunReal(ctx context.Context, bin string, o Options) error {
	if _, err := o.check(); err != nil {
		return fmt.Errorf("run real controller: %w", err)
	}
	p, err := o.process(bin)
	if err != nil {
		return fmt.Errorf("run real controller: %w", err)
	}
	defer os.RemoveAll(p.dir)
	o.Log.Info("start real controller", "program", p.bin, "arguments", strings.Join(p.args, " "), "log", p.log.Name())
	err = p.run(ctx)
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, ErrStalled):
		err = cause
	case cause != nil, o.DryRun && err == nil:
		return p.close()
	}
	if err == nil {
		err = errors.New("it ended by itself")
	}
	end := p.tail()
	_ = p.log.Close() // the program wrote it
	return fmt.Errorf("run real controller %s: %w; the end of its log, which is %s:\n%s", p.bin, err, p.log.Name(), end)
}

// StartReal calls RunReal until the test ends or stop is called, which waits for the end. A failure fails the test at once.
func StartReal(t testing.TB, bin string, o Options) (stop func()) {
	t.Helper()
	if _, err := o.check(); err != nil {
		t.Fatal(err)
	}
	return start(t, func(ctx context.Context) error { return RunReal(ctx, bin, o) })
}

func start(t testing.TB, run func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := run(ctx); err != nil {
			t.Error(err) // at once: waiting for the controller would be in vain
		}
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		<-ended
	})
	t.Cleanup(stop)
	return stop
}

type process struct {
	bin  string
	args []string
	env  []string
	dir  string   // its own folder, with its configuration
	log  *os.File // its output
	keep bool     // keep the log
}

// addonToken holds a controller's credentials on a managed cluster. They take precedence over the configuration's.
const addonToken = "/var/addon/token-config"

func (o *Options) process(bin string) (_ *process, err error) {
	p := &process{env: o.environment()}
	if p.bin, err = findProgram(bin); err != nil {
		return nil, err
	}
	if err := onLoopback(o.Cloud); err != nil {
		return nil, err
	}
	switch _, err := os.Stat(addonToken); {
	case o.Credentials.Token != "":
		return nil, errors.New("its configuration has no place for a security token: give it a permanent key")
	case len(o.VSwitches) == 0:
		return nil, errors.New("it needs a vSwitch: without one it asks the metadata service of a machine of the cloud")
	case !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("it would use the credentials in %s: run it where that file is not", addonToken)
	}
	if p.dir, err = os.MkdirTemp("", "lbremedy-ccm-"); err != nil {
		return nil, fmt.Errorf("make a folder for its configuration: %w", err)
	}
	defer func() {
		if err != nil {
			os.RemoveAll(p.dir)
		}
	}()
	if p.args, err = o.flags(p.dir); err != nil {
		return nil, err
	}
	logs := os.Getenv(LogVariable)
	p.keep = logs != ""
	if p.keep {
		if err := os.MkdirAll(logs, 0o755); err != nil {
			return nil, fmt.Errorf("make the folder for its log, which %s names: %w", LogVariable, err)
		}
	}
	if p.log, err = os.CreateTemp(logs, "lbremedy-ccm-*.log"); err != nil {
		return nil, fmt.Errorf("make its log: %w", err)
	}
	return p, nil
}

func findProgram(bin string) (string, error) {
	path, err := exec.LookPath(bin)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return "", fmt.Errorf("%s can not be executed: it needs the permission to (chmod +x)", bin)
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		hint := ""
		if !filepath.IsAbs(bin) {
			hint = "; tests run in folders of their own, so name it by an absolute path"
		}
		return "", fmt.Errorf("there is no program %s%s", bin, hint)
	case err != nil:
		return "", fmt.Errorf("find the program %s: %w", bin, err)
	}
	if path, err = filepath.Abs(path); err != nil {
		return "", fmt.Errorf("find the program %s: %w", bin, err)
	}
	return path, nil
}

const grace = 10 * time.Second

func (p *process) run(ctx context.Context) error {
	if ctx.Err() != nil {
		return nil
	}
	cmd := exec.Command(p.bin, p.args...)
	cmd.Env, cmd.Dir = p.env, p.dir
	cmd.Stdout, cmd.Stderr = p.log, p.log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // end processes of a script, too
	dieWithUs(cmd.SysProcAttr)
	started, ended := make(chan error, 1), make(chan error, 1)
	go func() {
		// The kernel kills the program when the thread that started it ends, so this thread lives as long as the program.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			ended <- cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return err
	}
	group := -cmd.Process.Pid
	defer func() { _ = syscall.Kill(group, syscall.SIGKILL) }() // kill remaining processes
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		_ = syscall.Kill(group, syscall.SIGTERM) // it may have ended just now
	}
	patience := time.NewTimer(grace)
	defer patience.Stop()
	select {
	case <-ended:
	case <-patience.C:
		_ = syscall.Kill(group, syscall.SIGKILL)
		<-ended
	}
	return nil
}

// close removes the log of a controller that ended well, unless it is to be kept.
func (p *process) close() error {
	err := p.log.Close()
	if !p.keep {
		err = errors.Join(err, os.Remove(p.log.Name()))
	}
	if err != nil {
		return fmt.Errorf("put the log of the real controller away: %w", err)
	}
	return nil
}

const tailSize = 8 << 10

func (p *process) tail() string {
	info, err := p.log.Stat()
	if err != nil {
		return err.Error()
	}
	b := make([]byte, min(info.Size(), tailSize))
	if _, err := p.log.ReadAt(b, info.Size()-int64(len(b))); err != nil {
		return err.Error()
	}
	if info.Size() > tailSize {
		_, b, _ = bytes.Cut(b, []byte("\n"))
	}
	if len(b) == 0 {
		return "(it wrote nothing)"
	}
	return string(b)
}

func (o *Options) environment() []string {
	env := []string{
		"ALICLOUD_CLIENT_SCHEME=HTTP",
		// The metadata service is not used; if it were, this is not the real one.
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

// flags writes the controller's files to dir and returns its flags. The defaults suit the others: --network, which decides about
// endpoints that are not configured, and no feature gate.
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
		// Without listeners, ports do not conflict.
		"--metrics-bind-addr=0", "--health-probe-bind-addr=0", "--pprof-bind-addr=0",
		"--kube-api-qps=1000", "--kube-api-burst=1000",
		fmt.Sprintf("--concurrent-service-syncs=%d", o.Workers),
	}
	if o.Routes != "" {
		args[2], args[3] = "--controllers=service,nlb,route", "--configure-cloud-routes=true"
		// The controller's defaults are a second and five minutes.
		args = append(args, "--cluster-cidr="+o.Routes, "--node-event-aggregation-wait-seconds=0", "--route-reconciliation-period=1m")
	}
	if o.DryRun {
		args = append(args, "--dry-run")
	}
	return args, nil
}

func (o *Options) writeCloudConfig(file string) error {
	zone, _, _ := strings.Cut(o.VSwitches[0], ":")
	global := map[string]any{
		"clusterID": o.ClusterID, "region": o.Region, "zoneid": zone, "vpcid": o.VPC, "vswitchid": strings.Join(o.VSwitches, ","),
		"accessKeyID":        base64.StdEncoding.EncodeToString([]byte(o.Credentials.AccessKeyID)),
		"accessKeySecret":    base64.StdEncoding.EncodeToString([]byte(o.Credentials.Secret)),
		"serviceBackendType": o.Backends, "disablePublicSLB": o.NoPublic,
		"serviceMaxConcurrentReconciles": o.Workers, // for releases without the flag
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

// writeKubeconfig writes absolute paths, because the program runs in another folder.
func writeKubeconfig(file string, c *rest.Config) error {
	const name = "sandbox"
	cluster, user := clientcmdapi.NewCluster(), clientcmdapi.NewAuthInfo()
	cluster.Server, cluster.InsecureSkipTLSVerify = c.Host, c.Insecure
	cluster.CertificateAuthority, cluster.CertificateAuthorityData, cluster.TLSServerName = c.CAFile, c.CAData, c.ServerName
	cluster.DisableCompression = c.DisableCompression
	user.ClientCertificate, user.ClientCertificateData = c.CertFile, c.CertData
	user.ClientKey, user.ClientKeyData = c.KeyFile, c.KeyData
	user.Token, user.TokenFile, user.Username, user.Password = c.BearerToken, c.BearerTokenFile, c.Username, c.Password
	user.Impersonate, user.ImpersonateUID = c.Impersonate.UserName, c.Impersonate.UID
	user.ImpersonateGroups, user.ImpersonateUserExtra = c.Impersonate.Groups, c.Impersonate.Extra
	user.Exec, user.AuthProvider = c.ExecProvider, c.AuthProvider
	for _, path := range []*string{&cluster.CertificateAuthority, &user.ClientCertificate, &user.ClientKey, &user.TokenFile} {
		if *path == "" {
			continue
		}
		var err error
		if *path, err = filepath.Abs(*path); err != nil {
			return fmt.Errorf("write kubeconfig: %w", err)
		}
	}
	if c.Proxy != nil {
		server, err := url.Parse(c.Host)
		if err != nil {
			return fmt.Errorf("write kubeconfig: %w", err)
		}
		proxy, err := c.Proxy(&http.Request{URL: server})
		if err != nil {
			return fmt.Errorf("write kubeconfig: find the proxy of %s: %w", c.Host, err)
		}
		if proxy != nil {
			cluster.ProxyURL = proxy.String()
		}
	}
	if c.Transport != nil || c.Dial != nil {
		return errors.New("write kubeconfig: no kubeconfig can say how the cluster is reached: it has a transport of its own")
	}
	current := clientcmdapi.NewContext()
	current.Cluster, current.AuthInfo = name, name
	config := clientcmdapi.NewConfig()
	config.Clusters[name], config.AuthInfos[name], config.Contexts[name], config.CurrentContext = cluster, user, current, name
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	return nil
}

// onLoopback rejects addresses of other machines: the simulated cloud listens nowhere else.
func onLoopback(address string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil || port == "" {
		return fmt.Errorf("%q is not host:port of the simulated cloud", address)
	}
	if a, err := netip.ParseAddr(host); host != "localhost" && (err != nil || !a.IsLoopback()) {
		return fmt.Errorf("%s is not a loopback address: the simulated cloud is on no other machine", address)
	}
	return nil
}
