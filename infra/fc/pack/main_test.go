package main

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lbremedy/lbremedy/functions"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/test/shell"
)

const root = "../../.."

func TestPack(t *testing.T) {
	program := bytes.Repeat([]byte("a program "), 1000)
	first, err := pack(program)
	if err != nil {
		t.Fatal(err)
	}
	second, err := pack(program)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first, second) {
		t.Error("the same program makes two zips")
	}
	z, err := zip.NewReader(bytes.NewReader(first), int64(len(first)))
	if err != nil {
		t.Fatal(err)
	}
	if len(z.File) != 1 || z.File[0].Name != "bootstrap" || z.File[0].Mode() != 0o755 || !z.File[0].Modified.Equal(oldest) {
		t.Fatalf("got %+v, want one executable file bootstrap without a time", z.File[0].FileHeader)
	}
	r, err := z.File[0].Open()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, program) {
		t.Errorf("the zip holds %d bytes, %v; want the program", len(got), err)
	}
}

func sums(t *testing.T, class string, changed map[string]string) string {
	t.Helper()
	shell.Sources(t)
	one, err := choose(names(functions.All), class)
	if err != nil {
		t.Fatal(err)
	}
	replace := map[string]string{}
	for name, text := range changed {
		abs, err := filepath.Abs(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		replace[abs] = filepath.Join(t.TempDir(), filepath.Base(name))
		if err := os.WriteFile(replace[abs], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	overlay := filepath.Join(t.TempDir(), "overlay.json")
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(overlay, text, 0o600); err != nil {
		t.Fatal(err)
	}
	into := t.TempDir()
	if err := build(t.Context(), root, into, one, "-overlay", overlay); err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(filepath.Join(into, strings.ReplaceAll(class, "-", "")))
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", program)
}

func TestUnchanged(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "functions/busy/busy.go"))
	if err != nil {
		t.Fatal(err)
	}
	other := map[string]string{"functions/busy/busy.go": string(page) +
		"\n// Changed.\nvar changed = doc + doc\n\n// Changed returns it.\nfunc Changed() string { return changed }\n"}
	before := sums(t, "public-lb-forbidden", nil)
	if sums(t, "public-lb-forbidden", other) != before {
		t.Error("a class has another digest because another class changed")
	}
	if sums(t, "busy", other) == sums(t, "busy", nil) {
		t.Error("a class that changed has the same digest")
	}
}

func TestRun(t *testing.T) {
	out := t.TempDir()
	stale := filepath.Join(out, "gone.zip")
	if err := os.WriteFile(stale, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var first, second bytes.Buffer
	if err := run(t.Context(), root, out, "busy", &first); err != nil {
		t.Fatal(err)
	}
	one, err := os.ReadFile(filepath.Join(out, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	const other = "00  arrearage.zip\n"
	if err := os.WriteFile(filepath.Join(out, "SHA256SUMS"), []byte("11  busy.zip\n"+other), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run(t.Context(), root, out, "busy,busy", &second); err != nil {
		t.Fatal(err)
	}
	two, err := os.ReadFile(filepath.Join(out, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(other+string(one), string(two)); d != "" {
		t.Errorf("two builds (-first +second):\n%s", d)
	}
	if got := strings.Fields(string(one)); len(got) != 2 || len(got[0]) != 64 || got[1] != "busy.zip" {
		t.Errorf("SHA256SUMS is %q", one)
	}
	if !strings.HasPrefix(first.String(), "busy ") || !strings.Contains(first.String(), "zipped") {
		t.Errorf("it says %q", first.String())
	}
	if _, err := os.Stat(stale); !os.IsNotExist(err) {
		t.Errorf("the zip of a class that is gone: %v", err)
	}
	if _, err := os.Stat(filepath.Join(out, "busy.zip")); err != nil {
		t.Error(err)
	}
}

func TestChoose(t *testing.T) {
	all := names([]*remedy.Remedy{{Class: "zone"}, {Class: "busy"}})
	for only, want := range map[string]string{
		"": "busy zone", "zone": "zone", "zone,busy,zone": "busy zone",
	} {
		got, err := choose(all, only)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("choose %q: got %v, want %s", only, got, want)
		}
	}
	if _, err := choose(all, "no-such"); err == nil || !strings.Contains(err.Error(), "no-such") {
		t.Errorf("got %v for an unknown class", err)
	}
}
