// Pack builds the functions for Function Compute: for each class a zip with the program bootstrap, and the file SHA256SUMS.
//
// The name serves both runtimes: custom runtimes start the file bootstrap, and go1 the handler's, which infra/fc/go1.yaml sets to
// bootstrap. The program detects its runtime.
//
// Builds are reproducible: paths are trimmed, no version or commit is stamped in, and the zip holds no times. A class whose code did not
// change keeps its digest, and need not be deployed again.
package main

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lbremedy/lbremedy/functions"
	"github.com/lbremedy/lbremedy/infra/gen/folders"
	"github.com/lbremedy/lbremedy/shared/remedy"
)

// Recommended largest size of a class in bytes: the time of a cold start grows with it. "make bench" checks the largest class.
const (
	goalProgram = 18_000_000
	goalZip     = 7_000_000
)

func main() {
	dir := flag.String("C", ".", "root of the repository")
	out := flag.String("o", "bin/fc", "folder to write to")
	only := flag.String("classes", "", "classes, with commas between them; empty: all")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *dir, *out, *only, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "pack:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, dir, out, only string, say io.Writer) error {
	all := names(functions.All)
	chosen, err := choose(all, only)
	if err != nil {
		return err
	}
	programs, err := os.MkdirTemp("", "lbremedy-pack-")
	if err != nil {
		return fmt.Errorf("make a folder for the programs: %w", err)
	}
	defer func() { _ = os.RemoveAll(programs) }()
	if err := build(ctx, dir, programs, chosen); err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return fmt.Errorf("make the folder for the zips: %w", err)
	}
	lines, fresh := make([]string, len(chosen)), make([]string, len(chosen))
	var g errgroup.Group
	g.SetLimit(runtime.NumCPU())
	for i, class := range chosen {
		g.Go(func() (err error) {
			lines[i], fresh[i], err = write(programs, out, class)
			return err
		})
	}
	if err := errors.Join(g.Wait(), removeOthers(out, all)); err != nil {
		return err
	}
	sums, err := earlier(out)
	if err != nil {
		return err
	}
	for i, class := range chosen {
		sums[class] = fresh[i]
	}
	text := ""
	for _, class := range all {
		text += sums[class]
	}
	if err := os.WriteFile(filepath.Join(out, "SHA256SUMS"), []byte(text), 0o644); err != nil {
		return fmt.Errorf("write the checksums: %w", err)
	}
	_, err = io.WriteString(say, strings.Join(lines, ""))
	return err
}

// write returns the line to print and the line for SHA256SUMS.
func write(programs, out, class string) (line, sum string, err error) {
	program, err := os.ReadFile(filepath.Join(programs, folders.Name(class)))
	if err != nil {
		return "", "", fmt.Errorf("read the program of %s: %w", class, err)
	}
	packed, err := pack(program)
	if err != nil {
		return "", "", fmt.Errorf("pack %s: %w", class, err)
	}
	name := class + ".zip"
	if err := os.WriteFile(filepath.Join(out, name), packed, 0o644); err != nil {
		return "", "", fmt.Errorf("write %s: %w", name, err)
	}
	line = fmt.Sprintf("%-28s %5.2f MB  zipped %4.2f MB", class, float64(len(program))/1e6, float64(len(packed))/1e6)
	if len(program) > goalProgram || len(packed) > goalZip {
		line += "  more than it should have"
	}
	return line + "\n", fmt.Sprintf("%x  %s\n", sha256.Sum256(packed), name), nil
}

func names(all []*remedy.Remedy) []string {
	var out []string
	for _, r := range all {
		out = append(out, r.Class)
	}
	slices.Sort(out)
	return out
}

func choose(all []string, only string) ([]string, error) {
	if only == "" {
		return all, nil
	}
	var chosen []string
	for class := range strings.SplitSeq(only, ",") {
		if !slices.Contains(all, class) {
			return nil, fmt.Errorf("unknown class %q: functions/README.md lists them", class)
		}
		chosen = append(chosen, class)
	}
	slices.Sort(chosen)
	return slices.Compact(chosen), nil
}

// build names the programs after the class folders. Both runtimes are Linux on amd64, without a dependable C library. The linker drops
// the debugging data: with the Makefile's flags no package is compiled twice.
func build(ctx context.Context, dir, into string, all []string, flags ...string) error {
	args := append([]string{"build", "-trimpath", "-gcflags=all=-dwarf=false", "-buildvcs=false", "-ldflags=-s -w -buildid=",
		"-o", into + string(filepath.Separator)}, flags...)
	for _, class := range all {
		name := folders.Name(class)
		args = append(args, "./functions/"+name+"/cmd/"+name)
	}
	c := exec.CommandContext(ctx, "go", args...)
	c.Dir = dir
	c.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64", "GOAMD64=v1", "GOFLAGS=", "GOEXPERIMENT=")
	c.Stdout, c.Stderr = os.Stderr, os.Stderr
	if err := c.Run(); err != nil {
		return fmt.Errorf("go build: %w", err)
	}
	return nil
}

// oldest is the earliest time that a zip can represent.
var oldest = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)

func pack(program []byte) ([]byte, error) {
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	z.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) { return flate.NewWriter(w, flate.BestCompression) })
	header := &zip.FileHeader{Name: "bootstrap", Method: zip.Deflate, Modified: oldest}
	header.SetMode(0o755)
	w, err := z.CreateHeader(header)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(program); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// earlier returns the lines of SHA256SUMS by class: a zip that is not built now must not have changed.
func earlier(dir string) (map[string]string, error) {
	text, err := os.ReadFile(filepath.Join(dir, "SHA256SUMS"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the checksums: %w", err)
	}
	lines := map[string]string{}
	for line := range strings.Lines(string(text)) {
		_, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		lines[strings.TrimSuffix(name, ".zip")] = line
	}
	return lines, nil
}

func removeOthers(dir string, all []string) error {
	found, err := filepath.Glob(filepath.Join(dir, "*.zip"))
	if err != nil {
		return fmt.Errorf("list the zips: %w", err)
	}
	for _, name := range found {
		class := strings.TrimSuffix(filepath.Base(name), ".zip")
		if slices.Contains(all, class) {
			continue
		}
		if err := os.Remove(name); err != nil {
			return fmt.Errorf("remove the zip of a class that is gone: %w", err)
		}
	}
	return nil
}
