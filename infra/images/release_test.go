package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/secure-systems-lab/go-securesystemslib/encrypted"
	"sigs.k8s.io/yaml"
)

const someNotes = "The first release.\n\n- It **heals** `Services`\n  ([how](README.md)).\n- It undoes.\n"

var someOrigin = origin{version: "v1.2.3-rc.1", commit: strings.Repeat("c", 40), toolset: "go1.26.0", sums: strings.Repeat("5", 64)}

// stores are those that tests have assembled, by the names of their images.
var stores = map[string]store{}

// completed returns a release with images of this test program, which are assembled once.
func completed(t *testing.T, o origin, names ...string) release {
	t.Helper()
	r := release(t.TempDir())
	s := store(t.TempDir())
	from, ok := stores[strings.Join(names, ",")]
	if !ok {
		from = store(filepath.Join(kept, strings.Join(names, ",")))
		if err := os.CopyFS(string(from), os.DirFS(string(assembled(t, o.version, names...)))); err != nil {
			t.Fatal(err)
		}
		stores[strings.Join(names, ",")] = from
	}
	if err := os.CopyFS(string(s), os.DirFS(string(from))); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(string(s), string(r.store())); err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string]string{"NOTES.md": someNotes, "other.tar.gz": "other"} {
		if err := os.WriteFile(r.file(file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := complete(root, r, o, io.Discard); err != nil {
		t.Fatal(err)
	}
	return r
}

// kept is a folder of this run.
var kept string

func TestMain(m *testing.M) {
	var err error
	if kept, err = os.MkdirTemp("", "lbremedy-images-test-"); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(kept)
	os.Exit(code)
}

// contents returns all files of a release.
func contents(t *testing.T, r release) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := fs.WalkDir(os.DirFS(string(r)), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := os.ReadFile(r.file(name))
		out[name] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// A release has the same bytes each time, and with the same key the same signatures, which
// change nothing of what they sign. All files are named.
func TestRelease(t *testing.T) {
	r := completed(t, someOrigin, "busy", "lbremedy")
	first := contents(t, r)
	delete(stores, "busy,lbremedy")
	if err := os.RemoveAll(filepath.Join(kept, "busy,lbremedy")); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(first, contents(t, completed(t, someOrigin, "busy", "lbremedy"))); d != "" {
		t.Errorf("two builds differ:\n%s", d)
	}
	if err := complete(root, r, someOrigin, io.Discard); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(first, contents(t, r)); d != "" {
		t.Errorf("completed twice it is another:\n%s", d)
	}
	check := exec.CommandContext(t.Context(), "sha256sum", "--quiet", "--strict", "-c", "SHA256SUMS")
	check.Dir = string(r)
	if said, err := check.CombinedOutput(); err != nil {
		t.Errorf("sha256sum -c: %v\n%s", err, said)
	}
	for name := range first {
		if !strings.HasPrefix(name, "images/oci/blobs/") && name != sumsFile && !strings.Contains(first[sumsFile], "  "+name+"\n") {
			t.Errorf("SHA256SUMS does not name %s", name)
		}
	}

	by := signer{newKey(t)}
	var said bytes.Buffer
	if err := sign(r, by, &said); err != nil {
		t.Fatal(err)
	}
	signed := contents(t, r)
	if err := sign(r, by, io.Discard); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(signed, contents(t, r)); d != "" {
		t.Errorf("the same key signs another way:\n%s", d)
	}
	for name, text := range first {
		if signed[name] != text {
			t.Errorf("to sign changes %s", name)
		}
	}
	if !strings.HasPrefix(said.String(), "Signed SHA256SUMS, and 3 images and charts.") {
		t.Errorf("it says %q", said.String())
	}
}

// The chart of a release has its version, the digests of its images, and what Artifact Hub
// asks for; the page's links lead to the release.
func TestChart(t *testing.T) {
	r := completed(t, someOrigin, "busy", "lbremedy")
	all, err := entries(r.store().layout())
	if err != nil {
		t.Fatal(err)
	}
	images := map[string]any{}
	var lists []string
	for _, b := range all {
		if b.index != nil {
			images[b.name] = b.digest.String()
			lists = append(lists, b.name+" ghcr.io/lbremedy/"+b.name+"@"+b.digest.String()+" [linux/amd64 linux/arm64]")
		}
	}
	text, err := os.ReadFile(r.file("lbremedy-1.2.3-rc.1.tgz"))
	if err != nil {
		t.Fatal(err)
	}
	g, err := gzip.NewReader(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for in := tar.NewReader(g); ; {
		h, err := in.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Uid != 0 || h.Uname != "" || !h.ModTime.Equal(epoch) || h.Mode != 0o644 {
			t.Errorf("%+v is of one machine", h)
		}
		if files[h.Name], err = io.ReadAll(in); err != nil {
			t.Fatal(err)
		}
	}
	var values, was map[string]any
	if err := yaml.UnmarshalStrict(files["lbremedy/values.yaml"], &values); err != nil {
		t.Fatal(err)
	}
	tree, err := os.ReadFile(filepath.Join(root, chartAt, "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(tree, &was); err != nil {
		t.Fatal(err)
	}
	was["image"].(map[string]any)["tag"] = "v1.2.3-rc.1"
	was["image"].(map[string]any)["digests"] = images
	if d := cmp.Diff(was, values); d != "" {
		t.Errorf("values (-want +got):\n%s", d)
	}
	var c struct {
		Name, Version, AppVersion string
		Annotations               map[string]string
	}
	if err := yaml.Unmarshal(files["lbremedy/Chart.yaml"], &c); err != nil {
		t.Fatal(err)
	}
	if c.Name != "lbremedy" || c.Version != "1.2.3-rc.1" || c.AppVersion != "v1.2.3-rc.1" {
		t.Errorf("Chart.yaml is %+v", c)
	}
	hub(t, c.Annotations, lists)
	page := string(files["lbremedy/README.md"])
	if strings.Contains(page, "](..") || !strings.Contains(page, "](https://github.com/lbremedy/lbremedy/blob/v1.2.3-rc.1/infra/README.md#on-a-node)") {
		t.Error("the page of the chart leads to what is not in it")
	}
	if len(files["lbremedy/LICENSE"]) == 0 || len(files["lbremedy/templates/_helpers.tpl"]) == 0 {
		t.Error("the chart lacks its licence, or its templates")
	}
}

// What is no release of the changelog has a chart that tells of no changes.
func TestWithoutNotes(t *testing.T) {
	r := completed(t, someOrigin, "busy", "lbremedy")
	if err := os.Remove(r.file("NOTES.md")); err != nil {
		t.Fatal(err)
	}
	if err := complete(root, r, someOrigin, io.Discard); err != nil {
		t.Fatal(err)
	}
	all, err := entries(r.store().layout())
	if err != nil {
		t.Fatal(err)
	}
	config, err := all[len(all)-1].image.RawConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(config, []byte("artifacthub.io/images")) || bytes.Contains(config, []byte("artifacthub.io/changes")) {
		t.Errorf("the chart says %s", config)
	}
}

// hub holds annotations to the format that Artifact Hub documents
// (https://artifacthub.io/docs/topics/annotations/helm).
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
	var list []struct {
		Name, Image string
		Platforms   []string
	}
	read("changes", &changes)
	read("crds", &crds)
	read("links", &links)
	read("images", &list)
	if d := cmp.Diff([]string{"It heals Services (how).", "It undoes."}, changes); d != "" {
		t.Errorf("changes (-want +got):\n%s", d)
	}
	var named []string
	for _, i := range list {
		named = append(named, fmt.Sprint(i.Name, " ", i.Image, " ", i.Platforms))
	}
	if d := cmp.Diff(images, named); d != "" {
		t.Errorf("images (-want +got):\n%s", d)
	}
	text, err := os.ReadFile(filepath.Join(root, chartAt, "approvals.yaml"))
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
		"license":  "Apache-2.0", "operator": "true false", "prerelease": "true",
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
	var repo struct {
		RepositoryID string
		Owners       []struct{ Name, Email string }
		Ignore       []struct{ Name, Version string }
	}
	if text, err = os.ReadFile(filepath.Join(root, "infra/release/artifacthub-repo.yml")); err == nil {
		err = yaml.UnmarshalStrict(text, &repo)
	}
	if err != nil {
		t.Errorf("artifacthub-repo.yml: %v", err)
	}
}

// A registry lists what is about a digest: the SBOM of an image, and where it is
// from. One that can't has a tag for the list, as here. A second push pushes nothing; the next release adds its statement and its signature
// to those of an image that it did not change.
func TestPushRelease(t *testing.T) {
	reg := serve(t)
	r := completed(t, someOrigin, "busy")
	if err := sign(r, signer{newKey(t)}, io.Discard); err != nil {
		t.Fatal(err)
	}
	said := pushed(t, r.store(), reg.repo, "", false)
	for _, want := range []string{"1 of 1 images would be", "2 of 2 charts would be", "8 of 8 SBOMs, attestations and signatures would be"} {
		if !strings.Contains(said, want) {
			t.Errorf("it says %q, want %q", said, want)
		}
	}
	if reg.writes > 0 {
		t.Fatalf("a dry run wrote %d times", reg.writes)
	}
	pushed(t, r.store(), reg.repo, "", true)
	written := reg.writes
	if said = pushed(t, r.store(), reg.repo, "", true); strings.Count(said, "\nAll ") != 3 || reg.writes != written {
		t.Errorf("what is there was pushed again: %s", said)
	}

	ref, err := name.ParseReference(reg.repo + "/busy:v1.2.3-rc.1")
	if err != nil {
		t.Fatal(err)
	}
	index, err := remote.Index(ref)
	if err != nil {
		t.Fatal(err)
	}
	m, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	digest, err := index.Digest()
	if err != nil {
		t.Fatal(err)
	}
	for _, about := range []struct{ digest, kind, holds string }{
		{m.Manifests[0].Digest.String(), "application/spdx+json", `"spdxVersion": "SPDX-2.3"`},
		{digest.String(), statementKind, `"gitCommit": "cccc`},
	} {
		list, err := remote.Referrers(ref.Context().Digest(about.digest))
		if err != nil {
			t.Fatal(err)
		}
		found, err := list.IndexManifest()
		if err != nil {
			t.Fatal(err)
		}
		if len(found.Manifests) != 1 || found.Manifests[0].ArtifactType != about.kind {
			t.Fatalf("about %s there is %+v, want %s", about.digest, found.Manifests, about.kind)
		}
		image, err := remote.Image(ref.Context().Digest(found.Manifests[0].Digest.String()))
		if err != nil {
			t.Fatal(err)
		}
		layers, err := image.Layers()
		if err != nil || len(layers) != 1 {
			t.Fatalf("%d layers, %v", len(layers), err)
		}
		in, err := layers[0].Compressed()
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(in); err != nil || !bytes.Contains(text, []byte(about.holds)) {
			t.Errorf("%s lacks %s: %.300s, %v", about.kind, about.holds, text, err)
		}
	}

	// The same image in the next release, which somebody else signs.
	next := someOrigin
	next.commit = strings.Repeat("d", 40)
	r = completed(t, next, "busy")
	if err := sign(r, signer{newKey(t)}, io.Discard); err != nil {
		t.Fatal(err)
	}
	pushed(t, r.store(), reg.repo, "", true)
	for _, end := range []string{".sig", ".att"} {
		at, err := name.ParseReference(reg.repo + "/busy:" + strings.ReplaceAll(digest.String(), ":", "-") + end)
		if err != nil {
			t.Fatal(err)
		}
		image, err := remote.Image(at)
		if err != nil {
			t.Fatal(err)
		}
		if layers, err := image.Layers(); err != nil || len(layers) != 2 {
			t.Errorf("%s has %d signatures, %v; want those of both releases", end, len(layers), err)
		}
	}
	if said = pushed(t, r.store(), reg.repo, "", true); strings.Count(said, "\nAll ") != 3 {
		t.Errorf("signatures are added again: %s", said)
	}
}

// Nothing is signed that has changed since it was built.
func TestChanged(t *testing.T) {
	for _, file := range []string{"other.tar.gz", "images/oci/index.json", "SHA256SUMS", "extra"} {
		r := completed(t, someOrigin, "busy")
		f, err := os.OpenFile(r.file(file), os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString(" "); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		if err := sign(r, signer{newKey(t)}, io.Discard); err == nil || !strings.Contains(err.Error(), "are not what its SHA256SUMS says") {
			t.Errorf("%s has changed: got %v", file, err)
		}
		if _, err := os.Stat(r.file(signatureFile)); err == nil {
			t.Errorf("%s has changed, and there is a signature", file)
		}
	}
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// locked returns a private key as cosign writes it.
func locked(t *testing.T, key any, kind, password string) string {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	text, err := encrypted.EncryptWithCustomKDFParameters(der, []byte(password), encrypted.Legacy)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: text}))
}

// The key comes from a file or a variable, its passphrase from a variable or the input. What
// is wrong is said without either.
func TestKey(t *testing.T) {
	const kind, secret = "ENCRYPTED SIGSTORE PRIVATE KEY", "correct horse"
	private := newKey(t)
	good := locked(t, private, kind, secret)
	file := filepath.Join(t.TempDir(), "cosign.key")
	if err := os.WriteFile(file, []byte(good), 0o600); err != nil {
		t.Fatal(err)
	}
	other, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		env  map[string]string
		in   string
		want string // of the error; empty: it is the key
	}{
		"file, variable":     {env: map[string]string{"COSIGN_KEY": file, "COSIGN_PASSWORD": secret}},
		"file, input":        {env: map[string]string{"COSIGN_KEY": file}, in: secret + "\r\nmore"},
		"variable, input":    {env: map[string]string{"COSIGN_PRIVATE_KEY": good}, in: secret},
		"older":              {env: map[string]string{"COSIGN_PRIVATE_KEY": locked(t, private, "ENCRYPTED COSIGN PRIVATE KEY", ""), "COSIGN_PASSWORD": ""}},
		"two":                {env: map[string]string{"COSIGN_KEY": file, "COSIGN_PRIVATE_KEY": good}, want: "both name a key"},
		"no file":            {env: map[string]string{"COSIGN_KEY": file + "x"}, want: "read the key"},
		"another passphrase": {env: map[string]string{"COSIGN_KEY": file, "COSIGN_PASSWORD": "x" + secret}, in: secret, want: "is another"},
		"no passphrase":      {env: map[string]string{"COSIGN_KEY": file}, want: "is another"},
		"no key":             {env: map[string]string{"COSIGN_PRIVATE_KEY": secret}, want: "not one with a passphrase"},
		"open": {
			env:  map[string]string{"COSIGN_PRIVATE_KEY": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: plain}))},
			want: "not one with a passphrase",
		},
		"RSA": {env: map[string]string{"COSIGN_PRIVATE_KEY": locked(t, other, kind, secret), "COSIGN_PASSWORD": secret}, want: "not of ECDSA P-256"},
	} {
		got, err := key(func(name string) (string, bool) { v, ok := tt.env[name]; return v, ok }, strings.NewReader(tt.in))
		switch {
		case tt.want == "" && (err != nil || !got.key.Equal(private)):
			t.Errorf("%s: got %v", name, err)
		case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), secret)):
			t.Errorf("%s: got %v, want %s", name, err, tt.want)
		}
	}
	if got, err := key(func(string) (string, bool) { return "", false }, nil); got != nil || err != nil {
		t.Errorf("without a key: %v, %v", got, err)
	}
	var plainStatement statement
	text, err := someOrigin.about(subject{"a", map[string]string{"sha256": "0"}})
	if err == nil {
		err = json.Unmarshal(text, &plainStatement)
	}
	if err != nil || plainStatement.Type != statementType || plainStatement.PredicateType != provenanceType {
		t.Errorf("the statement is %s, %v", text, err)
	}
}
