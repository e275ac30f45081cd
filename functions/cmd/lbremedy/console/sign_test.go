package console

import (
	"slices"
	"testing"

	"github.com/lbremedy/lbremedy/shared/event"
)

// Each word for a case's status has a shape beside it.
func TestSigns(t *testing.T) {
	for _, s := range slices.Concat(event.Statuses, []event.Status{event.Writing, event.Erred}) {
		if signs[string(s)].Shape == "" || signs[string(s)].Tone == "" {
			t.Errorf("%s has no sign", s)
		}
	}
}
