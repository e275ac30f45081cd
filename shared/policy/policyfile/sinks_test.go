package policyfile

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lbremedy/lbremedy/shared/policy"
)

const allSinks = `
tell:
- {name: support, kind: alibaba, category: "53811", urgent: true, classes: [busy], risks: [high]}
- {name: events, kind: event, results: [planned, needs-action]}
- {name: on-call, kind: dingtalk, urlFrom: {env: DING_URL}, secretFrom: {file: /run/secrets/ding}, namespaces: [shop]}
- {name: team, kind: slack, urlFrom: {file: /run/secrets/slack}}
- {name: ops, kind: webhook, url: "https://ops.example/hook", secretFrom: {env: OPS_KEY}, template: /run/secrets/ops.tmpl}
- {name: night, kind: dingtalk-app, app: ding1, secretFrom: {env: DING_SECRET}, chat: "cid1==", card: 1.schema}
- {name: lark, kind: feishu-app, url: "https://open.larksuite.com", app: cli_1, secretFrom: {env: LARK_SECRET}, chat: oc_1}
- {name: mail, kind: mail, url: "smtps://smtpdm.aliyun.com:465", from: a@b.c, to: [d@e.f, "G <g@h.i>"], user: a, secretFrom: {env: MAIL_PASSWORD}}
- {name: here, kind: webhook, url: "http://127.0.0.1:8080/", secretFrom: {env: OPS_KEY}}
- {name: alerts, kind: alertmanager, url: "http://alertmanager.monitoring.svc:9093"}
- {name: arms, kind: alertmanager, url: "https://alerts.aliyuncs.com", secretFrom: {env: ARMS_TOKEN}}
- {name: pager, kind: pagerduty, secretFrom: {env: PAGER_KEY}}
- {name: gh, kind: github, secretFrom: {env: K}, repository: acme/deploy, branch: main, sources: [{application: shop, paths: [apps/web.yaml]}]}
- name: gl
  kind: gitlab
  url: https://git.example/
  secretFrom: {env: K}
  repository: acme/shop/deploy
  branch: release/1.x
  sources: [{kustomization: flux-system/shop, paths: [a.yml, "b c/d.yaml"]}]
- {name: cu, kind: codeup, secretFrom: {env: K}, repository: 60d54f3daccf2bbd6659f3ad/2813489, branch: main, sources: [{application: a, paths: [a.yaml]}]}
`

func TestSinks(t *testing.T) {
	v, err := Parse([]byte("mode: fix\n"+allSinks), []string{"busy"})
	if err != nil {
		t.Fatal(err)
	}
	want := []policy.Sink{
		{Name: "support", Kind: policy.Alibaba, Category: "53811", Urgent: true, Classes: []string{"busy"}, Risks: []string{"high"}},
		{Name: "events", Kind: policy.Event, Results: []string{"planned", "needs-action"}},
		{Name: "on-call", Kind: policy.DingTalk, URLFrom: policy.Reference{Env: "DING_URL"}, SecretFrom: policy.Reference{File: "/run/secrets/ding"},
			Namespaces: []string{"shop"}},
		{Name: "team", Kind: policy.Slack, URLFrom: policy.Reference{File: "/run/secrets/slack"}},
		{Name: "ops", Kind: policy.Webhook, URL: "https://ops.example/hook", SecretFrom: policy.Reference{Env: "OPS_KEY"}, Template: "/run/secrets/ops.tmpl"},
		{Name: "night", Kind: policy.DingTalkApp, App: "ding1", SecretFrom: policy.Reference{Env: "DING_SECRET"}, Chat: "cid1==", Card: "1.schema"},
		{Name: "lark", Kind: policy.FeishuApp, URL: "https://open.larksuite.com", App: "cli_1", SecretFrom: policy.Reference{Env: "LARK_SECRET"}, Chat: "oc_1"},
		{Name: "mail", Kind: policy.Mail, URL: "smtps://smtpdm.aliyun.com:465", From: "a@b.c", To: []string{"d@e.f", "G <g@h.i>"}, User: "a",
			SecretFrom: policy.Reference{Env: "MAIL_PASSWORD"}},
		{Name: "here", Kind: policy.Webhook, URL: "http://127.0.0.1:8080/", SecretFrom: policy.Reference{Env: "OPS_KEY"}},
		{Name: "alerts", Kind: policy.Alertmanager, URL: "http://alertmanager.monitoring.svc:9093"},
		{Name: "arms", Kind: policy.Alertmanager, URL: "https://alerts.aliyuncs.com", SecretFrom: policy.Reference{Env: "ARMS_TOKEN"}},
		{Name: "pager", Kind: policy.PagerDuty, SecretFrom: policy.Reference{Env: "PAGER_KEY"}},
		{Name: "gh", Kind: policy.GitHub, SecretFrom: policy.Reference{Env: "K"}, Repository: "acme/deploy", Branch: "main",
			Sources: []policy.Source{{Application: "shop", Paths: []string{"apps/web.yaml"}}}},
		{Name: "gl", Kind: policy.GitLab, URL: "https://git.example/", SecretFrom: policy.Reference{Env: "K"}, Repository: "acme/shop/deploy", Branch: "release/1.x",
			Sources: []policy.Source{{Kustomization: "flux-system/shop", Paths: []string{"a.yml", "b c/d.yaml"}}}},
		{Name: "cu", Kind: policy.Codeup, SecretFrom: policy.Reference{Env: "K"}, Repository: "60d54f3daccf2bbd6659f3ad/2813489", Branch: "main",
			Sources: []policy.Source{{Application: "a", Paths: []string{"a.yaml"}}}},
	}
	if diff := cmp.Diff(want, v.Sinks); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestPeople(t *testing.T) {
	v, err := Parse([]byte("people:\n- {dingtalk: \"0123\", user: ann, groups: [network]}\n- {feishu: ou_1, user: bob}\n"), nil)
	want := []policy.Person{{DingTalk: "0123", User: "ann", Groups: []string{"network"}}, {Feishu: "ou_1", User: "bob"}}
	if diff := cmp.Diff(want, v.People); err != nil || diff != "" {
		t.Fatalf("%v\n%s", err, diff)
	}
	for text, want := range map[string]string{
		`{dingtalk: "1"}`: "people[0].user: it is empty", `{user: ann}`: "people[0].dingtalk: neither dingtalk nor feishu",
		`{dingtalk: "1", user: "system:serviceaccount:lbremedy:lbremedy-up"}`: "lbremedy does not answer its own questions",
		`{dingtalk: "1", user: ann, groups: [""]}`:                            "people[0].groups: one of them is empty",
		`{dingtalk: "1", user: ann}, {dingtalk: "1", user: bob}`:              `people[1].dingtalk: "1" is another person's`,
	} {
		if _, err := Parse([]byte("people: ["+text+"]"), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", text, err)
		}
	}
}

func TestSinksRefuse(t *testing.T) {
	for _, tt := range []struct{ sink, want string }{
		{`{kind: event}`, "tell[0]: it has no name"},
		{`{name: "A b", kind: event}`, `tell[0].name: "A b" is not 1 to 32`},
		{`{name: e, kind: event}, {name: e, kind: event}`, "tell[1].name: another sink is called e, too"},
		{`{name: e, kind: beeper}`, `tell[0].kind: the kind "beeper" is unknown; the kinds are alibaba, event`},
		{`{name: e, kind: event, urls: x}`, "line 1: tell[0].urls: the field is unknown; the fields are name, kind"},
		{`{name: e, kind: event, url: "https://x"}`, "tell[0].url: a sink of kind event has no address"},
		{`{name: e, kind: event, secretFrom: {env: X}}`, "tell[0].secretFrom: a sink of kind event signs nothing"},
		{`{name: e, kind: event, classes: [nope]}`, `tell[0].classes: unknown class "nope": the nearest are busy`},
		{`{name: e, kind: event, risks: [some]}`, "tell[0].risks:"},
		{`{name: e, kind: event, namespaces: [""]}`, `tell[0].namespaces: "" is not a pattern`},
		{`{name: e, kind: event, namespaces: ["prod-["]}`, `tell[0].namespaces: "prod-[" is not a pattern`},
		{`{name: e, kind: event, chat: cid1}`, "tell[0].app: only a sink that is an app"},
		{`{name: d, kind: dingtalk-app, chat: cid1, card: t, secretFrom: {env: K}}`, "tell[0].app: it is empty"},
		{`{name: d, kind: dingtalk-app, app: ding1, card: t, secretFrom: {env: K}}`, "tell[0].chat: it is empty"},
		{`{name: d, kind: dingtalk-app, app: ding1, chat: cid1, card: t}`, "tell[0].secretFrom: it names no place"},
		{`{name: d, kind: dingtalk-app, app: ding1, chat: cid1, secretFrom: {env: K}}`, "tell[0].card: it is empty"},
		{`{name: d, kind: dingtalk-app, app: ding1, chat: cid1, card: t, secretFrom: {env: K}, url: "http://x.example/s3cr3t"}`, "must begin with https://"},
		{`{name: d, kind: dingtalk-app, app: ding1, chat: cid1, card: t, secretFrom: {env: K}, url: "https://x.example/s3cr3t"}`,
			"tell[0].url: the address of a sink of kind dingtalk-app begins with https://api.dingtalk.com"},
		{`{name: f, kind: feishu-app, app: cli_1, chat: oc_1, secretFrom: {env: K}, url: "https://open.feishu.cn.s3cr3t.example"}`,
			"tell[0].url: the address of a sink of kind feishu-app begins with https://open.feishu.cn or https://open.larksuite.com"},
		{`{name: f, kind: feishu-app, app: cli_1, chat: oc_1, card: t, secretFrom: {env: K}}`, "tell[0].card: only cards of DingTalk"},
		{`{name: e, kind: event, results: [gone]}`, `tell[0].results: "gone" is not a result`},
		{`{name: e, kind: event, category: "1"}`, "tell[0].category: only tickets of kind alibaba"},
		{`{name: a, kind: alibaba}`, `tell[0].category: "" is not a number`},
		{`{name: a, kind: alibaba, category: x1}`, `tell[0].category: "x1" is not a number`},
		{`{name: a, kind: alibaba, category: "1", results: [planned]}`, `"planned" is not a result`},
		{`{name: s, kind: slack}`, "tell[0].urlFrom: it names no place"},
		{`{name: e, kind: event, from: a@b.c}`, "tell[0].from: only a sink of kind mail"},
		{`{name: m, kind: mail, url: "https://x", from: a@b.c, to: [d@e.f]}`, "tell[0].url: it is not an address such as smtps://"},
		{`{name: m, kind: mail, url: "smtp://u:s3cr3t@x:25", from: a@b.c, to: [d@e.f]}`, "tell[0].url: it is not an address such as smtps://"},
		{`{name: m, kind: mail, url: "smtps://x:465", urlFrom: {env: X}, from: a@b.c, to: [d@e.f]}`, "tell[0].urlFrom: the address of a server"},
		{`{name: m, kind: mail, url: "smtps://x:465", from: a, to: [d@e.f]}`, `tell[0].from: "a" is not an email address`},
		{`{name: m, kind: mail, url: "smtps://x:465", from: a@b.c}`, "tell[0].to: it is empty"},
		{`{name: w, kind: wecom}`, "tell[0].urlFrom: it names no place"},
		{`{name: w, kind: wecom, urlFrom: {env: U}, secretFrom: {env: K}}`, "tell[0].secretFrom: a sink of kind wecom signs nothing"},
		{`{name: s, kind: slack, url: "https://hooks.slack.com/services/s3cr3t"}`, "tell[0].url: the address of a slack webhook is a secret"},
		{`{name: d, kind: dingtalk, urlFrom: {env: A, file: B}}`, "tell[0].urlFrom: it names a variable and a file"},
		{`{name: w, kind: webhook, secretFrom: {env: K}}`, "tell[0].url: give either url or urlFrom"},
		{`{name: w, kind: webhook, url: "https://x", urlFrom: {env: U}, secretFrom: {env: K}}`, "tell[0].url: give either url or urlFrom"},
		{`{name: w, kind: webhook, url: "https://x"}`, "tell[0].secretFrom: it names no place"},
		{`{name: w, kind: webhook, url: "http://x.example/s3cr3t", secretFrom: {env: K}}`, "must begin with https://"},
		{`{name: w, kind: webhook, url: "http://127.0.0.1.evil.example/", secretFrom: {env: K}}`, "must begin with https://"},
		{`{name: w, kind: webhook, url: "https://u:s3cr3t@x", secretFrom: {env: K}}`, "holds a user or password"},
		{`{name: w, kind: webhook, url: "x", secretFrom: {env: K}}`, "is not a URL"},
		{`{name: a, kind: alertmanager}`, "tell[0].url: give either url or urlFrom"},
		{`{name: a, kind: alertmanager, url: "http://am.example/s3cr3t"}`, "must begin with https://"},
		{`{name: a, kind: alertmanager, url: "http://am.monitoring.svc/s3cr3t", secretFrom: {env: K}}`, "the token is sent to https:// alone"},
		{`{name: p, kind: pagerduty}`, "tell[0].secretFrom: it names no place"},
		{`{name: p, kind: pagerduty, urlFrom: {env: U}, secretFrom: {env: K}}`, "tell[0].urlFrom: the addresses of PagerDuty are fixed"},
		{`{name: p, kind: pagerduty, url: "https://x.example/s3cr3t", secretFrom: {env: K}}`, "begins with https://events.pagerduty.com"},
		{`{name: e, kind: event, repository: a/b}`, "tell[0].repository: only a sink of kind github, gitlab or codeup"},
		{`{name: g, kind: github, branch: main}`, `tell[0].repository: "" is not a repository of kind github, such as acme/deploy`},
		{`{name: g, kind: github, repository: "a/../b"}`, `tell[0].repository: "a/../b" is not a repository`},
		{`{name: g, kind: gitlab, repository: "a/../b"}`, `tell[0].repository: "a/../b" is not a repository`},
		{`{name: g, kind: codeup, repository: "acme/deploy"}`, "such as 60d54f3daccf2bbd6659f3ad/2813489"},
		{forge(`branch: "a b"`), `tell[0].branch: "a b" is not a branch, such as main`},
		{forge(`branch: "../main"`), `tell[0].branch: "../main" is not a branch`},
		{`{name: g, kind: github, repository: a/b, branch: main}`, "tell[0].secretFrom: it names no place"},
		{forge(`urlFrom: {env: X}`), "tell[0].urlFrom: the address of a forge is not secret"},
		{forge(`url: "http://git.example/s3cr3t"`), "must begin with https://"},
		{`{name: g, kind: codeup, url: "https://x.example/s3cr3t", secretFrom: {env: K}}`, "begins with https://openapi-rdc.aliyuncs.com"},
		{forge(`sources: []`), "tell[0].sources: it is empty"},
		{forge(`sources: [{paths: [a.yaml]}]`), "tell[0].sources[0]: give either application or kustomization"},
		{forge(`sources: [{application: a, kustomization: b/c, paths: [a.yaml]}]`), "tell[0].sources[0]: give either application or kustomization"},
		{forge(`sources: [{kustomization: c, paths: [a.yaml]}]`), `tell[0].sources[0].kustomization: "c" is not NAMESPACE/NAME`},
		{forge(`sources: [{application: a, paths: [a.yaml]}, {application: a, paths: [b.yaml]}]`), "tell[0].sources[1]: another one has the same name"},
		{forge(`sources: [{application: a}]`), "tell[0].sources[0].paths: name 1 to 10 files"},
		{forge(`sources: [{application: a, paths: [../a.yaml]}]`), `tell[0].sources[0].paths: "../a.yaml" is not the path of a YAML file`},
		{forge(`sources: [{application: a, paths: [/a.yaml]}]`), `tell[0].sources[0].paths: "/a.yaml" is not the path of a YAML file`},
		{forge(`sources: [{application: a, paths: [.github/workflows/a.yaml]}]`), "is not the path of a YAML file"},
		{forge(`sources: [{application: a, paths: ["a.yaml?x"]}]`), "is not the path of a YAML file"},
	} {
		_, err := Parse([]byte("tell: ["+tt.sink+"]"), []string{"busy"})
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("%s: got %v, want %s", tt.sink, err, tt.want)
		}
	}
}

// forge returns a sink of kind github with one field changed.
func forge(field string) string {
	all := map[string]string{
		"secretFrom": "{env: K}", "repository": "acme/deploy", "branch": "main", "sources": "[{application: shop, paths: [a.yaml]}]",
	}
	name, value, _ := strings.Cut(field, ": ")
	all[name] = value
	text := "{name: g, kind: github"
	for name, value := range all {
		text += ", " + name + ": " + value
	}
	return text + "}"
}
