package console

import (
	"slices"
	"testing"

	"github.com/lbremedy/lbremedy/shared/event"
)

func TestSigns(t *testing.T) {
	for _, s := range slices.Concat(event.Statuses, []event.Status{event.Writing, event.Erred}) {
		if signs[string(s)].Shape == "" || signs[string(s)].Tone == "" {
			t.Errorf("%s has no sign", s)
		}
	}
}
