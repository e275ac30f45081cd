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

// TestNoWorld: a world that cannot start returns the reason and leaves nothing running.
func TestNoWorld(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := newWorld(t.Context(), filepath.Join(file, "folder"), t.Output()); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("it says %v", err)
	}
}

// TestPorts: parts get their ports back, which were not assigned to others meanwhile.
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

// TestResumeCutOff: a node of NATS that is cut off answers readers with old data. Resuming through a node that does not know of
// the pause must not report that nothing is paused.
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
	// The node's data must be readable when it is cut off.
	must(insist(ctx, func() error { return behind.Put(ctx, "before", nil) }))
	must(insist(ctx, func() error { _, err := behind.Get(ctx, "before"); return err }))

	through(w.around(0), hold)
	must(insist(ctx, func() error { return control.SetPause(ctx, ahead, control.Pause{Cluster: "c1", By: "test"}, false) }))
	for range 10 { // a random node answers
		soon, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
		if p, err := control.Resume(soon, behind, "c1"); err == nil {
			t.Errorf("cut off, it says %v", p)
		}
		cancel()
	}
	through(w.around(0), pass)
	// An earlier attempt may have ended it although its answer was lost.
	must(insist(ctx, func() error { _, err := control.Resume(ctx, behind, "c1"); return err }))
	if p, err := control.Resume(ctx, behind, "c1"); err != nil || p != nil {
		t.Errorf("there is still %v, %v", p, err)
	}
}

// TestHistories plays histories of fixed seeds with short faults that are possible everywhere.
func TestHistories(t *testing.T) {
	w, err := newWorld(t.Context(), t.TempDir(), t.Output())
	if err != nil {
		t.Fatal(err)
	}
	defer w.end()
	can := slices.DeleteFunc(slices.Clone(kinds), func(k kind) bool { return k.long || k.name == "disk full" })
	writes := 0
	for _, seed := range []uint64{0, 11, 16} { // a part is killed, etcd compacts, answers to writes are lost
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
