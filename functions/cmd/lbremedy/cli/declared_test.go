package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/event"
)

const declaration = `
class: x-owner-missing
doc: "# The Service names no owner"
texts: [admission webhook "owners.example.com" denied the request]
steps: [annotate]
annotations: [example.com/owner]
formats: ["The annotation %s is missing."]
`

// folder returns a folder with a file for each text, and what a mounted ConfigMap has beside its keys.
func folder(t *testing.T, texts ...string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "..2026_11_30"), 0o755); err != nil {
		t.Fatal(err)
	}
	for i, text := range texts {
		if err := os.WriteFile(filepath.Join(dir, string(rune('a'+i))), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestReadDeclarations reads a folder of declarations; its classes are recognised by their texts.
func TestReadDeclarations(t *testing.T) {
	all, err := cli.ReadDeclarations(folder(t, declaration, strings.NewReplacer("owner", "tenant").Replace(declaration)))
	if err != nil || len(all) != 2 || all[0].Class != "x-owner-missing" {
		t.Fatalf("%v, %v", all, err)
	}
	p := &cli.Program{Declared: all}
	const refused = `Error syncing load balancer: admission webhook "%s.example.com" denied the request: no`
	for name, class := range map[string]string{"owners": "x-owner-missing", "tenants": "x-tenant-missing", "others": event.Unclassified} {
		m := p.Classifier().Classify(event.Input{Reason: "SyncLoadBalancerFailed", Message: strings.ReplaceAll(refused, "%s", name)})
		if m.Class != class && !(class == event.Unclassified && !strings.HasPrefix(m.Class, "x-")) {
			t.Errorf("%s: %s", name, m.Class)
		}
	}
	if r, err := p.ClassOf("x-tenant-missing"); err != nil || r.Class != "x-tenant-missing" {
		t.Error(err)
	}
}

// TestBuiltIn checks that a declaration of a built-in class, whose function is in another language, can be read, and is not declared again.
func TestBuiltIn(t *testing.T) {
	text := []byte(strings.Replace(declaration, "x-owner-missing", "busy", 1))
	if r, err := cli.ParseDeclaration(text); err != nil || r.Class != "busy" {
		t.Error(err)
	}
	if _, err := cli.ParseDeclared(text); err == nil {
		t.Error("it is declared again")
	}
}

// TestBadDeclarations checks that a declaration that would reach beyond its own class is refused.
func TestBadDeclarations(t *testing.T) {
	const text = `admission webhook "owners.example.com" denied the request`
	with := func(old, now string) string {
		text := strings.Replace(declaration, old, now, 1)
		if text == declaration {
			t.Fatalf("%q is not in the declaration", old)
		}
		return text
	}
	for name, tt := range map[string]struct {
		texts []string
		want  string
	}{
		"nothing":                 {nil, "holds no declaration"},
		"no YAML":                 {[]string{"{"}, "yaml"},
		"a field that is unknown": {[]string{declaration + "grants: [patch nodes]\n"}, `unknown field "grants"`},
		"a field twice":           {[]string{declaration + "steps: [touch]\n"}, "already set"},
		"a built-in class":        {[]string{with("x-owner-missing", "busy")}, "must begin with x-"},
		"an impossible class":     {[]string{with("x-owner-missing", "x-Owner")}, "lower-case"},
		"a long class":            {[]string{with("x-owner-missing", "x-"+strings.Repeat("a", 47))}, "at most 48"},
		"a class twice":           {[]string{declaration, declaration}, "another file declares"},
		"a text twice":            {[]string{declaration, with("x-owner-missing", "x-other")}, "belongs to two classes"},
		"a built-in text":         {[]string{with(text, "rejected by risk control")}, "belongs to two classes"},
		"a built-in code":         {[]string{declaration + "codes: [OrderFailed]\n"}, "belongs to two classes"},
		"an empty text":           {[]string{with(text, `" "`)}, "empty text"},
		"no text":                 {[]string{with(text, "")}, "no texts and no codes"},
		"an unknown step":         {[]string{with("[annotate]", "[delete]")}, "does not exist"},
		"a write as a read":       {[]string{declaration + "reads: [delete services]\n"}, "as a read"},
		"an action as a read":     {[]string{declaration + "reads: ['slb:DeleteLoadBalancer']\n"}, "as a read"},
		"a read of secrets":       {[]string{declaration + "reads: [get secrets]\n"}, "as a read"},
		"no read":                 {[]string{declaration + "reads: [all]\n"}, "neither a RAM action nor a verb"},
		"our own annotation":      {[]string{with("example.com/owner", "lbremedy.io/pause")}, "lbremedy's own"},
		"no sentences":            {[]string{with(`["The annotation %s is missing."]`, "[]")}, "it cannot report a finding"},
		"too long":                {[]string{declaration + "#" + strings.Repeat("a", 64<<10)}, "64 KiB"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := cli.ReadDeclarations(folder(t, tt.texts...)); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}
