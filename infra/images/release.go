package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// A release is the folder that infra/release builds: what people download, and in images a
// store. Its SHA256SUMS names all but what its digest names, and what comes after it:
// signatures, which are no part of what is the same each time.
type release string

func (r release) store() store            { return store(filepath.Join(string(r), "images")) }
func (r release) file(name string) string { return filepath.Join(string(r), name) }

// Files of a release that it does not name itself.
const (
	sumsFile      = "SHA256SUMS"
	signatureFile = "SHA256SUMS.sig"
	publicFile    = "cosign.pub"
)

// complete adds to images that are built the chart, the SBOMs and where all is from, and
// names everything. Notes are said in the chart if the folder has any.
func complete(root string, r release, o origin, out io.Writer) error {
	s := r.store()
	all, err := entries(s.layout())
	if err != nil {
		return err
	}
	images := slices.DeleteFunc(all, func(b built) bool { return b.index == nil })
	into, err := layout.FromPath(s.layout())
	if err != nil {
		return fmt.Errorf("read the image layout: %w", err)
	}
	if err := into.RemoveDescriptors(func(d v1.Descriptor) bool { return !d.MediaType.IsIndex() }); err != nil {
		return fmt.Errorf("remove what was added before: %w", err)
	}
	add := func(ref string, image v1.Image, err error) error {
		if err == nil {
			err = into.AppendImage(image, layout.WithAnnotations(map[string]string{refName: ref}))
		}
		if err != nil {
			return fmt.Errorf("add %s to the image layout: %w", ref, err)
		}
		return nil
	}
	beside := func(name string, kind string, body []byte, about v1.Descriptor) error {
		image, err := newArtifact(kind, emptyConfig, &about, nil, blob{types.MediaType(kind), body})
		if err != nil {
			return err
		}
		digest, err := image.Digest()
		return add(name+"@"+digest.String(), image, err)
	}
	from := func(name string, about v1.Descriptor, parts ...v1.Descriptor) error {
		subjects := []subject{known(name, about.Digest)}
		for _, p := range parts {
			subjects = append(subjects, known(name, p.Digest))
		}
		text, err := o.about(subjects...)
		if err != nil {
			return err
		}
		return beside(name, statementKind, text, about)
	}
	for _, b := range images {
		m, err := b.index.IndexManifest()
		if err != nil {
			return err
		}
		for _, d := range m.Manifests {
			text, err := os.ReadFile(s.document(b.name, *d.Platform))
			if err != nil {
				return fmt.Errorf("read the SBOM of %s: %w", b.name, err)
			}
			if err := beside(b.name, "application/spdx+json", text, d); err != nil {
				return err
			}
		}
		if err := from(b.name, b.desc, m.Manifests...); err != nil {
			return err
		}
	}

	notes, err := os.ReadFile(r.file("NOTES.md"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the release notes: %w", err)
	}
	c, err := packChart(root, o.version, string(notes), images)
	if err != nil {
		return err
	}
	if err := os.WriteFile(r.file(c.file), c.packed, 0o644); err != nil {
		return fmt.Errorf("write the chart: %w", err)
	}
	image, err := newArtifact("", blob{helmConfig, c.config}, nil, map[string]string{
		"org.opencontainers.image.title": "lbremedy", "org.opencontainers.image.version": c.version,
		"org.opencontainers.image.source": source, "org.opencontainers.image.licenses": licenses,
	}, blob{helmChart, c.packed})
	if err != nil {
		return err
	}
	about, err := descriptor(image)
	if err != nil {
		return err
	}
	if err := from("charts/lbremedy", about); err != nil {
		return err
	}
	hub, err := os.ReadFile(under(root, "infra/release/artifacthub-repo.yml"))
	if err != nil {
		return fmt.Errorf("read what Artifact Hub is told: %w", err)
	}
	told, err := newArtifact("", blob{hubConfig, []byte("{}")}, nil, nil, blob{hubFile, hub})
	if err := add("charts/lbremedy:artifacthub.io", told, err); err != nil {
		return err
	}
	// The chart comes last: it names the others.
	if err := add("charts/lbremedy:"+strings.ReplaceAll(c.version, "+", "_"), image, nil); err != nil {
		return err
	}
	fmt.Fprintf(out, "%-28s %s\n", "charts/lbremedy:"+c.version, about.Digest)

	// The sums of the images alone are among those of the whole.
	if err := os.Remove(filepath.Join(string(s), sumsFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	const provenanceFile = "provenance.intoto.json"
	if err := os.RemoveAll(r.file(provenanceFile)); err != nil {
		return err
	}
	sums, err := r.sums()
	if err != nil {
		return err
	}
	var subjects []subject
	for _, f := range sums {
		subjects = append(subjects, subject{f.name, map[string]string{"sha256": f.sum}})
	}
	text, err := o.about(subjects...)
	if err != nil {
		return err
	}
	if err := os.WriteFile(r.file(provenanceFile), text, 0o644); err != nil {
		return fmt.Errorf("write where the release is from: %w", err)
	}
	if sums, err = r.sums(); err != nil {
		return err
	}
	var list strings.Builder
	for _, f := range sums {
		fmt.Fprintf(&list, "%s  %s\n", f.sum, f.name)
	}
	if err := os.WriteFile(r.file(sumsFile), []byte(list.String()), 0o644); err != nil {
		return fmt.Errorf("write the checksums: %w", err)
	}
	return nil
}

// descriptor returns that of an artifact.
func descriptor(image v1.Image) (v1.Descriptor, error) {
	var d v1.Descriptor
	text, err := image.RawManifest()
	if err != nil {
		return d, err
	}
	d.Size = int64(len(text))
	if d.MediaType, err = image.MediaType(); err != nil {
		return d, err
	}
	d.Digest, err = image.Digest()
	return d, err
}

// A sum is that of a file of a release.
type sum struct{ name, sum string }

// sums returns the sums of a release's files, by their names.
func (r release) sums() ([]sum, error) {
	var out []sum
	err := fs.WalkDir(os.DirFS(string(r)), ".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && (name == "images/oci/blobs" || name == "signatures"):
			return fs.SkipDir
		case e.IsDir() || slices.Contains([]string{sumsFile, signatureFile, publicFile}, name):
			return nil
		}
		f, err := os.Open(r.file(filepath.FromSlash(name)))
		if err != nil {
			return err
		}
		defer f.Close()
		h := sha256.New()
		if _, err := io.Copy(h, f); err != nil {
			return err
		}
		out = append(out, sum{name, fmt.Sprintf("%x", h.Sum(nil))})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("sum the files of the release: %w", err)
	}
	return out, nil
}

// unchanged returns an error unless the files of a release are those that its SHA256SUMS names.
func (r release) unchanged() error {
	text, err := os.ReadFile(r.file(sumsFile))
	if err != nil {
		return fmt.Errorf("read the checksums: make release writes them: %w", err)
	}
	now, err := r.sums()
	if err != nil {
		return err
	}
	var list strings.Builder
	for _, f := range now {
		fmt.Fprintf(&list, "%s  %s\n", f.sum, f.name)
	}
	if list.String() != string(text) {
		return errors.New("the files of the release are not what its SHA256SUMS says: build it again")
	}
	return nil
}

// originOf returns what a release of the tree is made from.
func originOf(root, version, commit string) (origin, error) {
	o := origin{version: version, commit: commit}
	text, err := os.ReadFile(under(root, "go.sum"))
	if err != nil {
		return o, fmt.Errorf("read go.sum: %w", err)
	}
	o.sums = fmt.Sprintf("%x", sha256.Sum256(text))
	c := exec.Command("go", "env", "GOVERSION")
	c.Dir = root
	toolset, err := c.Output()
	if err != nil {
		return o, fmt.Errorf("ask Go for its version: %w", err)
	}
	o.toolset = strings.TrimSpace(string(toolset))
	return o, nil
}
