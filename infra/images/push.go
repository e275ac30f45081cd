package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// A built image is one of a store.
type built struct {
	name   string
	digest v1.Hash
	index  v1.ImageIndex
}

// images returns the images of the store, in the order of their names.
func (s store) images() ([]built, error) {
	p, err := layout.FromPath(s.layout())
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
		index, err := all.ImageIndex(d.Digest)
		if err != nil {
			return nil, fmt.Errorf("read the image %s: %w", d.Annotations[refName], err)
		}
		out = append(out, built{d.Annotations[refName], d.Digest, index})
	}
	if len(out) == 0 {
		return nil, errors.New("the image layout is empty: make images builds the images")
	}
	return out, nil
}

// tag returns the version that the store was built with.
func (s store) tag() (string, error) {
	text, err := os.ReadFile(filepath.Join(string(s), "digests.yaml"))
	if err != nil {
		return "", fmt.Errorf("read the version of the images: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		if quoted, ok := strings.CutPrefix(strings.TrimSpace(line), "tag: "); ok {
			return strconv.Unquote(quoted)
		}
	}
	return "", errors.New("digests.yaml names no tag: make images writes it again")
}

// push says for each image what the registry has, and with apply pushes what it lacks
// and sets the tag. A registry that can't be asked is an error, not an empty one.
func push(s store, repo, tag string, apply bool, out io.Writer, options ...remote.Option) error {
	if repo == "" {
		return errors.New("name the registry and namespace to push to, such as REGISTRY=registry.example/acme")
	}
	images, err := s.images()
	if err != nil {
		return err
	}
	if tag == "" {
		if tag, err = s.tag(); err != nil {
			return err
		}
	}
	todo := 0
	for _, b := range images {
		to, err := name.NewTag(repo+"/"+b.name+":"+tag, name.StrictValidation)
		if err != nil {
			return fmt.Errorf("name the image %s: %w", b.name, err)
		}
		has, err := ask(to, b.digest, options)
		if err != nil {
			return err
		}
		if has != same {
			todo++
			if apply {
				if err := remote.WriteIndex(to, b.index, options...); err != nil {
					return fmt.Errorf("push %s: %w", to, err)
				}
				// What was pushed is asked for: a registry that takes an image and has another is told.
				if now, err := ask(to, b.digest, options); err != nil || now != same {
					return errors.Join(fmt.Errorf("%s is not %s after it was pushed", to, b.digest), err)
				}
			}
		}
		fmt.Fprintf(out, "%-28s %s  %s\n", b.name, b.digest, has)
	}
	switch {
	case todo == 0:
		fmt.Fprintf(out, "All %d images are in %s as %s.\n", len(images), repo, tag)
	case apply:
		fmt.Fprintf(out, "Pushed %d of %d images to %s as %s.\n", todo, len(images), repo, tag)
	default:
		fmt.Fprintf(out, "%d of %d images would be pushed to %s as %s; APPLY=1 pushes them.\n", todo, len(images), repo, tag)
	}
	return nil
}

// What a registry has of an image, in words.
const (
	same   = "same"
	absent = "new: the registry has no such digest"
	tagged = "known: the tag is set" // the digest is there, under another tag
	moves  = ", the tag moves from "
)

// ask returns what the registry has of an image.
func ask(to name.Tag, digest v1.Hash, options []remote.Option) (string, error) {
	under, err := head(to, options)
	if err != nil {
		return "", err
	}
	if under == digest {
		return same, nil
	}
	at, err := head(to.Context().Digest(digest.String()), options)
	if err != nil {
		return "", err
	}
	has := absent
	if at == digest {
		has = tagged
	}
	if under != (v1.Hash{}) {
		has += moves + under.String()
	}
	return has, nil
}

// head returns the digest of what a name stands for; none if there is nothing.
func head(ref name.Reference, options []remote.Option) (v1.Hash, error) {
	d, err := remote.Head(ref, options...)
	var refused *transport.Error
	if errors.As(err, &refused) && refused.StatusCode == http.StatusNotFound {
		return v1.Hash{}, nil
	}
	if err != nil {
		return v1.Hash{}, fmt.Errorf("ask the registry for %s: %w", ref, err)
	}
	return d.Digest, nil
}
