package courier

import (
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/lbremedy/lbremedy/shared/retry"
)

// An end is what becomes of a message in hand, as metrics say it.
type end string

const (
	acked    end = "acked"    // the function has it
	later    end = "later"    // the function needs time, or did not answer
	refused  end = "refused"  // the route is wrong, whatever the message: it comes again
	dead     end = "dead"     // the function can never handle it
	returned end = "returned" // given back, since the courier ends or its routes change
)

// judge says what an answer means. Every 2xx is an acknowledgement, 202 too: who
// accepts a message has taken it over; functions of ours
// answer 204, and only when the outcome is in the journal.
//
// What says that the message itself is wrong ends it: nothing about it changes by
// waiting. All else that is no success comes again, and of that, what can't come from
// the message speaks against the route: not to be known (401, 403), a wrong address
// (404, 405, a redirect), another cluster's function (421) and all that nobody has thought of.
func judge(status int) end {
	switch status {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity:
		return dead
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly, http.StatusTooManyRequests:
		return later
	}
	switch {
	case status >= 200 && status < 300:
		return acked
	case status >= 500:
		return later
	}
	return refused
}

// How long a message waits until it comes again.
const (
	firstPause   = time.Second      // after a failure, doubled with each delivery
	firstRefusal = 10 * time.Second // the same where a person has to put the route right
	longestPause = 5 * time.Minute
	longestAsked = time.Hour             // that a function may ask for
	atOnce       = 10 * time.Millisecond // of what is given back
)

// pause returns how long the n-th delivery of a message, from 1, is away: between half
// of the growing pause and all of it, so that messages that failed together don't
// come together.
func pause(first time.Duration, n uint64) time.Duration {
	return retry.Spread(retry.Pause(first, longestPause, n))
}

// asked returns how long a function wants a message to stay away, an hour at most. Up to a
// tenth is added, so that messages that were sent away together don't come back together.
func asked(h http.Header, now time.Time) (time.Duration, bool) {
	d, ok := retry.After(h, now, longestAsked)
	return min(d+rand.N(d/10+1), longestAsked), ok
}
