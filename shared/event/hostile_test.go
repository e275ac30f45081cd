package event

import (
	"strings"
	"time"
)

// hostile are messages made to be slow to read or to break a reader.
func hostile() []string {
	big := func(s string) string { return strings.Repeat(s, 1<<20/len(s)) }
	texts := []string{
		big("a"), big(" "), big("\xff"), big("世"), big("["), big("data: {"), big("respheaders: map["), big("code: "), big("code:x"),
		big("message: "), big("https://"), big("[SDKError] "), big("Error syncing load balancer ["), big("alicloud: "),
		big("the quota of "), big("(combined from similar events): "), big("DryRun:"), big("Signature="), big("LTAI"), big("eyJ"),
		big("bearer "), big("://a@"), big("token='"), big("-----BEGIN PRIVATE KEY-----"), big("authorization: a "), big(`\"`), big("STS.a"),
		"\xff\xfe", "\x00", "", "[", "data: {", "got [", "code:", "Error syncing load balancer [", "%", "\\",
	}
	return texts
}

// within reports whether f takes no longer than the limit, in the best of some
// runs: what others do on the machine is not its fault.
func within(limit time.Duration, f func()) (time.Duration, bool) {
	least := time.Hour
	for range 20 {
		begin := time.Now()
		f()
		if least = min(least, time.Since(begin)); least <= limit*slowdown {
			return least, true
		}
	}
	return least, false
}

// For the tests of the shipped table, which imports this package.
var (
	Hostile = hostile
	Within  = within
)
