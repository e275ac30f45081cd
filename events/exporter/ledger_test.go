package exporter

import "testing"

func TestLedger(t *testing.T) {
	l := &entries{}
	want := func(what, got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%s: progress %q, want %q", what, got, want)
		}
	}
	want("nothing to publish", l.skip("1"), "1")
	a, b := l.open("2"), l.open("3")
	if l.lag() <= 0 {
		t.Error("two wait, and there is no lag")
	}
	want("behind open ones", l.skip("4"), "")
	want("again", l.skip("5"), "")
	want("the second is through", l.close(b), "")
	want("and one more is passed over", l.skip("6"), "")
	want("the first is through", l.close(a), "6")
	if l.lag() != 0 || l.count() != 0 {
		t.Errorf("nothing waits, and the lag is %s", l.lag())
	}

	a, b = l.open(""), l.open("")
	want("the list's own version", l.skip("9"), "")
	want("one of the list", l.close(a), "")
	c := l.open("10")
	want("after the list", l.close(c), "")
	want("the last of the list", l.close(b), "10")

	// Closed entries behind an open one take no room, and one beside an open one holds progress where that does.
	a = l.open("11")
	for range 1000 {
		want("passing by", l.skip("12"), "")
	}
	if l.count() != 1 {
		t.Errorf("%d entries", l.count())
	}
	want("the one that was open", l.close(a), "12")

	a = l.open("13")
	for range 1000 {
		want("closed behind it", l.close(l.open("14")), "")
	}
	b = l.beside(a)
	want("what held it", l.close(a), "")
	if l.count() != 1 || l.lag() <= 0 {
		t.Errorf("%d entries, a lag of %s", l.count(), l.lag())
	}
	want("and what was opened beside that", l.close(b), "14")
}
