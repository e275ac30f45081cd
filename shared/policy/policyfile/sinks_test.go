package policyfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lbremedy/lbremedy/shared/policy"
)

const allSinks = `
tell:
- {name: support, kind: alibaba, category: "53811", urgent: true, classes: [busy], risks: [high]}
- {name: events, kind: event, results: [planned, asked]}
- {name: on-call, kind: dingtalk, urlFrom: {env: DING_URL}, secretFrom: {file: /run/secrets/ding}, namespaces: [shop]}
- {name: team, kind: slack, urlFrom: {file: /run/secrets/slack}}
- {name: ops, kind: webhook, url: "https://ops.example/hook", secretFrom: {env: OPS_KEY}, template: ops.tmpl}
- {name: here, kind: webhook, url: "http://127.0.0.1:8080/", secretFrom: {env: OPS_KEY}}
`

func TestSinks(t *testing.T) {
	file := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(file, []byte("mode: fix\n"+allSinks), 0o600); err != nil {
		t.Fatal(err)
	}
	v, err := LoadVersion(file, []string{"busy"})
	if err != nil {
		t.Fatal(err)
	}
	want := []policy.Sink{
		{Name: "support", Kind: policy.Alibaba, Category: "53811", Urgent: true, Classes: []string{"busy"}, Risks: []string{"high"}},
		{Name: "events", Kind: policy.Event, Results: []string{"planned", "asked"}},
		{Name: "on-call", Kind: policy.DingTalk, URLFrom: policy.Reference{Env: "DING_URL"}, SecretFrom: policy.Reference{File: "/run/secrets/ding"},
			Namespaces: []string{"shop"}},
		{Name: "team", Kind: policy.Slack, URLFrom: policy.Reference{File: "/run/secrets/slack"}},
		{Name: "ops", Kind: policy.Webhook, URL: "https://ops.example/hook", SecretFrom: policy.Reference{Env: "OPS_KEY"}, Template: "ops.tmpl"},
		{Name: "here", Kind: policy.Webhook, URL: "http://127.0.0.1:8080/", SecretFrom: policy.Reference{Env: "OPS_KEY"}},
	}
	if diff := cmp.Diff(want, v.Sinks); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestSinksRefuse(t *testing.T) {
	for _, tt := range []struct{ sink, want string }{
		{`{kind: event}`, "tell[0]: it has no name"},
		{`{name: "A b", kind: event}`, `tell[0].name: "A b" is not 1 to 32`},
		{`{name: e, kind: event}, {name: e, kind: event}`, "tell[1].name: another sink is called e, too"},
		{`{name: e, kind: pager}`, `tell[0].kind: there is no kind "pager"; there are alibaba, event`},
		{`{name: e, kind: event, urls: x}`, "line 1: tell[0].urls: there is no such field; there are name, kind"},
		{`{name: e, kind: event, url: "https://x"}`, "tell[0].url: a sink of kind event has no address"},
		{`{name: e, kind: event, secretFrom: {env: X}}`, "tell[0].secretFrom: a sink of kind event signs nothing"},
		{`{name: e, kind: event, classes: [nope]}`, `tell[0].classes: there is no class "nope"`},
		{`{name: e, kind: event, risks: [some]}`, "tell[0].risks:"},
		{`{name: e, kind: event, namespaces: [""]}`, "tell[0].namespaces: one of them is empty"},
		{`{name: e, kind: event, results: [gone]}`, `tell[0].results: "gone" is none`},
		{`{name: e, kind: event, category: "1"}`, "tell[0].category: only tickets of kind alibaba"},
		{`{name: a, kind: alibaba}`, `tell[0].category: "" is no number`},
		{`{name: a, kind: alibaba, category: x1}`, `tell[0].category: "x1" is no number`},
		{`{name: a, kind: alibaba, category: "1", results: [planned]}`, `"planned" is none`},
		{`{name: s, kind: slack}`, "tell[0].urlFrom: it names no place"},
		{`{name: s, kind: slack, url: "https://hooks.slack.com/services/s3cr3t"}`, "tell[0].url: the address of a slack webhook is a secret"},
		{`{name: d, kind: dingtalk, urlFrom: {env: A, file: B}}`, "tell[0].urlFrom: it names a variable and a file"},
		{`{name: w, kind: webhook, secretFrom: {env: K}}`, "tell[0].url: give either url or urlFrom"},
		{`{name: w, kind: webhook, url: "https://x", urlFrom: {env: U}, secretFrom: {env: K}}`, "tell[0].url: give either url or urlFrom"},
		{`{name: w, kind: webhook, url: "https://x"}`, "tell[0].secretFrom: it names no place"},
		{`{name: w, kind: webhook, url: "http://x.example/s3cr3t", secretFrom: {env: K}}`, "must begin with https://"},
		{`{name: w, kind: webhook, url: "http://127.0.0.1.evil.example/", secretFrom: {env: K}}`, "must begin with https://"},
		{`{name: w, kind: webhook, url: "https://u:s3cr3t@x", secretFrom: {env: K}}`, "holds a user or password"},
		{`{name: w, kind: webhook, url: "x", secretFrom: {env: K}}`, "is no URL"},
	} {
		_, err := Parse([]byte("tell: ["+tt.sink+"]"), []string{"busy"})
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("%s: got %v, want %s", tt.sink, err, tt.want)
		}
	}
}
