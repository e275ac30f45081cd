package doctor

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

func TestEventsKept(t *testing.T) {
	g := &snapshotReader{s: &Snapshot{Events: map[types.UID][]Event{}, Unkept: map[types.UID]int{}}}
	began := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	const more = 70
	for i := range mostEvents + more {
		n := (i * 7) % (mostEvents + more) // each once, unordered
		g.keep("u", Event{Last: began.Add(time.Duration(n) * time.Second)})
	}
	if got := len(g.s.Events["u"]); got != mostEvents || g.s.Unkept["u"] != more {
		t.Errorf("%d are kept and %d are not", got, g.s.Unkept["u"])
	}
	for _, e := range g.s.Events["u"] {
		if e.Last.Before(began.Add(more * time.Second)) {
			t.Errorf("one of %v is kept, which is none of the newest", e.Last)
		}
	}
}

func TestRoom(t *testing.T) {
	if got := brief(strings.Repeat("世", 1000)); len(got) > said || got != strings.Repeat("世", said/3) {
		t.Errorf("%d bytes are kept: %q", len(got), got)
	}
	var r room
	for range 64 {
		if err := r.take(1 << 20); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.take(1); err == nil {
		t.Error("there is room for more than 64 MiB")
	}
}
