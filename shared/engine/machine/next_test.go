package machine

import (
	"strconv"
	"testing"
	"time"
)

// The outbox stays bounded while the audit takes no record, however many classes become questions.
func TestOutbox(t *testing.T) {
	var d Doc
	now := t0
	for class := range 10 {
		for range maxCrashes + 1 { // the last one takes over what the others left
			in := Input{Now: now, Engine: "a", Nonce: "1", Class: strconv.Itoa(class), Report: Delivered{Event: 1}}
			d, _ = Next(d, in)
			now = now.Add(time.Minute)
		}
		if len(d.Outbox) > maxOutbox {
			t.Fatalf("%d records in the outbox after %d classes", len(d.Outbox), class+1)
		}
	}
	if len(d.Outbox) != maxOutbox {
		t.Errorf("%d records in the outbox, want %d: the test does not fill it", len(d.Outbox), maxOutbox)
	}
}
