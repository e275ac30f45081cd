package main

import (
	"context"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lbremedy/lbremedy/test/cluster"
	"github.com/lbremedy/lbremedy/test/sim/controller"
	"github.com/lbremedy/lbremedy/test/testbed"
)

// TestKept keeps the demonstration running and approves a plan in its console, which is then applied.
func TestKept(t *testing.T) {
	t.Setenv(controller.BinaryVariable, "")
	all := testbed.All()
	asks := all[slices.IndexFunc(all, func(f testbed.Fixture) bool { return f.Name == "balancer-two" })].As("web")
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	g := group{config: asks.Config, fixtures: []testbed.Fixture{asks}, cluster: cluster.Alone(t)}
	ended := make(chan error, 1)
	go func() { ended <- show(ctx, newScreen(out), g, &total{}, func() {}, true) }()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	until := func(what string, text func() string, pattern string) string {
		t.Helper()
		for {
			got := text()
			if m := regexp.MustCompile(pattern).FindStringSubmatch(got); m != nil {
				return m[len(m)-1]
			}
			select {
			case <-tick.C:
			case err := <-ended:
				t.Fatalf("the demonstration has ended before %s: %v", what, err)
			case <-ctx.Done():
				t.Fatalf("not seen: %s: %s", what, got)
			}
		}
	}
	address := until("the console", func() string {
		text, err := os.ReadFile(out.Name())
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}, `(http://127\.0\.0\.1:\d+/\?key=\S+)`)
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Jar: jar}
	base, _, _ := strings.Cut(address, "/?")
	body := func(answer *http.Response, err error) string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	body(client.Get(address))
	questions := func() string { return body(client.Get(base + "/questions")) }
	plan := until("the button", questions, `(?s)name="plan" value="([^"]+)".*value="approve"`)
	page := body(client.PostForm(base+"/answers?"+url.Values{"verdict": {"approve"}, "plan": {plan}}.Encode(), url.Values{}))
	if !strings.Contains(page, "approved it at") {
		t.Errorf("the answer is not on the page: %s", page)
	}
	until("the fix", func() string { return body(client.Get(base + "/cases?q=web")) }, `(?s)/web</a>.*</span> fixed<`)
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("the demonstration ended with %v", err)
	}
}
