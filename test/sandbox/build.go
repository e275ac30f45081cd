package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// The program embeds its module files: it can build the servers from any folder, and knows their versions.
var (
	//go:embed go.mod
	goMod string
	//go:embed go.sum
	goSum string
)

type program struct {
	name    string // file name
	module  string // as required in go.mod
	pkg     string
	effort  string
	ldflags func(version string) string
}

type set struct {
	mod, sum  string            // contents of go.mod and go.sum
	files     map[string]string // additional sources of a program
	programs  []program
	manifests []manifest
	given     string // variable that may name a folder with the programs, instead of a build
}

type manifest struct {
	name  string   // file name
	parts []string // as <module>:<glob>
}

var servers = set{mod: goMod, sum: goSum, given: "KUBEBUILDER_ASSETS", programs: []program{
	{
		name:    "etcd",
		module:  "go.etcd.io/etcd/server/v3",
		pkg:     "go.etcd.io/etcd/server/v3",
		effort:  "about 2 CPU-minutes, once",
		ldflags: func(string) string { return "-s -w" },
	},
	kubernetes("kube-apiserver", "about 10 CPU-minutes, once"),
	kubernetes("kubectl", "about 1 CPU-minute, once"),
}}

func kubernetes(name, effort string) program {
	return program{name: name, module: "k8s.io/kubernetes", pkg: "k8s.io/kubernetes/cmd/" + name, effort: effort, ldflags: kubernetesVersion}
}

// kubernetesVersion returns the linker flags that set the version in /version, as the release's hack/lib/version.sh does.
func kubernetesVersion(version string) string {
	major, minor, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	minor, _, _ = strings.Cut(minor, ".")
	var b strings.Builder
	b.WriteString("-s -w")
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		fmt.Fprintf(&b, " -X %[1]s.gitVersion=%[2]s -X %[1]s.gitMajor=%[3]s -X %[1]s.gitMinor=%[4]s"+
			" -X %[1]s.gitCommit= -X %[1]s.gitTreeState=clean", pkg, version, major, minor)
	}
	return b.String()
}

func (s set) version(p program) string {
	m := regexp.MustCompile(`(?m)^(?:require)?\s*` + regexp.QuoteMeta(p.module) + ` (v\S+)`).FindStringSubmatch(s.mod)
	if m == nil {
		panic("go.mod does not require " + p.module)
	}
	return m[1]
}

// args returns the arguments of the go command that builds the program. It omits debugging data, which takes a quarter of the compiler's
// time and is dropped by the linker. With the Makefile's flags, packages that lbremedy needs in the same version are compiled once.
func (s set) args(p program, out string) []string {
	return []string{"build", "-mod=readonly", "-buildvcs=false", "-trimpath", "-gcflags=all=-dwarf=false", "-ldflags", p.ldflags(s.version(p)), "-o", out, p.pkg}
}

// folder returns the folder of the programs, and builds them if necessary, in one of several concurrent processes.
func (s set) folder(ctx context.Context, progress io.Writer) (string, error) {
	if dir := os.Getenv(s.given); dir != "" {
		return s.found(dir)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the cache directory: %w", err)
	}
	cache = filepath.Join(cache, "lbremedy", "sandbox")
	entry := filepath.Join(cache, s.key())
	if s.intact(entry) {
		return entry, nil
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", fmt.Errorf("make the cache directory: %w", err)
	}
	unlock, err := lock(ctx, filepath.Join(cache, "lock"), progress)
	if err != nil {
		return "", err
	}
	defer unlock()
	if s.intact(entry) {
		return entry, nil
	}
	// Remove the remains of an interrupted build; the lock excludes other builds.
	work := filepath.Join(cache, "building")
	if err := os.RemoveAll(work); err != nil {
		return "", fmt.Errorf("remove an interrupted build: %w", err)
	}
	defer os.RemoveAll(work)
	if err := s.build(ctx, work, progress); err != nil {
		return "", err
	}
	if err := os.RemoveAll(entry); err != nil {
		return "", fmt.Errorf("remove a damaged build: %w", err)
	}
	if err := os.Rename(work, entry); err != nil {
		return "", fmt.Errorf("put the build in its place: %w", err)
	}
	return entry, prune(cache, entry)
}

func (s set) found(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("%s: %w", s.given, err)
	}
	for _, p := range s.programs {
		file := filepath.Join(dir, p.name)
		switch info, err := os.Stat(file); {
		case err != nil:
			return "", fmt.Errorf("%s names a folder without %s: %w", s.given, p.name, err)
		case !info.Mode().IsRegular() || info.Mode()&0o111 == 0:
			return "", fmt.Errorf("%s: %s is not a program", s.given, file)
		}
	}
	return dir, nil
}

func (s set) key() string {
	h := sha256.New()
	fmt.Fprintf(h, "%s %s/%s\n%q\n%q\n", runtime.Version(), runtime.GOOS, runtime.GOARCH, s.mod, s.sum)
	for _, name := range slices.Sorted(maps.Keys(s.files)) {
		fmt.Fprintf(h, "%q\n%q\n", name, s.files[name])
	}
	for _, p := range s.programs {
		fmt.Fprintf(h, "%q\n", s.args(p, p.name))
	}
	for _, m := range s.manifests {
		fmt.Fprintf(h, "%q\n", append([]string{m.name}, m.parts...))
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}

func (s set) names() []string {
	var all []string
	for _, p := range s.programs {
		all = append(all, p.name)
	}
	for _, m := range s.manifests {
		all = append(all, m.name)
	}
	return all
}

// sums is the last file of a build: the programs' checksums by name. A damaged program, such as after a full disk, is rebuilt.
// Each start checks 130 MB, so it is a CRC, which protects from accidents only.
const sums = "sums.json"

// intact reports whether a cache entry has all programs undamaged. It marks the entry as used.
func (s set) intact(entry string) bool {
	data, err := os.ReadFile(filepath.Join(entry, sums))
	if err != nil {
		return false
	}
	var want map[string]uint32
	if json.Unmarshal(data, &want) != nil {
		return false
	}
	for _, name := range s.names() {
		got, err := sum(filepath.Join(entry, name))
		if err != nil || got != want[name] {
			return false
		}
	}
	now := time.Now()
	return os.Chtimes(entry, now, now) == nil
}

func sum(file string) (uint32, error) {
	f, err := os.Open(file)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	h := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	if _, err := io.CopyBuffer(h, struct{ io.Reader }{f}, make([]byte, 1<<20)); err != nil {
		return 0, err
	}
	return h.Sum32(), nil
}

func prune(cache, keep string) error {
	entries, err := os.ReadDir(cache)
	if err != nil {
		return fmt.Errorf("list the cache: %w", err)
	}
	for _, e := range entries {
		dir := filepath.Join(cache, e.Name())
		info, err := e.Info()
		if err != nil || !e.IsDir() || dir == keep || time.Since(info.ModTime()) < 30*24*time.Hour {
			continue
		}
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("remove an old build: %w", err)
		}
	}
	return nil
}

// lock locks a file and returns a function that unlocks it. The kernel also unlocks it when the process ends.
func lock(ctx context.Context, file string, progress io.Writer) (func(), error) {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open the lock of the cache: %w", err)
	}
	for said := false; ; {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			f.Close()
			return nil, fmt.Errorf("lock the cache: %w", err)
		}
		if !said {
			fmt.Fprintln(progress, "sandbox: waiting for another process that builds the same programs")
			said = true
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func (s set) build(ctx context.Context, dir string, progress io.Writer) error {
	goBin, err := exec.LookPath("go")
	if err != nil {
		return fmt.Errorf("the servers are built with the go command: install Go %s or later: %w", strings.TrimPrefix(runtime.Version(), "go"), err)
	}
	src := filepath.Join(dir, "src")
	if err := os.MkdirAll(src, 0o755); err != nil {
		return fmt.Errorf("make the build folder: %w", err)
	}
	texts := map[string]string{"go.mod": s.mod, "go.sum": s.sum}
	maps.Copy(texts, s.files)
	for name, text := range texts {
		if err := os.WriteFile(filepath.Join(src, name), []byte(text), 0o644); err != nil {
			return fmt.Errorf("write the build folder: %w", err)
		}
	}
	for _, p := range s.programs {
		if err := s.buildOne(ctx, p, goBin, src, filepath.Join(dir, p.name), progress); err != nil {
			return err
		}
	}
	for _, m := range s.manifests {
		if err := m.write(ctx, goBin, src, filepath.Join(dir, m.name)); err != nil {
			return err
		}
	}
	built := map[string]uint32{}
	for _, name := range s.names() {
		if built[name], err = sum(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("read what was built: %w", err)
		}
	}
	if err := os.RemoveAll(src); err != nil {
		return fmt.Errorf("remove the build folder: %w", err)
	}
	data, err := json.Marshal(built)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, sums), data, 0o644)
}

func goCommand(ctx context.Context, goBin, src string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, goBin, args...)
	cmd.Dir = src
	cmd.Env = append([]string{"GOGC=400"}, os.Environ()...) // memory saves a fifth of the compiler's time; the environment overrides it
	cmd.Env = append(cmd.Env, "PWD="+src, "GOWORK=off", "GOFLAGS=", "CGO_ENABLED=0", "GOOS="+runtime.GOOS, "GOARCH="+runtime.GOARCH)
	cmd.SysProcAttr = dieWithUs(syscall.SIGTERM)
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

func (m manifest) write(ctx context.Context, goBin, src, file string) error {
	var all bytes.Buffer
	for _, part := range m.parts {
		module, pattern, _ := strings.Cut(part, ":")
		list := goCommand(ctx, goBin, src, "list", "-m", "-mod=readonly", "-f", "{{.Dir}}", module)
		var log bytes.Buffer
		list.Stderr = &log
		dir, err := list.Output()
		if err != nil {
			return fmt.Errorf("find the sources of %s: %w\n%s", module, err, tail(log.String()))
		}
		files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(dir)), filepath.FromSlash(pattern)))
		if err != nil {
			return fmt.Errorf("find the objects of %s: %w", module, err)
		}
		if len(files) == 0 {
			return fmt.Errorf("find the objects of %s: there is no file %s", module, pattern)
		}
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				return fmt.Errorf("read the objects of %s: %w", module, err)
			}
			fmt.Fprintf(&all, "---\n%s\n", withImages(text))
		}
	}
	if err := os.WriteFile(file, all.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write %s: %w", m.name, err)
	}
	return nil
}

// imageRegistry is the prefix of locally built images. No such host exists.
const imageRegistry = "lbremedy.local"

const knativePrefix = "knative-"

func withImages(objects []byte) []byte {
	return regexp.MustCompile(`ko://knative\.dev/serving/cmd/(\w+)`).ReplaceAll(objects, []byte(imageRegistry+"/"+knativePrefix+"$1:1"))
}

func (s set) buildOne(ctx context.Context, p program, goBin, src, out string, progress io.Writer) error {
	var log bytes.Buffer
	cmd := goCommand(ctx, goBin, src, s.args(p, out)...)
	cmd.Stdout, cmd.Stderr = &log, &log

	began := time.Now()
	what := fmt.Sprintf("sandbox: building %s %s (%s)", p.name, s.version(p), p.effort)
	fmt.Fprintln(progress, what, "...")
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the go command: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	tick := time.NewTicker(10 * time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			fmt.Fprintf(progress, "%s ... %.0fs\n", what, time.Since(began).Seconds())
		case err := <-ended:
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil {
				return fmt.Errorf("build %s %s: %w\n%s\n"+
					"The sources come from the Go module proxy (GOPROXY). Without a network, build once where there is one:\n"+
					"\"sandbox build\" fills the module cache and the user's cache directory, and later runs need neither",
					p.name, s.version(p), err, tail(log.String()))
			}
			fmt.Fprintf(progress, "sandbox: built %s in %.0fs\n", p.name, time.Since(began).Seconds())
			return nil
		}
	}
}

func tail(log string) string {
	lines := strings.Split(strings.TrimSpace(log), "\n")
	return "\t" + strings.Join(lines[max(0, len(lines)-20):], "\n\t")
}
