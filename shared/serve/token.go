package serve

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
)

// Tokens returns what callers of an endpoint must show, as LBREMEDY_ENDPOINT_TOKEN and the
// file that LBREMEDY_ENDPOINT_TOKEN_FILE names say; nil if neither is set. The file holds
// a token on each line, so that a new one can be good before the old one ends, and is
// read for each request: a mounted Secret changes in place.
func Tokens(getenv func(string) string) func() ([]string, error) {
	fixed, file := getenv("LBREMEDY_ENDPOINT_TOKEN"), getenv("LBREMEDY_ENDPOINT_TOKEN_FILE")
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

// guarded reports whether callers must show a token.
func (d *Endpoint) guarded() bool { return d.Tokens != nil || d.JWT != nil }

// admit returns nil if the caller shows a token that is good, else the status to
// answer with and why. Without a setting for tokens whoever reaches the endpoint may call.
func (d *Endpoint) admit(r *http.Request) (status int, err error) {
	if !d.guarded() {
		return 0, nil
	}
	kind, shown, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(kind, "Bearer") {
		shown = ""
	}
	err = d.known(r.Context(), strings.TrimSpace(shown))
	switch {
	case err == nil:
		return 0, nil
	case errors.Is(err, errStranger):
		return http.StatusUnauthorized, err
	}
	return http.StatusServiceUnavailable, err // it says nothing of the caller: the request must come again
}

// known returns nil if a token is one of the fixed ones or a good JSON Web Token. It
// is an errStranger if it is neither.
func (d *Endpoint) known(ctx context.Context, shown string) error {
	var away error // what kept it from knowing
	if d.Tokens != nil {
		good, err := d.Tokens()
		if err == nil && among(good, shown) {
			return nil
		}
		away = err
	}
	stranger := fmt.Errorf("%w: it is none of those that are known", errStranger)
	if shown == "" {
		stranger = fmt.Errorf("%w: the request shows none", errStranger)
	}
	if d.JWT != nil && shown != "" {
		err := d.JWT.Verify(ctx, shown)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, errStranger):
			stranger = err
		default:
			away = err
		}
	}
	if away != nil {
		return away
	}
	return stranger
}

// among reports whether a token is one of the good ones. Sums are of one length, so
// that the time of comparing tells nothing.
func among(good []string, shown string) bool {
	sum, known := sha256.Sum256([]byte(shown)), 0
	for _, t := range good {
		one := sha256.Sum256([]byte(t))
		known |= subtle.ConstantTimeCompare(sum[:], one[:])
	}
	return known == 1 && shown != ""
}
