package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/test/corpus"
)

// A call is one call of the program, without a terminal.
type call struct {
	in  string
	env map[string]string
}

// Where a call finds its access key: what it has there and the process has not, so that
// calls with different keys go on side by side.
const (
	keyID     = "ALIBABA_CLOUD_ACCESS_KEY_ID"
	keySecret = "ALIBABA_CLOUD_ACCESS_KEY_SECRET"
)

// keys returns the access key of the call.
func (c call) keys() cloud.Credentials {
	if c.env[keyID] == "" {
		return cloud.DefaultChain()
	}
	return cloud.Static(cloud.Key{ID: c.env[keyID], Secret: c.env[keySecret]})
}

// with returns the call with another value of a variable.
func (c call) with(name, value string) call {
	c.env = maps.Clone(c.env)
	c.env[name] = value
	return c
}

// said is what a call came to.
type said struct {
	code     int
	out, err string
}

// home returns an environment whose home directory is a folder of the test's own.
func home(t *testing.T) map[string]string {
	t.Helper()
	return map[string]string{"HOME": t.TempDir()}
}

func (c call) run(ctx context.Context, args ...string) said {
	var out, errs bytes.Buffer
	p := &program{
		in: strings.NewReader(c.in), out: &out, err: &errs, now: time.Now,
		getenv: func(name string) string { return c.env[name] }, terminal: func(any) int { return 0 }, keys: c.keys(),
	}
	code := p.run(ctx, args)
	return said{code, out.String(), errs.String()}
}

func write(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Each mistake is one sentence that names the culprit and the way out, a code, and
// nothing on standard output.
func TestMistakes(t *testing.T) {
	here := []string{"--cluster", "c1", "--region", "cn-hangzhou", "--kubeconfig", "nowhere"}
	with := func(args ...string) []string { return append(args, here...) }
	ev := `{"kind":"Event","metadata":{"namespace":"shop","name":"web.1","uid":"11111111-1111-1111-1111-111111111111","resourceVersion":"7"},
		"involvedObject":{"kind":"%s","namespace":"shop","name":"web","uid":"%s"},"reason":"%s","type":"Warning","message":"%s","source":{"component":"%s"}}`
	uid := "22222222-2222-2222-2222-222222222222"
	failure := ce(t, event.Failure{Class: "tag-missing"}, "c1")
	tests := []struct {
		name string
		args []string
		in   string
		want string // part of the sentence
	}{
		{"unknown command", []string{"shw"}, "", `there is no command "shw": did you mean show`},
		{"unknown flag", []string{"ls", "--bar"}, "", "unknown flag: --bar: see lbremedy ls --help"},
		{"no number", []string{"setup", "--replicas", "x"}, "", `invalid argument "x" for "--replicas" flag: see`},
		{"no argument", []string{"show"}, "", "show needs a case ID or NAMESPACE/SERVICE"},
		{"one too many", []string{"ls", "x"}, "", `"x"`},
		{"unknown form", []string{"ls", "-o", "xml"}, "", `"xml" is not one of table, json, yaml`},
		{"unknown level", []string{"ls", "--log-level", "loud"}, "", `"loud" is not one of debug`},
		{"unknown class", []string{"ls", "--class", "nope"}, "", `there is no class "nope"; there are`},
		{"unknown class of the catalogue", []string{"catalog", "nope"}, "", `there is no class "nope"; there are`},
		{"unknown result", []string{"ls", "--result", "nope"}, "", `there is no result "nope"; there are`},
		{"no time", []string{"ls", "--since", "soon"}, "", "90m or 7d"},
		{"no configuration", []string{"ls", "--config", "nowhere.yaml"}, "", "there is no configuration file nowhere.yaml"},
		{"no NATS", []string{"ls"}, "", `start "lbremedy up", or name one with --nats`},
		{"hostile cluster", []string{"ls", "--cluster", "a.b"}, "", "--cluster:"},
		{"no cluster", []string{"up"}, "", "set --cluster or LBREMEDY_CLUSTER"},
		{"no kubeconfig", with("up"), "", "there is no kubeconfig nowhere"},
		{"too many surveys", with("up", "--survey", "1s"), "", "--survey: 1s is more often than every 5m0s"},
		{"no policy file", with("up", "--policy", "nowhere.yaml"), "", "nowhere.yaml"},
		{"no address", with("up", "--listen", "nowhere:x"), "", "--listen:"},
		{"policy with a typo", with("up", "--policy", write(t, "p.yaml", "mode: fxi\n")), "", `"fxi" is no mode: want observe or fix`},
		{"policy with an unknown field", with("up", "--policy", write(t, "p.yaml", "mod: fix\n")), "", `the field "mod" is not known`},
		{"plan of neither", with("plan", "shop"), "", `"shop" is no file, and no Service`},
		{"plan of a missing file", with("plan", "a/b.json"), "", `"a/b.json" is no file`},
		{"broken JSON", with("plan", "-"), `{"kind":`, "standard input is neither JSON nor YAML"},
		{"broken CloudEvent", with("plan", "-"), `{"specversion":"1.0","type":"x"}`, "standard input:"},
		{"foreign CloudEvent", with("plan", "-"), `{"specversion":"1.0","type":"com.example","id":"1","source":"/x"}`, "CloudEvent 1"},
		{"event of another cluster", with("plan", "-"), ce(t, event.Failure{Class: "tag-missing"}, "c2"), `is of the cluster "c2", and this is "c1"`},
		{"unknown class of an event", with("run", "-"), ce(t, event.Failure{Class: "nope"}, "c1"), `there is no class "nope"`},
		{"something else", with("plan", "-"), `{"kind":"Pod"}`, "holds a Pod: give a CloudEvent"},
		{"nothing", with("plan", "-"), "", "standard input holds no event"},
		{"a number", with("plan", "-"), "[1]", "holds no CloudEvent and no Kubernetes Event"},
		{"event of another cloud", with("plan", "-"),
			fmt.Sprintf(ev, "Service", uid, "SyncLoadBalancerFailed", "Error syncing load balancer: failed to ensure load balancer: googleapi: Error 403", "service-controller"),
			"not about a load balancer of Alibaba Cloud"},
		{"event of a Pod", with("plan", "-"), fmt.Sprintf(ev, "Pod", uid, "SyncLoadBalancerFailed", "x", ""), "shop/web.1 is about a Pod"},
		{"event of another kind", with("plan", "-"), fmt.Sprintf(ev, "Service", uid, "EnsuredLoadBalancer", "x", ""), `"EnsuredLoadBalancer"`},
		{"hostile UID", with("plan", "-"), fmt.Sprintf(ev, "Service", "a.b>", "SyncLoadBalancerFailed", "Error syncing load balancer []: Message: The specified VSwitch has no available ip.", "service-controller"), "the Event shop/web.1:"},
		{"replay of everything", with("replay", "--apply"), "", "or say --all"},
		{"a good event without a cluster to look at", with("plan", "-"), failure, "there is no kubeconfig nowhere"},
		{"undo of a Service", []string{"undo", "shop/web"}, "", "undo needs a case ID"},
		{"classify nothing there", []string{"classify", "messages.txt"}, "", "there is no file messages.txt"},
		{"classify broken JSON lines", []string{"classify", "-"}, "{\"message\":\"\"}\n{\"message\":1}\n", "line 2 of standard input is no JSON object with the texts reason, type, component and message: message is a number"},
		{"classify JSON lines of which the first is broken", []string{"classify", "-"}, "{\"message\": \"x\n{\"message\":\"x\"}\n", "line 1 of standard input is no JSON object"},
		{"classify a line that is no object", []string{"classify", "-"}, "{\"message\":\"x\"}\n[1]\n", "message: it is an array"},
		{"classify nothing among JSON lines", []string{"classify", "-"}, "{}\nnull\n", "message: it is null"},
		{"classify an array", []string{"classify", "-"}, "[{\"message\":\"x\"}]\n", "one object per line"},
		{"classify a directory", []string{"classify", ".."}, "", ".. is a directory"},
		{"classify long JSON", []string{"classify", "-"}, "{\n \"message\": \"x\"}\n", "one object per line"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := call{tt.in, home(t)}.run(t.Context(), tt.args...)
			if got.code != command.CodeWrong || !strings.Contains(got.err, tt.want) || !strings.HasPrefix(got.err, "error: ") {
				t.Errorf("%v: code %d, said %q; want code %d and %q", tt.args, got.code, got.err, command.CodeWrong, tt.want)
			}
			if strings.Count(got.err, "\n") > 2 || strings.Contains(got.err, "Usage:") || strings.Contains(got.err, "json: ") || strings.Contains(got.err, "strconv") {
				t.Errorf("%v: more than a sentence: %q", tt.args, got.err)
			}
			if got.out != "" && !strings.HasPrefix(tt.name, "classify") {
				t.Errorf("%v: it wrote %q", tt.args, got.out)
			}
		})
	}
}

// ce returns the CloudEvent of a failure of Service shop/web, in JSON.
func ce(t *testing.T, f event.Failure, cluster string) string {
	t.Helper()
	e, err := event.NewFailed(fill(f, cluster))
	if err != nil {
		t.Fatal(err)
	}
	data, err := event.EncodeJSON(e)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func fill(f event.Failure, cluster string) event.Failure {
	f.Cluster, f.Reason, f.Type, f.Component = cluster, "SyncLoadBalancerFailed", "Warning", "service-controller"
	f.Service = event.Service{Namespace: "shop", Name: "web", UID: "22222222-2222-2222-2222-222222222222"}
	f.Event = event.Reference{Name: "web.1", UID: "11111111-1111-1111-1111-111111111111", ResourceVersion: "7"}
	f.Count, f.First, f.Last = 1, time.Unix(1_700_000_000, 0), time.Unix(1_700_000_000, 0)
	if f.Message == "" {
		f.Message = full
	}
	return f
}

const full = "Error syncing load balancer []: Message: The specified VSwitch has no available ip."

// A flag goes before the variable, the variable before the file.
func TestSettings(t *testing.T) {
	tests := []struct {
		name, file, variable, flag string
		want                       string
	}{
		{"default", "", "", "", "table"},
		{"file", "output: yaml", "", "", "yaml"},
		{"variable before file", "output: yaml", "json", "", "json"},
		{"flag before variable", "output: yaml", "json", "table", "table"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			env := home(t)
			dir := filepath.Join(env["HOME"], ".config", "lbremedy")
			if err := os.MkdirAll(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "config.yaml"), []byte(tt.file), 0o600); err != nil {
				t.Fatal(err)
			}
			env["LBREMEDY_OUTPUT"] = tt.variable
			args := []string{"classify", full}
			if tt.flag != "" {
				args = append(args, "--output", tt.flag)
			}
			got := call{"", env}.run(t.Context(), args...)
			want := map[string]string{
				"table": "vswitch-ip-exhausted  ", "json": `{"class":"vswitch-ip-exhausted"`, "yaml": "---\nclass: vswitch-ip-exhausted\n",
			}[tt.want]
			if got.code != 0 || !strings.HasPrefix(got.out, want) {
				t.Errorf("code %d, %q, %q; want %s", got.code, got.out, got.err, tt.want)
			}
		})
	}
	for text, want := range map[string]string{
		"region: a\ncolour: blue":  "config.yaml: line 2: colour: there is no such field; there are cloud-endpoint,",
		"config: a":                "line 1: config: there is no such field",
		"cluster: [a]":             "line 1: cluster: it must be a text",
		"cluster: 0123":            "line 1: cluster: it must be a text, or true or false: put it in quotes",
		"cluster: true":            "line 1: cluster: it must be a text: put it in quotes",
		"cluster:":                 "line 1: cluster: it must be a text",
		"- a":                      "line 1: it must be a list of fields",
		"region: a\nregion: b":     "line 2: region: it is there twice",
		"region: a\n---\n{}":       "line 2: a second document begins here",
		"region: [":                "config.yaml: line 1: ",
		"output: xml":              `"xml" is not one of`,
		"cloud-vpc: perhaps":       "line 1: cloud-vpc: it must be true or false",
		"region: a\nno: b\nnor: c": "line 2: no: there is no such field; there are",
	} {
		got := call{"", home(t)}.run(t.Context(), "version", "--config", write(t, "config.yaml", text))
		if got.code != command.CodeWrong || !strings.Contains(got.err, want) || got.out != "" {
			t.Errorf("%q: code %d, %q; want %q", text, got.code, got.err, want)
		}
	}
}

func TestClassify(t *testing.T) {
	lines := strings.Join([]string{
		`{"reason":"SyncLoadBalancerFailed","type":"Warning","component":"service-controller","message":"` + full + `","more":1}`,
		``,
		`{"message":null}`,
		`{"component":"service-controller","reason":"SyncLoadBalancerFailed","type":"Warning","message":"Error syncing load balancer []: nobody knows this"}`,
	}, "\n")
	tests := []struct {
		name string
		in   string
		args []string
		want string
	}{
		{"message", "", []string{full, "-o", "json"}, `{"class":"vswitch-ip-exhausted","matched":"VSwitch has no available ip"}` + "\n"},
		{"JSON lines", lines, []string{"-", "-o", "json"}, `{"class":"vswitch-ip-exhausted","matched":"VSwitch has no available ip"}
{"class":"ignored","matched":""}
{"class":"unclassified","matched":""}
`},
		{"JSON lines with a byte order mark, and keys in other letters", "\ufeff" + `{"reason":"Pulled","REASON":"","message":"` + full + `","Message":"x"}`, []string{"-", "-o", "json"}, `{"class":"ignored","matched":""}
`},
		{"plain lines", full + "\r\n\n{not json}\n" + full, []string{"-o", "json", "-"}, `{"class":"vswitch-ip-exhausted","matched":"VSwitch has no available ip"}
{"class":"ignored","matched":""}
{"class":"vswitch-ip-exhausted","matched":"VSwitch has no available ip"}
`},
		{"nothing", "", []string{"-o", "json"}, ""},
		{"table", "", []string{full, "failed"}, "vswitch-ip-exhausted          VSwitch has no available ip\nignored                       failed\n"},
		{"a terminal is safe", "", []string{"a\x1b[2Jb"}, "ignored                       a [2Jb\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := call{tt.in, home(t)}.run(t.Context(), append([]string{"classify"}, tt.args...)...)
			if diff := cmp.Diff(said{0, tt.want, ""}, got, cmp.AllowUnexported(said{})); diff != "" {
				t.Error(diff)
			}
		})
	}
	t.Run("explain", func(t *testing.T) {
		got := call{"", home(t)}.run(t.Context(), "classify", "--explain", "-o", "json", full)
		var keys map[string]string
		if err := json.Unmarshal([]byte(got.out), &keys); err != nil {
			t.Fatal(err)
		}
		if _, ok := keys["runnerUp"]; !ok || keys["why"] == "" {
			t.Errorf("got %v, want runnerUp and why", keys)
		}
	})
	t.Run("corpus", func(t *testing.T) {
		for _, file := range corpus.Files(t) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := call{"", home(t)}.run(t.Context(), "classify", "-o", "json", file)
			asked, answers := strings.Count(string(data), "\n"), strings.Count(got.out, "\n")
			if got.code != 0 || asked != answers {
				t.Errorf("%s: code %d, %d answers to %d messages: %s", file, got.code, answers, asked, got.err)
			}
		}
	})
}

// What is read from a file, as "namespace/name class".
func TestReadFile(t *testing.T) {
	ev := func(name, uid, message, last string) string {
		return fmt.Sprintf(`{"apiVersion":"v1","kind":"Event","metadata":{"namespace":"shop","name":"%s.1","uid":"11111111-1111-1111-1111-111111111111","resourceVersion":"7"},
			"involvedObject":{"kind":"Service","namespace":"shop","name":"%[1]s","uid":"%s"},"reason":"SyncLoadBalancerFailed","type":"Warning","message":"%s",
			"source":{"component":"service-controller"},"firstTimestamp":null,"lastTimestamp":"%s","eventTime":null,"series":null,"count":3}`, name, uid, message, last)
	}
	one := ev("web", "22222222-2222-2222-2222-222222222222", full, "2026-01-02T15:04:05Z")
	newer := ev("web", "22222222-2222-2222-2222-222222222222", full, "2026-01-02T15:14:05Z")
	two := ev("api", "33333333-3333-3333-3333-333333333333", "Error syncing load balancer []: nobody knows this", "2026-01-02T15:04:05Z")
	other := `{"kind":"Event","involvedObject":{"kind":"Pod"},"reason":"Pulled"}`
	tests := []struct {
		name, text string
		want       []string
	}{
		{"CloudEvent", ce(t, event.Failure{Class: "tag-missing"}, "c1"), []string{"shop/web tag-missing 2023-11-14T22:13:20Z"}},
		{"Event", one, []string{"shop/web vswitch-ip-exhausted 2026-01-02T15:04:05Z"}},
		{"list", `{"kind":"List","items":[` + one + "," + other + "," + two + "," + newer + `]}`,
			[]string{"shop/web vswitch-ip-exhausted 2026-01-02T15:14:05Z", "shop/api unclassified 2026-01-02T15:04:05Z"}},
		{"array", "[" + newer + "," + one + "]", []string{"shop/web vswitch-ip-exhausted 2026-01-02T15:14:05Z"}},
		{"one behind the other", one + "\n" + two, []string{"shop/web vswitch-ip-exhausted 2026-01-02T15:04:05Z", "shop/api unclassified 2026-01-02T15:04:05Z"}},
		{"YAML", `apiVersion: v1
kind: List
items:
- kind: Event
  metadata: {namespace: shop, name: web.1, uid: 11111111-1111-1111-1111-111111111111, resourceVersion: "7", creationTimestamp: "2026-01-02T15:04:05Z"}
  involvedObject: {kind: Service, namespace: shop, name: web, uid: 22222222-2222-2222-2222-222222222222}
  reason: SyncLoadBalancerFailed
  type: Warning
  message: |-
    Error syncing load balancer []: Message: The specified
    VSwitch has no available ip.
  source: {component: service-controller}
---
---
` + two, []string{"shop/web vswitch-ip-exhausted 2026-01-02T15:04:05Z", "shop/api unclassified 2026-01-02T15:04:05Z"}},
		{"events.k8s.io", `kind: Event
apiVersion: events.k8s.io/v1
metadata: {namespace: shop, name: web.1, uid: 11111111-1111-1111-1111-111111111111, resourceVersion: "7"}
regarding: {kind: Service, namespace: shop, name: web, uid: 22222222-2222-2222-2222-222222222222}
reason: SyncLoadBalancerFailed
type: Warning
note: "Error syncing load balancer []: Message: The specified VSwitch has no available ip."
reportingController: service-controller
eventTime: "2026-01-02T15:04:05.123456Z"
series: {count: 4, lastObservedTime: "2026-01-02T15:09:05.123456Z"}
`, []string{"shop/web vswitch-ip-exhausted 2026-01-02T15:09:05.123456Z"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var errs bytes.Buffer
			p := &program{err: &errs, settings: settings{cluster: "c1"}}
			items, err := p.readFile(write(t, "events", tt.text))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, it := range items {
				f := it.event.Failure
				got = append(got, f.Service.String()+" "+it.remedy.Class+" "+f.Last.UTC().Format(time.RFC3339Nano))
				if it.event.ID == "" || f.Cluster != "c1" {
					t.Errorf("event %q of cluster %q", it.event.ID, f.Cluster)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestPages(t *testing.T) {
	c := call{"", home(t)}
	for _, id := range classes() {
		got := c.run(t.Context(), "catalog", id)
		r, err := classOf(id)
		if err != nil {
			t.Fatal(err)
		}
		if got.code != 0 || !strings.HasPrefix(got.out, r.Title()+"  "+id) || strings.Contains(got.out, "**") || !strings.Contains(got.out, "get services") {
			t.Errorf("catalog %s: code %d, %s%s", id, got.code, got.out, got.err)
		}
	}
	got := c.run(t.Context(), "catalog", "-o", "json")
	var list []entry
	if err := json.Unmarshal([]byte(got.out), &list); err != nil || len(list) != len(classes()) {
		t.Errorf("catalog -o json: %v, %d entries: %s", err, len(list), got.err)
	}
	got = c.run(t.Context(), "version", "-o", "json")
	var b command.Build
	if err := json.Unmarshal([]byte(got.out), &b); err != nil || b.Go == "" {
		t.Errorf("version -o json: %v: %s%s", err, got.out, got.err)
	}
	for args, want := range map[string]string{
		"__complete catalog ram":                "ram-permission\tThe controller's RAM role lacks a permission",
		"__complete ls --class vsw":             "vswitch-ip-exhausted\t",
		"__complete ls --result ":               "asked\n",
		"__complete ls -o ":                     "yaml\n",
		"completion bash":                       "bash completion V2 for lbremedy",
		"help up":                               "lbremedy up --cluster",
		"up --help":                             "--policy file",
		"__complete ls --namespace x --log-le":  "--log-level\t",
		"__complete show ":                      ":4\n",
		"__complete ls --log-format j":          "json\n",
		"__complete replay --class unclassifie": "unclassified\t",
	} {
		got := c.run(t.Context(), strings.Split(args, " ")...)
		if got.code != 0 || !strings.Contains(got.out, want) {
			t.Errorf("%s: code %d, %q; want %q", args, got.code, got.out, want)
		}
	}
}

// A person at a terminal gets colours, unless NO_COLOR says otherwise, and lines that fit.
func TestTerminal(t *testing.T) {
	for _, quiet := range []string{"", "1"} {
		var out bytes.Buffer
		p := &program{out: &out, err: &out, now: time.Now, getenv: func(name string) string {
			return map[string]string{"NO_COLOR": quiet}[name]
		}, terminal: func(any) int { return 60 }}
		p.list([]seenRecord{{Record: event.Record{Case: "c", Phase: event.Settled, Result: event.Fixed, Service: event.Service{Namespace: "a", Name: "b"}, Finding: strings.Repeat("word ", 30)}}})
		if got := strings.Contains(out.String(), string(green)+"fixed"); got != (quiet == "") {
			t.Errorf("NO_COLOR=%q: colours: %v in %q", quiet, got, out.String())
		}
		for line := range strings.Lines(out.String()) {
			if quiet != "" && len(line) > 80 {
				t.Errorf("a line of %d bytes: %q", len(line), line)
			}
		}
	}
}

// seed stores records in the journal of a stream, in order.
func seed(ctx context.Context, s *stream.Stream, records ...event.Record) error {
	for _, r := range records {
		e, err := event.NewRecord(r)
		if err != nil {
			return err
		}
		header, data, err := event.EncodeNATS(e)
		if err != nil {
			return err
		}
		j := s.Journal(r.Cluster, r.Service.UID, r.Class)
		if _, err := j.Load(ctx); err != nil {
			return err
		}
		if err := j.Append(ctx, e.ID(), header, data); err != nil {
			return err
		}
	}
	return nil
}
