package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// epoch is the time of all files and images: a time of building would make each
// build another one.
var epoch = time.Unix(0, 0).UTC()

// user is who programs run as: nobody that a node knows.
const user = 65532

// An entry is a file of an image, or a folder if its name ends with a slash.
type entry struct {
	name string // without a slash before it
	mode int64
	body []byte
}

// layer makes a layer of files, which belong to root and have no time of their own.
func layer(entries []entry) (v1.Layer, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range entries {
		h := &tar.Header{Format: tar.FormatUSTAR, Typeflag: tar.TypeReg, Name: e.name, Mode: e.mode, Size: int64(len(e.body)), ModTime: epoch}
		if strings.HasSuffix(e.name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, fmt.Errorf("write %s: %w", e.name, err)
		}
		if _, err := w.Write(e.body); err != nil {
			return nil, fmt.Errorf("write %s: %w", e.name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(out.Bytes())), nil }
	return tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching, tarball.WithCompressionLevel(6))
}

// withFolders puts before the files all folders that they stand in, each once.
func withFolders(files []entry) []entry {
	var out []entry
	seen := map[string]bool{}
	for _, f := range files {
		for i, c := range f.name {
			if c == '/' && i < len(f.name)-1 && !seen[f.name[:i+1]] {
				seen[f.name[:i+1]] = true
				out = append(out, entry{name: f.name[:i+1], mode: 0o755})
			}
		}
		out = append(out, f)
	}
	return out
}

// base makes the layer that all images share: the user, a folder for temporary files,
// root certificates and time zones, where Go looks for them.
func base(ctx context.Context) (v1.Layer, error) {
	roots, err := roots()
	if err != nil {
		return nil, err
	}
	zones, err := zones(ctx)
	if err != nil {
		return nil, err
	}
	return layer(withFolders(append([]entry{
		{name: "etc/group", mode: 0o444, body: fmt.Appendf(nil, "root:x:0:\nlbremedy:x:%d:\n", user)},
		{name: "etc/passwd", mode: 0o444, body: fmt.Appendf(nil, "root:x:0:0:root:/:/nologin\nlbremedy:x:%d:%[1]d:lbremedy:/:/nologin\n", user)},
		{name: "etc/ssl/certs/ca-certificates.crt", mode: 0o444, body: roots},
		{name: "tmp/", mode: 0o1777},
	}, zones...)))
}

// roots returns the root certificates that Mozilla trusts, as PEM. Those that it
// trusts with a condition are left out: the file can't say the condition.
func roots() ([]byte, error) {
	var out bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			continue
		}
		c, err := x509.ParseCertificate(root.Certificate)
		if err != nil {
			return nil, fmt.Errorf("parse a root certificate: %w", err)
		}
		fmt.Fprintf(&out, "# %s\n", c.Subject)
		if err := pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), nil
}

// zones returns the time zones that come with Go, by which the policy file's freezes
// are read.
func zones(ctx context.Context) ([]entry, error) {
	goroot, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("ask Go where it is: %w", err)
	}
	z, err := zip.OpenReader(filepath.Join(strings.TrimSpace(string(goroot)), "lib", "time", "zoneinfo.zip"))
	if err != nil {
		return nil, fmt.Errorf("open Go's time zones: %w", err)
	}
	defer z.Close()
	var out []entry
	for _, f := range z.File {
		if strings.HasSuffix(f.Name, "/") {
			continue
		}
		r, err := f.Open()
		if err != nil {
			return nil, fmt.Errorf("read the time zone %s: %w", f.Name, err)
		}
		body, err := io.ReadAll(r)
		if err := errors.Join(err, r.Close()); err != nil {
			return nil, fmt.Errorf("read the time zone %s: %w", f.Name, err)
		}
		out = append(out, entry{name: "usr/share/zoneinfo/" + f.Name, mode: 0o444, body: body})
	}
	slices.SortFunc(out, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	return out, nil
}
