package command

import (
	"time"

	"github.com/lbremedy/lbremedy/shared/regex"
)

// Clock is how people read a time: in the zone of their machine, which it names.
const Clock = "2006-01-02 15:04:05 MST"

// stamp matches a time that a sentence names. One in a value or a command has quotes or an equals sign beside it.
var stamp = regex.New(`(^|[\s(（：\p{Han}])(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d))($|[\s.,;:)。，；）\p{Han}])`)

// Local returns a sentence for people with the times that it names in the zone of the reader. Data has them in UTC.
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
