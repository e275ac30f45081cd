// Package standin runs the simulated controller as a program in place of a real one in CCM_BIN. It tests the path to a real controller, from
// the variable to the Events, not the controller's behaviour. Begin with [Program].
//
// It accepts exactly the inputs of a real v2.14.0: flags with their types and checks, the fields of the cloud configuration with keys in
// base64, and endpoints and scheme from the environment. It ends with an error where a real controller would do something that no test
// wants, such as call the real cloud, wait for leader election or use the metadata service. Sources in the controller: cmd/manager/main.go,
// pkg/config/{controller_config,runtime_config,cloud_config,feature_gates}.go, pkg/provider/alibaba/base/{clientMgr,token,metadata}.go.
package standin

import (
	"context"
	"encoding/base64"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"sigs.k8s.io/yaml"

	"github.com/lbremedy/lbremedy/test/sim"
	"github.com/lbremedy/lbremedy/test/sim/controller"
)

// Version is the simulated release.
const Version = "v2.14.0"

const programVariable = "LBREMEDY_CCM_STANDIN"

// Main runs the program and exits, if Program started this process. TestMain calls it first.
func Main() {
	if os.Getenv(programVariable) == "" {
		return
	}
	// The controller's environment must not contain this.
	if err := os.Unsetenv(programVariable); err != nil {
		panic(err)
	}
	os.Exit(Process())
}

// Process runs the program until SIGTERM and returns the exit code.
func Process() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	err := Run(ctx, os.Args[1:], os.Environ(), os.Stderr)
	var bad badFlag
	switch {
	case err == nil:
		return 0
	case errors.As(err, &bad):
		fmt.Fprintln(os.Stderr, err)
		return 2 // as pflag does
	}
	fmt.Fprintln(os.Stderr, "unable to run:", err)
	return 1
}

// Program returns the path of a stand-in for CCM_BIN, valid until the test ends. The test binary has to call Main.
func Program(t testing.TB) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "cloud-controller-manager")
	script := fmt.Sprintf("#!/bin/sh\n%s=1 exec '%s' \"$@\"\n", programVariable, strings.ReplaceAll(self, "'", `'\''`))
	if err := os.WriteFile(file, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return file
}

// Run runs the program with these arguments and environment. It returns nil when ctx ends, or after a dry run.
func Run(ctx context.Context, args, environ []string, log io.Writer) error {
	f, err := parse(args)
	if err != nil {
		return badFlag{err}
	}
	if err := f.check(); err != nil {
		return fmt.Errorf("unable to load controller config: %w", err)
	}
	config, err := readConfig(f.cloudConfig)
	if err != nil {
		return fmt.Errorf("load cloud config: %w", err)
	}
	o, err := f.options(config)
	if err != nil {
		return err
	}
	if o.Cloud, err = endpoint(environ); err != nil {
		return fmt.Errorf("environment: %w", err)
	}
	for _, addr := range []string{f.metrics, f.health, f.pprof} {
		l, err := listen(addr)
		if err != nil {
			return fmt.Errorf("listen: %w", err)
		}
		if l != nil {
			defer l.Close()
		}
	}
	fmt.Fprintf(log, "Cloud Controller Manager Version: %s, the stand-in, for the cloud at %s\n", Version, o.Cloud)
	o.Log = slog.New(slog.NewTextHandler(log, nil))
	return controller.Run(ctx, o)
}

type badFlag struct{ error }

type flags struct {
	kubeconfig, cloudConfig      string
	controllers                  []string
	cloudRoutes, leader, dry     bool
	cidr, network                string
	metrics, health, pprof       string
	qps                          float32
	burst, workers               int
	actions, retries             int
	serviceAccounts, untaggedOne bool
}

func parse(args []string) (*flags, error) {
	f := &flags{}
	logging := flag.NewFlagSet("", flag.ContinueOnError)
	klog.InitFlags(logging)
	logging.StringVar(&f.kubeconfig, "kubeconfig", "", "")
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.AddGoFlagSet(logging)
	for _, s := range []struct {
		to          *string
		name, value string
	}{
		{&f.cloudConfig, "cloud-config", ""}, {&f.cidr, "cluster-cidr", ""}, {&f.network, "network", "vpc"}, {new(string), "cloud-provider", "alibabacloud"},
		{new(string), "cluster-name", "kubernetes"}, {&f.metrics, "metrics-bind-addr", ":8080"}, {&f.health, "health-probe-bind-addr", ":10258"},
		{&f.pprof, "pprof-bind-addr", ":6060"}, {new(string), "leader-elect-resource-lock", "leases"},
		{new(string), "leader-elect-resource-name", "ccm"}, {new(string), "leader-elect-resource-namespace", "kube-system"},
	} {
		fs.StringVar(s.to, s.name, s.value, "")
	}
	for _, b := range []struct {
		to    *bool
		name  string
		value bool
	}{
		{&f.cloudRoutes, "configure-cloud-routes", true}, {&f.leader, "leader-elect", true}, {&f.dry, "dry-run", false},
		{&f.serviceAccounts, "use-service-account-credentials", false}, {new(bool), "allocate-node-cidrs", false},
		{&f.untaggedOne, "allow-untagged-cloud", false}, {new(bool), "enable-imdsv2", true}, {new(bool), "skip-disable-source-dest-check", false},
	} {
		fs.BoolVar(b.to, b.name, b.value, "")
	}
	for _, n := range []struct {
		to    *int
		name  string
		value int
	}{
		{&f.workers, "concurrent-service-syncs", 3}, {new(int), "sg-batch-size", 40}, {&f.actions, "max-concurrent-actions", 10},
		{&f.retries, "max-throttling-retry-times", 10}, {new(int), "node-reconcile-batch-size", 100}, {new(int), "route-reconcile-batch-size", 50},
		{new(int), "node-event-aggregation-wait-seconds", 1}, {&f.burst, "kube-api-burst", 30},
	} {
		fs.IntVar(n.to, n.name, n.value, "")
	}
	for _, d := range []string{
		"route-reconciliation-period", "node-monitor-period", "leader-elect-lease-duration", "leader-elect-renew-deadline", "leader-elect-retry-period",
	} {
		fs.Duration(d, time.Minute, "")
	}
	fs.Float32Var(&f.qps, "kube-api-qps", 20, "")
	fs.StringSliceVar(&f.controllers, "controllers", []string{"node", "route", "service", "nlb"}, "")
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	if fs.NArg() > 0 {
		return nil, fmt.Errorf("%q is no flag", fs.Arg(0))
	}
	return f, nil
}

// check rejects what the controller rejects, and what no test wants.
func (f *flags) check() error {
	switch {
	case f.cloudConfig == "":
		return errors.New("cloud config cannot be empty")
	case f.cloudRoutes && f.cidr == "":
		return errors.New("--cluster-cidr must be set when --configure-cloud-routes=true")
	case f.actions <= 0 || f.retries <= 0:
		return errors.New("--max-concurrent-actions and --max-throttling-retry-times must be positive")

	case f.kubeconfig == "":
		return errors.New("no --kubeconfig: the cluster that it runs in would be synced, or that of the home directory")
	case f.leader:
		return errors.New("--leader-elect: it would wait for the lease of another, or keep it from the next")
	case f.cloudRoutes:
		return errors.New("--configure-cloud-routes: routes are not part of the simulation")
	case !slices.Equal(slices.Sorted(slices.Values(f.controllers)), []string{"nlb", "service"}):
		return fmt.Errorf("--controllers=%s: want service and nlb; others change nodes and routes", strings.Join(f.controllers, ","))
	case f.serviceAccounts || f.untaggedOne:
		return errors.New("--use-service-account-credentials and --allow-untagged-cloud are of another time")
	case f.qps < 100 || f.burst < 100:
		return fmt.Errorf("--kube-api-qps=%v --kube-api-burst=%d: the controller would be slower than what it is compared with", f.qps, f.burst)
	}
	return nil
}

// known are the fields of the section Global in the cloud configuration, and whether each is a string.
var known = map[string]bool{
	"uid": true, "accessKeyID": true, "accessKeySecret": true, "clusterID": true, "kubernetesClusterTag": true, "region": true, "vpcid": true,
	"zoneid": true, "vswitchid": true, "resourceGroupID": true, "serviceBackendType": true, "routeTableIDs": true, "privateZoneId": true, "featureGates": true,
	"disablePublicSLB": false, "serviceMaxConcurrentReconciles": false, "nodeMaxConcurrentReconciles": false, "routeMaxConcurrentReconciles": false,
	"nodeMonitorPeriod": false, "nodeAddrSyncPeriod": false, "privateZoneRecordTTL": false,
}

type cloudConfig struct {
	text     map[string]string
	noPublic bool
	workers  int
}

func readConfig(file string) (*cloudConfig, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var all struct{ Global map[string]any }
	if err := yaml.UnmarshalStrict(b, &all); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	c := &cloudConfig{text: map[string]string{}}
	for name, value := range all.Global {
		text, is := value.(string)
		switch isText, ok := known[name]; {
		case !ok:
			return nil, fmt.Errorf("%s: the controller knows no %s; it knows %s", file, name, strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		case isText != is:
			return nil, fmt.Errorf("%s: %s is %v", file, name, value)
		}
		c.text[name] = text
	}
	c.noPublic, _ = all.Global["disablePublicSLB"].(bool)
	if n, ok := all.Global["serviceMaxConcurrentReconciles"].(float64); ok {
		c.workers = int(n)
	}
	for _, name := range []string{"clusterID", "region", "zoneid", "vpcid", "vswitchid", "accessKeyID", "accessKeySecret"} {
		if c.text[name] == "" {
			return nil, fmt.Errorf("%s: %s is empty: the metadata service would be asked, or the environment", file, name)
		}
	}
	if c.text["uid"] != "" || c.text["featureGates"] != "" {
		return nil, fmt.Errorf("%s: uid and featureGates are not part of the simulation", file)
	}
	for _, name := range []string{"accessKeyID", "accessKeySecret"} {
		plain, err := base64.StdEncoding.DecodeString(c.text[name])
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", file, name, err)
		}
		c.text[name] = string(plain)
	}
	return c, nil
}

func (f *flags) options(c *cloudConfig) (controller.Options, error) {
	kube, err := clientcmd.BuildConfigFromFlags("", f.kubeconfig)
	if err != nil {
		return controller.Options{}, fmt.Errorf("load kubeconfig: %w", err)
	}
	kube.QPS, kube.Burst = f.qps, f.burst
	workers := f.workers
	if c.workers > 0 {
		workers = c.workers
	}
	return controller.Options{
		Kube: kube, Credentials: sim.Credentials{AccessKeyID: c.text["accessKeyID"], Secret: c.text["accessKeySecret"]},
		Region: c.text["region"], ClusterID: c.text["clusterID"], VPC: c.text["vpcid"], VSwitches: strings.Split(c.text["vswitchid"], ","),
		Version: Version, Workers: workers, Backends: c.text["serviceBackendType"], NoPublic: c.noPublic, DryRun: f.dry,
	}, nil
}

func endpoint(environ []string) (string, error) {
	env := map[string]string{}
	for _, v := range environ {
		name, value, _ := strings.Cut(v, "=")
		env[name] = value
	}
	for name := range env {
		for _, steers := range []string{"ACCESS_KEY", "ALIBABA", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "SERVICE_FORCE_BACKEND_ENI", "KUBECONFIG", "KUBERNETES_"} {
			if strings.Contains(strings.ToUpper(name), steers) {
				return "", fmt.Errorf("%s is set: it would steer the controller", name)
			}
		}
	}
	if scheme := env["ALICLOUD_CLIENT_SCHEME"]; scheme != "HTTP" {
		return "", fmt.Errorf("ALICLOUD_CLIENT_SCHEME is %q: the controller speaks HTTPS unless it is HTTP, in capitals", scheme)
	}
	var all []string
	for _, name := range []string{"SLB_ENDPOINT", "NLB_ENDPOINT", "ECS_ENDPOINT", "VPC_ENDPOINT", "EFLO_CONTROLLER_ENDPOINT"} {
		text := env[name]
		if !strings.HasPrefix(text, "http") {
			text = "http://" + text
		}
		u, err := url.Parse(text)
		if err != nil || u.Host == "" {
			return "", fmt.Errorf("%s is %q: the cloud itself would be called", name, env[name])
		}
		all = append(all, u.Host)
	}
	if u, err := url.Parse(env["METADATA_ENDPOINT"]); err != nil || u.Scheme != "http" {
		return "", fmt.Errorf("METADATA_ENDPOINT is %q: the controller puts a path behind it and nothing before", env["METADATA_ENDPOINT"])
	} else {
		all = append(all, u.Host)
	}
	if all = slices.Compact(slices.Sorted(slices.Values(all))); len(all) > 1 {
		return "", fmt.Errorf("the endpoints differ: %s", strings.Join(all, ", "))
	}
	host, port, err := net.SplitHostPort(all[0])
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if a, bad := netip.ParseAddr(host); err != nil || bad != nil || !a.IsLoopback() {
		return "", fmt.Errorf("the endpoint %s is not host:port on loopback", all[0])
	}
	return all[0], nil
}

func listen(addr string) (net.Listener, error) {
	if addr == "" || addr == "0" {
		return nil, nil
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	if a, err := netip.ParseAddr(host); err != nil || !a.IsLoopback() {
		return nil, fmt.Errorf("%s is open to other machines", addr)
	}
	return net.Listen("tcp", addr)
}
