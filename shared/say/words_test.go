package say_test

import (
	"testing"

	"github.com/lbremedy/lbremedy/shared/say"
)

func TestCount(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{0: "0 nodes", 1: "1 node", 2: "2 nodes"} {
		if got := say.Count(n, "node").String(); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
	if got := say.Count(2, "class").String(); got != "2 classes" {
		t.Errorf("got %q", got)
	}
}

func TestLists(t *testing.T) {
	t.Parallel()
	list, texts := []string{"a", "b", "c"}, []say.Text{say.F("a"), say.F("b%d", 1), say.F("c")}
	for limit, want := range map[int][3]string{
		1: {"a and 2 more", "a and 2 more", "a; and 2 more"},
		2: {"a, b and 1 more", "a, b1 and 1 more", "a; b1; and 1 more"},
		3: {"a, b, c", "a, b1, c", "a; b1; c"},
		5: {"a, b, c", "a, b1, c", "a; b1; c"},
	} {
		got := [3]string{say.List(list, limit).String(), say.Items(texts, limit).String(), say.Clauses(texts, limit).String()}
		if got != want {
			t.Errorf("%d: %q, want %q", limit, got, want)
		}
	}
}
