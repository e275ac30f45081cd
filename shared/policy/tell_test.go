package policy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/lbremedy/lbremedy/test/nats"
)

const allSinks = `
tell:
- {name: support, kind: alibaba, category: "53811", urgent: true, classes: [busy], risks: [high]}
- {name: events, kind: event, results: [planned, asked]}
- {name: on-call, kind: dingtalk, urlFrom: {env: DING_URL}, secretFrom: {file: /run/secrets/ding}, namespaces: [shop]}
- {name: team, kind: slack, urlFrom: {file: /run/secrets/slack}}
- {name: desk, kind: webhook, url: "https://desk.example/hook", secretFrom: {env: DESK_KEY}, template: desk.tmpl}
- {name: here, kind: webhook, url: "http://127.0.0.1:8080/", secretFrom: {env: DESK_KEY}}
`

func TestTell(t *testing.T) {
	file := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(file, []byte("mode: fix\n"+allSinks), 0o600); err != nil {
		t.Fatal(err)
	}
	sinks, err := LoadTell(file, []string{"busy"})
	if err != nil {
		t.Fatal(err)
	}
	want := []Sink{
		{Name: "support", Kind: Alibaba, Category: "53811", Urgent: true, Classes: []string{"busy"}, Risks: []string{"high"}},
		{Name: "events", Kind: Event, Results: []string{"planned", "asked"}},
		{Name: "on-call", Kind: DingTalk, URLFrom: Reference{Env: "DING_URL"}, SecretFrom: Reference{File: "/run/secrets/ding"}, Namespaces: []string{"shop"}},
		{Name: "team", Kind: Slack, URLFrom: Reference{File: "/run/secrets/slack"}},
		{Name: "desk", Kind: Webhook, URL: "https://desk.example/hook", SecretFrom: Reference{Env: "DESK_KEY"}, Template: "desk.tmpl"},
		{Name: "here", Kind: Webhook, URL: "http://127.0.0.1:8080/", SecretFrom: Reference{Env: "DESK_KEY"}},
	}
	if diff := cmp.Diff(want, sinks); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	for i, want := range []string{"asked failed unsettled", "planned asked", "asked failed unsettled fixed"} {
		if got := strings.Join(sinks[i].Wants(), " "); got != want {
			t.Errorf("%s wants %s, not %s", sinks[i].Name, got, want)
		}
	}
	if got := (Sink{Kind: Event}).Wants(); len(got) != 5 {
		t.Errorf("Events want %q", got)
	}

	// They lie in the stream as they stand in the file.
	s := nats.Streams(t)
	if got, err := TellInForce(t.Context(), s, "c1"); err != nil || got != nil {
		t.Errorf("before: got %+v, %v", got, err)
	}
	if err := PublishTell(t.Context(), s, "c1", sinks); err != nil {
		t.Fatal(err)
	}
	got, err := TellInForce(t.Context(), s, "c1")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestTellRefuses(t *testing.T) {
	for _, tt := range []struct{ sink, want string }{
		{`{kind: event}`, "tell[0]: it has no name"},
		{`{name: "A b", kind: event}`, `tell[0].name: "A b" is not 1 to 32`},
		{`{name: e, kind: event}, {name: e, kind: event}`, "tell[1].name: another sink is called e, too"},
		{`{name: e, kind: pager}`, `tell.e.kind: there is no kind "pager"; there are alibaba, event`},
		{`{name: e, kind: event, urls: x}`, `"urls" is not known`},
		{`{name: e, kind: event, url: "https://x"}`, "tell.e.url: a sink of kind event has no address"},
		{`{name: e, kind: event, secretFrom: {env: X}}`, "tell.e.secretFrom: a sink of kind event signs nothing"},
		{`{name: e, kind: event, classes: [nope]}`, `tell.e.classes: there is no class "nope"`},
		{`{name: e, kind: event, risks: [some]}`, "tell.e.risks:"},
		{`{name: e, kind: event, namespaces: [""]}`, "tell.e.namespaces: one of them is empty"},
		{`{name: e, kind: event, results: [gone]}`, `tell.e.results: "gone" is none`},
		{`{name: e, kind: event, category: "1"}`, "tell.e.category: only tickets of kind alibaba"},
		{`{name: a, kind: alibaba}`, `tell.a.category: "" is no number`},
		{`{name: a, kind: alibaba, category: x1}`, `tell.a.category: "x1" is no number`},
		{`{name: a, kind: alibaba, category: "1", results: [planned]}`, `"planned" is none`},
		{`{name: s, kind: slack}`, "tell.s.urlFrom: it names no place"},
		{`{name: s, kind: slack, url: "https://hooks.slack.com/services/s3cr3t"}`, "tell.s.url: the address of a slack webhook is a secret"},
		{`{name: d, kind: dingtalk, urlFrom: {env: A, file: B}}`, "tell.d.urlFrom: it names a variable and a file"},
		{`{name: w, kind: webhook, secretFrom: {env: K}}`, "tell.w.url: give either url or urlFrom"},
		{`{name: w, kind: webhook, url: "https://x", urlFrom: {env: U}, secretFrom: {env: K}}`, "tell.w.url: give either url or urlFrom"},
		{`{name: w, kind: webhook, url: "https://x"}`, "tell.w.secretFrom: it names no place"},
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

func TestReference(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) Reference {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return Reference{File: filepath.Join(dir, name)}
	}
	t.Setenv("LBREMEDY_TEST_SECRET", " s3cr3t ")
	for _, r := range []Reference{{Env: "LBREMEDY_TEST_SECRET"}, file("good", "s3cr3t\n")} {
		if got, err := r.Read(); err != nil || got != "s3cr3t" {
			t.Errorf("%s: got %q, %v", r, got, err)
		}
	}
	for _, r := range []Reference{{}, {Env: "LBREMEDY_TEST_NOTHING"}, file("empty", "\n"), file("lines", "s3cr3t\ns3cr3t"), file("long", strings.Repeat("s3cr3t", 1000)), {File: dir}, {File: filepath.Join(dir, "none")}} {
		if got, err := r.Read(); err == nil || got != "" || strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("%s: got %q, %v", r, got, err)
		}
	}
}
