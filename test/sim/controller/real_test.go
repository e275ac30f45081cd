package controller_test

import (
	"bufio"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/lbremedy/lbremedy/test/cluster"
	"github.com/lbremedy/lbremedy/test/sim"
	"github.com/lbremedy/lbremedy/test/sim/controller"
	"github.com/lbremedy/lbremedy/test/sim/controller/standin"
)

const victimVariable = "LBREMEDY_CCM_VICTIM"

func TestMain(m *testing.M) {
	standin.Main()
	if bin := os.Getenv(victimVariable); bin != "" {
		err := controller.RunReal(context.Background(), bin, realOptions())
		panic("the controller has ended before the one that runs it: " + err.Error())
	}
	os.Exit(m.Run())
}

func script(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "ccm")
	if err := os.WriteFile(file, []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return file
}

func realOptions() controller.Options {
	return controller.Options{
		Kube: &rest.Config{Host: "https://127.0.0.1:1", TLSClientConfig: rest.TLSClientConfig{Insecure: true}, BearerToken: "t"}, Cloud: "127.0.0.1:2",
		Credentials: sim.Credentials{AccessKeyID: "key", Secret: "secret"},
		ClusterID:   "c1", VPC: "vpc-1", VSwitches: []string{"cn-hangzhou-i:vsw-1", "cn-hangzhou-h:vsw-2"}, Backends: "eni",
	}
}

func TestRealIsTold(t *testing.T) {
	out := t.TempDir()
	t.Setenv("PATH", "/bin:/usr/bin")
	t.Setenv("TMPDIR", t.TempDir())
	for _, name := range []string{"ACCESS_KEY_ID", "ALIBABA_CLOUD_ACCESS_KEY_ID", "HTTP_PROXY", "KUBECONFIG", "SERVICE_FORCE_BACKEND_ENI"} {
		t.Setenv(name, "of somebody")
	}
	bin := script(t, `env > `+out+`/env; cp kubeconfig cloud-config `+out+`; printf '%s\n' "$@" > `+out+`/args; pwd > `+out+`/dir; echo broken >&2; exit 3`)
	t.Setenv(controller.BinaryVariable, bin)
	err := controller.Play(t.Context(), realOptions())
	if err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), "broken") {
		t.Errorf("error %v", err)
	}
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join(out, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	env := map[string]string{}
	for line := range strings.Lines(read("env")) {
		if name, value, _ := strings.Cut(strings.TrimSpace(line), "="); name != "PWD" && name != "_" && name != "SHLVL" && name != "OLDPWD" { // set by the shell
			env[name] = value
		}
	}
	want := map[string]string{
		"SLB_ENDPOINT": "127.0.0.1:2", "ECS_ENDPOINT": "127.0.0.1:2", "VPC_ENDPOINT": "127.0.0.1:2", "NLB_ENDPOINT": "127.0.0.1:2",
		"EFLO_CONTROLLER_ENDPOINT": "127.0.0.1:2", "ALICLOUD_CLIENT_SCHEME": "HTTP", "METADATA_ENDPOINT": "http://127.0.0.1:2",
	}
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "TZ"} {
		if v, ok := os.LookupEnv(name); ok {
			want[name] = v
		}
	}
	if diff := cmp.Diff(want, env); diff != "" {
		t.Errorf("the environment is (+):\n%s", diff)
	}
	dir := strings.TrimSpace(read("dir"))
	wantArgs := []string{
		"--kubeconfig=" + dir + "/kubeconfig", "--cloud-config=" + dir + "/cloud-config", "--controllers=service,nlb", "--configure-cloud-routes=false",
		"--leader-elect=false", "--metrics-bind-addr=0", "--health-probe-bind-addr=0", "--pprof-bind-addr=0",
		"--kube-api-qps=1000", "--kube-api-burst=1000", "--concurrent-service-syncs=3",
	}
	if diff := cmp.Diff(wantArgs, strings.Split(strings.TrimSpace(read("args")), "\n")); diff != "" {
		t.Errorf("the arguments are (+):\n%s", diff)
	}
	var config struct{ Global map[string]any }
	if err := json.Unmarshal([]byte(read("cloud-config")), &config); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]any{
		"clusterID": "c1", "region": "cn-hangzhou", "zoneid": "cn-hangzhou-i", "vpcid": "vpc-1", "vswitchid": "cn-hangzhou-i:vsw-1,cn-hangzhou-h:vsw-2",
		"accessKeyID": "a2V5", "accessKeySecret": "c2VjcmV0", "serviceBackendType": "eni", "disablePublicSLB": false, "serviceMaxConcurrentReconciles": 3.0,
	}, config.Global); diff != "" {
		t.Errorf("the cloud configuration is (+):\n%s", diff)
	}
	kube, err := clientcmd.BuildConfigFromFlags("", filepath.Join(out, "kubeconfig"))
	if err != nil || kube.Host != "https://127.0.0.1:1" || kube.BearerToken != "t" || !kube.Insecure {
		t.Errorf("kubeconfig for %+v, %v", kube, err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Errorf("its folder %s is left, with its key", dir)
	}
}

func TestRealKubeconfig(t *testing.T) {
	proxy, err := url.Parse("http://127.0.0.1:9")
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "kubeconfig")
	o := realOptions()
	o.Kube = &rest.Config{
		Host: "https://127.0.0.1:1", TLSClientConfig: rest.TLSClientConfig{CAFile: "ca.crt", CertFile: "tls.crt", KeyData: []byte("k"), ServerName: "kubernetes"},
		Impersonate: rest.ImpersonationConfig{UserName: "u", Groups: []string{"g"}, UID: "1", Extra: map[string][]string{"e": {"x"}}},
		ExecProvider: &clientcmdapi.ExecConfig{Command: "token", APIVersion: "client.authentication.k8s.io/v1",
			InteractiveMode: clientcmdapi.NeverExecInteractiveMode},
		Proxy: http.ProxyURL(proxy),
	}
	if err := controller.RunReal(t.Context(), script(t, "cp kubeconfig "+out), o); err == nil {
		t.Fatal("a program that ends is no controller")
	}
	config, err := clientcmd.LoadFromFile(out)
	if err != nil {
		t.Fatal(err)
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	at := config.Contexts[config.CurrentContext]
	c, u := config.Clusters[at.Cluster], config.AuthInfos[at.AuthInfo]
	if c.CertificateAuthority != filepath.Join(here, "ca.crt") || c.TLSServerName != "kubernetes" || c.ProxyURL != "http://127.0.0.1:9" {
		t.Errorf("cluster %+v", c)
	}
	if u.ClientCertificate != filepath.Join(here, "tls.crt") || string(u.ClientKeyData) != "k" || u.Impersonate != "u" || u.ImpersonateUID != "1" ||
		len(u.ImpersonateGroups) != 1 || len(u.ImpersonateUserExtra) != 1 || u.Exec == nil || u.Exec.Command != "token" {
		t.Errorf("user %+v", u)
	}
	o.Kube = &rest.Config{Host: "https://127.0.0.1:1", Transport: http.DefaultTransport}
	if err := controller.RunReal(t.Context(), script(t, ""), o); err == nil || !strings.Contains(err.Error(), "a transport of its own") {
		t.Errorf("got %v", err)
	}
}

func pipe(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(file, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestRealEnds(t *testing.T) {
	logs := t.TempDir()
	t.Setenv("TMPDIR", logs)
	up := pipe(t)
	for name, text := range map[string]string{
		"exec":  `exec tail -f /dev/null`,
		"child": `tail -f /dev/null & wait`,
		"code":  `trap 'exit 7' TERM; while :; do tail -f /dev/null & wait; done`,
	} {
		bin := script(t, `exec 3> `+up+`; echo up >&3; `+text)
		t.Setenv(controller.BinaryVariable, bin)
		for _, start := range []func() func(){
			func() func() { return controller.StartReal(t, bin, realOptions()) },
			func() func() { return controller.StartPlay(t, realOptions()) },
		} {
			stop := start()
			f, err := os.Open(up)
			if err != nil {
				t.Fatal(err)
			}
			r := bufio.NewReader(f)
			if line, err := r.ReadString('\n'); err != nil || line != "up\n" {
				t.Fatalf("%s: the program wrote %q, %v", name, line, err)
			}
			began := time.Now()
			stop()
			if took := time.Since(began); took > 9*time.Second {
				t.Errorf("%s: it took %v to end", name, took)
			}
			if line, err := r.ReadString('\n'); err == nil || line != "" {
				t.Errorf("%s: the program wrote %q on", name, line)
			}
			_ = f.Close()
		}
	}
	if left, err := filepath.Glob(filepath.Join(logs, "*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestRealCanNotRun(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte("no program\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(dir, "binary")
	if err := os.WriteFile(binary, []byte("\x7fELF no program\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	long := script(t, `i=0; while [ $i -lt 2000 ]; do echo "line $i"; i=$((i+1)); done; exit 4`)
	change := func(f func(*controller.Options)) controller.Options {
		o := realOptions()
		f(&o)
		return o
	}
	for _, tt := range []struct {
		bin  string
		o    controller.Options
		says string
	}{
		{"/nowhere/ccm", realOptions(), "there is no program /nowhere/ccm"},
		{"bin/ccm", realOptions(), "name it by an absolute path"},
		{"no-such-ccm", realOptions(), "there is no program no-such-ccm; tests run in folders of their own"},
		{text, realOptions(), "can not be executed: it needs the permission to"},
		{dir, realOptions(), dir},
		{binary, realOptions(), "exec format error"},
		{script(t, "exit 0"), realOptions(), "it ended by itself"},
		{script(t, "exit 0"), realOptions(), "(it wrote nothing)"},
		{script(t, "echo unknown flag: --pprof-bind-addr >&2; exit 2"), realOptions(), "exit status 2; the end of its log, which is " + dir},
		{script(t, "kill -9 $$"), realOptions(), "signal: killed"},
		{long, realOptions(), "line 1999\n"},
		{long, change(func(o *controller.Options) { o.Kube = nil }), "no cluster"},
		{long, change(func(o *controller.Options) { o.Credentials.Token = "t" }), "security token"},
		{long, change(func(o *controller.Options) { o.VSwitches = nil }), "it needs a vSwitch"},
		{long, change(func(o *controller.Options) { o.Cloud = "slb.aliyuncs.com:80" }), "not a loopback address"},
		{long, change(func(o *controller.Options) { o.Cloud = "http://127.0.0.1:80" }), "is not host:port"},
	} {
		err := controller.RunReal(t.Context(), tt.bin, tt.o)
		if err == nil || !strings.Contains(err.Error(), tt.says) || !strings.HasPrefix(err.Error(), "run real controller") {
			t.Errorf("%s: got %v, want %q", tt.bin, err, tt.says)
		}
		if err != nil && len(err.Error()) > 10<<10 {
			t.Errorf("%s: an error of %d bytes", tt.bin, len(err.Error()))
		}
		_, log, died := strings.Cut(err.Error(), "the end of its log, which is ")
		if !died {
			continue
		}
		log, end, _ := strings.Cut(log, ":\n")
		if b, err := os.ReadFile(log); err != nil || !strings.HasSuffix(string(b), end) && end != "(it wrote nothing)" || tt.bin == long &&
			!strings.HasPrefix(string(b), "line 0\n") {
			t.Errorf("%s: its log %s has %d bytes, %v", tt.bin, log, len(b), err)
		}
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := controller.RunReal(ctx, long, realOptions()); err != nil {
		t.Errorf("ended before it began: %v", err)
	}
	if err := controller.RunReal(t.Context(), script(t, "exit 0"), change(func(o *controller.Options) { o.DryRun = true })); err != nil {
		t.Errorf("a dry run ends by itself: %v", err)
	}
	if o := (controller.Options{}); o.Validate() == nil {
		t.Error("no options are valid")
	}
}

func TestRealLog(t *testing.T) {
	logs := filepath.Join(t.TempDir(), "logs")
	t.Setenv(controller.LogVariable, logs)
	var said strings.Builder
	o := realOptions()
	o.DryRun, o.Log = true, slog.New(slog.NewTextHandler(&said, nil))
	if err := controller.RunReal(t.Context(), script(t, "echo all; echo good >&2"), o); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(logs, "*.log"))
	if err != nil || len(files) != 1 || !strings.Contains(said.String(), files[0]) || !strings.Contains(said.String(), "--dry-run") {
		t.Fatalf("logs %v, %v; said %s", files, err, said.String())
	}
	if b, err := os.ReadFile(files[0]); err != nil || string(b) != "all\ngood\n" {
		t.Errorf("the log has %q, %v", b, err)
	}
	t.Setenv(controller.LogVariable, filepath.Join(files[0], "below"))
	if err := controller.RunReal(t.Context(), script(t, ""), o); err == nil || !strings.Contains(err.Error(), controller.LogVariable) {
		t.Errorf("got %v", err)
	}
}

func TestRealFails(t *testing.T) {
	told := &reporter{TB: t, failed: make(chan string, 1)}
	stop := controller.StartReal(told, script(t, "echo why >&2; exit 1"), realOptions())
	if got := <-told.failed; !strings.Contains(got, "why") {
		t.Errorf("the test was told %s", got)
	}
	stop()
}

type reporter struct {
	testing.TB
	failed chan string
}

func (t *reporter) Error(args ...any) { t.failed <- args[0].(error).Error() }

func TestReal(t *testing.T) {
	for _, tt := range []struct{ bin, version, wantBin, wantVersion string }{
		{"", "", "", "v2.14.0"}, {"/ccm", "", "/ccm", "v2.14.0"}, {"/ccm", "v2.9.1", "/ccm", "v2.9.1"},
	} {
		t.Setenv(controller.BinaryVariable, tt.bin)
		t.Setenv(controller.VersionVariable, tt.version)
		if bin, version := controller.Real(); bin != tt.wantBin || version != tt.wantVersion {
			t.Errorf("%+v: got %s %s", tt, bin, version)
		}
	}
	for _, tt := range []struct {
		version, release string
		want             bool
	}{{"v2.14.0", "v2.13.0", true}, {"v2.13.0", "v2.13.0", true}, {"v2.12.4", "v2.13.0", false}, {"new", "v1.9.3", false}} {
		if got := controller.Since(tt.version, tt.release); got != tt.want {
			t.Errorf("%+v: got %v", tt, got)
		}
	}
}

// TestRealStandIn tests the whole path of a real controller with the stand-in, from the variable to the load balancer.
func TestRealStandIn(t *testing.T) {
	c := cluster.Alone(t) // it syncs all Services
	ns := c.Namespace(t)
	cloud := sim.New(t, &sim.World{Callers: []sim.Caller{{Name: "ccm", Allow: []string{"*"}, Deny: []string{"slb:CreateLoadBalancer"}}}})
	t.Setenv(controller.BinaryVariable, standin.Program(t))
	o := realOptions()
	o.Kube, o.Cloud, o.Backends = c.Config, cloud.Addr(), ""
	o.VSwitches, o.Credentials = []string{"cn-hangzhou-h:vsw-1"}, cloud.Snapshot().Callers[0].Credentials()
	events, err := c.Client().CoreV1().Events(ns).Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()
	saw := func(text string) {
		t.Helper()
		late := time.After(patience)
		for {
			select {
			case e := <-events.ResultChan():
				if e, ok := e.Object.(*corev1.Event); ok && strings.Contains(e.Message, text) {
					return
				}
			case <-late:
				t.Fatalf("no event with %q", text)
			}
		}
	}
	defer controller.StartPlay(t, o)()
	_, err = c.Client().CoreV1().Services(ns).Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	saw("User not authorized to operate on the specified resource, or this API doesn't support RAM.")
	cloud.Edit(func(s *sim.State) {
		for _, k := range s.Callers {
			k.Deny = nil
		}
	})
	saw("Ensured load balancer [lb-")
}
