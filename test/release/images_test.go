package release

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

var digestLine = regexp.MustCompile(`(?m)^    ([a-z-]+): (sha256:[0-9a-f]{64})$`)

func images(t *testing.T, at, version, programs string) map[string]string {
	t.Helper()
	must(t, at, []string{"VERSION=" + version, "PROGRAMS=" + programs, "ARCH=" + runtime.GOARCH, "OUT="}, "infra/images/build.sh")
	must(t, filepath.Join(at, "bin/images"), nil, "sha256sum", "--quiet", "--strict", "-c", "SHA256SUMS")
	text, err := os.ReadFile(filepath.Join(at, "bin/images/digests.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, m := range digestLine.FindAllStringSubmatch(string(text), -1) {
		out[m[1]] = m[2]
	}
	return out
}

// TestImages: a class's image changes only with its code, neither with the version nor with another class.
func TestImages(t *testing.T) {
	at := tree(t)
	const programs = "exporter,busy,public-lb-forbidden"
	first := images(t, at, "v1.2.3", programs)
	if len(first) != 3 {
		t.Fatalf("the images are %v", first)
	}
	for name := range first {
		t.Run(name, func(t *testing.T) { inspect(t, at, name) })
	}
	file, err := os.OpenFile(filepath.Join(at, "functions/busy/busy.go"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = file.WriteString("\n// Changed is what is new.\nfunc Changed() string { return doc + doc }\n\nvar changed = Changed()\n")
	if err := errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
	for name, digest := range images(t, at, "v1.2.4", programs) {
		if (first[name] == digest) != (name == "public-lb-forbidden") {
			t.Errorf("%s is %s, and after a change of busy, in another version, %s", name, first[name], digest)
		}
	}
	for want, env := range map[string]string{
		`there is no program and no class "x"`: "PROGRAMS=x", "there are amd64 and arm64": "ARCH=386", "can't be a tag of an image": "VERSION=a b",
	} {
		if said, err := run(t, at, []string{env}, "infra/images/build.sh"); err == nil || !strings.Contains(said, want) {
			t.Errorf("%s: %v\n%s", env, err, said)
		}
	}
}

func inspect(t *testing.T, at, name string) {
	p, err := layout.FromPath(filepath.Join(at, "bin/images/oci", name))
	if err != nil {
		t.Fatal(err)
	}
	index, err := p.ImageIndex()
	if err != nil {
		t.Fatal(err)
	}
	m, err := index.IndexManifest()
	if err != nil || len(m.Manifests) != 1 {
		t.Fatalf("the layout holds %+v, %v", m, err)
	}
	img, err := index.Image(m.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Image(img); err != nil {
		t.Fatal(err)
	}
	c, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	program := "/ko-app/" + strings.ReplaceAll(name, "-", "")
	want := v1.Config{
		User: "65532:65532", Entrypoint: []string{program}, Env: []string{"HOME=/", "USER=lbremedy", "PATH=/ko-app", "KO_DATA_PATH=/var/run/ko"},
		Labels: map[string]string{
			"org.opencontainers.image.title": name, "org.opencontainers.image.source": "https://github.com/lbremedy/lbremedy",
			"org.opencontainers.image.licenses": "Apache-2.0",
		},
	}
	args, said, code := []string{}, "LBREMEDY_CLUSTER", 1
	if name == "exporter" {
		want.Labels["org.opencontainers.image.version"] = "v1.2.3"
		args, said, code = []string{"--version"}, "v1.2.3\n", 0
	}
	if d := cmp.Diff(want, c.Config); d != "" {
		t.Errorf("configuration (-want +got):\n%s", d)
	}
	if c.OS != "linux" || c.Architecture != runtime.GOARCH {
		t.Errorf("the image is for %s", c.Platform())
	}
	files := filesOf(t, img)
	if len(files) != 1 || files[program] == nil {
		t.Fatalf("the image holds %d files, and not %s alone", len(files), program)
	}
	file := filepath.Join(t.TempDir(), path.Base(program))
	if err := os.WriteFile(file, files[program], 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), file, args...)
	cmd.Env = []string{}
	out, err := cmd.CombinedOutput()
	if err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	if got := cmd.ProcessState.ExitCode(); got != code || !strings.Contains(string(out), said) {
		t.Errorf("the program ends with %d and says %q, want %d and %q", got, out, code, said)
	}
	if modules := must(t, ".", nil, "go", "version", "-m", file); !strings.Contains(modules, "\tgolang.org/x/crypto/x509roots/fallback\t") {
		t.Errorf("the program brings no root certificates, and the image has none: %s", modules)
	}
}

func filesOf(t *testing.T, img v1.Image) map[string][]byte {
	t.Helper()
	layers, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]byte{}
	for _, l := range layers {
		r, err := l.Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		for in := tar.NewReader(r); ; {
			h, err := in.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if h.Uid != 0 || h.Gid != 0 || h.ModTime.Unix() > 0 || h.Mode&0o222 != 0 {
				t.Errorf("%s belongs to %d:%d, is from %s and has the mode %o", h.Name, h.Uid, h.Gid, h.ModTime, h.Mode)
			}
			if h.Typeflag == tar.TypeDir {
				continue
			}
			if out[h.Name], err = io.ReadAll(in); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// TestBase: the base of all images has no files, exists for both architectures, and is named by digest in ko.yaml.
func TestBase(t *testing.T) {
	dir := filepath.Join(root, "infra/images")
	p, err := layout.FromPath(filepath.Join(dir, "empty"))
	if err != nil {
		t.Fatal(err)
	}
	all, err := p.ImageIndex()
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(all); err != nil {
		t.Fatal(err)
	}
	m, err := all.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	config, err := os.ReadFile(filepath.Join(dir, "ko.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if at := "@" + m.Manifests[0].Digest.String() + "\n"; !strings.Contains(string(config), at) {
		t.Errorf("ko.yaml does not name the base %s", at)
	}
	index, err := all.ImageIndex(m.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	if m, err = index.IndexManifest(); err != nil {
		t.Fatal(err)
	}
	var on []string
	for _, d := range m.Manifests {
		img, err := index.Image(d.Digest)
		if err != nil {
			t.Fatal(err)
		}
		c, err := img.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		layers, err := img.Layers()
		if err != nil || len(layers) > 0 {
			t.Errorf("the base has %d layers, %v", len(layers), err)
		}
		on = append(on, d.Platform.String()+" "+c.Platform().String())
	}
	if d := cmp.Diff([]string{"linux/amd64 linux/amd64", "linux/arm64 linux/arm64"}, on); d != "" {
		t.Errorf("platforms of the index, and of its images (-want +got):\n%s", d)
	}
}
