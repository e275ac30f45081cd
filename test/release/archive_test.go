package release

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

type file struct {
	mode fs.FileMode
	text string
}

// unpack returns the files of an archive of either kind. All have the time of the commit, and no owner of this machine.
func unpack(t *testing.T, packed []byte) map[string]file {
	t.Helper()
	commit := time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC)
	files := map[string]file{}
	if z, err := zip.NewReader(bytes.NewReader(packed), int64(len(packed))); err == nil {
		for _, f := range z.File {
			r, err := f.Open()
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(r)
			if err != nil || !f.Modified.Equal(commit) {
				t.Errorf("%s is of %s, %v", f.Name, f.Modified, err)
			}
			files[f.Name] = file{f.Mode(), string(text)}
		}
		return files
	}
	g, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(g); ; {
		h, err := r.Next()
		if err == io.EOF {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil || !h.ModTime.Equal(commit) || h.Uname != "root" || h.Gname != "root" || h.Uid != 0 || h.Gid != 0 {
			t.Errorf("%s is %+v, %v", h.Name, h, err)
		}
		files[h.Name] = file{h.FileInfo().Mode(), string(text)}
	}
}

// archive checks the archive of the program, with its completions and the licences of what is linked into it, and that of functions.
func archive(t *testing.T, packed, functions []byte) {
	files := unpack(t, packed)
	for name, want := range map[string]string{
		"LICENSE": "Apache License", "LICENSES-OF-LIBRARIES": "==== github.com/spf13/cobra v", "completions/lbremedy.bash": "__start_lbremedy",
		"completions/lbremedy.zsh": "#compdef lbremedy", "completions/lbremedy.fish": "complete -c lbremedy", "completions/lbremedy.powershell": "Register",
		"completions/kubectl_complete-lbremedy": `exec kubectl lbremedy __complete "$@"`, "lbremedy": "\x7fELF",
	} {
		if !strings.Contains(files[name].text, want) {
			t.Errorf("%s lacks %q: %.200s", name, want, files[name].text)
		}
	}
	if !strings.Contains(files["LICENSES-OF-LIBRARIES"].text, "==== github.com/inconshreveable/mousetrap v") {
		t.Error("the licences lack that of a library that only the program for Windows has")
	}
	zips := unpack(t, functions)
	if _, ok := zips["bin/fc/busy.zip"]; !ok || len(zips) != 3 || zips["bin/fc/SHA256SUMS"].text == "" || zips["LICENSES-OF-LIBRARIES"].text == "" {
		t.Errorf("the archive of functions holds %d files, with these sums: %s", len(zips), zips["bin/fc/SHA256SUMS"].text)
	}
}

// parts replaces infra/images/parts.sh. It fails if it can see the signers' passphrase.
const parts = `#!/bin/sh
set -eu
[ -z "${COSIGN_PASSWORD:-}" ] || { echo 'the password is there'; exit 1; }
mkdir -p bin/parts/images bin/parts/fc bin/parts/completions
for file in NOTES.md LICENSES-OF-LIBRARIES provenance.json lbremedy-0.1.0.tgz images/SHA256SUMS images/digests.yaml \
	fc/busy.zip completions/lbremedy.bash completions/kubectl_complete-lbremedy; do
	echo "$file" >"bin/parts/$file"
done
`

// empty replaces all programs by empty ones, which compile in seconds for all platforms.
func empty(t *testing.T, at string) {
	const program = "package main\n\nfunc main() {}\n"
	for name, text := range map[string]string{
		"functions/cmd/lbremedy/main.go": program, "events/cmd/exporter/main.go": program, "infra/images/parts.sh": parts,
	} {
		if err := os.WriteFile(filepath.Join(at, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// Archives have the usual kind of their platform and are the same in any time zone, and krew gets their checksums.
func TestPlatforms(t *testing.T) {
	var sums [2]string
	var out string
	for i, zone := range []string{"America/New_York", "Asia/Shanghai"} {
		at := tree(t, empty)
		must(t, at, []string{"VERSION=" + version, "TZ=" + zone, "COSIGN_PASSWORD=" + passphrase}, builder)
		out = filepath.Join(at, "bin/release")
		must(t, out, nil, "sha256sum", "--quiet", "--strict", "-c", "SHA256SUMS")
		text, err := os.ReadFile(filepath.Join(out, "SHA256SUMS"))
		if err != nil {
			t.Fatal(err)
		}
		sums[i] = string(text)
	}
	if d := cmp.Diff(sums[0], sums[1]); d != "" {
		t.Errorf("in another time zone the sums are others (-first +second):\n%s", d)
	}
	text, err := os.ReadFile(filepath.Join(out, "krew.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var manifest struct {
		APIVersion, Kind string
		Metadata         struct{ Name string }
		Spec             struct {
			Version, Homepage, ShortDescription, Description string
			Platforms                                        []struct {
				Selector         struct{ MatchLabels map[string]string }
				URI, SHA256, Bin string
			}
		}
	}
	if err := yaml.UnmarshalStrict(text, &manifest); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	spec := manifest.Spec
	if manifest.Metadata.Name != "lbremedy" || spec.Version != version || len(spec.ShortDescription) > 50 {
		t.Errorf("the manifest is %+v", manifest)
	}
	var on []string
	for _, p := range spec.Platforms {
		archive, program := "lbremedy_"+version+"_"+p.Selector.MatchLabels["os"]+"_"+p.Selector.MatchLabels["arch"]+".tar.gz", "lbremedy"
		on = append(on, p.Selector.MatchLabels["os"]+"/"+p.Selector.MatchLabels["arch"])
		if p.Selector.MatchLabels["os"] == "windows" {
			archive, program = strings.TrimSuffix(archive, ".tar.gz")+".zip", "lbremedy.exe"
		}
		packed, err := os.ReadFile(filepath.Join(out, archive))
		if err != nil {
			t.Fatal(err)
		}
		if p.SHA256 != fmt.Sprintf("%x", sha256.Sum256(packed)) || p.Bin != program ||
			p.URI != "https://github.com/lbremedy/lbremedy/releases/download/"+version+"/"+archive {
			t.Errorf("the manifest has %+v for %s", p, archive)
		}
		modes := map[string]fs.FileMode{}
		for name, f := range unpack(t, packed) {
			modes[name] = f.mode
		}
		if d := cmp.Diff(map[string]fs.FileMode{
			program: 0o755, "LICENSE": 0o644, "LICENSES-OF-LIBRARIES": 0o644, "completions/lbremedy.bash": 0o644, "completions/kubectl_complete-lbremedy": 0o755,
		}, modes); d != "" {
			t.Errorf("%s (-want +got):\n%s", archive, d)
		}
	}
	if d := cmp.Diff([]string{"windows/arm64", "windows/amd64", "linux/arm64", "linux/amd64", "darwin/arm64", "darwin/amd64"}, on); d != "" {
		t.Errorf("platforms (-want +got):\n%s", d)
	}
	packed, err := os.ReadFile(filepath.Join(out, "infra_"+version+".tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	files := unpack(t, packed)
	for name, f := range files {
		if script := strings.HasSuffix(name, ".sh"); (f.mode == 0o755) != script || strings.HasSuffix(name, ".go") || strings.Contains(name, "testdata") {
			t.Errorf("the pages of installation come with %s, whose mode is %v", name, f.mode)
		}
	}
	// All else in these folders goes with them, whatever kind of file it is.
	for _, name := range strings.Fields(must(t, root, nil, "git", "ls-files", "infra", "s.yaml", "LICENSE")) {
		if _, ok := files[name]; !ok && !strings.HasSuffix(name, ".go") && !strings.HasPrefix(name, "infra/gen/") && !strings.HasPrefix(name, "infra/images/") {
			t.Errorf("the pages of installation come without %s", name)
		}
	}
}

// A release takes its notes from its section of the changelog, and is refused without one.
func TestNotes(t *testing.T) {
	notes, err := filepath.Abs(filepath.Join(root, "infra/images/notes.sh"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	const log = "# Changelog\n\n## v0.2.0 - unreleased\n\n- New.\n\n## v0.1.0 - 2026-11-25\n\nThe first.\n\n- One\n  point.\n\n### 2026-11-24\n\n- Older.\n\n" +
		"## v0.0.1 - 2026-11-01\n\n"
	if err := os.WriteFile(filepath.Join(dir, "CHANGELOG.md"), []byte(log), 0o600); err != nil {
		t.Fatal(err)
	}
	for version, want := range map[string]string{
		"v0.1.0": "The first.\n\n- One\n  point.\n",
		"v0.2.0": `"## v0.2.0 - unreleased" in CHANGELOG.md names no day`,
		"v0.3.0": "CHANGELOG.md has no section v0.3.0", "v0.1": "CHANGELOG.md has no section v0.1",
		"v0.0.1": "the section v0.0.1 of CHANGELOG.md is empty",
	} {
		got, err := run(t, dir, nil, notes, version)
		if (err == nil) != (version == "v0.1.0") || !strings.Contains(got, want) || err == nil && got != want {
			t.Errorf("%s: got %q, want %q", version, got, want)
		}
	}
}
