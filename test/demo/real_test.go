package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lbremedy/lbremedy/test/cluster"
	"github.com/lbremedy/lbremedy/test/sim/controller"
	"github.com/lbremedy/lbremedy/test/sim/controller/standin"
	"github.com/lbremedy/lbremedy/test/testbed"
)

func TestMain(m *testing.M) {
	standin.Main()
	if serveFunction() {
		return
	}
	os.Exit(m.Run())
}

// TestRealController runs the demonstration with a stand-in in CCM_BIN, a separate process with only a real controller's inputs.
func TestRealController(t *testing.T) {
	c := cluster.Alone(t) // it syncs all Services
	t.Setenv(controller.BinaryVariable, standin.Program(t))
	t.Setenv(controller.VersionVariable, standin.Version)
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	shown := func() string {
		b, err := os.ReadFile(out.Name())
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	fixtures := []testbed.Fixture{
		testbed.FullVSwitch(testbed.FullVSwitchH).As("cart"), testbed.LostTag().As("web"), testbed.Gone().As("images"),
		testbed.NoListener().As("dns"), testbed.NamesNone().As("mail"),
	}
	var sum total
	s := newScreen(out)
	if err := show(t.Context(), s, group{fixtures: fixtures, cluster: c}, &sum, func() { s.verdict(&sum, time.Second) }, false); err != nil {
		t.Fatalf("%v\n%s", err, shown())
	}
	for _, wrong := range sum.wrong {
		t.Error(wrong)
	}
	if !strings.Contains(shown(), "taken for CCM "+standin.Version) || t.Failed() {
		t.Errorf("it showed:\n%s", shown())
	}
}

// TestControllerFails: a controller that ends or hangs ends the demonstration with the end of its log.
func TestControllerFails(t *testing.T) {
	c := cluster.Alone(t)
	t.Setenv(controller.VersionVariable, standin.Version)
	t.Setenv(controller.LogVariable, t.TempDir())
	for name, tt := range map[string]struct{ script, want string }{
		"ends":  {"echo the metadata service does not answer; exit 3", "exit status 3"},
		"hangs": {"echo waiting for the metadata service; exec sleep 600", "it called no API and wrote no Event for 2s"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "ccm")
			if err := os.WriteFile(file, []byte("#!/bin/sh\n"+tt.script+"\n"), 0o700); err != nil {
				t.Fatal(err)
			}
			t.Setenv(controller.BinaryVariable, file)
			out, err := os.Create(filepath.Join(t.TempDir(), "out"))
			if err != nil {
				t.Fatal(err)
			}
			defer out.Close()
			began := time.Now()
			g := group{fixtures: []testbed.Fixture{testbed.LostTag().As(name)}, cluster: c, quiet: 2 * time.Second}
			err = show(t.Context(), newScreen(out), g, &total{}, func() {}, false)
			for _, want := range []string{tt.want, "the end of its log", "the metadata service"} {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want it to say %q", err, want)
				}
			}
			if took := time.Since(began); took > time.Minute {
				t.Errorf("it took %s", took)
			}
		})
	}
}

func TestCalled(t *testing.T) {
	for _, tt := range []struct{ bin, upgrade, want string }{
		{"", "", "simulated CCM v2.11.2"},
		{"", "v2.12.1", "simulated CCM v2.12.1 (v2.11.2 at first)"},
		{"/ccm", "v2.12.1", "/ccm, taken for CCM v2.14.0"},
	} {
		t.Setenv(controller.BinaryVariable, tt.bin)
		t.Setenv(controller.VersionVariable, "v2.14.0")
		if got := called(group{config: testbed.Config{Version: "v2.11.2", Upgrade: tt.upgrade}}); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}

func TestSupported(t *testing.T) {
	t.Setenv(controller.BinaryVariable, "/ccm")
	t.Setenv(controller.VersionVariable, "v2.14.0")
	count := func(acts []group) (n int) {
		for _, a := range acts {
			n += len(a.fixtures)
		}
		return n
	}
	all, err := supported([]group{usual()})
	if err != nil || count(all) != len(usual().fixtures)-1 { // the random choice of a vSwitch
		t.Errorf("%d of %d fixtures, %v", count(all), len(usual().fixtures), err)
	}
	if _, err := supported([]group{{fixtures: []testbed.Fixture{testbed.AnyVSwitch().As("search")}}}); err == nil ||
		!strings.Contains(err.Error(), "/ccm, a v2.14.0, fails in none of these ways") {
		t.Errorf("got %v", err)
	}
	t.Setenv(controller.BinaryVariable, "")
	if all, err := supported([]group{usual()}); err != nil || count(all) != len(usual().fixtures) {
		t.Errorf("%d of %d fixtures, %v", count(all), len(usual().fixtures), err)
	}
}
