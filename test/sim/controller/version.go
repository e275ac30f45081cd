package controller

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// defaultVersion is the release that the controller plays unless told otherwise.
const defaultVersion = "v2.14.0"

// oldest is the first release of which anything is known that can be played:
// before it, a failed sync wrote no event.
const oldest = "v1.9.3.276"

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

// networkAnnotation returns the name of the annotation that asks for a kind of
// network: it was another one before v2.12.
func (v version) networkAnnotation() string {
	if v.since("v2.12.0") {
		return "network-type"
	}
	return "slb-network-type"
}

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
