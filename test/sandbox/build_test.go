package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAssets: the folder in KUBEBUILDER_ASSETS is used if it has the programs; the error for others names what is missing.
func TestAssets(t *testing.T) {
	full, half, folders, plain := t.TempDir(), t.TempDir(), t.TempDir(), t.TempDir()
	write := func(dir string, mode os.FileMode, names ...string) {
		t.Helper()
		for _, name := range names {
			if err := os.WriteFile(filepath.Join(dir, name), nil, mode); err != nil {
				t.Fatal(err)
			}
		}
	}
	write(full, 0o755, "etcd", "kube-apiserver", "kubectl")
	write(half, 0o755, "etcd")
	write(plain, 0o644, "etcd", "kube-apiserver", "kubectl")
	for _, name := range []string{"etcd", "kube-apiserver"} {
		if err := os.Mkdir(filepath.Join(folders, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for dir, want := range map[string]string{
		full:                        "",
		half:                        "names a folder without kube-apiserver",
		filepath.Join(full, "none"): "names a folder without etcd",
		folders:                     "etcd is not a program",
		plain:                       "etcd is not a program",
	} {
		t.Setenv("KUBEBUILDER_ASSETS", dir)
		got, err := servers.folder(t.Context(), io.Discard)
		switch {
		case want == "" && (err != nil || got != full):
			t.Errorf("%s: got %q, %v", dir, got, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "KUBEBUILDER_ASSETS")):
			t.Errorf("%s: got %q, %v, want an error with %q", dir, got, err, want)
		}
	}
}
