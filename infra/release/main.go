// Release builds what people download of a version: for each platform an archive with
// lbremedy, its completions and the licences of all that is linked into it, SHA256SUMS, and
// the manifest by which krew installs it as a plugin of kubectl.
//
// The same source makes the same bytes, whoever builds it, when and where: paths are
// trimmed, and archives hold no times and no owners.
package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"text/template"
)

// A platform is one that a program is built for, as Go names it.
type platform struct{ OS, Arch string }

var platforms = []platform{
	{"darwin", "amd64"}, {"darwin", "arm64"}, {"linux", "amd64"}, {"linux", "arm64"}, {"windows", "amd64"}, {"windows", "arm64"},
}

func main() {
	dir := flag.String("C", ".", "root of the repository")
	out := flag.String("o", "bin/release", "folder to write to")
	version := flag.String("version", "", "version, such as v0.1.0; required")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err := tagged(ctx, *dir, *version)
	if err == nil {
		err = release(ctx, *dir, *out, *version, platforms)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		stop()
		os.Exit(1)
	}
}

var versions = regexp.MustCompile(`^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$`)

// tagged returns an error unless the tree is the commit that has the version as its tag,
// with nothing changed.
func tagged(ctx context.Context, dir, version string) error {
	if !versions.MatchString(version) {
		return fmt.Errorf("%q is no version: name one such as v0.1.0", version)
	}
	at, err := run(ctx, dir, nil, "git", "describe", "--tags", "--exact-match", "--match", version, "--dirty")
	if err != nil {
		return fmt.Errorf("this commit has no tag %s: git tag %[1]s, then try again: %w", version, err)
	}
	if got := strings.TrimSpace(string(at)); got != version {
		return fmt.Errorf("the tree is %s: commit what has changed, and tag that", got)
	}
	return nil
}

// release writes the archives of a version for some platforms into a folder, and what
// names them.
func release(ctx context.Context, dir, out, version string, all []platform) error {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return fmt.Errorf("make the folder of the release: %w", err)
	}
	old, err := filepath.Glob(filepath.Join(out, "lbremedy_*"))
	if err != nil {
		return fmt.Errorf("look for an earlier release: %w", err)
	}
	for _, name := range old {
		if err := os.Remove(name); err != nil {
			return fmt.Errorf("remove an earlier release: %w", err)
		}
	}
	work, err := os.MkdirTemp("", "lbremedy-release-")
	if err != nil {
		return fmt.Errorf("make a folder for the programs: %w", err)
	}
	defer func() { _ = os.RemoveAll(work) }()
	completions, err := completions(ctx, dir, work, version)
	if err != nil {
		return err
	}
	licence, err := os.ReadFile(filepath.Join(dir, "LICENSE"))
	if err != nil {
		return fmt.Errorf("read our licence: %w", err)
	}
	var sums strings.Builder
	var built []download
	for _, p := range all {
		program, err := build(ctx, dir, work, version, p)
		if err != nil {
			return err
		}
		licences, err := licences(ctx, dir, p)
		if err != nil {
			return err
		}
		files := append([]file{{p.program(), 0o755, program}, {"LICENSE", 0o644, licence}, {"LICENSES-OF-LIBRARIES", 0o644, licences}}, completions...)
		packed, err := p.pack(files)
		if err != nil {
			return fmt.Errorf("pack the program for %s on %s: %w", p.OS, p.Arch, err)
		}
		d := download{platform: p, Name: p.archive(version), Sum: fmt.Sprintf("%x", sha256.Sum256(packed))}
		if err := os.WriteFile(filepath.Join(out, d.Name), packed, 0o644); err != nil {
			return fmt.Errorf("write the archive: %w", err)
		}
		fmt.Fprintf(&sums, "%s  %s\n", d.Sum, d.Name)
		built = append(built, d)
	}
	manifest, err := krew(version, built)
	if err != nil {
		return err
	}
	fmt.Fprintf(&sums, "%x  krew.yaml\n", sha256.Sum256(manifest))
	err = os.WriteFile(filepath.Join(out, "krew.yaml"), manifest, 0o644)
	if err := errors.Join(err, os.WriteFile(filepath.Join(out, "SHA256SUMS"), []byte(sums.String()), 0o644)); err != nil {
		return fmt.Errorf("write what names the archives: %w", err)
	}
	return nil
}

// program returns the name of the program on the platform.
func (p platform) program() string {
	if p.OS == "windows" {
		return "lbremedy.exe"
	}
	return "lbremedy"
}

// environment returns that of a build, in which nothing of this machine counts.
func (p platform) environment() []string {
	return append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0", "GOOS="+p.OS, "GOARCH="+p.Arch, "GOAMD64=v1", "GOARM64=v8.0", "GOFLAGS=", "GOEXPERIMENT=")
}

// build returns the program for a platform.
func build(ctx context.Context, dir, work, version string, p platform) ([]byte, error) {
	to := filepath.Join(work, p.OS+"-"+p.Arch)
	_, err := run(ctx, dir, p.environment(), "go", "build", "-trimpath", "-gcflags=all=-dwarf=false", "-buildvcs=false",
		"-ldflags=-s -w -buildid= -X main.version="+version, "-o", to, "./functions/cmd/lbremedy")
	if err != nil {
		return nil, fmt.Errorf("build for %s on %s: %w", p.OS, p.Arch, err)
	}
	return os.ReadFile(to)
}

// completions returns the scripts for the shells, as the program itself writes them, and the
// one by which kubectl completes its plugin.
func completions(ctx context.Context, dir, work, version string) ([]file, error) {
	here := platform{runtime.GOOS, runtime.GOARCH}
	if _, err := build(ctx, dir, work, version, here); err != nil {
		return nil, err
	}
	program := filepath.Join(work, here.OS+"-"+here.Arch)
	all := []file{{"completions/kubectl_complete-lbremedy", 0o755, []byte("#!/usr/bin/env sh\nexec kubectl lbremedy __complete \"$@\"\n")}}
	for _, shell := range []string{"bash", "fish", "powershell", "zsh"} {
		text, err := run(ctx, dir, []string{"HOME=" + work}, program, "completion", shell)
		if err != nil {
			return nil, fmt.Errorf("write the completion for %s: %w", shell, err)
		}
		all = append(all, file{"completions/lbremedy." + shell, 0o644, text})
	}
	return all, nil
}

// licenceFiles are what modules call the text of their licence, and what has to go with it.
var licenceFiles = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice)([.-].*)?$`)

// licences returns the licences of the modules that are linked into the program.
func licences(ctx context.Context, dir string, p platform) ([]byte, error) {
	const form = "{{with .Module}}{{if not .Main}}{{with .Replace}}{{.Path}} {{.Version}}\t{{.Dir}}{{else}}{{.Path}} {{.Version}}\t{{.Dir}}{{end}}{{end}}{{end}}"
	text, err := run(ctx, dir, p.environment(), "go", "list", "-deps", "-f", form, "./functions/cmd/lbremedy")
	if err != nil {
		return nil, fmt.Errorf("list the modules: %w", err)
	}
	modules := strings.Split(strings.TrimSpace(string(text)), "\n")
	slices.Sort(modules)
	var out bytes.Buffer
	for _, m := range slices.Compact(modules) {
		name, at, _ := strings.Cut(m, "\t")
		found, err := os.ReadDir(at)
		if err != nil {
			return nil, fmt.Errorf("look for the licence of %s: %w", name, err)
		}
		n := 0
		for _, f := range found {
			if f.IsDir() || !licenceFiles.MatchString(f.Name()) {
				continue
			}
			n++
			text, err := os.ReadFile(filepath.Join(at, f.Name()))
			if err != nil {
				return nil, fmt.Errorf("read the licence of %s: %w", name, err)
			}
			fmt.Fprintf(&out, "==== %s, %s\n\n%s\n\n", name, f.Name(), strings.TrimSpace(string(text)))
		}
		if n == 0 {
			return nil, fmt.Errorf("%s has no licence: it can't be given to others", name)
		}
	}
	return out.Bytes(), nil
}

// run returns what a program writes. With no environment it has that of this one.
func run(ctx context.Context, dir string, env []string, name string, args ...string) ([]byte, error) {
	c := exec.CommandContext(ctx, name, args...)
	c.Dir, c.Env = dir, env
	var said bytes.Buffer
	c.Stderr = &said
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %s", name, err, cmp.Or(strings.TrimSpace(said.String()), "it says nothing"))
	}
	return out, nil
}

// A download is an archive of a version.
type download struct {
	platform
	Name, Sum string
}

// krew returns the manifest by which krew installs the program as a plugin of kubectl.
func krew(version string, all []download) ([]byte, error) {
	var out bytes.Buffer
	if err := krewTemplate.Execute(&out, map[string]any{"Version": version, "Downloads": all}); err != nil {
		return nil, fmt.Errorf("write the manifest for krew: %w", err)
	}
	return out.Bytes(), nil
}

// Program returns the name of the program in the archive.
func (d download) Program() string { return d.program() }

var krewTemplate = template.Must(template.New("krew.yaml").Parse(`apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: lbremedy
spec:
  version: {{.Version}}
  homepage: https://github.com/lbremedy/lbremedy
  shortDescription: Repair load-balancer Services on ACK
  description: |
    Finds out why Services of type LoadBalancer fail to sync on Alibaba Cloud
    ACK, shows the plan of a fix, and what was done about each failure.
  platforms:
{{- range .Downloads}}
  - selector:
      matchLabels:
        os: {{.OS}}
        arch: {{.Arch}}
    uri: https://github.com/lbremedy/lbremedy/releases/download/{{$.Version}}/{{.Name}}
    sha256: {{.Sum}}
    bin: {{.Program}}
{{- end}}
`))
