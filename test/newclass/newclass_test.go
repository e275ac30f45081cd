// Package newclass checks that a class is a folder: it adds one to a copy of the tree, generates, and runs the copy's tests.
package newclass

import (
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/lbremedy/lbremedy/infra/gen/folders"
	"github.com/lbremedy/lbremedy/test/cluster"
)

// folder is the new class's folder in the copy; testdata has its hand-written files.
const folder = "functions/namereserved"

var follows = []string{
	"functions/all.go", "functions/README.md", "shared/event/table/table.go", "shared/policy/policyfile/policy.schema.json",
	"infra/cluster/rbac.yaml", "infra/cluster/classes.yaml",
	"s.yaml", "infra/fc/identities.yaml", "test/scenario/testdata/wording.txt",
	folder + "/namereserved_test.go", folder + "/cmd/namereserved/main.go",
}

// TestClassIsAFolder writes a class's folder to a copy of the tree. Otherwise only generated files change, and the copy passes
// vet of the generated code, the class's scenarios, its corpus and fixture, and the rules about all classes.
func TestClassIsAFolder(t *testing.T) {
	root, err := cluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	was := tree(t, os.DirFS(root))
	dir := place(t)
	write(t, dir, was)
	byHand := map[string][]byte{}
	for name, text := range tree(t, os.DirFS("testdata/namereserved")) {
		byHand[path.Join(folder, name)] = text
	}
	write(t, dir, byHand)

	run(t, dir, nil, "run", "./infra/gen/stage1")
	run(t, dir, nil, "run", "./infra/gen")
	is := tree(t, os.DirFS(dir))
	for _, name := range slices.Sorted(maps.Keys(is)) {
		_, written := byHand[name]
		if old, ok := was[name]; written || ok && bytes.Equal(old, is[name]) {
			continue
		}
		if !folders.Generated(name, is[name]) {
			t.Errorf("%s has changed, and neither its name nor its first line says that it is generated", name)
		}
	}
	for _, name := range follows {
		if bytes.Equal(was[name], is[name]) {
			t.Errorf("%s has not changed", name)
		}
	}
	for name := range was {
		if _, ok := is[name]; !ok {
			t.Errorf("%s is gone", name)
		}
	}

	run(t, dir, nil, "build", "./functions", "./"+folder+"/...", "./shared/event/table")
	server := sandbox(t)
	run(t, dir, server, "test", "-count=1", "-vet=off", "-ldflags=-s -w", "-run=^(Test|TestCorpus|TestComplete|TestRepository|TestRepositoryIsFresh|TestWording)$",
		"./"+folder, "./shared/event", "./test/testbed", "./test/scenario", "./test/rules", "./infra/gen/...")
	run(t, dir, server, "test", "-count=1", "-vet=off", "-ldflags=-s -w", "-run=^TestFixtures$/^reserved_names$", "./test/testbed")

	// The result of make new compiles, too.
	run(t, dir, nil, "run", "./infra/gen/stage1", "-new", "just-started")
	run(t, dir, nil, "build", "./functions", "./functions/juststarted/...")
	run(t, dir, nil, "list", "-export", "-test", "./functions/juststarted") // compiles its test without linking
}

// sandbox returns an environment with exclusive use of an API server, because the copy's admission policy differs from the
// tree's. This test holds the server's locks; the copy's locks are beside another kubeconfig.
func sandbox(t *testing.T) []string {
	t.Helper()
	c, dir := cluster.Alone(t), t.TempDir()
	for _, name := range []string{filepath.Base(c.Kubeconfig), "etcd"} {
		text, err := os.ReadFile(filepath.Join(filepath.Dir(c.Kubeconfig), name))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return []string{"LBREMEDY_SANDBOX=" + filepath.Join(dir, filepath.Base(c.Kubeconfig))}
}

func tree(t *testing.T, root fs.FS) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	err := fs.WalkDir(root, ".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case name == "bin" || name != "." && name != ".ci" && name != ".github" && strings.HasPrefix(e.Name(), "."):
			if e.IsDir() {
				return fs.SkipDir
			}
			return nil
		case !e.Type().IsRegular():
			return nil
		}
		files[name], err = fs.ReadFile(root, name)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func write(t *testing.T, dir string, files map[string][]byte) {
	t.Helper()
	for name, text := range files {
		mode := fs.FileMode(0o644)
		if bytes.HasPrefix(text, []byte("#!")) {
			mode = 0o755
		}
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, text, mode)); err != nil {
			t.Fatal(err)
		}
	}
}

// place returns an empty folder for exclusive use until the test ends, always the same, because the compiler's cache depends on the path.
func place(t *testing.T) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(cache, "lbremedy", "newclass")
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	lock, err := os.OpenFile(dir+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	for err = syscall.EINTR; errors.Is(err, syscall.EINTR); {
		err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX)
	}
	if err == nil {
		err = os.RemoveAll(dir) // of a killed run
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
		lock.Close()
	})
	return dir
}

func run(t *testing.T, dir string, env []string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = dir
	cmd.Env = append(append(os.Environ(), "PWD="+dir, "GOWORK=off", "GOPROXY=off"), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}
