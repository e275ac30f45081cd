package core

import (
	"maps"
	"slices"
	"time"
)

// A Lag says how late the cloud is. The zero value is a cloud that is never
// late.
type Lag struct {
	Jobs   Duration `json:"jobs,omitempty"`   // that an asynchronous job of NLB takes
	Tags   Duration `json:"tags,omitempty"`   // after which lists show a change of tags, and find what was just created by them
	FreeIP Duration `json:"freeIp,omitempty"` // after which a vSwitch shows how many addresses are free
	Routes Duration `json:"routes,omitempty"` // after which a route that was made is available
	Addons Duration `json:"addons,omitempty"` // that an upgrade of an add-on takes
	Quotas Duration `json:"quotas,omitempty"` // after which an application for a quota is agreed to; 0: it pends until it is edited
}

// A Trail is what something was, as long as those who ask are still told so.
type Trail[T any] []past[T]

type past[T any] struct {
	until time.Time
	was   T
}

// At returns what those who ask at this time are told, of what is so now.
func (t Trail[T]) At(now time.Time, is T) T {
	for _, p := range slices.Backward(t) {
		if !now.Before(p.until) {
			return is
		}
		is = p.was
	}
	return is
}

// Leave notes what something was before it changes, and forgets what nobody is
// told any more.
func Leave[T any](trails map[string]Trail[T], id string, now time.Time, late Duration, was T) {
	if late <= 0 {
		return
	}
	t := slices.DeleteFunc(trails[id], func(p past[T]) bool { return !now.Before(p.until) })
	trails[id] = append(t, past[T]{until: now.Add(time.Duration(late)), was: was})
}

// Tagging notes the tags of a resource before they change.
func (s *State) Tagging(id string, tags map[string]string) {
	Leave(s.tagTrail, id, s.Now(), s.Lag.Tags, maps.Clone(tags))
}

// SeenTags returns the tags of a resource as lists show them.
func (s *State) SeenTags(id string, tags map[string]string) map[string]string {
	if len(s.tagTrail) == 0 {
		return tags
	}
	return s.tagTrail[id].At(s.Now(), tags)
}
