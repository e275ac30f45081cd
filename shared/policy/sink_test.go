package policy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSinks(t *testing.T) {
	sinks := []Sink{
		{Name: "support", Kind: Alibaba, Category: "53811", Urgent: true, Classes: []string{"busy"}, Risks: []string{"high"}},
		{Name: "events", Kind: Event, Results: []string{"planned", "needs-action"}},
		{Name: "on-call", Kind: DingTalk, URLFrom: Reference{Env: "DING_URL"}, SecretFrom: Reference{File: "/run/secrets/ding"}, Namespaces: []string{"shop"}},
		{Name: "team", Kind: Slack, URLFrom: Reference{File: "/run/secrets/slack"}},
		{Name: "ops", Kind: Webhook, URL: "https://ops.example/hook", SecretFrom: Reference{Env: "OPS_KEY"}, Template: "ops.tmpl"},
		{Name: "here", Kind: Webhook, URL: "http://127.0.0.1:8080/", SecretFrom: Reference{Env: "OPS_KEY"}},
	}
	for i, want := range []string{
		"needs-approval needs-action failed unsettled", "planned needs-action", "needs-approval needs-action failed unsettled fixed synced",
	} {
		if got := strings.Join(sinks[i].Wants(), " "); got != want {
			t.Errorf("%s wants %s, not %s", sinks[i].Name, got, want)
		}
	}
	if got := (Sink{Kind: Event}).Wants(); len(got) != 7 {
		t.Errorf("Events want %q", got)
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
	for _, r := range []Reference{{}, {Env: "LBREMEDY_TEST_NOTHING"}, file("empty", "\n"), file("lines", "s3cr3t\ns3cr3t"),
		file("long", strings.Repeat("s3cr3t", 1000)), {File: dir}, {File: filepath.Join(dir, "none")}} {
		if got, err := r.Read(); err == nil || got != "" || strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("%s: got %q, %v", r, got, err)
		}
	}
}
