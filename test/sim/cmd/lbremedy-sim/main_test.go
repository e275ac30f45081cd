package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aliyun/alibaba-cloud-sdk-go/sdk"
	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/auth/credentials"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/slb"

	"github.com/lbremedy/lbremedy/test/cluster"
	"github.com/lbremedy/lbremedy/test/sim"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// start runs the program until the test ends and returns what it printed as
// its environment.
func start(t *testing.T, args ...string) map[string]string {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	r, w := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		code := run(ctx, args, w, t.Output())
		_ = w.Close()
		ended <- code
	}()
	t.Cleanup(func() {
		stop()
		if code := <-ended; code != 0 {
			t.Errorf("the program ended with %d", code)
		}
	})
	env := map[string]string{}
	for lines := bufio.NewScanner(r); lines.Scan(); {
		k, v, _ := strings.Cut(strings.TrimPrefix(lines.Text(), "export "), "=")
		if env[k] = strings.Trim(v, "'"); k == "VPC_ENDPOINT" { // the last one
			return env
		}
	}
	t.Fatal("the program ended before it printed its environment")
	return nil
}

func TestEnvironment(t *testing.T) {
	dir := t.TempDir()
	world, file := filepath.Join(dir, "world.yaml"), filepath.Join(dir, "env")
	if err := os.WriteFile(world, []byte("region: cn-beijing\nloadBalancers: [{id: lb-a}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := start(t, "--world", world, "--env", file)
	if b, err := os.ReadFile(file); err != nil || !strings.Contains(string(b), "export SLB_ENDPOINT='"+env["SLB_ENDPOINT"]+"'\n") {
		t.Errorf("the file has %s, %v", b, err)
	}
	client, err := slb.NewClientWithOptions(env["LBREMEDY_REGION"], sdk.NewConfig().WithScheme(env["ALICLOUD_CLIENT_SCHEME"]),
		credentials.NewAccessKeyCredential(env["ALIBABA_CLOUD_ACCESS_KEY_ID"], env["ALIBABA_CLOUD_ACCESS_KEY_SECRET"]))
	if err != nil {
		t.Fatal(err)
	}
	client.Domain = env["SLB_ENDPOINT"]
	list, err := client.DescribeLoadBalancers(slb.CreateDescribeLoadBalancersRequest())
	if err != nil || list.TotalCount != 1 || list.LoadBalancers.LoadBalancer[0].RegionId != "cn-beijing" {
		t.Errorf("got %+v, %v", list, err)
	}
	resp, err := http.Get("http://" + env["LBREMEDY_CLOUD_ENDPOINT"] + "/sim/calls?caller=operator")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if b, err := io.ReadAll(resp.Body); err != nil || !strings.Contains(string(b), "action: DescribeLoadBalancers") {
		t.Errorf("got %s, %v", b, err)
	}
}

func TestMistakes(t *testing.T) {
	dir := t.TempDir()
	bad, remote := filepath.Join(dir, "bad.yaml"), filepath.Join(dir, "remote")
	for name, text := range map[string]string{
		bad: "nothing: true\n",
		remote: `{apiVersion: v1, kind: Config, current-context: c, clusters: [{name: c, cluster: {server: "https://10.0.0.1:6443"}}],
contexts: [{name: c, context: {cluster: c, user: u}}], users: [{name: u, user: {token: t}}]}`,
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"--help"}, 0, "POST   /sim/faults"},
		{[]string{"--nothing"}, 2, "-nothing"},
		{[]string{"now"}, 2, `"now" is no flag`},
		{[]string{"--speed", "0"}, 2, "--speed"},
		{[]string{"--context", "c"}, 2, "--kubeconfig"},
		{[]string{"--listen", "0.0.0.0:0"}, 1, "not a loopback address"},
		{[]string{"--world", bad}, 1, "nothing"},
		{[]string{"--world", filepath.Join(dir, "none")}, 1, "read the world"},
		{[]string{"--env", filepath.Join(dir, "none", "env")}, 1, "write the environment"},
		{[]string{"--kubeconfig", filepath.Join(dir, "none")}, 1, "none"},
		{[]string{"--kubeconfig", remote}, 2, "--remote"},
	} {
		var errs strings.Builder
		if code := run(t.Context(), tt.args, io.Discard, &errs); code != tt.code || !strings.Contains(errs.String(), tt.says) {
			t.Errorf("%v: got %d, %s", tt.args, code, errs.String())
		}
	}
}

// TestController breaks the cloud by hand, sees the controller fail, heals it
// and sees the load balancer.
func TestController(t *testing.T) {
	c := cluster.Join(t)
	ns := c.Namespace(t)
	env := start(t, "--kubeconfig", c.Kubeconfig, "--namespace", ns, "--speed", "100", "--verbose")
	base := "http://" + env["LBREMEDY_CLOUD_ENDPOINT"] + "/sim/"
	admin := func(method, path, body string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, base+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		if b, _ := io.ReadAll(resp.Body); resp.StatusCode >= 300 {
			t.Fatalf("%s %s: %d %s", method, path, resp.StatusCode, b)
		}
	}
	admin("PATCH", "world", "account: {arrearage: true}")
	events, err := c.Client().CoreV1().Events(ns).Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()
	_, err = c.Client().CoreV1().Services(ns).Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	seen := func(reason, part string) {
		t.Helper()
		for e := range events.ResultChan() {
			if e, ok := e.Object.(*corev1.Event); ok && e.Reason == reason && strings.Contains(e.Message, part) {
				return
			}
		}
		t.Fatalf("no event %s with %q", reason, part)
	}
	seen("SyncLoadBalancerFailed", "The account is arrearage.")
	admin("PATCH", "world", "account: {arrearage: null}")
	seen("EnsuredLoadBalancer", "lb-")
}

func TestOptions(t *testing.T) {
	c := sim.New(t, &sim.World{VSwitches: []sim.VSwitch{{ID: "vsw-a"}, {ID: "vsw-pod"}}, Cluster: sim.Cluster{PodVSwitches: []string{"vsw-pod"}}})
	if o := options(c, nil, settings{version: "v2.9.1", speed: 1}, nil); len(o.VSwitches) != 1 || o.VSwitches[0] != "cn-hangzhou-h:vsw-a" || o.Version != "v2.9.1" {
		t.Errorf("got %+v", o)
	}
}
