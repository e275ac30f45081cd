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
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

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

// push says for each image, and what is beside it, what the registry has, and with apply
// pushes what it lacks and sets the tag. A registry that can't be asked is an error, not an
// empty one. What names others, the chart, comes after them.
func push(s store, repo, tag string, apply bool, out io.Writer, options ...remote.Option) error {
	if repo == "" {
		return errors.New("name the registry and namespace to push to, such as REGISTRY=registry.example/acme")
	}
	all, err := entries(s.layout())
	if err != nil {
		return err
	}
	if _, err := os.Stat(s.signatures()); err == nil {
		signed, err := entries(s.signatures())
		if err != nil {
			return err
		}
		all = append(signed, all...)
	}
	if tag == "" {
		if tag, err = s.tag(); err != nil {
			return err
		}
	}
	count := map[string]int{}
	lacks := map[string]int{}
	for _, b := range all {
		to, said, err := b.reference(repo, tag)
		if err != nil {
			return err
		}
		if b.grows() {
			if b, err = b.grown(to, options); err != nil {
				return err
			}
		}
		has, err := ask(to, b.digest, options)
		if err != nil {
			return err
		}
		kind := b.kind()
		count[kind]++
		if has != same {
			lacks[kind]++
			if apply {
				if err := b.write(to, options); err != nil {
					return fmt.Errorf("push %s: %w", to, err)
				}
				// What was pushed is asked for: a registry that takes an image and has another is told.
				if now, err := ask(to, b.digest, options); err != nil || now != same {
					return errors.Join(fmt.Errorf("%s is not %s after it was pushed", to, b.digest), err)
				}
			}
		}
		if b.named() {
			fmt.Fprintf(out, "%-28s %s  %s\n", said, b.digest, has)
		}
	}
	for _, kind := range []string{kindImage, kindChart, kindBeside} {
		if count[kind] == 0 {
			continue
		}
		form := "Pushed %d of %d %s to %s as %s.\n"
		switch {
		case lacks[kind] == 0:
			fmt.Fprintf(out, "All %d %s are in %s as %s.\n", count[kind], kind, repo, tag)
			continue
		case !apply:
			form = "%d of %d %s would be pushed to %s as %s; APPLY=1 pushes them.\n"
		}
		fmt.Fprintf(out, form, lacks[kind], count[kind], kind, repo, tag)
	}
	return nil
}

// What is pushed, in words.
const (
	kindImage  = "images"
	kindChart  = "charts"
	kindBeside = "SBOMs, attestations and signatures"
)

func (b built) kind() string {
	switch {
	case b.index != nil:
		return kindImage
	case b.named():
		return kindChart
	}
	return kindBeside
}

// named reports whether people ask for the entry by its name; for others tools look.
func (b built) named() bool { return !b.bare && !b.grows() }

// grows reports whether the entry is a tag of cosign's, under which all signatures or
// attestations of one digest stand.
func (b built) grows() bool { return strings.HasPrefix(b.tag, "sha256-") }

// reference returns the name of an entry in a registry, and how it is said.
func (b built) reference(repo, tag string) (name.Reference, string, error) {
	at, said := ":"+tag, b.name
	if b.tag != "" {
		at, said = ":"+b.tag, b.name+":"+b.tag
	}
	if b.bare {
		at = "@" + b.digest.String()
	}
	to, err := name.ParseReference(repo+"/"+b.name+at, name.StrictValidation)
	if err != nil {
		return nil, "", fmt.Errorf("name the image %s: %w", b.name, err)
	}
	return to, said, nil
}

// grown returns the entry with what the registry has under its tag already: a class whose
// code did not change has the image, and signatures, of earlier releases.
func (b built) grown(to name.Reference, options []remote.Option) (built, error) {
	there, err := head(to, options)
	if err != nil || there == (v1.Hash{}) || there == b.digest {
		return b, err
	}
	image, err := remote.Image(to, options...)
	if err != nil {
		return b, fmt.Errorf("read %s: %w", to, err)
	}
	has, err := image.Manifest()
	if err != nil {
		return b, fmt.Errorf("read %s: %w", to, err)
	}
	ours, err := b.image.Manifest()
	if err != nil {
		return b, err
	}
	known := map[string]bool{}
	for _, l := range has.Layers {
		known[l.Digest.String()+l.Annotations[signature]] = true
	}
	for _, l := range ours.Layers {
		if known[l.Digest.String()+l.Annotations[signature]] {
			continue
		}
		layer, err := b.image.LayerByDigest(l.Digest)
		if err != nil {
			return b, err
		}
		if image, err = mutate.Append(image, mutate.Addendum{Layer: layer, Annotations: l.Annotations, MediaType: l.MediaType}); err != nil {
			return b, fmt.Errorf("add to %s: %w", to, err)
		}
	}
	b.image = image
	b.digest, err = partial.Digest(image)
	return b, err
}

// write pushes an entry.
func (b built) write(to name.Reference, options []remote.Option) error {
	if b.index != nil {
		return remote.WriteIndex(to, b.index, options...)
	}
	return remote.Write(to, b.image, options...)
}

// What a registry has of an image, in words.
const (
	same   = "same"
	absent = "new: the registry has no such digest"
	tagged = "known: the tag is set" // the digest is there, under another tag
	moves  = ", the tag moves from "
)

// ask returns what the registry has of an image.
func ask(to name.Reference, digest v1.Hash, options []remote.Option) (string, error) {
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
	if refused, ok := errors.AsType[*transport.Error](err); ok && refused.StatusCode == http.StatusNotFound {
		return v1.Hash{}, nil
	}
	if err != nil {
		return v1.Hash{}, fmt.Errorf("ask the registry for %s: %w", ref, err)
	}
	return d.Digest, nil
}
