package stream

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A budget of N is N keys. Who creates one of them has a place, and the server lets one
// create it, so that of any number of processes at most N hold one. What a process
// remembers of the keys saves it from trying those that are taken; it gives nobody a
// place, and a budget is not spent before the bucket has been asked.
//
// It asks for what is new since it last asked. To list all places for each that is
// taken made a thousand Services that fail at once cost a million keys.

const (
	placesFresh = 10 * time.Second // what is remembered is good for so long to choose a place by
	placesWhole = markerTTL / 2    // then all is read again: the marks of what is removed do not last
	placesSure  = time.Second      // before it is said that no place is free: one whose time is over leaves no mark
	placesKept  = 10 * time.Minute // a budget that nobody asked about for so long is forgotten
)

// places is what a process remembers of the places of a budget.
type places struct {
	base string        // of the keys: "claim." and the budget's name
	turn chan struct{} // held by who reads; a reading serves all who wait for one

	mu    sync.Mutex
	taken map[string]place // by key
	holds map[string]int   // how many places an owner has
	whole time.Time        // when the last reading of all began
	began time.Time        // when the last reading began,
	err   error            // and how it ended
	after uint64           // up to where it got
	link  *link            // the connection on which it was made
	asked time.Time        // when somebody last asked
}

// A place is a key of a budget.
type place struct {
	owner    string
	sequence uint64
	held     bool // not a mark that it was
}

// budgets are the places that a process remembers, by the name of their budget.
type budgets struct {
	mu  sync.Mutex
	all map[string]*places
}

// of returns the places of a budget.
func (b *budgets) of(key string) *places {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	p, ok := b.all[key]
	if !ok {
		for other, q := range b.all {
			if q.idle(now) {
				delete(b.all, other)
			}
		}
		p = &places{base: "claim." + key, turn: make(chan struct{}, 1)}
		if b.all == nil {
			b.all = map[string]*places{}
		}
		b.all[key] = p
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = now
	return p
}

func (p *places) idle(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return now.Sub(p.asked) > placesKept
}

// Claim takes one of the slots of a budget for owner until ttl is over, and reports
// whether it holds one; true too if owner held one before. However many ask,
// at most `of` owners hold a slot.
func (s *Stream) Claim(ctx context.Context, key string, of int, owner string, ttl time.Duration) (bool, error) {
	ok, err := s.claim(ctx, s.budgets.of(key), of, owner, ttl)
	if err != nil {
		return false, fmt.Errorf("claim a slot of %s: %w", key, err)
	}
	return ok, nil
}

// Claimable reports what Claim would, and takes no slot.
func (s *Stream) Claimable(ctx context.Context, key string, of int, owner string) (bool, error) {
	p := s.budgets.of(key)
	asked := time.Now()
	for _, sure := range []time.Duration{placesWhole, placesSure} {
		if err := s.know(ctx, p, asked, sure); err != nil {
			return false, fmt.Errorf("look for a slot of %s: %w", key, err)
		}
		if mine, room := p.room(of, owner); mine || room {
			return true, nil
		}
	}
	return false, nil
}

// ReadPlaces reads the places of budgets that will soon be claimed, where what is remembered of them may be too old by then. Who
// claims meanwhile waits for it, and meets its error, if it has one.
func (s *Stream) ReadPlaces(ctx context.Context, keys ...string) {
	for _, key := range keys {
		_ = s.know(ctx, s.budgets.of(key), time.Now().Add(-placesFresh/2), placesWhole)
	}
}

// claim is Claim. That owner has a place already and that none is left is said on what has
// been read since it was asked; what is remembered is enough to try one.
func (s *Stream) claim(ctx context.Context, p *places, of int, owner string, ttl time.Duration) (bool, error) {
	began := time.Now()
	if err := s.know(ctx, p, began.Add(-placesFresh), placesWhole); err != nil {
		return false, err
	}
	tried := map[string]bool{}
	for try, read := 0, false; ; try++ {
		mine, room := p.room(of, owner)
		slot := ""
		if room && !mine {
			slot = p.free(of, owner, tried)
		}
		if slot == "" {
			if read {
				return mine, nil
			}
			read = true
			if err := s.know(ctx, p, began, placesSure); err != nil {
				return false, err
			}
			continue
		}
		sequence, err := s.create(ctx, slot, []byte(owner), ttl)
		if err == nil {
			p.note(slot, place{owner, sequence, true})
			return true, nil
		}
		if !errors.Is(err, ErrConflict) {
			return false, err
		}
		// Somebody was faster, perhaps another run for this owner. A replica that lags does
		// not show that yet, so that the slot is not tried again.
		tried[slot], read = true, true
		if err := s.know(ctx, p, time.Now(), placesWhole); err != nil {
			return false, err
		}
		if err := pause(ctx, try); err != nil {
			return false, err
		}
	}
}

// room reports whether owner holds a place, and whether one of so many may be left.
func (p *places) room(of int, owner string) (mine, room bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.holds[owner] > 0, len(p.taken) < of // also where the budget was larger when they were taken
}

// free returns a key of the budget that nobody is known to hold; empty if there is none.
// Owners begin at different ones, so that they don't all fight for the first, and the
// same owner begins at the same one in all processes.
func (p *places) free(of int, owner string, tried map[string]bool) string {
	h := fnv.New32a()
	h.Write([]byte(owner))
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range of {
		slot := p.base + "." + strconv.Itoa((int(h.Sum32()%uint32(of))+i)%of)
		if _, ok := p.taken[slot]; !ok && !tried[slot] {
			return slot
		}
	}
	return ""
}

// note remembers a place, or that it is free, if nothing later is known of it.
func (p *places) note(slot string, now place) {
	p.mu.Lock()
	defer p.mu.Unlock()
	was, ok := p.taken[slot]
	if ok && now.sequence <= was.sequence {
		return
	}
	if ok {
		delete(p.taken, slot)
		if p.holds[was.owner]--; p.holds[was.owner] == 0 {
			delete(p.holds, was.owner)
		}
	}
	if now.held {
		p.taken[slot] = now
		p.holds[now.owner]++
	}
}

// know has the places read as they were at a time or later, and all of them, not only what is new, no longer ago than
// whole. Of all who ask at once, one reads for those whose time is before it began. That it could not is told to those who
// wait for it, and to nobody who asks later.
func (s *Stream) know(ctx context.Context, p *places, at time.Time, whole time.Duration) error {
	asked := time.Now()
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	p.mu.Lock()
	if l := s.link.Load(); l != p.link {
		p.link, p.whole, p.began = l, time.Time{}, time.Time{} // it may be another server, which had less
	}
	began := time.Now()
	all := began.Sub(p.whole) > whole
	if p.began.After(at) && (p.err != nil && p.began.After(asked) || p.err == nil && !all) {
		err := p.err
		p.mu.Unlock()
		return err
	}
	after := p.after
	if all {
		after = 0
	}
	p.mu.Unlock()

	found := map[string]place{}
	last := after
	subject, err := subjectOf(p.base)
	if err == nil {
		err = s.EachAfter(ctx, bucketStream, subject+".*", after, func(m Message) error {
			last = max(last, m.Sequence)
			if m.Subject != "" { // who tries the key finds that it is taken
				found[keyOf(strings.TrimPrefix(m.Subject, bucketPrefix))] = place{string(s.value(m)), m.Sequence, live(m)}
			}
			return nil
		})
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err // of who reads, and of nobody else
	}
	p.mu.Lock()
	p.began, p.err = began, err
	if err == nil {
		p.after = last
	}
	if err == nil && all {
		p.whole, p.taken, p.holds = began, map[string]place{}, map[string]int{}
	}
	p.mu.Unlock()
	if err != nil {
		return err
	}
	for slot, now := range found {
		p.note(slot, now)
	}
	return nil
}
