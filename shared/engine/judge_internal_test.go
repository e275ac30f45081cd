package engine

import (
	"testing"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/remedy"
)

// A person who has approved a plan's changes has also approved fewer of them, but not more.
func TestWithin(t *testing.T) {
	t.Parallel()
	down, sets := event.Change{What: "a", Down: true}, event.Change{What: "b", Sets: true}
	quiet, unknown := event.Change{What: "c"}, event.Change{What: "d", Unknown: true}
	list := func(all ...event.Change) []event.Change { return all }
	for _, tt := range []struct {
		now, agreed []event.Change
		want        bool
	}{
		{nil, nil, true},
		{list(quiet), nil, true},
		{nil, list(down, sets), true},
		{list(sets, down), list(down, sets, unknown), true},
		{list(event.Change{What: "a", Sets: true}), list(down), true},
		{list(down), list(event.Change{What: "a", Sets: true}), false},
		{list(sets), list(down), false},
		{list(unknown), nil, false},
		{list(down), list(event.Change{Balancer: "lb-2", What: "a", Down: true}), false},
	} {
		if got := remedy.Within(tt.now, tt.agreed); got != tt.want {
			t.Errorf("that %v is within %v is %t", tt.now, tt.agreed, got)
		}
	}
}
