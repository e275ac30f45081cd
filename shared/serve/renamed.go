package serve

import (
	"log/slog"
	"strings"
)

// What the names of the endpoint's variables began with, and begin with now.
const oldPrefix, newPrefix = "LBREMEDY_DOOR_", "LBREMEDY_ENDPOINT_" // until the next release

// renamed returns an environment in which a variable that is set by its old name alone has
// that value by its new name. It says so in the log, once for each.
func renamed(getenv func(string) string, log *slog.Logger) func(string) string {
	said := map[string]bool{}
	return func(name string) string {
		value := getenv(name)
		rest, ours := strings.CutPrefix(name, newPrefix)
		if value != "" || !ours {
			return value
		}
		old := oldPrefix + rest
		if value = getenv(old); value != "" && !said[old] {
			said[old] = true
			log.Warn("a variable is set by its old name, which the next release does not read", "reason", old+" is called "+name)
		}
		return value
	}
}
