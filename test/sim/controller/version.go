package controller

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

const defaultVersion = "v2.14.0"

// oldest is the first release with known behaviour that can be simulated.
const oldest = "v1.9.3.101"

type version []int

func parseVersion(s string) (version, error) {
	if s == "" {
		s = defaultVersion
	}
	number, _, _ := strings.Cut(strings.TrimPrefix(s, "v"), "-")
	var v version
	for part := range strings.SplitSeq(number, ".") {
		n, err := strconv.Atoi(part)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("version %q is not of the form v2.14.0", s)
		}
		v = append(v, n)
	}
	if !v.since(oldest) {
		return nil, fmt.Errorf("version %q is older than %s, the first that can be played", s, oldest)
	}
	return v, nil
}

// goesOn reports whether a sync continues after an attribute could not be changed, and checks the dates of certificates. Both
// came with v2.6.0, and with v2.4.4 on the old branch.
func (v version) goesOn() bool {
	return v.since("v2.6.0") || v.since("v2.4.4") && !v.since("v2.5.0")
}

// first reports whether v is of the first generation, before v2.0.1, which was a different program.
func (v version) first() bool { return !v.since("v2.0.1") }

// since reports whether v is at least release, which must be well formed.
func (v version) since(release string) bool {
	var r version
	for part := range strings.SplitSeq(strings.TrimPrefix(release, "v"), ".") {
		n, err := strconv.Atoi(part)
		if err != nil {
			panic("controller: malformed release " + release)
		}
		r = append(r, n)
	}
	return slices.Compare(v, r) >= 0
}
