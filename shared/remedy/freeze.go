package remedy

import (
	"slices"
	"time"

	"github.com/lbremedy/lbremedy/shared/say"
)

// A Freeze is a time without writes: on some days each week, or once.
type Freeze struct {
	Name string `json:"name,omitzero"`
	// Weekly: from and until count from midnight of each day, in the zone. An end not after the beginning is on the next day.
	Days  []time.Weekday `json:"days,omitzero"`
	From  time.Duration  `json:"from,omitzero"`
	Until time.Duration  `json:"until,omitzero"`
	Zone  []Offset       `json:"zone,omitzero"`
	// Once.
	Start time.Time `json:"start,omitzero"`
	End   time.Time `json:"end,omitzero"`
}

// An Offset is a time zone's difference to UTC until a moment. Functions have no time zone data.
type Offset struct {
	Until   time.Time `json:"until,omitzero"` // zero: for ever
	Seconds int       `json:"seconds,omitzero"`
}

// Offsets returns the offsets of a zone for ten years from now.
func Offsets(zone *time.Location, now time.Time) []Offset {
	var all []Offset
	for t := now; t.Before(now.AddDate(10, 0, 0)); {
		_, end := t.In(zone).ZoneBounds()
		_, seconds := t.In(zone).Zone()
		all = append(all, Offset{Until: end.UTC(), Seconds: seconds})
		if end.IsZero() {
			all[len(all)-1].Until = time.Time{}
			break
		}
		t = end
	}
	return all
}

func (f Freeze) over(now time.Time) (time.Time, bool) {
	if !f.Start.IsZero() || !f.End.IsZero() {
		return f.End, !now.Before(f.Start) && now.Before(f.End)
	}
	seconds := 0
	for _, o := range f.Zone {
		if seconds = o.Seconds; o.Until.IsZero() || now.Before(o.Until) {
			break
		}
	}
	here := now.In(time.FixedZone("", seconds))
	length := f.Until - f.From
	if length <= 0 {
		length += 24 * time.Hour
	}
	// A freeze that began yesterday may last until today.
	for _, day := range []time.Time{here.AddDate(0, 0, -1), here} {
		midnight := time.Date(day.Year(), day.Month(), day.Day(), 0, 0, 0, 0, here.Location())
		start := midnight.Add(f.From)
		if slices.Contains(f.Days, day.Weekday()) && !now.Before(start) && now.Before(start.Add(length)) {
			return start.Add(length), true
		}
	}
	return time.Time{}, false
}

// Frozen returns the freeze in force at now, and its end; an empty text without one.
func (p Policy) Frozen(now time.Time) (say.Text, time.Time) {
	var last time.Time
	var name string
	for _, f := range p.Freezes {
		if end, ok := f.over(now); ok && end.After(last) {
			last, name = end, f.Name
		}
	}
	if name == "" {
		return nil, last
	}
	return say.F("The freeze %q blocks all writes until %s.", name, last.Format(time.RFC3339)), last
}
