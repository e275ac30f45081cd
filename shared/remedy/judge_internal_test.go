package remedy

import (
	"testing"

	"github.com/lbremedy/lbremedy/events"
)

// Who has agreed to what a plan changes has agreed to less of it, too, and to no more.
func TestWithin(t *testing.T) {
	t.Parallel()
	down, sets := events.Change{What: "a", Down: true}, events.Change{What: "b", Sets: true}
	quiet, unknown := events.Change{What: "c"}, events.Change{What: "d", Unknown: true}
	list := func(all ...events.Change) []events.Change { return all }
	for _, tt := range []struct {
		now, agreed []events.Change
		want        bool
	}{
		{nil, nil, true},
		{list(quiet), nil, true},
		{nil, list(down, sets), true},
		{list(sets, down), list(down, sets, unknown), true},
		{list(events.Change{What: "a", Sets: true}), list(down), true},
		{list(down), list(events.Change{What: "a", Sets: true}), false},
		{list(sets), list(down), false},
		{list(unknown), nil, false},
		{list(down), list(events.Change{Balancer: "lb-2", What: "a", Down: true}), false},
	} {
		if got := within(tt.now, tt.agreed); got != tt.want {
			t.Errorf("that %v is within %v is %t", tt.now, tt.agreed, got)
		}
	}
}
