package controller

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// defaultVersion is the release that the controller plays unless told otherwise.
const defaultVersion = "v2.14.0"

// oldest is the first release of which anything is known that can be played.
const oldest = "v1.9.3.101"

// A version is the release of the cloud-controller-manager that is played, as
// its numbers. What differs between releases is asked where it differs.
type version []int

// parseVersion reads a release such as v2.14.0 or v1.9.3.376.
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

// goesOn reports whether a sync goes on to the groups and the listeners when an
// attribute of the load balancer could not be changed, and looks at the dates of
// certificates. Both came with v2.6.0, and with v2.4.4 for those who stayed.
func (v version) goesOn() bool {
	return v.since("v2.6.0") || v.since("v2.4.4") && !v.since("v2.5.0")
}

// first reports whether v is of the first generation, before v2.0.1, which was
// another program.
func (v version) first() bool { return !v.since("v2.0.1") }

// since reports whether v is release, which must be well formed, or a later one.
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
