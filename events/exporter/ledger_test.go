package exporter

import (
	"testing"
	"time"
)

func TestLedger(t *testing.T) {
	l := newEntries()
	want := func(what, got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%s: progress %q, want %q", what, got, want)
		}
	}
	want("nothing to publish", l.skip("1"), "1")
	a, b := l.open("2"), l.open("3")
	if l.lag() <= 0 || l.silence() != 0 {
		t.Error("two wait, and NATS has not been asked")
	}
	l.send(b)
	if l.silence() <= 0 {
		t.Error("NATS was asked, and there is no silence")
	}
	want("behind open ones", l.skip("4"), "")
	want("again", l.skip("5"), "")
	want("the second is through", l.close(b), "")
	want("and one more is passed over", l.skip("6"), "")
	want("the first is through", l.close(a), "6")
	if l.lag() != 0 || l.silence() != 0 || len(l.entries) != 0 {
		t.Errorf("nothing waits, and the lag is %s", l.lag())
	}

	a, b = l.open(""), l.open("")
	want("the list's own version", l.skip("9"), "")
	want("one of the list", l.close(a), "")
	c := l.open("10")
	want("after the list", l.close(c), "")
	want("the last of the list", l.close(b), "10")

	// Closed entries behind an open one take no room, and one that only holds progress doesn't count as open.
	a = l.open("11")
	for range 1000 {
		want("passing by", l.skip("12"), "")
	}
	if len(l.entries) != 1 {
		t.Errorf("%d entries", len(l.entries))
	}
	want("the one that was open", l.close(a), "12")

	a = l.open("13")
	l.hold(a)
	for range 1000 {
		want("closed behind it", l.close(l.open("14")), "")
	}
	if len(l.entries) != 1 || l.unclosed() != 0 {
		t.Errorf("%d entries, %d open", len(l.entries), l.unclosed())
	}
	want("what held it", l.close(a), "14")
}

// TestSilence proves that only an acknowledgement of NATS ends its silence; skipped Events don't hide that NATS is away.
func TestSilence(t *testing.T) {
	l := newEntries()
	a, b := l.open("1"), l.open("2")
	l.send(a)
	a.sent = a.sent.Add(-time.Minute)
	l.close(b)
	if got := l.silence(); got < time.Minute {
		t.Errorf("after the close of what NATS never saw: a silence of %s", got)
	}
	l.acked()
	if got := l.silence(); got >= time.Minute {
		t.Errorf("after NATS took something: a silence of %s", got)
	}
	l.close(a)
	if got := l.silence(); got != 0 {
		t.Errorf("with nothing to take: a silence of %s", got)
	}
}
