package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

const (
	source   = "https://github.com/lbremedy/lbremedy"
	licenses = "Apache-2.0"
	bin      = "usr/local/bin/" // of the programs, in the images

	// Of an image in a layout: its name.
	refName = "org.opencontainers.image.ref.name"
)

// A store is the folder that images are built into:
//
//	oci/          one OCI image layout, with an index of both architectures by the name of each program
//	sbom/         an SPDX document for each program and architecture
//	digests.yaml  tag and digests, as values of the chart
//	SHA256SUMS    of all that is not named by its digest already
type store string

func (s store) layout() string { return filepath.Join(string(s), "oci") }

// document returns the file of the SBOM of an image.
func (s store) document(name string, on v1.Platform) string {
	return filepath.Join(string(s), "sbom", fmt.Sprintf("%s.%s-%s.spdx.json", name, on.OS, on.Architecture))
}

// under returns a path below the root, unless it is absolute.
func under(root, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(root, filepath.FromSlash(path))
}

// platforms returns Linux on the architectures.
func platforms(arches string) ([]v1.Platform, error) {
	var out []v1.Platform
	for arch := range strings.SplitSeq(arches, ",") {
		if arch != "amd64" && arch != "arm64" {
			return nil, fmt.Errorf("architecture %q: there are amd64 and arm64", arch)
		}
		p := v1.Platform{OS: "linux", Architecture: arch}
		if !slices.ContainsFunc(out, p.Equals) {
			out = append(out, p)
		}
	}
	return out, nil
}

// build builds the programs, and from them the store, and says the digest of each
// image. What the store held is replaced. The flags are for go build.
func build(ctx context.Context, root string, s store, programs []program, platforms []v1.Platform, version string, out io.Writer, flags ...string) error {
	if _, err := name.NewTag("registry.invalid/lbremedy:"+version, name.StrictValidation); err != nil {
		return fmt.Errorf("version %q can't be a tag of an image: %w", version, err)
	}
	made, err := os.MkdirTemp("", "lbremedy-images-")
	if err != nil {
		return fmt.Errorf("make a folder for the programs: %w", err)
	}
	defer func() { _ = os.RemoveAll(made) }()
	for _, p := range platforms {
		if err := compile(ctx, root, filepath.Join(made, p.Architecture), p, programs, flags); err != nil {
			return err
		}
	}
	return assemble(ctx, s, made, programs, platforms, version, out)
}

// compile builds the programs for one platform into a folder, without debugging data, which the linker drops: with the
// flags of the Makefile no package is compiled a second time.
func compile(ctx context.Context, root, into string, on v1.Platform, programs []program, flags []string) error {
	stamps := map[string][]string{}
	for _, p := range programs {
		stamps[p.stamp] = append(stamps[p.stamp], "./"+p.dir)
	}
	for stamp, packages := range stamps {
		link := "-s -w -buildid="
		if stamp != "" {
			link += " -X main.version=" + stamp
		}
		args := append([]string{"build", "-trimpath", "-gcflags=all=-dwarf=false", "-buildvcs=false", "-ldflags=" + link,
			"-o", into + string(filepath.Separator)}, flags...)
		c := exec.CommandContext(ctx, "go", append(args, packages...)...)
		c.Dir = root
		// The user's own settings would make other bytes.
		c.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0", "GOOS="+on.OS, "GOARCH="+on.Architecture, "GOAMD64=v1", "GOARM64=v8.0", "GOFLAGS=",
			"GOEXPERIMENT=")
		c.Stdout, c.Stderr = os.Stderr, os.Stderr
		if err := c.Run(); err != nil {
			return fmt.Errorf("go build for %s: %w", on, err)
		}
	}
	return nil
}

// assemble makes the store from programs that are built, in a folder for each architecture.
func assemble(ctx context.Context, s store, made string, programs []program, platforms []v1.Platform, version string, out io.Writer) error {
	shared, err := base(ctx)
	if err != nil {
		return err
	}
	for _, old := range []string{s.layout(), filepath.Join(string(s), "sbom")} {
		if err := os.RemoveAll(old); err != nil {
			return fmt.Errorf("remove what was built before: %w", err)
		}
	}
	if err := os.MkdirAll(filepath.Join(string(s), "sbom"), 0o755); err != nil {
		return fmt.Errorf("make the folder of the images: %w", err)
	}
	into, err := layout.Write(s.layout(), empty.Index)
	if err != nil {
		return fmt.Errorf("begin the image layout: %w", err)
	}
	var values bytes.Buffer
	fmt.Fprintf(&values, "# What make images built, for the chart: helm upgrade -f digests.yaml --set image.registry=...\nimage:\n  tag: %q\n "+
		" digests:\n", version)
	for _, p := range programs {
		index, err := s.image(p, shared, made, platforms)
		if err != nil {
			return fmt.Errorf("make the image of %s: %w", p.name, err)
		}
		if err := into.AppendIndex(index, layout.WithAnnotations(map[string]string{refName: p.name})); err != nil {
			return fmt.Errorf("write the image of %s: %w", p.name, err)
		}
		digest, err := index.Digest()
		if err != nil {
			return err
		}
		fmt.Fprintf(&values, "    %s: %s\n", p.name, digest)
		fmt.Fprintf(out, "%-28s %s\n", p.name, digest)
	}
	if err := os.WriteFile(filepath.Join(string(s), "digests.yaml"), values.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write the digests: %w", err)
	}
	return s.sums()
}

// image makes the index of one program, and writes its SBOMs.
func (s store) image(p program, shared v1.Layer, made string, platforms []v1.Platform) (v1.ImageIndex, error) {
	parts := make([]mutate.IndexAddendum, len(platforms))
	errs := make([]error, len(platforms))
	var wait sync.WaitGroup
	for i, on := range platforms {
		wait.Go(func() {
			file := filepath.Join(made, on.Architecture, p.file())
			img, err := image(p, shared, file, on)
			if err != nil {
				errs[i] = err
				return
			}
			digest, err := img.Digest() // compresses the layer
			if err != nil {
				errs[i] = err
				return
			}
			parts[i] = mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: &on}}
			text, err := sbom(p.name, file, on, digest)
			if err != nil {
				errs[i] = err
				return
			}
			errs[i] = os.WriteFile(s.document(p.name, on), text, 0o644)
		})
	}
	wait.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex), parts...), nil
}

// image makes the image of one program for one platform.
func image(p program, shared v1.Layer, file string, on v1.Platform) (v1.Image, error) {
	body, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the program: %w", err)
	}
	own, err := layer(withFolders([]entry{{name: bin + p.name, mode: 0o555, body: body}}))
	if err != nil {
		return nil, err
	}
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	if img, err = mutate.AppendLayers(img, shared, own); err != nil {
		return nil, err
	}
	c, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	version := p.stamp
	if version == "" {
		version = fmt.Sprintf("%x", sha256.Sum256(body))[:12]
	}
	c = c.DeepCopy()
	c.Created, c.OS, c.Architecture = v1.Time{Time: epoch}, on.OS, on.Architecture
	c.History = nil
	c.Config = v1.Config{
		User:       fmt.Sprintf("%d:%[1]d", user),
		Entrypoint: []string{"/" + bin + p.name},
		Env:        []string{"PATH=/" + strings.TrimSuffix(bin, "/")},
		WorkingDir: "/",
		Labels: map[string]string{
			"org.opencontainers.image.title":    p.name,
			"org.opencontainers.image.version":  version,
			"org.opencontainers.image.source":   source,
			"org.opencontainers.image.licenses": licenses,
		},
	}
	return mutate.ConfigFile(img, c)
}

// sums writes SHA256SUMS.
func (s store) sums() error {
	files, err := filepath.Glob(filepath.Join(string(s), "sbom", "*"))
	if err != nil {
		return err
	}
	files = append([]string{filepath.Join(string(s), "digests.yaml"), filepath.Join(s.layout(), "index.json")}, files...)
	var out bytes.Buffer
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("sum what was built: %w", err)
		}
		rel, err := filepath.Rel(string(s), file)
		if err != nil {
			return err
		}
		fmt.Fprintf(&out, "%x  %s\n", sha256.Sum256(text), filepath.ToSlash(rel))
	}
	if err := os.WriteFile(filepath.Join(string(s), "SHA256SUMS"), out.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write the checksums: %w", err)
	}
	return nil
}

// indent writes JSON that people can read.
func indent(v any) ([]byte, error) {
	text, err := json.MarshalIndent(v, "", "  ")
	return append(text, '\n'), err
}
