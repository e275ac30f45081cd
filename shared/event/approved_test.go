package event_test

import (
	"testing"

	"github.com/lbremedy/lbremedy/shared/event"
)

func TestApproved(t *testing.T) {
	const chat = "dingtalk-app user 01, at the sink night, by the click m1"
	for want, a := range map[string]event.Approved{
		"ann: CHG-1":         {By: "ann", Identity: "ann", Object: "u", Comment: "CHG-1"},
		"ann (" + chat + ")": {By: "ann", Identity: "ann", Object: "u", Chat: chat},
	} {
		if got := a.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
