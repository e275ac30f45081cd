package manifest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
)

// Each file of testdata has a first line, a patch, a manifest before and the manifest or the error after it.
func TestPatch(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, name := range files {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			part := map[string]string{}
			for _, f := range txtar.Parse(data).Files {
				part[f.Name] = string(f.Data)
			}
			got, err := Patch([]byte(part["before"]), "shop", "web", []byte(part["patch"]))
			if want, fails := part["error"]; fails {
				if err == nil || !strings.Contains(err.Error(), strings.TrimSpace(want)) {
					t.Fatalf("got %v and\n%s\nwant %s", err, got, want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(part["after"], string(got)); diff != "" {
				t.Error(diff)
			}
			again, err := Patch(got, "shop", "web", []byte(part["patch"]))
			if err != nil || string(again) != string(got) {
				t.Errorf("the second time it changes more: %v\n%s", err, again)
			}
			// The same with the line ends of Windows.
			crlf := strings.ReplaceAll(part["before"], "\n", "\r\n")
			got, err = Patch([]byte(crlf), "shop", "web", []byte(part["patch"]))
			if err != nil || string(got) != strings.ReplaceAll(part["after"], "\n", "\r\n") {
				t.Errorf("with CRLF: %v\n%q", err, got)
			}
		})
	}
}
