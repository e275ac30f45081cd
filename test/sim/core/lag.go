package core

import (
	"maps"
	"slices"
	"time"
)

// A Lag is how late the cloud is. The zero value is a cloud without delays.
type Lag struct {
	Jobs   Duration `json:"jobs,omitempty"`   // duration of an asynchronous NLB job
	Tags   Duration `json:"tags,omitempty"`   // until lists show changed tags and find new resources by tag
	FreeIP Duration `json:"freeIp,omitempty"` // until a vSwitch shows its free addresses
	Routes Duration `json:"routes,omitempty"` // until a new route is available
	Addons Duration `json:"addons,omitempty"` // duration of an add-on's upgrade
	Quotas Duration `json:"quotas,omitempty"` // until an application for a quota is approved; 0: it stays pending
}

// A Trail has the previous values that are still shown.
type Trail[T any] []past[T]

type past[T any] struct {
	until time.Time
	was   T
}

// At returns the value shown at a time; is is the current one.
func (t Trail[T]) At(now time.Time, is T) T {
	for _, p := range slices.Backward(t) {
		if !now.Before(p.until) {
			return is
		}
		is = p.was
	}
	return is
}

// Leave records the value of an object before it changes, and drops values that are no longer shown.
func Leave[T any](trails map[string]Trail[T], id string, now time.Time, late Duration, was T) {
	if late <= 0 {
		return
	}
	t := slices.DeleteFunc(trails[id], func(p past[T]) bool { return !now.Before(p.until) })
	trails[id] = append(t, past[T]{until: now.Add(time.Duration(late)), was: was})
}

// Tagging records the tags of a resource before they change.
func (s *State) Tagging(id string, tags map[string]string) {
	Leave(s.tagTrail, id, s.Now(), s.Lag.Tags, maps.Clone(tags))
}

// SeenTags returns the tags that lists show for a resource.
func (s *State) SeenTags(id string, tags map[string]string) map[string]string {
	if len(s.tagTrail) == 0 {
		return tags
	}
	return s.tagTrail[id].At(s.Now(), tags)
}
