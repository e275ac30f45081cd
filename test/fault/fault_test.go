package main

import (
	"log/slog"
	"os"
	"testing"

	"k8s.io/klog/v2"
)

func TestMain(m *testing.M) {
	play()
	klog.SetSlogLogger(slog.New(slog.DiscardHandler))
	os.Exit(m.Run())
}

// Some histories with seeds that stay the same, without those faults that last long.
func TestHistories(t *testing.T) {
	w, err := newWorld(t.Context(), t.TempDir(), t.Output())
	if err != nil {
		t.Fatal(err)
	}
	defer w.end()
	for _, seed := range []uint64{100, 101, 107} {
		h := newHistory(seed, w.can(false), perHistory)
		e, err := h.play(t.Context(), w, t.Output())
		if err != nil {
			t.Fatal(err)
		}
		v := judge(e)
		t.Logf("%s\nrecovered after %s, %d writes, open: %q", h, h.recovered, v.Writes, v.Open)
		if v.Writes == 0 {
			t.Error("the judge saw no write: it looks in the wrong place")
		}
		for _, wrong := range v.Wrong {
			t.Error(wrong)
		}
		if t.Failed() {
			t.Log(h)
			e.tell(t.Output())
			w.keepLogs(t.Output(), h)
			return
		}
	}
}
