package remedy

import (
	"cmp"
	"reflect"
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
	Zone  Zone           `json:"zone,omitzero"`
	// Once.
	Start time.Time `json:"start,omitzero"`
	End   time.Time `json:"end,omitzero"`
}

// A Zone is a time zone, in JSON by its name. The zero value is UTC.
type Zone struct{ *time.Location }

// MarshalText writes the name.
func (z Zone) MarshalText() ([]byte, error) { return []byte(z.String()), nil }

// Same reports whether two freezes are at the same times.
func (f Freeze) Same(o Freeze) bool {
	zones := f.Zone.String() == o.Zone.String()
	f.Zone, o.Zone = Zone{}, Zone{}
	return zones && reflect.DeepEqual(f, o)
}

func (f Freeze) over(now time.Time) (time.Time, bool) {
	if !f.Start.IsZero() || !f.End.IsZero() {
		return f.End, !now.Before(f.Start) && now.Before(f.End)
	}
	// On a day when the clocks change, midnight counts by the present offset, so that a freeze begins at its time of day.
	_, seconds := now.In(cmp.Or(f.Zone.Location, time.UTC)).Zone()
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
