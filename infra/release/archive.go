package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

// A file is one of an archive.
type file struct {
	name string
	mode fs.FileMode
	text []byte
}

// oldest is the first time that a zip can tell: what is packed has no other.
var oldest = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)

// archive returns the name of the archive of a program.
func (p platform) archive(program, version string) string {
	end := ".tar.gz"
	if p.OS == "windows" {
		end = ".zip"
	}
	return program + "_" + version + "_" + p.OS + "_" + p.Arch + end
}

// pack returns an archive of the kind that is usual on the platform.
func (p platform) pack(files []file) ([]byte, error) {
	if p.OS == "windows" {
		return zipped(files)
	}
	return tarred(files)
}

func zipped(files []file) ([]byte, error) {
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	for _, f := range files {
		h := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: oldest}
		h.SetMode(f.mode)
		w, err := z.CreateHeader(h)
		if err != nil {
			return nil, err
		}
		if _, err := w.Write(f.text); err != nil {
			return nil, err
		}
	}
	err := z.Close()
	return out.Bytes(), err
}

func tarred(files []file) ([]byte, error) {
	var out bytes.Buffer
	g := gzip.NewWriter(&out)
	t := tar.NewWriter(g)
	for _, f := range files {
		h := &tar.Header{Name: f.name, Mode: int64(f.mode), Size: int64(len(f.text)), ModTime: oldest, Format: tar.FormatUSTAR}
		if err := t.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := t.Write(f.text); err != nil {
			return nil, err
		}
	}
	err := errors.Join(t.Close(), g.Close())
	return out.Bytes(), err
}

// write writes an archive of files.
func write(to string, files []file) error {
	packed, err := tarred(files)
	if err != nil {
		return fmt.Errorf("pack %s: %w", to, err)
	}
	if err := os.WriteFile(to, packed, 0o644); err != nil {
		return fmt.Errorf("write the archive: %w", err)
	}
	return nil
}
