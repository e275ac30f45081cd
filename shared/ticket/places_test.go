package ticket

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lbremedy/lbremedy/shared/policy"
)

func TestOnlyToThePlatform(t *testing.T) {
	var came atomic.Int64
	evil := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { came.Add(1) }))
	defer evil.Close()
	for _, kind := range []string{policy.DingTalk, policy.WeCom, policy.Slack, policy.DingTalkApp, policy.FeishuApp, policy.PagerDuty} {
		for _, at := range []string{evil.URL, evil.URL + "/oapi.dingtalk.com", "https://oapi.dingtalk.com.evil.invalid/", "https://evil.invalid/"} {
			s := policy.Sink{Name: "e", Kind: kind, App: "a", Chat: "c", Card: "t", SecretFrom: secret(t, "s3cr3t")}
			if policy.Answers(kind) || kind == policy.PagerDuty {
				s.URL = at
			} else {
				s.URLFrom = secret(t, at)
			}
			c := Config{Now: time.Now, Log: slog.New(slog.DiscardHandler)}
			to, _, err := c.sink(s)
			if err == nil {
				_, err = to.Send(t.Context(), Ticket{Notice: Notice{Title: "t", Facts: Facts{Key: "lbr-1"}}, Opens: true})
			}
			if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "begins with https://") || strings.Contains(err.Error(), "evil") {
				t.Errorf("%s at %s: got %v", kind, at, err)
			}
		}
	}
	if n := came.Load(); n > 0 {
		t.Errorf("%d messages went elsewhere", n)
	}
}

func TestTemplatePlaces(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	const text = `{{define "text"}}mine{{end}}`
	for _, err := range []error{
		os.WriteFile(filepath.Join(dir, "ops.tmpl"), []byte(text), 0o600),
		os.WriteFile(filepath.Join(dir, "long.tmpl"), []byte(text+strings.Repeat(" ", 64<<10)), 0o600),
		os.WriteFile(filepath.Join(outside, "ops.tmpl"), []byte(text), 0o600),
		os.Symlink("/dev/zero", filepath.Join(dir, "endless.tmpl")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for file, want := range map[string]string{
		filepath.Join(dir, "ops.tmpl"):                      "",
		filepath.Join(dir, "long.tmpl"):                     "it is larger than 64 KiB",
		filepath.Join(dir, "endless.tmpl"):                  "it is larger than 64 KiB",
		filepath.Join(outside, "ops.tmpl"):                  "does not lie below",
		"/proc/self/environ":                                "does not lie below",
		"/dev/zero":                                         "does not lie below",
		"ops.tmpl":                                          "does not lie below",
		dir + "/../" + filepath.Base(outside) + "/ops.tmpl": "does not lie below",
	} {
		_, err := loadTexts(policy.Sink{Name: "e", Kind: policy.Event, Template: file}, []string{dir}, nil)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", file, err, want)
		}
	}
}
