package stream

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lbremedy/lbremedy/shared/stream/embedded"
)

type counts map[string]int

func readCounts(value []byte) counts {
	all := counts{}
	if value != nil && json.Unmarshal(value, &all) != nil {
		return counts{"unreadable": 1}
	}
	return all
}

func countOne(ctx context.Context, s *Stream, name string) error {
	return ChangeDocument(ctx, s, "counts", 0, readCounts, func(all counts, _ time.Time) (bool, error) {
		all[name]++
		return true, nil
	})
}

func counted(t *testing.T, s *Stream) counts {
	t.Helper()
	all, _, err := ReadDocument(t.Context(), s, "counts", readCounts)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestChangeDocument(t *testing.T) {
	t.Parallel()
	each := 500
	if testing.Short() { // with the race detector, each change takes several times as long
		each = 100
	}
	one := fresh(t)
	two := connect(t, Config{URL: one.nc.ConnectedUrl()})
	var all sync.WaitGroup
	for i := range 2 * each {
		all.Go(func() {
			if err := countOne(t.Context(), []*Stream{one, two}[i%2], "n"); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if got := counted(t, two); got["n"] != 2*each {
		t.Errorf("%d changes count %d", 2*each, got["n"])
	}
}

func TestChangesTogether(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	const n = 100
	together(t, s, n, func() {
		if err := countOne(t.Context(), s, "n"); err != nil {
			t.Error(err)
		}
	})
	if got := counted(t, s); got["n"] != n {
		t.Errorf("%d changes count %d", n, got["n"])
	}
	if e, err := s.Entry(t.Context(), "counts"); err != nil || e.Revision != 1 {
		t.Errorf("they were written %d times (%v)", e.Revision, err)
	}
}

func TestChangePanics(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			err := ChangeDocument(t.Context(), s, "counts", 0, readCounts, func(all counts, _ time.Time) (bool, error) {
				if all["n"]++; i%4 == 0 {
					panic("no")
				}
				return true, nil
			})
			if panics := i%4 == 0; panics != (err != nil) || panics && !strings.Contains(err.Error(), "the change panicked: no") {
				t.Errorf("change %d says %v", i, err)
			}
		})
	}
	all.Wait()
	if got := counted(t, s)["n"]; got != 15 {
		t.Errorf("%d of 15 changes are made", got)
	}
}

func TestReadPanics(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	together(t, s, 20, func() {
		err := ChangeDocument(t.Context(), s, "counts", 0, func([]byte) counts { panic("no") }, func(counts, time.Time) (bool, error) { return true, nil })
		if err == nil || !strings.Contains(err.Error(), "panicked: no") {
			t.Errorf("a change of a document that can't be read says %v", err)
		}
	})
	if err := countOne(t.Context(), s, "n"); err != nil {
		t.Error(err)
	}
}

// together makes n changes wait for one turn, and returns when all have ended.
func together(t *testing.T, s *Stream, n int, change func()) {
	t.Helper()
	began, gate := make(chan struct{}), make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		_ = ChangeDocument(t.Context(), s, "counts", 0, readCounts, func(counts, time.Time) (bool, error) {
			close(began)
			<-gate
			return false, nil
		})
	})
	<-began
	for range n {
		all.Go(change)
	}
	waits(t, s, n)
	close(gate)
	all.Wait()
}

func waits(t *testing.T, s *Stream, n int) {
	t.Helper()
	eventually(t, "the changes to wait", func() bool {
		waiting := 0
		for i := range s.changes {
			c := &s.changes[i]
			c.mu.Lock()
			waiting += len(c.waiting["counts"])
			c.mu.Unlock()
		}
		return waiting == n
	})
}

func TestChangeWithoutAcknowledgement(t *testing.T) {
	t.Parallel()
	server := serve(t, embedded.Options{})
	sees := connect(t, Config{URL: server.URL()})
	setup(t, sees)
	p := newProxy(t, server.URL())
	s := connect(t, Config{URL: p.url()})
	ended := make(chan error, 1)
	go func() {
		ended <- ChangeDocument(t.Context(), s, "counts", 0, readCounts, func(all counts, _ time.Time) (bool, error) {
			p.silence()
			all["n"]++
			return true, nil
		})
	}()
	eventually(t, "the change to be stored", func() bool { return counted(t, sees)["n"] > 0 })
	p.cut(false)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if got := counted(t, sees)["n"]; got != 1 {
		t.Errorf("it was made %d times", got)
	}
}

func TestChangeFails(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	no := errors.New("no")
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			name, want := strconv.Itoa(i), error(nil)
			if i%4 == 3 {
				want = no
			}
			err := ChangeDocument(t.Context(), s, "counts", 0, readCounts, func(all counts, _ time.Time) (bool, error) {
				all[name]++
				if want == no {
					return true, no
				}
				return true, nil
			})
			if !errors.Is(err, want) {
				t.Errorf("change %d says %v", i, err)
			}
		})
	}
	all.Wait()
	if err := countOne(t.Context(), s, strings.Repeat("n", MostDocument)); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a document that is too large: %v", err)
	}
	if got := counted(t, s); len(got) != 15 {
		t.Errorf("%d of 15 changes are made", len(got))
	}
}

func TestChangesOfTwoDocuments(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	began, gate, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- ChangeDocument(t.Context(), s, "another", 0, readCounts, func(counts, time.Time) (bool, error) {
			close(began)
			<-gate
			return false, nil
		})
	}()
	<-began
	if err := countOne(t.Context(), s, "n"); err != nil {
		t.Error(err)
	}
	close(gate)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestChangeEnds(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	ctx, cancel := context.WithCancel(t.Context())
	began, gate, ended := make(chan struct{}), make(chan struct{}), make(chan error, 2)
	go func() {
		ended <- ChangeDocument(ctx, s, "counts", 0, readCounts, func(all counts, _ time.Time) (bool, error) {
			close(began)
			<-gate
			return false, nil
		})
	}()
	<-began
	go func() { ended <- countOne(ctx, s, "late") }()
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) { // it no longer waits for its turn
		t.Errorf("got %v", err)
	}
	close(gate)
	<-ended
	if err := countOne(t.Context(), s, "next"); err != nil {
		t.Fatal(err)
	}
	if got := counted(t, s); got["late"] != 0 || got["next"] != 1 {
		t.Errorf("counted %v", got)
	}
	s.Close()
	if err := countOne(t.Context(), s, "n"); !errors.Is(err, ErrUnavailable) {
		t.Errorf("without a connection: %v", err)
	}
}
