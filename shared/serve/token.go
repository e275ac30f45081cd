package serve

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"
)

// Tokens returns what callers of a door must show, as LBREMEDY_DOOR_TOKEN and the
// file that LBREMEDY_DOOR_TOKEN_FILE names say; nil if neither is set. The file holds
// a token on each line, so that a new one can be good before the old one ends, and is
// read for each request: a mounted Secret changes in place.
func Tokens(getenv func(string) string) func() ([]string, error) {
	fixed, file := getenv("LBREMEDY_DOOR_TOKEN"), getenv("LBREMEDY_DOOR_TOKEN_FILE")
	if fixed == "" && file == "" {
		return nil
	}
	return func() ([]string, error) {
		var all []string
		if fixed != "" {
			all = append(all, fixed)
		}
		if file != "" {
			text, err := os.ReadFile(file)
			if err != nil {
				return nil, fmt.Errorf("read the tokens of callers: %w", err)
			}
			all = append(all, strings.Fields(string(text))...)
		}
		if len(all) == 0 {
			return nil, errors.New("read the tokens of callers: the file holds none")
		}
		return all, nil
	}
}

// admit reports whether the caller shows a token, and answers if not. Without tokens
// the platform in front of the door decides who may call.
func (d *Door) admit(w http.ResponseWriter, r *http.Request) bool {
	if d.Tokens == nil {
		return true
	}
	good, err := d.Tokens()
	if err != nil {
		d.refuse(w, http.StatusServiceUnavailable, err.Error())
		return false
	}
	kind, shown, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	// Sums are of one length, so that the time of comparing tells nothing.
	sum, known := sha256.Sum256([]byte(strings.TrimSpace(shown))), 0
	for _, t := range good {
		one := sha256.Sum256([]byte(t))
		known |= subtle.ConstantTimeCompare(sum[:], one[:])
	}
	if known == 1 && strings.EqualFold(kind, "Bearer") {
		return true
	}
	w.Header().Set("WWW-Authenticate", "Bearer")
	d.refuse(w, http.StatusUnauthorized, "the request shows no token that is known here")
	return false
}

// sending is how long a caller may take to send its request.
const sending = 30 * time.Second

// within limits the reading of a request, and returns what ends the limit: a run may
// take longer than its request.
func within(w http.ResponseWriter) func() {
	c := http.NewResponseController(w)
	if c.SetReadDeadline(time.Now().Add(sending)) != nil {
		return func() {} // no connection stands behind it
	}
	return func() { _ = c.SetReadDeadline(time.Time{}) }
}
