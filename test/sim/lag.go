package sim

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

// A trail is what something was, as long as those who ask are still told so.
type trail[T any] []past[T]

type past[T any] struct {
	until time.Time
	was   T
}

// at returns what those who ask at this time are told, of what is so now.
func (t trail[T]) at(now time.Time, is T) T {
	for _, p := range slices.Backward(t) {
		if !now.Before(p.until) {
			return is
		}
		is = p.was
	}
	return is
}

// leave notes what something was before it changes, and forgets what nobody is
// told any more.
func leave[T any](trails map[string]trail[T], id string, now time.Time, late Duration, was T) {
	if late <= 0 {
		return
	}
	t := slices.DeleteFunc(trails[id], func(p past[T]) bool { return !now.Before(p.until) })
	trails[id] = append(t, past[T]{until: now.Add(time.Duration(late)), was: was})
}

// tagging notes the tags of a resource before they change.
func (s *State) tagging(id string, tags map[string]string) {
	leave(s.tagTrail, id, s.now(), s.Lag.Tags, maps.Clone(tags))
}

// seenTags returns the tags of a resource as lists show them.
func (s *State) seenTags(id string, tags map[string]string) map[string]string {
	if len(s.tagTrail) == 0 {
		return tags
	}
	return s.tagTrail[id].at(s.now(), tags)
}

// spend changes how many addresses of a vSwitch are free.
func (s *State) spend(v *VSwitch, n int) {
	leave(s.freeTrail, v.ID, s.now(), s.Lag.FreeIP, *v.Free)
	v.Free = new(*v.Free + n)
}

// seenFree returns how many addresses of a vSwitch are free, as it is shown.
func (s *State) seenFree(v *VSwitch) int { return s.freeTrail[v.ID].at(s.now(), *v.Free) }
