package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// An entry of a layout is named as in a registry, below its namespace: the images by the
// names of their programs, as they get the tag of the version; what has a tag of its own by
// name:tag; and what is found by what it is about alone, such as an SBOM, by name@digest.

// A built image is an entry of a layout: an image, or something beside it.
type built struct {
	name   string // of its repository
	tag    string // empty: that of the version
	bare   bool   // it has no tag: what it is about leads to it
	desc   v1.Descriptor
	digest v1.Hash
	index  v1.ImageIndex // of images
	image  v1.Image      // of all else
}

// entries returns what a layout holds, in its order.
func entries(at string) ([]built, error) {
	p, err := layout.FromPath(at)
	if errors.Is(err, os.ErrNotExist) {
		return nil, errors.New("no images are built: make images builds them")
	}
	if err != nil {
		return nil, fmt.Errorf("read the image layout: %w", err)
	}
	all, err := p.ImageIndex()
	if err != nil {
		return nil, fmt.Errorf("read the image layout: %w", err)
	}
	m, err := all.IndexManifest()
	if err != nil {
		return nil, fmt.Errorf("read the image layout: %w", err)
	}
	var out []built
	for _, d := range m.Manifests {
		name, _, bare := strings.Cut(d.Annotations[refName], "@")
		name, tag, _ := strings.Cut(name, ":")
		b := built{name: name, tag: tag, bare: bare, desc: d, digest: d.Digest}
		if d.MediaType.IsIndex() {
			b.index, err = all.ImageIndex(d.Digest)
		} else {
			b.image, err = all.Image(d.Digest)
		}
		if err != nil {
			return nil, fmt.Errorf("read %s of the image layout: %w", d.Annotations[refName], err)
		}
		out = append(out, b)
	}
	if len(out) == 0 {
		return nil, errors.New("the image layout is empty: make images builds the images")
	}
	return out, nil
}

// emptyConfig is what an artifact has that needs no configuration, in the words of the OCI's
// image specification.
var emptyConfig = blob{types.MediaType("application/vnd.oci.empty.v1+json"), []byte("{}")}

// A blob is a part of an artifact.
type blob struct {
	kind types.MediaType
	body []byte
}

// An artifact is something other than an image that a registry keeps.
type artifact struct {
	manifest []byte
	config   blob
	parts    map[v1.Hash]v1.Layer
}

// newArtifact makes an artifact of a kind; empty: that of its configuration. It is about the
// subject, if there is one, so that a registry lists it beside that.
func newArtifact(kind string, config blob, subject *v1.Descriptor, annotations map[string]string, parts ...blob) (v1.Image, error) {
	a := artifact{config: config, parts: map[v1.Hash]v1.Layer{}}
	m := v1.Manifest{SchemaVersion: 2, MediaType: types.OCIManifestSchema1, ArtifactType: kind, Annotations: annotations, Layers: []v1.Descriptor{}}
	hash, size, err := v1.SHA256(bytes.NewReader(config.body))
	if err != nil {
		return nil, err
	}
	m.Config = v1.Descriptor{MediaType: config.kind, Digest: hash, Size: size}
	if subject != nil {
		m.Subject = &v1.Descriptor{MediaType: subject.MediaType, Digest: subject.Digest, Size: subject.Size}
	}
	for _, p := range parts {
		layer := static.NewLayer(p.body, p.kind)
		d, err := partial.Descriptor(layer)
		if err != nil {
			return nil, err
		}
		m.Layers = append(m.Layers, *d)
		a.parts[d.Digest] = layer
	}
	if a.manifest, err = json.Marshal(m); err != nil {
		return nil, err
	}
	return partial.CompressedToImage(a)
}

// RawManifest returns the manifest.
func (a artifact) RawManifest() ([]byte, error) { return a.manifest, nil }

// RawConfigFile returns the configuration.
func (a artifact) RawConfigFile() ([]byte, error) { return a.config.body, nil }

// MediaType returns that of the manifest.
func (a artifact) MediaType() (types.MediaType, error) { return types.OCIManifestSchema1, nil }

// LayerByDigest returns one part.
func (a artifact) LayerByDigest(h v1.Hash) (partial.CompressedLayer, error) {
	if l, ok := a.parts[h]; ok {
		return l, nil
	}
	return nil, fmt.Errorf("the artifact has no part %s", h)
}
