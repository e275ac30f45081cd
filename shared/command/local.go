package command

import (
	"time"

	"github.com/lbremedy/lbremedy/shared/regex"
)

// Clock is the time format for people: in the local time zone, which it names.
const Clock = "2006-01-02 15:04:05 MST"

// stamp matches a time in a sentence. Times in values or commands are next to quotes or an equals sign.
var stamp = regex.New(`(^|[\s(（：\p{Han}])(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d))($|[\s.,;:)。，；）\p{Han}])`)

// Local converts the times in a sentence from UTC to the reader's time zone.
func Local(s string) string {
	return stamp().ReplaceAllStringFunc(s, func(found string) string {
		m := stamp().FindStringSubmatch(found)
		at, err := time.Parse(time.RFC3339, m[2])
		if err != nil {
			return found
		}
		return m[1] + at.Local().Format(Clock) + m[3]
	})
}
