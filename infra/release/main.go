// Release builds what people get of a version: for each platform an archive with lbremedy,
// its completions and the licences of all that is linked into it, and the manifest by which
// krew installs it as a plugin of kubectl; the exporter for Linux; the functions for
// Function Compute; what is applied to a cluster or an account without them; and with
// infra/images all images, their SBOMs and the chart; and where it is all from. SHA256SUMS names
// it all.
//
// The same source makes the same bytes, whoever builds it, when and where: paths are
// trimmed, and archives hold no times and no owners.
package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
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

// A release is one that is to be built.
type release struct {
	dir, out, version string
	only              string // programs and classes of which images and functions are made; empty: all
	platforms         []platform
}

func main() {
	r := release{platforms: platforms}
	flag.StringVar(&r.dir, "C", ".", "root of the repository")
	flag.StringVar(&r.out, "o", "bin/release", "folder to write to; an earlier release there is replaced")
	flag.StringVar(&r.version, "version", "", "version, such as v0.1.0; required")
	flag.StringVar(&r.only, "only", "", "to try it: programs and classes of which images and functions are made, with commas between them")
	here := flag.Bool("here", false, "to try it: programs and images for this machine's architecture on Linux alone")
	flag.Parse()
	if *here {
		r.platforms = []platform{{"linux", runtime.GOARCH}}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err := tagged(ctx, r.dir, r.version)
	if err == nil {
		err = r.build(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		stop()
		os.Exit(1)
	}
}

var versions = regexp.MustCompile(`^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$`)

// tagged returns an error unless the tree is the commit that has the version as its tag,
// with nothing changed and nothing added.
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
	more, err := run(ctx, dir, nil, "git", "status", "--porcelain")
	if err != nil {
		return fmt.Errorf("look for files that no commit has: %w", err)
	}
	if name, _, _ := strings.Cut(strings.TrimSpace(string(more)), "\n"); name != "" {
		return fmt.Errorf("the tree holds what its tag does not, such as %q: commit it and tag that, or remove it", name)
	}
	return nil
}

// notes returns what the changelog says of a version: the text below its heading, which
// names the day, up to the next heading.
func notes(changelog, version string) (string, error) {
	heading := regexp.MustCompile(`(?m)^## ` + regexp.QuoteMeta(version) + `(.*)$`)
	at := heading.FindStringSubmatchIndex(changelog)
	if at == nil {
		return "", fmt.Errorf("CHANGELOG.md has no section %s: add one, \"## %[1]s - \" and the day, with what is new", version)
	}
	if day := changelog[at[2]:at[3]]; !regexp.MustCompile(`^ - [0-9]{4}-[0-9]{2}-[0-9]{2}$`).MatchString(day) {
		return "", fmt.Errorf("the heading of %s in CHANGELOG.md names no day, but %q: write \" - \" and the day", version, day)
	}
	text := changelog[at[1]:]
	if next := regexp.MustCompile(`(?m)^##`).FindStringIndex(text); next != nil {
		text = text[:next[0]]
	}
	if text = strings.TrimSpace(text); text == "" {
		return "", fmt.Errorf("the section %s of CHANGELOG.md is empty: say what is new", version)
	}
	return text + "\n", nil
}

// build builds the release beside its folder, and puts it there when it is whole.
func (r release) build(ctx context.Context) error {
	changelog, err := os.ReadFile(filepath.Join(r.dir, "CHANGELOG.md"))
	if err != nil {
		return fmt.Errorf("read the changelog: %w", err)
	}
	said, err := notes(string(changelog), r.version)
	if err != nil {
		return err
	}
	if r.out, err = filepath.Abs(r.out); err != nil {
		return err
	}
	if err := replaceable(r.out); err != nil {
		return err
	}
	whole := r.out
	r.out += ".part"
	if err := errors.Join(os.RemoveAll(r.out), os.MkdirAll(r.out, 0o755)); err != nil {
		return fmt.Errorf("make the folder of the release: %w", err)
	}
	work, err := os.MkdirTemp("", "lbremedy-release-")
	if err != nil {
		return fmt.Errorf("make a folder for the programs: %w", err)
	}
	defer func() { _ = os.RemoveAll(work) }()
	if err := os.WriteFile(filepath.Join(r.out, "NOTES.md"), []byte(said), 0o644); err != nil {
		return fmt.Errorf("write the release notes: %w", err)
	}
	for _, step := range []struct {
		says string
		do   func(context.Context, string) error
	}{
		{"programs", r.programs}, {"functions", r.functions}, {"manifests", r.manifests}, {"images and chart", r.images},
		{"provenance", r.provenance}, {"checksums", r.sums},
	} {
		fmt.Println(step.says)
		if err := step.do(ctx, work); err != nil {
			return err
		}
	}
	if err := errors.Join(os.RemoveAll(whole), os.Rename(r.out, whole)); err != nil {
		return fmt.Errorf("put the release into its folder: %w", err)
	}
	return nil
}

// replaceable returns an error if the folder holds what is no earlier release.
func replaceable(out string) error {
	there, err := os.ReadDir(out)
	if errors.Is(err, os.ErrNotExist) || err == nil && len(there) == 0 {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look at the folder of the release: %w", err)
	}
	if !slices.ContainsFunc(there, func(e os.DirEntry) bool { return e.Name() == sumsFile }) {
		return fmt.Errorf("%s holds files that are no release: remove them, or name another folder", out)
	}
	return nil
}

// The programs of which there are archives, by their packages. The exporter runs
// beside a cluster, on Linux.
const (
	operator = "./functions/cmd/lbremedy"
	exporter = "./events/cmd/exporter"
)

const (
	source   = "https://github.com/lbremedy/lbremedy"
	sumsFile = "SHA256SUMS"
)

// programs writes the archives of programs, and the manifest for krew.
func (r release) programs(ctx context.Context, work string) error {
	completions, err := completions(ctx, r.dir, work, r.version)
	if err != nil {
		return err
	}
	licence, err := os.ReadFile(filepath.Join(r.dir, "LICENSE"))
	if err != nil {
		return fmt.Errorf("read our licence: %w", err)
	}
	var built []download
	for _, p := range r.platforms {
		for _, pkg := range []string{operator, exporter} {
			if pkg != operator && p.OS != "linux" {
				continue
			}
			program, err := build(ctx, r.dir, work, r.version, pkg, p)
			if err != nil {
				return err
			}
			licences, err := licences(ctx, r.dir, p, pkg)
			if err != nil {
				return err
			}
			files := []file{{p.program(pkg), 0o755, program}, {"LICENSE", 0o644, licence}, {licencesFile, 0o644, licences}}
			if pkg == operator {
				files = append(files, completions...)
			}
			packed, err := p.pack(files)
			if err != nil {
				return fmt.Errorf("pack the program for %s on %s: %w", p.OS, p.Arch, err)
			}
			d := download{platform: p, Name: p.archive(filepath.Base(pkg), r.version), Sum: fmt.Sprintf("%x", sha256.Sum256(packed))}
			if err := os.WriteFile(filepath.Join(r.out, d.Name), packed, 0o644); err != nil {
				return fmt.Errorf("write the archive: %w", err)
			}
			if pkg == operator {
				built = append(built, d)
			}
		}
	}
	manifest, err := krew(r.version, built)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(r.out, "krew.yaml"), manifest, 0o644); err != nil {
		return fmt.Errorf("write the manifest of krew: %w", err)
	}
	return nil
}

// functions writes an archive of the zips for Function Compute, where s.yaml looks for them,
// and the licences of all programs of the release, which are in the images, too.
func (r release) functions(ctx context.Context, work string) error {
	zips := filepath.Join(work, "fc")
	args := []string{"run", "./infra/fc/pack", "-o", zips}
	if r.only != "" {
		classes := slices.DeleteFunc(strings.Split(r.only, ","), func(name string) bool {
			return name == "lbremedy" || name == "exporter"
		})
		args = append(args, "-classes", strings.Join(classes, ","))
	}
	if _, err := run(ctx, r.dir, clean(), "go", args...); err != nil {
		return fmt.Errorf("build the functions: %w", err)
	}
	licences, err := licences(ctx, r.dir, platform{"linux", "amd64"}, operator, exporter, "./functions/...")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(r.out, licencesFile), licences, 0o644); err != nil {
		return fmt.Errorf("write the licences: %w", err)
	}
	found, err := os.ReadDir(zips)
	if err != nil {
		return fmt.Errorf("read the functions: %w", err)
	}
	files := []file{{licencesFile, 0o644, licences}}
	for _, f := range found {
		text, err := os.ReadFile(filepath.Join(zips, f.Name()))
		if err != nil {
			return fmt.Errorf("read a function: %w", err)
		}
		files = append(files, file{"bin/fc/" + f.Name(), 0o644, text})
	}
	return write(filepath.Join(r.out, "functions_"+r.version+".tar.gz"), files)
}

// alone are the files that people fetch one by one.
var alone = []string{
	"infra/cluster/approvals.yaml", "infra/observability/alerts.yaml", "infra/observability/dashboard.json", "s.yaml",
}

// manifests writes what is applied or looked up, rather than run: an archive of the pages of
// installation and all that they name, and some files alone.
func (r release) manifests(ctx context.Context, _ string) error {
	list, err := run(ctx, r.dir, nil, "git", "ls-files", "-z", "infra", "s.yaml", "LICENSE")
	if err != nil {
		return fmt.Errorf("list the manifests: %w", err)
	}
	var files []file
	for _, name := range strings.Split(strings.Trim(string(list), "\x00"), "\x00") {
		if made := regexp.MustCompile(`^infra/(gen|images|keys|release)/|/testdata/|\.go$`); made.MatchString(name) {
			continue
		}
		at := filepath.Join(r.dir, filepath.FromSlash(name))
		info, err := os.Stat(at)
		if err != nil {
			return fmt.Errorf("read a manifest: %w", err)
		}
		text, err := os.ReadFile(at)
		if err != nil {
			return fmt.Errorf("read a manifest: %w", err)
		}
		mode := os.FileMode(0o644)
		if info.Mode()&0o100 != 0 {
			mode = 0o755
		}
		files = append(files, file{name, mode, text})
		if slices.Contains(alone, name) {
			if err := os.WriteFile(filepath.Join(r.out, filepath.Base(name)), text, 0o644); err != nil {
				return fmt.Errorf("write a manifest: %w", err)
			}
		}
	}
	return write(filepath.Join(r.out, "infra_"+r.version+".tar.gz"), files)
}

// images builds the images and the chart.
func (r release) images(ctx context.Context, _ string) error {
	var arches []string
	for _, p := range r.platforms {
		if p.OS == "linux" {
			arches = append(arches, p.Arch)
		}
	}
	env := append(clean(), "VERSION="+r.version, "PROGRAMS="+r.only, "ARCH="+strings.Join(arches, ","))
	if _, err := run(ctx, r.dir, append(env, "OUT="+filepath.Join(r.out, "images")), "infra/images/build.sh"); err != nil {
		return fmt.Errorf("build the images: %w", err)
	}
	if _, err := run(ctx, r.dir, append(env, "OUT="+r.out), "infra/images/chart.sh"); err != nil {
		return fmt.Errorf("pack the chart: %w", err)
	}
	return nil
}

// provenance writes where the release is from, in the words of SLSA (https://slsa.dev/spec/v1.0/provenance): what cosign attests.
// It tells no time and no machine: whoever builds the tag makes the same, and who signs it vouches for it.
func (r release) provenance(ctx context.Context, _ string) error {
	commit, err := run(ctx, r.dir, nil, "git", "rev-parse", "HEAD")
	if err != nil {
		return fmt.Errorf("ask for the commit: %w", err)
	}
	toolset, err := run(ctx, r.dir, os.Environ(), "go", "env", "GOVERSION")
	if err != nil {
		return fmt.Errorf("ask Go for its version: %w", err)
	}
	sums, err := os.ReadFile(filepath.Join(r.dir, "go.sum"))
	if err != nil {
		return fmt.Errorf("read go.sum: %w", err)
	}
	type object = map[string]any
	at, revision := source+"/blob/"+r.version, strings.TrimSpace(string(commit))
	text, err := json.MarshalIndent(object{
		"buildDefinition": object{
			"buildType":          at + "/infra/README.md#releases",
			"externalParameters": object{"repository": source, "version": r.version},
			"resolvedDependencies": []object{
				{"uri": "git+" + source + "@refs/tags/" + r.version, "digest": object{"gitCommit": revision}},
				{"uri": source + "/blob/" + revision + "/go.sum", "digest": object{"sha256": fmt.Sprintf("%x", sha256.Sum256(sums))}},
			},
		},
		"runDetails": object{"builder": object{"id": at + "/infra/release", "version": object{"go": strings.TrimSpace(string(toolset))}}},
	}, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(r.out, "provenance.json"), append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("write where the release is from: %w", err)
	}
	return nil
}

// sums names all files in SHA256SUMS, but those that a digest names.
func (r release) sums(context.Context, string) error {
	if err := os.Remove(filepath.Join(r.out, "images", sumsFile)); err != nil {
		return fmt.Errorf("remove the sums of the images alone: %w", err)
	}
	var list bytes.Buffer
	err := fs.WalkDir(os.DirFS(r.out), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() {
			if e.Name() == "blobs" {
				return fs.SkipDir
			}
			return nil
		}
		text, err := os.ReadFile(filepath.Join(r.out, filepath.FromSlash(name)))
		fmt.Fprintf(&list, "%x  %s\n", sha256.Sum256(text), name)
		return err
	})
	if err != nil {
		return fmt.Errorf("sum the files of the release: %w", err)
	}
	if err := os.WriteFile(filepath.Join(r.out, sumsFile), list.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write the checksums: %w", err)
	}
	return nil
}

// clean returns the environment without what is for those who sign.
func clean() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "COSIGN_") })
}

// program returns the name of a program on the platform.
func (p platform) program(pkg string) string {
	if p.OS == "windows" {
		return filepath.Base(pkg) + ".exe"
	}
	return filepath.Base(pkg)
}

// environment returns that of a build, in which nothing of this machine counts.
func (p platform) environment() []string {
	return append(clean(), "GOWORK=off", "CGO_ENABLED=0", "GOOS="+p.OS, "GOARCH="+p.Arch, "GOAMD64=v1", "GOARM64=v8.0", "GOFLAGS=", "GOEXPERIMENT=")
}

// build returns a program for a platform.
func build(ctx context.Context, dir, work, version, pkg string, p platform) ([]byte, error) {
	to := filepath.Join(work, p.OS+"-"+p.Arch)
	_, err := run(ctx, dir, p.environment(), "go", "build", "-trimpath", "-gcflags=all=-dwarf=false", "-buildvcs=false",
		"-ldflags=-s -w -buildid= -X main.version="+version, "-o", to, pkg)
	if err != nil {
		return nil, fmt.Errorf("build for %s on %s: %w", p.OS, p.Arch, err)
	}
	return os.ReadFile(to)
}

// completions returns the scripts for the shells, as the program itself writes them, and the
// one by which kubectl completes its plugin.
func completions(ctx context.Context, dir, work, version string) ([]file, error) {
	here := platform{runtime.GOOS, runtime.GOARCH}
	if _, err := build(ctx, dir, work, version, operator, here); err != nil {
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

const licencesFile = "LICENSES-OF-LIBRARIES"

// licences returns the licences of the modules that are linked into programs.
func licences(ctx context.Context, dir string, p platform, packages ...string) ([]byte, error) {
	const form = "{{with .Module}}{{if not .Main}}{{with .Replace}}{{.Path}} {{.Version}}\t{{.Dir}}{{else}}{{.Path}} {{.Version}}\t{{.Dir}}{{end}}{{end}}{{end}}"
	text, err := run(ctx, dir, p.environment(), "go", append([]string{"list", "-deps", "-f", form}, packages...)...)
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
func (d download) Program() string { return d.program(operator) }

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
