package kube

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/singleflight"
	corev1 "k8s.io/api/core/v1"
)

// sharedFor is how long callers may join a running list, and so how old its contents may be at the call.
const sharedFor = 2 * time.Second

// A shared list is read once for all callers that ask while it is being read. If a thousand Services fail for one cause, a thousand runs
// ask for the same long list at once, and separate reads would take longer than their results stay valid.
type shared struct{ flight singleflight.Group }

// read returns the result of the running list, or begins one. The end of one caller does not end the list for the others.
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
