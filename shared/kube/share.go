package kube

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/singleflight"
	corev1 "k8s.io/api/core/v1"
)

// sharedFor is how long callers may join a list that is under way, and so how old its contents may be at the call.
const sharedFor = 2 * time.Second

// A shared list is read once for all who ask while it is under way. Where a thousand
// Services fail for one cause, a thousand runs ask for the same long list at once, and
// each on its own would read for longer than what it read is good for.
type shared struct{ flight singleflight.Group }

// read returns the list that is under way, or one that it begins. The end of one caller is not the end of the others.
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
