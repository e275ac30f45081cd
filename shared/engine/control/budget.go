package control

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/stream"
)

// A place counts for so long in the budget of its class, and in that of the cluster.
const (
	ClassWindow   = 10 * time.Minute
	ClusterWindow = time.Hour
)

// MostPlaces is how many places a document holds: a Budget of all classes together, a Claim of its resource. A place of a
// Service takes some 50 bytes, and all fit into MostDocument. Beyond it there is none left, whatever the policy allows.
const MostPlaces = 14_000

// aheadMost is how far ahead moments are reserved. A moment beyond it was reserved by a server with another time.
const aheadMost = 24 * time.Hour

// A Budget holds which Services of a cluster have a place in its budgets.
type Budget struct {
	V       int                         `json:"v"`
	Cluster string                      `json:"cluster"`
	Taken   map[string]map[string]int64 `json:"taken,omitempty"` // when a place was taken, in Unix seconds, by class and UID
	Resync  time.Time                   `json:"resync,omitzero"` // the last moment that is reserved for a resync

	broken  error
	redated bool           // a place is from a server whose clock was ahead
	now     time.Time      // for which the next three are counted
	owners  map[string]int // how many places in Taken a Service has
	classes map[string]int // how many places count in the budget of a class
	places  int            // in Taken
}

// BudgetKey returns the key of the budgets of a cluster.
func BudgetKey(cluster string) string { return "budget." + cluster }

func readBudget(cluster string) func(value []byte) *Budget {
	return func(value []byte) *Budget {
		b := &Budget{V: version, Cluster: cluster}
		if value == nil {
			return b
		}
		*b = Budget{}
		err := strict(value, b)
		if err == nil {
			err = b.check(cluster)
		}
		if err != nil {
			b.broken = unreadable(BudgetKey(cluster), err)
		}
		return b
	}
}

func (b *Budget) check(cluster string) error {
	if b.V != version || b.Cluster != cluster {
		return fmt.Errorf("it has version %d and is of cluster %.80q", b.V, b.Cluster)
	}
	n := 0
	for class, taken := range b.Taken {
		if event.ValidClass(class) != nil {
			return fmt.Errorf("it has a class %.80q", class)
		}
		for uid, at := range taken {
			if n++; n > MostPlaces || event.ValidUID(uid) != nil || at < 0 {
				return fmt.Errorf("it has more than %d places, or a place of %.80q", MostPlaces, uid)
			}
		}
	}
	return nil
}

// count drops the places that are over, and counts the others.
func (b *Budget) count(now time.Time) {
	if b.now.Equal(now) {
		return
	}
	b.now, b.owners, b.classes, b.places = now, map[string]int{}, map[string]int{}, 0
	next := seconds(now, 0)
	for class, taken := range b.Taken {
		for uid, at := range taken {
			if at > next {
				at, b.redated = next, true
				taken[uid] = at
			}
			if counts(at, ClusterWindow, now) {
				b.owners[uid]++
				b.places++
			} else {
				delete(taken, uid)
			}
			if counts(at, ClassWindow, now) {
				b.classes[class]++
			}
		}
		if len(taken) == 0 {
			delete(b.Taken, class)
		}
	}
}

func counts(at int64, window time.Duration, now time.Time) bool {
	return time.Unix(at, 0).Add(window).After(now)
}

// A Room says in which budgets a Service has a place.
type Room struct{ Class, Cluster bool }

// OK reports whether it has all that it needs.
func (r Room) OK() bool { return r.Class && r.Cluster }

// room returns where a Service has a place, or could take one.
func (b *Budget) room(class, uid string, ofClass, ofCluster int, now time.Time) (r Room, has bool) {
	b.count(now)
	if at, ok := b.Taken[class][uid]; ok && counts(at, ClassWindow, now) {
		return Room{true, true}, true
	}
	r.Class = b.classes[class] < ofClass
	r.Cluster = b.places < MostPlaces && (b.owners[uid] > 0 || len(b.owners) < ofCluster)
	return r, false
}

// Spend takes a place for a Service in the budget of its class and in that of the cluster, or in neither: of any number of
// Services at most so many have one. A Service that has its place keeps it, and takes no other one.
func Spend(ctx context.Context, s *stream.Stream, cluster, class, uid string, ofClass, ofCluster int) (Room, error) {
	if err := errors.Join(event.ValidClass(class), event.ValidUID(uid)); err != nil {
		return Room{}, err
	}
	var r Room
	err := changeBudget(ctx, s, cluster, func(b *Budget, now time.Time) bool {
		var has bool
		if r, has = b.room(class, uid, ofClass, ofCluster, now); has || !r.OK() {
			return false
		}
		if b.Taken == nil {
			b.Taken = map[string]map[string]int64{}
		}
		if b.Taken[class] == nil {
			b.Taken[class] = map[string]int64{}
		}
		if _, late := b.Taken[class][uid]; !late { // one that counts in the cluster's budget alone by now is replaced
			b.owners[uid]++
			b.places++
		}
		b.Taken[class][uid] = seconds(now, 0)
		b.classes[class]++
		return true
	})
	if err != nil {
		return Room{}, fmt.Errorf("take a place in the budgets: %w", err)
	}
	return r, nil
}

// Spendable returns what Spend would, and takes nothing.
func Spendable(ctx context.Context, s *stream.Stream, cluster, class, uid string, ofClass, ofCluster int) (Room, error) {
	b, now, err := budget(ctx, s, cluster)
	if err != nil {
		return Room{}, err
	}
	r, _ := b.room(class, uid, ofClass, ofCluster, now)
	return r, nil
}

// Spent returns how many Services have a place in the budget of a cluster, and in those of its classes.
func Spent(ctx context.Context, s *stream.Stream, cluster string) (services int, classes map[string]int, err error) {
	b, now, err := budget(ctx, s, cluster)
	if err != nil {
		return 0, nil, err
	}
	b.count(now)
	return len(b.owners), b.classes, nil
}

func budget(ctx context.Context, s *stream.Stream, cluster string) (*Budget, time.Time, error) {
	b, now, err := stream.ReadDocument(ctx, s, BudgetKey(cluster), readBudget(cluster))
	if err == nil {
		err = b.broken
	}
	if err != nil {
		return nil, now, fmt.Errorf("read what is spent of the budgets: %w", err)
	}
	return b, now, nil
}

func changeBudget(ctx context.Context, s *stream.Stream, cluster string, change func(b *Budget, now time.Time) bool) error {
	return stream.ChangeDocument(ctx, s, BudgetKey(cluster), 0, readBudget(cluster), func(b *Budget, now time.Time) (bool, error) {
		if b.broken != nil {
			return false, b.broken
		}
		return change(b, now) || b.redated, nil
	})
}

// Reserve reserves the next free moment for a resync in a cluster, now or so long after the one before, whichever is later,
// and returns how long it is until then.
func Reserve(ctx context.Context, s *stream.Stream, cluster string, every time.Duration) (time.Duration, error) {
	var wait time.Duration
	err := changeBudget(ctx, s, cluster, func(b *Budget, now time.Time) bool {
		at := now
		if next := b.Resync.Add(every); !b.Resync.IsZero() && next.After(now) && next.Before(now.Add(aheadMost)) {
			at = next
		}
		b.Resync, wait = at, at.Sub(now)
		return true
	})
	if err != nil {
		return 0, fmt.Errorf("reserve a moment for a resync: %w", err)
	}
	return wait, nil
}
