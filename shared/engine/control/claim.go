package control

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/lbremedy/lbremedy/shared/stream"
)

const (
	longest   = time.Hour       // that a place of a claim may be taken for
	kept      = 24 * time.Hour  // a document that nobody has changed for so long is removed; all its places are over
	mostOwner = 256             // bytes
	leave     = 5 * time.Second // to give a place back
)

// A Claim holds who has the places of a resource, such as the free addresses of a vSwitch.
type Claim struct {
	V        int              `json:"v"`
	Resource string           `json:"resource"`
	Places   map[string]int64 `json:"places,omitempty"` // their ends, in Unix seconds, by owner

	broken  error
	redated bool // a place is from a server whose clock was ahead
}

// ClaimKey returns the key of the places of a resource.
func ClaimKey(resource string) string { return "claim." + resource }

func readClaim(resource string) func(value []byte) *Claim {
	return func(value []byte) *Claim {
		c := &Claim{V: version, Resource: resource}
		if value == nil {
			return c
		}
		*c = Claim{}
		err := strict(value, c)
		if err == nil && (c.V != version || c.Resource != resource || len(c.Places) > MostPlaces) {
			err = fmt.Errorf("it has version %d, is of %.80q and has %d places", c.V, c.Resource, len(c.Places))
		}
		if err != nil {
			c.broken = unreadable(ClaimKey(resource), err)
		}
		return c
	}
}

// seconds returns a time so long after now in whole seconds, rounded up.
func seconds(now time.Time, d time.Duration) int64 { return now.Add(d + time.Second - 1).Unix() }

// drop drops the places that are over.
func (c *Claim) drop(now time.Time) {
	for owner, end := range c.Places {
		if most := seconds(now, longest); end > most {
			c.Places[owner], c.redated = most, true
		}
		if end <= now.Unix() {
			delete(c.Places, owner)
		}
	}
}

// Take takes one of the places of a resource for an owner, for so long, and reports whether it has one. An owner that has a
// place keeps it, at least for so long from now.
func Take(ctx context.Context, s *stream.Stream, resource string, of int, owner string, ttl time.Duration) (bool, error) {
	if owner == "" || len(owner) > mostOwner || ttl <= 0 || ttl > longest {
		return false, fmt.Errorf("claim a place in %s: %.80q can't have one for %s", resource, owner, ttl)
	}
	var ok bool
	err := changeClaim(ctx, s, resource, func(c *Claim, now time.Time) bool {
		c.drop(now)
		end, has := c.Places[owner]
		if ok = has || len(c.Places) < min(of, MostPlaces); !ok || end >= seconds(now, ttl) {
			return false
		}
		if c.Places == nil {
			c.Places = map[string]int64{}
		}
		c.Places[owner] = seconds(now, ttl)
		return true
	})
	if err != nil {
		return false, fmt.Errorf("claim a place in %s: %w", resource, err)
	}
	return ok, nil
}

// Free reports whether a resource with so many places has one that nobody has taken.
func Free(ctx context.Context, s *stream.Stream, resource string, of int) (bool, error) {
	c, now, err := stream.ReadDocument(ctx, s, ClaimKey(resource), readClaim(resource))
	if err == nil {
		err = c.broken
	}
	if err != nil {
		return false, fmt.Errorf("look for a place in %s: %w", resource, err)
	}
	c.drop(now)
	return len(c.Places) < of, nil
}

// GiveBack gives the place of an owner back, if it still has one.
func GiveBack(ctx context.Context, s *stream.Stream, resource, owner string) error {
	err := changeClaim(ctx, s, resource, func(c *Claim, _ time.Time) bool {
		_, has := c.Places[owner]
		delete(c.Places, owner)
		return has
	})
	if err != nil {
		return fmt.Errorf("give back a place in %s: %w", resource, err)
	}
	return nil
}

// Lock takes the only place of a resource, and reports whether it did. It is taken until unlock is called, or for so long.
// Two calls never have it at once, whoever calls. Unlock is never nil.
func Lock(ctx context.Context, s *stream.Stream, resource, who string, ttl time.Duration) (unlock func() error, held bool, err error) {
	owner := who + "/" + rand.Text() // a late call of unlock finds no place of this name, whoever has the resource then
	held, err = Take(ctx, s, resource, 1, owner, ttl)
	if err != nil || !held {
		return func() error { return nil }, false, err
	}
	return func() error {
		// A run that was cancelled must not leave its place behind.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leave)
		defer cancel()
		return GiveBack(ctx, s, resource, owner)
	}, true, nil
}

func changeClaim(ctx context.Context, s *stream.Stream, resource string, change func(c *Claim, now time.Time) bool) error {
	if len(resource) > mostText {
		return errors.New("the name of the resource is too long")
	}
	return stream.ChangeDocument(ctx, s, ClaimKey(resource), kept, readClaim(resource), func(c *Claim, now time.Time) (bool, error) {
		if c.broken != nil {
			return false, c.broken
		}
		return change(c, now) || c.redated, nil
	})
}
