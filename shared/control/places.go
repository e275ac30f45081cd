package control

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/stream"
)

// How long a written Service keeps its place in the budgets of its class and of its cluster.
const (
	ClassWindow   = 10 * time.Minute
	ClusterWindow = time.Hour
)

const (
	// MostServices is how many Services can have a place in the budgets of a cluster, whatever the policy allows: they fit into the document
	// even if all were written within ten minutes. Beyond it the cluster's budget is spent.
	MostServices = 10_000

	longest  = time.Hour      // for which a place is taken
	kept     = 24 * time.Hour // an unchanged document is removed after this; all its places are over
	mostName = 512            // bytes of an owner or a key
)

// Places holds the taken places of a cluster's budgets, or of a resource such as the free addresses of a vSwitch.
type Places struct {
	Head
	Taken  map[string]map[string]int64 `json:"taken,omitempty"` // ends, in Unix seconds, by class and owner; "": of the cluster, or resource
	Resync time.Time                   `json:"resync,omitzero"` // the last moment reserved for a resync

	now     time.Time // time for which places that are over are dropped
	redated bool      // a place had an impossibly late end, from a server whose clock was ahead
}

// A want is one of a number of places that an owner asks for, and for how long.
type want struct {
	class string
	of    int
	ttl   time.Duration
}

// BudgetKey returns the key of the budgets of a cluster.
func BudgetKey(cluster string) string { return "budget." + cluster }

// ClaimKey returns the key of the places of a resource.
func ClaimKey(resource string) string { return "claim." + resource }

func seconds(now time.Time, d time.Duration) int64 { return now.Add(d + time.Second - 1).Unix() }

func (p *Places) drop(now time.Time) {
	if p.now.Equal(now) {
		return
	}
	p.now = now
	most := seconds(now, longest)
	for class, taken := range p.Taken {
		for owner, end := range taken {
			if end > most {
				taken[owner], p.redated = most, true
			}
			if end <= now.Unix() {
				delete(taken, owner)
			}
		}
		if len(taken) == 0 {
			delete(p.Taken, class)
		}
	}
}

// lacks returns the first of the owner's wants without a free place, and when one is free there; len(wants) if all have one.
func (p *Places) lacks(owner string, wants []want) (i int, free time.Time) {
	for i, w := range wants {
		taken := p.Taken[w.class]
		if _, has := taken[owner]; has || len(taken) < w.of {
			continue
		}
		if ends := slices.Sorted(maps.Values(taken)); w.of > 0 {
			free = time.Unix(ends[len(ends)-w.of], 0)
		}
		return i, free
	}
	return len(wants), time.Time{}
}

// take takes a place for each of an owner's wants, or none, and returns the first full one and when a place is free there. An owner keeps
// its place at least for the wanted time from now. A dry call takes none.
func take(ctx context.Context, s *stream.Stream, key, owner string, dry bool, wants ...want) (int, time.Time, error) {
	tooLong := func(w want) bool { return w.ttl > longest }
	if owner == "" || len(owner) > mostName || len(key) > mostName || slices.ContainsFunc(wants, tooLong) {
		return 0, time.Time{}, fmt.Errorf("%.80q can't have a place in %.80q, or not for so long", owner, key)
	}
	lacks, free := 0, time.Time{} // not the function's results: a change whose caller has left may still set them
	try := func(p *Places, now time.Time) bool {
		p.drop(now)
		if lacks, free = p.lacks(owner, wants); dry || lacks < len(wants) {
			return false
		}
		for _, w := range wants {
			p.Taken = with(p.Taken, w.class, with(p.Taken[w.class], owner, max(p.Taken[w.class][owner], seconds(now, w.ttl))))
		}
		return true
	}
	if dry {
		p, err := read(ctx, s, key)
		if err == nil {
			try(p, p.now)
		}
		return lacks, free, err
	}
	if err := change(ctx, s, key, try); err != nil {
		return 0, time.Time{}, err
	}
	return lacks, free, nil
}

// read returns the places under a key that are not over.
func read(ctx context.Context, s *stream.Stream, key string) (*Places, error) {
	p, now, err := stream.ReadDocument(ctx, s, key, reader[Places](key))
	if err == nil {
		err = p.broken
	}
	if err != nil {
		return nil, fmt.Errorf("read the places of %s: %w", key, err)
	}
	p.drop(now)
	return p, nil
}

func change(ctx context.Context, s *stream.Stream, key string, change func(p *Places, now time.Time) bool) error {
	err := stream.ChangeDocument(ctx, s, key, kept, reader[Places](key), func(p *Places, now time.Time) (bool, error) {
		return p.broken == nil && change(p, now) || p.redated, p.broken
	})
	if err != nil {
		return fmt.Errorf("change the places of %s: %w", key, err)
	}
	return nil
}

// Room says in which budgets a Service has a place, or could have one.
type Room struct {
	Class, Cluster bool
	Free           time.Time // when a place is free in the first full budget; zero: unknown
}

// Spend takes a place for a Service in the budgets of its class and of the cluster, or in neither, and reports which have one. No budget
// gives out more places than it has. A dry call takes none.
func Spend(ctx context.Context, s *stream.Stream, dry bool, cluster, class, uid string, ofClass, ofCluster int) (Room, error) {
	lacks, free, err := take(ctx, s, BudgetKey(cluster), uid, dry, want{class, ofClass, ClassWindow}, want{"", min(ofCluster, MostServices), ClusterWindow})
	if err != nil {
		return Room{}, err
	}
	return Room{Class: lacks > 0, Cluster: lacks > 1, Free: free}, nil
}

// Spent returns the ends of all places in the budget of a cluster ("") and in those of its classes, the next one first.
func Spent(ctx context.Context, s *stream.Stream, cluster string) (map[string][]time.Time, error) {
	p, err := read(ctx, s, BudgetKey(cluster))
	if err != nil {
		return nil, err
	}
	spent := map[string][]time.Time{}
	for class, taken := range p.Taken {
		for _, end := range slices.Sorted(maps.Values(taken)) {
			spent[class] = append(spent[class], time.Unix(end, 0))
		}
	}
	return spent, nil
}

// Left is how many Services may still be written.
type Left struct {
	Cluster int                  // within an hour
	Class   map[string]int       // within 10 minutes, by class
	Free    map[string]time.Time // of a spent budget, by class or "" for the cluster's: when a place is free
}

// PlacesLeft returns what is left of a cluster's budgets. ofCluster returns the cluster's budget for a number of Services.
func PlacesLeft(ctx context.Context, s *stream.Stream, cluster string, classes []string, ofClass int, ofCluster func(services int) int) (Left, error) {
	view, err := s.View(ctx, event.CountKey(cluster))
	if err != nil {
		return Left{}, fmt.Errorf("read how many Services there are: %w", err)
	}
	count, err := ServicesIn(view, cluster)
	if err != nil {
		return Left{}, err
	}
	spent, err := Spent(ctx, s, cluster)
	if err != nil {
		return Left{}, err
	}
	p := Left{Class: map[string]int{}, Free: map[string]time.Time{}}
	left := func(class string, of int) int {
		ends := spent[class]
		if of > 0 && len(ends) >= of {
			p.Free[class] = ends[len(ends)-of]
		}
		return max(0, of-len(ends))
	}
	p.Cluster = left("", min(ofCluster(count), MostServices))
	for _, c := range classes {
		p.Class[c] = left(c, ofClass)
	}
	return p, nil
}

// ServicesIn returns how many LoadBalancer Services a cluster has by the exporter's count, from a view of the count's key; 0 if not counted yet.
func ServicesIn(view stream.View, cluster string) (int, error) {
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

// Claim takes a place of a resource for an owner for ttl and reports whether the owner has one. A dry call takes none.
func Claim(ctx context.Context, s *stream.Stream, dry bool, resource string, of int, owner string, ttl time.Duration) (bool, error) {
	lacks, _, err := take(ctx, s, ClaimKey(resource), owner, dry, want{"", of, ttl})
	return err == nil && lacks > 0, err
}

// Lock takes the only place of a resource until unlock, or for ttl, and reports whether it did; never twice at once, even for one caller.
// Unlock is never nil.
func Lock(ctx context.Context, s *stream.Stream, resource, who string, ttl time.Duration) (unlock func(), held bool, err error) {
	owner := who + "/" + rand.Text() // a late unlock finds no place of this name, whoever has the resource then
	held, err = Claim(ctx, s, false, resource, 1, owner, ttl)
	if !held {
		return func() {}, false, err
	}
	return func() { // also of a cancelled run; if it fails, the place expires
		_ = change(context.WithoutCancel(ctx), s, ClaimKey(resource), func(p *Places, _ time.Time) bool {
			_, has := p.Taken[""][owner]
			delete(p.Taken[""], owner)
			return has
		})
	}, true, nil
}

// LockTargets takes the locks of all targets, in one order against deadlocks, or none, and reports whether it did. A dry call only checks.
// Unlock is never nil.
func LockTargets(ctx context.Context, s *stream.Stream, dry bool, targets []string, who string, ttl time.Duration) (unlock func(), held bool, err error) {
	var unlocks []func()
	unlock = func() {
		for _, u := range unlocks {
			u()
		}
	}
	for _, t := range slices.Compact(slices.Sorted(slices.Values(targets))) {
		u, key := func() {}, "target."+t
		if dry {
			held, err = Claim(ctx, s, true, key, 1, who, 0)
		} else {
			u, held, err = Lock(ctx, s, key, who, ttl)
		}
		if unlocks = append(unlocks, u); err != nil {
			err = fmt.Errorf("lock %s: %w", t, err)
		}
		if err != nil || !held {
			unlock()
			return func() {}, false, err
		}
	}
	return unlock, true, nil
}

// Reserve reserves the next moment for a resync in a cluster, at least that long after the one before, and returns how long it is until then.
func Reserve(ctx context.Context, s *stream.Stream, cluster string, every time.Duration) (time.Duration, error) {
	var wait time.Duration // as in take
	err := change(ctx, s, BudgetKey(cluster), func(p *Places, now time.Time) bool {
		at := now
		if next := p.Resync.Add(every); next.After(now) && next.Before(now.Add(kept)) {
			at = next
		}
		p.Resync, wait = at, at.Sub(now)
		return true
	})
	if err != nil {
		return 0, err
	}
	return wait, nil
}
