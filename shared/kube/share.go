package kube

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/singleflight"
	corev1 "k8s.io/api/core/v1"
)

// sharedFor is how long callers may join a running list, and how old it may be.
const sharedFor = 2 * time.Second

// A shared list is read once for all callers that ask meanwhile. If a thousand Services fail for one cause, separate reads would take
// longer than their results stay valid.
type shared struct{ flight singleflight.Group }

// read joins or begins a list, which goes on when one caller ends.
func (s *shared) read(ctx context.Context, list func(context.Context) ([]corev1.Service, error)) ([]corev1.Service, error) {
	answer := s.flight.DoChan("", func() (any, error) {
		late := time.AfterFunc(sharedFor, func() { s.flight.Forget("") })
		defer late.Stop()
		return list(context.WithoutCancel(ctx))
	})
	select {
	case a := <-answer:
		services, _ := a.Val.([]corev1.Service)
		return services, a.Err
	case <-ctx.Done():
		return nil, fmt.Errorf("list Services: %w", ctx.Err())
	}
}
