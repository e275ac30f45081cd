package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aliyun/alibaba-cloud-sdk-go/sdk"
	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/auth/credentials"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/slb"
	"github.com/google/go-cmp/cmp"

	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/test/cluster"
	"github.com/lbremedy/lbremedy/test/sim"
	"github.com/lbremedy/lbremedy/test/sim/controller"
	"github.com/lbremedy/lbremedy/test/sim/controller/standin"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

type person struct {
	*testing.T
	env map[string]string
}

func somebody(t *testing.T) person {
	t.Helper()
	return person{t, map[string]string{"HOME": t.TempDir()}}
}

type said struct {
	code     int
	out, err string
}

func (p person) run(ctx context.Context, in string, args ...string) said {
	var out, errs bytes.Buffer
	code := (&program{in: strings.NewReader(in), out: &out, err: &errs, getenv: func(name string) string { return p.env[name] }}).run(ctx, args)
	return said{code, out.String(), errs.String()}
}

func (p person) good(args ...string) string {
	p.Helper()
	got := p.run(p.Context(), "", args...)
	if got.code != 0 {
		p.Fatalf("%v: code %d, %s%s", args, got.code, got.out, got.err)
	}
	return got.out
}

func (p person) bad(code int, says string, args ...string) {
	p.Helper()
	got := p.run(p.Context(), "", args...)
	if got.code != code || !strings.Contains(got.err, says) || !strings.HasPrefix(got.err, "error: ") || got.out != "" {
		p.Errorf("%v: code %d, %q, %q; want code %d and %q", args, got.code, got.out, got.err, code, says)
	}
	if strings.Contains(got.err, "strconv") || strings.Contains(got.err, "json:") || strings.Contains(got.err, "Usage:") {
		p.Errorf("%v: more than a sentence: %q", args, got.err)
	}
}

func (p person) up(args ...string) announcement {
	p.Helper()
	ctx, stop := context.WithCancel(p.Context())
	r, w := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		prog := &program{in: strings.NewReader(""), out: w, err: p.Output(), getenv: func(name string) string { return p.env[name] }}
		code := prog.run(ctx, append([]string{"up", "-o", "json"}, args...))
		_ = w.Close()
		ended <- code
	}()
	p.Cleanup(func() {
		stop()
		if code := <-ended; code != 0 {
			p.Errorf("up ended with %d", code)
		}
	})
	var a announcement
	if err := json.NewDecoder(r).Decode(&a); err != nil {
		p.Fatalf("up announced nothing: %v", err)
	}
	go func() { _, _ = io.Copy(io.Discard, r) }() // only a line break is left
	return a
}

func (p person) write(name, text string) string {
	p.Helper()
	file := filepath.Join(p.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		p.Fatal(err)
	}
	return file
}

func describe(t *testing.T, env map[string]string) *slb.DescribeLoadBalancersResponse {
	t.Helper()
	client, err := slb.NewClientWithOptions(env["ALIBABA_CLOUD_REGION_ID"], sdk.NewConfig().WithScheme(env["ALICLOUD_CLIENT_SCHEME"]),
		credentials.NewAccessKeyCredential(env["ALIBABACLOUD_ACCESS_KEY_ID"], env["ALIBABA_CLOUD_ACCESS_KEY_SECRET"]))
	if err != nil {
		t.Fatal(err)
	}
	client.Domain = env["SLB_ENDPOINT"]
	list, err := client.DescribeLoadBalancers(slb.CreateDescribeLoadBalancersRequest())
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestEnvironment(t *testing.T) {
	p := somebody(t)
	world, file := p.write("world.yaml", "region: cn-beijing\nloadBalancers: [{id: lb-a}]\n"), filepath.Join(t.TempDir(), "env")
	p.bad(command.CodeFailed, `no simulation "default" runs`, "env")
	a := p.up("--world", world, "--env", file)
	var env map[string]string
	if err := json.Unmarshal([]byte(p.good("env", "-o", "json")), &env); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string(a.Environment), env); diff != "" {
		t.Errorf("announced (-) and printed (+) environment differ:\n%s", diff)
	}
	if list := describe(t, env); list.TotalCount != 1 || list.LoadBalancers.LoadBalancer[0].RegionId != "cn-beijing" {
		t.Errorf("got %+v", list)
	}
	text := p.good("env", "--shell", "zsh")
	if b, err := os.ReadFile(file); err != nil || string(b) != text || !strings.Contains(text, "export SLB_ENDPOINT='"+a.Address+"'\nexport STS_") {
		t.Errorf("the file has %s, %v; want %s", b, err, text)
	}
	for _, name := range []string{
		"LBREMEDY_SIM", "LBREMEDY_CLOUD_ENDPOINT", "NLB_ENDPOINT", "ECS_ENDPOINT", "VPC_ENDPOINT", "RAM_ENDPOINT", "CS_ENDPOINT", "ALIBABA_CLOUD_ENDPOINT",
	} {
		if env[name] != a.Address {
			t.Errorf("%s is %s", name, env[name])
		}
	}
	if !strings.Contains(text, "unset ALIBABA_CLOUD_SECURITY_TOKEN\n") || !strings.Contains(text, "export LBREMEDY_CLOUD_SCHEME='HTTP'\n") ||
		strings.Contains(text, "KUBECONFIG") {
		t.Errorf("got %s", text)
	}
	if got := p.good("env", "--shell", "fish"); !strings.Contains(got, "set -gx LBREMEDY_REGION 'cn-beijing'\nset -e") &&
		!strings.Contains(got, "set -e ALIBABA_CLOUD_SECURITY_TOKEN\n") {
		t.Errorf("got %s", got)
	}
	for line := range strings.Lines(p.good("env", "--unset")) {
		if !strings.HasPrefix(line, "unset ") {
			t.Errorf("got %s", line)
		}
	}
	p.env["SHELL"] = "/usr/bin/fish"
	if got := p.good("env"); !strings.HasPrefix(got, "set -") {
		t.Errorf("got %s", got)
	}
	if got := p.good("status"); !strings.Contains(got, a.OpenAPI) || !strings.Contains(got, "cn-beijing") || !strings.Contains(got, "none") {
		t.Errorf("got %s", got)
	}
	p.env["LBREMEDY_SIM"] = a.Address // as in a shell with the environment
	if got := p.good("status", "-o", "json"); !strings.Contains(got, `"controller": "none"`) {
		t.Errorf("got %s", got)
	}
	p.good("rm", "callers", "operator")
	p.bad(command.CodeFailed, "lbremedy-sim reset", "env")
	p.good("reset")
	p.good("env")

	odd := environment{"A": `it's \ $HOME "x"`}
	if got := odd.write("sh", false); got != `export A='it'\''s \ $HOME "x"'`+"\n" {
		t.Errorf("got %s", got)
	}
	if got := odd.write("fish", false); got != `set -gx A 'it\'s \\ $HOME "x"'`+"\n" {
		t.Errorf("got %s", got)
	}
}

func TestFinding(t *testing.T) {
	p := somebody(t)
	a := p.up()
	b := p.up("--name", "other")
	p.bad(command.CodeFailed, `a simulation "other" runs already`, "up", "--name", "other")
	address := func(args ...string) string {
		t.Helper()
		var got announcement
		if err := json.Unmarshal([]byte(p.good(append([]string{"status", "-o", "json"}, args...)...)), &got); err != nil {
			t.Fatal(err)
		}
		return got.Address
	}
	for _, tt := range []struct {
		env  map[string]string
		args []string
		want string
	}{
		{nil, nil, a.Address},
		{nil, []string{"--name", "other"}, b.Address},
		{nil, []string{"--server", b.OpenAPI}, b.Address},
		{map[string]string{"LBREMEDY_SIM": b.Address}, nil, b.Address},
		{map[string]string{"LBREMEDY_SIM": b.Address}, []string{"--name", "default"}, a.Address},
		{map[string]string{"LBREMEDY_SIM": b.Address}, []string{"--server", a.Address}, a.Address},
		{map[string]string{"LBREMEDY_SIM_NAME": "other"}, nil, b.Address},
		{map[string]string{"LBREMEDY_SIM_STATE_DIR": filepath.Join(p.env["HOME"], ".local/state/lbremedy-sim"), "HOME": ""}, nil, a.Address},
		{map[string]string{"XDG_STATE_HOME": filepath.Join(p.env["HOME"], ".local/state")}, nil, a.Address},
	} {
		was := maps.Clone(p.env)
		maps.Copy(p.env, tt.env)
		if got := address(tt.args...); got != tt.want {
			t.Errorf("%v %v: got %s, want %s", tt.env, tt.args, got, tt.want)
		}
		clear(p.env)
		maps.Copy(p.env, was)
	}
	for server, says := range map[string]string{
		"192.0.2.1:80": "not a loopback address", "example.com:80": "not a loopback address", "127.0.0.1": "not the host:port", "127.0.0.1:": "not the host:port",
		"http://[::]:1": "not a loopback",
	} {
		p.bad(command.CodeWrong, says, "ls", "--server", server)
	}
	p.bad(command.CodeFailed, "no simulation answers at 127.0.0.1:1", "ls", "--server", "127.0.0.1:1")
	p.bad(command.CodeWrong, "--name", "ls", "--name", "a/b")
	p.env["HOME"] = ""
	p.bad(command.CodeWrong, "--state-dir", "ls")
	p.env["LBREMEDY_SIM_STATE_DIR"] = p.write("file", "")
	p.bad(command.CodeFailed, "make the state directory", "up")

	// A modified record leads nowhere else.
	dir := t.TempDir()
	p.env["LBREMEDY_SIM_STATE_DIR"] = dir
	for text, says := range map[string]string{`{"address":"192.0.2.1:80"}`: "not a loopback", `{`: "read the address"} {
		if err := os.WriteFile(filepath.Join(dir, "default.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := p.run(t.Context(), "", "ls"); got.code == 0 || !strings.Contains(got.err, says) {
			t.Errorf("%s: got %+v", text, got)
		}
	}

	// Another program may listen there.
	other := sim.New(t, nil)
	p.bad(command.CodeFailed, "has no admin API", "ls", "--server", other.Addr())
}

func TestByHand(t *testing.T) {
	p := somebody(t)
	a := p.up("--world", p.write("world.yaml", "loadBalancers: [{id: lb-a, name: web, tags: {a.b: c, d: e}, vswitch: vsw-1}]\nvswitches: [{id: vsw-1, "+
		"free: 3}]\n"))
	get := func(kind, id string) string { t.Helper(); return p.good("get", kind, id) }
	has := func(got string, parts ...string) {
		t.Helper()
		for _, part := range parts {
			if !strings.Contains(got, part) {
				t.Errorf("got %s, want %q in it", got, part)
			}
		}
	}
	has(p.good("ls"), "loadBalancers", "lb-a", "vswitches", "KIND")
	has(p.good("ls", "lb"), "lb-a", "web", "a.b=c, d=e", "ADDRESSTYPE")
	has(p.good("ls", "Caller"), "operator", "controller")
	has(p.good("ls", "vpcs", "-o", "json"), `"id": "vpc-1"`)
	has(p.good("ls", "-o", "yaml"), "loadBalancers: 1\n")
	has(p.run(t.Context(), "", "ls", "tickets").err, "There are no tickets.")

	p.good("set", "loadBalancer", "lb-a", "tags[a.b]=null", "name=other=name", "deleteProtection=true", "bandwidth=7", "tags.f=1")
	has(get("lb", "lb-a"), "name: other=name\n", "deleteProtection: true\n", "bandwidth: 7\n", "  d: e\n  f: \"1\"\n")
	p.good("set", "vsw", "vsw-1", "free=0")
	p.good("set", "world", "account.arrearage=true", "lag.tags=10s")
	has(p.good("dump"), "arrearage: true\n", "tags: 10s\n", "free: 0\n")
	p.good("set", "callers", "controller", "deny=slb:TagResources,nlb:*", "allow=[]")
	has(get("callers", "controller"), "- slb:TagResources\n- nlb:*\n")
	if got := p.run(t.Context(), "tags: {d: null, g: h}\n", "set", "lb", "lb-a", "-f", "-"); got.code != 0 {
		t.Errorf("got %+v", got)
	}
	has(get("lb", "lb-a"), "  f: \"1\"\n  g: h\n")
	p.good("add", "vswitches", "vsw-b", "zone=cn-hangzhou-i", "free=2")
	p.good("add", "policy", "p", "--file", p.write("p.yaml",
		"versions: [{document: '{\"Version\":\"1\",\"Statement\":[{\"Effect\":\"Allow\",\"Action\":\"*\",\"Resource\":\"*\"}]}'}]"))
	p.good("add", "lb", "lb-b")
	p.good("rm", "lb", "lb-a", "lb-b")
	has(p.good("ls", "policies"), "p ", "Custom")
	dump := p.good("dump")
	p.good("reset")
	has(get("lb", "lb-a"), "name: web\n", "a.b: c\n")
	if got := p.run(t.Context(), dump, "load", "-"); got.code != 0 {
		t.Errorf("got %+v", got)
	}
	if again := p.good("dump"); again != dump {
		t.Errorf("the world came back as %s\nwas %s", again, dump)
	}
	has(p.good("dump", "-o", "json"), `"vswitches": [`)

	if got := p.good("fault", "add", "slb:Describe*", "--code", "Throttling.User", "--count", "2", "--caller", "operator"); got != "1\n" {
		t.Errorf("got %s", got)
	}
	p.good("fault", "add", "*", "--delay", "1s", "--rate", "0.5")
	has(p.good("fault", "ls"), "slb:Describe*", "operator", "answer Throttling.User", "*:*", "wait 1s", "0.5", "no end")
	has(p.good("fault", "ls", "-o", "json"), `"delay": "1s"`)
	p.good("fault", "rm", "2")
	if _, err := slbClient(t, a.Environment).DescribeLoadBalancers(slb.CreateDescribeLoadBalancersRequest()); err == nil ||
		!strings.Contains(err.Error(), "Throttling.User") {
		t.Errorf("the fault did nothing: %v", err)
	}
	p.good("fault", "rm", "--all")
	has(p.run(t.Context(), "", "fault", "ls").err, "No faults are active.")
	describe(t, a.Environment)
	has(p.good("calls"), "operator", "slb:DescribeLoadBalancers", "400", "Throttling.User", "RegionId=cn-hangzhou")
	if got := p.good("calls", "--code", "Throttling.User", "--last", "1", "-o", "json"); strings.Count(got, `"action"`) != 1 {
		t.Errorf("got %s", got)
	}
	if got := p.good("calls", "--caller", "operator", "--product", "slb", "--action", "Describe*", "--last", "0", "-o", "yaml"); strings.Count(got,
		"action: ") != 2 {
		t.Errorf("got %s", got)
	}
	p.good("calls", "--forget")
	has(p.run(t.Context(), "", "calls").err, "Nothing was called.")
	has(p.good("actions"), "slb:CreateLoadBalancer\n", "nlb:")
	if got := p.good("actions", "nlb:GetJob*"); got != "nlb:GetJobStatus\n" {
		t.Errorf("got %s", got)
	}
	has(p.good("version"), "lbremedy-sim ")
	has(p.good("version", "-o", "yaml"), "go: go")
}

func slbClient(t *testing.T, env map[string]string) *slb.Client {
	t.Helper()
	client, err := slb.NewClientWithOptions(env["LBREMEDY_REGION"], sdk.NewConfig().WithScheme("HTTP"),
		credentials.NewAccessKeyCredential(env["ACCESS_KEY_ID"], env["ACCESS_KEY_SECRET"]))
	if err != nil {
		t.Fatal(err)
	}
	client.Domain = env["SLB_ENDPOINT"]
	return client
}

func TestFollow(t *testing.T) {
	p := somebody(t)
	a := p.up()
	for _, form := range []string{"table", "json", "yaml"} {
		ctx, stop := context.WithCancel(t.Context())
		r, w := io.Pipe()
		ended := make(chan int, 1)
		go func() {
			prog := &program{in: strings.NewReader(""), out: w, err: t.Output(), getenv: func(name string) string { return p.env[name] }}
			ended <- prog.run(ctx, []string{"calls", "--follow", "-o", form, "--action", "Describe*", "--last", "1"})
			_ = w.Close()
		}()
		for range 2 {
			describe(t, a.Environment) // the first call may precede following
			b := make([]byte, 1<<12)
			text := ""
			for !strings.Contains(text, "DescribeLoadBalancers") {
				n, err := r.Read(b)
				if text += string(b[:n]); err != nil {
					t.Fatalf("%s: %q, %v", form, text, err)
				}
			}
		}
		stop()
		go func() { _, _ = io.Copy(io.Discard, r) }()
		if code := <-ended; code != 0 {
			t.Errorf("%s: ended with %d", form, code)
		}
	}
}

func TestEdit(t *testing.T) {
	p := somebody(t)
	p.up("--world", p.write("world.yaml", "loadBalancers: [{id: lb-a, name: web}]"))
	p.env["EDITOR"] = "sed -i s/web/other/"
	p.good("edit", "lb", "lb-a")
	if got := p.good("get", "lb", "lb-a"); !strings.Contains(got, "name: other\n") {
		t.Errorf("got %s", got)
	}
	p.env["VISUAL"] = "sed -i s/cn-hangzhou/cn-beijing/"
	p.good("edit", "world")
	if got := p.good("get", "lb", "lb-a"); !strings.Contains(got, "masterZone: cn-beijing-h\n") {
		t.Errorf("got %s", got)
	}
	p.env["VISUAL"] = "true"
	if got := p.run(t.Context(), "", "edit", "lb", "lb-a"); got.code != 0 || !strings.Contains(got.err, "Nothing was changed.") {
		t.Errorf("got %+v", got)
	}
	p.env["VISUAL"] = "false"
	p.bad(command.CodeFailed, "run the editor false", "edit", "lb", "lb-a")
	before := p.good("dump")
	p.env["VISUAL"] = "sed -i s/name:/nome:/"
	p.bad(command.CodeWrong, "what was edited is in ", "edit", "lb", "lb-a")
	got := p.run(t.Context(), "", "edit", "lb", "lb-a")
	_, file, _ := strings.Cut(strings.TrimSpace(got.err), "what was edited is in ")
	file = strings.TrimSuffix(file, ")")
	if b, err := os.ReadFile(file); err != nil || !strings.Contains(string(b), "nome: other") {
		t.Errorf("%s: %v, %s", file, err, b)
	}
	for _, dir := range []string{filepath.Dir(file)} {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	}
	if after := p.good("dump"); after != before {
		t.Errorf("what was refused changed the world")
	}
}

// TestMistakes checks that each mistake yields one sentence with the cause and the correction, an exit code, and no change.
func TestMistakes(t *testing.T) {
	p := somebody(t)
	bad := p.write("bad.yaml", "nothing: true\n")
	remote := p.write("remote", `{apiVersion: v1, kind: Config, current-context: c,
clusters: [{name: c, cluster: {server: "https://10.0.0.1:6443"}}],
contexts: [{name: c, context: {cluster: c, user: u}}], users: [{name: u, user: {token: t}}]}`)
	local := p.write("local", strings.ReplaceAll(`{apiVersion: v1, kind: Config, current-context: c,
clusters: [{name: c, cluster: {server: "https://10.0.0.1:6443"}}],
contexts: [{name: c, context: {cluster: c, user: u}}], users: [{name: u, user: {token: t}}]}`, "10.0.0.1:6443", "127.0.0.1:1"))
	none := filepath.Join(t.TempDir(), "none")
	for _, tt := range []struct {
		code int
		says string
		args []string
	}{
		{2, `unknown command "upp": did you mean up`, []string{"upp"}},
		{2, `unknown command "dance": see lbremedy-sim --help`, []string{"dance"}},
		{2, `unknown command "fault make"`, []string{"fault", "make"}},
		{2, "unknown flag: --nothing: see lbremedy-sim up --help", []string{"up", "--nothing"}},
		{2, `"xml" is not one of table, json, yaml`, []string{"ls", "-o", "xml"}},
		{2, `"now" is one`, []string{"up", "now"}},
		{2, "--speed: 0 is not above 0", []string{"up", "--speed", "0"}},
		{2, `invalid argument "fast" for "--speed" flag: must be a number: see`, []string{"up", "--speed", "fast"}},
		{2, "go with --kubeconfig", []string{"up", "--context", "c"}},
		{2, "not a loopback address", []string{"up", "--listen", "0.0.0.0:0"}},
		{2, "not a loopback address", []string{"up", "--listen", ":0"}},
		{2, "not the host:port", []string{"up", "--listen", "127.0.0.1"}},
		{1, "listen tcp", []string{"up", "--listen", "127.0.0.1:99999"}},
		{2, `unknown field "nothing"`, []string{"up", "--world", bad}},
		{2, "read " + none, []string{"up", "--world", none}},
		{1, "write the environment", []string{"up", "--env", filepath.Join(none, "env")}},
		{2, none, []string{"up", "--kubeconfig", none}},
		{2, "add --remote", []string{"up", "--kubeconfig", remote}},
		{1, "look at the Services of the cluster at https://127.0.0.1:1", []string{"up", "--kubeconfig", local}},
		{2, `--shell: "tcsh" is not one of`, []string{"env", "--shell", "tcsh"}},
		{2, "--wait: -1s is below 0", []string{"env", "--wait", "-1s"}},
		{1, "waited 1ms: no simulation", []string{"env", "--wait", "1ms"}},
		{1, "runs: start one with", []string{"ls"}},
		{1, "runs: start one with", []string{"dump"}},
		{1, "runs: start one with", []string{"calls", "--follow"}},
	} {
		p.bad(tt.code, tt.says, tt.args...)
	}

	p.up("--world", p.write("world.yaml", "loadBalancers: [{id: lb-a, name: web}]"))
	p.good("fault", "add", "slb:*", "--hang", "--caller", "nobody")
	before, faults := p.good("dump"), p.good("fault", "ls")
	for _, tt := range []struct {
		code int
		says string
		args []string
	}{
		{2, `there is no kind "cats"; there are `, []string{"ls", "cats"}},
		{2, `there is no kind "cats"`, []string{"get", "cats", "tom"}},
		{2, "get needs a kind and an ID", []string{"get", "lb"}},
		{1, "not there: loadBalancers/lb-x", []string{"get", "lb", "lb-x"}},
		{1, "not there: loadBalancers/lb-x", []string{"set", "lb", "lb-x", "name=a"}},
		{1, "not there: loadBalancers/lb-x", []string{"rm", "lb", "lb-x"}},
		{1, "not there: policies/a/b", []string{"rm", "policies", "a/b"}},
		{2, "set needs the ID of one of the loadBalancers", []string{"set", "lb"}},
		{2, "nothing is to be changed", []string{"set", "lb", "lb-a"}},
		{2, "nothing is to be changed", []string{"set", "world"}},
		{2, `"name" is not FIELD=VALUE`, []string{"set", "lb", "lb-a", "name"}},
		{2, `"=x" is not FIELD=VALUE`, []string{"set", "lb", "lb-a", "=x"}},
		{2, `there is no field "nome"; there are id, name, `, []string{"set", "lb", "lb-a", "nome=x"}},
		{2, `there is no field "account.arrears"; there are balance, `, []string{"set", "world", "account.arrears=x"}},
		{2, "name has no fields", []string{"set", "lb", "lb-a", "name.first=x"}},
		{2, "listeners is a list", []string{"set", "lb", "lb-a", "listeners[0]=x"}},
		{2, `bandwidth: "wide" is not a number`, []string{"set", "lb", "lb-a", "bandwidth=wide"}},
		{2, `deleteProtection: "perhaps" is not true or false`, []string{"set", "lb", "lb-a", "deleteProtection=perhaps"}},
		{2, `listeners: "80" is not a list`, []string{"set", "lb", "lb-a", "listeners=80"}},
		{2, `"tags[a=x=y" is not FIELD=VALUE`, []string{"set", "lb", "lb-a", "tags[a=x=y"}},
		{2, "has a bracket that does not end", []string{"set", "lb", "lb-a", "tags]a[=x"}},
		{2, "has an empty name in it", []string{"set", "lb", "lb-a", "tags[]=x"}},
		{2, "has an empty name in it", []string{"set", "lb", "lb-a", "tags..a=x"}},
		{2, "the id of loadBalancers/lb-a is not lb-b", []string{"set", "lb", "lb-a", "id=lb-b"}},
		{2, "duration", []string{"set", "world", "lag.tags=long"}},
		{2, "balance", []string{"set", "world", "account.balance=much"}},
		{2, "there is no VPC vpc-x", []string{"set", "vsw", "vsw-1", "vpc=vpc-x"}},
		{2, "give fields or --file", []string{"set", "lb", "lb-a", "name=x", "-f", bad}},
		{2, "read " + none, []string{"set", "lb", "lb-a", "-f", none}},
		{2, `unknown field`, []string{"set", "lb", "lb-a", "-f", bad}},
		{2, "cannot unmarshal array", []string{"set", "lb", "lb-a", "-f", p.write("list.yaml", "[1]")}},
		{1, "loadBalancers/lb-a is there already", []string{"add", "lb", "lb-a"}},
		{2, `there is no field "colour"`, []string{"add", "lb", "lb-b", "colour=red"}},
		{2, "add needs a kind and an ID", []string{"add", "lb"}},
		{2, "rm needs a kind and an ID", []string{"rm", "lb"}},
		{2, "edit world takes nothing more", []string{"edit", "world", "now"}},
		{2, `unknown field "nothing"`, []string{"load", bad}},
		{2, "read " + none, []string{"load", none}},
		{2, "load needs one file", []string{"load"}},
		{2, "add needs an action, such as slb:Create*: see lbremedy-sim fault add --help", []string{"fault", "add"}},
		{2, `the cloud answers no action "slb:Dance"`, []string{"fault", "add", "slb:Dance", "--hang"}},
		{2, `the cloud answers no action "cats:*"`, []string{"fault", "add", "cats:*", "--hang"}},
		{2, "the fault does nothing", []string{"fault", "add", "slb:*"}},
		{2, "rate is between 0 and 1", []string{"fault", "add", "slb:*", "--hang", "--rate", "2"}},
		{2, "not below 0", []string{"fault", "add", "slb:*", "--hang", "--count", "-1"}},
		{2, "status 200 is not that of an error", []string{"fault", "add", "slb:*", "--code", "X", "--status", "200"}},
		{2, "go with a code", []string{"fault", "add", "slb:*", "--hang", "--message", "X"}},
		{2, `invalid argument "long" for "--delay" flag: must be a duration like "30s" or "5m": see`, []string{"fault", "add", "slb:*", "--delay", "long"}},
		{2, "needs the numbers of faults, or --all", []string{"fault", "rm"}},
		{2, "needs the numbers of faults, or --all", []string{"fault", "rm", "1", "--all"}},
		{2, `"x" is not a number of a fault`, []string{"fault", "rm", "1", "x"}},
		{1, "not there: fault 99", []string{"fault", "rm", "99"}},
		{2, "--last: -1 is below 0", []string{"calls", "--last", "-1"}},
		{2, "--forget shows nothing", []string{"calls", "--forget", "--follow"}},
		{1, `no action fits "Dance*"`, []string{"actions", "Dance*"}},
	} {
		p.bad(tt.code, tt.says, tt.args...)
	}
	if after := p.good("dump"); after != before {
		t.Errorf("a mistake changed the world: %s", cmp.Diff(before, after))
	}
	if after := p.good("fault", "ls"); after != faults {
		t.Errorf("a mistake changed the faults: %s", cmp.Diff(faults, after))
	}
}

func TestHelp(t *testing.T) {
	p := somebody(t)
	var check func(path []string, text string)
	seen := 0
	check = func(path []string, text string) {
		seen++
		if !strings.Contains(text, "Usage:") || len(strings.SplitN(text, "\n", 2)[0]) < 10 {
			t.Errorf("%v: %s", path, text)
		}
		for line := range strings.Lines(text) {
			if len([]rune(line)) > 130 {
				t.Errorf("%v: a line of %d characters: %s", path, len(line), line)
			}
		}
	}
	check(nil, p.good())
	for _, c := range (&program{getenv: os.Getenv}).root().Commands() {
		check([]string{c.Name()}, p.good(c.Name(), "--help"))
		if c.Name() == "fault" {
			for _, sub := range c.Commands() {
				check([]string{"fault", sub.Name()}, p.good("fault", sub.Name(), "--help"))
			}
		}
	}
	if seen < 18 {
		t.Errorf("%d commands have help", seen)
	}
}

func TestCompletion(t *testing.T) {
	p := somebody(t)
	complete := func(args string) []string {
		t.Helper()
		return strings.Split(p.good(append([]string{"__complete"}, strings.Split(args, " ")...)...), "\n")
	}
	for args, want := range map[string]string{
		"ls vsw":                 "vswitches",
		"ls -o y":                "yaml",
		"env --shell f":          "fish",
		"set wor":                "world",
		"set world acc":          "account.arrearage=",
		"set world account.b":    "account.balance=",
		"set lb lb-a ta":         "tags[",
		"add vsw vsw-b fr":       "free=",
		"fault a":                "add\tInject a fault into calls from now on",
		"fault add slb:CreateL":  "slb:CreateLoadBalancer",
		"fault add * --code Thr": "Throttling.User",
		"calls --product s":      "slb",
		"calls --action GetJob":  "GetJobStatus",
		"actions nlb:GetJob":     "nlb:GetJobStatus",
		"up --ccm-version v2.9":  "v2.9.1",
		"get lb ":                ":4", // no simulation runs
	} {
		if got := complete(args); !slices.Contains(got, want) {
			t.Errorf("%s: got %q", args, got)
		}
	}
	p.up("--world", p.write("world.yaml", "loadBalancers: [{id: lb-a, name: web}, {id: lb-b}]"))
	p.good("fault", "add", "slb:*", "--hang")
	for args, want := range map[string]string{
		"get lb l":         "lb-a\tweb",
		"rm lb lb-a l":     "lb-b",
		"set callers o":    "operator\t",
		"fault rm ":        "1\tslb:* hang",
		"calls --caller c": "controller\t",
		"--name d":         "default",
		"set lb lb-a na":   "name=",
		"edit vpcs ":       "vpc-1",
	} {
		if got := complete(args); !slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, want) }) {
			t.Errorf("%s: got %q", args, got)
		}
	}
	for args, not := range map[string]string{"rm lb lb-a l": "lb-a", "get lb lb-a l": "lb-b", "ls lb l": "lb-a", "fault rm 1 ": "1"} {
		if got := complete(args); slices.ContainsFunc(got, func(s string) bool { return s == not || strings.HasPrefix(s, not+"\t") }) {
			t.Errorf("%s: got %q", args, got)
		}
	}
}

func TestController(t *testing.T) {
	t.Setenv(controller.BinaryVariable, "")
	c := cluster.Join(t)
	ns := c.Namespace(t)
	p := somebody(t)
	p.bad(command.CodeWrong, `"new"`, "up", "--kubeconfig", c.Kubeconfig, "--ccm-version", "new")
	a := p.up("--kubeconfig", c.Kubeconfig, "--namespace", ns, "--speed", "100", "--verbose")
	if a.Kubeconfig != c.Kubeconfig || a.Controller != "simulated v2.14.0" || a.Environment["LBREMEDY_KUBECONFIG"] != c.Kubeconfig {
		t.Errorf("announced %+v", a)
	}
	p.good("set", "world", "account.arrearage=true")
	seen := watchEvents(t, c, ns)
	createService(t, c, ns)
	seen("SyncLoadBalancerFailed", "The account is arrearage.")
	p.good("set", "world", "account.arrearage=null")
	seen("EnsuredLoadBalancer", "lb-")
	if got := p.good("calls", "--caller", "controller", "--action", "CreateLoadBalancer"); !strings.Contains(got, "ORDER.ARREARAGE") {
		t.Errorf("got %s", got)
	}
	// The controller continues with its key in another world.
	p.good("reset")
	var lbs []any
	if err := json.Unmarshal([]byte(p.good("ls", "lb", "-o", "json")), &lbs); err != nil || len(lbs) > 0 {
		t.Errorf("%v, %v", lbs, err)
	}
}

func TestRealController(t *testing.T) {
	c := cluster.Alone(t) // it syncs all Services
	ns := c.Namespace(t)
	bin := standin.Program(t)
	t.Setenv(controller.BinaryVariable, bin)
	p := somebody(t)
	for _, args := range [][]string{{"--namespace", ns}, {"--speed", "2"}, {"--ccm-version", "v2.9.1"}} {
		p.bad(command.CodeWrong, "are of the simulated controller", append([]string{"up", "--kubeconfig", c.Kubeconfig}, args...)...)
	}
	a := p.up("--kubeconfig", c.Kubeconfig)
	if a.Controller != "real, "+bin {
		t.Errorf("announced %+v", a)
	}
	seen := watchEvents(t, c, ns)
	createService(t, c, ns)
	seen("EnsuredLoadBalancer", "lb-")

	t.Setenv(controller.BinaryVariable, filepath.Join(t.TempDir(), "none"))
	got := p.run(t.Context(), "", "up", "--name", "second", "--kubeconfig", c.Kubeconfig)
	if got.code != command.CodeFailed || !strings.Contains(got.err, "there is no program") {
		t.Errorf("got %+v", got)
	}
}

func watchEvents(t *testing.T, c *cluster.Cluster, ns string) func(reason, part string) {
	t.Helper()
	events, err := c.Client().CoreV1().Events(ns).Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(events.Stop)
	return func(reason, part string) {
		t.Helper()
		late := time.After(time.Minute)
		for {
			select {
			case e, ok := <-events.ResultChan():
				if !ok {
					t.Fatalf("no event %s with %q", reason, part)
				}
				if e, ok := e.Object.(*corev1.Event); ok && e.Reason == reason && strings.Contains(e.Message, part) {
					return
				}
			case <-late:
				t.Fatalf("no event %s with %q in a minute", reason, part)
			}
		}
	}
}

func createService(t *testing.T, c *cluster.Cluster, ns string) {
	t.Helper()
	_, err := c.Client().CoreV1().Services(ns).Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

func TestRAM(t *testing.T) {
	p := somebody(t)
	a := p.up("--world", p.write("world.yaml", "callers: [{name: operator, allow: ['slb:DescribeRegions']}]"))
	_, err := slbClient(t, a.Environment).DescribeLoadBalancers(slb.CreateDescribeLoadBalancersRequest())
	if err == nil || !strings.Contains(err.Error(), "Forbidden.RAM") {
		t.Errorf("got %v", err)
	}
	resp, err := http.Get(a.Admin + "calls?caller=operator&code=Forbidden.RAM")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if b, err := io.ReadAll(resp.Body); err != nil || !strings.Contains(string(b), "action: DescribeLoadBalancers") {
		t.Errorf("got %s, %v", b, err)
	}
}
