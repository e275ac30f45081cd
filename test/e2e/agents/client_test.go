package agents

import (
	"bufio"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lbremedy/lbremedy/test/rig"
)

var update = flag.Bool("update", false, "write the transcript anew")

// install returns a folder with another vendor's client and its dependencies, which npm fetches once and verifies by package-lock.json.
var install = sync.OnceValues(func() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "lbremedy", "agents")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	fresh := true
	for _, name := range []string{"package.json", "client.mjs", "package-lock.json"} {
		want, err := os.ReadFile(filepath.Join("client", name))
		if err != nil {
			return "", err
		}
		have, _ := os.ReadFile(filepath.Join(dir, name)) // it may not be there yet
		if fresh = fresh && string(have) == string(want); fresh {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, name), want, 0o600); err != nil {
			return "", err
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "node_modules", ".package-lock.json")); err == nil && fresh {
		return dir, nil
	}
	cmd := exec.Command("npm", "ci", "--ignore-scripts", "--silent", "--no-audit", "--no-fund")
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	return dir, cmd.Run()
})

var changing = []struct {
	of   *regexp.Regexp
	name string
}{
	{regexp.MustCompile(`\b[0-9a-f]{8}-\d{8}T\d{6}\b`), "CASE"},
	{regexp.MustCompile(`\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b`), "UID"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(Z| UTC)`), "TIME"},
	{regexp.MustCompile(`\b\d+[smh](\d+s)? ago`), "AGE ago"},
	{regexp.MustCompile(`"digest": "[0-9a-f]{32}"`), `"digest": "DIGEST"`},
	{regexp.MustCompile(`--digest [0-9a-f]{32}`), `--digest DIGEST`},
}

// TestClient lets another vendor's client use all tools, on standard input and output and over HTTP behind the console's login,
// with the same results; testdata/night.txt has them.
func TestClient(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"node", "npm"} {
		if _, err := exec.LookPath(name); err != nil && os.Getenv("CI") == "" {
			t.Logf("there is no %s here, so that the client of another make is left out", name)
			return
		}
	}
	dir, err := install()
	if err != nil {
		t.Fatalf("npm ci: %v", err)
	}
	w := start(t)
	evil, web := w.Testbed.Namespace+"/evil", w.Testbed.Namespace+"/web"
	type arguments map[string]any
	calls, err := json.Marshal([][2]any{
		{"classify", arguments{"text": rig.FullMessage}},
		{"list_cases", arguments{"open": true}},
		{"show_case", arguments{"case": web}},
		{"show_case", arguments{"case": evil}},
		{"diagnose", arguments{"object": web}},
		{"propose", arguments{"case": web}},
		{"ram_gap", arguments{}},
		{"doctor", arguments{"services": []string{web}, "checks": []string{"annotations", "room"}}},
		{"explain_class", arguments{"class": "quota"}},
		{"propose", arguments{"case": "shop/nowhere"}},
		{"read", arguments{"uri": "lbremedy://policy"}},
	})
	w.Must(err)
	play := func(server ...string) string {
		cmd := exec.CommandContext(w.Ctx, "node", append([]string{filepath.Join(dir, "client.mjs"), string(calls)}, server...)...)
		cmd.Env, cmd.Stderr = append(w.env, "NO_PROXY=127.0.0.1"), os.Stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("the client: %v\n%s", err, out)
		}
		text := strings.ReplaceAll(string(out), w.Testbed.Namespace, "NAMESPACE")
		for _, c := range changing {
			text = c.of.ReplaceAllString(text, c.name)
		}
		return text
	}
	got := play(w.Command("mcp").Path, "mcp")
	const file = "testdata/night.txt"
	if *update {
		w.Must(os.WriteFile(file, []byte(got), 0o600))
	}
	want, err := os.ReadFile(file)
	w.Must(err)
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("the transcript has changed: %s", diff)
	}

	console := w.Command("console", "--listen", "127.0.0.1:0")
	console.Env = w.env
	from, err := console.StdoutPipe()
	w.Must(err)
	w.Must(console.Start())
	t.Cleanup(func() { _ = console.Process.Kill(); _ = console.Wait() })
	line, err := bufio.NewReader(from).ReadString('\n')
	w.Must(err)
	at, key, _ := strings.Cut(strings.TrimSpace(line), "?key=")
	if diff := cmp.Diff(strings.Split(got, "\n"), strings.Split(play(at+"mcp", key), "\n")); diff != "" {
		t.Errorf("over HTTP it is another one: %s", diff)
	}
	w.unwritten()
}
