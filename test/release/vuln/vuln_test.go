// Package vuln tests "make vuln" with the real govulncheck and small databases.
package vuln

import (
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestVuln: an unreachable database does not look like an empty one.
func TestVuln(t *testing.T) {
	work := t.TempDir()
	write := func(name string, content any) {
		t.Helper()
		text, ok := content.(string)
		if !ok {
			data, err := json.Marshal(content)
			if err != nil {
				t.Fatal(err)
			}
			text = string(data)
		}
		file := filepath.Join(work, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("good/go.mod", "module example.com/good\n\ngo 1.26.0\n")
	write("good/main.go", "package main\n\nimport \"os\"\n\nfunc main() { os.Getpid() }\n")
	write("broken/go.mod", "module example.com/broken\n\ngo 1.26.0\n")
	write("broken/main.go", "package main\n\nfunc main() { missing() }\n")

	type object = map[string]any
	const changed = "2026-01-02T03:04:05Z"
	database := func(name string, modules []object) {
		write(name+"/index/db.json", object{"modified": changed})
		write(name+"/index/modules.json", modules)
	}
	database("empty", []object{})
	database("one", []object{{"path": "stdlib", "vulns": []object{{"id": "GO-2026-0001", "modified": changed}}}})
	write("one/ID/GO-2026-0001.json", object{
		"schema_version": "1.3.1", "id": "GO-2026-0001", "modified": changed, "published": changed, "summary": "A process can be counted",
		"database_specific": object{"url": "https://pkg.go.dev/vuln/GO-2026-0001"}, // without it govulncheck panics, and may end with 0
		"affected": []object{{
			"package": object{"name": "stdlib", "ecosystem": "Go"}, "ranges": []object{{"type": "SEMVER", "events": []object{{"introduced": "0"}}}},
			"ecosystem_specific": object{"imports": []object{{"path": "os", "symbols": []string{"Getpid"}}}},
		}},
	})

	// Nobody listens on a port that was just closed.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	silent := "http://" + l.Addr().String()
	l.Close()

	for name, tt := range map[string]struct {
		db, module string
		code       int
		want       string
		never      string
	}{
		"nothing known":      {"file://" + filepath.Join(work, "empty"), "good", 0, "No vulnerabilities found.", "NOT LOOKED"},
		"a known one":        {"file://" + filepath.Join(work, "one"), "good", 1, "GO-2026-0001", "could not be looked at"},
		"nobody answers":     {silent, "good", 75, "NOT LOOKED", "No vulnerabilities found."},
		"not there":          {"file://" + filepath.Join(work, "none"), "good", 75, "NOT LOOKED", "No vulnerabilities found."},
		"does not compile":   {"file://" + filepath.Join(work, "empty"), "broken", 1, "could not be looked at", "No vulnerabilities found."},
		"is no module's dir": {"file://" + filepath.Join(work, "empty"), "missing", 1, "could not be looked at", "No vulnerabilities found."},
	} {
		t.Run(name, func(t *testing.T) {
			c := exec.CommandContext(t.Context(), "../../../.ci/vuln", filepath.Join(work, tt.module))
			c.Env = append(os.Environ(), "VULNDB="+tt.db)
			out, err := c.CombinedOutput()
			code := 0
			if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
				code = exit.ExitCode()
			} else if err != nil {
				t.Fatal(err)
			}
			if code != tt.code || !strings.Contains(string(out), tt.want) || strings.Contains(string(out), tt.never) {
				t.Errorf("it ends with %d and says %s; want %d and %q, and never %q", code, out, tt.code, tt.want, tt.never)
			}
		})
	}
}
