package stream

import (
	"errors"
	"testing"
)

// Missing keys would seem absent.
func TestBrokenView(t *testing.T) {
	t.Parallel()
	if err := serverSays("404", "Message Not Found", true); err == nil {
		t.Error("it is taken for the end of the view")
	}
	if err := serverSays("404", "Message Not Found", false); err != nil {
		t.Errorf("of one message: %v", err)
	}
	if err := serverSays("404", "No Results", true); err != nil {
		t.Errorf("nothing there: %v", err)
	}
}

func TestView(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	for _, key := range []string{"pause", "answer.c1.u.x.1", "answer.c1.u.y.1", "with space"} {
		if err := s.Put(t.Context(), key, []byte("v "+key)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Put(t.Context(), "pause.c1", nil); err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(t.Context(), "pause.c1"); err != nil {
		t.Fatal(err)
	}
	view, err := s.View(t.Context(), "pause", "pause.c1", "breaker.c1", "answer.c1.u.x.*", "with space")
	if err != nil || len(view) != 3 {
		t.Fatalf("got %v, %v", view, err)
	}
	for _, key := range []string{"pause", "answer.c1.u.x.1", "with space"} {
		if e := view[key]; string(e.Value) != "v "+key || e.Key != key || e.Revision == 0 {
			t.Errorf("%s holds %+v", key, e)
		}
	}
	if view, err := s.View(t.Context(), "nothing"); err != nil || len(view) != 0 {
		t.Errorf("got %v, %v", view, err)
	}
	if _, err := s.View(t.Context(), "a..b"); err == nil {
		t.Error("a key that can't be is read")
	}
	s.Close()
	if _, err := s.View(t.Context(), "pause"); !errors.Is(err, ErrUnavailable) {
		t.Errorf("without a connection: %v", err)
	}
}
