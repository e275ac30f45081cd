package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/lbremedy/lbremedy/test/shell"
)

const root = "../.."

// unpack returns the files of an archive of either kind, with the time of the first.
func unpack(t *testing.T, packed []byte) map[string]file {
	t.Helper()
	files := map[string]file{}
	if z, err := zip.NewReader(bytes.NewReader(packed), int64(len(packed))); err == nil {
		for _, f := range z.File {
			r, err := f.Open()
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(r)
			if err != nil || !f.Modified.Equal(oldest) {
				t.Fatalf("%s is of %s, %v", f.Name, f.Modified, err)
			}
			files[f.Name] = file{f.Name, f.Mode(), text}
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
		if err != nil || !h.ModTime.Equal(oldest) || h.Uname != "" || h.Uid != 0 {
			t.Fatalf("%s is %+v, %v", h.Name, h, err)
		}
		files[h.Name] = file{h.Name, h.FileInfo().Mode(), text}
	}
}

// The program of this platform twice has the same bytes, and what is with it is what people
// need: the program of that version, its completions, the licences of what is linked into
// it. krew is told the sum that it has. The whole release is tested in test/release.
func TestPrograms(t *testing.T) {
	shell.Sources(t)
	const version = "v0.0.1-test"
	here := platform{runtime.GOOS, runtime.GOARCH}
	archive := here.archive("lbremedy", version)
	var packed [2][]byte
	var manifest string
	for i := range packed {
		r := release{dir: root, out: t.TempDir(), version: version, platforms: []platform{here}}
		if err := r.programs(t.Context(), t.TempDir()); err != nil {
			t.Fatal(err)
		}
		var err error
		if packed[i], err = os.ReadFile(filepath.Join(r.out, archive)); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(r.out, "krew.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		manifest = string(text)
	}
	if !bytes.Equal(packed[0], packed[1]) {
		t.Error("the archive differs from one build to the next")
	}
	if sum := fmt.Sprintf("%x", sha256.Sum256(packed[0])); !strings.Contains(manifest, "sha256: "+sum+"\n") {
		t.Errorf("krew is told %s, and not %s", manifest, sum)
	}
	files := unpack(t, packed[0])
	program := filepath.Join(t.TempDir(), "kubectl-lbremedy")
	if err := os.WriteFile(program, files[here.program(operator)].text, 0o755); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{"version": version, "show --help": "kubectl lbremedy show CASE|NAMESPACE/SERVICE"} {
		said, err := exec.CommandContext(t.Context(), program, strings.Fields(args)...).CombinedOutput()
		if err != nil || !bytes.Contains(said, []byte(want)) {
			t.Errorf("%s says %s, %v; want %s", args, said, err, want)
		}
	}
	for name, want := range map[string]string{
		"LICENSE": "Apache License", licencesFile: "==== github.com/spf13/cobra v", "completions/lbremedy.bash": "__start_lbremedy",
		"completions/lbremedy.zsh": "#compdef lbremedy", "completions/lbremedy.fish": "complete -c lbremedy", "completions/lbremedy.powershell": "Register",
		"completions/kubectl_complete-lbremedy": `exec kubectl lbremedy __complete "$@"`,
	} {
		if !bytes.Contains(files[name].text, []byte(want)) {
			t.Errorf("%s lacks %q: %.200s", name, want, files[name].text)
		}
	}
	if mode := files[here.program(operator)].mode; mode != 0o755 {
		t.Errorf("the program's mode is %v", mode)
	}
}

// Archives are of the kind that is usual where they are unpacked, and the manifest has
// what krew asks for.
func TestArchives(t *testing.T) {
	t.Parallel()
	var all []download
	for _, p := range platforms {
		want := []file{{p.program(operator), 0o755, []byte("program")}, {"LICENSE", 0o644, []byte("licence")}}
		packed, err := p.pack(want)
		if err != nil {
			t.Fatal(err)
		}
		got := unpack(t, packed)
		if diff := cmp.Diff(map[string]file{want[0].name: want[0], want[1].name: want[1]}, got, cmp.AllowUnexported(file{})); diff != "" {
			t.Errorf("%v (-want +got):\n%s", p, diff)
		}
		all = append(all, download{p, p.archive("lbremedy", "v1.2.3"), fmt.Sprintf("%x", sha256.Sum256(packed))})
	}
	text, err := krew("v1.2.3", all)
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
	if manifest.Metadata.Name != "lbremedy" || spec.Version != "v1.2.3" || len(spec.ShortDescription) > 50 || len(spec.Platforms) != 6 {
		t.Errorf("the manifest is %+v", manifest)
	}
	for i, p := range spec.Platforms {
		if p.Selector.MatchLabels["os"] != all[i].OS || p.SHA256 != all[i].Sum || !strings.HasSuffix(p.URI, "/v1.2.3/"+all[i].Name) ||
			p.Bin != all[i].Program() || strings.HasSuffix(p.URI, ".zip") != (all[i].OS == "windows") {
			t.Errorf("the manifest has %+v, for %+v", p, all[i])
		}
	}
}

// Only a clean tree of the tag is a release.
func TestTagged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	git := func(args ...string) {
		t.Helper()
		named := []string{"-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false"}
		c := exec.CommandContext(t.Context(), "git", append(named, args...)...)
		c.Dir = dir
		if said, err := c.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, said)
		}
	}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "a"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	check := func(version, want string) {
		t.Helper()
		if err := tagged(t.Context(), dir, version); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", version, err, want)
		}
	}
	git("init", "-q")
	write("one")
	git("add", "a")
	git("commit", "-qm", "one")
	check("", "name one such as v0.1.0")
	check("1.0", "name one such as v0.1.0")
	check("v0.1.0", "this commit has no tag v0.1.0")
	git("tag", "v0.1.0")
	check("v0.1.0", "")
	check("v0.2.0", "this commit has no tag v0.2.0")
	write("two")
	check("v0.1.0", "the tree is v0.1.0-dirty: commit what has changed")
	write("one")
	check("v0.1.0", "")
	// A file that no commit has would be compiled as well.
	if err := os.WriteFile(filepath.Join(dir, "b.go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	check("v0.1.0", `the tree holds what its tag does not, such as "?? b.go"`)
}

// A release takes its notes from its section of the changelog, and is refused without one.
func TestNotes(t *testing.T) {
	t.Parallel()
	const log = "# Changelog\n\n## v0.2.0 - unreleased\n\n- New.\n\n## v0.1.0 - 2026-11-25\n\nThe first.\n\n- One\n  point.\n\n### 2026-11-24\n\n- Older.\n\n" +
		"## v0.0.1 - 2026-11-01\n"
	for version, want := range map[string]string{
		"v0.1.0": "The first.\n\n- One\n  point.\n",
		"v0.2.0": `the heading of v0.2.0 in CHANGELOG.md names no day, but " - unreleased"`,
		"v0.3.0": "CHANGELOG.md has no section v0.3.0", "v0.1": `names no day, but ".0 - 2026-11-25"`,
		"v0.0.1": "the section v0.0.1 of CHANGELOG.md is empty",
	} {
		got, err := notes(log, version)
		if err != nil {
			got = err.Error()
		}
		if (err == nil) != (version == "v0.1.0") || !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q", version, got, want)
		}
	}
}

// What is no earlier release is not replaced.
func TestReplaceable(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	for _, name := range []string{"", "SHA256SUMS"} {
		if name != "" {
			if err := os.WriteFile(filepath.Join(out, name), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := replaceable(out); err != nil {
			t.Errorf("with %q: %v", name, err)
		}
	}
	if err := replaceable(filepath.Join(out, "none")); err != nil {
		t.Error(err)
	}
	other := t.TempDir()
	if err := os.WriteFile(filepath.Join(other, "thesis.doc"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := replaceable(other); err == nil || !strings.Contains(err.Error(), "files that are no release") {
		t.Errorf("got %v", err)
	}
}

// The changelog of the tree has a section for the release to come, which lacks its day at most.
func TestChangelog(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(root, "CHANGELOG.md"))
	if err != nil {
		t.Fatal(err)
	}
	text = bytes.Replace(text, []byte(" - unreleased\n"), []byte(" - 2026-01-02\n"), 1)
	if said, err := notes(string(text), "v0.1.0"); err != nil || !strings.Contains(said, "\n- ") {
		t.Errorf("v0.1.0: %q, %v", said, err)
	}
}
