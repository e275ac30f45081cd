// Package release takes a release as those do who install it: cosign verifies it, Helm pulls
// and renders the chart, krew checks its manifest and installs the plugin. All of them are
// the real ones, from their modules; a registry runs in this process.
//
// It is a module of its own, so that none of them is a library of lbremedy's.
package release

import (
	"bytes"
	"context"
	"crypto"
	"encoding/base64"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/sigstore/cosign/v3/pkg/cosign"
	ociremote "github.com/sigstore/cosign/v3/pkg/oci/remote"
	"github.com/sigstore/cosign/v3/pkg/oci/static"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	helmregistry "helm.sh/helm/v4/pkg/registry"
)

const (
	root       = "../.."
	version    = "v0.1.0"
	passphrase = "correct horse battery"
)

// run runs a program and returns all that it says.
func run(t *testing.T, dir string, env []string, name string, args ...string) (string, error) {
	t.Helper()
	c := exec.CommandContext(t.Context(), name, args...)
	c.Dir, c.Env = dir, append(os.Environ(), env...)
	out, err := c.CombinedOutput()
	return string(out), err
}

// must is run for what has to go well.
func must(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	out, err := run(t, dir, env, name, args...)
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return out
}

// tree returns a copy of the tree as it is here, committed under the tag of the version.
func tree(t *testing.T) string {
	t.Helper()
	to := t.TempDir()
	for _, file := range strings.Split(must(t, root, nil, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"), "\x00") {
		at := filepath.Join(root, filepath.FromSlash(file))
		info, err := os.Stat(at)
		if err != nil || info.IsDir() {
			continue // what is removed here and not committed yet, and the end of the list
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
	log := filepath.Join(to, "CHANGELOG.md")
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	dated := bytes.Replace(text, []byte("## "+version+" - unreleased\n"), []byte("## "+version+" - 2026-11-28\n"), 1)
	if err := os.WriteFile(log, dated, 0o644); err != nil {
		t.Fatal(err)
	}
	as := []string{"-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false"}
	for _, args := range [][]string{{"init", "-q"}, {"add", "-A"}, append(as, "commit", "-qm", "one"), {"tag", version}} {
		must(t, to, nil, "git", args...)
	}
	return to
}

// A key is a pair as cosign generates it.
type key struct {
	file   string // of the private key
	public signature.Verifier
}

func newKey(t *testing.T) key {
	t.Helper()
	pair, err := cosign.GenerateKeyPair(func(bool) ([]byte, error) { return []byte(passphrase), nil })
	if err != nil {
		t.Fatal(err)
	}
	k := key{file: filepath.Join(t.TempDir(), "cosign.key")}
	if err := os.WriteFile(k.file, pair.PrivateBytes, 0o600); err != nil {
		t.Fatal(err)
	}
	k.public = verifier(t, pair.PublicBytes)
	return k
}

func verifier(t *testing.T, public []byte) signature.Verifier {
	t.Helper()
	parsed, err := cryptoutils.UnmarshalPEMToPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	v, err := signature.LoadVerifier(parsed, crypto.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// options are those of cosign verify --key --insecure-ignore-tlog.
func options(by signature.Verifier) *cosign.CheckOpts {
	return &cosign.CheckOpts{
		SigVerifier: by, IgnoreTlog: true, Offline: true, IgnoreSCT: true, MaxWorkers: 1,
		RegistryClientOpts: []ociremote.Option{ociremote.WithRemoteOptions()},
	}
}

// verifyImage is "cosign verify", and returns what it could not verify.
func verifyImage(ctx context.Context, ref name.Reference, by signature.Verifier) error {
	o := options(by)
	o.ClaimVerifier = cosign.SimpleClaimVerifier
	found, _, err := cosign.VerifyImageSignatures(ctx, ref, o)
	if err == nil && len(found) == 0 {
		return fmt.Errorf("%s has no signature", ref)
	}
	return err
}

// verifyOrigin is "cosign verify-attestation", and returns the statements.
func verifyOrigin(ctx context.Context, ref name.Reference, by signature.Verifier) ([]string, error) {
	o := options(by)
	o.ClaimVerifier = cosign.IntotoSubjectClaimVerifier
	found, _, err := cosign.VerifyImageAttestations(ctx, ref, o)
	var out []string
	for _, f := range found {
		text, err := f.Payload()
		if err != nil {
			return nil, err
		}
		payload := regexp.MustCompile(`"payload":"([^"]*)"`).FindSubmatch(text)
		if payload == nil {
			return nil, fmt.Errorf("%s is no envelope", text)
		}
		decoded, err := base64.StdEncoding.DecodeString(string(payload[1]))
		if err != nil {
			return nil, err
		}
		out = append(out, string(decoded))
	}
	return out, err
}

// verifyFile is "cosign verify-blob --signature".
func verifyFile(ctx context.Context, text, sig []byte, by signature.Verifier) error {
	s, err := static.NewSignature(text, string(sig))
	if err == nil {
		_, err = cosign.VerifyBlobSignature(ctx, s, options(by))
	}
	return err
}

// A release of two programs is built from a tag, signed, pushed, and taken.
func TestRelease(t *testing.T) {
	at := tree(t)
	if out, err := run(t, at, nil, "go", "run", "./infra/release", "-version", "v0.2.0"); err == nil || !strings.Contains(out, "this commit has no tag v0.2.0") {
		t.Errorf("another version: %v\n%s", err, out)
	}
	must(t, at, nil, "go", "run", "./infra/release", "-version", version, "-only", "busy,lbremedy", "-here")
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
		"approvals.yaml", "alerts.yaml", "dashboard.json", "s.yaml", "krew.yaml", "NOTES.md", "LICENSES-OF-LIBRARIES", "provenance.intoto.json",
		"images/digests.yaml",
	} {
		if !bytes.Contains(read("SHA256SUMS"), []byte("  "+file+"\n")) {
			t.Errorf("SHA256SUMS does not name %s", file)
		}
	}
	commit := strings.TrimSpace(must(t, at, nil, "git", "rev-parse", "HEAD"))
	if !bytes.Contains(read("provenance.intoto.json"), []byte(`"gitCommit": "`+commit+`"`)) {
		t.Error("provenance.intoto.json does not name the commit")
	}

	images := filepath.Join(at, "infra/images")
	if said := must(t, images, []string{"COSIGN_KEY=", "COSIGN_PRIVATE_KEY="}, "go", "run", ".", "sign"); !strings.Contains(said, "The release is not signed") {
		t.Errorf("without a key it says %s", said)
	}
	by, other := newKey(t), newKey(t)
	said := must(t, images, []string{"COSIGN_KEY=" + by.file, "COSIGN_PASSWORD=" + passphrase}, "go", "run", ".", "sign")
	if strings.Contains(said, passphrase) || !strings.Contains(said, "Signed SHA256SUMS, and 3 images and charts.") {
		t.Errorf("it says %s", said)
	}
	said, err := run(t, images, []string{"COSIGN_KEY=" + by.file, "COSIGN_PASSWORD=wrong"}, "go", "run", ".", "sign")
	if err == nil || strings.Contains(said, "PRIVATE") {
		t.Errorf("another passphrase: %v\n%s", err, said)
	}

	srv := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0)), registry.WithReferrersSupport(true)))
	defer srv.Close()
	repo := strings.TrimPrefix(srv.URL, "http://") + "/acme"
	must(t, images, nil, "go", "run", ".", "push", "-dir", "bin/release/images", "-registry", repo, "-apply")

	t.Run("cosign", func(t *testing.T) {
		sums, sig := read("SHA256SUMS"), read("SHA256SUMS.sig")
		if err := verifyFile(t.Context(), sums, sig, verifier(t, read("cosign.pub"))); err != nil {
			t.Errorf("SHA256SUMS: %v", err)
		}
		if err := verifyFile(t.Context(), sums, sig, other.public); err == nil {
			t.Error("SHA256SUMS is verified with another key")
		}
		if err := verifyFile(t.Context(), append(slices.Clone(sums[:len(sums)-2]), 'x', '\n'), sig, by.public); err == nil {
			t.Error("a SHA256SUMS with a changed byte is verified")
		}
		if err := verifyFile(t.Context(), sums, nil, by.public); err == nil {
			t.Error("without a signature SHA256SUMS is verified")
		}
		for _, what := range []string{"lbremedy:" + version, "busy:" + version, "charts/lbremedy:0.1.0"} {
			ref, err := name.ParseReference(repo + "/" + what)
			if err != nil {
				t.Fatal(err)
			}
			if err := verifyImage(t.Context(), ref, by.public); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			if err := verifyImage(t.Context(), ref, other.public); err == nil {
				t.Errorf("%s is verified with another key", what)
			}
			found, err := verifyOrigin(t.Context(), ref, by.public)
			if err != nil || len(found) != 1 || !strings.Contains(found[0], commit) ||
				!strings.Contains(found[0], `"predicateType": "https://slsa.dev/provenance/v1"`) {
				t.Errorf("%s is from %q, %v; want %s", what, found, err, commit)
			}
			if _, err := verifyOrigin(t.Context(), ref, other.public); err == nil {
				t.Errorf("where %s is from is verified with another key", what)
			}
		}
		forged(t, repo, by.public)
	})
	t.Run("helm", func(t *testing.T) { helm(t, repo, string(read("images/digests.yaml")), read("lbremedy-0.1.0.tgz")) })
	t.Run("krew", func(t *testing.T) { krew(t, out, "lbremedy"+machine) })
	// As "make release" does it, a release replaces the one before.
	t.Run("dirty", func(t *testing.T) {
		if err := os.WriteFile(filepath.Join(at, "infra/cluster/Chart.yaml"), []byte("name: other\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := run(t, at, nil, "go", "run", "./infra/release", "-version", version); err == nil || !strings.Contains(out, "the tree is v0.1.0-dirty") {
			t.Errorf("a changed tree: %v\n%s", err, out)
		}
	})
}

// forged checks that another image is not verified: neither one without a signature nor one
// to which the signature of ours was copied.
func forged(t *testing.T, repo string, by signature.Verifier) {
	t.Helper()
	ref, err := name.ParseReference(repo + "/busy:" + version)
	if err != nil {
		t.Fatal(err)
	}
	ours, err := remote.Index(ref)
	if err != nil {
		t.Fatal(err)
	}
	digest, err := ours.Digest()
	if err != nil {
		t.Fatal(err)
	}
	m, err := ours.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := ours.Image(m.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	bad := ref.Context().Tag("bad")
	if err := remote.Write(bad, theirs); err != nil {
		t.Fatal(err)
	}
	if err := verifyImage(t.Context(), bad, by); err == nil {
		t.Error("an image without a signature is verified")
	}
	theirDigest, err := theirs.Digest()
	if err != nil {
		t.Fatal(err)
	}
	for _, end := range []string{".sig", ".att"} {
		copied, err := remote.Image(ref.Context().Tag("sha256-" + digest.Hex + end))
		if err != nil {
			t.Fatal(err)
		}
		if err := remote.Write(ref.Context().Tag("sha256-"+theirDigest.Hex+end), copied); err != nil {
			t.Fatal(err)
		}
	}
	if err := verifyImage(t.Context(), bad, by); err == nil {
		t.Error("an image is verified by the signature of another")
	}
}

var imageLine = regexp.MustCompile(`(?m)^\s*(?:- )?image: (.+)$`)

// helm pulls the chart by Helm's own client, as "helm install oci://…" does, and renders it:
// its images are those of the release, by digest.
func helm(t *testing.T, repo, digests string, packed []byte) {
	client, err := helmregistry.NewClient(helmregistry.ClientOptPlainHTTP(), helmregistry.ClientOptWriter(io.Discard))
	if err != nil {
		t.Fatal(err)
	}
	if found, err := client.Tags(repo + "/charts/lbremedy"); err != nil || !slices.Contains(found, "0.1.0") {
		t.Errorf("Helm finds the versions %v, %v", found, err)
	}
	got, err := client.Pull(repo+"/charts/lbremedy:0.1.0", helmregistry.PullOptWithChart(true))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Chart.Data, packed) || got.Chart.Meta.Version != "0.1.0" || got.Chart.Meta.AppVersion != version {
		t.Errorf("Helm pulled a chart with %+v, which is not that of the release", got.Chart.Meta)
	}
	chart, err := loader.LoadArchive(bytes.NewReader(got.Chart.Data))
	if err != nil {
		t.Fatal(err)
	}
	if err := chart.Validate(); err != nil {
		t.Error(err)
	}
	values := map[string]any{"cluster": "c1", "region": "cn-hangzhou", "image": map[string]any{"registry": repo}, "doctor": map[string]any{"enabled": true}}
	all, err := util.ToRenderValues(chart, values, common.ReleaseOptions{Name: "lbremedy", Namespace: "lbremedy", IsInstall: true}, common.DefaultCapabilities)
	if err != nil {
		t.Fatal(err)
	}
	files, err := engine.Engine{Strict: true}.RenderWithContext(t.Context(), chart, all)
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	for _, m := range imageLine.FindAllStringSubmatch(strings.Join(slices.Collect(maps.Values(files)), "\n"), -1) {
		named[m[1]] = true
	}
	digest := regexp.MustCompile(`(?m)^    lbremedy: (sha256:[0-9a-f]{64})$`).FindStringSubmatch(digests)
	if digest == nil {
		t.Fatalf("digests.yaml is %s", digests)
	}
	if d := cmp.Diff(map[string]bool{repo + "/lbremedy@" + digest[1]: true}, named); d != "" {
		t.Errorf("images (-want +got):\n%s", d)
	}
}

// krew checks the manifest by the rules of its index, and installs the plugin from the archive.
func krew(t *testing.T, out, archive string) {
	text, err := os.ReadFile(filepath.Join(out, "krew.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	manifest := filepath.Join(t.TempDir(), "lbremedy.yaml") // as in the index: by the name of the plugin
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
	// What kubectl runs to complete the arguments of a plugin, with a kubectl that finds the plugin.
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
