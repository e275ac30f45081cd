package accesskey

import (
	"context"
	"errors"
	"testing"
)

// A chain is opened once, and anew after a failure, of which no more is said than none.
func TestChain(t *testing.T) {
	t.Parallel()
	opened, fails := 0, true
	none := None("or ask somebody")
	keys := Chain(func() func() (Key, error) {
		opened++
		return func() (Key, error) {
			if fails {
				return Key{ID: "half"}, errors.New("a secret")
			}
			return Key{ID: "id", Secret: "s"}, nil
		}
	}, none)
	for range 2 {
		if k, err := keys(t.Context()); !errors.Is(err, none) || k != (Key{}) {
			t.Errorf("got %v, %v", k, err)
		}
	}
	fails = false
	for range 2 {
		if k, err := keys(t.Context()); err != nil || k.ID != "id" {
			t.Errorf("got %v, %v", k, err)
		}
	}
	if opened != 3 {
		t.Errorf("the chain was opened %d times, want 3", opened)
	}
}

// A chain that hangs keeps nobody whose context ends.
func TestChainHangs(t *testing.T) {
	t.Parallel()
	hang := make(chan struct{})
	defer close(hang)
	keys := Chain(func() func() (Key, error) {
		return func() (Key, error) { <-hang; return Key{}, nil }
	}, None(""))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 2 {
		if _, err := keys(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	}
}
