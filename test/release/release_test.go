// Package release installs a release like a user: cosign verifies it, Helm pulls and renders the chart, krew checks its manifest
// and installs the plugin. These are the real programs from their modules; a registry runs in this process. It is a separate
// module, which keeps them out of lbremedy's dependencies.
package release

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"sigs.k8s.io/yaml"
)

const (
	root       = "../.."
	version    = "v0.1.0"
	passphrase = "correct horse battery"
)

func run(t *testing.T, dir string, env []string, name string, args ...string) (string, error) {
	t.Helper()
	c := exec.CommandContext(t.Context(), name, args...)
	c.Dir, c.Env = dir, append(os.Environ(), env...)
	out, err := c.CombinedOutput()
	return string(out), err
}

func must(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	out, err := run(t, dir, env, name, args...)
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return out
}

// tree returns a copy of this tree, with changes, committed under the tag of the version.
func tree(t *testing.T, changes ...func(t *testing.T, at string)) string {
	t.Helper()
	to := t.TempDir()
	for _, file := range strings.Split(must(t, root, nil, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"), "\x00") {
		at := filepath.Join(root, filepath.FromSlash(file))
		info, err := os.Stat(at)
		if err != nil || info.IsDir() {
			continue // removed but not committed, or the end of the list
		}
		text, err := os.ReadFile(at)
		if err != nil {
			t.Fatal(err)
		}
		copied := filepath.Join(to, filepath.FromSlash(file))
		if err := os.MkdirAll(filepath.Dir(copied), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(copied, text, info.Mode()); err != nil {
			t.Fatal(err)
		}
	}
	// Until a version is released, its heading in the changelog has no day.
	replace(t, filepath.Join(to, "CHANGELOG.md"), "## "+version+" - unreleased\n", "## "+version+" - 2026-11-28\n")
	for _, change := range changes {
		change(t, to)
	}
	as := []string{"-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false"}
	at := []string{"GIT_AUTHOR_DATE=2026-11-28T00:00:00Z", "GIT_COMMITTER_DATE=2026-11-28T00:00:00Z"} // the same commit each time
	for _, args := range [][]string{{"init", "-q"}, {"add", "-A"}, append(as, "commit", "-qm", "one"), {"tag", version},
		{"remote", "add", "origin", "https://github.com/lbremedy/lbremedy"}} {
		must(t, to, at, "git", args...)
	}
	return to
}

func replace(t *testing.T, file, old, by string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(file, bytes.ReplaceAll(text, []byte(old), []byte(by)), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func here(t *testing.T, at string) {
	file := filepath.Join(at, ".goreleaser.yaml")
	replace(t, file, "goos: [darwin, linux, windows]", "goos: [linux]")
	replace(t, file, "goarch: [amd64, arm64]", "goarch: ["+runtime.GOARCH+"]")
}

var small = []string{"VERSION=" + version, "PROGRAMS=busy,lbremedy", "ARCH=" + runtime.GOARCH}

const builder = "infra/images/release.sh"

func tool(t *testing.T, name string) string {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(must(t, root+"/infra/images", nil, "go", "tool", "-n", name)), "\n")
	return lines[len(lines)-1] // go may print downloads before
}

func newKey(t *testing.T) (private, public string) {
	t.Helper()
	dir := t.TempDir()
	must(t, dir, []string{"COSIGN_PASSWORD=" + passphrase}, tool(t, "cosign"), "generate-key-pair")
	return filepath.Join(dir, "cosign.key"), filepath.Join(dir, "cosign.pub")
}

func cosign(t *testing.T, command, public string, args ...string) (string, error) {
	t.Helper()
	return run(t, ".", []string{"HOME=" + t.TempDir()}, tool(t, "cosign"), append([]string{command, "--key", public, "--insecure-ignore-tlog=true"}, args...)...)
}

func TestRelease(t *testing.T) {
	at := tree(t, here)
	if out, err := run(t, at, []string{"VERSION=v0.2.0"}, builder); err == nil || !strings.Contains(out, "git tag v0.2.0 was not made against commit") {
		t.Errorf("another version: %v\n%s", err, out)
	}
	must(t, at, small, builder)
	out := filepath.Join(at, "bin/release")
	read := func(file string) []byte {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(out, file))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	must(t, out, nil, "sha256sum", "--quiet", "--strict", "-c", "SHA256SUMS")
	machine := "_" + version + "_linux_" + runtime.GOARCH + ".tar.gz"
	for _, file := range []string{
		"lbremedy" + machine, "exporter" + machine, "functions_" + version + ".tar.gz", "infra_" + version + ".tar.gz", "lbremedy-0.1.0.tgz",
		"approvals.yaml", "alerts.yaml", "dashboard.json", "s.yaml", "krew.yaml", "NOTES.md", "LICENSES-OF-LIBRARIES", "provenance.json",
		"images/digests.yaml", "images/oci/busy/index.json", "images/sbom/busy/busy-linux-" + runtime.GOARCH + ".spdx.json",
	} {
		if !bytes.Contains(read("SHA256SUMS"), []byte("  "+file+"\n")) {
			t.Errorf("SHA256SUMS does not name %s", file)
		}
	}
	commit := strings.TrimSpace(must(t, at, nil, "git", "rev-parse", "HEAD"))
	if !bytes.Contains(read("provenance.json"), []byte(`"gitCommit": "`+commit+`"`)) {
		t.Error("provenance.json does not name the commit")
	}
	t.Run("again", func(t *testing.T) {
		other := tree(t, here)
		must(t, other, append([]string{"TZ=Asia/Shanghai", "TMPDIR=" + t.TempDir()}, small...), builder)
		again, err := os.ReadFile(filepath.Join(other, "bin/release/SHA256SUMS"))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(string(read("SHA256SUMS")), string(again)); d != "" {
			t.Errorf("in another folder, time zone and folder for temporary files the same commit has other sums (-first +second):\n%s", d)
		}
	})

	srv := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0)), registry.WithReferrersSupport(true)))
	defer srv.Close()
	repo := strings.TrimPrefix(srv.URL, "http://") + "/acme"
	push(t, at, repo)
	private, public := newKey(t)
	_, other := newKey(t)
	sign(t, at, repo, private)

	t.Run("cosign", func(t *testing.T) {
		sums, bundle := filepath.Join(out, "SHA256SUMS"), filepath.Join(out, "SHA256SUMS.bundle")
		if said, err := cosign(t, "verify-blob", filepath.Join(out, "cosign.pub"), "--bundle", bundle, sums); err != nil {
			t.Errorf("SHA256SUMS: %v\n%s", err, said)
		}
		if said, err := cosign(t, "verify-blob", other, "--bundle", bundle, sums); err == nil {
			t.Errorf("SHA256SUMS is verified with another key: %s", said)
		}
		changed := filepath.Join(t.TempDir(), "SHA256SUMS")
		if err := os.WriteFile(changed, append(read("SHA256SUMS"), 'x'), 0o600); err != nil {
			t.Fatal(err)
		}
		if said, err := cosign(t, "verify-blob", public, "--bundle", bundle, changed); err == nil {
			t.Errorf("a SHA256SUMS with one byte more is verified: %s", said)
		}
		for _, what := range []string{"lbremedy:" + version, "busy:" + version, "charts/lbremedy:0.1.0"} {
			if said, err := cosign(t, "verify", public, repo+"/"+what); err != nil {
				t.Errorf("%s: %v\n%s", what, err, said)
			}
			if said, err := cosign(t, "verify", other, repo+"/"+what); err == nil {
				t.Errorf("%s is verified with another key: %s", what, said)
			}
			if got := attested(t, public, "slsaprovenance1", repo+"/"+what); !strings.Contains(got, `"gitCommit":"`+commit+`"`) {
				t.Errorf("%s is from %s, want %s", what, got, commit)
			}
			if said, err := cosign(t, "verify-attestation", other, "--type", "slsaprovenance1", repo+"/"+what); err == nil {
				t.Errorf("where %s is from is verified with another key: %s", what, said)
			}
		}
		if got := attested(t, public, "spdxjson", repo+"/busy:"+version); !strings.Contains(got, `"SPDX-2.3"`) || !strings.Contains(got, "k8s.io/client-go") {
			t.Errorf("the SBOM of busy is %.300s", got)
		}
		forged(t, repo, public)
	})
	t.Run("helm", func(t *testing.T) { helm(t, repo, string(read("images/digests.yaml")), read("lbremedy-0.1.0.tgz")) })
	t.Run("krew", func(t *testing.T) { krew(t, out, "lbremedy"+machine) })
	t.Run("archive", func(t *testing.T) { archive(t, read("lbremedy"+machine), read("functions_"+version+".tar.gz")) })
	must(t, at, nil, "git", "tag", "v0.9.0")
	if out, err := run(t, at, []string{"VERSION=v0.9.0"}, builder); err == nil || !strings.Contains(out, "CHANGELOG.md has no section v0.9.0") {
		t.Errorf("a version without notes: %v\n%s", err, out)
	}
	// Only a clean tree of the tag is a release.
	for name, want := range map[string]string{"infra/cluster/Chart.yaml": " M infra/cluster/Chart.yaml", "b.go": "?? b.go"} {
		t.Run("dirty", func(t *testing.T) {
			file := filepath.Join(at, name)
			was, _ := os.ReadFile(file)
			if err := os.WriteFile(file, []byte("name: other\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			if out, err := run(t, at, small, builder); err == nil || !strings.Contains(out, "git is in a dirty state") || !strings.Contains(out, want) {
				t.Errorf("a changed tree: %v\n%s", err, out)
			}
			err := os.Remove(file)
			if was != nil {
				err = os.WriteFile(file, was, 0o644)
			}
			if err != nil {
				t.Fatal(err)
			}
		})
	}
}

func push(t *testing.T, at, repo string) {
	t.Helper()
	for _, step := range []struct {
		args []string
		want string
	}{
		{nil, "2 of 2 images would be pushed to " + repo + " as v0.1.0; APPLY=1 pushes them.\nThe chart would be pushed"},
		{nil, "new: the registry has no such digest"},
		{[]string{"APPLY=1"}, "Pushed 2 of 2 images to " + repo + " as v0.1.0.\nPushed the chart to " + repo + "/charts/lbremedy:0.1.0.\n"},
		{[]string{"APPLY=1"}, "All 2 images are in " + repo + " as v0.1.0.\nThe chart is in " + repo + "/charts/lbremedy:0.1.0.\n"},
	} {
		if said := must(t, at, nil, "make", append([]string{"push-release", "REGISTRY=" + repo}, step.args...)...); !strings.Contains(said, step.want) {
			t.Errorf("it says %s, want %s", said, step.want)
		}
	}
	images := filepath.Join(at, "infra/images/push.sh")
	in := []string{"REGISTRY=" + repo, "IN=bin/release/images", "TAG=next"}
	if said := must(t, at, in, images); !strings.Contains(said, "known: the tag is set\n") {
		t.Errorf("with another tag it says %s", said)
	}
	// An unreachable registry must not look like an empty one.
	broken := httptest.NewServer(nil)
	nowhere := strings.TrimPrefix(broken.URL, "http://")
	broken.Close()
	for want, env := range map[string][]string{
		"ask the registry for " + nowhere: {"REGISTRY=" + nowhere + "/acme", "IN=bin/release/images", "APPLY=1"},
		"name the registry":               {"REGISTRY=", "IN=bin/release/images"},
		"no images are built":             {"REGISTRY=" + repo, "IN=bin/none"},
	} {
		if said, err := run(t, at, env, images); err == nil || !strings.Contains(said, want) {
			t.Errorf("%v: %v\n%s\nwant %s", env, err, said, want)
		}
	}
}

func sign(t *testing.T, at, repo, private string) {
	t.Helper()
	signed := func(env ...string) (string, error) {
		return run(t, at, append([]string{"COSIGN_KEY=", "COSIGN_PRIVATE_KEY=", "COSIGN_PASSWORD=" + passphrase, "HOME=" + t.TempDir(),
			"GOMODCACHE=" + goEnv(t, "GOMODCACHE"), "GOCACHE=" + goEnv(t, "GOCACHE")}, env...), "make", "sign-release", "REGISTRY="+repo)
	}
	text, err := os.ReadFile(private)
	if err != nil {
		t.Fatal(err)
	}
	for want, env := range map[string][]string{
		"names a key":           nil,
		"both name a key":       {"COSIGN_KEY=" + private, "COSIGN_PRIVATE_KEY=" + string(text)},
		"no such file":          {"COSIGN_KEY=" + private + "x"},
		"reading key: decrypt:": {"COSIGN_KEY=" + private, "COSIGN_PASSWORD=wrong"},
	} {
		if said, err := signed(env...); err == nil || !strings.Contains(said, want) || strings.Contains(said, passphrase) || strings.Contains(said, "PRIVATE KEY-") {
			t.Errorf("%v\n%s\nwant %s", err, said, want)
		}
	}
	for _, name := range []string{"NOTES.md", "images/digests.yaml", "extra"} {
		file := filepath.Join(at, "bin/release", name)
		was, _ := os.ReadFile(file)
		if err := os.WriteFile(file, append(was, 'x'), 0o644); err != nil {
			t.Fatal(err)
		}
		if said, err := signed("COSIGN_KEY=" + private); err == nil || !strings.Contains(said, "are not what its SHA256SUMS says") {
			t.Errorf("%s has changed: %v\n%s", name, err, said)
		}
		if was == nil {
			err = os.Remove(file)
		} else {
			err = os.WriteFile(file, was, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, env := range []string{"COSIGN_PRIVATE_KEY=" + string(text), "COSIGN_KEY=" + private} {
		said, err := signed(env)
		if err != nil || strings.Contains(said, passphrase) || !strings.Contains(said, "Signed SHA256SUMS, and 3 images and charts.") {
			t.Errorf("%v\n%s", err, said)
		}
	}
}

func goEnv(t *testing.T, name string) string {
	t.Helper()
	return strings.TrimSpace(must(t, ".", nil, "go", "env", name))
}

func attested(t *testing.T, public, kind, ref string) string {
	t.Helper()
	out, err := cosign(t, "verify-attestation", public, "--type", kind, ref)
	payload := regexp.MustCompile(`"payload":"([^"]*)"`).FindStringSubmatch(out)
	if err != nil || payload == nil {
		t.Fatalf("%s of %s: %v\n%s", kind, ref, err, out)
	}
	text, err := base64.StdEncoding.DecodeString(payload[1])
	if err != nil {
		t.Fatal(err)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, text); err != nil {
		t.Fatal(err)
	}
	return compact.String()
}

// forged checks that another image is not verified: neither one without a signature nor one with a copy of our attestation.
func forged(t *testing.T, repo, public string) {
	t.Helper()
	ref, err := name.ParseReference(repo + "/busy:" + version)
	if err != nil {
		t.Fatal(err)
	}
	ours, err := remote.Get(ref)
	if err != nil {
		t.Fatal(err)
	}
	other, err := name.ParseReference(repo + "/lbremedy:" + version)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := remote.Image(other)
	if err != nil {
		t.Fatal(err)
	}
	bad := ref.Context().Tag("bad")
	if err := remote.Write(bad, theirs); err != nil {
		t.Fatal(err)
	}
	if said, err := cosign(t, "verify", public, bad.String()); err == nil {
		t.Errorf("an image without a signature is verified: %s", said)
	}
	digest, err := theirs.Digest()
	if err != nil {
		t.Fatal(err)
	}
	list, err := remote.Referrers(ref.Context().Digest(ours.Digest.String()))
	if err != nil {
		t.Fatal(err)
	}
	m, err := list.IndexManifest()
	if err != nil || len(m.Manifests) == 0 {
		t.Fatalf("nothing is said of busy: %v, %v", m, err)
	}
	for _, d := range m.Manifests {
		about, err := remote.Get(ref.Context().Digest(d.Digest.String()))
		if err != nil {
			t.Fatal(err)
		}
		text := manifest(bytes.ReplaceAll(about.Manifest, []byte(ours.Digest.Hex), []byte(digest.Hex)))
		copied, _, err := v1.SHA256(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := remote.Put(ref.Context().Digest(copied.String()), text); err != nil {
			t.Fatal(err)
		}
	}
	if list, err = remote.Referrers(ref.Context().Digest(digest.String())); err != nil {
		t.Fatal(err)
	}
	if got, err := list.IndexManifest(); err != nil || len(got.Manifests) != len(m.Manifests) {
		t.Fatalf("what is said of busy was not copied: %v, %v", got, err)
	}
	if said, err := cosign(t, "verify", public, bad.String()); err == nil {
		t.Errorf("an image is verified by the signature of another: %s", said)
	}
}

type manifest []byte

func (m manifest) RawManifest() ([]byte, error)        { return m, nil }
func (m manifest) MediaType() (types.MediaType, error) { return types.OCIManifestSchema1, nil }

var imageLine = regexp.MustCompile(`(?m)^\s*(?:- )?image: (.+)$`)

// helm pulls the chart like "helm install oci://…", and renders it: its images are those of the release, by digest.
func helm(t *testing.T, repo, digests string, packed []byte) {
	to, program := t.TempDir(), tool(t, "helm")
	must(t, to, nil, program, "pull", "oci://"+repo+"/charts/lbremedy", "--version", "0.1.0", "--plain-http")
	file := filepath.Join(to, "lbremedy-0.1.0.tgz")
	if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, packed) {
		t.Errorf("Helm pulled a chart that is not that of the release, %v", err)
	}
	var c struct {
		Name, Version, AppVersion string
		Annotations               map[string]string
	}
	if err := yaml.Unmarshal([]byte(must(t, to, nil, program, "show", "chart", file)), &c); err != nil {
		t.Fatal(err)
	}
	if c.Name != "lbremedy" || c.Version != "0.1.0" || c.AppVersion != version {
		t.Errorf("Chart.yaml is %+v", c)
	}
	named := map[string]bool{}
	for _, m := range imageLine.FindAllStringSubmatch(must(t, to, nil, program, "template", "lbremedy", file, "--namespace", "lbremedy",
		"--set", "cluster=c1,region=cn-hangzhou,image.registry="+repo+",doctor.enabled=true"), -1) {
		named[m[1]] = true
	}
	digest := regexp.MustCompile(`(?m)^    (busy|lbremedy): (sha256:[0-9a-f]{64})$`).FindAllStringSubmatch(digests, -1)
	if len(digest) != 2 {
		t.Fatalf("digests.yaml is %s", digests)
	}
	if d := cmp.Diff(map[string]bool{repo + "/lbremedy@" + digest[1][2]: true}, named); d != "" {
		t.Errorf("images (-want +got):\n%s", d)
	}
	hub(t, c.Annotations, []string{"busy ghcr.io/lbremedy/busy@" + digest[0][2], "lbremedy ghcr.io/lbremedy/lbremedy@" + digest[1][2]})
	if page := must(t, to, nil, program, "show", "readme", file); strings.Contains(page, "](..") ||
		!strings.Contains(page, "](https://github.com/lbremedy/lbremedy/blob/v0.1.0/infra/README.md#on-a-node)") {
		t.Error("the page of the chart leads to what is not in it")
	}
	if said := must(t, to, nil, "tar", "-tzf", file); !strings.Contains(said, "lbremedy/LICENSE\n") {
		t.Errorf("the chart lacks its licence: %s", said)
	}
}

// hub checks annotations against Artifact Hub's documentation (https://artifacthub.io/docs/topics/annotations/helm).
func hub(t *testing.T, said map[string]string, images []string) {
	t.Helper()
	read := func(key string, into any) {
		t.Helper()
		if err := yaml.UnmarshalStrict([]byte(said["artifacthub.io/"+key]), into); err != nil || said["artifacthub.io/"+key] == "" {
			t.Errorf("%s: %v: %s", key, err, said["artifacthub.io/"+key])
		}
	}
	var changes []string
	var crds []struct{ Kind, Version, Name, DisplayName, Description string }
	var links []struct{ Name, URL string }
	var list []struct{ Name, Image string }
	read("changes", &changes)
	read("crds", &crds)
	read("links", &links)
	read("images", &list)
	if len(changes) == 0 {
		t.Error("nothing is new")
	}
	for _, c := range changes {
		if c == "" || strings.ContainsAny(c, "`\n") || strings.Contains(c, "**") || strings.Contains(c, "](") {
			t.Errorf("the change is not plain text: %q", c)
		}
	}
	var named []string
	for _, i := range list {
		named = append(named, fmt.Sprint(i.Name, " ", i.Image))
	}
	if d := cmp.Diff(images, named); d != "" {
		t.Errorf("images (-want +got):\n%s", d)
	}
	text, err := os.ReadFile(filepath.Join(root, "infra/cluster/approvals.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range crds {
		for _, part := range []string{"\n  name: " + c.Name + "\n", "\n    kind: " + c.Kind + "\n", "\n    name: " + c.Version + "\n"} {
			if !bytes.Contains(text, []byte(part)) || c.DisplayName == "" || c.Description == "" {
				t.Errorf("%+v is not what infra/cluster/approvals.yaml defines", c)
			}
		}
	}
	for _, l := range links {
		if l.Name == "" || !strings.HasPrefix(l.URL, "https://") {
			t.Errorf("the link %+v leads nowhere", l)
		}
	}
	for key, want := range map[string]string{
		"category": "ai-machine-learning database integration-delivery monitoring-logging networking security storage streaming-messaging skip-prediction",
		"license":  "Apache-2.0", "operator": "true false", "prerelease": "false",
		"operatorCapabilities": "Basic Install,Seamless Upgrades,Full Lifecycle,Deep Insights,Auto Pilot",
	} {
		if got := said["artifacthub.io/"+key]; got == "" || !strings.Contains(want, got) {
			t.Errorf("%s is %q, and not one of %s", key, got, want)
		}
	}
	for key := range said {
		switch strings.TrimPrefix(key, "artifacthub.io/") {
		case "category", "changes", "crds", "images", "license", "links", "operator", "operatorCapabilities", "prerelease":
		default:
			t.Errorf("Artifact Hub knows no annotation %s", key)
		}
	}
}

// krew checks the manifest by the rules of its index, and installs the plugin from the archive.
func krew(t *testing.T, out, archive string) {
	text, err := os.ReadFile(filepath.Join(out, "krew.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	manifest := filepath.Join(t.TempDir(), "lbremedy.yaml") // named like the plugin, as in the index
	if err := os.WriteFile(manifest, text, 0o600); err != nil {
		t.Fatal(err)
	}
	must(t, ".", nil, "go", "tool", "validate-krew-manifest", "-manifest", manifest, "-skip-install")
	there := t.TempDir()
	alone := []string{"KREW_ROOT=" + there, "KREW_NO_UPGRADE_CHECK=1"}
	must(t, ".", alone, "go", "tool", "krew", "install", "--manifest", manifest, "--archive", filepath.Join(out, archive))
	plugin := filepath.Join(there, "bin/kubectl-lbremedy")
	if said := must(t, there, nil, plugin, "version"); !strings.Contains(said, version) {
		t.Errorf("the plugin says %s", said)
	}
	if said := must(t, there, nil, plugin, "show", "--help"); !strings.Contains(said, "kubectl lbremedy show") {
		t.Errorf("the plugin's help says %s", said)
	}
	// kubectl runs this to complete the arguments of a plugin; its PATH has a kubectl that finds the plugin.
	complete := filepath.Join(there, "kubectl_complete-lbremedy")
	must(t, there, nil, "tar", "-xzf", filepath.Join(out, archive), "--strip-components=1", "completions/kubectl_complete-lbremedy")
	kubectl := "#!/bin/sh\n[ \"$1\" = lbremedy ] && shift && exec " + plugin + " \"$@\"\n"
	if err := os.WriteFile(filepath.Join(there, "kubectl"), []byte(kubectl), 0o700); err != nil {
		t.Fatal(err)
	}
	if said := must(t, there, []string{"PATH=" + there + ":" + os.Getenv("PATH")}, complete, "sho"); !strings.HasPrefix(said, "show\t") {
		t.Errorf("kubectl is told to complete: %s", said)
	}
}
