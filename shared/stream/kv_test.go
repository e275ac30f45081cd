package stream

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func create(ctx context.Context, s *Stream, key, value string, ttl time.Duration) (bool, error) {
	e, err := s.Entry(ctx, key)
	if !errors.Is(err, ErrNotFound) {
		return false, err
	}
	_, err = s.Swap(ctx, key, []byte(value), e.Revision, ttl)
	return err == nil, err
}

func TestKeys(t *testing.T) {
	s := fresh(t)
	ctx := t.Context()
	if _, err := s.Get(ctx, "policy"); !errors.Is(err, ErrNotFound) {
		t.Errorf("got %v", err)
	}
	for _, v := range []string{"one", "two", ""} {
		if err := s.Put(ctx, "policy", []byte(v)); err != nil {
			t.Fatal(err)
		}
		if got, err := s.Get(ctx, "policy"); err != nil || string(got) != v {
			t.Errorf("got %q, %v, want %q", got, err, v)
		}
	}
	for i, want := range []bool{true, false} {
		if got, err := create(ctx, s, "incident.account.arrearage.h", "me", 0); err != nil || got != want {
			t.Errorf("create %d: got %t, %v", i, got, err)
		}
	}
	if err := s.Delete(ctx, "incident.account.arrearage.h"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(ctx, "incident.account.arrearage.h"); !errors.Is(err, ErrNotFound) {
		t.Errorf("a deleted key: got %v", err)
	}
	if got, err := create(ctx, s, "incident.account.arrearage.h", "you", 0); err != nil || !got {
		t.Errorf("after deletion: got %t, %v", got, err)
	}
	if err := s.Delete(ctx, "never-was"); err != nil {
		t.Error(err)
	}
	odd := "incident.x.ram/k8sMasterRolePolicy-Ccm-1=2 é*>%"
	if err := s.Put(ctx, odd, nil); err != nil {
		t.Fatal(err)
	}
	entries, err := s.Entries(ctx, "incident.>")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Key)
	}
	if diff := cmp.Diff([]string{"incident.account.arrearage.h", odd}, got); diff != "" {
		t.Error(diff)
	}
	if got, err := s.Entries(ctx, "nothing.*"); err != nil || got != nil {
		t.Errorf("got %v, %v", got, err)
	}
	for _, bad := range []string{"", ".", "a..b", ".a", "a."} {
		if err := s.Put(ctx, bad, nil); err == nil {
			t.Errorf("the key %q is accepted", bad)
		}
	}
}

func TestKeysAreGoneAfterTheirTime(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	ctx := t.Context()
	for round := range 2 { // the second one after the mark of the first
		if ok, err := create(ctx, s, "head", "v", time.Second); err != nil || !ok {
			t.Fatalf("round %d: got %t, %v", round, ok, err)
		}
		eventually(t, "the keys to expire", func() bool {
			keys, err := s.Entries(ctx, ">")
			if err != nil {
				t.Fatal(err)
			}
			return len(keys) == 0
		})
	}
}

func TestSwap(t *testing.T) {
	s := fresh(t)
	ctx := t.Context()
	e, err := s.Entry(ctx, "incident.a.b.c.1")
	if !errors.Is(err, ErrNotFound) || e.Revision != 0 {
		t.Fatalf("got %+v, %v", e, err)
	}
	first, err := s.Swap(ctx, e.Key, []byte("one"), e.Revision, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Swap(ctx, e.Key, []byte("late"), e.Revision, 0); !errors.Is(err, ErrConflict) {
		t.Errorf("a write on an old revision: got %v", err)
	}
	other, err := s.Swap(ctx, "incident.a.b.c.2", []byte("two"), 0, 0)
	if err != nil || other <= first {
		t.Errorf("got revision %d after %d, %v", other, first, err)
	}
	second, err := s.Swap(ctx, e.Key, []byte("three"), first, 0)
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.Entries(ctx, "incident.*.b.*.*")
	if err != nil {
		t.Fatal(err)
	}
	for i := range got {
		if age := time.Since(got[i].Time); age < 0 || age > time.Minute {
			t.Errorf("%s was stored %s ago", got[i].Key, age)
		}
		got[i].Time = time.Time{}
	}
	want := []Entry{{Key: "incident.a.b.c.2", Value: []byte("two"), Revision: other}, {Key: "incident.a.b.c.1", Value: []byte("three"), Revision: second}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if err := s.Delete(ctx, e.Key); err != nil {
		t.Fatal(err)
	}
	if e, err = s.Entry(ctx, e.Key); !errors.Is(err, ErrNotFound) || e.Revision <= second {
		t.Errorf("a deleted key: got %+v, %v", e, err)
	}
	if _, err := s.Swap(ctx, e.Key, []byte("four"), e.Revision, time.Hour); err != nil {
		t.Error(err)
	}
}

func TestSince(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	put := func(key, value string) { t.Helper(); must(s.Put(t.Context(), key, []byte(value))) }
	view := func(since string, revision uint64, patience time.Duration) (View, error) {
		ctx, cancel := context.WithTimeout(Since(t.Context(), since, revision), patience)
		defer cancel()
		return s.View(ctx, "some.*", "none")
	}
	put("some.key", "1")
	put("mark", "1")
	mark, err := s.Entry(t.Context(), "mark")
	must(err)
	for since, revision := range map[string]uint64{"mark": mark.Revision, "some.key": mark.Revision - 1} {
		if v, err := view(since, revision, time.Minute); err != nil || string(v["some.key"].Value) != "1" {
			t.Errorf("since %s it says %v, %v", since, v, err)
		}
	}
	for since, revision := range map[string]uint64{"mark": mark.Revision + 1000, "some.key": mark.Revision, "nobody": 1} {
		if v, err := view(since, revision, 100*time.Millisecond); !errors.Is(err, ErrUnavailable) {
			t.Errorf("behind %s it says %v, %v", since, v, err)
		}
	}
	later := make(chan error, 1)
	go func() {
		_, err := view("mark", mark.Revision+1, time.Minute)
		later <- err
	}()
	put("mark", "2")
	must(<-later)
}
