package engine

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/stream"
)

const (
	classWindow   = 10 * time.Minute
	clusterWindow = time.Hour
)

func budgetKey(cluster string) string { return "budget." + cluster }

func classBudgetKey(cluster, class string) string { return budgetKey(cluster) + "." + class }

// Places are how many Services may still be written to.
type Places struct {
	Cluster int            // within an hour
	Class   map[string]int // within 10 minutes, by class
}

// PlacesLeft returns what is left of the budgets of a cluster and of its classes.
func PlacesLeft(ctx context.Context, s *stream.Stream, cluster string, classes []string, b remedy.Budgets) (Places, error) {
	count, err := services(ctx, s, cluster)
	if err != nil {
		return Places{}, err
	}
	slots, err := s.Keys(ctx, "claim."+budgetKey(cluster)+".>")
	if err != nil {
		return Places{}, fmt.Errorf("count what is taken of the budgets: %w", err)
	}
	p := Places{Cluster: b.OfCluster(count), Class: map[string]int{}}
	for _, c := range classes {
		p.Class[c] = b.OfClass()
	}
	for _, slot := range slots {
		class, _, ofClass := strings.Cut(strings.TrimPrefix(slot, "claim."+budgetKey(cluster)+"."), ".")
		if !ofClass {
			p.Cluster = max(0, p.Cluster-1)
		} else if n := p.Class[class]; n > 0 {
			p.Class[class] = n - 1
		}
	}
	return p, nil
}

// A claiming takes a place of a budget, as Stream.Claim does, or only finds out whether there is one.
type claiming func(ctx context.Context, key string, of int, owner string, ttl time.Duration) (bool, error)

// spend takes the Service's places in the budgets of its class and of the cluster.
// The reason is empty where it has them, else it comes with how long to wait: a
// place that is taken is held until its window is over, and counts once for all
// writes on one Service.
func (e *Env) spend(ctx context.Context, claim claiming, b remedy.Budgets, class, uid string) (why say.Text, wait time.Duration, err error) {
	var services int
	var uncounted error
	counted := make(chan struct{})
	go func() {
		defer close(counted)
		services, uncounted = e.services(ctx)
	}()
	ok, err := claim(ctx, classBudgetKey(e.Cluster, class), b.OfClass(), uid, classWindow)
	<-counted
	if err != nil {
		return nil, 0, fmt.Errorf("take a place in the budget of the class: %w", err)
	}
	if !ok {
		return say.F("The budget of the class is spent: %d Services in %d minutes.", b.OfClass(), int(classWindow.Minutes())), classWait, nil
	}
	if uncounted != nil {
		return nil, 0, uncounted
	}
	most := b.OfCluster(services)
	ok, err = claim(ctx, budgetKey(e.Cluster), most, uid, clusterWindow)
	if err != nil {
		return nil, 0, fmt.Errorf("take a place in the budget of the cluster: %w", err)
	}
	if !ok {
		return say.F("The budget of the cluster is spent: writes to %d of its %s in an hour.", most, say.Count(services, "LoadBalancer Service")), clusterWait, nil
	}
	return nil, 0, nil
}

func (e *Env) services(ctx context.Context) (int, error) { return services(ctx, e.Stream, e.Cluster) }

// services returns how many LoadBalancer Services the cluster has, as the exporter
// has counted; 0 if it has not yet.
func services(ctx context.Context, s *stream.Stream, cluster string) (int, error) {
	data, err := s.Get(ctx, event.CountKey(cluster))
	if errors.Is(err, stream.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read how many Services there are: %w", err)
	}
	n, err := strconv.Atoi(string(data))
	if err != nil {
		return 0, fmt.Errorf("read how many Services there are: %w", err)
	}
	return n, nil
}
