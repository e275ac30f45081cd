package cli

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/lbremedy/lbremedy/shared/say"
)

// Duration reads a duration as time.ParseDuration does, or a number of days, such as 7d.
func Duration(s string) (time.Duration, error) {
	days, ok := strings.CutSuffix(s, "d")
	if !ok {
		return time.ParseDuration(s)
	}
	n, err := strconv.ParseFloat(days, 64)
	if err != nil || !(math.Abs(n) < 100_000) { // more than a duration can hold, or no number
		return 0, say.Errorf("%q is not a number of days", days)
	}
	return time.Duration(n * 24 * float64(time.Hour)), nil
}

// A Moment is a flag for a point in time: how long ago, or when.
type Moment struct {
	time.Time
	text string
}

// String returns what was given.
func (m *Moment) String() string { return m.text }

// Type is what the help says of the value.
func (m *Moment) Type() string { return "time" }

// Set reads how long ago, such as 90m or 7d, or a date or time of RFC 3339.
func (m *Moment) Set(s string) error {
	m.text = s
	if d, err := Duration(s); err == nil && d >= 0 {
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
