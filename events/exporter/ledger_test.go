package exporter

import "testing"

func TestLedger(t *testing.T) {
	l := &entries{}
	want := func(what, want string) {
		t.Helper()
		if got := l.progress(); got != want {
			t.Errorf("%s: progress %q, want %q", what, got, want)
		}
	}
	l.skip("1")
	want("nothing to publish", "1")
	a, b := l.open("2"), l.open("3")
	if l.lag() <= 0 {
		t.Error("two wait, and the lag is zero")
	}
	l.skip("4")
	want("behind open ones", "1")
	l.close(b)
	want("the second is through", "1")
	l.skip("5")
	want("and one more is passed over", "1")
	l.close(a)
	want("the first is through", "5")
	if l.lag() != 0 || l.count() != 0 {
		t.Errorf("nothing waits, and the lag is %s", l.lag())
	}

	a, b = l.open(""), l.open("")
	l.skip("9")
	want("the list's own version", "5")
	l.close(a)
	want("one of the list", "5")
	l.close(l.open("10"))
	want("after the list", "5")
	l.close(b)
	want("the last of the list", "10")

	// Closed entries behind an open one take no room, and one beside an open one holds progress where that does.
	a = l.open("11")
	for range 1000 {
		l.close(l.open("12"))
	}
	b = l.beside(a)
	l.close(a)
	want("the one that was open", "10")
	if l.count() != 1 || l.lag() <= 0 {
		t.Errorf("%d entries, a lag of %s", l.count(), l.lag())
	}
	l.close(b)
	want("the entry opened beside it is closed", "12")

	// After a restore, earlier versions are not those of the cluster.
	a = l.open("13")
	l.restart()
	want("it begins anew", "")
	l.skip("2")
	want("behind an earlier version", "")
	l.close(a)
	want("a present version", "2")
}
