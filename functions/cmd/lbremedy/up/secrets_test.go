package up_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/up"
	"github.com/lbremedy/lbremedy/shared/engine"
	"github.com/lbremedy/lbremedy/shared/policy"
	"github.com/lbremedy/lbremedy/test/operator"
)

// A writer of the policy can't make the process send its login secrets, or send anything unencrypted: it reads only what it was started with.
func TestSecrets(t *testing.T) {
	c, s := operator.Embed(t)
	dir, outside := t.TempDir(), operator.Write(t, "token", "the-token-of-the-pod")
	for _, err := range []error{
		os.WriteFile(filepath.Join(dir, "app"), []byte("the-secret-of-the-app"), 0o600), os.Mkdir(filepath.Join(dir, "in"), 0o700),
		os.WriteFile(filepath.Join(dir, "in", "app"), []byte("the-secret-of-the-app"), 0o600), os.Symlink(filepath.Dir(outside), filepath.Join(dir, "link")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("LBREMEDY_NATS_TOKEN", "the-token-of-nats")
	var came atomic.Int64
	evil := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.Contains(string(body), "the-token") {
			came.Add(1)
		}
	}))
	defer evil.Close()
	at := func(url, from string) string {
		return fmt.Sprintf(`{"tell":[{"name":"e","kind":"feishu-app","app":"x","chat":"y","url":%q,"secretFrom":%s}]}`, url, from)
	}
	app := func(from string) string { return at("", from) }
	file := func(path string) string { return fmt.Sprintf(`{"file":%q}`, path) }
	const below = "does not lie below "
	for name, tt := range map[string]struct{ sinks, want string }{
		"a file of it":                  {app(file(filepath.Join(dir, "app"))), ""},
		"a deeper one":                  {app(file(filepath.Join(dir, "in", "app"))), ""},
		"a variable":                    {app(`{"env":"FEISHU_SECRET"}`), ""},
		"a variable for sinks":          {app(`{"env":"LBREMEDY_TELL_FEISHU"}`), ""},
		"a token":                       {app(file(outside)), below + dir},
		"the environment":               {app(file("/proc/self/environ")), below},
		"beside it":                     {app(file(dir + "x/app")), below},
		"out of it":                     {app(file(dir + "/../" + filepath.Base(filepath.Dir(outside)) + "/token")), below},
		"out of a link":                 {app(file(dir + "/link/../token")), below},
		"the token of NATS":             {app(`{"env":"LBREMEDY_NATS_TOKEN"}`), "can't hold a secret of sinks"},
		"the access key":                {app(`{"env":"ALIBABA_CLOUD_ACCESS_KEY_SECRET"}`), "can't hold a secret of sinks"},
		"a proxy's password":            {app(`{"env":"https_proxy"}`), "can't hold a secret of sinks"},
		"in the clear":                  {at("http://evil.example", file(filepath.Join(dir, "app"))), "must begin with https://"},
		"another platform":              {at("https://evil.example", file(filepath.Join(dir, "app"))), "begins with https://open.feishu.cn or"},
		"one on this machine":           {at(evil.URL, file(filepath.Join(dir, "app"))), "begins with https://open.feishu.cn or"},
		"Lark":                          {at("https://open.larksuite.com", file(filepath.Join(dir, "app"))), ""},
		"a name that is a wildcard":     {`{"tell":[{"name":"e.>","kind":"event"}]}`, `"e.>" is not 1 to 32`},
		"the address of a robot":        {`{"tell":[{"name":"e","kind":"slack","urlFrom":` + file(outside) + `}]}`, below},
		"words of another release":      {`{"tell":[{"name":"e","kind":"event","results":["later"]}]}`, `"later" is not a result`},
		"a webhook's key that is a key": {`{"tell":[{"name":"e","kind":"webhook","url":"https://x","secretFrom":` + file(outside) + `}]}`, below},
	} {
		var said strings.Builder
		u := &up.UpRun{Program: c.Program(io.Discard, &said)}
		u.Cluster = "c1"
		u.Policy(operator.Write(t, "policy.yaml", tt.sinks))
		u.Secrets(dir)
		told, err := u.Notifier(t.Context(), connection(&engine.Env{Cluster: "c1", Stream: s}))
		if err != nil {
			t.Fatal(err)
		}
		if (len(told.Sinks()) == 1) != (tt.want == "") || !strings.Contains(told.Fault("e")+said.String(), tt.want) {
			t.Errorf("%s: %d are notified, got %q, %s, want %q", name, len(told.Sinks()), told.Fault("e"), said.String(), tt.want)
		}
	}

	policyFile := operator.Write(t, "policy.yaml", `{"tell":[{"name":"e","kind":"event"}]}`)
	var said strings.Builder
	u := &up.UpRun{Program: c.Program(io.Discard, &said)}
	u.Cluster = "c1"
	u.Policy(policyFile)
	u.Secrets(dir)
	told, err := u.Notifier(t.Context(), connection(&engine.Env{Cluster: "c1", Stream: s}))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(policyFile, []byte(app(file(outside))), 0o600); err != nil {
		t.Fatal(err)
	}
	next := told.Change(t.Context())
	if got := next.Sinks(); len(got) != 1 || got[0].Kind != policy.Event || !strings.Contains(next.Fault("e"), below) ||
		!strings.Contains(said.String(), "a sink can't be notified as the policy says") {
		t.Errorf("took over %+v, said %s", got, said.String())
	}
	if came.Load() > 0 {
		t.Error("a token was sent")
	}
}
