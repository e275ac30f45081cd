package standin

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// told is a valid input of the program, except that its cluster does not exist.
type told struct {
	args, env []string
	config    string // path of the cloud configuration
}

func good(t *testing.T) told {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	kubeconfig := write("kubeconfig", `{apiVersion: v1, kind: Config, current-context: c, clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}],
contexts: [{name: c, context: {cluster: c, user: u}}], users: [{name: u, user: {token: t}}]}`)
	config := write("cloud-config", `{"Global": {"clusterID": "c1", "region": "cn-hangzhou", "zoneid": "cn-hangzhou-h", "vpcid": "vpc-1",
"vswitchid": "cn-hangzhou-h:vsw-1", "accessKeyID": "a2V5", "accessKeySecret": "c2VjcmV0", "disablePublicSLB": false}}`)
	return told{
		args: []string{
			"--kubeconfig=" + kubeconfig, "--cloud-config=" + config, "--controllers=service,nlb", "--configure-cloud-routes=false", "--leader-elect=false",
			"--metrics-bind-addr=0", "--health-probe-bind-addr=0", "--pprof-bind-addr=0", "--kube-api-qps=1000", "--kube-api-burst=1000", "--concurrent-service-syncs=3",
		},
		env: []string{
			"SLB_ENDPOINT=127.0.0.1:2", "NLB_ENDPOINT=127.0.0.1:2", "ECS_ENDPOINT=127.0.0.1:2", "VPC_ENDPOINT=http://127.0.0.1:2",
			"EFLO_CONTROLLER_ENDPOINT=127.0.0.1:2", "ALICLOUD_CLIENT_SCHEME=HTTP", "METADATA_ENDPOINT=http://127.0.0.1:2", "PATH=/bin",
		},
		config: config,
	}
}

func TestStrict(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	g := good(t)
	if err := Run(ended, g.args, g.env, io.Discard); err != nil {
		t.Fatalf("what is right is refused: %v", err)
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, tt := range []struct {
		args string // added; "-name" removes --name
		env  string // changed; "-NAME" removes NAME
		edit [2]string
		says string
		bad  bool // an unknown flag or an invalid value
	}{
		{args: "--metrics-bind-address=0", says: "unknown flag: --metrics-bind-address", bad: true},
		{args: "--enable-leader-election=false", says: "unknown flag", bad: true},
		{args: "--sync-period=1h", says: "unknown flag", bad: true},
		{args: "--configure-cloud-routes=perhaps", says: "invalid argument", bad: true},
		{args: "--concurrent-service-syncs=many", says: "invalid argument", bad: true},
		{args: "--kube-api-qps=fast", says: "invalid argument", bad: true},
		{args: "service", says: `"service" is no flag`, bad: true},
		{args: "--v=2 --logtostderr --max-throttling-retry-times=5 --network=public --route-reconciliation-period=1m"},
		{args: "--max-throttling-retry-times=0", says: "must be positive"},
		{args: "-kubeconfig", says: "no --kubeconfig"},
		{args: "--kubeconfig=/nowhere", says: "load kubeconfig"},
		{args: "-cloud-config", says: "cloud config cannot be empty"},
		{args: "--cloud-config=/nowhere", says: "/nowhere"},
		{args: "-configure-cloud-routes", says: "--cluster-cidr must be set"},
		{args: "--configure-cloud-routes=true --cluster-cidr=10.0.0.0/8", says: "routes are not part"},
		{args: "-leader-elect", says: "lease"},
		{args: "-controllers", says: "want service and nlb"},
		{args: "--controllers=service", says: "want service and nlb"},
		{args: "-kube-api-qps", says: "slower"},
		{args: "-metrics-bind-addr", says: "open to other machines"},
		{args: "-pprof-bind-addr", says: "open to other machines"},
		{args: "--health-probe-bind-addr=" + taken.Addr().String(), says: "address already in use"},
		{args: "--health-probe-bind-addr=127.0.0.1:0 --metrics-bind-addr="},
		{args: "--use-service-account-credentials", says: "another time"},

		{env: "-SLB_ENDPOINT", says: "SLB_ENDPOINT is \"\": the cloud itself would be called"},
		{env: "-EFLO_CONTROLLER_ENDPOINT", says: "EFLO_CONTROLLER_ENDPOINT"},
		{env: "NLB_ENDPOINT=127.0.0.1:3", says: "the endpoints differ"},
		{env: "-ALICLOUD_CLIENT_SCHEME", says: "speaks HTTPS"},
		{env: "ALICLOUD_CLIENT_SCHEME=http", says: "in capitals"},
		{env: "METADATA_ENDPOINT=127.0.0.1:2", says: "puts a path behind it"},
		{env: "-METADATA_ENDPOINT", says: "METADATA_ENDPOINT"},
		{env: "ACCESS_KEY_ID=a", says: "would steer"},
		{env: "https_proxy=a", says: "would steer"},
		{env: "KUBERNETES_SERVICE_HOST=a", says: "would steer"},

		{edit: [2]string{`"clusterID"`, `"clusterId"`}, says: "knows no clusterId"},
		{edit: [2]string{`"vpcid": "vpc-1"`, `"vpcid": ""`}, says: "vpcid is empty"},
		{edit: [2]string{`"region": "cn-hangzhou"`, `"region": 1`}, says: "region is 1"},
		{edit: [2]string{`"disablePublicSLB": false`, `"disablePublicSLB": "no"`}, says: "disablePublicSLB is no"},
		{edit: [2]string{`a2V5`, `key!`}, says: "accessKeyID: illegal base64"},
		{edit: [2]string{`"zoneid"`, `"uid": "1", "zoneid"`}, says: "uid and featureGates"},
		{edit: [2]string{`cn-hangzhou-h:vsw-1`, `vsw-1`}, says: "not of the form zone:vsw-id"},
		{edit: [2]string{`{"Global"`, `{"Local"`}, says: "unknown field"},
		{edit: [2]string{`{"Global"`, `{"Global`}, says: "cloud-config"},
		{edit: [2]string{`"zoneid"`, `"serviceMaxConcurrentReconciles": 9, "zoneid"`}},
	} {
		g := good(t)
		for arg := range strings.FieldsSeq(tt.args) {
			if name, out := strings.CutPrefix(arg, "-"); out && !strings.HasPrefix(name, "-") {
				g.args = slices.DeleteFunc(g.args, func(a string) bool { return strings.HasPrefix(a, "--"+name+"=") })
				continue
			}
			g.args = append(g.args, arg)
		}
		if name, _, _ := strings.Cut(strings.TrimPrefix(tt.env, "-"), "="); name != "" {
			g.env = slices.DeleteFunc(g.env, func(v string) bool { return strings.HasPrefix(v, name+"=") })
			if !strings.HasPrefix(tt.env, "-") {
				g.env = append(g.env, tt.env)
			}
		}
		if tt.edit[0] != "" {
			b, err := os.ReadFile(g.config)
			if err != nil || !strings.Contains(string(b), tt.edit[0]) {
				t.Fatalf("%s is not in %s: %v", tt.edit[0], b, err)
			}
			if err := os.WriteFile(g.config, []byte(strings.Replace(string(b), tt.edit[0], tt.edit[1], 1)), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		err := Run(ended, g.args, g.env, io.Discard)
		switch {
		case tt.says == "" && err != nil:
			t.Errorf("%+v: %v", tt, err)
		case tt.says != "" && (err == nil || !strings.Contains(err.Error(), tt.says)):
			t.Errorf("%+v: got %v", tt, err)
		case errors.As(err, new(badFlag)) != tt.bad:
			t.Errorf("%+v: whether the flags are bad: %v", tt, !tt.bad)
		}
	}
}
