package kube

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// sharedFor is how long a list that is under way is taken in by who asks next. What it
// says is no older than that when it is asked for.
const sharedFor = 2 * time.Second

// A shared list is read once for all who ask while it is under way. Where a thousand
// Services fail for one cause, a thousand runs ask for the same long list at once, and
// each on its own would read for longer than what it read is good for.
type shared struct {
	mu  sync.Mutex
	now *reading
}

// A reading is one list under way.
type reading struct {
	began   time.Time
	cancel  context.CancelFunc
	waiting int // who wait for it; the last one to leave ends it
	done    chan struct{}
	list    []corev1.Service
	err     error
}

// read returns the list that is under way, or one that it begins.
func (s *shared) read(ctx context.Context, list func(context.Context) ([]corev1.Service, error)) ([]corev1.Service, error) {
	r := s.join(ctx, list)
	defer s.leave(r)
	select {
	case <-r.done:
		return r.list, r.err
	case <-ctx.Done():
		return nil, fmt.Errorf("list Services: %w", ctx.Err())
	}
}

func (s *shared) join(ctx context.Context, list func(context.Context) ([]corev1.Service, error)) *reading {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.now
	if r == nil || time.Since(r.began) > sharedFor {
		// The end of who asked first is not the end of those who ask with it.
		own, cancel := context.WithCancel(context.WithoutCancel(ctx))
		r = &reading{began: time.Now(), cancel: cancel, done: make(chan struct{})}
		s.now = r
		go func() {
			r.list, r.err = list(own)
			s.over(r)
			close(r.done)
		}()
	}
	r.waiting++
	return r
}

// over lets nobody join a reading any more.
func (s *shared) over(r *reading) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now == r {
		s.now = nil
	}
}

func (s *shared) leave(r *reading) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.waiting--; r.waiting > 0 {
		return
	}
	r.cancel()
	if s.now == r {
		s.now = nil
	}
}
