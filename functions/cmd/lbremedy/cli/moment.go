package cli

import (
	"time"

	"github.com/prometheus/common/model"

	"github.com/lbremedy/lbremedy/shared/say"
)

// Duration reads a duration such as 90m or 7d.
func Duration(s string) (time.Duration, error) {
	d, err := model.ParseDuration(s)
	return time.Duration(d), err
}

// A Moment is a flag for a point in time: an age, or a time.
type Moment struct {
	time.Time
	text string
}

// String returns what was given.
func (m *Moment) String() string { return m.text }

// Type returns the name of the value in the help.
func (m *Moment) Type() string { return "time" }

// Set reads an age, such as 90m or 7d, or a date or time of RFC 3339.
func (m *Moment) Set(s string) error {
	m.text = s
	if d, err := Duration(s); err == nil {
		m.Time = time.Now().Add(-d)
		return nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04", "2006-01-02 15:04", time.DateOnly} {
		if t, err := time.ParseInLocation(layout, s, time.Local); err == nil {
			m.Time = t
			return nil
		}
	}
	return say.Errorf("want how long ago, such as 90m or 7d, or a time such as 2006-01-02T15:04")
}
