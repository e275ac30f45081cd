package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/klog/v2"

	"github.com/lbremedy/lbremedy/shared/control"
)

func TestMain(m *testing.M) {
	play()
	klog.SetSlogLogger(slog.New(slog.DiscardHandler))
	os.Exit(m.Run())
}

// A world that can't start says why and leaves nothing running.
func TestNoWorld(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := newWorld(t.Context(), filepath.Join(file, "folder"), t.Output()); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("it says %v", err)
	}
}

// Parts come back to their ports: nobody else may have been given one in between.
func TestPorts(t *testing.T) {
	free, err := ports(20)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(free)
	if len(slices.Compact(free)) != 20 || free[19] >= 32768 {
		t.Errorf("%v", free)
	}
}

// A node of NATS that is cut off answers who reads with what it has. Who ends a pause of which it does not know is not told that
// there is none.
func TestResumeCutOff(t *testing.T) {
	ctx := t.Context()
	w := &world{dir: t.TempDir()}
	t.Cleanup(w.end)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(w.startNATS())
	first, others, _ := strings.Cut(w.nats, ",")
	ahead, err := joined(ctx, others)
	must(err)
	t.Cleanup(ahead.Close)
	must(insist(ctx, func() error {
		_, err := ahead.Setup(ctx, []string{"tag-missing"}, settings("c1"))
		return err
	}))
	behind, err := joined(ctx, first)
	must(err)
	t.Cleanup(behind.Close)
	// What the node has is there to be read when it is cut off.
	must(insist(ctx, func() error { return behind.Put(ctx, "before", nil) }))
	must(insist(ctx, func() error { _, err := behind.Get(ctx, "before"); return err }))

	through(w.around(0), hold)
	must(insist(ctx, func() error { return control.SetPause(ctx, ahead, control.Pause{Cluster: "c1", By: "test"}, false) }))
	for range 10 { // which node answers is left to chance
		soon, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
		if p, err := control.Resume(soon, behind, "c1"); err == nil {
			t.Errorf("cut off, it says %v", p)
		}
		cancel()
	}
	through(w.around(0), pass)
	// It may have been ended by one of those that were told of no end in time.
	must(insist(ctx, func() error { _, err := control.Resume(ctx, behind, "c1"); return err }))
	if p, err := control.Resume(ctx, behind, "c1"); err != nil || p != nil {
		t.Errorf("there is still %v, %v", p, err)
	}
}

// Some histories with seeds that stay the same, of faults that can happen everywhere and do not last long.
func TestHistories(t *testing.T) {
	w, err := newWorld(t.Context(), t.TempDir(), t.Output())
	if err != nil {
		t.Fatal(err)
	}
	defer w.end()
	can := slices.DeleteFunc(slices.Clone(kinds), func(k kind) bool { return k.long || k.name == "disk full" })
	writes := 0
	for _, seed := range []uint64{0, 11, 16} { // a part is killed, etcd forgets, answers to writes are lost
		h := newHistory(seed, can, perHistory)
		e, err := h.play(t.Context(), w, t.Output())
		if err != nil {
			t.Fatal(err)
		}
		v := judge(e)
		writes += v.Writes
		t.Logf("%s\nrecovered after %s, %d writes, open: %q", h, h.recovered, v.Writes, v.Open)
		for _, wrong := range v.Wrong {
			t.Error(wrong)
		}
		if t.Failed() {
			e.tell(t.Output())
			w.tellParts(t.Output())
			return
		}
		if err := h.tidy(t.Context(), w); err != nil {
			t.Fatal(err)
		}
	}
	if writes == 0 {
		t.Error("the judge saw no write: it looks in the wrong place")
	}
}
