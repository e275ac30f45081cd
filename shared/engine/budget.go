package engine

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/lbremedy/lbremedy/shared/control"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/stream"
)

// Places are how many Services may still be written to.
type Places struct {
	Cluster int                  // within an hour
	Class   map[string]int       // within 10 minutes, by class
	Free    map[string]time.Time // of a budget that is spent, by class or "" for the cluster's: when a place is free
}

// PlacesLeft returns what is left of the budgets of a cluster and of its classes.
func PlacesLeft(ctx context.Context, s *stream.Stream, cluster string, classes []string, b remedy.Budgets) (Places, error) {
	view, err := s.View(ctx, event.CountKey(cluster))
	if err != nil {
		return Places{}, fmt.Errorf("read how many Services there are: %w", err)
	}
	count, err := countIn(view, cluster)
	if err != nil {
		return Places{}, err
	}
	spent, err := control.Spent(ctx, s, cluster)
	if err != nil {
		return Places{}, err
	}
	p := Places{Class: map[string]int{}, Free: map[string]time.Time{}}
	left := func(class string, of int) int {
		ends := spent[class]
		if of > 0 && len(ends) >= of {
			p.Free[class] = ends[len(ends)-of]
		}
		return max(0, of-len(ends))
	}
	p.Cluster = left("", min(b.OfCluster(count), control.MostServices))
	for _, c := range classes {
		p.Class[c] = left(c, b.OfClass())
	}
	return p, nil
}

// spend takes the Service's places in the budgets of its class and of the cluster, or only finds out whether there are some.
// services is how many the cluster has. The reason is empty where there are, else it comes with how long to wait: a place that is
// taken is held until its window is over, and counts once for all writes on one Service.
func (e *Env) spend(
	ctx context.Context, dry bool, b remedy.Budgets, services int, class, uid string,
) (why say.Text, wait time.Duration, err error) {
	most := b.OfCluster(services)
	room, err := control.Spend(ctx, e.Stream, dry, e.Cluster, class, uid, b.OfClass(), most)
	switch {
	case err != nil:
		return nil, 0, err
	case !room.Class:
		why = say.F("The budget of the class is spent: %s in %d minutes.", say.Count(b.OfClass(), "Service"), int(control.ClassWindow.Minutes()))
	case !room.Cluster:
		why = say.F("The budget of the cluster is spent: writes to %d of its %s in an hour.", min(most, control.MostServices),
			say.Count(services, "LoadBalancer Service"))
	default:
		return nil, 0, nil
	}
	wait = budgetWait
	if !room.Free.IsZero() {
		why = why.And("The next place is free at %s.", room.Free.UTC().Format(time.RFC3339))
		wait = min(wait, max(budgetLeast, room.Free.Sub(e.now())))
	}
	return why, wait, nil
}

// countIn returns how many LoadBalancer Services the cluster has, as the exporter has counted; 0 if it has not yet.
func countIn(view stream.View, cluster string) (int, error) {
	e, ok := view[event.CountKey(cluster)]
	if !ok {
		return 0, nil
	}
	n, err := strconv.Atoi(string(e.Value))
	if err != nil {
		return 0, fmt.Errorf("read how many Services there are: %w", err)
	}
	return n, nil
}
