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

// A release twice has the same bytes, and what is in it is what people need: the program of
// that version, its completions, the licences of what is linked into it. Its sums are true,
// and krew is told the same.
func TestRelease(t *testing.T) {
	shell.Sources(t)
	const version = "v0.0.1-test"
	here := platform{runtime.GOOS, runtime.GOARCH}
	var folders [2]string
	for i := range folders {
		folders[i] = t.TempDir()
		if err := release(t.Context(), root, folders[i], version, []platform{here}); err != nil {
			t.Fatal(err)
		}
	}
	read := func(folder, name string) []byte {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	archive := here.archive(version)
	for _, name := range []string{archive, "krew.yaml", "SHA256SUMS"} {
		if !bytes.Equal(read(folders[0], name), read(folders[1], name)) {
			t.Errorf("%s differs from one build to the next", name)
		}
	}
	packed := read(folders[0], archive)
	sum := fmt.Sprintf("%x", sha256.Sum256(packed))
	if sums := string(read(folders[0], "SHA256SUMS")); !strings.HasPrefix(sums, sum+"  "+archive+"\n") || !strings.HasSuffix(sums, "  krew.yaml\n") {
		t.Errorf("SHA256SUMS says %s", sums)
	}
	files := unpack(t, packed)
	program := filepath.Join(t.TempDir(), "kubectl-lbremedy")
	if err := os.WriteFile(program, files[here.program()].text, 0o755); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{"version": version, "show --help": "kubectl lbremedy show CASE|NAMESPACE/SERVICE"} {
		said, err := exec.CommandContext(t.Context(), program, strings.Fields(args)...).CombinedOutput()
		if err != nil || !bytes.Contains(said, []byte(want)) {
			t.Errorf("%s says %s, %v; want %s", args, said, err, want)
		}
	}
	for name, want := range map[string]string{
		"LICENSE": "Apache License", "LICENSES-OF-LIBRARIES": "==== github.com/spf13/cobra v", "completions/lbremedy.bash": "__start_lbremedy",
		"completions/lbremedy.zsh": "#compdef lbremedy", "completions/lbremedy.fish": "complete -c lbremedy", "completions/lbremedy.powershell": "Register",
		"completions/kubectl_complete-lbremedy": `exec kubectl lbremedy __complete "$@"`,
	} {
		if !bytes.Contains(files[name].text, []byte(want)) {
			t.Errorf("%s lacks %q: %.200s", name, want, files[name].text)
		}
	}
	if mode := files[here.program()].mode; mode != 0o755 {
		t.Errorf("the program's mode is %v", mode)
	}
}

// Archives are of the kind that is usual where they are unpacked, and the manifest has
// what krew asks for.
func TestArchives(t *testing.T) {
	t.Parallel()
	var all []download
	for _, p := range platforms {
		want := []file{{p.program(), 0o755, []byte("program")}, {"LICENSE", 0o644, []byte("licence")}}
		packed, err := p.pack(want)
		if err != nil {
			t.Fatal(err)
		}
		got := unpack(t, packed)
		if diff := cmp.Diff(map[string]file{want[0].name: want[0], want[1].name: want[1]}, got, cmp.AllowUnexported(file{})); diff != "" {
			t.Errorf("%v (-want +got):\n%s", p, diff)
		}
		all = append(all, download{p, p.archive("v1.2.3"), fmt.Sprintf("%x", sha256.Sum256(packed))})
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
			p.Bin != all[i].program() || strings.HasSuffix(p.URI, ".zip") != (all[i].OS == "windows") {
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
}
