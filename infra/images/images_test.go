package main

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

const root = "../.."

// here is the platform of this machine.
var here = v1.Platform{OS: "linux", Architecture: runtime.GOARCH}

// made builds images and returns their store, and their digests by name.
func made(t *testing.T, programs []program, flags ...string) (store, map[string]v1.Hash) {
	t.Helper()
	s := store(t.TempDir())
	if err := build(t.Context(), root, s, programs, []v1.Platform{here}, "v1.2.3", io.Discard, flags...); err != nil {
		t.Fatal(err)
	}
	return s, digests(t, s)
}

// digests returns the digests of a store by name.
func digests(t *testing.T, s store) map[string]v1.Hash {
	t.Helper()
	images, err := entries(s.layout())
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]v1.Hash{}
	for _, b := range images {
		out[b.name] = b.digest
	}
	return out
}

// changed returns the flag by which go build sees a file of the repository with more
// at its end.
func changed(t *testing.T, name, more string) string {
	t.Helper()
	abs, err := filepath.Abs(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(abs)
	if err != nil {
		t.Fatal(err)
	}
	with := filepath.Join(t.TempDir(), path.Base(name))
	if err := os.WriteFile(with, append(text, more...), 0o600); err != nil {
		t.Fatal(err)
	}
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{abs: with}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "overlay.json")
	if err := os.WriteFile(file, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	return "-overlay=" + file
}

// Two builds of the same source are the same, and what changes in one class changes
// the image of no other program.
func TestImages(t *testing.T) {
	programs, err := choose(root, "exporter,busy,public-lb-forbidden", "v1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	s, first := made(t, programs)
	_, second := made(t, programs, changed(t, "functions/busy/busy.go",
		"\n// Changed is what is new.\nfunc Changed() string { return doc + doc }\n\nvar changed = Changed()\n"))
	for name, digest := range first {
		if (second[name] == digest) != (name != "busy") {
			t.Errorf("%s is %s, and after a change of busy %s", name, digest, second[name])
		}
	}
	images, err := entries(s.layout())
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range images {
		t.Run(b.name, func(t *testing.T) { inspect(t, b) })
	}
	t.Run("sums", func(t *testing.T) { sums(t, s, 3) })
	t.Run("sbom", func(t *testing.T) { document(t, s, images) })
}

// inspect looks at one image, and starts the program that it holds.
func inspect(t *testing.T, b built) {
	if err := validate.Index(b.index); err != nil {
		t.Fatal(err)
	}
	m, err := b.index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Manifests) != 1 || !m.Manifests[0].Platform.Equals(here) {
		t.Fatalf("the index holds %v, want one image for %s", m.Manifests, here)
	}
	img, err := b.index.Image(m.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	c, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	version := c.Config.Labels["org.opencontainers.image.version"]
	want := v1.Config{
		User: "65532:65532", Entrypoint: []string{"/usr/local/bin/" + b.name}, Env: []string{"PATH=/usr/local/bin"}, WorkingDir: "/",
		Labels: map[string]string{
			"org.opencontainers.image.title": b.name, "org.opencontainers.image.version": version,
			"org.opencontainers.image.source": source, "org.opencontainers.image.licenses": "Apache-2.0",
		},
	}
	if d := cmp.Diff(want, c.Config); d != "" {
		t.Errorf("configuration (-want +got):\n%s", d)
	}
	layers, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var programs []string
	files := map[string][]byte{}
	for _, l := range layers {
		for _, h := range storedIn(t, l) {
			if h.Uid != 0 || h.Gid != 0 || !h.ModTime.Equal(epoch) {
				t.Errorf("%s belongs to %d:%d and is from %s", h.Name, h.Uid, h.Gid, h.ModTime)
			}
			if h.Typeflag == tar.TypeDir {
				if err := os.MkdirAll(filepath.Join(dir, h.Name), 0o755); err != nil {
					t.Fatal(err)
				}
				continue
			}
			if h.Mode&0o222 != 0 {
				t.Errorf("somebody may write %s: it has %o", h.Name, h.Mode)
			}
			if h.Mode&0o111 != 0 {
				programs = append(programs, h.Name)
			}
			files[h.Name] = h.body
			if err := os.WriteFile(filepath.Join(dir, h.Name), h.body, os.FileMode(h.Mode)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if d := cmp.Diff([]string{bin + b.name}, programs); d != "" {
		t.Errorf("what can be executed (-want +got):\n%s", d)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(files["etc/ssl/certs/ca-certificates.crt"]) || !bytes.Contains(files["etc/ssl/certs/ca-certificates.crt"],
		[]byte("CN=GlobalSign")) {
		t.Error("there are no root certificates, or not those of Alibaba Cloud's endpoints")
	}
	if zone, err := time.LoadLocationFromTZData("Asia/Shanghai", files["usr/share/zoneinfo/Asia/Shanghai"]); err != nil {
		t.Errorf("time zone: %v", err)
	} else if got := epoch.In(zone).Format("-0700"); got != "+0800" {
		t.Errorf("Shanghai is at %s", got)
	}

	wantVersion, args, wantSaid, wantCode := "v1.2.3", []string{"--version"}, "v1.2.3\n", 0
	if b.name != "exporter" {
		wantVersion = fmt.Sprintf("%x", sha256.Sum256(files[bin+b.name]))[:12]
		args, wantSaid, wantCode = nil, "LBREMEDY_CLUSTER", 1
	}
	if version != wantVersion {
		t.Errorf("the label version is %q, want %q", version, wantVersion)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(dir, bin+b.name), args...)
	cmd.Env = []string{}
	said, err := cmd.CombinedOutput()
	if err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	if code := cmd.ProcessState.ExitCode(); code != wantCode || !strings.Contains(string(said), wantSaid) {
		t.Errorf("the program ends with %d and says %q, want %d and %q", code, said, wantCode, wantSaid)
	}
}

// A stored entry is a file or folder as a layer holds it.
type stored struct {
	*tar.Header
	body []byte
}

// storedIn returns what a layer holds, in its order: folders come before what is in them.
func storedIn(t *testing.T, l v1.Layer) []stored {
	t.Helper()
	r, err := l.Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var out []stored
	for in := tar.NewReader(r); ; {
		h, err := in.Next()
		if err == io.EOF {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, stored{h, body})
	}
}

// sums checks SHA256SUMS of a store with so many SBOMs.
func sums(t *testing.T, s store, sboms int) {
	text, err := os.ReadFile(filepath.Join(string(s), "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	lines := 0
	for line := range strings.Lines(string(text)) {
		sum, name, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		body, err := os.ReadFile(filepath.Join(string(s), name))
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("%x", sha256.Sum256(body)); got != sum {
			t.Errorf("%s has the sum %s, not %s", name, got, sum)
		}
		lines++
	}
	if want := sboms + 2; lines != want {
		t.Errorf("there are %d sums, want %d", lines, want)
	}
}

// document checks the SPDX documents of images that are for this platform alone.
func document(t *testing.T, s store, images []built) {
	for _, b := range images {
		text, err := os.ReadFile(filepath.Join(string(s), "sbom", b.name+".linux-"+here.Architecture+".spdx.json"))
		if err != nil {
			t.Fatal(err)
		}
		var d spdxDocument
		if err := json.Unmarshal(text, &d); err != nil {
			t.Fatal(err)
		}
		m, err := b.index.IndexManifest()
		if err != nil {
			t.Fatal(err)
		}
		known, named := map[string]bool{d.ID: true}, map[string]string{}
		for _, p := range d.Packages {
			if known[p.ID] || p.Download == "" || p.Declared == "" {
				t.Errorf("%s: the package %+v is there twice, or not whole", b.name, p)
			}
			known[p.ID], named[p.Name] = true, p.Version
		}
		for _, r := range d.Relationships {
			if !known[r.Element] || !known[r.Related] {
				t.Errorf("%s: %+v is about what is not there", b.name, r)
			}
		}
		if got, want := named[b.name], m.Manifests[0].Digest.String(); got != want {
			t.Errorf("%s: the document is about %s, want %s", b.name, got, want)
		}
		if named["stdlib"] != strings.TrimPrefix(runtime.Version(), "go") || named[trusted] == "" || !strings.HasPrefix(named["k8s.io/api"], "v0.") {
			t.Errorf("%s: the modules are %v", b.name, named)
		}
	}
}

// assembled returns a store with images of this test program, under the names and with
// the version as a label.
func assembled(t *testing.T, version string, names ...string) store {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	made := t.TempDir()
	both, err := platforms("amd64,arm64,amd64")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range both {
		if err := os.Symlink(filepath.Dir(self), filepath.Join(made, p.Architecture)); err != nil {
			t.Fatal(err)
		}
	}
	var programs []program
	for _, n := range names {
		programs = append(programs, program{name: n, dir: "x/" + filepath.Base(self), stamp: version})
	}
	s := store(t.TempDir())
	if err := assemble(t.Context(), s, made, programs, both, version, io.Discard); err != nil {
		t.Fatal(err)
	}
	return s
}

// A server is a registry on loopback, in this process.
type server struct {
	repo   string // of the images
	writes int    // how many requests would change it
	broken bool   // it answers with 500
}

// serve starts a registry.
func serve(t *testing.T) *server {
	t.Helper()
	r := &server{}
	h := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		switch {
		case r.broken:
			http.Error(w, "broken", http.StatusInternalServerError)
			return
		case q.Method == http.MethodPut || q.Method == http.MethodPost || q.Method == http.MethodPatch:
			r.writes++
		}
		h.ServeHTTP(w, q)
	}))
	t.Cleanup(srv.Close)
	r.repo = strings.TrimPrefix(srv.URL, "http://") + "/acme"
	return r
}

// pushed returns what push says.
func pushed(t *testing.T, s store, repo, tag string, apply bool) string {
	t.Helper()
	var out bytes.Buffer
	if err := push(s, repo, tag, apply, &out, remote.WithContext(t.Context()), remote.WithJobs(1)); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// The registry for tests takes what is pushed, and ends when it is told to.
func TestServe(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	said, says := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, []string{"serve", "-listen", "127.0.0.1:0"}, says) }()
	var at string
	if _, err := fmt.Fscanf(said, "A registry is at %s\n", &at); err != nil {
		t.Fatal(err)
	}
	repo := strings.TrimSuffix(at, ".") + "/acme"
	s := assembled(t, "v1", "busy")
	pushed(t, s, repo, "", true)
	if got, want := pushed(t, s, repo, "", false), "All 1 images are in "+repo+" as v1.\n"; !strings.HasSuffix(got, want) {
		t.Errorf("after the push it has %q, want %q", got, want)
	}
	end()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := push(s, repo, "", false, io.Discard); err == nil {
		t.Error("it has ended, and answers")
	}
}

// An index names one image for each architecture, and each says which it is for.
func TestPlatforms(t *testing.T) {
	images, err := entries(assembled(t, "v1", "busy").layout())
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(images[0].index); err != nil {
		t.Fatal(err)
	}
	m, err := images[0].index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var listed, said []string
	for _, d := range m.Manifests {
		img, err := images[0].index.Image(d.Digest)
		if err != nil {
			t.Fatal(err)
		}
		c, err := img.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		listed, said = append(listed, d.Platform.String()), append(said, c.Platform().String())
	}
	want := []string{"linux/amd64", "linux/arm64"}
	if d := cmp.Diff(want, listed) + cmp.Diff(want, said); d != "" {
		t.Errorf("platforms of the index, and of its images (-want +got):\n%s", d)
	}
}

func TestPush(t *testing.T) {
	s, r := assembled(t, "v1", "busy", "quota"), serve(t)
	d := digests(t, s)
	line := func(name, has string) string { return fmt.Sprintf("%-28s %s  %s\n", name, d[name], has) }
	check := func(got string, want ...string) {
		t.Helper()
		if d := cmp.Diff(strings.Join(want, ""), got); d != "" {
			t.Errorf("it says (-want +got):\n%s", d)
		}
	}
	check(pushed(t, s, r.repo, "", false), line("busy", absent), line("quota", absent),
		"2 of 2 images would be pushed to "+r.repo+" as v1; APPLY=1 pushes them.\n")
	if r.writes > 0 {
		t.Fatalf("a dry run wrote %d times", r.writes)
	}
	check(pushed(t, s, r.repo, "", true), line("busy", absent), line("quota", absent), "Pushed 2 of 2 images to "+r.repo+" as v1.\n")
	written := r.writes
	check(pushed(t, s, r.repo, "", true), line("busy", same), line("quota", same), "All 2 images are in "+r.repo+" as v1.\n")
	if r.writes != written {
		t.Errorf("what is there was pushed again")
	}
	check(pushed(t, s, r.repo, "v2", false), line("busy", tagged), line("quota", tagged),
		"2 of 2 images would be pushed to "+r.repo+" as v2; APPLY=1 pushes them.\n")

	// Another build under the tag that there is.
	old := d["busy"]
	s = assembled(t, "v1.1", "busy")
	d = digests(t, s)
	check(pushed(t, s, r.repo, "v1", true), line("busy", absent+moves+old.String()), "Pushed 1 of 1 images to "+r.repo+" as v1.\n")

	r.broken = true
	for _, apply := range []bool{false, true} {
		var out bytes.Buffer
		if err := push(s, r.repo, "", apply, &out, remote.WithContext(t.Context()), remote.WithRetryBackoff(remote.Backoff{Steps: 1})); err == nil ||
			!strings.Contains(err.Error(), "ask the registry") || out.Len() > 0 {
			t.Errorf("a registry that can't be asked: got %v, and it says %q", err, out.String())
		}
	}
}

// All images that the manifests and the chart name are built.
func TestNames(t *testing.T) {
	all, err := choose(root, "", "v1")
	if err != nil {
		t.Fatal(err)
	}
	var built, named []string
	for _, p := range all {
		if _, err := os.Stat(filepath.Join(root, p.dir, "main.go")); err != nil {
			t.Error(err)
		}
		if (p.stamp == "") != (strings.HasPrefix(p.dir, "functions/") && !strings.HasPrefix(p.dir, "functions/cmd/")) {
			t.Errorf("%s prints the version %q: programs of classes have none, the others do", p.name, p.stamp)
		}
		if p.stamp == "" {
			built = append(built, p.name)
		}
	}
	classes, err := os.ReadFile(filepath.Join(root, "infra/cluster/classes.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^- ([a-z0-9-]+)$`).FindAllSubmatch(classes, -1) {
		named = append(named, string(m[1]))
	}
	slices.Sort(named)
	if d := cmp.Diff(built, named); d != "" {
		t.Errorf("images of classes (-built +named in the chart):\n%s", d)
	}
}

func TestWrong(t *testing.T) {
	for _, test := range []struct {
		args []string
		want string
	}{
		{nil, "name a command"},
		{[]string{"bake"}, `"bake" is no command`},
		{[]string{"build", "-only", "no-such"}, `no class "no-such"`},
		{[]string{"build", "-arch", "riscv64"}, `architecture "riscv64"`},
		{[]string{"build", "-version", "not a tag"}, "can't be a tag"},
		{[]string{"build", "all"}, `"all" is no flag`},
		{[]string{"push"}, "name the registry"},
		{[]string{"push", "-registry", "registry.example/acme", "-dir", t.TempDir()}, "make images"},
		{[]string{"push", "-registry", "registry.example/UPPER", "-tag", "v1", "-dir", string(assembled(t, "v1", "busy"))}, "UPPER"},
	} {
		if err := run(context.Background(), test.args, io.Discard); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("images %v: got %v, want an error with %q", test.args, err, test.want)
		}
	}
}
