package cloud

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/lbremedy/lbremedy/shared/event"
)

const (
	// alone is how many looks a second may search a product separately, and twice as many in a burst. Each searches for load balancers twice.
	// An account gets 50 such calls a second from CLB and 20 from NLB, and the controller needs some.
	alone = 5
	// wholly is the longest list of load balancers that looks share: five pages, once a moment.
	wholly = 500
	// apart is how long looks search separately after the region could not be listed.
	apart = time.Minute
)

// A sharing is many looks at once. Looks above a rate share the vSwitches and a list of the region's load balancers, which all of them read.
type sharing struct {
	mu    sync.Mutex
	alone map[string]*rate.Limiter // by product
	until map[string]time.Time     // until when looks search separately
}

func newSharing() *sharing {
	return &sharing{alone: map[string]*rate.Limiter{}, until: map[string]time.Time{}}
}

// takes reports whether one more look would be too many to search separately.
func (k *sharing) takes(product string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.alone[product] == nil {
		k.alone[product] = rate.NewLimiter(alone, 2*alone)
	}
	return !k.alone[product].Allow() && time.Now().After(k.until[product])
}

func (k *sharing) parted(product string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return !time.Now().After(k.until[product])
}

func (k *sharing) parts(product string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.until[product] = time.Now().Add(apart)
}

// A session keeps what a look has decided for each product, so that equal questions get equal answers.
type session struct {
	mu     sync.Mutex
	shares map[string]bool // by product
}

func (l *session) shared(product string, among *sharing) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	shares, ok := l.shares[product]
	if !ok {
		shares = among.takes(product)
		l.shares[product] = shares
	}
	return shares
}

// A regional is a list of load balancers of a region, with their indices by tag and by name.
type regional struct {
	list any
	all  int
	by   map[string][]int
}

func tagged(key, value string) string { return "tag " + key + "=" + value }

func named(name string) string { return "name " + name }

// regionOf indexes the load balancers of a region. Each must show its tags: one without may have the wanted tag. An empty list is an error:
// perhaps the load balancers are only visible to a search.
func regionOf(list any, all int, marks func(i int) (name string, tags map[string]string)) (*regional, error) {
	if all == 0 {
		return nil, lack("load balancers")
	}
	r := &regional{list: list, all: all, by: map[string][]int{}}
	for i := range all {
		name, tags := marks(i)
		if tags == nil {
			return nil, lack("tags")
		}
		r.by[named(name)] = append(r.by[named(name)], i)
		for key, value := range tags {
			r.by[tagged(key, value)] = append(r.by[tagged(key, value)], i)
		}
	}
	return r, nil
}

// search returns the region's load balancers with this tag or name; callers must not change them. ok is false if the look must search
// separately. list returns all of the region, and marks the name and tags of one.
func search[T any](
	ctx context.Context, c *client, product, action, by string,
	list func(context.Context, *client) ([]T, error), marks func(T) (name string, tags map[string]string),
) (found []T, ok bool) {
	r := c.regional(ctx, product, action, by, func(ctx context.Context, c *client) (*regional, error) {
		whole, err := list(ctx, c)
		if err != nil {
			return nil, err
		}
		return regionOf(whole, len(whole), func(i int) (string, map[string]string) { return marks(whole[i]) })
	})
	if r == nil {
		return nil, false
	}
	for _, i := range r.by[by] {
		found = append(found, r.list.([]T)[i])
	}
	return found, true
}

// regional returns what search needs to know of a region, or nil.
func (c *client) regional(ctx context.Context, product, action, by string, list func(context.Context, *client) (*regional, error)) *regional {
	if c.session == nil || by == "" || !c.session.shared(product, c.sharing) {
		return nil
	}
	began := time.Now()
	e := &Error{Product: product, Action: action}
	all := "all of " + product
	answer, failure := c.own.recall(ctx, all, e, func() (said, *Error) {
		return c.recent.recall(ctx, all, e, func() (said, *Error) {
			if c.sharing.parted(product) { // while this look waited for the list
				return said{}, e.bad(lack("a list"))
			}
			plain := *c
			plain.own, plain.session, plain.atMost = nil, nil, wholly
			r, err := list(event.WithReads(ctx, func(event.Read) {}), &plain)
			if err != nil && ctx.Err() == nil {
				c.sharing.parts(product)
			}
			if err != nil {
				return said{}, e.bad(err)
			}
			return said{is: r}, nil
		})
	})
	if failure != nil {
		c.session.mu.Lock()
		defer c.session.mu.Unlock()
		c.session.shares[product] = false
		return nil
	}
	r := answer.is.(*regional)
	event.TellRead(ctx, product+":"+action, began, fmt.Appendf(nil, "%d of the region's %d have the %s", len(r.by[by]), r.all, by), nil)
	return r
}
