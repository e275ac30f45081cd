package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
)

type kind struct {
	component     string // component of its Events
	finalizer     string // empty: it has none, and notices a deletion afterwards
	wants         func(*corev1.Service) bool
	refusesPublic bool
	// unrehearsed reports whether a dry run ends without waiting for its Services.
	unrehearsed bool
	// ensure syncs a Service; clean removes the resources of one that no longer wants a load balancer. Both write Events. An
	// error queues the Service again after the back-off.
	ensure, clean func(context.Context, *corev1.Service, record.EventRecorder) error
}

// A loop syncs the Services of a kind. A change in the cluster queues a Service at once, even during a back-off: only retries are
// delayed, and only success resets their delay.
type loop struct {
	*controller
	kind
	events record.EventRecorder
	queue  workqueue.TypedRateLimitingInterface[cache.ObjectName]

	mu      sync.Mutex
	deleted map[cache.ObjectName]*corev1.Service // of a kind without a finalizer: Services to clean up
}

func (c *controller) newLoop(k kind, events record.EventRecorder) *loop {
	return &loop{controller: c, kind: k, events: events, queue: workqueue.NewTypedRateLimitingQueue(c.backoff()), deleted: map[cache.ObjectName]*corev1.Service{}}
}

// backoff returns the delays of retries: doubling for one Service, and ten a second for all after the first hundred.
func (c *controller) backoff() workqueue.TypedRateLimiter[cache.ObjectName] {
	return workqueue.NewTypedMaxOfRateLimiter(
		workqueue.NewTypedItemExponentialFailureRateLimiter[cache.ObjectName](c.pause(c.BackoffBase), c.pause(c.BackoffMax)),
		&workqueue.TypedBucketRateLimiter[cache.ObjectName]{Limiter: rate.NewLimiter(rate.Limit(10*c.Speed), 100)},
	)
}

func (l *loop) run(ctx context.Context, workers int) {
	defer context.AfterFunc(ctx, l.queue.ShutDown)()
	var running sync.WaitGroup
	for range workers {
		running.Go(func() {
			for l.next(ctx) {
			}
		})
	}
	running.Wait()
}

func (l *loop) next(ctx context.Context) bool {
	name, shutdown := l.queue.Get()
	if shutdown {
		return false
	}
	defer l.queue.Done(name)
	if ctx.Err() != nil {
		return true // draining
	}
	log := l.Log.With("namespace", name.Namespace, "service", name.Name)
	err := l.sync(ctx, name, log)
	if l.cloud.dry != nil {
		l.queue.Forget(name)
		l.cloud.dry.looked(turn{l.component, name})
		return true
	}
	if errors.Is(err, errPotential) {
		l.queue.Forget(name)
		l.queue.AddAfter(name, l.pause(requeueDelay))
		return true
	}
	if err != nil {
		log.Warn("reconcile loadbalancer failed", "error", err)
		l.queue.AddRateLimited(name)
		return true
	}
	l.queue.Forget(name)
	return true
}

func (l *loop) sync(ctx context.Context, name cache.ObjectName, log *slog.Logger) (err error) {
	// The SDK panics on some malformed answers; the real controller survives that.
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v [recovered]", r)
		}
	}()
	if err := l.cleanDeleted(ctx, name); err != nil {
		return err
	}
	svc, err := l.services.Services(name.Namespace).Get(name.Name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("get service: %w", err)
	}
	svc = svc.DeepCopy()
	events := until{l.events, ctx.Done()}
	if kind := annotation(svc, "address-type"); l.NoPublic && l.refusesPublic && (kind == "" || kind == addressInternet) {
		events.Event(svc, corev1.EventTypeWarning, reasonSyncFailed, "create public address slb is not allowed")
		return nil // not retried before the Service changes
	}
	if deleting(svc) || !l.wants(svc) {
		return l.clean(ctx, svc, events)
	}
	if err := l.ensure(ctx, svc, events); err != nil {
		return err
	}
	log.Debug("reconciled loadbalancer")
	return nil
}

// An until is a recorder that drops Events after the end of the controller: interrupted calls have not failed. The real
// controller's calls end only with its process.
type until struct {
	record.EventRecorder
	end <-chan struct{}
}

func (u until) Event(o runtime.Object, kind, reason, message string) {
	select {
	case <-u.end:
	default:
		u.EventRecorder.Event(o, kind, reason, message)
	}
}

// cleanDeleted removes the resources of a deleted Service, whose name may belong to another Service now. A restart forgets them.
func (l *loop) cleanDeleted(ctx context.Context, name cache.ObjectName) error {
	l.mu.Lock()
	svc := l.deleted[name]
	l.mu.Unlock()
	if svc == nil {
		return nil
	}
	if err := l.clean(ctx, svc, l.events); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.deleted, name)
	return nil
}
